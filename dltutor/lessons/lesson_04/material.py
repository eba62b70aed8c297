"""The datasets of lesson 04, its measured tables, and slow motion, which makes races certain."""

from __future__ import annotations

import dis
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import get_context
from threading import BrokenBarrierError
from types import CodeType, FrameType
from typing import Any, Final, TypeAlias

import torch
from torch.overrides import TorchFunctionMode
from torch.utils.data import DataLoader, Dataset, get_worker_info

from dltutor.failures import global_state
from dltutor.observation import observe
from dltutor.observation.errors import is_yours
from dltutor.tables import Table

Loader: TypeAlias = DataLoader[torch.Tensor]


class CountedClips(Dataset[torch.Tensor]):
    """Long recordings. Each epoch hears the next stretch of each, and silent ones are counted."""

    def __init__(self, clips: torch.Tensor) -> None:
        self.clips = clips
        self.epoch = 0
        self.count = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def silent(self) -> int:
        return self.count

    def __len__(self) -> int:
        return len(self.clips)

    def __getitem__(self, index: int) -> torch.Tensor:
        start = 32 * self.epoch
        stretch = self.clips[index, start : start + 32]
        if not stretch.any():
            self.count += 1
        return stretch


def make_clips(
    epochs: tuple[int, ...] = (0, 1, 2), *, seed: int = 4, most: bool = False
) -> torch.Tensor:
    """Sixteen recordings that last these epochs. In each of them some are silent, or most."""
    generator = torch.Generator().manual_seed(seed)
    length = max(400, 32 * (max(epochs, default=0) + 1))
    clips = torch.randint(1, 1000, (16, length), generator=generator)
    for place, epoch in enumerate(epochs):
        stretches(clips, epoch)[slice(12) if most else slice(place, None, 5)] = 0
    return clips


def stretches(clips: torch.Tensor, epoch: int) -> torch.Tensor:
    """What an epoch has to hear of each recording: a view of shape (recordings, 32)."""
    return clips[:, 32 * epoch : 32 * (epoch + 1)]


class Headlines(Dataset[torch.Tensor]):
    """Headlines as numbers. A word gets the next number when it is met for the first time."""

    def __init__(self, headlines: list[str]) -> None:
        self.headlines = headlines
        self.vocabulary: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.headlines)

    def __getitem__(self, index: int) -> torch.Tensor:
        words = self.headlines[index].split()
        for word in words:
            self.vocabulary.setdefault(word, len(self.vocabulary))
        return torch.tensor([self.vocabulary[word] for word in words])


_WORDS: Final = (
    ("mayor", "river", "harbor", "council", "school", "museum", "bridge", "baker", "orchestra"),
    ("opens", "closes", "finds", "loses", "paints", "moves", "visits", "repairs"),
    ("old", "second", "quiet", "green", "famous", "northern", "last", "wooden"),
    ("bridge", "garden", "school", "clock", "museum", "boat", "library", "market", "tower"),
)


def make_headlines(*, seed: int = 5) -> list[str]:
    """Thirty-two headlines of four words each; many words come in several."""
    chance = random.Random(seed)
    return [" ".join(chance.choice(words) for words in _WORDS) for _ in range(32)]


class _Witness(global_state.Readings):
    # Each sample tells which worker drew it, and what the counter of that process says.
    def __getitem__(self, index: int) -> torch.Tensor:
        super().__getitem__(index)
        return torch.tensor([get_worker_info().id, global_state.replaced])  # type: ignore[union-attr]


def ask_every_process(main_sets: int = 0) -> Table:
    """What each process counts in three epochs, with fresh and with persistent workers.

    Args:
        main_sets: What main sets its own counter to after epoch 0.
    """
    rows = []
    for kind in ("fresh", "persistent"):
        said: dict[str, list[str]] = {"main": [], "W0": [], "W1": []}

        def train(loader: Loader, said: dict[str, list[str]] = said) -> None:
            global_state.replaced = main_sets if said["main"] else 0
            last = dict(pair for batch in loader for pair in batch.tolist())
            for who, count in zip(said, (global_state.replaced, last[0], last[1]), strict=True):
                said[who].append(str(count))

        _run(_Witness(), train, epochs=3, persistent_workers=kind == "persistent")
        rows += [(kind, who, *counts) for who, counts in said.items()]
    header = ("workers", "in", "epoch 0", "epoch 1", "epoch 2")
    return Table("replaced, at the end of each epoch", tuple(rows), header)


_of_module = 0
_OF_SYSTEM: Final = "DLTUTOR_SET_BY_MAIN"
_WHEN: Final = {(0, 0): "never", (1, 1): "when it starts", (1, 2): "at any time"}
_WHAT: Final = (
    "an attribute of the dataset",
    "an environment variable",
    "a global variable of a module",
    "a class attribute",
    "a tensor, changed in place",
    "a tensor after share_memory_()",
)


