"""`dltutor workers FILE:LOADER`: measure how many workers your loader needs on this machine."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any, Final

from dltutor.diagnosis.named_loader import TARGET, TARGET_HELP, NoLoader, find, seconds

SECONDS: Final = 60.0


def add_workers(commands: Any) -> None:
    """Add the command `workers` to a parser.

    Args:
        commands: What the parser's `add_subparsers` returned. In the parsed arguments, `run` is the
            function that carries out the command.
    """
    parser = commands.add_parser(
        "workers",
        help="measure how many workers your own loader should have, on this machine",
        description="Run your loader with several numbers of workers, alternating. Print how many "
        "samples per second each number delivers, how long the workers take to start, and which "
        "number to use. The command imports your module, so put the code that trains under "
        "`if __name__ == '__main__':`.",
    )
    parser.add_argument(
        "loader",
        metavar=TARGET,
        help=TARGET_HELP,
    )
    parser.add_argument(
        "--counts",
        type=_count,
        nargs="+",
        metavar="N",
        help="the numbers of workers to measure, such as --counts 0 1 2 4 (default: 0, 1, 2, 4, "
        "and so on, up to twice the number of cores)",
    )
    parser.add_argument(
        "--deadline",
        type=seconds,
        default=SECONDS,
        metavar="S",
        help=f"seconds for all measurements together (default: {SECONDS:g}). The report has those "
        "that there was time for",
    )
    parser.add_argument(
        "--step",
        type=seconds,
        metavar="S",
        help="seconds that your training step takes. After each batch, the main process waits that "
        "long, while the workers continue (default: no wait)",
    )
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Measure the loader that the command line names, and print which number of workers to use.

    Args:
        chosen: The parsed arguments of the command.

    Returns:
        The exit code: 0 if there's a result, 1 if importing took too long or measuring failed, or 2
        if there's no loader or a number is out of range.
    """
    from dltutor.observation.leftovers import nothing_left
    from dltutor.observation.throughput import CannotMeasure, how_many_workers
    from dltutor.observation.time_limits import DeadlinePassed
    from dltutor.observation.time_limits import deadline as time_limit

    began = time.monotonic()
    with nothing_left():  # restores what importing and measuring change, such as random states
        try:
            with time_limit(chosen.deadline):
                loader = find(chosen.loader)
        except NoLoader as error:
            return _refuse(2, str(error))
        except DeadlinePassed:
            return _refuse(
                1,
                f"importing {chosen.loader.rpartition(':')[0]} took longer than "
                f"{chosen.deadline:g} s. Put the code that trains under "
                "`if __name__ == '__main__':`",
            )
        try:
            left = max(1.0, chosen.deadline - (time.monotonic() - began))
            found = how_many_workers(loader, counts=chosen.counts, deadline=left, step=chosen.step)
            print(found)
        except ValueError as error:
            return _refuse(2, str(error))
        except (CannotMeasure, TypeError) as error:
            return _refuse(1, str(error))
    return 0


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(
            "must be numbers of workers after FILE:LOADER, with spaces between them, such as "
            f"0 1 2 4, got {text!r}"
        )
    return int(text)


def _refuse(code: int, sentence: str) -> int:
    print(f"dltutor workers: {sentence}.", file=sys.stderr)
    return code
