"""Test that checks judge answers alike on any machine, and remove only files that they made."""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import time
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from answers import lesson_03, lesson_09, lesson_10
from answers.lesson_11 import MadeForEachUse
from torch.utils.data import get_worker_info

from dltutor import check
from dltutor.lessons.engine.memory import Empty
from dltutor.lessons.lesson_10 import fix

# Lesson 11: a library may map files at any time, and a learner's data may be mapped, too. Neither
# may count against an answer.

_SIZE = 27_000  # bytes, about the size of glibc's table of character sets, which a library may map


@pytest.fixture
def others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a file that belongs neither to the check nor to the answer."""
    path = tmp_path / "others"
    path.write_bytes(bytes(_SIZE))
    monkeypatch.setenv("OTHERS", str(path))
    return path


class BesideALibrary(MadeForEachUse):
    """A right answer that maps a foreign file twice: directly, like a C library, and with numpy."""

    def __init__(self, array: Any) -> None:
        libc = ctypes.CDLL(None)
        libc.mmap.restype = ctypes.c_ssize_t
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        with open(os.environ["OTHERS"], "rb") as file:
            how = mmap.PROT_READ, mmap.MAP_SHARED
            assert libc.mmap(None, _SIZE, *how, file.fileno(), 0) != -1
        np.memmap(os.environ["OTHERS"], np.uint8, "r")
        super().__init__(array)


@pytest.mark.parametrize("mapped_before", [True, pytest.param(False, marks=pytest.mark.thorough)])
def test_a_file_that_is_only_read_is_not_left_by_a_table_and_stays(
    mapped_before: bool, others: Path
) -> None:
    data = np.memmap(others, np.uint8, "r+") if mapped_before else None
    result = check("11.transfer", BesideALibrary)
    assert result.outcome.value == "Correct", result
    assert others.exists()
    del data


# Memory that sending or starting takes on some machines must not count against an answer, and
# objects that were frozen before a check must not help the answer.

_KB, _MB = 1 << 10, 1 << 20


@pytest.mark.thorough  # the test below also makes sending take memory
@pytest.mark.parametrize(
    ("exercise", "answer", "taken", "kept"),
    [
        ("03.transfer", lesson_03.RIGHT_ANSWERS["03.transfer"]["chosen first"], 45 * _MB, False),
        ("09.fix", lesson_09.RIGHT_ANSWERS["09.fix"]["packed"], 2 * _KB, True),
    ],
)
def test_a_right_answer_is_right_where_sending_a_batch_takes_memory(
    exercise: str,
    answer: Any,
    taken: int,
    kept: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sending_takes(taken, kept, monkeypatch)
    result = check(exercise, answer)
    assert result.outcome.value == "Correct", result


def sending_takes(taken: int, kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a worker allocate `taken` more bytes for each batch that it sends.

    If `kept`, the worker keeps them.
    """
    send, held = ForkingPickler.dumps, []

    def dumps(thing: Any, *how: Any) -> Any:
        if get_worker_info():
            memory = np.ones(taken, np.uint8)
            if kept:
                held.append(memory)
        return send(thing, *how)

    monkeypatch.setattr(ForkingPickler, "dumps", dumps)


def test_a_worker_that_starts_late_is_not_taken_for_another_process_though_sending_takes_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    note_start, held = fix._Growth.note_start, []

    def late(growth: Any, worker: int) -> None:
        info = get_worker_info()
        if worker == 3 and info is not None and not isinstance(info.dataset, Empty):
            held.append(np.ones(60 * _MB, np.uint8))
            time.sleep(1.5)
        note_start(growth, worker)

    monkeypatch.setattr(fix._Growth, "note_start", late)
    sending_takes(2 * _MB, True, monkeypatch)
    result = check("10.fix", lesson_10.RIGHT_ANSWERS["10.fix"]["no cache"])
    assert result.outcome.value == "Correct", result


def test_what_was_frozen_before_is_no_excuse_for_an_answer() -> None:
    # Python 3.12 starts with some frozen objects. Freeze all objects here, because other versions
    # start without frozen ones.
    gc.freeze()
    try:
        result = check("09.fix", lesson_09.CaptionTuple)
    finally:
        gc.unfreeze()
    assert result.outcome.value == "Not yet"
    assert "frozen" not in result.text, result
