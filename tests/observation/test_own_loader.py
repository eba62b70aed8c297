"""Check that `budget(loader)` measures one batch of a learner's loader, or says why it can't."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import small_datasets
import torch
from small_datasets import Numbers, load
from torch.utils.data import DataLoader, Dataset

import dltutor
from dltutor.display import budget as budget_module
from dltutor.observation.budget.own_loader import (
    Batch,
    measure_batch,
    own_footprint,
    settings_of,
    tensor_bytes,
)
from dltutor.observation.budget.prediction import Footprint
from dltutor.system.process_memory import pss

pytestmark = pytest.mark.usefixtures("nothing_left_behind")

MB = 1 << 20
PAGE = 4096


class Images(Dataset[Any]):
    """A dataset of 16 images of 1 MB, with labels and names. Making each one takes 32 MB."""

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> Any:
        self.scratch = bytearray(b"x") * (32 * MB)
        image = torch.full((MB,), index, dtype=torch.uint8)
        return {"image": image, "label": index, "name": f"{index}.png"}


@dataclass
class Pair:
    left: torch.Tensor
    right: torch.Tensor


ONE = torch.zeros(PAGE, dtype=torch.uint8)


@pytest.mark.parametrize(
    ("batch", "pages"),
    [
        (ONE, 1),
        (ONE.new_zeros(PAGE + 1), 2),
        ([ONE.clone(), (ONE.clone(), {"x": ONE.clone()})], 3),
        (Pair(ONE.clone(), ONE.new_zeros(3 * PAGE)), 4),
        ([ONE, ONE[:5], ONE.view(2, -1)], 1),
        (ONE.new_zeros(100 * PAGE)[:7], 100),
        (["0.png", 7, None], 0),
    ],
)
def test_a_batch_takes_the_storages_of_its_tensors_in_whole_pages(batch: Any, pages: int) -> None:
    assert tensor_bytes(batch) == pages * PAGE


def test_the_settings_are_the_loader_s_own_and_can_be_changed() -> None:
    loader = DataLoader(
        Images(), 4, num_workers=3, prefetch_factor=5, multiprocessing_context="spawn"
    )
    batch = Batch(4, 4 * MB, 0)
    own = settings_of(loader, batch)
    assert (own.num_workers, own.prefetch_factor, own.batch_size) == (3, 5, 4)
    assert (own.sample_bytes, own.start_method) == (MB, "spawn")
    changed = settings_of(loader, batch, num_workers=8)
    assert (changed.num_workers, changed.prefetch_factor) == (8, 5)


def test_a_large_main_process_and_a_large_worker_count() -> None:
    held = torch.ones(64 * MB, dtype=torch.uint8).share_memory_()  # a batch, not part of main
    small = Footprint("fork", main=1, once=2, worker=3)
    own = own_footprint(small, Batch(1, 1, worker=40 * MB))
    assert (own.once, own.worker) == (2, 40 * MB)
    assert own.main == pytest.approx(pss(os.getpid()) - held.nbytes, rel=0.2)


def test_one_batch_of_a_loader_is_measured_and_the_worker_that_made_it() -> None:
    loader = DataLoader(Images(), 4, num_workers=2, multiprocessing_context="fork")
    page = dltutor.budget(loader)
    batch, settings = page._own, page.prediction.settings
    assert batch is not None
    assert (batch.samples, batch.bytes) == (4, 4 * MB + PAGE)  # the labels take up a page
    assert batch.worker == 0 or page.prediction.footprint.worker >= batch.worker > 32 * MB
    assert (settings.num_workers, settings.waiting, settings.batch_size) == (2, 4, 4)
    assert str(page).splitlines()[:4] == str(page.prediction).splitlines()


@pytest.mark.parametrize(
    ("trouble", "deadline", "told"),
    [
        (small_datasets.raise_error, 60, "ValueError in W0"),
        (small_datasets.killed, 60, "W0 killed by SIGKILL"),
        (small_datasets.sleep_on, 1, "Hung"),
    ],
)
def test_a_dataset_that_gives_no_batch_is_told_in_one_sentence(
    trouble: Callable[..., Any], deadline: float, told: str
) -> None:
    with pytest.raises(ValueError, match=told) as caught:
        dltutor.budget(load(Numbers(trouble, at=0)), deadline=deadline)
    assert "\n" not in str(caught.value)


def test_a_loader_without_batches_and_one_without_tensors_are_told() -> None:
    with pytest.raises(ValueError, match="it's empty"):
        measure_batch(DataLoader(Numbers(), sampler=[], num_workers=1), deadline=60)
    names = DataLoader(["a", "b"], num_workers=1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must return batches with tensors"):
        measure_batch(names, deadline=60)


def test_what_is_wrong_with_the_settings_is_told_before_anything_is_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(budget_module, "measure_batch", None)
    with pytest.raises(ValueError, match=r"num_workers .* got 0. With 0 workers"):
        dltutor.budget(DataLoader(Images(), 4))
    with pytest.raises(ValueError, match=r"prefetch_factor must be a whole number .* got -1"):
        dltutor.budget(DataLoader(Images(), 4, num_workers=1), prefetch_factor=-1)


def test_what_is_no_loader_is_named() -> None:
    with pytest.raises(TypeError, match=r"a torch DataLoader, got Images \(a Dataset\)"):
        dltutor.budget(Images())  # type: ignore[arg-type]
