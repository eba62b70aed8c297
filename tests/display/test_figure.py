"""Check what the figures of a run's memory show, and that a notebook displays them."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from IPython.core.formatters import DisplayFormatter
from IPython.core.pylabtools import select_figure_formats
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from dltutor.display.figure import compare, draw, draw_growth
from dltutor.display.style import WORKERS, color_of
from dltutor.observation.memory.process_curves import FIELDS, Bounds, ProcessCurves
from dltutor.observation.memory.timeline import Timeline

MB = 1 << 20


def run(
    workers: int = 2,
    pss: float = 40 * MB,
    limit: int | None = None,
    died: str = "",
    only_uss: bool = False,
    length: int = 20,
) -> Timeline:
    lives = []
    for role in ("main", *(f"W{number}" for number in range(workers))):
        rows = length - 5 if died and role == "W0" else length
        values = {field: np.full(rows, math.nan) for field in FIELDS}
        grown = np.linspace(pss / 2, pss, rows)
        values["uss"] = values["rss"] = grown
        values["fds"] = np.full(rows, 12.0)
        if not only_uss:
            values["pss"] = grown
        killed = died if role == "W0" else ""
        lives.append(ProcessCurves(role, 0, values, rows / 4 if killed else None, killed))
    seconds = np.arange(length) / 4
    shm, unknown = np.full(length, 3.0 * MB), np.full(length, math.nan)
    batches = np.arange(length, dtype=np.int64)
    limits = Bounds(1 << 40, limit, 64 * MB)
    return Timeline(seconds, batches, shm, unknown, unknown, tuple(lives), limits)


EMPTY = Timeline(
    *(np.empty(0) for _ in range(5)),  # type: ignore[arg-type]
    notes=("the memory sampler couldn't be started: [Errno 24] Too many open files",),
)


def texts(figure: Figure) -> str:
    found = [text.get_text() for axes in figure.axes for text in axes.texts]
    found += [axes.get_title(loc="left") for axes in figure.axes]
    found += [axes.get_ylabel() for axes in figure.axes]
    return "\n".join(found)


def layers(figure: Figure, panel: int = 0) -> int:
    return sum(isinstance(c, PolyCollection) for c in figure.axes[panel].collections)


def test_each_process_is_an_area_with_its_name_and_size() -> None:
    figure = draw(run(), title="Two workers")
    assert layers(figure) == 3
    for label in ("main  40 MB", "W0  40 MB", "W1  40 MB", "peak  120 MB", "Two workers"):
        assert label in texts(figure)
    assert "max 3 MB" in texts(figure) and "max 12" in texts(figure)
    assert "PSS in MB" in texts(figure)


def test_many_workers_are_one_area() -> None:
    figure = draw(run(workers=64))
    assert layers(figure) == 2
    assert "64 workers  2.5 GB" in texts(figure)


def test_a_worker_that_died_is_marked_and_one_that_ended_is_not() -> None:
    assert "W0 killed by SIGKILL" in texts(draw(run(died="killed by SIGKILL")))
    assert "W0 killed" not in texts(draw(run()))


def test_the_limit_is_drawn_only_when_it_is_near() -> None:
    assert "limit 150 MB" in texts(draw(run(limit=150 * MB)))
    assert "limit" not in texts(draw(run(limit=2000 * MB)))


def test_without_pss_the_areas_are_private_memory() -> None:
    figure = draw(run(only_uss=True))
    assert layers(figure) == 3
    assert "USS in MB" in texts(figure)


def test_a_run_without_samples_says_why() -> None:
    assert "nothing was recorded" in texts(draw(EMPTY))
    assert "Too many" in texts(draw(EMPTY))
    assert "Too many" in texts(compare(EMPTY, run()))


def test_two_runs_have_one_scale_and_their_peaks_in_words() -> None:
    figure = compare(run(pss=400 * MB), run(pss=40 * MB, length=12), labels=("list", "array"))
    first, second = figure.axes
    assert first.get_ylim() == second.get_ylim()
    assert first.get_xlim() == second.get_xlim()
    assert first.get_ylim()[1] > 1200
    assert "list\npeak 1.2 GB\nworkers hold 800 MB of their own" in texts(figure)
    assert "array\npeak 120 MB\nworkers hold 80 MB of their own" in texts(figure)


def test_growth_is_drawn_by_process_from_the_first_batch_to_the_last() -> None:
    figure = draw_growth({"grows": run(pss=40 * MB), "more": run(pss=80 * MB, length=12)})
    memory, other, shm, _, files, _ = figure.axes
    assert [axes.get_title(loc="left") for axes in (memory, other)] == ["grows", "more"]
    assert memory.get_ylim() == other.get_ylim()
    assert [line.get_label() for line in memory.lines] == ["main", "W0", "W1"]
    grown = np.asarray(memory.lines[1].get_ydata(), float)
    # Between two memory samples, one batch arrives. Growth counts from the second batch, when each
    # worker has delivered one, to the last but one.
    assert grown == pytest.approx(np.linspace(20, 40, 20)[2:19] - np.linspace(20, 40, 20)[2])
    assert memory.lines[1].get_xdata()[0] == 0
    assert len(shm.lines) == len(files.lines) == 3
    assert not np.any(files.lines[0].get_ydata())


def test_every_second_worker_of_each_loader_is_dashed() -> None:
    one = run()
    lives = [replace(each, role=f"{each.role} of images") for each in one.processes[1:]]
    figure = draw_growth(
        {"one": one, "of images": replace(one, processes=(one.processes[0], *lives))}
    )
    for axes in figure.axes[:2]:
        assert [line.get_linestyle() for line in axes.lines] == ["-", "-", "--"]


def test_growth_without_batches_or_readings_is_drawn() -> None:
    uncounted = replace(run(), batches=np.zeros(20, np.int64))
    assert len(draw_growth({"uncounted": uncounted}).axes[0].lines[0].get_xdata()) == 20
    assert draw_growth({"nothing": EMPTY})._repr_png_()


@pytest.mark.parametrize("made", [run, lambda: run(workers=8), lambda: run(workers=64)])
def test_a_picture_is_small_and_its_text_is_the_same_for_every_run(made: Any) -> None:
    figure = draw(made())
    png = figure._repr_png_()
    assert png.startswith(b"\x89PNG")
    assert len(png) < 60_000
    assert repr(figure) == "<Figure: memory by process>"


def test_the_colors_of_neighbours_differ() -> None:
    roles = ["main", *(f"W{number}" for number in range(20)), "other"]
    assert all(color_of(a) != color_of(b) for a, b in pairwise(roles))
    assert color_of("W7") == color_of("W7 of images") == WORKERS[2]
    assert color_of("Wide") == color_of("other")


@pytest.mark.parametrize("pyplot", [False, True])
def test_a_notebook_shows_the_picture(pyplot: bool) -> None:
    formatter = DisplayFormatter()
    if pyplot:  # with pyplot, IPython draws every Figure in a notebook
        shell = SimpleNamespace(display_formatter=formatter)
        select_figure_formats(shell, ["png"])
    data, _ = formatter.format(draw(run()))
    assert data["text/plain"] == "<Figure: memory by process>"
    assert len(data["image/png"]) > 5_000
