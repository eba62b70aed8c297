"""`dltutor diagnose FILE:LOADER`: find out what's wrong with your own loader."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from dltutor.diagnosis.named_loader import (
    TARGET,
    TARGET_HELP,
    NoLoader,
    attribute,
    find,
    makes_loaders,
    seconds,
)

#: Seconds. If importing your module takes longer, and the import starts nothing that a fork would
#: break, such as CUDA, `_diagnose` imports the module once, before any experiment is forked.
#: Otherwise, each experiment imports the module itself.
_QUICK: Final = 1.5


def add_diagnose(commands: Any) -> None:
    """Add the command `diagnose` to a parser.

    Args:
        commands: What the parser's `add_subparsers` returned. In the parsed arguments, `run` is the
            function that carries out the command.
    """
    parser = commands.add_parser(
        "diagnose",
        help="find out by experiment what's wrong with your own loader",
        description="Run your loader several times, each time a little differently and in its own "
        "process. Print what's wrong with the loader, how we know, where the problem is, and what "
        "to do. The command imports your module, so put the code that trains under "
        "`if __name__ == '__main__':`.",
        epilog="Exit codes: 0 if the loader ran and nothing was found, 1 if something was found, 2 "
        "if the loader couldn't be run.",
    )
    parser.add_argument("loader", metavar=TARGET, help=TARGET_HELP)
    parser.add_argument(
        "--consume",
        metavar="NAME",
        help="your training loop, a function in the same module (or FILE.py:NAME) that takes the "
        "loader. The doctor only finds problems in your loop, such as kept batches, if you name it",
    )
    parser.add_argument(
        "--epochs",
        type=_epochs,
        default=1,
        metavar="N",
        help="how many times the loop runs (default: 1)",
    )
    parser.add_argument(
        "--deadline",
        type=seconds,
        metavar="S",
        help="seconds for the whole diagnosis (default: 30, or 60 if the workers aren't forked). "
        "The report lists the questions that there was no time for",
    )
    parser.add_argument("--json", action="store_true", help="print the diagnosis as JSON")
    parser.add_argument(
        "--html", metavar="FILE", type=Path, help="also write the diagnosis to an HTML page"
    )
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Diagnose the loader that the command line names, and print the diagnosis as text or JSON.

    With `--html`, first write the diagnosis to an HTML page. Print errors to stderr.

    Args:
        chosen: The parsed arguments of the command.

    Returns:
        The exit code: 0 if nothing was found, 1 if something was found, or 2 if the loader couldn't
        be diagnosed or the page couldn't be written.
    """
    from dltutor.diagnosis.errors import CannotRun
    from dltutor.diagnosis.report import page

    try:
        diagnosis = _diagnose(chosen)
    except (CannotRun, NoLoader, TypeError, ValueError, RuntimeError) as error:
        return _refuse(str(error))
    if chosen.html is not None:
        try:
            chosen.html.write_text(page(diagnosis), encoding="utf-8")
        except OSError as error:
            return _refuse(f"can't write {chosen.html}: {error.strerror}")
    if chosen.json:
        print(json.dumps(diagnosis.to_dict(), indent=2, ensure_ascii=False))
    else:
        print(diagnosis)
    return 0 if diagnosis.ok else 1 if diagnosis.findings else 2


def _diagnose(chosen: argparse.Namespace) -> Any:
    from dltutor.diagnosis.diagnose import examine

    target, loop = chosen.loader, None
    if chosen.consume:
        where = "" if ":" in chosen.consume else f"{target.rpartition(':')[0]}:"
        loop = partial(_loop, where + chosen.consume)
    took, method, forkable = _time_import(target, loop, chosen.deadline or 30)
    if took > _QUICK and forkable:
        find(target)  # safe in main, because a trial import in another process worked
    deadline = chosen.deadline or (30 if method in ("", "fork") else 60)
    return examine(
        partial(_made, target),
        consume=loop,
        epochs=chosen.epochs,
        deadline=deadline,
        announce=partial(print, file=sys.stderr, flush=True),
    )


def _made(target: str) -> Any:
    found = find(target)
    return found() if makes_loaders(found) else found


def _loop(target: str, loader: Any) -> object:
    return attribute(target)(loader)


def _time_import(
    target: str, loop: partial[object] | None, limit: float
) -> tuple[float, str, bool]:
    # Import the module and make the loader in another process, because your module may do anything,
    # such as hang or exit. Return the seconds that the import took, the workers' start method (""
    # without workers), and whether a process that has imported the module can be forked. If there's
    # no loader within `limit` seconds, or `--consume` doesn't name a function, raise NoLoader.
    from dltutor.diagnosis import fork_doubts
    from dltutor.diagnosis.examination import most_memory, why_stopped
    from dltutor.diagnosis.running.subject import Subject
    from dltutor.observation import sandbox
    from dltutor.observation.loaders import check_loader, what_instead

    def work(begin: Callable[[], None]) -> dict[str, Any]:
        begin()
        began = time.perf_counter()
        try:
            found = find(target)
            took = time.perf_counter() - began
            forkable = not fork_doubts.in_use()
            if loop is not None and not callable(attribute(*loop.args)):
                return {"refused": f"--consume must name a function, but {loop.args[0]} isn't one"}
        except NoLoader as error:
            return {"refused": str(error)}
        try:
            loader = found() if makes_loaders(found) else found
        except BaseException as error:  # even SystemExit, so that the command can report it
            return {"refused": f"{target} raised {type(error).__name__}: {error}"[:400]}
        try:
            check_loader(loader)
        except TypeError:
            instead = what_instead(loader)
            return {"refused": f"{target} must return a DataLoader, but returned {instead}"}
        method = Subject(loader, None, 1, 0).method
        return {"took": took, "method": method, "forkable": forkable}

    ended = sandbox.run(work, at_most=limit, memory=most_memory(), own_folder=False)
    match ended.result:
        case {"took": float(took), "method": str(method), "forkable": bool(forkable)}:
            return took, method, forkable
        case {"refused": str(sentence)}:
            raise NoLoader(sentence)
    what = f"importing {target.rpartition(':')[0]} and making the loader"
    hint = ". Put the code that trains under `if __name__ == '__main__':`"
    raise NoLoader(why_stopped(ended, what, limit) + (hint if ended.stopped == "limit" else ""))


def _epochs(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of 1 or more, got {text!r}")
    return int(text)


def _refuse(sentence: str) -> int:
    print(f"dltutor diagnose: {sentence.rstrip('.')}.", file=sys.stderr)
    return 2
