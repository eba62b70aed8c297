"""Define right and wrong answers to the exercises of lesson 10."""

from __future__ import annotations

import multiprocessing
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F

from answers import RightAnswers, WrongFixes, like, setting
from dltutor.failures.growing_cache import Recordings


def with_lru_cache(size: int | None) -> type:
    """Make a class that keeps the `size` recordings used last, or all of them if `size` is None."""

    class MyRecordings(Recordings):
        @lru_cache(maxsize=size)  # noqa: B019 - this is what people write
        def load(self, index: int) -> np.ndarray:
            return super().load(index)

    return MyRecordings


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


class BoundedRecordings(Recordings):
    """A right answer to "10.fix", which keeps only the `size` recordings that were used last."""

    def __init__(self, paths: tuple[str, ...], size: int = 4) -> None:
        super().__init__(paths)
        self.size = size
        self.cache: OrderedDict[int, np.ndarray] = OrderedDict()

    def load(self, index: int) -> np.ndarray:
        if index not in self.cache:
            self.cache[index] = super().load(index)
        self.cache.move_to_end(index)
        if len(self.cache) > self.size:
            self.cache.popitem(last=False)
        return self.cache[index]


class TheLastOne(BoundedRecordings):
    def load(self, index: int) -> np.ndarray:
        super().load(index)
        return next(iter(self.cache.values()))


class EightForTheClass(Recordings):
    """Wrong, because the cache is in the class, so two datasets mix up their recordings."""

    cache: ClassVar[OrderedDict[int, np.ndarray]] = OrderedDict()

    def load(self, index: int) -> np.ndarray:
        if index not in self.cache:
            if len(self.cache) >= 8:
                self.cache.popitem(last=False)
            self.cache[index] = super().load(index)
        return self.cache[index]


class Mapped(Recordings):
    """Right: `__init__` writes every recording as float32 to one file, which all workers map."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        super().__init__(paths)
        self.file = Path(paths[0]).with_name("all.npy")
        shape = (len(paths), *np.load(paths[0]).shape)
        every = np.lib.format.open_memmap(self.file, mode="w+", dtype=np.float32, shape=shape)
        for index in range(len(paths)):
            every[index] = super().load(index)
        every.flush()

    def load(self, index: int) -> np.ndarray:
        recording: np.ndarray = np.load(self.file, mmap_mode="r")[index]
        return recording


class InASharedMapping(Recordings):
    def __init__(self, paths: tuple[str, ...]) -> None:
        super().__init__(paths)
        self.known = torch.zeros(len(paths)).share_memory_()
        self.all = torch.zeros(len(paths), len(super().load(0))).share_memory_()

    def load(self, index: int) -> np.ndarray:
        if not self.known[index]:
            self.all[index] = torch.from_numpy(super().load(index))
            self.known[index] = 1
        recording: np.ndarray = self.all[index].numpy()
        return recording


def _losses(model: Any, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(images), labels, reduction="none")


def number(losses: torch.Tensor) -> Any:
    return losses.mean().item()


def learned(losses: torch.Tensor) -> Any:
    losses.mean().backward()
    return number(losses)


def copy(images: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    return images[at].clone()


def view(images: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    return images[at]


def validating(loss: Callable[[Any], Any], keep: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Make a validation that returns a mean loss and a list with one entry for each batch.

    Args:
        loss: A function that takes a batch's losses, and returns what to average over the batches.
        keep: A function that takes a batch's images and the position of the hardest one, and
            returns the batch's entry.
    """

    def my_validate(model: Any, loader: Any) -> Any:
        total: Any = 0
        hardest = []
        for images, labels in loader:
            losses = _losses(model, images, labels)
            total = total + loss(losses)
            hardest.append(keep(images, losses.argmax()))
        return total / len(loader), hardest

    return my_validate


_validated = validating(number, copy)


def keeps_the_labels(model: Any, loader: Any) -> Any:
    seen = []
    found = []
    for images, labels in loader:
        found.append(_hardest(model, images, labels))
        seen.append(labels)  # for a confusion matrix
    return _both(found)


def after(do: Callable[[Any], object]) -> Callable[..., Any]:
    """Make a right validation, except that it first calls `do(model)`."""

    def my_validate(model: Any, loader: Any) -> Any:
        do(model)
        return _validated(model, loader)

    return my_validate


