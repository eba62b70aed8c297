"""What a learner's dataset delivers of a fresh folder, in a loader with 0, 2 and 4 workers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any, Final

import numpy as np
import torch
from PIL import ImageFile
from torch.utils.data import DataLoader, default_collate

from dltutor.lessons.kit.endings import Ending, ending
from dltutor.lessons.kit.outcomes import Outcome, Rejected
from dltutor.lessons.kit.running import made, theirs
from dltutor.lessons.lesson_01.material import Files, Folder, Values, write_list
from dltutor.observation import observe
from dltutor.observation.time_limits import DeadlinePassed, deadline

_WORKERS: Final = (0, 2, 4)
_BATCH_SIZE: Final = 8
_MAKING: Final = 6  # seconds for making the dataset
_RUN: Final = 6  # seconds for a run of the loader
_ONE_FILE: Final = 1  # seconds for the dataset with one odd file, of at most ten
RUNS: Final = "makes your class on a fresh folder and runs it with 0, 2 and 4 workers"
AT_MOST: Final = len(_WORKERS) * (_MAKING + _RUN) + 12 * _ONE_FILE + 6


@dataclass(frozen=True)
class Sample:
    """One sample that arrived.

    Args:
        file: The usable file whose contents it has, or "".
        number: Its class number.
        blank: Whether it has one value all through, in each channel.
        rows_at_end: How many rows of an image have one color, counted from its end.
    """

    file: str
    number: int
    blank: bool = False
    rows_at_end: int = 0


@dataclass(frozen=True)
class Delivery:
    """What a loader with the dataset brought.

    Args:
        workers: How many it had.
        unmade: The error that making the dataset raised, in words, or "".
        run: How the run ended; None where there was none.
        promised: What `len()` of the dataset says.
        form: What is wrong with the form of a batch, as a sentence, or "".
        samples: The samples of the first epoch, in order.
        other_epoch: Whether the second epoch brought other values.
        nones: How many samples are None or hold one; counted where an error speaks of None.
        quarantined: Its keys and values as texts, the folder as "root"; its type if it is no dict.
        changed: What was listed and is no longer as it was; "labels.csv" too.
        ends: Odd files that each alone end an epoch -> the type of the error.
    """

    workers: int
    unmade: str = ""
    run: Ending | None = None
    promised: int = 0
    form: str = ""
    samples: tuple[Sample, ...] = ()
    other_epoch: bool = False
    nones: int = 0
    quarantined: dict[str, str] | str = field(default_factory=dict)
    changed: tuple[str, ...] = ()
    ends: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Evidence:
    """What an answer delivered, with each number of workers up to the first that failed.

    Args:
        files: What the folder held.
        deliveries: One for each number of workers.
        loads_truncated: Whether Pillow's switch of that name was on at the end.
    """

    files: Files
    deliveries: tuple[Delivery, ...]
    loads_truncated: bool = False


def gather(answer: type, folder: Folder) -> Evidence:
    """Make the dataset and run it, with each number of workers until one fails."""
    before = _stamps(folder)
    deliveries: list[Delivery] = []
    for workers in _WORKERS:
        delivery = _deliver(answer, folder, workers)
        after = _stamps(folder)
        changed = tuple(path for path in before if before[path] != after[path])
        deliveries.append(replace(delivery, changed=changed))
        end = delivery.run.end if delivery.run else "raised"
        if end == "raised" and not changed:
            ends = _odd_files_that_end_it(answer, folder)
            deliveries[-1] = replace(delivery, ends=ends)
        if end != "finished" or changed:
            break
    return Evidence(folder.files, tuple(deliveries), bool(ImageFile.LOAD_TRUNCATED_IMAGES))


def _stamps(folder: Folder) -> dict[str, object]:
    def stamp(path: Path) -> object:
        if not path.is_file():  # a folder's own times change with what is put into it
            return path.exists()
        found = path.stat()
        return found.st_size, found.st_mtime_ns, found.st_mode

    paths = ("labels.csv", *(path for path, _ in folder.files.listed))
    return {path: stamp(folder.root / path) for path in paths}


def _deliver(answer: type, folder: Folder, workers: int) -> Delivery:
    try:
        dataset = made(answer, folder.root, call=f"{answer.__name__}(root)", within=_MAKING)
    except Rejected as rejected:
        if rejected.result.outcome is not Outcome.ERROR:
            raise
        return Delivery(workers, unmade=rejected.result.text)
    with theirs():
        loader = DataLoader(
            dataset,
            batch_size=_BATCH_SIZE,
            num_workers=workers,
            multiprocessing_context="fork" if workers else None,
        )
        promised = len(dataset)
    epochs: list[list[tuple[Values, int]]] = []
    wrong: list[str] = []

    def collect(loader: DataLoader[Any]) -> None:
        epochs.append([])
        for batch in loader:
            if form := _wrong_form(batch, folder):
                wrong.append(form)
            else:  # copied, since a batch from a worker lies in shared memory
                values, numbers = (part.detach().numpy().copy() for part in batch)
                epochs[-1].extend(zip(values, numbers.tolist(), strict=True))

    run = ending(observe(loader, consume=collect, epochs=1 if workers else 2, deadline=_RUN))
    one, other = epochs[0], epochs[-1]
    return Delivery(
        workers,
        run=run,
        promised=promised,
        form=wrong[0] if wrong else "",
        samples=tuple(_sample(values, number, folder) for values, number in one),
        other_epoch=len(one) != len(other)
        or any(
            not np.array_equal(values, again)
            for (values, _), (again, _) in zip(one, other, strict=True)
        ),
        nones=_samples_that_are_none(dataset) if "NoneType" in run.message else 0,
        quarantined=_quarantined(dataset, folder),
    )


def _wrong_form(batch: Any, folder: Folder) -> str:
    noun = folder.files.noun
    held = next(iter(folder.contents.values()))
    pair = isinstance(batch, list) and len(batch) == 2
    if not (pair and all(isinstance(part, torch.Tensor) for part in batch)):
        return (
            f"a batch is {_described(batch)}. It has to be a tensor of {noun}s and a tensor of "
            "class numbers."
        )
    values, numbers = batch
    if values.shape[1:] != held.shape or not values.is_floating_point():
        return (
            f"{noun}s arrive as {_described(values)}. Each has to be a tensor of floats of shape "
            f"{held.shape}."
        )
    if numbers.dtype not in (torch.int64, torch.int32) or numbers.shape != (len(values),):
        return f"classes arrive as {_described(numbers)}. Each has to be a whole number."
    if folder.unit and not 0 <= values.min() <= values.max() <= 1:
        return f"values run from {values.min():g} to {values.max():g}, and not from 0 to 1."
    return ""


def _described(thing: Any) -> str:
    if isinstance(thing, torch.Tensor):
        return f"{str(thing.dtype).removeprefix('torch.')} of shape {tuple(thing.shape)}"
    if isinstance(thing, list):
        return f"a list of {len(thing)} ({', '.join(type(part).__name__ for part in thing[:3])})"
    return f"a {type(thing).__name__}"


def _sample(values: Values, number: int, folder: Folder) -> Sample:
    distance = {path: float(np.abs(held - values).mean()) for path, held in folder.contents.items()}
    nearest = min(distance, key=lambda path: distance[path])
    flat = np.ptp(values, axis=-1) < 1e-3  # row by row, in an image
    rows = np.logical_and.accumulate(flat.all(axis=0)[::-1]) if flat.ndim > 1 else flat[:0]
    return Sample(
        file=nearest if distance[nearest] <= folder.tolerance else "",
        number=number,
        blank=bool((np.ptp(values.reshape(len(values), -1), axis=1) < 1e-3).all()),
        rows_at_end=int(rows.sum()),
    )


def _quarantined(dataset: Any, folder: Folder) -> dict[str, str] | str:
    def text(thing: object) -> str:
        return str(thing).replace(str(folder.root), "root").strip()

    with theirs():
        kept = getattr(dataset, "quarantined", None)
        if not isinstance(kept, dict):
            return type(kept).__name__
        return {
            text(path) if isinstance(path, (str, PurePath)) else repr(path): text(why or "")
            for path, why in kept.items()
        }


def _samples_that_are_none(dataset: Any) -> int:
    count = 0
    try:
        with deadline(_ONE_FILE):
            for i in range(len(dataset)):
                sample = dataset[i]
                parts = sample if isinstance(sample, (tuple, list)) else (sample,)
                count += any(part is None for part in parts)
    except (Exception, DeadlinePassed):
        pass
    return count


def _odd_files_that_end_it(answer: type, folder: Folder) -> dict[str, str]:
    # Empty where an epoch without any odd file ends too: then the files are not the reason.
    if _error_with(answer, folder, ""):
        return {}
    errors = {path: _error_with(answer, folder, path) for path in folder.files.odd}
    return {path: error for path, error in errors.items() if error}


def _error_with(answer: type, folder: Folder, odd: str) -> str:
    listed = folder.files.listed
    healthy = [entry for entry in listed if entry[0] not in folder.files.odd][:3]
    write_list(folder.root, [*healthy, *(entry for entry in listed if entry[0] == odd)])
    try:
        with deadline(_ONE_FILE):
            dataset = answer(folder.root)
            default_collate([dataset[i] for i in range(len(dataset))])
    except DeadlinePassed:
        return "too slow"
    except BaseException as error:  # also SystemExit
        return type(error).__name__
    return ""
