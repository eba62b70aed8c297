"""The dataset's class was defined in a notebook cell, and the worker has no such class.

Symptom: `RuntimeError: DataLoader worker (pid(s) 4711) exited unexpectedly` before the first batch,
and on stderr, once for each worker, `AttributeError: Can't get attribute 'Squares' on <module
'__main__' (built-in)>`. In a notebook, the workers' stderr may end up in the Jupyter server's
terminal.

Mechanism: a pickle doesn't hold a class, only the class's module and name. For a class from a cell,
that's `__main__.Squares`. Main can write that name, so nothing fails where main starts the worker.
But a worker started by spawn or forkserver is a new interpreter, and its `__main__` is a different
one that never ran the cell. The worker fails while it unpickles its dataset, dies with exit code 1,
and can't report through torch, because it hasn't reached torch's worker loop. The same holds for a
`collate_fn`, a transform, or a `worker_init_fn` from a cell, and for a class defined below `if
__name__ == "__main__":`. Under fork, the worker has main's memory, and with it the class.

Fix: put the class into a file (in a notebook `%%writefile squares.py`), and import it.

Seen in: pytorch#87016, deep-person-reid#341, LibAUC#60.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any, Final

import torch
from torch.utils.data import Dataset

from dltutor.failures.tools import Case, Failure, Says, facts_of, load


class Squares(Dataset[torch.Tensor]):
    """A dataset of square numbers."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(index**2)


def define_in_cell(source: str, name: str) -> Any:
    """Run source code as a notebook cell does, and put the class `name` into `__main__`.

    Returns:
        The class.
    """
    cell: dict[str, Any] = {"__name__": "__main__", "torch": torch, "Dataset": Dataset}
    exec(source, cell)
    setattr(sys.modules["__main__"], name, cell[name])
    return cell[name]


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose dataset's class is defined in `__main__`, as in a notebook cell."""
    from_cell = define_in_cell(inspect.getsource(Squares), "Squares")
    return Case(load(from_cell(16), workers, start_method))


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose dataset's class is imported from a module."""
    return Case(load(Squares(16), workers, start_method))


FAILURE: Final = Failure(
    **facts_of(__name__),
    broken=broken,
    fixed=fixed,
    # Under forkserver, workers write to the fork server's stderr, which we may not see, so the
    # exit code counts, too.
    sign=Says(
        "worker died",
        ("AttributeError: Can't get attribute 'Squares' on <module '__m", "ended with exit code 1"),
    ),
    start_methods=("spawn", "forkserver"),
)
