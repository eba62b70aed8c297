"""Test that a handle can't be pickled, but a dataset that opens its own handle can be."""

from __future__ import annotations

import os
import pickle
import sqlite3
import threading
from contextlib import closing
from multiprocessing.reduction import ForkingPickler
from typing import Any

import pytest
import torch

from dltutor import explain
from dltutor.failures import unpicklable_handle
from dltutor.failures.unpicklable_handle import FAILURE, OwnRecords, Records, records_folder


@pytest.mark.parametrize("kind", ["file", "lock", "generator", "lambda", "connection"])
def test_a_handle_has_no_pickle_and_explain_knows_the_text(kind: str) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        handles: dict[str, Any] = {
            "file": Records(records_folder()),
            "lock": threading.Lock(),
            "generator": (number for number in range(3)),
            "lambda": lambda number: number,
            "connection": connection,
        }
        with pytest.raises((TypeError, AttributeError, pickle.PicklingError)) as raised:
            ForkingPickler.dumps(handles[kind])
    found = [match.failure.name for match in explain(str(raised.value))]
    assert FAILURE.name in found, raised.value


def test_the_fixed_one_can_be_sent_after_use() -> None:
    fixed = OwnRecords(records_folder())
    before = fixed[3]
    assert torch.equal(pickle.loads(ForkingPickler.dumps(fixed))[3], before)


def test_each_process_opens_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    fixed = OwnRecords(records_folder())
    mine = fixed.handle
    assert fixed.handle is mine
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert fixed.handle is not mine
    unpicklable_handle.close(mine)


def test_the_file_is_closed_with_the_dataset() -> None:
    broken, fixed = Records(records_folder()), OwnRecords(records_folder())
    files = [broken.handle, fixed.handle]
    del broken, fixed
    assert all(file.closed for file in files)
