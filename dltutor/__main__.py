"""Find out what broke a DataLoader, reproduce the failure, and learn why it happens."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from difflib import get_close_matches
from functools import partial
from textwrap import fill
from typing import TYPE_CHECKING, Any

from dltutor import __version__
from dltutor.diagnosis.command import add_diagnose
from dltutor.diagnosis.workers_command import add_workers
from dltutor.failures import FACTS, NAMES, START_METHODS, Facts
from dltutor.lab.command import add_lab

# Importing torch takes a second or two, so only a command that needs torch imports it.
if TYPE_CHECKING:
    from dltutor.failures import Failure
    from dltutor.observation import Observation

_WIDTH = 96
_EXIT_CODES = (
    "The exit code is 0, or 1 if nothing was found or shown, or 2 for an unknown command or name, "
    "or a log that can't be read. `diagnose` exits with 1 if it found something, and with 2 if it "
    "couldn't run."
)
Commands = Any  # argparse has no public name for the type that add_subparsers() returns


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: The words after `dltutor`. If None, they come from `sys.argv`.

    Returns:
        The exit code, which `dltutor --help` explains.

    Raises:
        SystemExit: The arguments are wrong (exit code 2), or they ask for help or the version (0).
    """
    chosen = _parser().parse_args(arguments)
    code: int = chosen.run(chosen)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="dltutor", description=__doc__, epilog=_EXIT_CODES)
    parser.add_argument("--version", action="version", version=f"dltutor {__version__}")
    parser.set_defaults(run=partial(_help, parser))
    commands = parser.add_subparsers(metavar="COMMAND")
    # Each function adds a command and sets the command's `run`, which takes the parsed arguments.
    for add in (add_diagnose, _add_list, _add_show, _add_explain, add_workers, add_lab):
        add(commands)
    return parser


def _help(parser: argparse.ArgumentParser, chosen: argparse.Namespace) -> int:
    parser.print_help()
    return 0


def _add_list(commands: Commands) -> None:
    parser = commands.add_parser("list", help="list all failure modes and their lessons")
    parser.add_argument("--lesson", metavar="NN", help="list only lesson NN, such as 07")
    parser.add_argument("--json", action="store_true", help="print all facts as JSON")
    parser.set_defaults(run=_list)


def _add_show(commands: Commands) -> None:
    parser = commands.add_parser(
        "show", help="run a failure mode, broken and fixed, and report what happened"
    )
    parser.add_argument("name", metavar="NAME", help="a name from `dltutor list`")
    parser.add_argument(
        "--start-method", choices=START_METHODS, help="default: a method that shows the failure"
    )
    parser.set_defaults(run=_show)


def _add_explain(commands: Commands) -> None:
    parser = commands.add_parser(
        "explain", help="name the failure modes behind an error message or a log"
    )
    parser.add_argument(
        "text",
        nargs="*",
        metavar="TEXT|FILE|-",
        help="a message, or a file that has one, or - for standard input (default)",
    )
    parser.set_defaults(run=_explain)


def _list(chosen: argparse.Namespace) -> int:
    lessons = sorted({facts.lesson for facts in FACTS})
    lesson = None if chosen.lesson is None else chosen.lesson.zfill(2)
    if lesson not in (None, *lessons):
        return _refuse(
            f"NN must be a lesson that has failure modes ({lessons[0]} to {lessons[-1]}), "
            f"got {chosen.lesson!r}"
        )
    listed = [facts for facts in FACTS if lesson in (None, facts.lesson)]
    if chosen.json:
        print(json.dumps([asdict(facts) for facts in listed], indent=2, ensure_ascii=False))
        return 0
    width = max(len(name) for name in NAMES)
    for facts in listed:
        print(f"{facts.lesson}  {facts.name:{width}}  {' / '.join(facts.symptoms)}")
    return 0


