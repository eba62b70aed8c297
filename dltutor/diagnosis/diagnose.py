"""diagnose(): find out by experiment what's wrong with a loader."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from typing import Any

from dltutor.diagnosis import progress
from dltutor.diagnosis.agenda import experiments
from dltutor.diagnosis.conclusions import findings
from dltutor.diagnosis.errors import CannotRun
from dltutor.diagnosis.examination import Examination, silent
from dltutor.diagnosis.named_loader import makes_loaders
from dltutor.diagnosis.other_machines import elsewhere
from dltutor.diagnosis.promises.verdicts import verdicts
from dltutor.diagnosis.report import Diagnosis
from dltutor.diagnosis.running.subject import Loop
from dltutor.observation.interrupts import interrupts_held
from dltutor.observation.loaders import check_loader, inner_loaders
from dltutor.observation.observing import check_run
from dltutor.observation.time_limits import check_main_thread
from dltutor.system.process_memory import pss


def diagnose(
    loader: Any, *, consume: Loop | None = None, epochs: int = 1, deadline: float = 30
) -> Diagnosis:
    """Find out by experiment what's wrong with a loader.

    The loader runs many times, each time a little differently and in a fork of this process. Your
    dataset, open files, connections, and random states stay as they are, and so does everything
    else in this process. But if your code writes to a file, shared memory, a database, or a server,
    it writes in each run. If your code takes something from a pipe or a queue, that's gone.

    A run doesn't count if it uses one of this process's connections, or if it may have failed only
    because it runs in a fork (after this process used CUDA, for example). If you pass a function
    that makes the loader and its connections, each run has its own connections.

    Args:
        loader: A DataLoader, a wrapper around DataLoaders that `observe` takes, or a function
            without arguments that returns either one. Each run calls the function in its own
            process. If forks of this process prove nothing, the function is pickled by cloudpickle
            and called in forks of a new interpreter.
        consume: Your training loop, a function that takes the loader and iterates it (default: a
            plain loop). Without yours, problems in your loop, such as kept batches, don't show.
        epochs: How many times the loop runs (default 1). A plain loop, or one with persistent
            workers, runs at least twice, because some failures only show in a second epoch.
        deadline: Seconds for all experiments (default 30). The report lists unanswered questions.

    Returns:
        The Diagnosis, which a notebook displays.

    Raises:
        CannotRun: The function raises, hangs, or doesn't return a loader, a new interpreter failed,
            or the first experiment did, which only reads the loader's settings.
        KeyboardInterrupt: You pressed Stop. Nothing is left behind.
        RuntimeError: This system can't fork, this isn't the main thread, or a worker called
            `diagnose` while it ran your script again.
        TypeError: `loader` is neither a loader nor a function, or `consume` isn't a function.
        ValueError: `epochs` isn't a whole number of 1 or more, or `deadline` isn't a positive
            number of seconds.
    """
    return examine(loader, consume=consume, epochs=epochs, deadline=deadline, announce=print)


def examine(
    loader: Any,
    *,
    consume: Loop | None,
    epochs: int,
    deadline: float,
    announce: Callable[[str], object],
) -> Diagnosis:
    """Diagnose a loader as `diagnose` does, with the same arguments, result, and exceptions.

    Before the first run, call `announce` with a message that says how long the loader runs at most,
    and what your code does again in each run.
    """
    examination = prepare(loader, consume=consume, epochs=epochs, deadline=deadline)
    announce(
        f"Running the loader again and again, for at most {deadline:g} s in total. Your "
        "dataset, open files, connections, and random states stay as they are. But if your code "
        "writes to a file, shared memory, a database, or a server, it writes each time. If it "
        "takes something from a pipe or a queue, that's gone."
    )
    # Let Stop (or Ctrl-C) interrupt only the runs. Between runs, a `__del__` may get the
    # KeyboardInterrupt, and then Python only prints the exception and goes on.
    with interrupts_held(), progress.shown() as examination.asked:
        evidence = examination.examine()
        found = findings(evidence)
        return Diagnosis(
            findings=found,
            tried=tuple(examination.tried),
            untried=tuple(examination.untried),
            elsewhere=elsewhere(evidence),
            parts=evidence.parts,
            promises=verdicts(
                evidence,
                [each.promise for each in found],
                [each.why for each in examination.untried],
            ),
            ran=not silent(evidence),
        )


def prepare(loader: Any, *, consume: Loop | None, epochs: int, deadline: float) -> Examination:
    """Check the arguments to `diagnose`, and return an Examination that hasn't run yet.

    Raises:
        RuntimeError, TypeError, ValueError: The reasons are those that `diagnose` lists.
    """
    if not hasattr(os, "fork"):
        raise RuntimeError(
            "diagnose() runs the loader in forks of this process, but this system can't fork. On "
            "Windows, run it in WSL."
        )
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise RuntimeError(
            "An attempt has been made to start a new process before the current process has "
            "finished its bootstrapping phase. A worker ran this script again and reached "
            'diagnose(). Call it below `if __name__ == "__main__":`.'
        )
    check_main_thread("diagnose()", "Stop end it")
    check_run(deadline, consume, epochs)
    makes = makes_loaders(loader)
    if not makes and (wrong := _not_a_loader(loader)):
        raise TypeError(wrong)
    make: Callable[[], Any] = _made(loader) if makes else lambda: loader
    experiments()  # imports the experiments' modules, before the deadline starts counting
    return Examination(
        make,
        consume,
        epochs,
        until=time.monotonic() + deadline,
        own_memory=pss(os.getpid()),
        at_hand=None if makes else loader,
        function=loader if makes else None,
    )


def _made(make: Callable[[], Any]) -> Callable[[], Any]:
    def made() -> Any:
        loader = make()
        if wrong := _not_a_loader(loader):
            raise CannotRun(f"the function didn't return a loader: {wrong}")
        return loader

    return made


def _not_a_loader(thing: Any) -> str:
    """Say why the doctor can't diagnose an object as a loader, or return "" if it can."""
    try:
        check_loader(thing)
    except TypeError as error:
        return str(error).replace("observe()", "diagnose()")
    if inner_loaders(thing):
        return ""
    return (
        f"diagnose() takes a torch DataLoader or a wrapper around DataLoaders, but "
        f"{type(thing).__name__} has none in its attributes"
    )
