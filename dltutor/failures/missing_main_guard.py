"""The script starts its workers without `if __name__ == "__main__":`.

Symptom: `RuntimeError: An attempt has been made to start a new process before the current process
has finished its bootstrapping phase`, on stderr, once for each worker, and in main `RuntimeError:
DataLoader worker (pid(s) 4711) exited unexpectedly`.

NOTE [ Your Script Is Run Again ]

A worker started by spawn or forkserver is a new interpreter. To be able to unpickle what the script
defines, the worker first runs the script, as a module named `__mp_main__`. Everything at the
script's top level happens again: the imports, loading the data, and the loop, which asks for
workers of its own. Python's multiprocessing refuses to start these, so the worker dies with exit
code 1. The message is right, but it's the worker's, not main's. What's below
`if __name__ == "__main__":` doesn't run again.

Under fork, nothing runs again, so you don't miss the guard until the script meets macOS, Windows,
or Python 3.14. A notebook has no file to run again, but it has the problem in `main_only_class`.

Fix: put imports, functions, and classes at the top level, and the rest in a `main()` that you
call below the guard. Then the workers don't load the data again either.

Seen in: pytorchTutorial#3, ChineseNRE#41, C-3-Framework#30.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import torch
from torch.utils.data import DataLoader, TensorDataset

from dltutor.failures.tools import Case, Failure, Says, facts_of, load, own_folder

UNGUARDED: Final = """\
import torch
from torch.utils.data import DataLoader, TensorDataset

dataset = TensorDataset(torch.arange(16))
loader = DataLoader(dataset, batch_size=4, num_workers=2, multiprocessing_context="{method}")
for batch in loader:
    print(batch)
"""

GUARDED: Final = """\
import torch
from torch.utils.data import DataLoader, TensorDataset


def main():
    dataset = TensorDataset(torch.arange(16))
    loader = DataLoader(dataset, batch_size=4, num_workers=2, multiprocessing_context="{method}")
    for batch in loader:
        print(batch)


if __name__ == "__main__":
    main()
"""


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose workers find a main script without a `__main__` guard."""
    return _case(script(UNGUARDED, start_method), workers, start_method)


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose workers find a main script with a `__main__` guard."""
    return _case(script(GUARDED, start_method), workers, start_method)


@cache
def script(text: str, start_method: str) -> Path:
    """Write a script to a file that Python removes at exit, and return the file's path.

    Args:
        text: The script's template, UNGUARDED or GUARDED.
        start_method: "fork", "spawn", or "forkserver", for the loader in the script.
    """
    path = own_folder() / "train.py"
    path.write_text(text.format(method=start_method))
    return path


@contextmanager
def started_as(path: Path) -> Iterator[None]:
    """Make workers that start in this block behave as if main had been started as `python PATH`.

    Unless they're forked, the workers then run the script, although main didn't.
    """
    main = ModuleType("__main__")
    main.__file__ = str(path)
    ours = sys.modules["__main__"]
    sys.modules["__main__"] = main
    try:
        yield
    finally:
        sys.modules["__main__"] = ours


def _case(path: Path, workers: int, start_method: str) -> Case:
    # Make the same loader as the script, but in this process, so that `observe` can see it.
    loader = load(TensorDataset(torch.arange(16)), workers, start_method)
    return Case(loader, partial(_run, path))


def _run(path: Path, loader: DataLoader[Any]) -> None:
    with started_as(path):
        for _ in loader:
            pass


FAILURE: Final = Failure(
    **facts_of(__name__),
    broken=broken,
    fixed=fixed,
    # Under forkserver, workers write to the fork server's stderr, which we may not see, so the
    # exit code counts, too.
    sign=Says(
        "worker died",
        (
            "RuntimeError: An attempt has been made to start a new process before",
            "ended with exit code 1",
        ),
    ),
    start_methods=("spawn", "forkserver"),
)
