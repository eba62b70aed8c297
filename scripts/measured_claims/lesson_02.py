"""Measure the claims for lesson 02: what happens to an exception that a transform raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import torch

from dltutor.observation import Observation
from measured_claims import Facts, ended, observed


class OneArgument(Exception):
    """An exception that takes only its message."""


class TwoArguments(Exception):
    """An exception that takes a name and a reason."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")


class Described(Exception):
    """An exception with a class attribute `message`."""

    message = "there is no array"


def _local() -> Exception:
    class Local(Exception):
        pass

    return Local("no array")


_RAISED: Final[dict[str, Callable[[], Exception]]] = {
    "one argument": lambda: OneArgument("no array"),
    "two arguments": lambda: TwoArguments("a.png", "no array"),
    "defined in a function": _local,
}


def _raising(make: Callable[[], Exception], deadline: float = 10, **options: Any) -> Observation:
    # Observe a loader whose samples all raise.
    def transformed(index: int) -> Any:
        raise make()

    return observed(transformed, deadline=deadline, batch_size=1, **options)


def own_types() -> Facts:
    seen = {name: _raising(make, 3) for name, make in _RAISED.items()}
    sent = [run for run in seen.values() if run.chain]
    alive = sum(worker.exitcode is None for run in sent for worker in run.workers)
    return {
        "found": {name: f"`{ended(run)}`" for name, run in seen.items()},
        "kinds": [f"`{run.raised_in_worker}`" for run in sent],
        "alive": alive,
    }


def articles_except() -> Facts:
    def printing(index: int) -> Any:
        try:
            raise OneArgument
        except Exception:
            return None, None

    kinds = [ended(observed(printing, 4, workers, batch_size=1)) for workers in (0, 2)]
    others = not {"OneArgument", "finished", "hung"} & {*kinds}
    return {"kinds": [f"`{kind}`" for kind in kinds], "another error": others}


def required_arguments() -> Facts:
    two, described = map(_raising, (_RAISED["two arguments"], Described))
    return {
        "two": ended(two),
        "whole": "a.png: no array" in two.raw and "transformed" in two.raw,
        "described": ended(described),
        "lost": ended(described) == "TypeError" and "Original Traceback" not in described.raw,
    }


def queue_thread() -> Facts:
    def one_generator(index: int) -> Any:
        return (each for each in ()) if index == 3 else index

    options = {"batch_size": 1, "collate_fn": list, "in_order": False}
    seen = observed(one_generator, 12, 1, deadline=3, **options)
    return {"samples": seen.samples, "end": seen.end}


def stack_message() -> Facts:
    found = {}
    for lengths in ((3, 5), (5, 3)):
        for workers in (0, 2):
            seen = observed(lambda i, of=lengths: torch.ones(of[i]), 2, workers, batch_size=2)
            stack = "stack expects" in seen.raw
            found["{} then {}, {} workers".format(*lengths, workers)] = "yes" if stack else "no"
    return {"found": found}


def noise() -> Facts:
    image = np.array([0, 255] * 5000, np.uint8)
    noisy = torch.tensor(image + np.random.rand(*image.shape))
    most = float(noisy.max())
    finite = bool(noisy.isfinite().all())
    return {"most": most, "finite": finite, "type": noisy.dtype, "small": most < 256.5}


def timeout() -> Facts:
    seen = _raising(_local, 30, timeout=1)
    line = seen.raw.strip().splitlines()[-1].partition(": ")[2]
    said = "timed out" in line and "Local" not in seen.raw
    return {"line": line, "on stderr": "Local" in seen.stderr, "timed out": said}
