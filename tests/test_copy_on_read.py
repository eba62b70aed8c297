"""Every kind with Python objects is copied as it is read, no kind without."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any, cast

import pytest
from datasets import load

from dltutor.failures import copy_on_read
from dltutor.failures.material.captions import LISTED, STORED, SharedCaptions

FEW = ["a lake", "", "two lakes: \N{SNOWMAN}", "a longer line than the others"]


@pytest.fixture
def few(tmp_path: Path) -> Path:
    path = tmp_path / "captions.txt"
    path.write_text("\n".join(FEW) + "\n")
    return path


@pytest.fixture(scope="module")
def least() -> float:
    return private(copy_on_read.fixed)


def first_only(kinds: Iterable[str]) -> list[Any]:
    """The first kind, and the others in the thorough tier: each takes a run."""
    first, *others = kinds
    return [first, *(pytest.param(each, marks=pytest.mark.thorough) for each in others)]


def private(make: Callable[..., copy_on_read.Case], **options: Any) -> float:
    case = make(**options)
    assert case.consume is not None
    return cast("Any", case.consume(case.loader)).value


@pytest.mark.parametrize("kind", first_only(LISTED))
def test_reading_python_objects_copies_them(kind: str, least: float) -> None:
    if kind == "pandas":
        pytest.importorskip("pandas")
    assert private(copy_on_read.broken, kind=kind) > 2.5 * least


@pytest.mark.parametrize("kind", first_only(STORED))
def test_reading_bytes_copies_nothing(
    kind: str, least: float, nothing_left_behind: Callable[..., None]
) -> None:
    assert private(copy_on_read.fixed, kind=kind) < 1.5 * least


@pytest.mark.parametrize("kind", [*LISTED, *STORED])
@pytest.mark.parametrize("start_method", [None, "fork", "forkserver"])
def test_every_kind_delivers_every_caption(
    kind: str, start_method: str | None, few: Path, nothing_left_behind: Callable[..., None]
) -> None:
    if kind == "pandas":
        pytest.importorskip("pandas")
    dataset = (LISTED | STORED)[kind](few)
    options = {"start_method": start_method} if start_method else {"num_workers": 0}
    assert [text for batch in load(dataset, **options) for text in batch] == FEW


def test_shared_captions_are_unlinked_with_the_dataset(few: Path) -> None:
    captions = SharedCaptions(few)
    name = captions.memory.name
    SharedMemory(name).close()
    del captions
    with pytest.raises(FileNotFoundError):
        SharedMemory(name)


def test_one_that_attached_closes_and_does_not_unlink(few: Path) -> None:
    captions = SharedCaptions(few)
    attached = pickle.loads(pickle.dumps(captions))
    assert [attached[index] for index in range(len(FEW))] == FEW
    attached.close()
    with pytest.raises(ValueError, match="closed"):
        attached[0]
    assert captions[0] == FEW[0]


def test_what_is_sent_to_a_spawned_worker_is_the_name(few: Path) -> None:
    few.write_text("a line\n" * 10_000)
    assert len(pickle.dumps(SharedCaptions(few))) < 1000


def test_closing_twice_is_harmless(few: Path) -> None:
    captions = SharedCaptions(few)
    captions.close()
    captions.close()