def returning(change: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Make a right validation, except that it returns `change(mean, hardest)`."""
    return lambda model, loader: change(*_validated(model, loader))


def with_no_grad(model: Any, loader: Any) -> Any:
    total = torch.zeros(())
    hardest = OrderedDict[int, torch.Tensor]()
    with torch.no_grad():
        for number, (images, labels) in enumerate(loader):
            losses = F.cross_entropy(model(images), labels, reduction="none")
            total += losses.mean()
            hardest[number] = images[losses.argmax()].clone()
    return total / len(loader), list(hardest.values())


@torch.inference_mode()
def in_eval_and_back(model: Any, loader: Any) -> Any:
    before = model.training
    model.eval()
    result = _validated(model, loader)
    model.train(before)
    return result


def _hardest(model: Any, images: torch.Tensor, labels: torch.Tensor) -> Any:
    losses = _losses(model, images, labels)
    return losses.mean().item(), images[losses.argmax()].clone()


def _both(found: Any) -> Any:
    losses, hardest = zip(*found, strict=True)
    return torch.tensor(losses).mean(), list(hardest)


def a_batch_too_few(model: Any, loader: Any) -> Any:
    return _both([_hardest(model, *batch) for batch in islice(loader, len(loader) - 1)])


_CAUSES = {"A": "cache", "B": "kept", "C": "cycle", "D": "heap"}


def _swapped(one: str, other: str) -> dict[str, str]:
    return _CAUSES | {one: _CAUSES[other], other: _CAUSES[one]}


WRONG_FIXES: WrongFixes = {
    "10.diagnose": {
        "cache and heap": (_swapped("A", "D"), "wrong-A"),
        "cycle and heap": (_swapped("C", "D"), "wrong-C"),
        "kept and heap": (_swapped("B", "D"), "wrong-B"),
        "a word of one's own": (_swapped("A", "B") | {"A": "leak"}, "no-word"),
        "one word for all": ("heap", "other-keys"),
    },
    "10.fix": {
        "lru_cache without a bound": (with_lru_cache(None), "grew-worker"),
        "a Manager": (InAManager, "grew-others"),
        "all of it in main": (AllInMain, "grew-main"),
        "the wrong entry": (TheLastOne, "wrong-samples"),
        "half the samples": (like(Recordings, __len__=lambda self: 32), "missing"),
        "a shared tensor": (InASharedMapping, "grew-shared"),
        "a Python number": (
            like(
                Recordings,
                __getitem__=lambda self, index: Recordings.__getitem__(self, index).item(),
            ),
            "other-batch",
        ),
        "a small cache in the class": (EightForTheClass, "mixed"),
        "a quarter of them kept": (
            setting(
                Recordings, load=lambda self: lru_cache(maxsize=len(self.paths) // 4)(self.load)
            ),
            "grew-alone",
        ),
    },
    "10.transfer": {
        "clone() alone": (validating(torch.mean, copy), "keeps-graphs"),
        "item() alone": (validating(number, view), "keeps-tensors"),
        "no gradient ever after": (
            after(lambda model: torch.set_grad_enabled(False)),
            "no-grad-left",
        ),
        "eval() to the end": (after(torch.nn.Module.eval), "left-in-eval"),
        "a frozen model": (after(lambda model: model.requires_grad_(False)), "no-grad-needed"),
        "a gradient in every parameter": (validating(learned, copy), "left-gradients"),
        "no scans": (returning(lambda mean, hardest: (mean, [])), "other-scans"),
        "another loss": (returning(lambda mean, hardest: (2.0, hardest)), "other-mean"),
        "swapped": (
            returning(lambda mean, hardest: (hardest, torch.tensor(mean))),
            "other-result",
        ),
        "all labels": (keeps_the_labels, "keeps-views"),
        "a batch too few": (a_batch_too_few, "too-few"),
    },
}

RIGHT_ANSWERS: RightAnswers = {
    "10.diagnose": {
        "the words": _CAUSES,
        "capitals and quotes": {job: f"'{c.upper()}' " for job, c in _CAUSES.items()},
    },
    "10.fix": {
        "no cache": Recordings,
        "a bounded cache": BoundedRecordings,
        "a mapped file": Mapped,
        "lru_cache of 16": with_lru_cache(16),
    },
    "10.transfer": {
        "no_grad": with_no_grad,
        "item and clone": _validated,
        "eval, and back": in_eval_and_back,
    },
}
