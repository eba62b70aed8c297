"""diagnose(): find out by experiment what is wrong with a loader."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from typing import Any, Final

from dltutor.diagnosis import progress
from dltutor.diagnosis.diagnosis import Diagnosis
from dltutor.diagnosis.kit.bench import Loop
from dltutor.diagnosis.other_machines import elsewhere
from dltutor.diagnosis.promises.verdicts import verdicts
from dltutor.diagnosis.reading import findings
from dltutor.diagnosis.target import makes_loaders
from dltutor.diagnosis.trouble import CannotRun
from dltutor.diagnosis.visit import Visit, silent
from dltutor.observation.loaders import check_loader, inner_loaders
from dltutor.observation.observing import check_run
from dltutor.observation.time_limits import check_main_thread
from dltutor.system.process_memory import pss

#: How often a loader is run at the most, all experiments together.
RUNS: Final = 40


def diagnose(
    loader: Any, *, consume: Loop | None = None, epochs: int = 1, deadline: float = 30
) -> Diagnosis:
    """Find out by experiment what is wrong with a loader.

    The loader is run about ten to twenty times, each time a little differently and in a process of
    its own. Your dataset, open files, connections, and random states stay as they are, and so does
    everything else in this process. What your code writes to files, shared memory, databases, and
    servers, it writes in each run. What it takes from a pipe or a queue is gone.

    A run that uses a connection of this process, or that may fail only because it is a fork (CUDA
    is in use here, for one), counts as not tried. With a function instead of a loader, each run
    makes its own connections, and where forks prove nothing the visit runs in a new interpreter.

    Args:
        loader: A DataLoader, or a wrapper of some that `observe` takes; or a function without
            arguments that returns one, which is called in each of these processes. Where forks
            prove nothing, it is sent to a new interpreter by cloudpickle.
        consume: Your training loop, a function that takes the loader and iterates it; the plain
            loop if None. What only a loop does, such as keeping batches, is seen with it.
        epochs: How many times `consume` runs.
        deadline: Seconds for all of it; what was not tried by then is named.

    Returns:
        The Diagnosis, which a notebook shows.

    Raises:
        CannotRun: The function raises, hangs, or returns no loader.
        KeyboardInterrupt: You pressed Stop; nothing is left.
        RuntimeError: It is called where processes cannot be forked, or outside the main thread.
        TypeError: It is no loader and no function.
        ValueError: `epochs` or `deadline` is out of range.
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
    """Diagnose a loader, as `diagnose` does.

    Args:
        loader: As there; so are `consume`, `epochs` and `deadline`.
        consume: The training loop.
        epochs: How many times it runs.
        deadline: In seconds.
        announce: Told, before the first run, how often the loader will run.
    """
    visit = prepare(loader, consume=consume, epochs=epochs, deadline=deadline)
    announce(
        f"Running the loader up to {RUNS} times, at most {deadline:g} s in all. Your dataset, open "
        "files, connections, and random states stay as they are. But what your code writes to a "
        "file, to shared memory, a database, or a server, it writes each time, and what it takes "
        "from a pipe or a queue is gone."
    )
    with progress.shown() as visit.asked:
        evidence = visit.examine()
    found = findings(evidence)
    return Diagnosis(
        findings=found,
        tried=tuple(visit.tried),
        untried=tuple(visit.untried),
        elsewhere=elsewhere(evidence),
        parts=evidence.parts,
        promises=verdicts(
            evidence,
            [each.promise for each in found],
            [each.why for each in visit.untried],
        ),
        ran=not silent(evidence),
    )


def prepare(loader: Any, *, consume: Loop | None, epochs: int, deadline: float) -> Visit:
    """Check the arguments of `diagnose`, and make its Visit."""
    if not hasattr(os, "fork"):
        raise RuntimeError(
            "diagnose() runs the loader in forks of this process, and this system has no fork. On "
            "Windows, run it in WSL."
        )
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise RuntimeError(
            "An attempt has been made to start a new process before the current process has "
            "finished its bootstrapping phase: a worker runs this script again, and came to "
            'diagnose(). Call it below `if __name__ == "__main__":`.'
        )
    check_main_thread("diagnose()", "Stop end it")
    check_run(deadline, consume, epochs)
    makes = makes_loaders(loader)
    if not makes and (wrong := _not_a_loader(loader)):
        raise TypeError(wrong)
    make: Callable[[], Any] = _made(loader) if makes else lambda: loader
    return Visit(
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
            raise CannotRun(f"the function returned no loader: {wrong}")
        return loader

    return made


def _not_a_loader(thing: Any) -> str:
    """Why this is no loader that can be diagnosed, as a sentence; "" if it is one."""
    try:
        check_loader(thing)
    except TypeError as error:
        return str(error).replace("observe()", "diagnose()")
    if inner_loaders(thing):
        return ""
    return (
        f"diagnose() takes a torch DataLoader, or a wrapper of some: {type(thing).__name__} has "
        "none in its attributes"
    )
