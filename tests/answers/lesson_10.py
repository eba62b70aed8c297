"""Answers to the exercises of lesson 10, wrong and right."""

from __future__ import annotations

import atexit
import ctypes
import gc
import mmap
import multiprocessing
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import islice
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, get_worker_info

from answers import OtherOutcomes, RightAnswers, WrongFixes
from dltutor.failures.growing_cache import CachedRecordings, Recordings
from dltutor.lessons.lesson_10.transfer import validate


def loader(**options: Any) -> DataLoader[torch.Tensor]:
    """A loader in the place of the class, with other options."""
    return DataLoader(CachedRecordings(()), **{"batch_size": 4, "num_workers": 2, **options})


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


class BoundedRecordings(Recordings):
    """The last few recordings that were read are kept."""

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


class InFiles(Recordings):
    """In a folder of the main process, so that somebody can remove it."""

    folder: ClassVar[str] = ""

    def load(self, index: int) -> np.ndarray:
        file = Path(self.folder, f"{index}.npy")
        if not file.exists():
            np.save(file, super().load(index))
        recording: np.ndarray = np.load(file)
        return recording


class InFilesByPath(Recordings):
    def load(self, index: int) -> np.ndarray:
        path = self.paths[index]
        file = Path(tempfile.gettempdir(), path.replace("/", "_"))
        if not file.exists():
            np.save(file, super().load(index))
            atexit.register(file.unlink, missing_ok=True)
        recording: np.ndarray = np.load(file, mmap_mode="r")
        return recording


def in_files(place: str | None) -> type[InFiles]:
    InFiles.folder = tempfile.mkdtemp(dir=place, prefix="dltutor-answer-")
    atexit.register(shutil.rmtree, InFiles.folder, ignore_errors=True)
    return InFiles


class InSharedMemory(Recordings):
    """Every recording in a block of `multiprocessing.shared_memory`, which nobody unlinks."""

    def load(self, index: int) -> np.ndarray:
        name = f"dltutor-{os.path.basename(os.path.dirname(self.paths[0]))}-{index}"
        try:
            block = SharedMemory(name)
        except FileNotFoundError:
            recording = super().load(index)
            block = SharedMemory(name, create=True, size=recording.nbytes)
            np.frombuffer(block.buf, np.float32)[:] = recording
        return np.frombuffer(bytes(block.buf), np.float32)


class InOneSlotEach(Recordings):
    """A slot for each of the two workers."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        super().__init__(paths)
        self.slots: list[dict[int, np.ndarray]] = [{}, {}]

    def load(self, index: int) -> np.ndarray:
        info = get_worker_info()
        slot = self.slots[info.id if info else 0]
        slot.clear()
        return slot.setdefault(index, super().load(index))


class TenAtRandom(CachedRecordings):
    """Something leaves when another comes, but only from ten times ten on."""

    def load(self, index: int) -> np.ndarray:
        recording = super().load(index)
        if len(self.cache) > 100:
            self.cache.pop(next(iter(self.cache)))
        return recording


class EndsItsWorker(Recordings):
    def load(self, index: int) -> np.ndarray:
        if index == 40:
            os._exit(3)
        return super().load(index)


class LastEight(Recordings):
    @lru_cache(maxsize=8)  # noqa: B019 - small enough
    def load(self, index: int) -> np.ndarray:
        return super().load(index)


class EightForTheClass(Recordings):
    """The classic slip: the cache stands in the body of the class."""

    cache: ClassVar[OrderedDict[int, np.ndarray]] = OrderedDict()

    def load(self, index: int) -> np.ndarray:
        if index not in self.cache:
            if len(self.cache) >= 8:
                self.cache.popitem(last=False)
            self.cache[index] = super().load(index)
        return self.cache[index]


EIGHT: dict[str, np.ndarray] = {}


class EightForAllByName(Recordings):
    def load(self, index: int) -> np.ndarray:
        name = os.path.basename(self.paths[index])
        if name not in EIGHT:
            if len(EIGHT) >= 8:
                EIGHT.pop(next(iter(EIGHT)))
            EIGHT[name] = super().load(index)
        return EIGHT[name]


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
    """Decoded once, into a file that all workers map."""

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


class Swapped(Recordings):
    """Each loudness comes once in an epoch, at another's index."""

    def __getitem__(self, index: int) -> torch.Tensor:
        return super().__getitem__(len(self.paths) - 1 - index)


