"""The instruments that `dltutor` exports: `observe`, `watch`, and `monitor`, with a live chart."""

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

_MONITORED: Final = 180.0  # seconds that a monitor shows
_MONITOR_PERIOD: Final = 0.5  # seconds between samples; a monitor may run all day


def observe(
    loader: Any,
    *,
    deadline: float = 30,
    consume: Callable[[Any], object] | None = None,
    epochs: int = 1,
    live: bool = False,
) -> Observation:
    """Iterate a loader in this process, survive whatever it does, and report what happened.

    It doesn't raise the exception that ends the run, but keeps it as text. Afterwards the workers
    are gone, even persistent ones, with everything that they started and left in `/dev/shm`. Signal
    handlers, sharing strategy, start method, and the global random states are as they were. If this
    process is killed during the run, the workers and their files are gone within 10 s (Linux).

    Nothing else is ended: no subprocess of yours, no loader in another thread, and nothing that
    your loop itself started, except workers. With the sharing strategy `file_system`, torch's
    `torch_shm_manager` stays, as after any loader, because torch needs it. The resource tracker and
    the fork server of multiprocessing stay if another process uses them.

    Args:
        loader: A DataLoader with any number of workers and any start method, or an object of
            another library that wraps some and can be iterated again: webdataset's WebLoader,
            Lightning's CombinedLoader, torchdata's StatefulDataLoader, accelerate's loaders.
        deadline: Seconds after which the run is stopped and counts as "hung". The deadline
            interrupts Python code and every wait for a worker, but not C code stuck in this
            process.
        consume: The training loop, as a function that takes the loader and iterates it. Its
            exceptions end the run too. What it returns in the last epoch is kept. Default:
            `for batch in loader: pass`.
        epochs: How many times the loop runs.
        live: Draw memory by process while the loader runs, and a figure that stays afterwards. PSS
            and USS are then read twice a second at first. Without `live`, they are read when
            workers have started, about every 10 s, and at the end, because a reading takes time
            from the workers. Outside a notebook there is no chart, but the run is the same.

    Returns:
        The Observation. Its `signs` are the promises that this run shows to be broken, even though
        it finished. `diagnose` finds out why.

    Raises:
        TypeError: `loader` isn't a loader, or `consume` can't be called.
        ValueError: `deadline` or `epochs` isn't positive.
        RuntimeError: Called outside the main thread, where a deadline can't interrupt.
        KeyboardInterrupt: You pressed Stop; everything is cleaned up first.
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
            memory="often",
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
    """The object that `with watch() as w` gives you.

    Attributes:
        batches: How many batches your loop has had so far. Count them yourself, `w.batches += 1`,
            and the chart shows them. Growth per batch is known only then.
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
        """The record of the block.

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
    The workers of any loader are W0, W1, ... in the order in which they appear.

    Args:
        title: The title of the chart; "watch" if empty.

    Yields:
        A Watch. Its `timeline` holds the record after the block.
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
    """A chart of this process and everything that it starts, which `monitor` makes."""

    def __init__(self) -> None:
        self._screen = Screen("This kernel", window=_MONITORED, alone=True)
        self._recorder = Recorder(
            period=_MONITOR_PERIOD, listeners=self._screen.listeners, roles=WorkerNames()
        )
        self._recorder.start()
        self.running = True

    def show(self) -> None:
        """Move the chart to the output of the running cell."""
        self._screen.show()

    def stop(self) -> Timeline:
        """Stop sampling, and leave a figure of the whole record in the running cell.

        Returns:
            The record, even if the monitor was stopped before.
        """
        timeline = self._recorder.stop()
        if self.running:
            self.running = False
            self._screen.finish("Stopped", timeline)
        return timeline

    def _ipython_display_(self) -> None:
        # As the last expression of a cell, show nothing: the chart is on the page already.
        pass


_standing: Monitor | None = None


def monitor() -> Monitor:
    """Show a chart of the last three minutes that keeps running between cells.

    It samples until you stop it or the notebook's process ends. Call `monitor` again to move the
    chart to the current cell.

    Returns:
        The Monitor. Its `stop()` ends it and returns the timeline.
    """
    global _standing
    if _standing is None or not _standing.running:
        _standing = Monitor()
    _standing.show()
    return _standing
