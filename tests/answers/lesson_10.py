"""Define right and wrong answers to the exercises of lesson 10."""

from __future__ import annotations

import atexit
import gc
import multiprocessing
import tempfile
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, get_worker_info

from answers import OtherOutcomes, RightAnswers, WrongFixes
from dltutor.failures.growing_cache import CachedRecordings, Recordings
from dltutor.lessons.lesson_10.transfer import validate


class Collects(CachedRecordings):
    def load(self, index: int) -> np.ndarray:
        gc.collect()
        return super().load(index)


class Unbounded(Recordings):
    @lru_cache(maxsize=None)  # noqa: B019, UP033 - this is what people write
    def load(self, index: int) -> np.ndarray:
        return super().load(index)


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
    """Keeps the last few recordings that were read."""

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


class InFilesByPath(Recordings):
    def load(self, index: int) -> np.ndarray:
        path = self.paths[index]
        file = Path(tempfile.gettempdir(), path.replace("/", "_"))
        if not file.exists():
            np.save(file, super().load(index))
            atexit.register(file.unlink, missing_ok=True)
        recording: np.ndarray = np.load(file, mmap_mode="r")
        return recording


class InOneSlotEach(Recordings):
    """Keeps one recording in a slot for each of the two workers."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        super().__init__(paths)
        self.slots: list[dict[int, np.ndarray]] = [{}, {}]

    def load(self, index: int) -> np.ndarray:
        info = get_worker_info()
        slot = self.slots[info.id if info else 0]
        slot.clear()
        return slot.setdefault(index, super().load(index))


class EightForTheClass(Recordings):
    """A common mistake: the cache is in the class, not in the object."""

    cache: ClassVar[OrderedDict[int, np.ndarray]] = OrderedDict()

    def load(self, index: int) -> np.ndarray:
        if index not in self.cache:
            if len(self.cache) >= 8:
                self.cache.popitem(last=False)
            self.cache[index] = super().load(index)
        return self.cache[index]


@lru_cache(maxsize=8)
def _decoded(path: str) -> np.ndarray:
    recording: np.ndarray = np.load(path).astype(np.float32)
    return recording


class EightForAllByPath(Recordings):
    def load(self, index: int) -> np.ndarray:
        return _decoded(self.paths[index])


class MapsTheFile(Recordings):
    def load(self, index: int) -> np.ndarray:
        recording: np.ndarray = np.load(self.paths[index], mmap_mode="r")
        return recording.astype(np.float32)


class ForgetsAll(CachedRecordings):
    def load(self, index: int) -> np.ndarray:
        if len(self.cache) > 4:
            self.cache.clear()
        return super().load(index)


class Mapped(Recordings):
    """Decodes once, into a file that all workers map."""

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


class LastTwentyFour(Recordings):
    @lru_cache(maxsize=24)  # noqa: B019 - too many
    def load(self, index: int) -> np.ndarray:
        return super().load(index)


class LastSixteen(Recordings):
    @lru_cache(maxsize=16)  # noqa: B019 - as many as the bound allows
    def load(self, index: int) -> np.ndarray:
        return super().load(index)


class AQuarterOfTheArchive(Recordings):
    def __init__(self, paths: tuple[str, ...]) -> None:
        super().__init__(paths)
        self.load = lru_cache(maxsize=len(paths) // 4)(super().load)  # type: ignore[method-assign]


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


class APythonNumber(Recordings):
    def __getitem__(self, index: int) -> float:  # type: ignore[override]
        return super().__getitem__(index).item()


class WithoutTheClass:
    def __init__(self, paths: tuple[str, ...]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(np.abs(np.load(self.paths[index]).astype(np.float32)).mean())


class KnowsTheNumbers(Recordings):
    """Keeps each sample, which is a number, but no recording."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        super().__init__(paths)
        self.known: dict[int, torch.Tensor] = {}

    def __getitem__(self, index: int) -> torch.Tensor:
        if index not in self.known:
            self.known[index] = super().__getitem__(index)
        return self.known[index]


class WithTorch(Recordings):
    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.from_numpy(np.load(self.paths[index])).abs().to(torch.float32).mean()


