"""The instruments at the package's root: observation, with a chart where one can be shown."""

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
_MONITOR_PERIOD: Final = 0.5  # it may stand there all day


def observe(
    loader: Any,
    *,
    deadline: float = 30,
    consume: Callable[[Any], object] | None = None,
    epochs: int = 1,
    live: bool = False,
) -> Observation:
    """Iterate a loader here and now, survive whatever it does, and say what happened.

    The exception that ends the run is kept as text, not raised. Afterwards the workers are gone,
    persistent ones too, with all that they have started and left in `/dev/shm`. Signal handlers,
    sharing strategy, start method, and the global random states are as they were. This also holds
    within ten seconds if this process is killed meanwhile (Linux).

    Nothing else is ended: no subprocess of yours, no loader in another thread, and nothing that
    your loop itself has started, apart from workers. With the sharing strategy `file_system`
    torch's `torch_shm_manager` stays, as after any loader, because torch needs it. The resource
    tracker and the fork server of multiprocessing stay if somebody else uses them.

    Args:
        loader: A DataLoader with any number of workers and any start method, or an object of
            another library that wraps some and can be iterated again: webdataset's WebLoader,
            Lightning's CombinedLoader, torchdata's StatefulDataLoader, accelerate's loaders.
        deadline: Seconds after which the run is stopped; its end is then "hung". It interrupts
            Python code and every wait for a worker, but not C code stuck in this process.
        consume: The training loop, as a function that takes the loader and iterates it. Its
            exceptions end the run too. What it returns is kept, of the last epoch. Default:
            `for batch in loader: pass`.
        epochs: How many times the loop runs.
        live: Draw memory by process while the loader runs, and a figure that stays when it has
            ended; for these PSS and USS are read twice a second at first. Outside a notebook there
            is no chart, and the run is the same. Without it they are read when workers have been
            started, about every 10 seconds, and at the end: a reading takes time from the workers.

    Returns:
        The Observation. Its `signs` are the promises that this one run shows to be broken, even
        though it finished; `diagnose` finds out why.

    Raises:
        TypeError: `loader` is not a loader, or `consume` cannot be called.
        ValueError: `deadline` or `epochs` is not positive.
        RuntimeError: Called outside the main thread, where no deadline can interrupt.
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
    """What `watch` gives to its block.

    Attributes:
        batches: How many your loop has had so far. Count them, `w.batches += 1`, and the chart
            shows them; growth per batch can be told only then.
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
        """What was recorded.

        Raises:
            RuntimeError: The block has not ended yet.
        """
        if self._timeline is None:
            raise RuntimeError("the timeline is complete when the `with watch()` block has ended")
        return self._timeline


@contextmanager
def watch(title: str = "") -> Iterator[Watch]:
    """Record the memory of this process, and of all that it starts, while a block of code runs.

    In a notebook a live chart shows it, and a figure stays when the block has ended. Exceptions
    pass through. The workers of any loader are W0, W1, ... in the order in which they appear.

    Args:
        title: What to call it.

    Yields:
        A Watch: its `timeline` holds the record when the block has ended.
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
    """A standing chart of this process and all that it starts. Made by `monitor`."""

    def __init__(self) -> None:
        self._screen = Screen("This kernel", window=_MONITORED, alone=True)
        self._recorder = Recorder(
            period=_MONITOR_PERIOD, listeners=self._screen.listeners, roles=WorkerNames()
        )
        self._recorder.start()
        self.running = True

    def show(self) -> None:
        """Move the chart into the output of the running cell."""
        self._screen.show()

    def stop(self) -> Timeline:
        """Stop sampling, and leave a figure of the whole record in the running cell.

        Returns:
            The record. Stopping again returns it again.
        """
        timeline = self._recorder.stop()
        if self.running:
            self.running = False
            self._screen.finish("Stopped", timeline)
        return timeline

    def _ipython_display_(self) -> None:
        # As the last expression of its cell: it is on the page already.
        pass


_standing: Monitor | None = None


def monitor() -> Monitor:
    """Put a chart on the page that stays between cells and shows the last three minutes.

    It samples on until it is stopped or the kernel ends. Calling it again moves it to the cell
    that calls.

    Returns:
        The Monitor; `stop()` ends it and returns the timeline.
    """
    global _standing
    if _standing is None or not _standing.running:
        _standing = Monitor()
    _standing.show()
    return _standing
