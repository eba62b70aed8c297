"""Test that `explain` names the right failure mode for real messages, and none for ordinary logs.

The last tests check that messages.toml, the table that `explain` searches, is complete.
"""

from __future__ import annotations

import re
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from cells import source
from PIL import Image
from torch.utils.data import (
    ConcatDataset,
    DataLoader,
    Dataset,
    DistributedSampler,
    TensorDataset,
    WeightedRandomSampler,
    random_split,
)
from unseen_messages import ORDINARY, UNSEEN

from dltutor import explain
from dltutor.diagnosis.logs import plain
from dltutor.diagnosis.messages import advice, anchor, messages
from dltutor.failures import CATALOG, FACTS, NAMES, Says
from notebooks import NOTEBOOKS, read

START = NOTEBOOKS / "00-start-here.ipynb"

# Real messages, by the failure mode that `explain` must name first. If a key has several failure
# modes, any of them may come first. unseen_messages.py has more messages.
MESSAGES: dict[str, list[str]] = {
    "none_in_batch": ["AttributeError: 'NoneType' object has no attribute 'numel'"],
    "lost_exception_type": [
        "TypeError: __init__() missing 1 required positional argument: 'b'\n"
        '  File "torch/_utils.py", line 369, in reraise\n    raise self.exc_type(msg)\n'
        "TypeError: __init__() missing 1 required positional argument: 'b'"
    ],
    "unpicklable_exception unpicklable_batch": [
        'File "multiprocessing/queues.py", line 244, in _feed\n  obj = _ForkingPickler.dumps(obj)\n'
        "AttributeError: Can't pickle local object 'f.<locals>.Local'"
    ],
    "unpicklable_handle lost_thread": [
        "_pickle.PicklingError: Can't pickle local object <function WorkerContext.prepare.<locals>"
        ".create_context at 0x7f>\nwhen serializing dict item '_create_worker_context'"
    ],
    "unpicklable_batch": [
        "RuntimeError: Cowardly refusing to serialize non-leaf tensor which requires_grad"
    ],
    "ragged_batch": ["RuntimeError: Trying to resize storage that is not resizable"],
    "dead_worker": [
        "RuntimeError: DataLoader worker (pid 77) is killed by signal: Segmentation fault.",
        "ERROR: Unexpected segmentation fault encountered in worker.",
    ],
    "misleading_exit": [
        'File "torch/multiprocessing/reductions.py", line 541, in rebuild_storage_fd\n'
        'File "multiprocessing/resource_sharer.py", line 86, in get_connection\n'
        "FileNotFoundError: [Errno 2] No such file or directory"
    ],
    "leftover_iterator": ["AssertionError: can only test a child process"],
    "shared_file_offset": [
        "zipfile.BadZipFile: File name in directory '263.bin' and header b'40.bin' differ.",
        "zipfile.BadZipFile: Bad magic number for file header",
    ],
    "unpicklable_handle": ["TypeError: h5py objects cannot be pickled"],
    "missing_main_guard": [
        "RuntimeError: An attempt has been made to start a new process before the current process "
        "has finished its bootstrapping phase."
    ],
    "global_only_in_parent": ["TypeError: 'NoneType' object is not subscriptable"],
    "generator_attribute": [
        "RuntimeError: unable to resize file <filename not specified> to the right size: "
        "Invalid argument (22)"
    ],
    "held_lock lost_thread openmp_after_fork": [
        "DeprecationWarning: This process (pid=9) is multi-threaded, use of fork() may lead to "
        "deadlocks in the child."
    ],
    "shm_exhausted": [
        "RuntimeError: unable to allocate shared memory(shm) for file </torch_1_2_0>: No space "
        "left on device (28)"
    ],
    "too_many_open_files": [
        "RuntimeError: received 0 items of ancdata",
        (
            "RuntimeError: Too many open files. Communication with the workers is no longer "
            "possible. Please increase the limit using `ulimit -n` in the shell"
        ),
        (
            "RuntimeError: unable to open shared memory object </torch_1_2_0> in read-write mode: "
            "Too many open files (24)"
        ),
    ],
    "idle_workers": [
        "Too many dataloader workers: 4 (max is dataset.num_shards=3). Stopping 1 dataloader "
        "workers."
    ],
    "repeated_stream wrong_length": [
        "UserWarning: Length of IterableDataset <X> was reported to be 8 (when accessing "
        "len(dataloader)), but 9 samples have been fetched."
    ],
}