class _Told(Dataset[torch.Tensor]):
    # Its one sample: what the process that makes it has of six things that main sets.
    of_class = 0

    def __init__(self) -> None:
        self.attribute = 0
        self.plain = torch.tensor(0)
        self.shared = torch.tensor(0).share_memory_()  # type: ignore[no-untyped-call]

    def set_all(self, number: int) -> None:
        global _of_module
        _of_module = _Told.of_class = self.attribute = number
        os.environ[_OF_SYSTEM] = str(number)
        self.plain.fill_(number)
        self.shared.fill_(number)

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> list[int]:  # type: ignore[override]
        of_system = int(os.environ.get(_OF_SYSTEM, 0))
        mine = (self.attribute, of_system, _of_module, self.of_class, self.plain, self.shared)
        return [int(each) for each in mine]


def what_arrives() -> Table:
    """What main sets, and when a persistent worker gets to see it, under fork and spawn."""
    columns = [_WHAT, *map(_arrives, ("fork", "spawn"))]
    rows = tuple(zip(*columns, strict=True))
    return Table("What main sets arrives in a worker", rows, ("", "fork", "spawn"))


def _arrives(method: str) -> tuple[str, ...]:
    dataset, seen = _Told(), list[list[int]]()

    def train(loader: Loader) -> None:
        dataset.set_all(len(seen) + 1)
        seen.extend([int(each) for each in batch] for batch in loader)

    _run(dataset, train, epochs=2, num_workers=1, multiprocessing_context=method)
    dataset.set_all(0)
    del os.environ[_OF_SYSTEM]
    return tuple(_WHEN[start, later] for start, later in zip(*seen, strict=True))


def side_by_side(broken: type, fixed: type) -> Table:
    """What two persistent workers hear and count with one class and with another."""
    clips, silent, columns = make_clips(), 0, list[list[str]]()
    for made in (broken, fixed):
        dataset, told = made(clips), list[str]()

        def train(loader: Loader, dataset: Any = dataset, told: list[str] = told) -> None:
            dataset.set_epoch(epoch := len(told))
            right = (torch.cat(list(loader)) == stretches(clips, epoch)).all(dim=1).sum()
            told.append(f"{right} of {len(clips)} right, silent() says {int(dataset.silent())}")

        _run(dataset, train, epochs=3)
        columns.append(told)
    rows = []
    for epoch, cells in enumerate(zip(*columns, strict=True)):
        silent += int((~stretches(clips, epoch).any(dim=1)).sum())
        rows.append((str(epoch), str(silent), *cells))
    header = ("epoch", "silent so far", broken.__name__, fixed.__name__)
    return Table("Two persistent workers", tuple(rows), header)


def _run(dataset: Any, train: Callable[[Loader], None], epochs: int, **options: Any) -> None:
    two: dict[str, Any] = {"num_workers": 2, "multiprocessing_context": "fork"}
    loader = DataLoader(dataset, 8, **{**two, "persistent_workers": True, **options})
    seen = observe(loader, consume=train, epochs=epochs, deadline=50)
    if seen.end != "finished":
        raise RuntimeError(f"the workers did not get to the end of {epochs} epochs:\n{seen}")


class SlowMotion(TorchFunctionMode):
    """A `worker_init_fn` that makes races certain.

    `number += 1` reads, adds and writes. Without a lock a count is lost where two processes read
    before either writes; between the two lies a microsecond. With this it is a moment: the workers
    take each sample together, and wait before each call and each write in your code, and between
    reading and writing where a shared tensor is changed in place.

    Args:
        workers: How many workers the loader has.
    """

    steps: Final = ("STORE_ATTR", "STORE_SUBSCR", "CALL", "CALL_KW", "CALL_FUNCTION_EX")
    wait: Final = 0.02  # seconds before each of them
    times: Final = 4  # that a worker takes each of them slowly: a loop would not end

    def __init__(self, workers: int) -> None:
        super().__init__()
        self._together = get_context("fork").Barrier(workers)
        self._taken: Counter[tuple[CodeType, int]] = Counter()

    def __call__(self, worker_id: int) -> None:
        self._wait_for_the_others()
        sys.settrace(self._enter)
        self.__enter__()  # type: ignore[no-untyped-call]  # to the end of the worker's life

    def _enter(self, frame: FrameType, event: str, arg: Any) -> Any:
        if not is_yours(frame.f_code.co_filename):
            return None
        if frame.f_code.co_name == "__getitem__":
            self._wait_for_the_others()
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        return self._step

    def _wait_for_the_others(self) -> None:
        with suppress(BrokenBarrierError):  # one that has died, or waits for a lock, does not come
            self._together.wait(timeout=2)

    def _step(self, frame: FrameType, event: str, arg: Any) -> Any:
        here = frame.f_code, frame.f_lasti
        if event == "opcode" and dis.opname[frame.f_code.co_code[frame.f_lasti]] in self.steps:
            self._taken[here] += 1
            if self._taken[here] <= self.times:
                time.sleep(self.wait)
        return self._step

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = func.__name__, kwargs or {}
        if not name.endswith("_") or name.endswith("__") or not args[0].is_shared():
            return func(*args, **kwargs)
        old, new = args[0].clone(), args[0].clone()
        func(new, *args[1:], **kwargs)
        if new.shape != old.shape:  # it was given more room, not other numbers
            return func(*args, **kwargs)
        time.sleep(self.wait)
        changed = new != old
        args[0][changed] = new[changed]
        return args[0]
