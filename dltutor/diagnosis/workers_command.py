"""`dltutor workers FILE:LOADER`: how many workers a loader of your own should have, here."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import sys
import time
from pathlib import Path
from typing import Any, Final

SECONDS: Final = 60.0


class NoLoader(Exception):
    """There is no loader where one was said to be; the message says why, as a sentence."""


def add_workers(commands: Any) -> None:
    """Add `workers` to the commands of a parser; what was chosen has its `run`."""
    parser = commands.add_parser(
        "workers",
        help="measure how many workers your own loader should have, on this machine",
        description="Run your loader with several numbers of workers, in turns; print how many "
        "samples per second each number delivers, how long it takes to start, and which number to "
        "take. The module is imported: what trains must stand under `if __name__ == '__main__':`.",
    )
    parser.add_argument(
        "loader",
        metavar="FILE:LOADER",
        help="such as train.py:loader or package.module:make_loader; a DataLoader, or a function "
        "without arguments that returns one",
    )
    parser.add_argument(
        "--counts",
        type=_count,
        nargs="+",
        metavar="N",
        help="the numbers of workers to measure, such as --counts 0 1 2 4 (default: 0, 1, 2, 4 and "
        "so on, up to twice the cores)",
    )
    parser.add_argument(
        "--deadline",
        type=_seconds,
        default=SECONDS,
        metavar="S",
        help=f"seconds for all of it (default: {SECONDS:g}); what was measured by then is told",
    )
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Measure, and print what was found.

    Returns:
        0; 1 if the loader did not run as it should; 2 if there is none, or a count is too large.
    """
    from dltutor.observation.leftovers import nothing_left
    from dltutor.observation.throughput import CannotMeasure, how_many_workers
    from dltutor.observation.time_limits import DeadlinePassed
    from dltutor.observation.time_limits import deadline as time_limit

    began = time.monotonic()
    with nothing_left():  # whatever the import starts
        try:
            with time_limit(chosen.deadline):
                loader = find(chosen.loader)
        except NoLoader as error:
            return _refuse(2, str(error))
        except DeadlinePassed:
            return _refuse(
                1,
                f"importing {chosen.loader.rpartition(':')[0]} took longer than "
                f"{chosen.deadline:g} s: what trains must stand under `if __name__ == '__main__':`",
            )
        try:
            left = max(1.0, chosen.deadline - (time.monotonic() - began))
            print(how_many_workers(loader, counts=chosen.counts, deadline=left))
        except ValueError as error:
            return _refuse(2, str(error))
        except (CannotMeasure, TypeError) as error:
            return _refuse(1, str(error))
    return 0


def find(target: str) -> Any:
    """The loader, or the function that makes one, of a file or a module.

    Args:
        target: `FILE.py:NAME` or `package.module:NAME`; the folder of the file, or the current one,
            is where its imports are looked for first.

    Raises:
        NoLoader: There is none.
    """
    from torch.utils.data import DataLoader

    where, colon, name = target.rpartition(":")
    if not (colon and where and name):
        raise NoLoader(
            "FILE:LOADER must name a file or module and a loader in it, such as train.py:loader, "
            f"got {target!r}"
        )
    try:
        module = _from_file(Path(where)) if where.endswith(".py") else _by_name(where)
    except NoLoader:
        raise
    except (Exception, SystemExit) as error:
        raise NoLoader(f"importing {where} raised {_said(error)}") from None
    if not hasattr(module, name):
        loaders = [key for key, each in vars(module).items() if isinstance(each, DataLoader)]
        has = f"it has {', '.join(loaders)}" if loaders else "it has no DataLoader in its globals"
        raise NoLoader(f"{where} has no {name!r}: {has}")
    found = getattr(module, name)
    if not isinstance(found, DataLoader) and (isinstance(found, type) or not callable(found)):
        raise NoLoader(
            f"{name} must be a DataLoader or a function that returns one, and is "
            f"{type(found).__name__}"
        )
    return found


def _from_file(path: Path) -> Any:
    if not path.is_file():
        raise NoLoader(f"there is no file {str(path)!r}")
    path = path.resolve()
    # By this name a spawned worker imports it too.
    name = path.stem if path.stem not in sys.modules else f"own_{path.stem}"
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _by_name(name: str) -> Any:
    sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise NoLoader(
                f"there is no module {name!r} here, and no file {name}.py was named"
            ) from None
        raise


def _said(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    if not 0 < seconds <= 86_400:
        raise argparse.ArgumentTypeError(f"must be a positive number of seconds, got {text!r}")
    return seconds


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(
            "must be numbers of workers with spaces between them, such as 0 1 2 4, after "
            f"FILE:LOADER; got {text!r}"
        )
    return int(text)


def _refuse(code: int, sentence: str) -> int:
    print(f"dltutor workers: {sentence}.", file=sys.stderr)
    return code
