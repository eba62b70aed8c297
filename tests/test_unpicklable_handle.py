"""What belongs to a process has no pickle, and what says how to get it has."""

from __future__ import annotations

import os
import pickle
import sqlite3
from multiprocessing.reduction import ForkingPickler
from typing import Any

import pytest
import torch

from dltutor import explain
from dltutor.failures import unpicklable_handle
from dltutor.failures.unpicklable_handle import FAILURE, KINDS, RECORDS, Kind

every_kind = pytest.mark.parametrize("kind", KINDS)


def dataset(make: str, kind: Kind) -> Any:
    return getattr(unpicklable_handle, make)(workers=0, kind=kind).loader.dataset


@every_kind
def test_the_broken_dataset_has_no_pickle_and_explain_knows_the_text(kind: Kind) -> None:
    with pytest.raises((TypeError, AttributeError, pickle.PicklingError)) as raised:
        ForkingPickler.dumps(dataset("broken", kind))
    found = [match.failure.name for match in explain(str(raised.value))]
    assert FAILURE.name in found, raised.value


@every_kind
def test_the_fixed_one_travels_also_after_use(kind: Kind) -> None:
    fixed = dataset("fixed", kind)
    before = [fixed[index] for index in range(RECORDS)]
    arrived = pickle.loads(ForkingPickler.dumps(fixed))
    assert torch.equal(torch.stack([arrived[i] for i in range(RECORDS)]), torch.stack(before))


@every_kind
def test_both_give_the_same_samples(kind: Kind) -> None:
    ours, theirs = dataset("broken", kind), dataset("fixed", kind)
    for index in range(RECORDS):
        assert torch.equal(ours[index], theirs[index])


@every_kind
def test_another_process_opens_its_own(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    fixed = dataset("fixed", kind)
    mine = fixed.handle
    assert fixed.handle is mine
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert fixed.handle is not mine
    unpicklable_handle.close(mine)


def test_the_file_is_closed_with_the_dataset() -> None:
    broken, fixed = dataset("broken", "file"), dataset("fixed", "file")
    files = [broken.handle, fixed.handle]
    del broken, fixed
    assert all(file.closed for file in files)


def test_the_connection_is_closed_with_the_dataset() -> None:
    fixed = dataset("fixed", "sqlite")
    connection = fixed.handle
    del fixed
    with pytest.raises(sqlite3.ProgrammingError):
        connection.execute("SELECT 1")
