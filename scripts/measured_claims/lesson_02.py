"""Measure the claims for lesson 02: what happens to an exception that a transform raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import torch

from dltutor.failures.tools.contract import load
from dltutor.observation import Observation, observe
from measured_claims import Facts, Samples


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


def _raising(make: Callable[[], Exception]) -> Samples:
    def transformed(index: int) -> Any:
        raise make()

    return Samples(transformed)


def _epoch(dataset: Any, workers: int = 2, deadline: float = 10, **options: Any) -> Observation:
    loader = load(dataset, workers, "fork", **{"batch_size": 1} | options)
    return observe(loader, deadline=deadline)


def own_types() -> Facts:
    found = {}
    for name, make in _RAISED.items():
        seen = _epoch(_raising(make), deadline=3)
        found[name] = f"`{seen.chain[0][0] if seen.chain else seen.end}`"
    return {"found": found}


def workers_after_an_error() -> Facts:
    seen = [_epoch(_raising(make)) for make in list(_RAISED.values())[:2]]
    alive = sum(worker.exitcode is None for run in seen for worker in run.workers)
    return {"kinds": [f"`{run.raised_in_worker}`" for run in seen], "alive": alive}


def articles_except() -> Facts:
    def printing(index: int) -> Any:
        try:
            raise OneArgument
        except Exception:
            return None, None

    seen = [_epoch(Samples(printing), workers) for workers in (0, 2)]
    kinds = [run.chain[0][0] for run in seen if run.chain]
    as_none = len(kinds) == 2 and "OneArgument" not in kinds
    return {"kinds": [f"`{kind}`" for kind in kinds], "another error": as_none}


def required_arguments() -> Facts:
    two, described = (_epoch(_raising(make)) for make in (_RAISED["two arguments"], Described))
    return {
        "two": two.chain[0][0],
        "whole": "a.png: no array" in two.raw and "transformed" in two.raw,
        "described": described.chain[0][0],
        "lost": described.chain[0][0] == "TypeError" and "Original Traceback" not in described.raw,
    }


def queue_thread() -> Facts:
    def one_generator(index: int) -> Any:
        return (each for each in ()) if index == 3 else index

    dataset = Samples(one_generator, 12)
    seen = _epoch(dataset, 1, deadline=3, collate_fn=list, in_order=False)
    return {"samples": seen.samples, "end": seen.end}


def stack_message() -> Facts:
    found = {}
    for lengths in ((3, 5), (5, 3)):
        for workers in (0, 2):
            batch = [torch.ones(length) for length in lengths]
            stack = "stack expects" in _epoch(batch, workers, batch_size=2).raw
            found["{} then {}, {} workers".format(*lengths, workers)] = "yes" if stack else "no"
    return {"found": found}


def noise() -> Facts:
    image = np.array([0, 255] * 5000, np.uint8)
    noisy = torch.tensor(image + np.random.rand(*image.shape))
    most = float(noisy.max())
    finite = bool(noisy.isfinite().all())
    return {"most": most, "finite": finite, "type": noisy.dtype, "small": most < 256.5}


def timeout() -> Facts:
    seen = _epoch(_raising(_local), timeout=1, deadline=30)
    line = seen.raw.strip().splitlines()[-1].partition(": ")[2]
    said = "timed out" in line and "Local" not in seen.raw
    return {"line": line, "on stderr": "Local" in seen.stderr, "timed out": said}
