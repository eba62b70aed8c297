"""Run an examination in the new interpreter that `fresh_interpreter` starts with this module."""

from __future__ import annotations

import linecache
import os
import pickle
import sys
import time
from functools import cache, partial
from importlib.machinery import ModuleSpec
from multiprocessing import current_process
from pathlib import Path
from typing import Any

import cloudpickle

from dltutor.diagnosis import fork_doubts
from dltutor.diagnosis.diagnose import prepare
from dltutor.diagnosis.errors import CannotRun
from dltutor.diagnosis.fresh_interpreter import LATE


def main(folder: str) -> None:
    """Run the examination that's pickled in a folder, write the outcome next to it, and exit.

    Unpickling may import your module or make a model, and so start a library that doesn't survive a
    fork, such as CUDA. In that case, forks of this interpreter would prove nothing, so write the
    file `late` instead of an outcome and exit. `fresh_interpreter.examined` then starts another
    interpreter, in which each experiment does the unpickling.
    """
    import __main__

    around, own, loops, epochs, until = cloudpickle.loads(
        (Path(folder) / "examination").read_bytes()
    )
    current_process().authkey = around["key"]
    sys.argv[:] = around["argv"]
    linecache.cache.update(around["typed"])
    # Spawned workers import the script or module that these attributes name, to find what their
    # pickle refers to.
    __main__.__file__ = around["file"]
    __main__.__spec__ = ModuleSpec(around["name"], None) if around["name"] else None
    make: Any = partial(_make, own)
    loop: Any = partial(_loop, own) if loops else None
    if not (Path(folder) / LATE).exists():
        make, loop = _unpickled(own)
        if fork_doubts.in_use():
            (Path(folder) / LATE).touch()
            os._exit(0)
    found: Any
    try:
        rest = max(until - time.monotonic(), 0.1)
        examination = prepare(make, consume=loop, epochs=epochs, deadline=rest)
        examination.fresh, examination.until = True, until
        found = examination.examine(), examination.tried, examination.untried
    except CannotRun as error:
        found = error
    unfinished = Path(folder) / "unfinished"
    unfinished.write_bytes(pickle.dumps(found))
    unfinished.rename(Path(folder) / "outcome")
    os._exit(0)


@cache  # so that the function and the loop share what they both use
def _unpickled(own: bytes) -> tuple[Any, Any]:
    import __main__

    make, loop = cloudpickle.loads(own)
    for each in (make, loop):
        if getattr(each, "__module__", "") == "__main__":
            vars(__main__).update(getattr(each, "__globals__", {}))
    return make, loop


def _make(own: bytes) -> Any:
    return _unpickled(own)[0]()


def _loop(own: bytes, loader: Any) -> Any:
    return _unpickled(own)[1](loader)
