"""Files that a learner writes from a cell, imported as they are now.

A class that is typed into a cell lives in the kernel only: a worker that is a new interpreter has
no such class. One in a file can be imported by both.
"""

from __future__ import annotations

import importlib
import importlib.util
import multiprocessing
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from dltutor.lessons.kit.forms import a_class, blank, is_a_loader, shown
from dltutor.lessons.kit.outcomes import error_in_your_code, not_attempted, not_yet
from dltutor.lessons.kit.running import theirs
from dltutor.lessons.kit.sources import only_holds


def import_file(path: str | Path) -> ModuleType:
    """Import a Python file as it is now, and let new interpreters find it.

    Its folder goes to the front of `sys.path`, which multiprocessing hands on to every worker.

    Args:
        path: The file. A module of its name that was imported before is forgotten.

    Returns:
        The module.

    Raises:
        Exception: Whatever the file raises.
    """
    path = Path(path).absolute()
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    shutil.rmtree(path.parent / "__pycache__", ignore_errors=True)  # of how it was a second ago
    sys.modules.pop(path.stem, None)
    importlib.invalidate_caches()
    writes_none, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        return importlib.import_module(path.stem)
    finally:
        sys.dont_write_bytecode = writes_none


def a_fixed_file(answer: Any, starter: type) -> Path:
    """The answer, if it is a file that no longer holds just the starter. It is not imported.

    Args:
        answer: What the learner handed in.
        starter: The broken class that they were given.

    Raises:
        Rejected: It is not.
    """
    if blank(answer):
        not_attempted(f"give the check the file that holds `{starter.__name__}`.")
    if isinstance(answer, type):
        where = "a cell" if answer.__module__ == "__main__" else f"`{answer.__module__}`"
        error_in_your_code(
            f"the check takes the path of the file, got the class `{answer.__name__}` from "
            f"{where}. The check starts a new interpreter, and that can import only a file."
        )
    if not isinstance(answer, (str, Path)):
        error_in_your_code(f"the check takes the path of a file, got {shown(answer)}.")
    path = Path(answer).absolute()
    if not path.is_file():
        error_in_your_code(f"there is no file {path.name!r}. Run the cell that writes it first.")
    if only_holds(path.read_text(errors="replace"), starter):
        not_attempted(
            f"`{starter.__name__}` is still the broken one from above. Change it, run its cell, "
            "then this one."
        )
    return path


def class_in(path: Path, name: str) -> type:
    """Import a learner's file and take its dataset's class.

    Args:
        path: The file.
        name: The class.

    Raises:
        Rejected: The file raises, holds no such class, or chooses a start method.
    """
    multiprocessing.set_start_method(None, force=True)  # so that it shows if the file chooses one
    with theirs():
        module = import_file(path)
    chosen = multiprocessing.get_start_method(allow_none=True)
    if chosen is not None and "set_start_method" in path.read_text(errors="replace"):
        not_yet(
            "your file chooses the start method for the whole process. The error is out of sight "
            "here, and back where that method is missing: Windows has no fork. The exercise is a "
            "dataset that travels."
        )
    found = getattr(module, name, None)
    if found is None:
        error_in_your_code(f"there is no `{name}` in {path.name}.")
    if is_a_loader(found):
        not_yet(
            f"`{name}` is a loader, with a `num_workers` of its own. The exercise keeps its "
            "workers and fixes what they are sent: the dataset's class."
        )
    return a_class(found)


def filled_in_main(answer: type) -> str:
    """Say which name of a class or of its file is None when it is imported anew, and not here.

    Args:
        answer: The class, from a file.

    Returns:
        A sentence or two, or "" where there is no such name.
    """
    module = sys.modules[answer.__module__]
    spec = module.__spec__
    assert spec is not None and spec.loader is not None
    anew = importlib.util.module_from_spec(spec)
    with theirs():
        spec.loader.exec_module(anew)
    class_anew = getattr(anew, answer.__name__, answer)
    for where, here, there in (
        ("your file", vars(module), vars(anew)),
        ("your class", vars(answer), vars(class_anew)),
    ):
        for name, value in here.items():
            if there.get(name, value) is None and value is not None:
                return (
                    f"`{name}` is a global of {where}: main has filled it, and a new interpreter "
                    f"imports it as None. Only what is in the dataset travels."
                )
    return ""