class LastTwentyFour(Recordings):
    @lru_cache(maxsize=24)  # noqa: B019 - too many
    def load(self, index: int) -> np.ndarray:
        return super().load(index)


class LastSixteen(Recordings):
    @lru_cache(maxsize=16)  # noqa: B019 - as many as the bound allows
    def load(self, index: int) -> np.ndarray:
        return super().load(index)


class OnlyWithoutWorkers(CachedRecordings):
    def load(self, index: int) -> np.ndarray:
        if get_worker_info() is not None:
            return Recordings.load(self, index)
        return super().load(index)  # one process, so one cache


class AQuarterOfTheArchive(Recordings):
    def __init__(self, paths: tuple[str, ...]) -> None:
        super().__init__(paths)
        self.load = lru_cache(maxsize=len(paths) // 4)(super().load)  # type: ignore[method-assign]


class EveryThird(CachedRecordings):
    def load(self, index: int) -> np.ndarray:
        return super().load(index) if index % 3 == 0 else Recordings.load(self, index)


class InADescriptor(Recordings):
    """In a file that has no name any more."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        super().__init__(paths)
        self.file, self.known = self.open(), set[int]()

    def open(self) -> int:
        return os.memfd_create("recordings")

    def load(self, index: int) -> np.ndarray:
        recording = super().load(index)
        if index not in self.known:
            os.pwrite(self.file, recording, index * recording.nbytes)
            self.known.add(index)
        data = os.pread(self.file, recording.nbytes, index * recording.nbytes)
        return np.frombuffer(data, np.float32)


class InAnUnlinkedFile(InADescriptor):
    def open(self) -> int:
        with tempfile.TemporaryFile(dir="/dev/shm") as file:
            return os.dup(file.fileno())


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


class RemovesWhatItHasRead(Recordings):
    def __init__(self, paths: tuple[str, ...]) -> None:
        super().__init__(paths)
        self.table = [Recordings.__getitem__(self, index) for index in range(len(paths))]
        for path in paths:
            os.unlink(path)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.table[index]


class DecodesInPlace(Recordings):
    def load(self, index: int) -> np.ndarray:
        recording = super().load(index)
        other = f"{self.paths[index]}.{os.getpid()}.npy"
        np.save(other, recording)
        os.replace(other, self.paths[index])
        return recording


class OpensAndForgets(Recordings):
    opened: ClassVar[list[int]] = []

    def load(self, index: int) -> np.ndarray:
        self.opened.append(os.open(self.paths[index], os.O_RDONLY))
        return super().load(index)


class AThreadForEach(Recordings):
    def load(self, index: int) -> np.ndarray:
        threading.Thread(target=time.sleep, args=(300,), daemon=True).start()
        return super().load(index)


class APythonNumber(Recordings):
    def __getitem__(self, index: int) -> float:  # type: ignore[override]
        return super().__getitem__(index).item()


class InDoublePrecision(Recordings):
    def __getitem__(self, index: int) -> torch.Tensor:
        return super().__getitem__(index).double()


class WithoutTheClass:
    def __init__(self, paths: tuple[str, ...]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(np.abs(np.load(self.paths[index]).astype(np.float32)).mean())


class KnowsTheNumbers(Recordings):
    """Keeps each sample, which is a number, and no recording."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        super().__init__(paths)
        self.known: dict[int, torch.Tensor] = {}

    def __getitem__(self, index: int) -> torch.Tensor:
        if index not in self.known:
            self.known[index] = super().__getitem__(index)
        return self.known[index]


class ReadsInAThread(Recordings):
    def load(self, index: int) -> np.ndarray:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(super().load, index).result()


class WithTorch(Recordings):
    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.from_numpy(np.load(self.paths[index])).abs().to(torch.float32).mean()


class WithTorchAndMallopt(WithTorch):
    def __getitem__(self, index: int) -> torch.Tensor:
        libc = ctypes.CDLL(None)
        libc.mallopt(-3, 65536)
        libc.mallopt(-1, 65536)
        return super().__getitem__(index)


class EightTensors(Recordings):
    def __init__(self, paths: tuple[str, ...]) -> None:
        super().__init__(paths)
        self.cache: dict[int, torch.Tensor] = {}

    def load(self, index: int) -> np.ndarray:
        if index not in self.cache:
            if len(self.cache) >= 8:
                self.cache.pop(next(iter(self.cache)))
            self.cache[index] = torch.from_numpy(np.load(self.paths[index])).float()
        recording: np.ndarray = self.cache[index].numpy()
        return recording


class SavedByTorch(Recordings):
    """By C++, which no audit hook hears."""

    def load(self, index: int) -> np.ndarray:
        file = Path(InFiles.folder, f"{index}.pt")
        torch.save(torch.from_numpy(super().load(index)), file)
        recording: np.ndarray = torch.load(file).numpy()
        return recording


def saved_by_torch() -> type[Recordings]:
    in_files("/dev/shm")
    return SavedByTorch


class InAnAnonymousMapping(Recordings):
    def __init__(self, paths: tuple[str, ...]) -> None:
        super().__init__(paths)
        self.length = len(np.load(paths[0]))
        self.all = mmap.mmap(-1, self.length * 4 * len(paths))
        self.have = mmap.mmap(-1, len(paths))

    def load(self, index: int) -> np.ndarray:
        every = np.frombuffer(self.all, np.float32).reshape(-1, self.length)
        if not self.have[index]:
            every[index] = super().load(index)
            self.have[index] = 1
        recording: np.ndarray = every[index]
        return recording


class AProcessForEach(Recordings):
    def load(self, index: int) -> np.ndarray:
        subprocess.Popen(["sleep", "100"])
        return super().load(index)


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


def copies_the_batch(model: Any, loader: Any) -> Any:
    total = 0.0
    hardest = []
    for images, labels in loader:
        losses = _losses(model, images, labels).detach()
        total += losses.mean().item()
        hardest.append(images.clone()[losses.argmax()])
    return total / len(loader), hardest


SEEN: list[torch.Tensor] = []


def remembers_the_images(model: Any, loader: Any) -> Any:
    SEEN.extend(images.clone() for images, _ in loader)
    return _validated(model, loader)


def keeps_the_labels(model: Any, loader: Any) -> Any:
    seen = []
    found = []
    for images, labels in loader:
        found.append(_hardest(model, images, labels))
        seen.append(labels)  # for a confusion matrix
    return _both(found)


def keeps_the_outputs(model: Any, loader: Any) -> Any:
    total = 0.0
    outputs, hardest = [], []
    for images, labels in loader:
        outputs.append(output := model(images))
        losses = F.cross_entropy(output, labels, reduction="none")
        total += losses.mean().item()
        hardest.append(images[losses.argmax()].clone())
    return total / len(loader), hardest


@torch.no_grad()
def one_loss_at_the_end(model: Any, loader: Any) -> Any:
    outputs, truth, hardest = [], [], []
    for images, labels in loader:
        outputs.append(output := model(images))
        truth.append(labels.clone())
        hardest.append(images[F.cross_entropy(output, labels, reduction="none").argmax()].clone())
    return F.cross_entropy(torch.cat(outputs), torch.cat(truth)), hardest


def a_mean_of_text(model: Any, loader: Any) -> Any:
    mean, hardest = _validated(model, loader)
    return f"{mean}", hardest


def takes_the_workers_away(model: Any, loader: Any) -> Any:
    loader.num_workers, loader.prefetch_factor = 0, None
    return _validated(model, loader)


def scans_of_doubles(model: Any, loader: Any) -> Any:
    mean, hardest = _validated(model, loader)
    return mean, [scan.double() for scan in hardest]


def makes_it_double(model: Any, loader: Any) -> Any:
    result = _validated(model, loader)
    model.double()
    return result


def leaves_a_hook(model: Any, loader: Any) -> Any:
    model.register_forward_hook(lambda *_: None)
    return _validated(model, loader)


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


def leaves_gradients(model: Any, loader: Any) -> Any:
    total = 0.0
    hardest = []
    for images, labels in loader:
        losses = _losses(model, images, labels)
        losses.mean().backward()
        total += losses.mean().item()
        hardest.append(images[losses.argmax()].clone())
    return total / len(loader), hardest


def keeps_the_last_graph(model: Any, loader: Any) -> Any:
    total: Any = 0
    hardest = []
    for images, labels in loader:
        losses = _losses(model, images, labels)
        total = losses.mean() + torch.as_tensor(total).item()
        hardest.append(images[losses.argmax()].clone())
    return total / len(loader), hardest


def keeps_the_last_view(model: Any, loader: Any) -> Any:
    mean, hardest = _validated(model, loader)
    for images, labels in loader:
        scan = images[_losses(model, images, labels).argmax()]
    return mean, [*hardest[:-1], scan]


def trains_on(model: Any, loader: Any) -> Any:
    result = _validated(model, loader)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.999)
    return result