NONE_OF_THESE = [
    "KeyError: 'label'",
    "Epoch 3: loss 0.41, 120 images/s",
    "ModuleNotFoundError: No module named 'timm'",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB",
]


# In a log, three dots may stand for some words of a message, but `explain` needs enough of the
# message's other words. So it must name nothing for these logs.
DOTS_FOR_ANYTHING = [
    "FileNotFoundError: ... No such file or directory: 'x.jpg'",
    "Loading 3 images... failed to read the first\nEpoch 1 ... IndexError: ... size",
    "the node exited unexpectedly",
]


class Nothing(Dataset[int]):
    """A dataset without a `__getitem__`."""


NUMBERS: Any = torch.arange(8)
Loader: Any = DataLoader

# Calls that torch or numpy refuses. No failure mode causes these errors.
REFUSED: list[Callable[[], object]] = [
    lambda: Loader(NUMBERS, prefetch_factor=2),
    lambda: Loader(NUMBERS, persistent_workers=True),
    lambda: Loader(NUMBERS, multiprocessing_context="fork"),
    lambda: Loader(NUMBERS, num_workers=1, multiprocessing_context="thread"),
    lambda: Loader(NUMBERS, num_workers=-1),
    lambda: Loader(NUMBERS, shuffle=True, sampler=[1, 2]),
    lambda: Loader(NUMBERS, batch_size=4, batch_sampler=[[1], [2]]),
    lambda: Loader(NUMBERS, batch_size=None, drop_last=True),
    lambda: setattr(Loader(NUMBERS), "batch_size", 8),
    lambda: Loader(NUMBERS[:0], shuffle=True),
    lambda: Loader(NUMBERS, batch_size=0),
    lambda: WeightedRandomSampler(torch.ones(2, 3), 4),
    lambda: TensorDataset(NUMBERS, NUMBERS[1:]),
    lambda: ConcatDataset([]),
    lambda: random_split(NUMBERS, [3, 4]),
    lambda: Nothing()[0],
    lambda: next(iter(Loader([torch.eye(3).to_sparse()] * 2))),
    lambda: next(iter(Loader([Image.new("L", (2, 2))] * 2))),
    lambda: Loader(NUMBERS, batch_sampler=[[1]]).sampler.set_epoch(1),
    lambda: DistributedSampler(NUMBERS, num_replicas=2, rank=2),
    lambda: DistributedSampler(NUMBERS),
    lambda: next(Loader(NUMBERS)),
    lambda: Loader(NUMBERS)[0],
    lambda: iter(Loader(NUMBERS)).next(),
    lambda: [*Loader(NUMBERS, num_workers=1, worker_init_fn=lambda worker: np.random.seed(-1))],
]

# The words of such errors, or similar ones, from programs that use no loader.
NO_LOADER = [
    "RuntimeError: Default process group has not been initialized, please make sure to call "
    "init_process_group.",
    "ValueError: Seed must be between 0 and 2**32 - 1",
    "AssertionError: Size mismatch between tensors",
    "TypeError: Net.__init__() got an unexpected keyword argument 'generator'",
    "TypeError: 'NoneType' object is not subscriptable",
    "AttributeError: 'NoneType' object has no attribute 'id'",
    "KeyError: 'state'",
]


def names(log: str) -> list[str]:
    return [match.failure.name for match in explain(log)]


REAL = [(text, {*names.split()}) for names, texts in MESSAGES.items() for text in texts]
REAL += [(text, {name}) for name, texts in UNSEEN.items() for text in texts]


def misnamed(logged: Callable[[str], str]) -> dict[str, list[str]]:
    """Return a dict from each message that `explain` misnames to the failure modes that it names.

    `logged` makes a log from a message. `explain` has to name one of the message's failure modes
    first.
    """
    found = {message: names(logged(message)) for message, _ in REAL}
    return {
        message: found[message] for message, right in REAL if not right & set(found[message][:1])
    }


def test_a_real_message_names_its_failure_mode_first() -> None:
    assert misnamed(str) == {}


def test_case_line_breaks_and_a_log_around_it_do_not_matter() -> None:
    def logged(message: str) -> str:
        return "Epoch 1: 0.3\n" * 200 + message.upper().replace(" ", "\n  ") + "\nbye\n"

    assert misnamed(logged) == {}


