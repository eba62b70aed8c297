"""Call a function in a child interpreter, with one file for the call and one for the answer."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dltutor.observation.confinement.supervisor import argv_of


def leave_call(folder: Path, function: Callable[..., Any], *args: Any) -> list[str]:
    """Write the file that tells a child what to call, and return the child's command line.

    A new interpreter must be able to import the function by its name, and to unpickle `args`.
    """
    (folder / "call").write_bytes(pickle.dumps((function, args)))
    return argv_of(__name__, folder)


def answer(folder: Path) -> Any:
    """Return the result of the call, which the child wrote to the folder.

    Raises:
        FileNotFoundError: The child ended before the function returned.
        TypeError or RuntimeError: The function raised this error.
    """
    found = pickle.loads((folder / "answer").read_bytes())
    if isinstance(found, Exception):
        raise found
    return found


def main(folder: str) -> None:
    """Make the call that is in the folder, write the answer, and end this process, the child."""
    function, args = pickle.loads((Path(folder) / "call").read_bytes())
    try:
        found = function(*args)
    except (TypeError, RuntimeError) as error:  # any other exception ends the child
        found = error
    unfinished = Path(folder) / "unfinished"
    unfinished.write_bytes(pickle.dumps(found))
    unfinished.rename(Path(folder) / "answer")
    # Skip the exit handlers, because the caller removes the folder with all files, and the
    # supervisor ends all processes.
    os._exit(0)