def _show(chosen: argparse.Namespace) -> int:
    name: str = chosen.name
    if name not in NAMES:
        near = get_close_matches(name, NAMES, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else "see `dltutor list`"
        return _refuse(f"NAME must be the name of a failure mode, got {name!r}: {hint}")
    from dltutor.failures import CATALOG
    from dltutor.observation.confinement.confining import CannotConfine

    failure = CATALOG[NAMES.index(name)]
    method = chosen.start_method or failure.start_methods[0]
    print(f"{name}: {' / '.join(failure.symptoms)}\nstart method {method}, two workers")
    if method not in failure.start_methods:
        shown = ", ".join(failure.start_methods)
        print(f"It happens under {shown}. Under {method}, expect something else.")
    if reason := failure.absent():
        print(f"It doesn't happen on this machine: {reason}")
    try:
        broken = _run("Broken", failure, method, fixed=False)
        _tell("Why", failure.cause)
        fixed = _run("Fixed", failure, method, fixed=True)
    except CannotConfine as error:
        print(f"This failure is safe only under a limit. {error}", file=sys.stderr)
        return 1
    _tell("What to do", f"{failure.fix} Lesson {failure.lesson} is about failures like this one.")
    print(f"\nBroken: {failure.sign.told(broken)}\nFixed: {failure.sign.told(fixed)}")
    return 0 if failure.sign.shown(broken, fixed) else 1


def _run(title: str, failure: Failure, method: str, *, fixed: bool) -> Observation:
    from dltutor.diagnosis.reproduction import reproduce

    print(f"\n== {title} ==", flush=True)
    seen = reproduce(failure, fixed=fixed, start_method=method)
    print(seen)
    if seen.result is not None:
        print(f"  found    {seen.result}")
    return seen


def _tell(title: str, text: str) -> None:
    print(f"\n== {title} ==\n{fill(text, _WIDTH)}")


def _explain(chosen: argparse.Namespace) -> int:
    from dltutor.diagnosis.logs import NotReadable, read_log
    from dltutor.diagnosis.messages import advice, explain

    try:
        log = read_log(chosen.text)
    except NotReadable as error:
        return _refuse(str(error))
    if not log.strip():
        print("There's nothing to explain. Give an error message, a file, or a log on stdin.")
        return 1
    matches = explain(log)
    if not matches and (known := advice(log)):
        print("No failure mode in the catalog causes this message. What to do about it:")
        print(fill(known, _WIDTH, initial_indent="  ", subsequent_indent="  "))
        return 0
    if not matches:
        print(
            "No failure mode matches this text. It may still be one that raises no error, or an\n"
            "ordinary exception in your own code: read the last lines of the message, and call\n"
            "dataset[i] without a loader. `dltutor list` shows all failure modes."
        )
        return 1
    printed = set()  # to print a text only once, such as a fix that several failure modes share
    for match in matches[:3]:
        facts: Facts = match.failure
        print(f"{facts.name} (lesson {facts.lesson})")
        parts = [("found", match.words[0][:_WIDTH]), ("from", match.source), ("why", facts.cause)]
        parts += [("do", facts.fix), ("tell", match.tell)]
        for label, text in parts:
            if text and text not in printed:
                print(fill(text, _WIDTH, initial_indent=f"  {label:8}", subsequent_indent=" " * 10))
        print(f"  see it  dltutor show {facts.name}\n")
        printed |= {text for _, text in parts}
    if rest := [match.failure.name for match in matches[3:]]:
        print(f"Less likely: {', '.join(rest)}")
    if known := advice(log, unnamed=True):
        print("The text has another message, which no failure mode causes. What to do about it:")
        print(fill(known, _WIDTH, initial_indent="  ", subsequent_indent="  "))
    return 0


def _refuse(sentence: str) -> int:
    print(sentence, file=sys.stderr)
    return 2


def command() -> int:
    """Run `main` and return its exit code, or 0 if stdout's pipe closes, or 130 after Ctrl-C."""
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:
        # The program that reads our output, such as `head`, has ended. Redirect stdout to
        # /dev/null, because Python flushes stdout again at exit, and otherwise prints this error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130  # the shell's code for Ctrl-C
    return code


if __name__ == "__main__":
    sys.exit(command())