@pytest.mark.parametrize(
    "wrapped",
    [
        "\x1b[31m\x1b[1m{}\x1b[0m",
        "^[[31m{}^[[0m",
        "[31m{}[0m",
        "2026-03-01T04:05:06.789Z stderr F [rank3]: {}",
        "trainer-1  | {}",
        "\u2502 {} \u2502",
        '{{"level": "error", "message": "step 12\\n{}\\n"}}',
        "\u2018{}\u2019",
    ],
)
def test_what_a_terminal_or_a_logger_adds_does_not_matter(wrapped: str) -> None:
    for message, name in (
        ("OSError: image file is truncated (12 bytes not processed)", "corrupt_images"),
        ("AttributeError: 'NoneType' object has no attribute 'numel'", "none_in_batch"),
        ("RuntimeError: received 0 items of ancdata", "too_many_open_files"),
    ):
        assert names(wrapped.format(message)) == [name]


def test_a_text_that_is_none_of_these_names_nothing() -> None:
    texts = [*NONE_OF_THESE, *ORDINARY, *DOTS_FOR_ANYTHING, "", " \n"]
    assert {text: names(text) for text in texts if explain(text)} == {}


@pytest.mark.parametrize("call", REFUSED)
def test_an_argument_that_torch_refuses_gets_advice(call: Callable[[], object]) -> None:
    with pytest.raises((AssertionError, AttributeError, RuntimeError, TypeError, ValueError)) as it:
        call()
    log = "".join(traceback.format_exception(it.value))
    assert names(log) == []
    assert advice(log)


def test_without_a_loader_there_is_no_advice() -> None:
    assert {log: advice(log) for log in [*NO_LOADER, *NONE_OF_THESE] if advice(log)} == {}


def test_every_failure_mode_that_raises_is_found_by_its_own_symptoms() -> None:
    for failure in CATALOG:
        if isinstance(failure.sign, Says) and failure.sign.end == "raised":
            assert names(" / ".join(failure.symptoms))[0] == failure.name


def test_three_dots_stand_for_what_was_left_out() -> None:
    for quoted, name in (
        ("DataLoader worker (pid(s) ...) exited unexpectedly", "dead_worker"),
        ("DataLoader worker (pid \u2026) is killed by signal: Killed.", "dead_worker"),
        ("DataLoader worker [...] exited unexpectedly", "dead_worker"),
        ("Can't get attribute ... on <module '__main__'>", "main_only_class"),
        ("cannot pickle ... object", "unpicklable_handle"),
        ("An attempt ... to start a new process before", "missing_main_guard"),
        ("received ... items of ancdata", "too_many_open_files"),
    ):
        for log in (quoted, f"Epoch 1 ... done\nI get {quoted} after 3 epochs, why?\n"):
            assert names(log)[0] == name, log


def test_every_message_in_the_table_by_symptom_of_lesson_00_is_explained() -> None:
    rows = re.findall(r"^\| (.*) \| \[(\d\d) .*\|$", source("on-call", read(START)), re.MULTILINE)
    for row, lesson in rows:
        for message in re.findall("`([^`]+ [^`]+)`", row):
            assert explain(message)[0].failure.lesson == lesson, message


def test_the_words_that_were_found_are_told_longest_first() -> None:
    [match] = explain("image file is truncated, then: cannot identify image file")
    assert match.words == ("cannot identify image file", "image file is truncated")


def test_a_match_carries_facts_source_and_how_to_tell() -> None:
    [match] = explain("PIL.UnidentifiedImageError: cannot identify image file 'a.jpg'")
    assert match.failure is FACTS[NAMES.index("corrupt_images")]
    assert (match.source, match.tell) == ("Pillow src/PIL/Image.py", "")
    assert "Read the same records with num_workers=0" in explain("Bad CRC-32 for file 'a'")[0].tell


def test_a_likelier_cause_comes_before_a_less_likely_one() -> None:
    found = names("zipfile.BadZipFile: Bad CRC-32 for file 'a'")
    assert found == ["shared_file_offset", "lazy_but_touched"]


def test_an_end_that_many_failures_share_comes_after_what_says_more() -> None:
    end = "RuntimeError: DataLoader worker (pid(s) 12, 13) exited unexpectedly"
    assert names(end)[0] == "dead_worker"
    for text, name in [
        ("AttributeError: Can't get attribute 'D' on <module '__main__'>", "main_only_class"),
        ("An attempt has been made to start a new process before the", "missing_main_guard"),
    ]:
        assert names(f"{text}\n{end}")[0] == name


