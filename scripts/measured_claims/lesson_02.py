"""Lesson 02: what becomes of an exception that a transform raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from dltutor.observation import Observation, observe
from measured_claims import EXITING, Claim, Measured, Source

_REQUIRED: Final = Source(
    "DataLoader fails to re-raise exceptions with required arguments",
    "2019-11-20",
    "https://github.com/pytorch/pytorch/issues/30147",
)
_PICKLING: Final = Source(
    "DataLoader hangs when object fails during pickling",
    "2024-12-11",
    "https://github.com/pytorch/pytorch/issues/142884",
)
_STACK: Final = Source("torch's own message: `stack expects each tensor to be equal size`")
_TIMEOUT: Final = Source("common advice: `DataLoader(..., timeout=60)` finds what hangs")


class OneArgument(Exception):
    """Takes its text alone."""


class TwoArguments(Exception):
    """Takes a name and a reason."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")


def _local() -> Exception:
    class Local(Exception):
        pass

    return Local("no array")


_RAISED: Final[dict[str, Callable[[], Exception]]] = {
    "one argument": lambda: OneArgument("no array"),
    "two arguments": lambda: TwoArguments("a.png", "no array"),
    "defined in a function": _local,
}


class Described(Exception):
    """Its class has a message for all."""

    message = "there is no array"


class _Transformed(Dataset[Any]):
    def __init__(self, make: Callable[[], Exception]) -> None:
        self.make = make

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        raise self.make()


def _own_types() -> Measured:
    found = {}
    for name, make in _RAISED.items():
        loader = DataLoader(_Transformed(make), num_workers=2, multiprocessing_context="fork")
        seen = observe(loader, deadline=3)
        found[name] = seen.chain[0][0] if seen.chain else seen.end
    expected = {"one argument": "OneArgument", "two arguments": "RuntimeError"}
    told = ", ".join(f"{name}: `{end}`" for name, end in found.items())
    as_expected = found == {**expected, "defined in a function": "hung"}
    return Measured(
        f"What the loop gets, by the exception's class: {told} (3 s were given).",
        "holds for a class that takes one text; the type is lost with two arguments, and a class "
        "made inside a function hangs the loop."
        if as_expected
        else "other than expected.",
    )


def _epoch(dataset: Any, deadline: float = 10, **options: Any) -> Observation:
    options = {"num_workers": 2} | options
    if options["num_workers"]:
        options["multiprocessing_context"] = "fork"
    return observe(DataLoader(dataset, **options), deadline=deadline)


def _workers_after_an_error() -> Measured:
    seen = [_epoch(_Transformed(make)) for make in list(_RAISED.values())[:2]]
    alive = sum(worker.exitcode is None for run in seen for worker in run.workers)
    kinds = ", ".join(f"`{run.raised_in_worker}`" for run in seen)
    return Measured(
        f"The workers raised {kinds}; {alive} of {2 * len(seen)} workers were still running "
        "when the error had reached the loop.",
        "refuted: the worker goes on." if alive == 2 * len(seen) else "holds.",
    )


def _articles_except() -> Measured:
    class Printing(_Transformed):
        def __getitem__(self, index: int) -> Any:
            try:
                return super().__getitem__(index)
            except Exception:
                return None, None

    seen = [_epoch(Printing(OneArgument), num_workers=workers) for workers in (0, 2)]
    kinds = [run.chain[0][0] for run in seen if run.chain]
    return Measured(
        f"With 0 and 2 workers the loop got {' and '.join(f'`{kind}`' for kind in kinds)}, from "
        "joining the samples.",
        "refuted: neither the class nor a `None` reaches the loop."
        if "OneArgument" not in kinds and len(kinds) == 2
        else "other than expected.",
    )


def _required_arguments() -> Measured:
    two, described = (_epoch(_Transformed(make)) for make in (_RAISED["two arguments"], Described))
    whole = "a.png: no array" in two.raw and "in __getitem__" in two.raw
    lost = described.chain[0][0] == "TypeError" and "Original Traceback" not in described.raw
    return Measured(
        f"Two required arguments: `{two.chain[0][0]}`, {'with' if whole else 'without'} the "
        "worker's traceback. A class attribute `message`: "
        f"`{described.chain[0][0]}`, {'without' if lost else 'with'} it.",
        "outdated for required arguments: the text arrives, the type does not; still so for a "
        "class attribute `message`."
        if whole and lost
        else "other than expected.",
    )


