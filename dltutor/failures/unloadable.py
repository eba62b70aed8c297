"""The dataset can be pickled, but not unpickled, so every worker dies before its first batch.

Symptom: in main, `RuntimeError: DataLoader worker (pid(s) 4711) exited unexpectedly`, and on
stderr, below a traceback that ends in `__getattr__`, `RecursionError: maximum recursion depth
exceeded`. If it's an exception that can't be unpickled, `TypeError: UnreadableScan.__init__()
missing 1 required positional argument`.

Mechanism: unpickling doesn't call `__init__`. It makes an object without attributes, and then asks
the object for `__setstate__`. If the object's class has none, Python calls `__getattr__`, as it
does for any name that it can't find. A wrapper that forwards names looks them up in `self.inner`,
but `inner` isn't there yet, so Python calls `__getattr__` for `inner`, which looks in `self.inner`,
and so on until the stack is full. Exceptions are the other way around: they are rebuilt by calling
the class with `self.args`, which are the arguments that `Exception.__init__` got. If `__init__`
takes a path and a reason, and passes on one sentence, it's called with one argument.

Main only pickles, so it notices nothing, and neither does a forked worker, which gets no pickle.

Fix: have `__getattr__` raise AttributeError for the attribute that it needs itself. Give an
exception the same arguments as its `__init__` (`super().__init__(path, reason)`, and a `__str__`
for the sentence), or keep only its message. In a test, draw a sample from
`pickle.loads(pickle.dumps(dataset))`.

Seen in: torchsig#461 (2026), diffusion-pipe#434 (2025), torchmd-net#269, vllm#30818.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import torch
from torch.utils.data import Dataset

from dltutor.failures.tools import Case, Failure, Says, facts_of, load

Kind = Literal["wrapper", "exception"]

SCANS, SIZE = 16, 8


class UnreadableScan(Exception):
    """Raised for a scan that can't be read."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")


class LoadableUnreadableScan(Exception):
    """An exception like UnreadableScan, but one that pickle can rebuild from its arguments."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)

    def __str__(self) -> str:
        return ": ".join(self.args)


class Scans(Dataset[torch.Tensor]):
    """A dataset of scans, with their patients and the errors from scans that couldn't be read."""

    def __init__(self, unreadable: list[Exception]) -> None:
        self.scans = torch.arange(float(SCANS * SIZE)).reshape(SCANS, SIZE)
        self.patients = [index // 2 for index in range(SCANS)]
        self.unreadable = unreadable

    def __len__(self) -> int:
        return SCANS

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.scans[index]


class Normalized(Dataset[torch.Tensor]):
    """A dataset that divides another's samples by a scale, and takes other attributes from it."""

    def __init__(self, inner: Scans, scale: float) -> None:
        self.inner = inner
        self.scale = scale

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def __len__(self) -> int:
        return len(self.inner)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.inner[index] / self.scale


class SafelyNormalized(Normalized):
    """A Normalized dataset whose `__getattr__` doesn't need an attribute that isn't there yet."""

    def __getattr__(self, name: str) -> Any:
        if name == "inner":
            raise AttributeError(name)
        return super().__getattr__(name)


def broken(*, workers: int = 2, start_method: str = "fork", kind: Kind = "wrapper") -> Case:
    """Build a case with a wrapper or, for "exception", an exception that can't be unpickled."""
    if kind == "exception":
        return Case(load(Scans([UnreadableScan("3.dcm", "no pixels")]), workers, start_method))
    return Case(load(Normalized(Scans([]), scale=255.0), workers, start_method))


def fixed(*, workers: int = 2, start_method: str = "fork", kind: Kind = "wrapper") -> Case:
    """Build a case with a wrapper or, for "exception", an exception that can be unpickled."""
    if kind == "exception":
        return Case(
            load(Scans([LoadableUnreadableScan("3.dcm", "no pixels")]), workers, start_method)
        )
    return Case(load(SafelyNormalized(Scans([]), scale=255.0), workers, start_method))


FAILURE: Final = Failure(
    **facts_of(__name__),
    broken=broken,
    fixed=fixed,
    # Under forkserver, workers write to the fork server's stderr, which we may not see, so the
    # exit code counts, too.
    sign=Says(
        "worker died",
        ("RecursionError: maximum recursion depth exceeded", "ended with exit code 1"),
    ),
    start_methods=("spawn", "forkserver"),
)
