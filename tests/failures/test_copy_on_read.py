"""Test that every captions dataset delivers all captions, and how `SharedCaptions` is pickled."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

import pytest
from small_datasets import load

from dltutor.failures.data.captions import LISTED, STORED, SharedCaptions

FEW = ["a lake", "", "two lakes: \N{SNOWMAN}", "a longer line than the others"]


@pytest.fixture
def few(tmp_path: Path) -> Path:
    path = tmp_path / "captions.txt"
    path.write_text("\n".join(FEW) + "\n")
    return path


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
