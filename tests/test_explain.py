"""explain() and its command line: real messages, old and new, and texts that are none of these."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from typing import Any

import pytest

from dltutor.__main__ import main
from dltutor.diagnosis.messages import explain
from dltutor.failures import CATALOGUE

# Each with the failure modes of which one must come first.
MESSAGES: list[tuple[str, set[str]]] = [
    ("OSError: image file is truncated (129 bytes not processed)", {"corrupt_images"}),
    ("PIL.UnidentifiedImageError: cannot identify image file 'a.jpg'", {"corrupt_images"}),
    ("AttributeError: 'NoneType' object has no attribute 'numel'", {"none_in_batch"}),
    (
        "TypeError: default_collate: batch must contain tensors, numpy arrays, numbers, dicts or "
        "lists; found <class 'NoneType'>",
        {"none_in_batch"},
    ),
    (
        "TypeError: __init__() missing 1 required positional argument: 'b'\n"
        '  File "torch/_utils.py", line 369, in reraise\n    raise self.exc_type(msg)\n'
        "TypeError: __init__() missing 1 required positional argument: 'b'",
        {"lost_exception_type"},
    ),
    ("RuntimeError: Caught TwoArg in DataLoader worker process 1.", {"lost_exception_type"}),
    (
        'File "multiprocessing/queues.py", line 244, in _feed\n  obj = _ForkingPickler.dumps(obj)\n'
        "AttributeError: Can't pickle local object 'f.<locals>.Local'",
        {"unpicklable_exception", "unpicklable_batch"},
    ),
    (
        'File "multiprocessing/queues.py", line 244, in _feed\n  obj = _ForkingPickler.dumps(obj)\n'
        "TypeError: cannot pickle 'generator' object",
        {"unpicklable_batch"},
    ),
    (
        "RuntimeError: Cowardly refusing to serialize non-leaf tensor which requires_grad",
        {"unpicklable_batch"},
    ),
    (
        "RuntimeError: stack expects each tensor to be equal size, but got [1] at entry 0 and [2]",
        {"ragged_batch"},
    ),
    ("RuntimeError: Trying to resize storage that is not resizable", {"ragged_batch"}),
    ("RuntimeError: DataLoader worker (pid 77) is killed by signal: Killed.", {"dead_worker"}),
    (
        "RuntimeError: DataLoader worker (pid 77) is killed by signal: Segmentation fault.",
        {"dead_worker"},
    ),
    ("RuntimeError: DataLoader worker (pid(s) 4711, 12) exited unexpectedly", {"dead_worker"}),
    (
        "ERROR: Unexpected segmentation fault encountered in worker.",
        {"dead_worker"},
    ),
    (
        'File "torch/multiprocessing/reductions.py", line 541, in rebuild_storage_fd\n'
        'File "multiprocessing/resource_sharer.py", line 86, in get_connection\n'
        "FileNotFoundError: [Errno 2] No such file or directory",
        {"misleading_exit"},
    ),
    (
        'File "torch/multiprocessing/reductions.py", line 541, in rebuild_storage_fd\n'
        "  fd = df.detach()\nConnectionResetError: [Errno 104] Connection reset by peer",
        {"misleading_exit"},
    ),
    ("AssertionError: can only test a child process", {"leftover_iterator"}),
    (
        "zipfile.BadZipFile: File name in directory '263.bin' and header b'40.bin' differ.",
        {"shared_file_offset"},
    ),
    ("zipfile.BadZipFile: Bad magic number for file header", {"shared_file_offset"}),
    ("TypeError: cannot pickle '_io.TextIOWrapper' object", {"unpicklable_handle"}),
    ("TypeError: cannot pickle 'sqlite3.Connection' object", {"unpicklable_handle"}),
    ("TypeError: h5py objects cannot be pickled", {"unpicklable_handle"}),
    ("TypeError: cannot pickle 'Environment' object", {"unpicklable_handle"}),
    (
        "AttributeError: Can't get attribute 'D' on <module '__main__' (built-in)>",
        {"main_only_class"},
    ),
    (
        "RuntimeError: An attempt has been made to start a new process before the current process "
        "has finished its bootstrapping phase.",
        {"missing_main_guard"},
    ),
    ("TypeError: 'NoneType' object is not subscriptable", {"global_only_in_parent"}),
    (
        "RuntimeError: unable to resize file <filename not specified> to the right size: "
        "Invalid argument (22)",
        {"generator_attribute"},
    ),
    (
        "AssertionError: daemonic processes are not allowed to have children",
        {"children_of_workers"},
    ),
    (
        "DeprecationWarning: This process (pid=9) is multi-threaded, use of fork() may lead to "
        "deadlocks in the child.",
        {"held_lock", "lost_thread", "openmp_after_fork"},
    ),
    (
        "RuntimeError: unable to allocate shared memory(shm) for file </torch_1_2_0>: No space "
        "left on device (28)",
        {"shm_exhausted"},
    ),
    (
        "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient "
        "shared memory (shm).",
        {"shm_exhausted"},
    ),
    (
        "RuntimeError: DataLoader worker (pid 1234) is killed by signal: Bus error. It is possible "
        "that dataloader's workers are out of shared memory. Please try to raise your shared "
        "memory limit.",
        {"shm_exhausted"},
    ),
    ("RuntimeError: received 0 items of ancdata", {"too_many_open_files"}),
    (
        "RuntimeError: Too many open files. Communication with the workers is no longer possible. "
        "Please increase the limit using `ulimit -n` in the shell",
        {"too_many_open_files"},
    ),
    ("OSError: [Errno 24] Too many open files", {"too_many_open_files"}),
    (
        "RuntimeError: unable to open shared memory object </torch_1_2_0> in read-write mode: Too "
        "many open files (24)",
        {"too_many_open_files"},
    ),
    (
        "UserWarning: Length of IterableDataset <X> was reported to be 8 (when accessing "
        "len(dataloader)), but 9 samples have been fetched.",
        {"repeated_stream", "wrong_length"},
    ),
    (
        "UserWarning: This DataLoader will create 3 worker processes in total. Our suggested max "
        "number of worker in current system is 2",
        {"oversubscribed"},
    ),
]

NONE_OF_THESE = [
    "KeyError: 'label'",
    "Epoch 3: loss 0.41, 120 images/s",
    "ModuleNotFoundError: No module named 'timm'",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB",
]


def names(log: str) -> list[str]:
    return [match.failure.name for match in explain(log)]


@pytest.mark.parametrize(
    ("message", "accepted"), MESSAGES, ids=[message[:40] for message, _ in MESSAGES]
)
def test_a_real_message_names_its_failure_mode_first(message: str, accepted: set[str]) -> None:
    assert names(message)[:1] and names(message)[0] in accepted, names(message)


@pytest.mark.parametrize(
    ("message", "accepted"), MESSAGES, ids=[message[:40] for message, _ in MESSAGES]
)
def test_case_line_breaks_and_a_log_around_it_do_not_matter(
    message: str, accepted: set[str]
) -> None:
    log = "Epoch 1: 0.3\n" * 200 + message.upper().replace(" ", "\n  ") + "\nbye\n"
    assert names(log)[:1] and names(log)[0] in accepted, names(log)


@pytest.mark.parametrize("text", [*NONE_OF_THESE, "", " \n"])
def test_a_text_that_is_none_of_these_names_nothing(text: str) -> None:
    assert explain(text) == ()


def test_every_failure_mode_that_raises_is_found_by_its_own_symptom() -> None:
    for failure in CATALOGUE:
        if failure.texts and "Error: " in failure.symptom:
            assert failure.name in names(failure.symptom), failure.name


def test_the_words_that_were_found_are_told_longest_first() -> None:
    [match] = explain("image file is truncated, then: cannot identify image file")
    assert match.words == ("cannot identify image file", "image file is truncated")


def test_list_names_every_failure_mode(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [[f.lesson, f.name] for f in CATALOGUE]


def test_explain_tells_lesson_and_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "OSError: image file is", "truncated (11 bytes not processed)"]) == 0
    told = capsys.readouterr().out
    for words in ("corrupt_images (lesson 01)", "why ", "do ", "dltutor show corrupt_images"):
        assert words in told


def test_explain_reads_a_log_on_standard_input_whatever_its_bytes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = b"\xff\xfe 12 %\nOSError: image file is truncated\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(log)))
    assert main(["explain"]) == 0
    assert "corrupt_images" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["KeyError: 'label'", " "])
def test_explain_says_so_when_nothing_matches(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", text]) == 1
    assert capsys.readouterr().out.startswith(("No failure mode", "There is nothing to explain"))


def test_show_tells_broken_and_mended_as_one_story(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "none_in_batch"]) == 0
    told = capsys.readouterr().out
    parts = [
        "start method fork",
        "== Broken ==",
        "Raised: AttributeError",
        "== Why ==",
        "== Mended",
    ]
    parts += ["Finished", "== What to do ==", "Broken: raised: AttributeError", "Mended: finished"]
    places = [told.index(part) for part in parts]
    assert places == sorted(places)


def test_show_names_the_nearest_for_a_name_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "corrupt_image"]) == 2
    assert "got 'corrupt_image': did you mean corrupt_images" in capsys.readouterr().err
    assert main(["show", "xyz"]) == 2
    assert "python -m dltutor list" in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["shw"], ["show"], ["show", "x", "--start-method", "no"]])
def test_wrong_words_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        main(words)
    assert refused.value.code == 2
    assert "usage: python -m dltutor" in capsys.readouterr().err


def test_who_reads_only_its_first_lines_sees_no_traceback() -> None:
    read, write = os.pipe()
    os.close(read)  # as `| head` does when it has seen enough
    command = [sys.executable, "-m", "dltutor", "list"]
    try:
        done: Any = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, timeout=60)
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


def test_it_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "dltutor", "list"]
    done: Any = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout.startswith("01  corrupt_images")
    assert done.stderr == ""
