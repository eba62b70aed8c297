"""A thread in main draws a figure while main forks the workers, and the workers also draw.

Symptom: the epoch doesn't start, or not every time: a worker waits in `savefig` or `canvas.draw`,
and below that, in `matplotlib/figure.py`, at `with self._render_lock`.

Mechanism: matplotlib isn't thread-safe, so it protects itself with one lock for all figures in the
process, and holds this lock while it draws a figure. A live chart redraws all the time, so the lock
is held much of the time. A fork at such a moment copies the held lock into the worker, without the
thread that would release it (see `held_lock`). If the worker draws something for its sample, such
as a spectrogram or a page of text, the worker waits forever.

Fix: draw in the main thread between batches, or draw the live chart in another process or in the
browser. A dataset that renders doesn't have to use matplotlib: Pillow has no such lock. If you need
both, start the workers with spawn or forkserver.

Seen in: fdtdx#56, and this course's own chart, before the browser drew it.
"""

from __future__ import annotations

import threading
from typing import Any, Final

import torch
from torch.utils.data import DataLoader, Dataset

from dltutor.failures.tools import Case, Failure, Says, facts_of, load


class Curves(Dataset[torch.Tensor]):
    """A dataset of images of curves, which it draws in `__getitem__`."""

    def __init__(self, curves: torch.Tensor) -> None:
        self.curves = curves

    def __len__(self) -> int:
        return len(self.curves)

    def __getitem__(self, index: int) -> torch.Tensor:
        axes = new_axes(0.32, 0.32)
        axes.plot(self.curves[index])
        axes.figure.canvas.draw()
        return torch.tensor(bytearray(axes.figure.canvas.buffer_rgba()))


class Chart:
    """A chart of the mean of each batch so far."""

    def __init__(self) -> None:
        self.axes = new_axes(2, 1)
        [self.line] = self.axes.plot([])
        self.means: list[float] = []

    def draw(self) -> None:
        self.line.set_data(range(len(self.means)), self.means)
        self.axes.relim()
        self.axes.autoscale_view()
        self.axes.figure.canvas.draw()


def new_axes(width: float, height: float) -> Any:
    """Make axes of this size, in inches (100 pixels each), on a canvas that needs no screen."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    canvas = FigureCanvasAgg(Figure(figsize=(width, height), dpi=100))
    axes = canvas.figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()  # labels would make matplotlib keep its font files open
    return axes


def draw_in_thread(loader: DataLoader[Any]) -> None:
    """Run an epoch whose workers start while a thread draws a chart."""
    chart = Chart()
    chart.means = [0.4, 0.6, 0.2]
    drawing, forked = threading.Event(), threading.Event()

    def wait(image: Any, dpi: float) -> tuple[Any, int, int]:
        # Stretch one drawing until main has forked the workers. A live chart that redraws all the
        # time is usually drawing at that moment, and this chart always is.
        drawing.set()
        forked.wait()
        return image, 0, 0

    chart.line.set_agg_filter(wait)
    thread = threading.Thread(target=chart.draw)
    thread.start()
    try:
        drawing.wait()
        batches = iter(loader)
        forked.set()
        for _ in batches:
            pass
    finally:
        forked.set()
        thread.join()


def draw_between_batches(loader: DataLoader[Any]) -> None:
    """Run an epoch, and draw the chart in the main thread after each batch."""
    chart = Chart()
    for batch in loader:
        chart.means.append(float(batch.float().mean()))
        chart.draw()


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose loop has a thread draw the chart."""
    return Case(_loader(workers, start_method), draw_in_thread)


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose loop draws the chart in the main thread, between batches."""
    return Case(_loader(workers, start_method), draw_between_batches)


def _loader(workers: int, start_method: str) -> DataLoader[torch.Tensor]:
    new_axes(1, 1)  # import matplotlib now, because its first search for fonts may take seconds
    curves = torch.outer(torch.arange(1, 9), torch.linspace(0, 6, 64)).sin()
    return load(Curves(curves), workers, start_method)


def absent() -> str | None:
    """Return why matplotlib can't show the failure (it draws without a lock), or None if it can."""
    import matplotlib
    from matplotlib.figure import Figure

    if not hasattr(Figure, "_render_lock"):
        return f"matplotlib {matplotlib.__version__} draws without a lock"
    return None


FAILURE: Final = Failure(
    **facts_of(__name__),
    broken=broken,
    fixed=fixed,
    sign=Says("hung", ("in __getitem__: axes.figure.canvas.draw()",)),
    start_methods=("fork",),
    deadline=3,
    absent=absent,
)
