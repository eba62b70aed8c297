"""Compare two workers that draw at once, in slow motion, with workers that take turns."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

from dltutor.diagnosis.limits import in_time
from dltutor.diagnosis.objects.digests import digest
from dltutor.diagnosis.probes.handles.descriptors import Listener
from dltutor.diagnosis.running import forks
from dltutor.diagnosis.running.random_states import Pins, wrap_draws
from dltutor.diagnosis.running.side_effects import profiled
from dltutor.diagnosis.running.small_loaders import answers, small_loader
from dltutor.diagnosis.running.subject import Subject

_DRAWN: Final = 24  # samples to draw, or more if drawing is quick
_MOST: Final = 240  # the most samples to draw
_NATURAL: Final = 1.0  # draw as many samples as take this many seconds without pauses
_PAUSES: Final = 1.2  # the most seconds of pauses in each worker
_RUN: Final = 8.0  # the most seconds for a run, including the wait for a worker that hangs

Content = dict[Any, str]


def samples(subject: Subject, inherited: dict[int, str]) -> tuple[int, int, str]:
    """Count the right samples that arrive with two workers at once, and how many come out wrong.

    A sample is right if it's the same in main, with one worker, and with two that take turns, or if
    it's the same in main and with one worker, and missing with two that take turns.

    Args:
        subject: The loader, whose dataset is map-style.
        inherited: The descriptors that were open before any worker started.

    Returns:
        Both counts, and what a worker raised ("no answer came" if a worker hung), or "".

    Raises:
        NoAnswer: Drawing the samples in main ends the fork, or takes too long.
    """
    order = subject.keys()[:_MOST]
    began = time.monotonic()
    expected = forks.in_fork(partial(_in_main, subject, order), _RUN)
    typical = (time.monotonic() - began) / max(len(expected), 1)
    order = [each for each in order if each in expected]
    order = order[: max(_DRAWN, int(_NATURAL / max(typical, 1e-4)))]
    if len(order) < 2:
        return 0, 0, ""
    drawn = partial(_drawn, subject, order, inherited)
    one = forks.attempt(partial(drawn, workers=1, at_once=False), _RUN) or {}
    turns = forks.attempt(partial(drawn, workers=2, at_once=False), _RUN) or {}
    right = {
        index
        for index in order
        if expected[index] == one.get(index) == turns.get(index, expected[index])
    }
    both = forks.attempt(partial(drawn, workers=2, at_once=True), _RUN) or {}
    differ = [index for index in order if index in right and both.get(index) != expected[index]]
    # Only samples that arrived count as wrong, because a missing sample may only be late.
    raised = [each for index in differ if (each := both.get(index, "")).startswith("!")]
    came = [index for index in differ if index in both]
    return len(right & set(both)), len(came), raised[0][1:] if raised else ""


def _in_main(subject: Subject, order: list[Any]) -> Content:
    pins = Pins(subject.dataset)
    found: Content = {}
    for index in in_time(order, 1.5):
        with pins.held(), suppress(Exception):
            found[index] = digest([subject.dataset[index]])
    return found


def _drawn(
    subject: Subject, order: list[Any], inherited: dict[int, str], *, workers: int, at_once: bool
) -> Content:
    context = multiprocessing.get_context("fork")
    both = context.Barrier(2)
    done = context.Value("i", 0)
    firsts = (len(order) + 1) // 2  # how many samples W0 draws

    def prepare(worker: int) -> None:
        def begin() -> None:
            if at_once:
                both.wait(2.0)
            elif worker:
                _wait_for(done, firsts)

        def end() -> None:
            if not worker:
                done.value += 1

        _listen(subject.dataset, inherited, _PAUSES if at_once else 0.0, begin, end)

    loader = small_loader(subject, prepare, workers=workers, indices=order, prefetch=len(order))
    arrived = answers(loader, _RUN - 4.0)
    return {index: _said(answer) for index, answer in zip(order, arrived, strict=False)}


def _listen(
    dataset: Any,
    inherited: dict[int, str],
    pauses: float,
    begin: Callable[[], object],
    end: Callable[[], object] = lambda: None,
) -> None:
    # Draw each sample from the same random state, and pause for up to `pauses` seconds in all. Call
    # `begin` before the first draw and `end` after each draw.
    pins, listener = Pins(dataset), Listener(inherited, budget=pauses)
    started = [False]

    def around(draw: Callable[[], Any], index: Any) -> Any:
        if not started[0]:
            started[0] = True
            with suppress(Exception):  # the other worker may be late
                begin()
        try:
            with pins.held(), profiled(listener.heard):
                return draw()
        finally:
            end()

    wrap_draws(dataset, around)


def _wait_for(done: Any, count: int) -> None:
    until = time.monotonic() + 2.5
    while done.value < count and time.monotonic() < until:
        time.sleep(0.002)


def _said(answer: Any) -> str:
    if not isinstance(answer, Exception):
        return str(answer[1])
    if "timed out" in str(answer):
        return "!no answer came"
    lines = [line for line in str(answer).strip().splitlines() if line.strip()]
    return f"!{lines[-1] if lines else type(answer).__name__}"[:90]


def shares(subject: Subject, inherited: dict[int, str]) -> tuple[int, int, str]:
    """Count a stream's samples that are right, and how many go wrong with two workers at once.

    A worker's samples are right if two runs in which only this worker draws deliver the same ones.
    The function takes and returns what `samples` does, but needs a stream, and never raises
    NoAnswer. Samples that don't arrive with two workers at once count as wrong.
    """

    def run(only: int | None) -> dict[int, list[str]]:
        return forks.attempt(partial(_by_two, subject, inherited, only), _RUN) or {}

    apart, again = ([run(worker).get(worker, []) for worker in (0, 1)] for _ in range(2))
    both = run(None)
    looked = wrong = 0
    said = ""
    for worker, right in enumerate(apart):
        if right != again[worker] or not right:
            continue
        got = both.get(worker, [])
        looked += len(right)
        wrong += sum(each not in right for each in got) + max(len(right) - len(got), 0)
        said = said or next((each[1:] for each in got if each.startswith("!")), "")
    return looked, wrong, said


def _by_two(subject: Subject, inherited: dict[int, str], only: int | None) -> dict[int, list[str]]:
    both = multiprocessing.get_context("fork").Barrier(2)

    def prepare(worker: int) -> None:
        if only is not None and worker != only:
            cls: Any = type(subject.dataset)
            cls.__iter__ = lambda self: iter(())
        else:
            begin = partial(both.wait, 2.0) if only is None else lambda: None
            _listen(subject.dataset, inherited, _PAUSES, begin)

    loader = small_loader(subject, prepare, workers=2, prefetch=_DRAWN)
    found: dict[int, list[str]] = {0: [], 1: []}
    for answer in answers(loader, _RUN - 4.0, most=4 * _DRAWN):
        if isinstance(answer, Exception):
            # The exception's message says which worker raised it.
            found[1 if "worker process 1" in str(answer) else 0].append(_said(answer))
        elif len(found[answer[0]]) < 2 * _DRAWN:
            found[answer[0]].append(answer[1])
        if all(len(each) >= _DRAWN for each in found.values()):
            break
    return {worker: each[:_DRAWN] for worker, each in found.items()}
