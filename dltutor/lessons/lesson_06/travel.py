"""Does a dataset reach a new interpreter, and what does it deliver there?"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, Final

import torch
from torch.utils.data import DataLoader

from dltutor.lessons.kit.answers import failed_in_loader, wrong
from dltutor.observation import Observation, observe
from dltutor.observation.texts import said, tidy

Samples = list[torch.Tensor]

FORKED: Final = 10  # seconds for an epoch of forked workers
SPAWNED: Final = 40  # seconds for one of a new interpreter, which imports torch first

#: Seconds that a check takes at most that runs both.
AT_MOST: Final = FORKED + SPAWNED + 10


def packed(dataset: Any) -> tuple[bytes, str]:
    """The pickle of a dataset, or why there is none: ("", the message)."""
    try:
        return pickle.dumps(dataset), ""
    except Exception as error:  # a __getstate__ may raise anything
        return b"", tidy(said(type(error).__name__, str(error)))


def without_pickle(thing: Any) -> list[str]:
    """The names of its attributes that have no pickle."""
    return [name for name, value in vars(thing).items() if packed(value)[1]]


def one_by_one(dataset: Any) -> Samples:
    """Every sample, without a loader."""
    return [torch.as_tensor(dataset[index]) for index in range(len(dataset))]


def epoch(
    dataset: Any,
    *,
    method: str,
    workers: int,
    init: Callable[[int], None] | None = None,
) -> tuple[Observation, Samples]:
    """One epoch with workers.

    Args:
        dataset: The dataset.
        method: "fork", or "spawn" for new interpreters.
        workers: How many.
        init: A `worker_init_fn`.

    Returns:
        How it went, and the samples that arrived, copied out of shared memory.
    """
    arrived: Samples = []

    def collect(loader: DataLoader[Any]) -> None:
        for batch in loader:
            arrived.extend(sample.clone() for sample in batch)

    loader = DataLoader(
        dataset,
        batch_size=4,
        num_workers=workers,
        multiprocessing_context=method,
        worker_init_fn=init,
    )
    patience = FORKED if method == "fork" else SPAWNED
    return observe(loader, deadline=patience, consume=collect), arrived


def ended_well(seen: Observation, where: str, look: str) -> None:
    """Check that an epoch finished.

    Args:
        seen: The epoch.
        where: Where it ran, as the start of a sentence.
        look: Where to look if a worker died.

    Raises:
        Unfit: It did not.
    """
    if seen.end == "worker died":
        lines = tidy(seen.stderr).strip().splitlines()
        fates = " and ".join(map(str, seen.workers))
        words = f", with the last words `{lines[-1]}`" if lines else ""
        wrong(f"{where} {fates}{words}. {look}")
    if seen.end == "hung":
        wrong(f"{where} the epoch did not end within {seen.deadline:g} s. What does it wait for?")
    if seen.end == "raised":
        text = failed_in_loader(seen).text
        wrong(f"{where} it ends with {text} {look}")


def same(one: Samples, other: Samples) -> bool:
    """Whether two lists hold the same samples in the same order."""
    return len(one) == len(other) and all(map(torch.equal, one, other))


def why_lost(dataset: Any) -> str:
    """Where to look if a dataset has a pickle that a new interpreter cannot unpack.

    A tensor that was made for the pickle alone is gone when the worker comes for it. A
    torch.Generator makes one, and a `__getstate__` may.
    """
    own = vars(dataset)
    held = [name for name, value in own.items() if isinstance(value, torch.Generator)]
    state = dataset.__getstate__()
    new = [
        name
        for name, value in (state if isinstance(state, dict) else {}).items()
        if isinstance(value, torch.Tensor) and own.get(name) is not value
    ]
    if new:
        return (
            f"`__getstate__` makes a tensor, `{new[0]}`, for the pickle alone. It is freed when "
            "the pickle is made, before anybody unpacks it. What smaller thing says the same?"
        )
    if held:
        return (
            f"A tensor was gone before the worker came for it, and none of yours is gone. What "
            f"does torch make of `{held[0]}` in order to pickle it?"
        )
    return "Pickle and unpickle are done in two processes. What is missing in the second?"
