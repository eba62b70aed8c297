"""Grade "05.transfer": rows of a server, asked for by forked workers.

The server notes of each session who began it, and what others said over it. It answers late enough
for a second process to ask over the same connection.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import torch

from dltutor.failures.material.sessions import ROWS, Server
from dltutor.lessons.engine.endings import ended_well, where
from dltutor.lessons.engine.exercise import Grader
from dltutor.lessons.engine.forms import a_fixed_class
from dltutor.lessons.engine.outcomes import Result, correct, not_yet
from dltutor.lessons.engine.running import made
from dltutor.lessons.lesson_05.delivery import LONG, RUNS, Delivered, all_came, deliver, read
from dltutor.lessons.lesson_05.material import Rows

_ORDER: Final = [(7 * place + 3) % ROWS for place in range(ROWS)]


@dataclass(frozen=True)
class Epochs:
    """What an answer did with some workers.

    Args:
        rows: What it delivered.
        over_main: How often a worker said something over a connection of main's.
        ended: Whether a worker ended a session of main's.
        connected: How often one worker connected, at the most.
    """

    rows: Delivered
    over_main: int = 0
    ended: bool = False
    connected: int = 0


def gather(answer: type) -> tuple[Epochs, ...]:
    """Use the class in main, then run it with 2, 0 and 4 workers, up to what is not right."""
    server, runs = Server(seed=5), list[Epochs]()
    call = f"{answer.__name__}(connect)"
    dataset = made(answer, server.connect, call=call, within=LONG)
    if (length := made(lambda: len(dataset), call="len(dataset)", within=LONG)) != ROWS:
        not_yet(f"the server has {ROWS} rows, and `len(dataset)` is {length}.")
    other = Server(seed=50)
    second = made(answer, other.connect, call=call, within=LONG)
    for number, (workers, epochs) in enumerate(RUNS):
        server.seed = 5 + number
        expected = {number: torch.tensor(server.row(number)) for number in range(ROWS)}
        if wrong := read(dataset, [0, ROWS - 1, 9], expected):
            not_yet(f"in main, {'before there are workers' if not runs else 'later'}, {wrong}.")
        if wrong := read(second, [3], {3: torch.tensor(other.row(3))}):
            not_yet(f"in main, of a second dataset, whose server is another one, {wrong}.")
        known = len(server.sessions)
        main = partial(_read, dataset, expected)
        rows = deliver(dataset, expected, _ORDER, workers, epochs, main)
        new = Counter(each.pid for each in server.sessions[known:] if each.pid != os.getpid())
        mains = [each for each in server.sessions if each.pid == os.getpid()]
        over_main, ended = sum(each.others for each in mains), any(each.ended for each in mains)
        runs.append(Epochs(rows, over_main, ended, max(new.values(), default=0)))
        if not rows.is_right() or over_main or ended or runs[-1].connected > 1:
            break
    return tuple(runs)


def _read(dataset: Any, expected: dict[int, torch.Tensor], number: int) -> str:
    return read(dataset, [number], expected)


def judge(runs: tuple[Epochs, ...]) -> Result:
    """Correct if every row came, over connections of the workers' own."""
    for epochs in runs:
        rows, lead = epochs.rows, where(epochs.rows.workers)
        wrong = rows.told("rows", "are the answers to other questions")
        if epochs.ended:
            not_yet(
                f"{lead}, a worker said goodbye over main's connection, and the server ended "
                "main's session. Whose connection may a worker close?"
            )
        if epochs.over_main:
            not_yet(
                f"{lead}, {epochs.over_main} questions of workers came over a connection that main "
                f"made; {wrong}. Where does your class connect, and when?"
            )
        ended_well(rows.run, lead)
        all_came(rows, lead, "rows")
        if rows.wrong:
            not_yet(f"{lead}, {wrong}. No worker used main's connection. Which row is asked for?")
        if epochs.connected > 1:
            not_yet(
                f"{lead}, one worker connected {epochs.connected} times; once is enough for all "
                "its rows. What would it have to remember?"
            )
        if rows.in_main:
            not_yet(f"{lead}, main asks between the batches, and {rows.in_main}.")
    return correct(
        f"{ROWS} of {ROWS} rows are right in every epoch, with 2 workers, with 0 and with 4. A "
        "worker connected once at most, and said nothing over a connection of main's."
    )


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=partial(
        a_fixed_class,
        starter=Rows,
        without_workers="Without workers nobody shares a connection: what do they share?",
    ),
    runs="uses your class in main, then runs epochs with 2, 0 and 4 workers and a new server",
    at_most=60,
)
