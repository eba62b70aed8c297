"""Run an answer to "04.fix" for some epochs, and note what they heard and what was counted."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import DataLoader

from dltutor.lessons.kit.endings import Ending, ending
from dltutor.lessons.kit.forms import whole_number
from dltutor.lessons.kit.running import made, theirs
from dltutor.lessons.lesson_04.copies import global_it_reads, where_it_is_kept
from dltutor.lessons.lesson_04.material import CROP, stretches
from dltutor.observation import observe

MAKING = 2  # seconds for making the dataset

Loop = Callable[[Any, DataLoader[Any]], Any]


@dataclass(frozen=True)
class Plan:
    """What to run: epochs, by their numbers and the recordings that each of them draws."""

    where: str
    clips: torch.Tensor
    draws: tuple[tuple[int, list[int]], ...]
    workers: int = 2
    method: str = "fork"
    persistent: bool = True
    batch_size: int = 4
    deadline: int = 6
    init: Callable[[int], None] | None = None


@dataclass(frozen=True)
class Heard:
    """One epoch.

    Args:
        epoch: The number that main has set.
        drawn: How many stretches the loader asked for.
        came: How many came.
        form: What a batch is that does not hold stretches, or "".
        right: How many are those of the epoch.
        of_epoch: Another epoch, if all that came is of that one; else None.
        silent: How many silent ones have been drawn up to its end.
        said: What `silent()` says after it; the name of a type where that is no number.
    """

    epoch: int
    drawn: int
    came: int
    form: str
    right: int
    of_epoch: int | None
    silent: int
    said: int | str


@dataclass(frozen=True)
class Run:
    """Some epochs with one dataset.

    Args:
        where: Under which circumstances, such as "with 0 workers".
        heard: The epochs.
        end: How it ended.
        kept: A sentence about where the dataset keeps what does not arrive, or "".
        left_behind: A global that the class reads and a spawned worker makes anew, or "".
    """

    where: str
    heard: tuple[Heard, ...]
    end: Ending
    kept: str = ""
    left_behind: str = ""

    @property
    def all_heard(self) -> bool:
        """Whether it finished and every stretch is that of its epoch."""
        complete = all(e.right == e.drawn == e.came and not e.form for e in self.heard)
        return self.end.end == "finished" and complete

    @property
    def all_counted(self) -> bool:
        """Whether `silent()` was right after each epoch."""
        return all(each.said == each.silent for each in self.heard)


def run(answer: type, plan: Plan) -> Run:
    """Run a plan with a new dataset."""
    draw: list[int] = []
    came: list[tuple[list[Any], Any]] = []

    def train(dataset: Any, loader: DataLoader[Any]) -> None:
        for epoch, draw[:] in plan.draws:
            dataset.set_epoch(epoch)
            batches = [
                batch.clone() if isinstance(batch, torch.Tensor) else batch for batch in loader
            ]
            came.append((batches, dataset.silent()))

    dataset, end, _ = drive(answer, plan, train, sampler=draw)
    return Run(
        plan.where,
        tuple(_heard(plan, came)),
        end,
        where_it_is_kept(answer, dataset),
        global_it_reads(answer) if plan.method == "spawn" else "",
    )


def drive(
    answer: type, plan: Plan, loop: Loop, sampler: list[int] | None = None
) -> tuple[Any, Ending, Any]:
    """Make a dataset and its loader, run a loop, and return the dataset, the end, the result."""
    call = f"{answer.__name__}(clips)"
    dataset = made(answer, plan.clips.clone(), call=call, within=MAKING)
    with theirs():
        loader: DataLoader[Any] = DataLoader(
            dataset,
            plan.batch_size,
            sampler=sampler,
            num_workers=plan.workers,
            persistent_workers=plan.persistent and plan.workers > 0,
            multiprocessing_context=plan.method if plan.workers else None,
            worker_init_fn=plan.init,
        )
    with warnings.catch_warnings():
        # Torch's own words about it; ours follow.
        warnings.filterwarnings("ignore", "Got pickle error", UserWarning)
        seen = observe(loader, consume=lambda loader: loop(dataset, loader), deadline=plan.deadline)
    return dataset, ending(seen), seen.result


def _heard(plan: Plan, came: list[tuple[list[Any], Any]]) -> Iterator[Heard]:
    silent = 0
    for (epoch, indices), (batches, said) in zip(plan.draws, came, strict=False):
        by_epoch = {each: stretches(plan.clips, each)[indices] for each in {*range(8), epoch}}
        wanted = by_epoch.pop(epoch)
        silent += int((~wanted.any(dim=1)).sum())
        number = whole_number(said)
        form = next(filter(None, map(_form, batches)), "")
        got = torch.cat(batches) if batches and not form else wanted[:0]
        right, of_epoch = 0, None
        if len(got) == len(wanted):
            right = int((got == wanted).all(dim=1).sum())
            of_epoch = next((e for e, each in by_epoch.items() if torch.equal(got, each)), None)
        said = type(said).__name__ if number is None else number
        yield Heard(epoch, len(indices), len(got), form, right, of_epoch, silent, said)


def _form(batch: Any) -> str:
    if not isinstance(batch, torch.Tensor):
        return f"a {type(batch).__name__}"
    if batch.dim() == 2 and batch.shape[1] == CROP and batch.dtype == torch.int64:
        return ""
    return f"a tensor of {batch.dtype}, shape {tuple(batch.shape)}"
