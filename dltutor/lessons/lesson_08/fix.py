"""Grade "08.fix", which asks for small samples that main can unpack.

The check keeps all samples from an epoch and measures their sizes. Main unpacks the samples with
its own copy of the dataset, which hasn't made any of them if there are workers.
"""

from __future__ import annotations

import io
import pickle
import random
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from dltutor.lessons.engine.endings import Ending, check_ending, run_loader, where
from dltutor.lessons.engine.exercise import by_runs
from dltutor.lessons.engine.forms import a_fixed_class, form, shown
from dltutor.lessons.engine.outcomes import Fault, Result, correct, fault, not_yet, reject
from dltutor.lessons.engine.running import made
from dltutor.observation.texts import tidy
from dltutor.tables import size

SECOND: Final = 20_000  # numbers in a second of a recording
EACH, MORE = 2, 1024  # bytes allowed for each number, and additional bytes for each sample
_RUNS: Final = ((2, 2), (0, 1), (4, 1))  # each run's number of workers and number of epochs
_RECORDINGS: Final = 24
_LENGTHS: Final = {  # recording -> how many numbers it has (the other recordings are longer)
    **{1: SECOND, 5: 15_000, 7: SECOND + 1, 9: SECOND - 1, 13: 6_001},
    _RECORDINGS - 1: 1,
}
_WITHIN: Final = 15  # time limit in seconds for each call in main, and for each run


class Excerpts(Dataset[torch.Tensor]):
    """The notebook's starter for "08.fix": the middle second of each recording, from -1 to 1."""

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
    """A record of how large a sample was when it arrived, and of whether it unpacked right."""

    numbers: int  # numbers in the excerpt
    carried: int  # bytes that arrived with the sample
    tensors: _Tensors = ()  # each tensor's dtype, count of numbers, and bytes of storage
    wrong: Fault | None = None  # what's wrong with the result of `unpack`


@dataclass(frozen=True)
class Epochs:
    """A record of what an answer delivered with a given number of workers."""

    where: str
    run: Ending
    samples: tuple[tuple[Sample, ...], ...] = ()  # for each epoch, in the order of the recordings


class _Weigher(pickle.Pickler):
    # Count the bytes that a queue would send: each storage once, and everything else as a pickle.
    def __init__(self) -> None:
        self.text, self.storages = io.BytesIO(), dict[int, int]()
        self.tensors: list[tuple[str, int, int]] = []
        super().__init__(self.text)

    def reducer_override(self, thing: Any) -> Any:
        if not isinstance(thing, torch.Tensor) or thing.layout is not torch.strided:
            return NotImplemented
        storage = thing.untyped_storage()
        self.storages[storage.data_ptr()] = storage.nbytes()
        kind = str(thing.dtype).removeprefix("torch.")
        self.tensors.append((kind, thing.numel(), storage.nbytes()))
        return int, ()


def weigh(sample: Any) -> tuple[int, _Tensors]:
    """Return how many bytes a worker sends for a sample, and its tensors (see `Sample.tensors`)."""
    weigher = _Weigher()
    weigher.dump(sample)
    return weigher.text.tell() + sum(weigher.storages.values()), (*weigher.tensors,)


