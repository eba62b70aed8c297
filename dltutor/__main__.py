"""python -m dltutor: the catalogue of failure modes in a terminal."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from textwrap import fill

from dltutor.diagnosis.messages import explain
from dltutor.diagnosis.reproduction import reproduce
from dltutor.failures import CATALOGUE, START_METHODS, Failure
from dltutor.lessons import lab
from dltutor.observation import Observation
from dltutor.observation.confinement.confining import CannotConfine

_WIDTH = 96


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: The words after `python -m dltutor`; default: those of this process.

    Returns:
        The exit code: 0; 1 where nothing was found or nothing was shown; 2 for words that are no
        command.
    """
    chosen = _parser().parse_args(arguments)
    if chosen.command == "lab":
        return lab.run(chosen)
    if chosen.command == "list":
        return _list()
    if chosen.command == "show":
        return _show(chosen.name, chosen.start_method)
    return _explain(" ".join(chosen.text) or _standard_input())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m dltutor", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("list", help="all failure modes, with the lesson that teaches each")
    show = commands.add_parser("show", help="run one, broken and mended, and say what happened")
    show.add_argument("name", metavar="NAME", help="as `list` prints it")
    show.add_argument(
        "--start-method",
        choices=START_METHODS,
        help="default: the first one under which the failure shows",
    )
    search = commands.add_parser("explain", help="name the failure modes behind an error message")
    search.add_argument("text", nargs="*", metavar="TEXT", help="default: read standard input")
    lab.add_command(commands)
    return parser


def _list() -> int:
    width = max(len(failure.name) for failure in CATALOGUE)
    for failure in CATALOGUE:
        print(f"{failure.lesson}  {failure.name:{width}}  {failure.symptom}")
    return 0


def _show(name: str, start_method: str | None) -> int:
    names = [failure.name for failure in CATALOGUE]
    if name not in names:
        near = get_close_matches(name, names, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else "see `python -m dltutor list`"
        print(
            f"NAME must be a failure mode of the catalogue, got {name!r}: {hint}", file=sys.stderr
        )
        return 2
    failure = CATALOGUE[names.index(name)]
    method = start_method or failure.start_methods[0]
    print(f"{failure.name}: {failure.symptom}", f"start method {method}, two workers", sep="\n")
    if method not in failure.start_methods:
        shown = ", ".join(failure.start_methods)
        print(f"It shows under {shown}; expect something else here.")
    if reason := failure.absent():
        print(f"This machine does not show it: {reason}")
    try:
        broken = _run("Broken", failure, method, fixed=False)
        _tell("Why", failure.cause)
        fixed = _run("Mended", failure, method, fixed=True)
    except CannotConfine as error:
        print(f"This failure is safe only under a limit. {error}", file=sys.stderr)
        return 1
    _tell("What to do", f"{failure.remedy} Lesson {failure.lesson} has the whole story.")
    print(f"\nBroken: {failure.sign.told(broken)}\nMended: {failure.sign.told(fixed)}")
    return 0 if failure.sign.shown(broken, fixed) else 1


def _run(title: str, failure: Failure, method: str, *, fixed: bool) -> Observation:
    print(f"\n== {title} ==", flush=True)
    seen = reproduce(failure, fixed=fixed, start_method=method)
    print(seen)
    if seen.result is not None:
        print(f"  found    {seen.result}")
    return seen


def _tell(title: str, text: str) -> None:
    print(f"\n== {title} ==\n{fill(text, _WIDTH)}")


def _standard_input() -> str:
    if sys.stdin.isatty():
        print("Paste the message, then press Ctrl-D on an empty line.", file=sys.stderr)
    return sys.stdin.buffer.read().decode(errors="replace")


def _explain(log: str) -> int:
    if not log.strip():
        print("There is nothing to explain: give an error message, or a log on standard input.")
        return 1
    matches = explain(log)
    if not matches:
        print(
            "No failure mode of the catalogue has these words. It may still be one that says\n"
            "nothing, or an ordinary exception of your own code: read the last lines of the\n"
            "message, and call dataset[i] without a loader. `python -m dltutor list` names all."
        )
        return 1
    for match in matches[:3]:
        failure = match.failure
        print(f"{failure.name} (lesson {failure.lesson})")
        print(f"  found   {match.words[0][:_WIDTH]}")
        for label, text in (("why", failure.cause), ("do", failure.remedy)):
            print(fill(text, _WIDTH, initial_indent=f"  {label:8}", subsequent_indent=" " * 10))
        print(f"  see it  python -m dltutor show {failure.name}\n")
    if rest := [match.failure.name for match in matches[3:]]:
        print(f"Less likely: {', '.join(rest)}")
    return 0


def command() -> int:
    """What the command `dltutor` and `python -m dltutor` run; it may be the start of a pipe."""
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:  # `| head` has seen enough; Python would complain once more at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


if __name__ == "__main__":
    sys.exit(command())