class _OneGenerator(Dataset[Any]):
    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> Any:
        return (each for each in ()) if index == 3 else index


def _queue_thread() -> Measured:
    options = {"num_workers": 1, "collate_fn": list, "deadline": 3, "in_order": False}
    seen = _epoch(_OneGenerator(), **options)
    lives = seen.end == "hung" and seen.samples == 11
    return Measured(
        f"Sample 3 of 12 is a generator; one worker, batches taken as they come: {seen.samples} "
        f"samples arrived, those behind it too, and the run {seen.end} after them.",
        "refuted: the thread drops one message and goes on, and so does the worker; what is "
        "missing is waited for in vain."
        if lives
        else "holds.",
    )


def _stack_message() -> Measured:
    found = {}
    for lengths in ((3, 5), (5, 3)):
        for workers in (0, 2):
            batch = [torch.ones(length) for length in lengths]
            seen = _epoch(batch, num_workers=workers, batch_size=2)
            found[lengths, workers] = "stack expects" in seen.raw
    told = ", ".join(
        f"{lengths[0]} then {lengths[1]}, {workers} workers: {'yes' if stack else 'no'}"
        for (lengths, workers), stack in found.items()
    )
    return Measured(
        f"Two samples of other lengths, is that the message? {told}.",
        "holds without workers, and in a worker where the first sample is no larger than the "
        "average; otherwise it is `Trying to resize storage that is not resizable`."
        if list(found.values()) == [True, True, True, False]
        else "other than expected.",
    )


def _noise() -> Measured:
    image = np.array([0, 255] * 5000, np.uint8)
    noisy = torch.tensor(image + np.random.rand(*image.shape))
    finite, most = bool(noisy.isfinite().all()), float(noisy.max())
    return Measured(
        f"Of bytes from 0 to 255 it makes numbers from 0 to {most:.0f}, "
        f"{'all' if finite else 'not all'} of them finite, of type `{noisy.dtype}`.",
        "refuted for invalid values: there are none; small beside 255, and each takes 8 bytes."
        if finite and most < 256.5
        else "holds.",
    )


def _timeout() -> Measured:
    seen = _epoch(_Transformed(_local), timeout=1, deadline=30)
    line = seen.raw.strip().splitlines()[-1].partition(": ")[2]
    return Measured(
        f"An exception of a class made inside a function, `timeout=1`: `{line}`. The class is "
        f"named {'on stderr alone' if 'Local' in seen.stderr else 'nowhere'}.",
        "holds in that the loop ends; it does not say of what."
        if "timed out" in line and "Local" not in seen.raw
        else "other than expected.",
    )


CLAIMS: Final = (
    Claim(
        "A transform may raise an exception class of its own, and the training script sees it.",
        EXITING,
        "A dataset raises in two forked workers: a class that takes its text alone, one that takes "
        "two arguments, one that is defined inside a function.",
        _own_types,
    ),
    Claim(
        "An error in a custom transform terminates the worker process.",
        EXITING,
        "A dataset raises in two forked workers, classes of one and of two arguments.",
        _workers_after_an_error,
    ),
    Claim(
        "Catch what the transform raises in `__getitem__`, and return `None, None`.",
        EXITING,
        "The article's `except` around a transform with an exception class of its own.",
        _articles_except,
    ),
    Claim(
        "An exception whose class has required arguments is lost: main gets a `TypeError`.",
        _REQUIRED,
        "A class of two arguments, and one with a class attribute `message`, two forked workers.",
        _required_arguments,
    ),
    Claim(
        "When an object cannot be pickled, the thread of the queue dies.",
        _PICKLING,
        "A worker returns a generator for one of twelve samples, `in_order=False`, 3 s.",
        _queue_thread,
    ),
    Claim(
        "Samples of different shapes are told as: stack expects each tensor to be equal size.",
        _STACK,
        "One batch of two samples, in both orders, with 0 and with 2 forked workers.",
        _stack_message,
    ),
    Claim(
        "`image + np.random.rand(...)` adds a small amount, and could give invalid values.",
        EXITING,
        "The same sum, on an image of bytes.",
        _noise,
    ),
    Claim(
        "A timeout finds what hangs.",
        _TIMEOUT,
        "An exception that cannot be pickled, two forked workers, a timeout of 1 s.",
        _timeout,
    ),
)
