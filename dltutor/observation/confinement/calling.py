"""Calling a function in a child interpreter: the call lies in one file, its answer in another."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dltutor.observation.confinement.supervisor import argv_of


def leave_call(folder: Path, function: Callable[..., Any], *args: Any) -> list[str]:
    """Write down what a child is to call.

    Args:
        folder: Where to.
        function: Any that a new interpreter can import by its name.
        args: Its arguments, which are pickled.

    Returns:
        The command line of the child.
    """
    (folder / "call").write_bytes(pickle.dumps((function, args)))
    return argv_of(__name__, folder)


def answer(folder: Path) -> Any:
    """What the function returned.

    Raises:
        FileNotFoundError: The child ended before the function did.
        TypeError, RuntimeError: As the function raised it.
    """
    found = pickle.loads((folder / "answer").read_bytes())
    if isinstance(found, Exception):
        raise found
    return found


def main(folder: str) -> None:
    """Call it, write the answer, and end this process."""
    function, args = pickle.loads((Path(folder) / "call").read_bytes())
    try:
        found = function(*args)
    except (TypeError, RuntimeError) as error:  # what else it raises is printed, and ends the child
        found = error
    unfinished = Path(folder) / "unfinished"
    unfinished.write_bytes(pickle.dumps(found))
    unfinished.rename(Path(folder) / "answer")
    # All that would be tidied up at exit is in the folder, or a process that the supervisor ends.
    os._exit(0)
