"""The usual wrong answers to the exercises of lesson 10."""

from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Callable
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

from answers import WrongFixes
from dltutor.failures.growing_cache import BoundedRecordings, CachedRecordings, Recordings

MakeLoader = Callable[[tuple[str, ...]], Any]


def loads(dataset: type[Recordings], **options: Any) -> MakeLoader:
    """The loader of the exercise, with another dataset or other options."""

    def my_loader(paths: tuple[str, ...]) -> DataLoader[torch.Tensor]:
        kept: dict[str, Any] = {
            "batch_size": 4,
            "shuffle": True,
            "num_workers": 2,
            "persistent_workers": True,
            "multiprocessing_context": "fork",
        }
        return DataLoader(dataset(paths), **kept | options)

    return my_loader


class Collects(CachedRecordings):
    def load(self, index: int) -> np.ndarray:
        gc.collect()
        return super().load(index)


class Deletes(CachedRecordings):
    def load(self, index: int) -> np.ndarray:
        if index not in self.cache:
            recording = Recordings.load(self, index)
            self.cache[index] = recording
            del recording
        return self.cache[index]


class EmptiesTheGPU(CachedRecordings):
    def load(self, index: int) -> np.ndarray:
        torch.cuda.empty_cache()
        return super().load(index)


class Unbounded(Recordings):
    @lru_cache(maxsize=None)  # noqa: B019, UP033 - this is what people write
    def load(self, index: int) -> np.ndarray:
        return super().load(index)


class BoundedByCount(Recordings):
    @lru_cache(maxsize=128)  # noqa: B019
    def load(self, index: int) -> np.ndarray:
        return super().load(index)


class OneForTheClass(Recordings):
    cache: ClassVar[dict[int, np.ndarray]] = {}

    def load(self, index: int) -> np.ndarray:
        if index not in self.cache:
            self.cache[index] = super().load(index)
        return self.cache[index]


class InAManager(Recordings):
    def __init__(self, paths: tuple[str, ...]) -> None:
        super().__init__(paths)
        self.manager = multiprocessing.get_context("fork").Manager()
        self.cache = self.manager.dict()

    def load(self, index: int) -> np.ndarray:
        if index not in self.cache:
            self.cache[index] = super().load(index)
        recording: np.ndarray = self.cache[index]
        return recording


class AllInMain(Recordings):
    def __init__(self, paths: tuple[str, ...]) -> None:
        super().__init__(paths)
        self.all = [Recordings.load(self, index) for index in range(len(paths))]

    def load(self, index: int) -> np.ndarray:
        return self.all[index]


class TheLastOne(BoundedRecordings):
    def load(self, index: int) -> np.ndarray:
        super().load(index)
        return next(iter(self.cache.values()))


class ThirtyTwo(Recordings):
    def __len__(self) -> int:
        return 32


def _losses(model: Any, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(images), labels, reduction="none")


def collects(model: Any, loader: Any) -> Any:
    total: Any = 0
    hardest = []
    for images, labels in loader:
        gc.collect()
        losses = _losses(model, images, labels)
        total = total + losses.mean()
        hardest.append(images[losses.argmax()])
    return total / len(loader), hardest


def deletes(model: Any, loader: Any) -> Any:
    total: Any = 0
    hardest = []
    for images, labels in loader:
        losses = _losses(model, images, labels)
        total = total + losses.mean()
        hardest.append(images[losses.argmax()])
        del images, labels, losses
    return total / len(loader), hardest


def empties_the_gpu(model: Any, loader: Any) -> Any:
    total: Any = 0
    hardest = []
    for images, labels in loader:
        losses = _losses(model, images, labels)
        total = total + losses.mean()
        hardest.append(images[losses.argmax()])
        torch.cuda.empty_cache()
    return total / len(loader), hardest


def copies_the_scans(model: Any, loader: Any) -> Any:
    total: Any = 0
    hardest = []
    for images, labels in loader:
        losses = _losses(model, images, labels)
        total = total + losses.mean()
        hardest.append(images[losses.argmax()].clone())
    return total / len(loader), hardest


def takes_the_number(model: Any, loader: Any) -> Any:
    total = 0.0
    hardest = []
    for images, labels in loader:
        losses = _losses(model, images, labels)
        total += losses.mean().item()
        hardest.append(images[losses.argmax()])
    return total / len(loader), hardest


def detaches(model: Any, loader: Any) -> Any:
    total: Any = 0
    hardest = []
    for images, labels in loader:
        losses = _losses(model, images, labels).detach()
        total = total + losses.mean()
        hardest.append(images[losses.argmax()].detach())
    return total / len(loader), hardest


