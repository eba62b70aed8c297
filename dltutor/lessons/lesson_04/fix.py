"""Grade "04.fix": the epoch has to reach the workers, and the count of silence has to come back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import torch

from dltutor.lessons.kit.endings import Ending, ended_well, run_loader
from dltutor.lessons.kit.exercise import Grader
from dltutor.lessons.kit.forms import a_fixed_class, whole_number
from dltutor.lessons.kit.outcomes import Rejected, Result, correct, error_in_your_code, not_yet
from dltutor.lessons.kit.running import made, send_cells
from dltutor.lessons.lesson_04.material import CountedClips, SlowMotion, make_clips, stretches

_ALL: Final = list(range(16))
# As a resumed run does, with a sampler that draws some recordings twice and others not at all.
_DRAWS: Final = ((0, _ALL), (301, 2 * _ALL[:8]), (1, _ALL))
# In slow motion, four workers draw one recording at the same moment, and then the next one.
_AT_ONCE: Final = ((0, [index // 4 for index in _ALL]),)
_SPAWN: Final = (
    " Under fork it is right. A spawned worker gets your dataset by pickle, with its attributes, "
    "and imports every module anew, with its globals. What of yours does not travel?"
)


@dataclass(frozen=True)
class Plan:
    """A run: epochs by the numbers that main sets, each with the recordings that it draws."""

    where: str
    draws: tuple[tuple[int, list[int]], ...] = _DRAWS
    workers: int = 2
    persistent: bool = True
    method: str = "fork"
    within: int = 6  # seconds
    slow: bool = False

    @property
    def clips(self) -> torch.Tensor:
        """The recordings. In slow motion most are silent in epoch 0; two are nearly so, always."""
        clips = make_clips((0, 301, 1), seed=45, most=self.slow)
        quiet = stretches(clips, 0)[13:15]
        quiet[:], quiet[0, 7], quiet[:, 9] = 0, 5, -5
        return clips


PLANS: Final = (
    Plan("with 2 persistent workers under fork"),
    Plan("with 4 workers in slow motion", _AT_ONCE, 4, within=12, slow=True),
    Plan("with 2 fresh workers under fork", persistent=False),
    Plan("with 0 workers", (*_DRAWS[:2], (1, 100 * _ALL)), 0, persistent=False),
    Plan("with a persistent worker under spawn", workers=1, method="spawn", within=40),
)


@dataclass(frozen=True)
class Run:
    """What came: the length, and for each epoch its batches and what `silent()` said after it."""

    plan: Plan
    length: int
    epochs: tuple[tuple[list[Any], Any], ...]
    end: Ending


def look(answer: Any) -> type:
    """The answer, if it is a class with the methods of the starter, and not the starter."""
    methods = ("__len__", "__getitem__", "set_epoch", "silent")
    return a_fixed_class(answer, CountedClips, methods=methods)


def gather(answer: type) -> tuple[Run, ...]:
    """Run it by each plan, up to the first run in which something is not right."""
    send_cells()
    runs: list[Run] = []
    for plan in PLANS:
        runs.append(_run(answer, plan))
        try:
            _judge(runs[-1])
        except Rejected:
            break
    return tuple(runs)


def _run(answer: type, plan: Plan) -> Run:
    dataset = made(answer, plan.clips, call=f"{answer.__name__}(clips)", within=2)
    draw: list[int] = []
    lengths: list[int] = []
    epochs: list[tuple[list[Any], Any]] = []

    def train(loader: Any) -> None:
        lengths.append(len(dataset))
        epoch, draw[:] = plan.draws[len(epochs)]
        dataset.set_epoch(epoch)
        came = [each.clone() if isinstance(each, torch.Tensor) else each for each in loader]
        said = dataset.silent()
        epochs.append((came, said if (number := whole_number(said)) is None else number))

    end = run_loader(
        dataset,
        train,
        workers=plan.workers,
        within=plan.within,
        method=plan.method,
        epochs=len(plan.draws),
        batch_size=1 if plan.slow else 4,
        sampler=draw,
        persistent_workers=plan.persistent,
        worker_init_fn=SlowMotion(plan.workers) if plan.slow else None,
    )
    return Run(plan, max(lengths, default=0), tuple(epochs), end)


def judge(runs: tuple[Run, ...]) -> Result:
    """Correct if every stretch was heard in its epoch and every silent one counted, in all runs."""
    for run in runs:
        _judge(run)
    return correct(
        "In the epochs 0, 301 and 1 all stretches are the epoch's own, and every silent one that "
        "was drawn is counted: with 0, 2 and 4 workers, persistent and fresh ones, under fork and "
        "spawn, and in slow motion."
    )


def _judge(run: Run) -> None:
    plan, spawn = run.plan, _SPAWN if run.plan.method == "spawn" else ""
    if spawn and run.end.end == "raised":
        error_in_your_code(f"{plan.where}, `{run.end.message}`.{spawn}")
    ended_well(run.end, plan.where, died=spawn.strip())
    if run.length != len(_ALL):
        not_yet(f"`len()` says {run.length}, of a dataset of {len(_ALL)} recordings.")
    silent = []
    for (epoch, draw), (came, _) in zip(plan.draws, run.epochs, strict=True):
        for batch in came:
            if getattr(batch, "dtype", None) != torch.int64 or batch.shape[1:] != (32,):
                not_yet(
                    f"a sample is 32 whole numbers, and has to stay so. A batch: {_form(batch)}"
                )
        got, wanted = torch.cat(came), stretches(plan.clips, epoch)[draw]
        if wrong := int((got != wanted).any(dim=1).sum()):
            text = f"{wrong} of {len(wanted)} stretches of epoch {epoch} are wrong"
            not_yet(f"{plan.where}, {text}{_instead(plan, got, draw, epoch)}{spawn}")
        silent.append(int((~wanted.any(dim=1)).sum()))
    for number, (_, said) in enumerate(run.epochs, 1):
        if not isinstance(said, int):
            kind = type(said).__name__
            not_yet(f"`silent()` returned a {kind}, and has to return a whole number.")
        if said != (drawn := sum(silent[:number])):
            text = f"{drawn} silent stretches were drawn, and `silent()` says {said}."
            not_yet(f"{plan.where}, {text}{spawn or _why(plan, said, drawn)}")


def _form(batch: Any) -> str:
    if isinstance(batch, torch.Tensor):
        return f"{batch.dtype}, shape {tuple(batch.shape)}."
    return f"a {type(batch).__name__}."


def _instead(plan: Plan, got: torch.Tensor, draw: list[int], epoch: int) -> str:
    others = [each for each in range(302) if torch.equal(got, stretches(plan.clips, each)[draw])]
    if not others:
        return f". Which numbers of a recording belong to epoch {epoch}, and who changes them?"
    text = f": they are those of epoch {others[0]}. Main had called `set_epoch({epoch})`."
    if others[0] == 0:
        return f"{text} Which copy of the number did `__getitem__` read?"
    return f"{text} How does your class come from the one to the other? Epochs may be left out."


def _why(plan: Plan, said: int, silent: int) -> str:
    if said == 0:
        return " Who counted, and in which copy?" if plan.workers else " Who counts in main?"
    if plan.slow and said < silent:
        return (
            " Counts get lost when workers count at the same moment. What may nobody else do "
            "between reading a number and writing it back?"
        )
    return (
        " It counts all that were drawn since the dataset was made, each as often as it was. "
        "Silent is a stretch of 32 zeros."
    )


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=look,
    runs="your class with 2, 4 and 0 workers, in slow motion, and under spawn",
    at_most=sum(plan.within + 2 for plan in PLANS) + 5,
)
