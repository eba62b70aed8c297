"""Grade "13.fix": batches for a training loop, by workers that are started once.

Nothing is timed. What costs is counted: processes that are started, tensors that each message
brings to main, samples that main makes itself.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import torch
from torch.utils.data import DataLoader

from dltutor.failures.material.sentences import as_list
from dltutor.lessons.kit.exercise import Grader
from dltutor.lessons.kit.forms import a_fixed_function, is_a_loader, shown
from dltutor.lessons.kit.outcomes import Result, correct, not_yet
from dltutor.lessons.kit.running import made, still_running
from dltutor.lessons.lesson_13.costs import messages, starts
from dltutor.lessons.lesson_13.material import Reviews
from dltutor.tables import Table

BATCH: Final = 32
MOST: Final = 3  # tensors that may come to main with a batch
_LONG: Final = 8  # seconds for each run
#: Workers, reviews and steps of each run: two epochs and more. The last is broken off.
_RUNS: Final = ((2, 90, 8), (0, 64, 5), (4, 70, 7), (2, 90, 500))
_BROKEN_OFF: Final = 2  # steps of the last run


def starter(dataset: Any, steps: int, workers: int) -> Iterator[Any]:
    """As the notebook has it."""
    loader: DataLoader[Any] = DataLoader(
        dataset,
        32,
        shuffle=True,
        num_workers=workers,
        collate_fn=as_list,
        multiprocessing_context="fork" if workers else None,
    )
    for _ in range(steps):
        yield next(iter(loader))


@dataclass(frozen=True)
class Run:
    """What one run of an answer delivered, and what it cost.

    Args:
        workers: How many it was told to use.
        steps: How many batches it was asked for, or were taken of more.
        batches: How many came.
        reviews: How many the dataset has.
        odd: What is wrong with a batch, as a sentence, or "".
        order: What is wrong with the order, likewise.
        started: How many processes were started.
        tensors: How many came to main in one message, at most.
        in_main: How many samples main made itself.
        left: What still runs afterwards: "2 processes", or "".
        broken_off: Whether no more batches were asked for after some steps.
    """

    workers: int
    steps: int
    batches: int
    reviews: int
    odd: str = ""
    order: str = ""
    started: int = 0
    tensors: int = 0
    in_main: int = 0
    left: str = ""
    broken_off: bool = False


def _one_run(
    answer: Callable[..., Any], workers: int, reviews: int, steps: int, *, take: int | None = None
) -> Run:
    dataset = Reviews(reviews, seed=reviews + workers)
    seen = _Seen(dataset)

    def go() -> None:
        batches = iter(answer(dataset, steps, workers))
        for batch in islice(batches, take if take is not None else steps + 1):
            if not seen.take(batch):
                break
        if hasattr(batches, "close"):
            batches.close()

    with starts() as started, messages() as tensors:
        made(go, call=f"my_batches(dataset, {steps}, {workers})", within=_LONG)
        gc.collect()
    return Run(
        workers,
        take or steps,
        seen.batches,
        reviews,
        seen.odd,
        seen.order(),
        len(started),
        max(tensors, default=0),
        len(dataset.made),
        still_running(),
        take is not None,
    )


class _Seen:
    """What came, batch by batch."""

    def __init__(self, dataset: Reviews) -> None:
        self._labels = dataset.labels
        self._numbers = {tuple(words.tolist()): i for i, words in enumerate(dataset.reviews)}
        self.numbers: list[int] = []
        self.batches = 0
        self.odd = ""

    def take(self, batch: Any) -> bool:
        """Whether a batch is in order; if not, `odd` says what is not."""
        self.batches += 1
        try:
            reviews, labels = batch
            reviews = list(reviews)
            labels = [int(label) for label in labels]
        except (TypeError, ValueError, RuntimeError):
            self.odd = f"a batch is {shown(batch)}, not a list of reviews and their labels."
            return False
        if not isinstance(batch[1], torch.Tensor) or len(labels) != len(reviews):
            self.odd = f"the labels of {len(reviews)} reviews are {shown(batch[1])}."
        elif not 0 < len(reviews) <= BATCH:
            self.odd = f"a batch has {len(reviews)} reviews. It should have {BATCH} at most."
        else:
            self._read(reviews, labels)
        return not self.odd

    def _read(self, reviews: list[Any], labels: list[int]) -> None:
        for words, label in zip(reviews, labels, strict=True):
            if not isinstance(words, torch.Tensor) or words.ndim != 1 or words.is_floating_point():
                form = shown(words)
                if isinstance(words, torch.Tensor):
                    form = f"a tensor of {words.ndim} dimensions and the type {words.dtype}"
                self.odd = f"a review is {form}. It should be the tensor that the dataset has."
                return
            number = self._numbers.get(tuple(words.tolist()))
            if number is None:
                self.odd = f"a review of {len(words)} words is none of the dataset's."
                return
            if label != self._labels[number]:
                self.odd = f"review {number} has the label {label}, not its own."
                return
            self.numbers.append(number)

    def order(self) -> str:
        size = len(self._labels)
        epochs = [self.numbers[at : at + size] for at in range(0, len(self.numbers), size)]
        for epoch in epochs:
            number, times = Counter(epoch).most_common(1)[0]
            if times > 1:
                missing = min(set(range(size)) - set(epoch))
                return f"review {number} came {times} times, and review {missing} not yet."
        if epochs and epochs[0] == sorted(epochs[0]):
            return "the first epoch is not shuffled."
        if len(epochs) > 1 and epochs[0] == epochs[1]:
            return "two epochs came in the same order."
        return ""


def gather(answer: Callable[..., Any]) -> tuple[Run, ...]:
    """Run the answer with 2, 0 and 4 workers, and break one run off; stop at what is not right."""
    runs: list[Run] = []
    for workers, reviews, steps in _RUNS:
        take = _BROKEN_OFF if steps == _RUNS[-1][-1] else None
        runs.append(_one_run(answer, workers, reviews, steps, take=take))
        if _wrong(runs[-1]):
            break
    return tuple(runs)


def _wrong(run: Run) -> str:
    lead = f"with {run.workers} workers, "
    if run.odd:
        return lead + run.odd + " What does your function do with what `collate_fn` has sent?"
    if run.batches != run.steps:
        more = "more" if run.batches > run.steps else f"{run.batches}"
        return (
            f"{lead}{run.steps} batches were asked for, and {more} came. Where does an epoch end?"
        )
    if run.order:
        return f"{lead}{run.order} Which call begins an epoch, and does each one come in full?"
    if run.started != run.workers:
        return (
            f"{lead}{run.started} processes were started for {run.batches} batches. Which of "
            "your lines starts them, and how often does it run?"
        )
    if run.workers and run.in_main > BATCH:
        return f"{lead}main made {run.in_main} samples itself. Who should make them?"
    if run.tensors > MOST:
        return (
            f"{lead}{run.tensors} tensors came to main with one batch, and {MOST} are allowed. "
            "What could be one tensor, and where could main take it apart again?"
        )
    if run.left:
        when = "the loop was broken off" if run.broken_off else "the last batch had come"
        return (
            f"{lead}{run.left} still ran when {when}. Who still holds the loader or its iterator?"
        )
    return ""


def judge(runs: tuple[Run, ...]) -> Result:
    """Correct if every run was right, and cost no more than it must."""
    for run in runs:
        if wrong := _wrong(run):
            not_yet(wrong)
    most = max(run.tensors for run in runs)
    return correct(
        "As many batches as steps, every review once in each epoch. As many processes as workers "
        f"were started, once; {most} tensors came with a batch; nothing is left, even when the "
        "loop is broken off."
    )


def counted(answer: Callable[..., Any]) -> Table:
    """What 8 batches cost that a function delivers with 2 workers, in counts."""
    run = _one_run(answer, *_RUNS[0])
    once = "no" if run.order else "yes"
    return Table(
        f"{run.batches} batches with 2 workers",
        (
            ("processes started", f"{run.started}"),
            ("tensors sent with one batch", f"{run.tensors}"),
            ("each review once in an epoch", run.odd or once),
        ),
    )


def _look(answer: Any) -> Callable[..., Any]:
    if isinstance(answer, type) and not is_a_loader(answer):
        return answer  # a class whose objects are iterated does as well
    return a_fixed_function(answer, starter)


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=_look,
    runs="runs your function with 2, 0 and 4 workers, and breaks one run off",
    at_most=4 * _LONG + 4,
)
