"""Test that reading captions copies memory only if they're Python objects, and that all arrive."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any, cast

import pytest
from datasets import load

from dltutor.failures import copy_on_read
from dltutor.failures.data.captions import LISTED, STORED, SharedCaptions

FEW = ["a lake", "", "two lakes: \N{SNOWMAN}", "a longer line than the others"]


@pytest.fixture
def few(tmp_path: Path) -> Path:
    path = tmp_path / "captions.txt"
    path.write_text("\n".join(FEW) + "\n")
    return path


@pytest.fixture(scope="module")
def least() -> float:
    return private(copy_on_read.fixed)


def private(make: Callable[..., copy_on_read.Case], **options: Any) -> float:
    case = make(**options)
    assert case.consume is not None
    return cast("Any", case.consume(case.loader)).value


@pytest.mark.thorough  # a run for each kind, except the one that test_failures.py runs
@pytest.mark.parametrize("kind", [kind for kind in LISTED if kind != "list"])
def test_reading_python_objects_copies_them(kind: str, least: float) -> None:
    if kind == "pandas":
        pytest.importorskip("pandas")
    assert private(copy_on_read.broken, kind=kind) > 2.5 * least


@pytest.mark.thorough  # a run for each kind, except the one that test_failures.py runs
@pytest.mark.parametrize("kind", [kind for kind in STORED if kind != "packed"])
def test_reading_bytes_copies_nothing(
    kind: str, least: float, nothing_left_behind: Callable[..., None]
) -> None:
    assert private(copy_on_read.fixed, kind=kind) < 1.5 * least


@pytest.mark.parametrize("kind", [*LISTED, *STORED])
@pytest.mark.parametrize("start_method", [None, "forkserver"])
def test_every_kind_delivers_every_caption(
    kind: str, start_method: str | None, few: Path, nothing_left_behind: Callable[..., None]
) -> None:
    if kind == "pandas":
        pytest.importorskip("pandas")
    dataset = (LISTED | STORED)[kind](few)
    loader = load(dataset, start_method or "fork", num_workers=1 if start_method else 0)
    assert [text for batch in loader for text in batch] == FEW


def test_shared_captions_are_sent_by_name_and_unlinked_with_the_dataset_that_made_them(
    few: Path,
) -> None:
    few.write_text("a line\n" * 10_000)
    captions = SharedCaptions(few)
    sent = pickle.dumps(captions)
    assert len(sent) < 1000
    attached = pickle.loads(sent)
    assert attached[9_999] == "a line"
    attached.close()
    with pytest.raises(ValueError, match="closed"):
        attached[0]
    assert captions[0] == "a line"
    name = captions.memory.name
    captions.close()
    captions.close()  # closing it again does no harm
    with pytest.raises(FileNotFoundError):
        SharedMemory(name)