def _write(folder: Path) -> dict[str, torch.Tensor]:
    # Write new random recordings, and return the right excerpt for each path.
    draw, held = np.random.default_rng(), {}
    for number in range(_RECORDINGS):
        length = _LENGTHS.get(number) or int(draw.integers(60_000, 160_000))
        recording = draw.integers(-(2**15), 2**15, length, dtype=np.int16)
        recording[length // 2 :][:3] = (-(2**15), 2**15 - 1, 0)[:length]
        np.save(path := folder / f"recording-{number:02}.npy", recording)
        start = max(0, (length - SECOND) // 2)
        excerpt = recording[start : start + SECOND].astype(np.float32) / 2**15
        held[str(path)] = torch.from_numpy(excerpt)
    return held


def run(answer: type) -> Iterator[Epochs]:
    """Try the class without a loader, then yield a record of its runs with 2, 0, and 4 workers.

    Raises:
        Rejected: A dataset can't be made, has the wrong length, or has a sample that pickle can't
            send.
    """
    held, order = _write(Path(tempfile.mkdtemp())), [*range(_RECORDINGS)]
    right = [*held.values()]
    new = partial(made, answer, (*held,), call=f"{answer.__name__}(paths)", within=_WITHIN)
    _try(new())
    dataset = new()  # a new dataset, because `_try` may have changed the first
    came: list[tuple[Sample, ...]] = []

    def collect(loader: DataLoader[Any]) -> None:
        random.shuffle(order)
        kept = list(loader)
        weights = [weigh(sample) for sample in kept]
        unpacked = [dataset.unpack(sample) for sample in kept]
        found = {
            at: Sample(len(right[at]), *weight, _wrong(got, right[at]))
            for at, weight, got in zip(order, weights, unpacked, strict=False)
        }
        came.append(tuple(found[at] for at in sorted(found)))

    for workers, epochs in _RUNS:
        came.clear()
        run = run_loader(
            dataset,
            collect,
            workers=workers,
            within=_WITHIN,
            epochs=epochs,
            batch_size=None,
            sampler=order,
        )
        yield Epochs(where(workers), run, tuple(came))


def _try(dataset: Any) -> None:
    length = made(lambda: len(dataset), call="len(dataset)", within=_WITHIN)
    if length != _RECORDINGS:
        not_yet("other-length", recordings=_RECORDINGS, length=shown(length))
    sample = made(lambda: dataset[0], call="dataset[0]", within=_WITHIN)
    try:
        weigh(sample)
    except Exception as why:
        error = tidy(f"{type(why).__name__}: {why}").splitlines()[0]
        not_yet("cannot-be-sent", error=f"{error:.90}")


def _wrong(got: Any, right: torch.Tensor) -> Fault | None:
    if form(got) != form(right):
        return fault("unpacks-another-form", form=form(got), right=form(right))
    differ = (got - right).abs() > 1e-6
    if not (count := int((~torch.isfinite(got) | differ).sum())):
        return None
    most = float((got - right).abs().max())
    return fault("unpacks-other-numbers", wrong=count, numbers=len(right), most=f"{most:.2g}")


def result(runs: Sequence[Epochs]) -> Result:
    """Return the result for an answer that `judge` accepts in every run."""
    most = max(each.carried for run in runs for epoch in run.samples for each in epoch)
    return correct(recordings=_RECORDINGS, most=size(most))


def judge(run: Epochs) -> None:
    """Raise `Rejected` unless the run finished, and every sample arrived and is right.

    A right sample carries its excerpt in at most `EACH` bytes per number plus `MORE` bytes, and
    main can unpack the sample to the right numbers.
    """
    check_ending(run.run, run.where)
    for samples in run.samples:
        if len(samples) != _RECORDINGS:
            not_yet("missing", where=run.where, arrived=len(samples), recordings=_RECORDINGS)
        for number, each in enumerate(samples):
            if each.wrong:
                reject(each.wrong, where=run.where, recording=number)
            if each.carried < each.numbers:  # less than half of the excerpt's bytes in the file
                how = {"recording": number, "numbers": each.numbers, "carried": each.carried}
                not_yet("not-in-the-sample", where=run.where, **how)
        too_much = [each for each in samples if each.carried > EACH * each.numbers + MORE]
        if too_much:
            _reject_heavy(run.where, len(too_much), max(too_much, key=lambda each: each.carried))


def _reject_heavy(where: str, samples: int, one: Sample) -> None:
    seen: dict[str, object] = {"where": where, "samples": samples, "recordings": _RECORDINGS}
    seen |= {"numbers": one.numbers, "carried": one.carried, "limit": EACH * one.numbers + MORE}
    for kind, count, storage in one.tensors:
        each = getattr(torch, kind).itemsize
        if storage > each * count:
            not_yet("heavy-storage", **seen, own=each * count, storage=storage)
        if count > one.numbers:
            not_yet("heavy-recording", **seen, count=count)
        if each > EACH:
            not_yet("heavy-type", **seen, kind=kind, each=each)
    not_yet("heavy", **seen)


GRADER: Final = by_runs(
    run,
    judge,
    result=result,
    look=partial(a_fixed_class, starter=Excerpts, methods=("__len__", "__getitem__", "unpack")),
    at_most=60,
)