def test_of_two_failures_in_a_log_both_are_named_and_the_last_comes_first() -> None:
    log = "image file is truncated\n" + "Epoch 2\n" * 50 + "received 0 items of ancdata\n"
    assert names(log) == ["too_many_open_files", "corrupt_images"]


def test_the_words_in_a_copy_or_a_checkpoint_are_not_a_loaders() -> None:
    text = "TypeError: cannot pickle '_thread.lock' object"
    assert names(text)[0] == "unpicklable_handle"
    copying = 'File "/usr/lib/python3.11/copy.py", line 161, in deepcopy\n  rv = reductor(4)\n'
    assert names(copying + text) == []


def test_the_last_word_of_a_shell_is_heard() -> None:
    assert names("epoch 3: loss 0.12\nKilled\n")[0] == "dead_worker"
    for ordinary in ("Killed the old run\nepoch 3: loss 0.12\n", "12 trials, 3 trials killed\n"):
        assert names(ordinary) == []


def test_a_long_log_is_read_at_its_beginning_and_its_end_in_bounded_time() -> None:
    line = "INFO DataLoader worker process 0 in _feed collate torch/serialization.py 'x' object\n"
    log = "received 0 items of ancdata\n" + line * 200_000 + "image file is truncated\n"
    started = time.perf_counter()
    assert names(log) == ["corrupt_images", "too_many_open_files"]
    assert time.perf_counter() - started < 60  # a naive search would take minutes


@pytest.mark.parametrize("log", [b"ancdata", None, RuntimeError("ancdata")])
def test_what_is_not_a_text_is_refused(log: object) -> None:
    with pytest.raises(TypeError, match=r"takes the text of a log, got \w+"):
        explain(log)  # type: ignore[arg-type]


def test_a_text_that_stands_there_often_is_found_where_its_context_is() -> None:
    copying = "File \"copy.py\", line 161, in deepcopy\nTypeError: cannot pickle 'module' object\n"
    log = copying * 200 + "Epoch 1\n" * 2000
    assert names(log) == []
    feeding = "File \"queues.py\", line 244, in _feed\nTypeError: cannot pickle 'module' object\n"
    assert names(log + feeding)[0] == "unpicklable_batch"


def test_there_are_enough_texts_and_each_stands_there_once() -> None:
    told = [(message.after, message.text) for message in messages() if message.causes]
    assert len(set(told)) == len(told) >= 150


def test_a_text_is_complete() -> None:
    for message in messages():
        causes = message.causes
        assert set(causes) <= set(NAMES) and len(set(causes)) == len(causes), message.text
        assert message.source and not re.search(message.text, ""), message.text
        if len(causes) > 1:
            assert message.tell.endswith("."), f"{message.text}: what tells the causes apart?"
        assert not re.search(r"(?<!\\)\.[*+]", message.text), f"{message.text}: is not bounded"


def test_the_piece_that_is_looked_for_first_is_in_whatever_a_text_matches() -> None:
    logs = [plain(text) for text, _ in REAL]
    for message in messages():
        piece = anchor(message.text)
        assert len(piece) >= 4, message.text
        pattern = re.compile(message.text, re.IGNORECASE)
        matches = [found[0].lower() for log in logs if (found := pattern.search(log))]
        assert all(piece in match for match in matches), message.text


def test_a_backslash_in_a_class_does_not_hide_where_the_class_ends() -> None:
    assert anchor(r"result \(concurrent[/\\]futures[/\\]_base\.py:\d+\)") == "result (concurrent"
    for separator in ("/", "\\"):
        stack = [
            "wait (threading.py:320)",
            f"result (concurrent{separator}futures{separator}_base.py:451)",
            "__getitem__ (data.py:12)",
            "_worker_loop (torch/utils/data/_utils/worker.py:349)",
        ]
        assert (
            names('Thread 41 (idle): "MainThread"\n    ' + "\n    ".join(stack))[0] == "lost_thread"
        )


def test_every_failure_mode_that_ends_a_run_with_words_has_a_text() -> None:
    with_texts = {cause for message in messages() for cause in message.causes}
    for failure in CATALOG:
        if isinstance(failure.sign, Says):
            assert failure.name in with_texts, failure.name


def test_a_message_without_a_failure_mode_has_advice_beside_one_with_a_failure_mode() -> None:
    strides = "ValueError: At least one stride in the given numpy array is negative"
    died = "RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed."
    assert advice(strides) == advice(f"{strides}\n{died}", unnamed=True) != ""
    assert advice(died, unnamed=True) == ""
