"""Import a learner's dataset class from a file, send the dataset to workers, and compare samples.

"06.fix" and "06.transfer" take a file, because a new interpreter can't import from a cell.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final

import torch

from dltutor.lessons.engine.endings import Ending, check_ending, run_loader, where
from dltutor.lessons.engine.forms import a_fixed_class, blank, form, shown
from dltutor.lessons.engine.outcomes import error_in_your_code, not_attempted, not_yet
from dltutor.lessons.engine.running import imported, theirs
from dltutor.observation.texts import said, tidy
from dltutor.observation.time_limits import deadline

Samples = list[torch.Tensor]

IN_MAIN: Final = 16  # time limit in seconds for the import, and for the check's steps in main
AT_MOST: Final = 75
# Time limits in seconds. The one for spawn is longer, because spawned workers import torch.
_WITHIN: Final = {"fork": 8, "spawn": 40}


@dataclass(frozen=True)
class Epoch:
    """A record of how a run ended, and of how many samples were wrong, missing, or extra."""

    where: str
    run: Ending
    wrong: int = 0


def a_file(answer: Any, name: str) -> Path:
    """Return the path of the learner's file, without importing the file.

    Args:
        answer: The learner's answer, which can be any object.
        name: The name of the class that the file should have.

    Raises:
        Rejected: The answer isn't the path of a file.
    """
    if blank(answer):
        not_attempted("no-path", name=name)
    if not isinstance(answer, (str, Path)):
        error_in_your_code("not-a-path", answer=shown(answer))
    path = Path(answer).absolute()
    if not path.is_file():
        error_in_your_code("no-file", file=path.name)
    return path


def class_in(path: Path, starter: type) -> Any:
    """Import a learner's file, and return the dataset class that has the starter's name.

    Raises:
        Rejected: The import fails, or the file has no dataset class with this name, or the class is
            still the starter.
    """
    with theirs(), deadline(IN_MAIN):
        [module] = imported(path.parent, path.stem)
        found = getattr(module, starter.__name__, None)
    if found is None:
        error_in_your_code("not-in-the-file", name=starter.__name__, file=path.name)
    return a_fixed_class(found, starter)


def problem_with(thing: Any) -> str:
    """Return the type and message of the exception that pickling an object raises, or ""."""
    try:
        pickle.dumps(thing)
    except Exception as error:  # a __getstate__ may raise anything
        return tidy(said(type(error).__name__, str(error)))
    return ""


def sent(dataset: Any) -> bytes:
    """Return the pickle of an answer's dataset.

    Raises:
        Rejected: The dataset can't be pickled, the pickle can't be loaded, or the copy has no
            length.
    """
    with theirs():
        try:
            pickled = pickle.dumps(dataset)
        except Exception:
            problem = problem_with(dataset)
        else:
            len(pickle.loads(pickled))  # raises TypeError if the copy has no length
            return pickled
        state = dataset.__getstate__()  # what goes into the pickle
        parts = state.items() if isinstance(state, dict) else ()
        held = [f"`{name}`" for name, value in parts if problem_with(value)]
    kind = type(dataset).__name__
    not_yet("cannot-be-pickled", problem=problem, held=", ".join(held) or f"`{kind}` itself")


def read(dataset: Any, indices: Iterable[int], kind: str) -> Samples:
    """Read samples in main.

    Args:
        dataset: The dataset that the answer made.
        indices: The samples' indices.
        kind: The dtype and shape that each sample must have, such as "torch.int64, (8,)".

    Raises:
        Rejected: A sample has another dtype or shape, or the answer raised an exception.
    """
    with theirs():
        samples = [dataset[index] for index in indices]
    for found in map(form, samples):
        if found != kind:
            not_yet("other-sample", found=found, kind=kind)
    return samples


def wrong_of(samples: Samples, expected: Samples) -> int:
    """Return how many samples are wrong, missing, or extra."""
    pairs = zip(samples, expected, strict=False)
    differ = sum(  # ignores differences from rounding
        form(one) != form(other) or not torch.allclose(one, other, atol=1e-6)
        for one, other in pairs
    )
    return differ + abs(len(samples) - len(expected))


def epoch(
    dataset: Any,
    read: Sequence[int],
    expected: Samples,
    method: str,
    workers: int,
    underway: Callable[[], object] = lambda: None,
    **options: Any,
) -> Epoch:
    """Read samples with a loader, compare them with the right ones, and record how the run ended.

    Args:
        dataset: The dataset that the answer made.
        read: The indices, in the order in which the loader asks for them.
        expected: The right samples, in the same order.
        method: The workers' start method, "fork" or "spawn".
        workers: Number of workers.
        underway: A function to call in main once each worker has delivered a batch. Without
            workers, main calls it before the first batch.
        options: More arguments for `run_loader`.
    """
    samples: Samples = []
    options |= {"workers": workers, "within": _WITHIN[method], "method": method}

    def collect(loader: Any) -> None:
        for delivered, batch in enumerate(chain([()], loader)):
            samples.extend(torch.as_tensor(sample).clone() for sample in batch)
            if delivered == workers:
                underway()

    run = run_loader(dataset, collect, batch_size=4, sampler=read, **options)
    return Epoch(where(workers, method), run, wrong_of(samples, expected))


def arrived(epoch: Epoch) -> None:
    """Raise `Rejected` if the epoch didn't finish."""
    run = epoch.run
    if run.end == "raised":
        not_yet("raised-in-a-loader", where=epoch.where, error=run.error)
    if run.end in ("worker died", "main died") and run.last_words:
        code = "freed-tensor" if "unable to resize file" in run.last_words else "last-words"
        fates = run.fates or "main ended"
        not_yet(code, where=epoch.where, fates=fates, words=run.last_words)
    check_ending(run, epoch.where)