class ThirtyTwo(Recordings):
    def __len__(self) -> int:
        return 32


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
    """Make a validation that adds `loss(losses)` and keeps `keep(images, at)` for each batch."""

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


@torch.no_grad()
def one_loss_at_the_end(model: Any, loader: Any) -> Any:
    outputs, truth, hardest = [], [], []
    for images, labels in loader:
        outputs.append(output := model(images))
        truth.append(labels.clone())
        hardest.append(images[F.cross_entropy(output, labels, reduction="none").argmax()].clone())
    return F.cross_entropy(torch.cat(outputs), torch.cat(truth)), hardest


def switches_off_for_good(model: Any, loader: Any) -> Any:
    torch.set_grad_enabled(False)
    return _validated(model, loader)


def leaves_it_in_eval(model: Any, loader: Any) -> Any:
    model.eval()
    return _validated(model, loader)


def freezes_the_model(model: Any, loader: Any) -> Any:
    model.requires_grad_(False)
    return _validated(model, loader)


def with_no_grad(model: Any, loader: Any) -> Any:
    total = torch.zeros(())
    hardest = OrderedDict[int, torch.Tensor]()
    with torch.no_grad():
        for number, (images, labels) in enumerate(loader):
            losses = F.cross_entropy(model(images), labels, reduction="none")
            total += losses.mean()
            hardest[number] = images[losses.argmax()].clone()
    return total / len(loader), list(hardest.values())


def stacked(model: Any, loader: Any) -> Any:
    mean, hardest = _validated(model, loader)
    return torch.tensor(mean), torch.stack(hardest)


@torch.inference_mode()
def in_eval_and_back(model: Any, loader: Any) -> Any:
    before = model.training
    model.eval()
    result = _validated(model, loader)
    model.train(before)
    return result


def swapped(model: Any, loader: Any) -> Any:
    mean, hardest = _validated(model, loader)
    return hardest, torch.tensor(mean)


def _hardest(model: Any, images: torch.Tensor, labels: torch.Tensor) -> Any:
    losses = _losses(model, images, labels)
    return losses.mean().item(), images[losses.argmax()].clone()


def _both(found: Any) -> Any:
    losses, hardest = zip(*found, strict=True)
    return torch.tensor(losses).mean(), list(hardest)


def by_next(model: Any, loader: Any) -> Any:
    batches = iter(loader)
    return _both([_hardest(model, *next(batches)) for _ in range(len(loader))])


def breaks(model: Any, loader: Any) -> Any:
    found = []
    for number, batch in enumerate(loader, start=1):
        found.append(_hardest(model, *batch))
        if number == len(loader):
            break
    return _both(found)


def a_batch_too_few(model: Any, loader: Any) -> Any:
    return _both([_hardest(model, *batch) for batch in islice(loader, len(loader) - 1)])


def keeps_none(model: Any, loader: Any) -> Any:
    return _validated(model, loader)[0], []


def last_loss_only(model: Any, loader: Any) -> Any:
    return 2.0, _validated(model, loader)[1]


_CAUSES = {"A": "cache", "B": "kept", "C": "cycle", "D": "heap"}


def _swapped(one: str, other: str) -> dict[str, str]:
    return _CAUSES | {one: _CAUSES[other], other: _CAUSES[one]}


