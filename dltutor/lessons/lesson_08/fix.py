"""Grade "08.fix": what travels from a worker to main is small, and main makes of it what it was.

All samples of an epoch are kept and weighed, and main unpacks them, with an object that has made
none of them itself. The numbers are noise: what is much smaller when compressed has them not in it.
"""

from __future__ import annotations

import io
import pickle
import random
import tempfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from dltutor.lessons.engine.endings import Ending, ended_well, run_loader, where
from dltutor.lessons.engine.exercise import Grader
from dltutor.lessons.engine.forms import a_fixed_class, shown
from dltutor.lessons.engine.outcomes import Rejected, Result, correct, not_yet
from dltutor.lessons.engine.running import changed, contents, made
from dltutor.observation.texts import tidy
from dltutor.tables import size

SECOND: Final = 20_000  # numbers
EACH, MORE = 2, 1024  # bytes that a number may take, and a sample besides
_RUNS: Final = ((2, 2), (0, 1), (4, 1))  # workers, and epochs
_RECORDINGS: Final = 24
_SHORT: Final = {5: 15_000, 9: SECOND - 1, 13: 6_001, _RECORDINGS - 1: 1}  # recording: numbers
_WITHIN: Final = 15  # seconds for each thing that the answer does; a right one takes one


class Excerpts(Dataset[torch.Tensor]):
    """The starter of "08.fix": the middle second of each recording, as numbers from -1 to 1."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        recording = torch.from_numpy(np.load(self.paths[index])) / 2**15
        start = max(0, (len(recording) - SECOND) // 2)
        return recording[start : start + SECOND]

    def unpack(self, sample: Any) -> Any:
        return sample


_Tensors = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True)
class Sample:
    """One sample that arrived."""

    numbers: int  # in its excerpt
    carried: int  # bytes that came with it
    packed: int  # the same when compressed
    tensors: _Tensors = ()  # type, how many numbers, bytes of the storage
    wrong: str = ""  # what is wrong with it unpacked, as the end of a sentence


@dataclass(frozen=True)
class Epochs:
    """What an answer delivered with some workers."""

    where: str
    run: Ending
    samples: tuple[tuple[Sample, ...], ...] = ()  # of each epoch, in the order of the recordings
    changed: tuple[str, ...] = ()  # recordings that were changed, added or removed


class _Weigher(pickle.Pickler):
    # What a queue would send: a tensor as its storage, once; all else as a pickle.
    def __init__(self) -> None:
        self.text, self.storages = io.BytesIO(), dict[int, bytes]()
        self.tensors: list[tuple[str, int, int]] = []
        super().__init__(self.text)

    def reducer_override(self, thing: Any) -> Any:
        if not isinstance(thing, torch.Tensor) or thing.layout is not torch.strided:
            return NotImplemented
        storage = thing.untyped_storage()
        held = torch.empty(0, dtype=torch.uint8).set_(storage)
        self.storages[storage.data_ptr()] = held.numpy().tobytes()
        kind = str(thing.dtype).removeprefix("torch.")
        self.tensors.append((kind, thing.numel(), storage.nbytes()))
        return int, ()


def weigh(sample: Any) -> tuple[int, int, _Tensors]:
    """The bytes that travel with a sample, those when compressed, and its tensors."""
    weigher = _Weigher()
    weigher.dump(sample)
    sent = b"".join((weigher.text.getvalue(), *weigher.storages.values()))
    return len(sent), len(zlib.compress(sent, 1)), (*weigher.tensors,)


def write(folder: Path) -> dict[str, torch.Tensor]:
    """Recordings that nobody has heard before: their paths, and the right excerpts."""
    draw, held = np.random.default_rng(), {}
    for number in range(_RECORDINGS):
        length = int(draw.integers(60_000, 160_000))
        length = {1: SECOND, 7: SECOND + 1, **_SHORT}.get(number, length)
        recording = draw.integers(-(2**15), 2**15, length, dtype=np.int16)
        recording[len(recording) // 2 :][:3] = (-(2**15), 2**15 - 1, 0)[: len(recording)]
        np.save(path := folder / f"recording-{number:02}.npy", recording)
        start = max(0, (length - SECOND) // 2)
        excerpt = recording[start : start + SECOND].astype(np.float32) / 2**15
        held[str(path)] = torch.from_numpy(excerpt)
    return held


def gather(answer: type) -> tuple[Epochs, ...]:
    """Use the class in main, then with 2, 0 and 4 workers, up to what is not right."""
    folder = Path(tempfile.mkdtemp())
    right = [*(held := write(folder)).values()]
    before, order = contents(folder), [*range(_RECORDINGS)]
    new = partial(made, answer, (*held,), call=f"{answer.__name__}(paths)", within=_WITHIN)
    _try(new())
    dataset = new()  # has nothing of what `dataset[0]` left in the other
    runs: list[Epochs] = []
    for workers, epochs in _RUNS:
        came: list[tuple[Sample, ...]] = []

        def collect(loader: DataLoader[Any], came: Any = came) -> None:
            random.shuffle(order)
            kept = list(loader)
            weights = [weigh(sample) for sample in kept]
            unpacked = [dataset.unpack(sample) for sample in kept]
            found = sorted(zip(order, weights, unpacked, strict=False), key=lambda each: each[0])
            came.append(
                tuple(Sample(len(right[at]), *w, _wrong(got, right[at])) for at, w, got in found)
            )

        more: dict[str, Any] = {"batch_size": None, "sampler": order, "within": _WITHIN}
        more |= {"epochs": epochs, "persistent_workers": epochs > 1}
        run = run_loader(dataset, collect, workers=workers, **more)
        runs.append(Epochs(where(workers), run, tuple(came), tuple(changed(before, folder))))
        try:
            _right(runs[-1])
        except Rejected:
            break
    return tuple(runs)


def _try(dataset: Any) -> None:
    length = made(lambda: len(dataset), call="len(dataset)", within=_WITHIN)
    if length != _RECORDINGS:
        not_yet(f"there are {_RECORDINGS} recordings, and `len(dataset)` is {shown(length)}.")
    sample = made(lambda: dataset[0], call="dataset[0]", within=_WITHIN)
    try:
        weigh(sample)
    except Exception as why:
        text = tidy(f"{type(why).__name__}: {why}").splitlines()[0]
        not_yet(f"`dataset[0]` cannot be sent from a worker to main: `{text:.90}`. What is it?")


def _wrong(got: Any, right: torch.Tensor) -> str:
    if not isinstance(got, torch.Tensor):
        return f"is a `{type(got).__name__}`, and the starter's is a tensor"
    kind, shape = str(got.dtype).removeprefix("torch."), tuple(got.shape)
    if kind != "float32":
        return f"is {kind}, and the starter's is float32"
    if shape != tuple(right.shape):
        return f"has the shape {shape}, and the starter's {tuple(right.shape)}"
    differ = (got - right).abs() > 1e-6
    if not (count := int((~torch.isfinite(got) | differ).sum())):
        return ""
    most = float((got - right).abs().max())
    return f"differs in {count} of {len(right)} numbers, by up to {most:.2g}"


def judge(runs: Sequence[Epochs]) -> Result:
    """Correct if every excerpt came, small, and is what it was."""
    for run in runs:
        _right(run)
    most = max(each.carried for run in runs for epoch in run.samples for each in epoch)
    return correct(
        f"With 2, 0 and 4 workers, {_RECORDINGS} of {_RECORDINGS} excerpts arrive in every epoch "
        f"and unpack to what the starter's are. None carries more than {size(most)}; the starter's "
        "carry their whole recording, as float32."
    )


def _right(run: Epochs) -> None:
    if run.changed:
        not_yet(f"{run.where}, `{run.changed[0]}` was changed, added or removed. Others read it.")
    ended_well(run.run, run.where, hung="What keeps it from ending?")
    for samples in run.samples:
        if len(samples) != _RECORDINGS:
            not_yet(f"{run.where}, {len(samples)} of {_RECORDINGS} samples came in an epoch.")
        for number, each in enumerate(samples):
            if each.wrong:
                not_yet(f"{run.where}, recording {number}, unpacked, {each.wrong}.")
            if each.packed < each.numbers:
                not_yet(
                    f"{run.where}, the {each.numbers} numbers of recording {number} are not in its "
                    f"sample: compressed, it has {each.packed} bytes. Where does `unpack` get them?"
                )
        too_much = [each for each in samples if each.carried > EACH * each.numbers + MORE]
        if too_much:
            _too_much(run.where, len(too_much), max(too_much, key=lambda each: each.carried))


def _too_much(where: str, samples: int, one: Sample) -> None:
    lead = (
        f"{where}, {samples} of {_RECORDINGS} samples carry too much: one with {one.numbers} "
        f"numbers carries {one.carried} bytes, and may have {EACH * one.numbers + MORE}."
    )
    for kind, count, storage in one.tensors:
        each = getattr(torch, kind).itemsize
        if storage > each * count:
            not_yet(
                f"{lead} It has a tensor of {each * count} bytes in a storage of {storage}. Who "
                "still needs the rest of that storage?"
            )
        if count > one.numbers:
            not_yet(
                f"{lead} It has a tensor of {count} numbers. Which of them does the loop not use?"
            )
        if each > EACH:
            not_yet(
                f"{lead} It has a tensor of {kind}, {each} bytes for each number. How many does a "
                "number have in the file, and where does it become larger?"
            )
    not_yet(f"{lead} What is in it besides the numbers, and how is each written?")


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=partial(a_fixed_class, starter=Excerpts, methods=("__len__", "__getitem__", "unpack")),
    runs=f"your class on {_RECORDINGS} fresh recordings, with 2, 0 and 4 workers",
    at_most=60,
)
