"""Check that an Observation tells a short story that's the same on every run."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from dltutor.observation.memory.timeline import Timeline
from dltutor.observation.record import Frame, Worker
from dltutor.observation.report import Observation
from dltutor.observation.texts import fate, said, shorten_paths, signal_name, tidy

NOTHING = np.zeros(0)
FINISHED = {
    "end": "finished",
    "deadline": 30,
    "batches": 8,
    "samples": 16,
    "seconds": 0.123,
    "first_batch_seconds": 0.05,
    "last_batch_seconds": 0.12,
    "chain": (),
    "traceback": (),
    "raised_in_worker": None,
    "failed_worker": None,
    "workers": (Worker(0, 0), Worker(1, 0)),
    "stderr": "",
    "raw": "",
    "timeline": Timeline(NOTHING, NOTHING.astype(int), NOTHING, NOTHING, NOTHING),
}

WRAPPED = (
    "Caught ValueError in DataLoader worker process 1.\n"
    "Original Traceback (most recent call last):\n"
    '  File "/x/site-packages/torch/utils/data/_utils/worker.py", line 349, in _worker_loop\n'
    "    data = fetcher.fetch(index)\n"
    "           ^^^^^^^^^^^^^^^^^^^^\n"
    "ValueError: nine is bad\n"
)


def observation(**fields: Any) -> Observation:
    return Observation(**{**FINISHED, **fields})


def raised(**fields: Any) -> Observation:
    told = {
        "end": "raised",
        "batches": 1,
        "samples": 2,
        "chain": (("ValueError", WRAPPED),),
        "raised_in_worker": "ValueError",
        "failed_worker": 1,
        "workers": (Worker(0, None), Worker(1, None)),
        "traceback": (Frame("train/data.py", 9, "__getitem__", "raise ValueError"),),
    }
    return observation(**{**told, **fields})


STACK = (Frame("train/data.py", 17, "read", "lock.acquire()"), Frame("train/data.py", 3, "f"))

# Observations of runs that ended in different ways, each with its story.
STORIES: dict[str, tuple[Observation, str]] = {
    "finished": (
        observation(),
        "Finished\n"
        "  got      8 batches, 16 samples\n"
        "  workers  W0 ended with exit code 0\n"
        "           W1 ended with exit code 0",
    ),
    "raised in a worker": (
        raised(),
        "Raised: ValueError in W1\n"
        "  got      1 batch, 2 samples before that\n"
        "  error    ValueError: nine is bad\n"
        "  where    train/data.py, line 9, in __getitem__: raise ValueError\n"
        "  workers  W0 still running\n"
        "           W1 still running",
    ),
    "raised in main": (
        raised(
            chain=(("KeyError", "'label'"), ("ValueError", "")),
            raised_in_worker=None,
            failed_worker=None,
            workers=(),
        ),
        "Raised: KeyError in main\n"
        "  got    1 batch, 2 samples before that\n"
        "  error  KeyError: 'label'\n"
        "         ValueError\n"
        "  where  train/data.py, line 9, in __getitem__: raise ValueError",
    ),
    "with notes, and another type": (
        raised(
            chain=(("TypeError", "no"),),
            notes=("when serializing dict item 'thread'", "when serializing at 0x7f00deadbeef"),
        ),
        "Raised: ValueError in W1\n"
        "  got      1 batch, 2 samples before that\n"
        "  error    TypeError: no\n"
        "  notes    when serializing dict item 'thread'\n"
        "           when serializing\n"
        "  type     ValueError in the worker, TypeError in main\n"
        "  where    train/data.py, line 9, in __getitem__: raise ValueError\n"
        "  workers  W0 still running\n"
        "           W1 still running",
    ),
    # This story doesn't say how many batches arrived, what the error was, or where main was. That
    # depends on what main is doing when it notices that a worker died.
    "a worker died": (
        observation(
            end="worker died",
            batches=3,
            chain=(("RuntimeError", "DataLoader worker (pid 77) is killed by signal: Killed. "),),
            notes=("when serializing",),
            traceback=(Frame("train.py", 3, "main"),),
            workers=(Worker(0, -9), Worker(1, None)),
            stderr="ERROR: worker (pid 812) out of memory\n",
        ),
        "Worker died: W0 killed by SIGKILL (exit code -9)\n"
        "  workers  W0 killed by SIGKILL (exit code -9)\n"
        "           W1 still running\n"
        "  stderr   ERROR: worker out of memory",
    ),
    "hung": (
        observation(end="hung", deadline=0.5, workers=(Worker(0, None, STACK), Worker(1, None))),
        "Hung: stopped at its deadline of 0.5 s\n"
        "  got        8 batches, 16 samples before that\n"
        "  workers    W0 still running\n"
        "             W1 still running\n"
        "  W0 was at  train/data.py, line 17, in read: lock.acquire()\n"
        "             train/data.py, line 3, in f",
    ),
}


@pytest.mark.parametrize("end", STORIES)
def test_the_story_of_a_run_is_the_same_each_time(end: str) -> None:
    seen, story = STORIES[end]
    assert str(seen) == repr(seen) == story


def test_of_a_long_stderr_the_end_is_shown() -> None:
    story = str(observation(stderr="".join(f"line {i}\n" for i in range(40))))
    assert "(28 earlier lines)" in story and "line 28" in story and "line 39" in story
    assert "line 27" not in story


def test_html_tells_what_the_text_tells() -> None:
    seen = raised(stderr="<b>bold</b>")
    html = seen._repr_html_()
    assert "Raised: ValueError in W1" in html
    assert "&lt;b&gt;bold&lt;/b&gt;" in html and "<b>bold</b>" not in html


@pytest.mark.parametrize(
    ("exitcode", "name", "words"),
    [
        (None, None, "still running"),
        (0, None, "ended with exit code 0"),
        (3, None, "ended with exit code 3"),
        (-9, "SIGKILL", "killed by SIGKILL (exit code -9)"),
        (-11, "SIGSEGV", "killed by SIGSEGV (exit code -11)"),
        (-40, "signal 40", "killed by signal 40 (exit code -40)"),
    ],
)
def test_an_exit_code_in_words(exitcode: int | None, name: str | None, words: str) -> None:
    assert signal_name(exitcode) == name
    assert fate(exitcode) == words
    worker = Worker(3, exitcode)
    assert (worker.name, worker.signal, worker.fate) == ("W3", name, words)
    assert str(worker) == f"W3 {words}"


@pytest.mark.parametrize(
    ("kind", "message", "words"),
    [
        ("ValueError", "nine is bad", "ValueError: nine is bad"),
        ("ValueError", "", "ValueError"),
        ("ValueError", WRAPPED, "ValueError: nine is bad"),
        (
            "UnidentifiedImageError",
            WRAPPED.replace("ValueError: ", "PIL.U: "),
            "PIL.U: nine is bad",
        ),
        (
            "ValueError",
            WRAPPED.replace("nine is bad", "two things:\n  one\n  other"),
            "ValueError: two things:\n  one\n  other",
        ),
        (
            "ValueError",
            WRAPPED.replace(
                "ValueError: nine",
                "\nThe above exception was the direct cause of the "
                "following exception:\n\nTraceback (most recent call last):\n"
                '  File "x.py", line 1, in f\n    g()\nValueError: ten',
            ),
            "ValueError: ten is bad",
        ),
        ("ValueError", "Caught it.\nOriginal Traceback", ""),
    ],
)
def test_an_exception_is_told_as_the_end_of_its_traceback_has_it(
    kind: str, message: str, words: str
) -> None:
    assert said(kind, message) == words


# Leaving out parts of a string that differ between machines and runs.


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("/home/me/project/data/train.py", ".../data/train.py"),
        ('File "/home/me/project/data/train.py", line 3', 'File ".../data/train.py", line 3'),
        ("/tmp/ipykernel_12/345.py", "your cell"),
        ("/x/y/.venv/lib/python3.11/site-packages/torch/nn.py", "torch/nn.py"),
        ("/usr/lib/python3/dist-packages/PIL/Image.py", "PIL/Image.py"),
        ("/usr/lib/python3.11/threading.py", "threading.py"),
        ("'/tmp/dltutor-abc/circle/cut.jpg'", "'.../circle/cut.jpg'"),
        ("https://pytorch.org/docs/stable/data.html", "https://pytorch.org/docs/stable/data.html"),
        ("1 / 2, and/or, ./own.py, ../up/own.py", "1 / 2, and/or, ./own.py, ../up/own.py"),
        ("/dev/shm", "/dev/shm"),
    ],
)
def test_paths_are_cut_to_what_every_machine_has(text: str, short: str) -> None:
    assert shorten_paths(text) == short


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("DataLoader worker (pid 77) is killed", "DataLoader worker is killed"),
        ("DataLoader worker (pid(s) 77, 78) exited", "DataLoader worker exited"),
        ("object at 0x7f00deadbeef>", "object>"),
        ("pid 77 gone", "pid ... gone"),
        ("a count of 0x1f", "a count of 0x1f"),
    ],
)
def test_what_differs_from_run_to_run_is_left_out(text: str, clean: str) -> None:
    assert tidy(text) == clean


# What other code reads from an Observation.


def test_ok_is_a_run_that_finished_without_a_worker_that_died() -> None:
    assert observation().ok
    assert observation(workers=(Worker(0, None), Worker(1, 0))).ok
    assert not raised().ok
    assert not observation(end="hung").ok
    assert not observation(workers=(Worker(0, -9), Worker(1, 0))).ok


def test_a_dict_of_it_can_be_written_as_json_and_has_no_pids() -> None:
    frames = (Frame("your cell", 3, "load", "open(path)"),)
    seen = observation(
        end="hung",
        chain=(("RuntimeError", "DataLoader worker (pid 4711) is killed by signal: Killed."),),
        workers=(Worker(0, -9), Worker(1, None, frames)),
        result={1, 2},
        notes=("when serializing object at 0x7f00deadbeef",),
    )
    told = json.loads(json.dumps(seen.to_dict(), allow_nan=False))
    assert (told["ok"], told["end"]) == (False, "hung")
    assert told["title"] == seen.story().title
    assert "4711" not in json.dumps(told)
    assert told["notes"] == ["when serializing object"]
    dead, stuck = told["workers"]
    assert (dead["name"], dead["signal"], dead["exitcode"]) == ("W0", "SIGKILL", -9)
    assert stuck["stack"] == [
        {"file": "your cell", "line": 3, "function": "load", "code": "open(path)"}
    ]
    assert told["timeline"]["processes"] == []
    assert "result" not in told
