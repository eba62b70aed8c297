"""Define `observe()`, which runs a loader, stops it at a deadline, and records what happened."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import Any

from dltutor.observation import errors
from dltutor.observation.foreign import is_a, text
from dltutor.observation.interrupts import Interrupts, interrupts_held
from dltutor.observation.leftovers import nothing_left
from dltutor.observation.loaders import check_loader
from dltutor.observation.memory.moments import Moment
from dltutor.observation.memory.recorder import Recorder
from dltutor.observation.memory.timeline import Timeline
from dltutor.observation.record import End
from dltutor.observation.report import Observation
from dltutor.observation.run import Run
from dltutor.observation.texts import end_of_file
from dltutor.observation.time_limits import DeadlinePassed, check_deadline, check_main_thread
from dltutor.observation.time_limits import deadline as time_limit


def observe(
    loader: Any,
    *,
    deadline: float = 30,
    consume: Callable[[Any], object] | None = None,
    epochs: int = 1,
    often: bool = False,
    listeners: Sequence[Callable[[Moment], None]] = (),
) -> Observation:
    """Run a loader and record what happened, without drawing anything.

    The result and the errors are those of `dltutor.observe`.

    Args:
        loader: A DataLoader or a wrapper.
        deadline: Seconds after which to stop the run.
        consume: The training loop, or None to only iterate.
        epochs: How many times the loop runs.
        often: Whether to read USS and PSS often (see `Recorder`), which takes time from the
            workers.
        listeners: Functions to call, in a thread, with every Moment as it's sampled.
    """
    check_arguments(loader, deadline, consume, epochs)
    with interrupts_held() as interrupts, ExitStack() as clean_up:
        folder = clean_up.enter_context(TemporaryDirectory(prefix="dltutor-run-"))
        started = clean_up.enter_context(nothing_left())
        recorder = Recorder(often=often, listeners=listeners, mark=started.mark, folder=folder)
        recorder.start()
        clean_up.callback(recorder.stop)
        run = Run(loader, folder, recorder, started, interrupts)
        result, error = _drive(run, consume or _iterate, epochs, deadline, interrupts)
        seconds = time.perf_counter() - run.started
        try:
            if is_a(error, KeyboardInterrupt):
                raise KeyboardInterrupt from None
            seen = _write_down(run, error, seconds, deadline, recorder.stop)
            waited = run.waited / seconds if consume is not None else None
            seen = replace(seen, result=result, waited=waited)
        finally:
            run.end(gracefully=error is None)
            if error is not None:
                errors.forget(error)
        return replace(seen, left=started.still_running()) if seen.ok else seen


def _iterate(loader: Any) -> None:
    for _ in loader:
        pass


def _drive(
    run: Run,
    loop: Callable[[Any], object],
    epochs: int,
    seconds: float,
    interrupts: Interrupts,
) -> tuple[object, BaseException | None]:
    result: object = None
    with run.instrumented():
        try:
            with time_limit(seconds), interrupts.let_through():
                try:
                    for _ in range(epochs):
                        result = loop(run.loader)
                finally:
                    run.ignore_deaths()
        except BaseException as error:  # even SystemExit, which must not end the notebook
            return None, error
        finally:
            run.ignore_deaths()  # again, in case the alarm interrupted the first call
    return result, None


def _write_down(
    run: Run,
    error: BaseException | None,
    seconds: float,
    deadline: float,
    timeline: Callable[[], Timeline],
) -> Observation:
    hung = is_a(error, DeadlinePassed)
    failed = errors.read(error) if error is not None else errors.Failed()
    if hung:  # our own alarm ended the loop, so keep only where the loop was
        failed = errors.Failed(traceback=failed.traceback)
    end: End = "hung" if hung else "raised" if error is not None else "finished"
    lost = error is not None and not hung and errors.lost_contact(error)
    if (
        failed.by_torch == "worker died"
        or (lost and run.wait_for_dead_worker())
        or (hung and run.waits_for_dead_worker())
    ):
        end = "worker died"
    return Observation(
        end=end,
        deadline=deadline,
        batches=run.batches,
        samples=run.samples,
        seconds=seconds,
        first_batch_seconds=run.first_batch,
        last_batch_seconds=run.last_batch,
        failed_loader=run.loader_of(error) if error is not None else "",
        workers=run.fates(where=hung or failed.by_torch == "timed out"),
        stderr=end_of_file(run.stderr),
        timeline=timeline(),
        expected=run.expected,
        others=run.other_workers(),
        **vars(failed),
    )


def check_arguments(loader: object, deadline: object, consume: object, epochs: object) -> None:
    """Raise the error of `observe` for a wrong argument, or for a call outside the main thread."""
    check_loader(loader)
    check_run(deadline, consume, epochs)
    check_main_thread("observe()", "its deadline interrupt a loader that hangs")


def check_run(deadline: object, consume: object, epochs: Any) -> None:
    """Raise ValueError for a wrong deadline or `epochs`, and TypeError for a wrong `consume`."""
    check_deadline(deadline)
    if type(epochs) is bool or not is_a(epochs, int) or epochs < 1:
        raise ValueError(f"epochs must be a whole number of 1 or more, got {text(epochs)}")
    if consume is not None and not callable(consume):
        raise TypeError(
            f"consume must be a function that takes the loader and iterates it, got {text(consume)}"
        )
