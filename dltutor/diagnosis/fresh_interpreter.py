"""Run an examination in a new interpreter, if forks of this process wouldn't prove anything.

cloudpickle pickles the function that makes the loader, along with everything that the function uses
and your notebook or script defines. Each experiment is then a fork of the new interpreter.
"""

from __future__ import annotations

import base64
import linecache
import os
import pickle
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing import current_process
from pathlib import Path
from typing import Any, Final

import cloudpickle

from dltutor.diagnosis.errors import CannotRun, CannotSend
from dltutor.observation import sandbox
from dltutor.observation.confinement import start_child
from dltutor.observation.confinement.supervisor import argv_of
from dltutor.observation.texts import end_of_file, fate

#: A file in the examination's folder. If it exists, the new interpreter's experiments unpickle the
#: function that makes the loader, and the new interpreter itself doesn't.
LATE: Final = "late"
_MAIN: Final = "dltutor.diagnosis.fresh_main"  # the module that the new interpreter runs
_ENDING: Final = 5.0  # seconds for the new interpreter to end processes that hang


def packed(make: Callable[[], Any], loop: Any, epochs: int, until: float) -> bytes:
    """Pickle everything that a new interpreter needs for an examination.

    Args:
        make: The function that makes the loader.
        loop: The training loop. If None, a plain loop runs.
        epochs: How many times the loop runs.
        until: The time at which the examination ends, by `time.monotonic()`.

    Raises:
        CannotSend: cloudpickle can't pickle the function, the loop, or something they use.
    """
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    typed = {name: each for name, each in linecache.cache.items() if not os.path.exists(name)}
    around = {
        "argv": sys.argv,
        "file": getattr(main, "__file__", None),
        "name": spec.name if spec else None,
        # With this key, the new interpreter can talk to this process's Managers.
        "key": bytes(current_process().authkey),
        "typed": typed,  # the source of notebook cells, so that reports can show their lines
    }
    try:
        own = cloudpickle.dumps((make, loop))
        return bytes(cloudpickle.dumps((around, own, loop is not None, epochs, until)))
    except Exception as error:
        first = str(error).partition("\n")[0]
        raise CannotSend(
            "the function that makes the loader can't be sent to a new interpreter "
            f"({type(error).__name__}: {first[:160]})"
        ) from None


def examined(sent: bytes, until: float) -> Any:
    """Run an examination in a new interpreter.

    Args:
        sent: What `packed` returned.
        until: The time at which the examination ends, by `time.monotonic()`.

    Returns:
        The Evidence, a list of Tried, and a list of Untried.

    Raises:
        CannotRun: The new interpreter raised CannotRun itself, died, or took too long.
    """

    def work(begin: Callable[[], None]) -> dict[str, Any]:
        begin()
        folder = Path(tempfile.mkdtemp())
        (folder / "examination").write_bytes(sent)
        argv, output = argv_of(_MAIN, folder), folder / "output"
        status = 0
        for _ in range(2):
            pid = start_child.start(argv, output=str(output), group=None, shm=None, open_files=None)
            _, status = os.waitpid(pid, 0)
            if not (folder / LATE).exists() or (folder / "outcome").exists():
                break
        if (folder / "outcome").exists():
            return {"outcome": base64.b64encode((folder / "outcome").read_bytes()).decode()}
        said = end_of_file(output).strip().splitlines()
        last = f", and the last thing it printed was {said[-1][:200]!r}" if said else ""
        return {"died": f"{fate(os.waitstatus_to_exitcode(status))}{last}"}

    # The interpreter needs no memory limit, because each of its experiments has one.
    at_most = max(until - time.monotonic(), 0.0) + _ENDING
    ended = sandbox.run(work, at_most=at_most, memory=float("inf"), own_folder=False)
    match ended.result:
        case {"outcome": str(outcome)}:
            found = pickle.loads(base64.b64decode(outcome))
            if isinstance(found, CannotRun):
                raise found
            return found
        case {"died": str(how)}:
            raise CannotRun(f"the new interpreter that should have run the loader {how}")
    raise CannotRun("the new interpreter that should have run the loader didn't finish in time")