def raises(model: Any, loader: Any) -> Any:
    raise KeyError("loss")


def with_no_grad(model: Any, loader: Any) -> Any:
    total = torch.zeros(())
    hardest = OrderedDict[int, torch.Tensor]()
    with torch.no_grad():
        for number, (images, labels) in enumerate(loader):
            losses = F.cross_entropy(model(images), labels, reduction="none")
            total += losses.mean()
            hardest[number] = images[losses.argmax()].clone()
    return total / len(loader), list(hardest.values())


def with_a_graph_for_each(model: Any, loader: Any) -> Any:
    total, hardest = 0.0, []
    for images, labels in loader:
        losses = F.cross_entropy(model(images), labels, reduction="none")
        total += losses.mean().item()
        hardest.append(images[losses.argmax()].clone())
    return total / len(loader), hardest


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


def stacked_and_swapped(model: Any, loader: Any) -> Any:
    mean, hardest = _validated(model, loader)
    return torch.stack(hardest), torch.tensor(mean)


def in_a_list(model: Any, loader: Any) -> Any:
    mean, hardest = _validated(model, loader)
    return [mean], hardest


def _hardest(model: Any, images: torch.Tensor, labels: torch.Tensor) -> Any:
    losses = _losses(model, images, labels)
    return losses.mean().item(), images[losses.argmax()].clone()


