"""Does a dataset reach its workers, and what does it deliver there?"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.utils.data import DataLoader

from dltutor.lessons.kit.endings import Ending, ended_well, ending
from dltutor.lessons.kit.outcomes import not_yet
from dltutor.lessons.kit.running import theirs
from dltutor.observation import observe
from dltutor.observation.texts import said, tidy

Samples = list[torch.Tensor]

IN_MAIN: Final = 12  # seconds for all that is done in main
FORKED: Final = 8  # seconds for an epoch of forked workers
SPAWNED: Final = 40  # seconds for one of a new interpreter, which imports torch first

#: The start methods and numbers of workers that an answer is run with, after main alone.
RUNS: Final = (("fork", 2), ("fork", 4), ("spawn", 1))

#: Seconds that a check takes at most that runs all of them.
AT_MOST: Final = IN_MAIN + 2 * FORKED + SPAWNED + 7


@dataclass(frozen=True)
class Sent:
    """What became of the pickle of a dataset.

    Args:
        size: Bytes that it has; 0 if there is none.
        reason: Why there is none: the exception and its text.
        names: The attributes that cannot be pickled.
    """

    size: int = 0
    reason: str = ""
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Epoch:
    """What an answer delivered in one epoch.

    Args:
        method: The start method.
        workers: How many.
        run: How it ended.
        wrong: How many samples are not what they are in main; one that is missing counts.
        opened: How many times each worker opened the file, if that was counted.
        moved: Whether the read position of a file moved that main has open.
    """

    method: str
    workers: int
    run: Ending
    wrong: int = 0
    opened: tuple[int, ...] = ()
    moved: bool = False

    @property
    def where(self) -> str:
        """Where it ran, as the start of a sentence."""
        if self.method == "spawn":
            return "in a new interpreter (spawn)"
        return f"under {self.method}, with {self.workers} workers"


def packed(thing: Any) -> tuple[bytes, str]:
    """The pickle of something, or why there is none: (b"", the message)."""
    try:
        return pickle.dumps(thing), ""
    except Exception as error:  # a __getstate__ may raise anything
        return b"", tidy(said(type(error).__name__, str(error)))


def without_pickle(thing: Any) -> list[str]:
    """The names of its attributes that cannot be pickled."""
    return [name for name, value in vars(thing).items() if packed(value)[1]]


def sent(dataset: Any) -> tuple[bytes, Sent]:
    """The pickle of an answer's dataset, and what to tell of it."""
    with theirs():
        pickled, reason = packed(dataset)
        names = tuple(without_pickle(dataset)) if reason else ()
    return pickled, Sent(len(pickled), reason, names)


def travels(sent: Sent, what: str, question: str) -> None:
    """Go on only where a dataset could be pickled.

    Args:
        sent: What became of it.
        what: Its name, as the start of a sentence.
        question: What to ask where it could not.

    Raises:
        Rejected: It could not.
    """
    if sent.reason:
        names = " and ".join(f"`{name}`" for name in sent.names)
        held = f" It is in {names}." if names else ""
        not_yet(f"{what} cannot be pickled: `{sent.reason}`.{held} {question}")


def one_by_one(dataset: Any, indices: Sequence[int]) -> Samples:
    """These samples, without a loader."""
    return [torch.as_tensor(dataset[index]) for index in indices]


def wrong_of(samples: Samples, expected: Samples) -> int:
    """How many samples differ from what is expected, are missing or too many."""
    differ = sum(not torch.equal(*pair) for pair in zip(samples, expected, strict=False))
    return differ + abs(len(samples) - len(expected))


def epoch(
    dataset: Any,
    indices: Sequence[int],
    expected: Samples,
    *,
    method: str,
    workers: int,
    init: Callable[[int], None] | None = None,
) -> Epoch:
    """One epoch with workers.

    Args:
        dataset: The dataset.
        indices: What is read, in this order.
        expected: The samples at these indices.
        method: "fork", or "spawn" for new interpreters.
        workers: How many.
        init: A `worker_init_fn`.
    """
    arrived: Samples = []

    def collect(loader: DataLoader[Any]) -> None:
        for batch in loader:
            # Copied out of shared memory.
            arrived.extend(torch.as_tensor(sample).clone() for sample in batch)

    with theirs():
        loader = DataLoader(
            dataset,
            batch_size=4,
            sampler=indices,
            num_workers=workers,
            multiprocessing_context=method,
            worker_init_fn=init,
        )
    seconds = FORKED if method == "fork" else SPAWNED
    run = ending(observe(loader, deadline=seconds, consume=collect))
    return Epoch(method, workers, run, wrong_of(arrived, expected))


def arrived(epoch: Epoch, question: str) -> None:
    """Go on only where an epoch finished.

    Args:
        epoch: The epoch.
        question: What to ask where it raised or a worker died.

    Raises:
        Rejected: It did not finish.
    """
    if epoch.run.end == "raised":
        not_yet(f"{epoch.where}, it ends with {epoch.run.error} {question}")
    ended_well(epoch.run, epoch.where, died=question)
