"""Define `budget()`, which shows how much a loader will hold in shared memory and in total.

On the page that `budget()` returns, you change settings, see the predicted memory, and test the
prediction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from multiprocessing import get_all_start_methods
from typing import Any, Final

import ipywidgets as widgets
from torch.utils.data import DataLoader

from dltutor.display.budget_comparison import draw_memory, draw_shared, verdict
from dltutor.observation.budget.own_loader import (
    Batch,
    measure_batch,
    own_footprint,
    settings_of,
)
from dltutor.observation.budget.prediction import Footprint, Prediction, Settings
from dltutor.observation.budget.trial import Trial, footprint, trial
from dltutor.observation.budget.usage import room
from dltutor.system.this_machine import machine
from dltutor.tables import size

_MOST_WORKERS: Final = 8  # the slider's end, unless there are more cores or workers
_MOST_AHEAD: Final = 16
_BATCH_SIZES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
_IMAGE: Final = Settings.sample_bytes
_SAMPLE_SIZES: Final = (1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, _IMAGE, 1 << 20, 4 << 20)
_SAVED: Final = "Budget of a loader: a page of settings and the memory that they take up."
_NAMED: Final = {"style": {"description_width": "9.5em"}, "layout": {"width": "min(100%, 540px)"}}


def budget(
    loader: DataLoader[Any] | None = None,
    *,
    num_workers: int | None = None,
    prefetch_factor: int | None = None,
    batch_size: int | None = None,
    sample_bytes: int | None = None,
    start_method: str | None = None,
    deadline: float = 60,
) -> Budget:
    """Show how much a loader holds in shared memory and in total, next to what this machine has.

    If you pass a loader, one of its workers makes a batch to measure, in at most `deadline`
    seconds. In a notebook you can change the settings, and a button runs them for real, on
    synthetic samples in a separate process. `budget` also measures how much memory a worker uses on
    this machine, once for each start method. Each measurement takes a few seconds.

    A setting that is None comes from the loader. Without a loader, the defaults below apply.

    Args:
        loader: A DataLoader whose settings and batches to use. If None, use only the settings.
        num_workers: How many workers, 1 or more (default 2).
        prefetch_factor: How many batches each worker makes ahead (default 2).
        batch_size: How many samples a batch has (default 8).
        sample_bytes: The size of a sample in bytes (default: a 3 x 224 x 224 float32 image).
        start_method: "fork" (default), "spawn", or "forkserver".
        deadline: How many seconds the loader's worker has to make a batch.

    Returns:
        The Budget, which a notebook shows as a page, and which `print` shows as a text table.
        `Budget.run` does what the button does.

    Raises:
        TypeError: `loader` isn't a DataLoader.
        ValueError: A setting or `deadline` is out of range, or the loader returned no batch that
            could be measured in time.
        RuntimeError: No worker could be measured, or you passed a loader outside the main thread.
    """
    settings: dict[str, Any] = {
        "num_workers": num_workers,
        "prefetch_factor": prefetch_factor,
        "batch_size": batch_size,
        "sample_bytes": sample_bytes,
        "start_method": start_method,
    }
    given = {name: value for name, value in settings.items() if value is not None}
    if loader is None:
        return Budget(Settings(**given))
    settings_of(loader, Batch(1, 1, 0), **given)  # check the settings before the slow part
    batch = measure_batch(loader, deadline)
    return Budget(settings_of(loader, batch, **given), batch)


class Budget:
    """The page that `budget` makes, with settings, the prediction for them, and a trial run.

    Attributes:
        prediction: The Prediction for the current settings.
        trial: The last real run, or None before the first one.
    """

    def __init__(self, settings: Settings, own: Batch | None = None) -> None:
        self._own = own
        self._machine = machine()
        self.trial: Trial | None = None
        most = max(_MOST_WORKERS, self._machine.cores)
        self._workers = _slider("num_workers", settings.num_workers, most)
        self._ahead = _slider("prefetch_factor", settings.prefetch_factor, _MOST_AHEAD)
        self._batch = _choice("batch_size", _BATCH_SIZES, settings.batch_size, str)
        self._sample = _choice("sample size", _SAMPLE_SIZES, settings.sample_bytes, size)
        self._method = widgets.ToggleButtons(
            options=get_all_start_methods(),
            value=settings.start_method,
            style={"button_width": "7em"},
            layout={"width": "auto"},
        )
        # Add a label, because ToggleButtons would put their own description above the buttons.
        name = widgets.Label(
            "start method", layout={"width": "9.5em", "justify_content": "flex-end"}
        )
        self._button = widgets.Button(description="Run it for real", button_style="primary")
        self._bars = widgets.HTML()
        self._said = widgets.HTML()
        self._controls = (self._workers, self._ahead, self._batch, self._sample, self._method)
        method = widgets.HBox([name, self._method], layout={"align_items": "center"})
        self._page = widgets.VBox(
            [*self._controls[:-1], method, self._bars, self._button, self._said]
        )
        self._footprint = self._measured(settings.start_method)
        for control in self._controls:
            control.observe(self._changed, "value")
        self._button.on_click(lambda _: self._pressed())
        self._show()

    @property
    def prediction(self) -> Prediction:
        settings = Settings(
            self._workers.value,
            self._ahead.value,
            self._batch.value,
            self._sample.value,
            self._footprint.start_method,
        )
        return Prediction(settings, self._footprint, self._machine)

    def run(self) -> Trial:
        """Run the settings for real, as the button does.

        Returns:
            The Trial, with the prediction and the measurements.

        Raises:
            ValueError: The run would use more memory, or more of `/dev/shm`, than is safe now.
            RuntimeError: The run didn't finish.
            KeyboardInterrupt: You pressed Stop. By then, everything is cleaned up.
        """
        with self._busy("Running it in a separate process. This takes a few seconds."):
            self.trial = trial(self.prediction)
        return self.trial

    def __repr__(self) -> str:
        story, tried = str(self.prediction), self._tried()
        below = self.prediction.refusal(room()) or verdict(self.prediction, tried)
        return f"{story}\n{below}".strip()

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        shown: dict[str, Any] = self._page._repr_mimebundle_(**options) or {}
        # Put the same words into every saved notebook, so that you can compare notebooks.
        return {**shown, "text/plain": _SAVED}

    def _changed(self, _: object) -> None:
        method, measured = self._method.value, self._footprint.start_method
        if method == measured:
            self._show()
        elif problem := self._problem(self._measure):
            self._method.value = measured
            self._show(problem)

    def _measure(self) -> None:
        method = self._method.value
        with self._busy(
            f"Measuring how much memory a worker uses under {method}. This takes a few seconds."
        ):
            self._footprint = self._measured(method)

    def _measured(self, start_method: str) -> Footprint:
        synthetic = footprint(start_method)
        return own_footprint(synthetic, self._own) if self._own else synthetic

    def _pressed(self) -> None:
        if problem := self._problem(self.run):
            self._show(problem)

    def _problem(self, action: Callable[[], object]) -> str:
        # Return errors as sentences, because a widget's callback has no cell for a traceback.
        try:
            action()
        except (ValueError, RuntimeError) as error:
            return str(error)
        except KeyboardInterrupt:
            return "Stopped."
        return ""

    @contextmanager
    def _busy(self, what: str) -> Iterator[None]:
        everything = (*self._controls, self._button)
        for control in everything:
            control.disabled = True
        self._say(what)
        try:
            yield
        finally:
            for control in everything:
                control.disabled = False
            self._show()

    def _show(self, problem: str = "") -> None:
        predicted, tried = self.prediction, self._tried()
        self._bars.value = draw_shared(predicted, tried) + draw_memory(predicted, tried)
        refusal = predicted.refusal(room())
        self._button.disabled = bool(refusal)
        self._say(problem or refusal or verdict(predicted, tried))

    def _tried(self) -> Trial | None:
        return self.trial if self.trial and self.trial.prediction == self.prediction else None

    def _say(self, text: str) -> None:
        self._said.value = (
            '<div role="status" style="max-width:640px;line-height:1.5;white-space:pre-wrap">'
            f"{escape(text)}</div>"
        )


def _slider(name: str, value: int, most: int) -> Any:
    return widgets.IntSlider(value, 1, max(most, value), description=name, **_NAMED)


def _choice(name: str, sizes: tuple[int, ...], value: int, label: Callable[[int], str]) -> Any:
    options = [(label(size), size) for size in sorted({*sizes, value})]
    return widgets.SelectionSlider(options=options, value=value, description=name, **_NAMED)
