"""Define ways in which an answer can harm the check that runs it, and add them to right answers."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from state_of_main import change_everything
from torch.utils.data import IterableDataset, get_worker_info

from dltutor.lessons.lesson_14 import Report


def signal_parent(number: int) -> Callable[[], None]:
    def send() -> None:
        os.kill(os.getppid(), number)
        time.sleep(3)

    return send


def swallow_everything() -> None:
    while True:
        try:
            time.sleep(60)
        except BaseException:
            continue


def start_a_stray() -> None:
    subprocess.Popen(["sleep", "600"], start_new_session=True)


def start_threads() -> None:
    ThreadPoolExecutor(4).submit(time.sleep, 600)
    threading.Thread(target=time.sleep, args=(600,)).start()


def keep_allocating() -> None:
    kept = []
    while True:
        kept.append(bytearray(b"x" * 20_000_000))


def print_a_hundred_megabytes() -> None:
    for _ in range(100):
        print("x" * 1_000_000)


HARMS: dict[str, Callable[[], object]] = {
    "ends its process": lambda: os._exit(3),
    "exits": lambda: sys.exit(3),
    "kills itself": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "terminates its parent": signal_parent(signal.SIGTERM),
    "kills its parent": signal_parent(signal.SIGKILL),
    "sleeps": lambda: time.sleep(600),
    "retries under a bare except": swallow_everything,
    "leaves a process": start_a_stray,
    "leaves threads": start_threads,
    "fills memory": keep_allocating,
    "changes everything": change_everything,
    "prints a lot": print_a_hundred_megabytes,
}
MAY_BE_RIGHT = ("leaves a process", "leaves threads", "changes everything", "prints a lot")
"""Harms that a check may clean up after, and still find the answer right."""

MADE, IN_MAIN, IN_A_WORKER = "when it is made", "sample in main", "sample in a worker"
PLACES = (MADE, IN_MAIN, IN_A_WORKER)


def harmed(answer: Any, place: str, harm: str, folder: Path) -> Any:
    """Turn a right answer into one that does harm.

    Args:
        answer: A class, a function, a Report, or the path of a file with a class.
        place: When the answer does the harm, one of PLACES.
        harm: A key of HARMS.
        folder: Where to write changed copies, if the answer is in files.

    Returns:
        The changed answer, or None if this kind of answer has no such place.
    """
    if isinstance(answer, (str, Path)):
        return with_class_replaced(Path(answer), folder, "harmed_class", place, harm)
    if isinstance(answer, type):
        return harmed_class(answer, place, harm)
    if isinstance(answer, Report):
        return _report(answer, place, harm, folder)
    return _function(answer, harm) if place == MADE else None


def _report(answer: Report, place: str, harm: str, folder: Path) -> Report | None:
    # Do the harm when `data.py` is imported, or in each of its classes that has a `__getitem__`.
    sources = [path.read_text() for path in answer.scene.folder.glob("*.py")]
    if place != MADE and not any("def __getitem__" in each for each in sources):
        return None
    shutil.copytree(answer.scene.folder, folder / "harmed")
    with open(folder / "harmed" / "data.py", "a") as source:
        source.write(f"\nimport sys\nsys.path.append({str(Path(__file__).parent)!r})\n")
        source.write(f"import harms\nharms.in_module(globals(), {place!r}, {harm!r})\n")
    return replace(answer, scene=replace(answer.scene, folder=folder / "harmed"))


def in_module(names: dict[str, Any], place: str, harm: str) -> None:
    """Do harm right away if `place` is MADE, and make each class with a `__getitem__` harmful.

    `names` has the globals of the learner's module. The copy of `data.py` that `harmed` writes
    calls this function.
    """
    if place == MADE:
        HARMS[harm]()
    for name, each in list(names.items()):
        if isinstance(each, type) and "__getitem__" in vars(each):
            names[name] = harmed_class(each, place, harm)


def harmed_class(answer: type, place: str, harm: str) -> type:
    """Make a subclass that does harm. The files that `harmed` writes also call this function."""
    do = HARMS[harm]

    class Harmed(answer):  # type: ignore[misc]
        def __init__(self, *arguments: Any) -> None:
            if place == MADE:
                do()
            super().__init__(*arguments)

        def __getitem__(self, index: int) -> Any:
            if place == (IN_A_WORKER if get_worker_info() else IN_MAIN):
                do()
            return super().__getitem__(index)

    class HarmedStream(Harmed):
        def __iter__(self) -> Iterator[Any]:
            if place == (IN_A_WORKER if get_worker_info() else IN_MAIN):
                do()
            return iter(super().__iter__())

    made = HarmedStream if issubclass(answer, IterableDataset) else Harmed
    made.__name__ = made.__qualname__ = answer.__name__
    return made


def _function(answer: Callable[..., Any], harm: str) -> Callable[..., Any]:
    def harmful(*arguments: Any) -> Any:
        HARMS[harm]()
        return answer(*arguments)

    return harmful


def with_class_replaced(answer: Path, folder: Path, by: str, *arguments: str) -> Path:
    """Copy a learner's file, let a function replace its class, and return the path of the copy.

    Args:
        answer: The path of the file, which has one class whose name begins with My.
        folder: Where to write the copy.
        by: The name of a function in this module or in `slips`, which takes the class and the
            arguments.
        arguments: The function's further arguments.
    """
    path = folder / answer.name
    name = next(
        line.split("class ")[1].split("(")[0].rstrip(":")
        for line in answer.read_text().splitlines()
        if line.startswith("class My")
    )
    module = "harms" if by in globals() else "slips"
    more = "".join(f", {each!r}" for each in arguments)
    path.write_text(
        f"{answer.read_text()}\n"
        f"import sys\nsys.path.append({str(Path(__file__).parent)!r})\n"
        f"from {module} import {by}\n"
        f"{name} = {by}({name}{more})\n"
        f"{name}.__module__ = __name__\n"
    )
    return path
