"""Grade "05.transfer", which asks for rows that forked workers get from a server.

For each session, the server records which process started the session, and how often other
processes used it. A connection leaves each answer in its socket for up to 20 ms, so that another
process that shares the connection has time to take the answer.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import torch

from dltutor.failures.data.sessions import ROWS, Server
from dltutor.lessons.engine.exercise import by_runs
from dltutor.lessons.engine.forms import a_fixed_class
from dltutor.lessons.engine.outcomes import correct, not_yet
from dltutor.lessons.engine.running import made
from dltutor.lessons.lesson_05.delivery import (
    LONG,
    RUNS,
    Delivered,
    check_delivery,
    check_in_main,
    deliver,
)
from dltutor.lessons.lesson_05.helpers import Rows

_ORDER: Final = [(7 * place + 3) % ROWS for place in range(ROWS)]


@dataclass(frozen=True)
class Epochs:
    """A record of what an answer did with a given number of workers.

    Args:
        rows: How the run ended, how many rows arrived, and how many were wrong.
        over_main: How often workers used a connection that main made.
        ended: Whether a worker ended one of main's sessions.
        connected: The most connections that a worker made.
    """

    rows: Delivered
    over_main: int = 0
    ended: bool = False
    connected: int = 0


def run(answer: type) -> Iterator[Epochs]:
    """For 2, 0, and 4 workers in turn, read samples in main and in a loader, and yield a record."""
    server, other = Server(seed=5), Server(seed=50)
    call = f"{answer.__name__}(connect)"
    dataset = made(answer, server.connect, call=call, within=LONG)
    if (length := made(lambda: len(dataset), call="len(dataset)", within=LONG)) != ROWS:
        not_yet("other-length", rows=ROWS, length=length)
    second = made(answer, other.connect, call=call, within=LONG)
    where, code = "in main, before any worker started", "other-sample"
    where_second = "in main, in a second dataset, which has another server"
    for number, (workers, epochs) in enumerate(RUNS):
        server.seed = 5 + number
        expected = {number: torch.tensor(server.row(number)) for number in range(ROWS)}
        check_in_main(dataset, {index: expected[index] for index in (0, ROWS - 1, 9)}, where, code)
        check_in_main(second, {3: torch.tensor(other.row(3))}, where_second, "other-sample-of-two")
        known = len(server.sessions)
        rows = deliver(dataset, expected, _ORDER, workers, epochs)
        new = Counter(each.pid for each in server.sessions[known:] if each.pid != os.getpid())
        mains = [each for each in server.sessions if each.pid == os.getpid()]
        over_main, ended = sum(each.others for each in mains), any(each.ended for each in mains)
        yield Epochs(rows, over_main, ended, max(new.values(), default=0))
        where, code = "in main, between two runs", "other-sample-later"


def judge(epochs: Epochs) -> None:
    """Raise `Rejected` unless every row is right and no worker connected more than once.

    A worker must not use a connection that main made, or end any of main's sessions, either.
    """
    rows = epochs.rows
    if epochs.ended:
        not_yet("mains-session-ended", **rows.fields)
    if times := epochs.over_main:
        code = "over-mains-and-wrong" if rows.wrong else "over-mains"
        not_yet(code, times=times, **rows.fields)
    check_delivery(rows, wrong="wrong-rows")
    if epochs.connected > 1:
        not_yet("connects-often", times=epochs.connected, **rows.fields)


GRADER: Final = by_runs(
    run,
    judge,
    result=lambda runs: correct(rows=ROWS),
    look=partial(a_fixed_class, starter=Rows),
    at_most=60,
)
