"""Files that a learner writes from a cell, imported as they are now.

A class that is typed into a cell lives in the kernel only: a worker that is a new interpreter has
no such class. One in a file can be imported by both.
"""

from __future__ import annotations

import gc
import importlib
import multiprocessing
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from torch.utils.data import DataLoader

from dltutor.lessons.kit.answers import Unfit, a_class, failed_in_main, wrong
from dltutor.lessons.kit.outcome import Result, error_in_your_code, not_attempted


def import_file(path: str | Path) -> ModuleType:
    """Import a Python file as it is now, and let new interpreters find it.

    Its folder goes to the front of `sys.path`, which multiprocessing hands on to every worker.

    Args:
        path: The file. A module of its name that was imported before is forgotten.
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


@contextmanager
def imported(path: Path) -> Iterator[ModuleType]:
    """The module of a file in the block; `sys.path` and `sys.modules` are as before afterwards.

    Raises:
        Exception: Whatever the file raises.
    """
    searched, module = sys.path.copy(), sys.modules.get(path.stem)
    sys.path.insert(0, str(path.parent))
    try:
        yield import_file(path)
    finally:
        sys.path[:] = searched
        sys.modules.pop(path.stem, None)
        if module is not None:
            sys.modules[path.stem] = module


def grade_file(answer: Any, name: str, grade: Callable[[type], Result]) -> Result:
    """Grade the class of this name in the learner's file.

    Args:
        answer: What the check was given.
        name: The class.
        grade: Takes the class and judges it. It may raise: that is the learner's error.
    """
    path = _file(answer, name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # files that an answer leaves open
        try:
            result = _graded(path, name, grade)
        except Unfit as unfit:
            result = unfit.result
        except Exception as error:
            result = failed_in_main(error)
        gc.collect()  # while the warning is ignored
    # Its folder is a temporary one, with another name on every run.
    place = f"{path.parent.name}/{path.name}"
    return Result(result.outcome, result.text.replace(place, path.name))


def _graded(path: Path, name: str, grade: Callable[[type], Result]) -> Result:
    method = multiprocessing.get_start_method(allow_none=True)
    _choose(None)  # so that it shows if the file chooses one, also the one that was there
    try:
        with imported(path) as module:
            if multiprocessing.get_start_method(allow_none=True) is not None:
                wrong(
                    "your file chooses the start method for the whole process. The error is out "
                    "of sight here, and back where that method is missing: Windows has no fork. "
                    "The exercise is a dataset that travels."
                )
            return grade(_class_in(module, name))
    finally:
        _choose(method)


def _choose(method: str | None) -> None:
    multiprocessing.set_start_method(method, force=True)


def _class_in(module: ModuleType, name: str) -> type:
    found = getattr(module, name, None)
    if found is None:
        _error(f"there is no `{name}` in {module.__name__}.py.")
    if isinstance(found, DataLoader) or (isinstance(found, type) and issubclass(found, DataLoader)):
        wrong(
            f"`{name}` is a loader, with a `num_workers` of its own. The exercise keeps its "
            "workers and mends what they are sent: the dataset's class."
        )
    return a_class(found)


def _file(answer: Any, name: str) -> Path:
    if answer is None or answer is ...:
        raise Unfit(not_attempted(f"give the check the file that holds `{name}`."))
    if isinstance(answer, type):
        where = "a cell" if answer.__module__ == "__main__" else f"`{answer.__module__}`"
        _error(
            f"the check takes the path of the file, got the class `{answer.__name__}` from "
            f"{where}. The check starts a new interpreter, and that can import only a file."
        )
    if not isinstance(answer, (str, Path)):
        _error(f"the check takes the path of a file, got {answer!r:.60}.")
    path = Path(answer)
    if not path.is_file():
        _error(f"there is no file {path.name!r}. Run the cell that writes it first.")
    return path.absolute()


def _error(text: str) -> NoReturn:
    raise Unfit(error_in_your_code(text))