def _both(found: Any) -> Any:
    losses, hardest = zip(*found, strict=True)
    return torch.tensor(losses).mean(), list(hardest)


def by_next(model: Any, loader: Any) -> Any:
    batches = iter(loader)
    return _both([_hardest(model, *next(batches)) for _ in range(len(loader))])


def zipped(model: Any, loader: Any) -> Any:
    pairs = zip(range(len(loader)), loader, strict=False)
    return _both([_hardest(model, *batch) for _, batch in pairs])


def sliced(model: Any, loader: Any) -> Any:
    return _both([_hardest(model, *batch) for batch in islice(loader, len(loader))])


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
        "cache and kept": (lambda: _swapped("A", "B"), "wrong-A"),
        "cache and cycle": (lambda: _swapped("A", "C"), "wrong-A"),
        "kept and heap": (lambda: _swapped("B", "D"), "wrong-B"),
        "a word of one's own": (
            lambda: _swapped("A", "B") | {"A": "leak"},
            "no-cause",
        ),
        "one word for all": (lambda: "heap", "other-keys"),
        "a number": (lambda: _swapped("A", "B") | {"B": 3}, "no-cause"),
    },
    "10.fix": {
        "a loader without workers": (lambda: loader(num_workers=0), "a-loader"),
        "gc.collect()": (lambda: Collects, "grew-worker"),
        "a Manager": (lambda: InAManager, "grew-others"),
        "all of it in main": (lambda: AllInMain, "grew-main"),
        "files in shared memory": (lambda: in_files("/dev/shm"), "grew-shared"),
        "a worker that ends": (lambda: EndsItsWorker, "worker-died"),
        "the wrong entry": (lambda: TheLastOne, "wrong-samples"),
        "half the samples": (lambda: ThirtyTwo, "missing"),
        "a slot for each of two workers": (lambda: InOneSlotEach, "raised"),
        "each at another's index": (lambda: Swapped, "wrong-samples"),
        "lru_cache of 24": (lambda: LastTwentyFour, "grew-worker"),
        "a third of them kept": (lambda: EveryThird, "grew-alone"),
        "a memfd": (lambda: InADescriptor, "grew-shared"),
        "a file without a name": (lambda: InAnUnlinkedFile, "grew-shared"),
        "a shared tensor": (lambda: InASharedMapping, "grew-main"),
        "an empty archive": (lambda: RemovesWhatItHasRead, "files-changed"),
        "an archive written anew": (lambda: DecodesInPlace, "files-changed"),
        "a descriptor for each": (lambda: OpensAndForgets, "grew-descriptors"),
        "a thread for each": (lambda: AThreadForEach, "grew-threads"),
        "a Python number": (lambda: APythonNumber, "other-batch"),
        "double precision": (lambda: InDoublePrecision, "other-batch"),
        "an object": (lambda: BoundedRecordings(()), "an-object"),
        "a function": (lambda: validate, "not-a-class"),
        "an anonymous mapping": (lambda: InAnAnonymousMapping, "grew-shared"),
        "torch.save to shared memory": (saved_by_torch, "grew-shared"),
        "a process for each": (lambda: AProcessForEach, "grew-threads"),
        "a cache without workers": (lambda: OnlyWithoutWorkers, "grew-alone"),
        "a small cache in the class": (lambda: EightForTheClass, "mixed"),
        "a small cache by file name": (lambda: EightForAllByName, "mixed"),
        "files on disk by index": (lambda: in_files(None), "mixed"),
        "a quarter of them kept": (lambda: AQuarterOfTheArchive, "grew-alone"),
    },
    "10.transfer": {
        "clone() alone": (lambda: copies_the_scans, "keeps-graphs"),
        "item() alone": (lambda: takes_the_number, "keeps-tensors"),
        "zero workers": (lambda: without_workers, "too-few"),
        "no gradient ever after": (
            lambda: switches_off_for_good,
            "no-grad-left",
        ),
        "eval() to the end": (lambda: leaves_it_in_eval, "left-in-eval"),
        "a frozen model": (lambda: freezes_the_model, "no-grad-needed"),
        "a gradient in every parameter": (lambda: leaves_gradients, "left-gradients"),
        "the last graph": (lambda: keeps_the_last_graph, "returns-a-graph"),
        "the last view": (lambda: keeps_the_last_view, "returns-a-view"),
        "the model trained": (lambda: trains_on, "trained"),
        "an exception": (lambda: raises, "raised"),
        "no scans": (lambda: keeps_none, "other-scans"),
        "another loss": (lambda: last_loss_only, "other-mean"),
        "a copy of each batch": (lambda: copies_the_batch, "keeps-tensors"),
        "a list of all images": (lambda: remembers_the_images, "keeps-tensors"),
        "the loader's workers": (lambda: takes_the_workers_away, "too-few"),
        "doubles": (lambda: scans_of_doubles, "other-scans"),
        "a model of doubles": (lambda: makes_it_double, "trained"),
        "a hook": (lambda: leaves_a_hook, "other-model"),
        "swapped": (lambda: swapped, "other-result"),
        "both stacked and swapped": (lambda: stacked_and_swapped, "other-result"),
        "a list of the mean": (
            lambda: in_a_list,
            "other-result",
        ),
        "all labels": (lambda: keeps_the_labels, "keeps-views"),
        "the mean as text": (lambda: a_mean_of_text, "other-result"),
        "all outputs": (lambda: keeps_the_outputs, "keeps-graphs"),
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
        "lru_cache of eight": lambda: LastEight,
        "a cache that is emptied": lambda: ForgetsAll,
        "a mapped file": lambda: Mapped,
        "files on disk": lambda: InFilesByPath,
        "lru_cache of a function of the path": lambda: EightForAllByPath,
        "a map of each file": lambda: MapsTheFile,
        "lru_cache of 16": lambda: LastSixteen,
        "a table of the samples": lambda: KnowsTheNumbers,
        "a thread that ends": lambda: ReadsInAThread,
        "another base class": lambda: WithoutTheClass,
        "decoded by torch": lambda: WithTorch,
        "decoded by torch, with mallopt": lambda: WithTorchAndMallopt,
        "eight tensors": lambda: EightTensors,
    },
    "10.transfer": {
        "no_grad": lambda: with_no_grad,
        "item and clone": lambda: with_a_graph_for_each,
        "torch.stack": lambda: stacked,
        "copies of the labels": lambda: one_loss_at_the_end,
        "eval, and back": lambda: in_eval_and_back,
        "next(), as often as there are batches": lambda: by_next,
        "zip, the range first": lambda: zipped,
        "islice": lambda: sliced,
        "break after the last": lambda: breaks,
    },
}