def _validated(model: Any, loader: Any) -> Any:
    total = 0.0
    hardest = []
    for images, labels in loader:
        losses = _losses(model, images, labels).detach()
        total += losses.mean().item()
        hardest.append(images[losses.argmax()].clone())
    return total / len(loader), hardest


def without_workers(model: Any, loader: Any) -> Any:
    return _validated(model, DataLoader(loader.dataset, 16, num_workers=0))


def switches_off_for_good(model: Any, loader: Any) -> Any:
    torch.set_grad_enabled(False)
    return _validated(model, loader)


def leaves_it_in_eval(model: Any, loader: Any) -> Any:
    model.eval()
    return _validated(model, loader)


def freezes_the_model(model: Any, loader: Any) -> Any:
    model.requires_grad_(False)
    return _validated(model, loader)


def keeps_none(model: Any, loader: Any) -> Any:
    return _validated(model, loader)[0], []


def last_loss_only(model: Any, loader: Any) -> Any:
    return 2.0, _validated(model, loader)[1]


def _swapped(one: str, other: str) -> dict[str, str]:
    causes = {"A": "cache", "B": "kept", "C": "cycle", "D": "heap"}
    return causes | {one: causes[other], other: causes[one]}


WRONG_FIXES: WrongFixes = {
    "10.predict": {
        "all": (lambda: "a", "three went on"),
        "some": (lambda: "b", "only one of the jobs had any"),
        "none": (lambda: "d", "only the garbage collector can free"),
        "the number": (lambda: 1, "none of the options"),
    },
    "10.diagnose": {
        "cache and heap": (lambda: _swapped("A", "D"), "A is not `heap`: it stopped growing"),
        "cycle and heap": (lambda: _swapped("C", "D"), "C is not `heap`: it fell back"),
        "cache and kept": (lambda: _swapped("A", "B"), "A is not `kept`: main stayed"),
        "cache and cycle": (lambda: _swapped("A", "C"), "A is not `cycle`: it never fell"),
        "kept and heap": (lambda: _swapped("B", "D"), "B is not `heap`: what grew is shared"),
        "a word of one's own": (
            lambda: _swapped("A", "B") | {"A": "leak"},
            "'leak' is none of the causes",
        ),
        "one word for all": (lambda: "heap", "is a dict with the keys"),
    },
    "10.fix": {
        "zero workers": (
            lambda: loads(
                CachedRecordings,
                num_workers=0,
                persistent_workers=False,
                multiprocessing_context=None,
            ),
            "`num_workers=0`: now main keeps the cache",
        ),
        "new workers in every epoch": (
            lambda: loads(CachedRecordings, persistent_workers=False),
            "That hides it",
        ),
        "gc.collect()": (lambda: loads(Collects), "garbage collector ran"),
        "del": (lambda: loads(Deletes), "`del` takes away a name"),
        "empty_cache()": (lambda: loads(EmptiesTheGPU), "on a GPU"),
        "lru_cache without a bound": (lambda: loads(Unbounded), "has no bound"),
        "lru_cache with a large one": (lambda: loads(BoundedByCount), "counts entries, not bytes"),
        "a dict of the class": (lambda: loads(OneForTheClass), "a class of its own, too"),
        "a Manager": (lambda: loads(InAManager), "the cache has moved"),
        "all of it in main": (lambda: loads(AllInMain), "in main before the first batch"),
        "no shuffle": (lambda: loads(CachedRecordings, shuffle=False), "`shuffle=True` is gone"),
        "the wrong entry": (lambda: loads(TheLastOne), "What does your cache give back?"),
        "half the samples": (lambda: loads(ThirtyTwo), "32 of 64 samples came"),
        "the class": (lambda: BoundedRecordings, "takes the function that makes the loader"),
    },
    "10.transfer": {
        "gc.collect()": (lambda: collects, "collector ran"),
        "del": (lambda: deletes, "`del` takes away names"),
        "empty_cache()": (lambda: empties_the_gpu, "is about a GPU"),
        "clone() alone": (lambda: copies_the_scans, "What does `total` lead to?"),
        "item() alone": (lambda: takes_the_number, "What of a batch do you keep"),
        "detach()": (lambda: detaches, "copies nothing"),
        "zero workers": (lambda: without_workers, "took no batch from the `loader`"),
        "no gradient ever after": (
            lambda: switches_off_for_good,
            "still switched off after the validation",
        ),
        "eval() to the end": (lambda: leaves_it_in_eval, "dropout and batch normalisation"),
        "a frozen model": (lambda: freezes_the_model, "require gradients after"),
        "no scans": (lambda: keeps_none, "0 of 16 hardest scans come back"),
        "another loss": (lambda: last_loss_only, "and should be"),
    },
}
