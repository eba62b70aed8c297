"""Define the instruments with a live chart: `observe`, `watch`, and `monitor`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from dltutor.display.screen import Screen
from dltutor.observation.interrupts import interrupts_held
from dltutor.observation.loaders import title_of
from dltutor.observation.memory.recorder import Recorder
from dltutor.observation.memory.timeline import Timeline
from dltutor.observation.memory.worker_names import WorkerNames
from dltutor.observation.observing import check_arguments
from dltutor.observation.observing import observe as observe_unseen
from dltutor.observation.report import Observation

_MONITORED: Final = 180.0  # how many seconds a monitor's chart shows
_MONITOR_PERIOD: Final = 0.5  # seconds between samples, long because a monitor may run all day


def observe(
    loader: Any,
    *,
    deadline: float = 30,
    consume: Callable[[Any], object] | None = None,
    epochs: int = 1,
    live: bool = False,
) -> Observation:
    """Iterate a loader in this process, stop it at a deadline, and report what happened.

    If an exception ends the run, `observe` reports the exception as text instead of raising it.
    Afterward, the workers are gone, even persistent ones, with everything that they started and
    left in `/dev/shm`. A loader that kept its workers, such as one for validation that your loop
    iterates, starts new ones when it's used again. `observe` restores signal handlers, the sharing
    strategy, the start method, and the global random states. If this process is killed during the
    run, the workers and their files are gone within 10 s (Linux).

    `observe` doesn't end your subprocesses, a loader in another thread, or anything that your loop
    itself started, except workers. With the sharing strategy `file_system`, torch's
    `torch_shm_manager` stays until this process ends, because later loaders need it, and batches
    that never arrived stay as long. It's the same without `observe`. multiprocessing's resource
    tracker and fork server stay if they ran before, or are still in use.

    Args:
        loader: A DataLoader with any number of workers and any start method, or an object from
            another library that wraps DataLoaders and that you can iterate again: webdataset's
            WebLoader, Lightning's CombinedLoader, torchdata's StatefulDataLoader, accelerate's
            loaders.
        deadline: Seconds after which `observe` stops the run and reports it as "hung", or as
            "worker died" if a dead worker is the reason. The deadline interrupts Python code and
            every wait for a worker, but not C code that is stuck in this process.
        consume: The training loop, as a function that takes the loader and iterates it. An
            exception in the loop ends the run, too. The Observation has what the loop returns in
            the last epoch. If None, the loop is `for batch in loader: pass`.
        epochs: How many times the loop runs.
        live: Whether to draw memory by process while the loader runs, and a figure that stays
            afterward. If so, the sampler reads PSS and USS twice a second at first. Otherwise the
            sampler reads both only after workers have started, then at most every 10 s, and at the
            end, because a reading takes time from the workers. Outside a notebook there is no
            chart, but the run is the same.

    Returns:
        The Observation, whose `signs` are the promises that this run broke even though it finished.
        `diagnose` finds out why.

    Raises:
        TypeError: `loader` isn't a loader, or `consume` can't be called.
        ValueError: `deadline` isn't a positive number, or `epochs` isn't a positive whole number.
        RuntimeError: This isn't the main thread, so a deadline can't interrupt.
        KeyboardInterrupt: You pressed Stop. By then, everything is cleaned up.
    """
    if not live:
        return observe_unseen(loader, deadline=deadline, consume=consume, epochs=epochs)
    check_arguments(loader, deadline, consume, epochs)
    screen = Screen(title_of(loader), counted=True)
    screen.show()
    seen: Observation | None = None
    try:
        seen = observe_unseen(
            loader,
            deadline=deadline,
            consume=consume,
            epochs=epochs,
            often=True,
            listeners=screen.listeners,
        )
        return seen
    finally:
        with interrupts_held():
            if seen is None:
                screen.finish("Stopped", None)
            else:
                screen.finish(seen.story().title, seen.timeline)


class Watch:
    """The recording of a block's memory, which `with watch() as w` gives you.

    Attributes:
        batches: How many batches your loop got so far, by its own count (`w.batches += 1`). If your
            loop counts, the chart shows the number, and you can measure growth per batch.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._timeline: Timeline | None = None

    @property
    def batches(self) -> int:
        return self._recorder.batches

    @batches.setter
    def batches(self, count: int) -> None:
        self._recorder.batches = count

    @property
    def timeline(self) -> Timeline:
        """The record, once the block has ended.

        Raises:
            RuntimeError: The block hasn't ended yet.
        """
        if self._timeline is None:
            raise RuntimeError("the timeline isn't complete before the `with watch()` block ends")
        return self._timeline


@contextmanager
def watch(title: str = "") -> Iterator[Watch]:
    """Record the memory of this process and everything that it starts while a block runs.

    A notebook shows a live chart, and a figure that stays after the block. Exceptions pass through.
    Any loader's workers are W0, W1, ... in the order in which they appear.

    Args:
        title: The chart's title. If empty, it's "watch".

    Yields:
        A Watch, whose `timeline` holds the record after the block.
    """
    title = title or "watch"
    screen = Screen(title)
    recorder = Recorder(listeners=screen.listeners, roles=WorkerNames())
    watched = Watch(recorder)
    how = "Ended"
    try:
        screen.show()
        recorder.start()
        yield watched
    except BaseException as error:
        how = f"Ended by {type(error).__name__}"
        raise
    finally:
        with interrupts_held():
            watched._timeline = recorder.stop()
            screen.finish(how, watched.timeline)


class Monitor:
    """The chart that `monitor` makes, of this process and everything that the process starts.

    Attributes:
        running: Whether the monitor still takes samples.
    """

    def __init__(self) -> None:
        self._screen = Screen("This notebook", window=_MONITORED, alone=True)
        self._recorder = Recorder(
            period=_MONITOR_PERIOD, listeners=self._screen.listeners, roles=WorkerNames()
        )
        self._recorder.start()
        self.running = True

    def show(self) -> None:
        """Move the chart to the running cell's output."""
        self._screen.show()

    def stop(self) -> Timeline:
        """Stop sampling, and leave a figure of the whole record in the running cell.

        If you stopped the monitor before, don't make another figure.

        Returns:
            The record, even if you stopped the monitor before.
        """
        timeline = self._recorder.stop()
        if self.running:
            self.running = False
            self._screen.finish("Stopped", timeline)
        return timeline

    def _ipython_display_(self) -> None:
        # After a cell that ends with the Monitor, show nothing, because the chart is there already.
        pass


_standing: Monitor | None = None


def monitor() -> Monitor:
    """Show a chart of memory in the last three minutes, and keep it running between cells.

    The monitor samples until you stop it or the notebook's process ends. Call `monitor` again to
    move the chart to the current cell.

    Returns:
        The Monitor, whose `stop()` ends the sampling and returns the timeline.
    """
    global _standing
    if _standing is None or not _standing.running:
        _standing = Monitor()
    _standing.show()
    return _standing