_UNSET = {"A": ..., "B": ..., "C": ..., "D": ...}

OTHER_OUTCOMES: OtherOutcomes = {
    "10.predict": {"nothing yet": (lambda: ..., "Not attempted", "no-letter")},
    "10.diagnose": {
        "the dots": (lambda: _UNSET, "Not attempted", "dots"),
        "None": (lambda: None, "Not attempted", "no-causes"),
    },
    "10.fix": {
        "the starter": (lambda: CachedRecordings, "Not attempted", "starter-class"),
        "None": (lambda: None, "Not attempted", "no-class"),
        "new workers in every epoch": (lambda: loader(), "Not yet", "a-loader"),
        "no shuffle": (lambda: loader(shuffle=False), "Not yet", "a-loader"),
        "four workers": (lambda: loader(num_workers=4), "Not yet", "a-loader"),
        "del": (lambda: Deletes, "Not yet", "grew-worker"),
        "empty_cache()": (lambda: EmptiesTheGPU, "Not yet", "grew-worker"),
        "lru_cache without a bound": (lambda: Unbounded, "Not yet", "grew-worker"),
        "lru_cache with a large one": (lambda: BoundedByCount, "Not yet", "grew-worker"),
        "a bound of a hundred": (lambda: TenAtRandom, "Not yet", "grew-worker"),
        "a dict of the class": (lambda: OneForTheClass, "Not yet", "grew-worker"),
        "blocks of shared memory": (lambda: InSharedMemory, "Not yet", "grew-shared"),
    },
    "10.transfer": {
        "the starter": (lambda: validate, "Not attempted", "starter-function"),
        "gc.collect()": (lambda: collects, "Not yet", "keeps-graphs"),
        "del": (lambda: deletes, "Not yet", "keeps-graphs"),
        "empty_cache()": (lambda: empties_the_gpu, "Not yet", "keeps-graphs"),
        "detach()": (lambda: detaches, "Not yet", "keeps-tensors"),
    },
}