WRONG_FIXES: WrongFixes = {
    "10.predict": {
        "all": (lambda: "a", "a"),
        "some": (lambda: "b", "b"),
        "none": (lambda: "d", "d"),
        "the number": (lambda: 1, "no-option"),
    },
    "10.diagnose": {
        "cache and heap": (
            lambda: _swapped("A", "D"),
            "wrong-A",
        ),
        "cycle and heap": (lambda: _swapped("C", "D"), "wrong-C"),
        "kept and heap": (lambda: _swapped("B", "D"), "wrong-B"),
        "a word of one's own": (
            lambda: _swapped("A", "B") | {"A": "leak"},
            "no-word",
        ),
        "one word for all": (lambda: "heap", "other-keys"),
    },
    "10.fix": {
        "a loader without workers": (lambda: DataLoader(CachedRecordings(())), "a-loader"),
        "gc.collect()": (lambda: Collects, "grew-worker"),
        "lru_cache without a bound": (lambda: Unbounded, "grew-worker"),
        "a Manager": (lambda: InAManager, "grew-others"),
        "all of it in main": (lambda: AllInMain, "grew-main"),
        "the wrong entry": (lambda: TheLastOne, "wrong-samples"),
        "half the samples": (lambda: ThirtyTwo, "missing"),
        "a slot for each of two workers": (lambda: InOneSlotEach, "raised"),
        "lru_cache of 24": (lambda: LastTwentyFour, "grew-worker"),
        "a shared tensor": (lambda: InASharedMapping, "grew-shared"),
        "a Python number": (lambda: APythonNumber, "other-batch"),
        "an object": (lambda: BoundedRecordings(()), "an-object"),
        "a small cache in the class": (lambda: EightForTheClass, "mixed"),
        "a quarter of them kept": (lambda: AQuarterOfTheArchive, "grew-alone"),
    },
    "10.transfer": {
        "clone() alone": (lambda: validating(torch.mean, copy), "keeps-graphs"),
        "item() alone": (lambda: validating(number, view), "keeps-tensors"),
        "no gradient ever after": (
            lambda: switches_off_for_good,
            "no-grad-left",
        ),
        "eval() to the end": (lambda: leaves_it_in_eval, "left-in-eval"),
        "a frozen model": (lambda: freezes_the_model, "no-grad-needed"),
        "a gradient in every parameter": (lambda: validating(learned, copy), "left-gradients"),
        "no scans": (lambda: keeps_none, "other-scans"),
        "another loss": (lambda: last_loss_only, "other-mean"),
        "a copy of each batch": (
            lambda: validating(number, lambda images, at: images.clone()[at]),
            "keeps-tensors",
        ),
        "swapped": (lambda: swapped, "other-result"),
        "all labels": (lambda: keeps_the_labels, "keeps-views"),
        "a batch too few": (lambda: a_batch_too_few, "too-few"),
    },
}

RIGHT_ANSWERS: RightAnswers = {
    "10.predict": {"the letter": lambda: "c"},
    "10.diagnose": {
        "the words": lambda: _CAUSES,
        "small keys": lambda: {job.lower(): cause for job, cause in _CAUSES.items()},
        "capitals and quotes": lambda: {job: f"'{c.upper()}' " for job, c in _CAUSES.items()},
    },
    "10.fix": {
        "no cache": lambda: Recordings,
        "a bounded cache": lambda: BoundedRecordings,
        "a cache that is emptied": lambda: ForgetsAll,
        "a mapped file": lambda: Mapped,
        "files on disk": lambda: InFilesByPath,
        "lru_cache of a function of the path": lambda: EightForAllByPath,
        "a map of each file": lambda: MapsTheFile,
        "lru_cache of 16": lambda: LastSixteen,
        "a table of the samples": lambda: KnowsTheNumbers,
        "another base class": lambda: WithoutTheClass,
        "decoded by torch": lambda: WithTorch,
    },
    "10.transfer": {
        "no_grad": lambda: with_no_grad,
        "item and clone": lambda: _validated,
        "torch.stack": lambda: stacked,
        "copies of the labels": lambda: one_loss_at_the_end,
        "eval, and back": lambda: in_eval_and_back,
        "next(), as often as there are batches": lambda: by_next,
        "break after the last": lambda: breaks,
    },
}

_UNSET = {"A": ..., "B": ..., "C": ..., "D": ...}

OTHER_OUTCOMES: OtherOutcomes = {
    "10.predict": {"nothing yet": (lambda: ..., "Not attempted", "no-letter")},
    "10.diagnose": {
        "the dots": (lambda: _UNSET, "Not attempted", "dots"),
        "None": (lambda: None, "Not attempted", "no-words"),
    },
    "10.fix": {
        "the starter": (lambda: CachedRecordings, "Not attempted", "starter-class"),
    },
    "10.transfer": {
        "the starter": (lambda: validate, "Not attempted", "starter-function"),
    },
}
