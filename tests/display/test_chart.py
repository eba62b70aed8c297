"""Check what the live chart sends to the browser, and what it keeps for a view that opens later."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
from notebook_runs import validate
from tiny_notebooks import code, lesson, save

from dltutor.display.chart import Chart
from dltutor.observation.memory.moments import Moment, Reading
from dltutor.observation.memory.process_curves import FIELDS, ProcessCurves
from dltutor.observation.memory.timeline import Timeline
from notebooks import execute

MB = 1 << 20


def process(memory: float, *, fds: int = 10) -> Reading:
    """Make a reading of one process, with `memory` in MB and `fds` open descriptors."""
    return Reading(fds=fds, memory=int(memory * MB))


def moment(
    seconds: float = 0.0,
    *,
    gone: tuple[str, ...] = (),
    settled: tuple[tuple[float, dict[str, int]], ...] = (),
    **roles: Reading,
) -> Moment:
    return Moment(seconds, 0, roles, 3 * MB, None, None, gone, "PSS", settled)


def chart(**options: Any) -> Chart:
    return Chart("Numbers, 2 workers", limits={"memory": 1000 * MB}, **options)


def test_a_row_has_kilobytes_and_descriptors_by_role() -> None:
    shown = chart(counted=True)
    shown.add(moment(1.23456, main=process(100), W0=process(50)))
    assert shown.row == {
        "t": 1.235,
        "p": {"main": [100 << 10, 10], "W0": [50 << 10, 10]},
        "shm": 3 << 10,
        "kind": "PSS",
        "n": 0,
    }
    uncounted = chart()
    uncounted.add(moment(main=process(100)))
    assert "n" not in uncounted.row


def test_a_row_is_small() -> None:
    shown = chart(counted=True)
    roles = {f"W{number}": process(3000.5, fds=900) for number in range(64)}
    shown.add(moment(1234.567, main=process(100), **roles))
    assert len(json.dumps(shown.row, separators=(",", ":"))) <= 1536


def test_a_reading_settles_the_estimates_of_the_rows_before_it() -> None:
    shown = chart()
    for second in range(3):
        shown.add(moment(second, main=process(100), W0=process(60)))
    settled = ((1.0, {"main": 90 * MB, "W0": 50 * MB}),)
    shown.add(moment(3, settled=settled, main=process(80), W0=process(40)))
    assert [row["p"]["W0"][0] >> 10 for row in shown.history] == [60, 50, 60, 40]
    assert shown.row["settled"] == [[1.0, {"main": 90 << 10, "W0": 50 << 10}]]


def test_a_sample_in_which_an_unnamed_process_turns_up_is_not_drawn() -> None:
    shown = chart()
    main, new = process(100), process(2)
    shown.add(moment(1, main=main))
    shown.add(moment(2, main=main, other=new, gone=("W3",)))
    shown.add(moment(3, main=main, W0=new))
    assert [(row["t"], [*row["p"]]) for row in shown.history] == [
        (1, ["main"]),
        (3, ["main", "W0"]),
    ]
    assert shown.row["gone"] == ["W3"]


def test_a_process_that_stays_unnamed_is_one_of_the_others() -> None:
    shown = chart()
    both = {"main": process(100), "other": process(2)}
    for second in range(3):
        shown.add(moment(second, **both))
    assert [row["t"] for row in shown.history] == [1, 2]
    assert shown.row["p"]["other"] == [2 << 10, 10]


def test_a_row_is_sent_without_the_history_which_a_late_view_finds_in_the_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = chart()
    sent: list[set[str]] = []
    monkeypatch.setattr(shown, "_send", lambda message, **_: sent.append({*message["state"]}))
    for second in range(20):
        shown.add(moment(second, main=process(100)))
    assert sent.count({"row"}) == 20
    assert sent.count({"history"}) == 2
    state = shown.get_state()
    assert [row["t"] for row in state["history"]] == list(range(20))
    assert state["row"] == state["history"][-1]


def test_a_long_history_is_thinned_and_forgets_no_event() -> None:
    shown = chart()
    ended = {13: ("W0",), 700: ("W1", "W2"), 2998: ("W3",)}
    for second in range(3000):
        shown.add(moment(second, gone=ended.get(second, ()), main=process(100)))
    seconds = [row["t"] for row in shown.history]
    assert 200 <= len(seconds) <= 400
    assert seconds[-1] == 2999
    assert seconds == sorted(seconds)
    gone = [role for row in shown.history for role in row.get("gone", ())]
    assert gone == ["W0", "W1", "W2", "W3"]


def test_a_window_forgets_what_is_older() -> None:
    shown = chart(window=10)
    for second in range(100):
        shown.add(moment(second, main=process(100)))
    assert [row["t"] for row in shown.history] == list(range(89, 100))


def test_a_saved_notebook_always_shows_the_same_words() -> None:
    one, other = chart(), chart(counted=True, window=9)
    other.add(moment(main=process(100)))
    texts = [each._repr_mimebundle_()[0]["text/plain"] for each in (one, other)]
    assert texts == ["Live chart of memory by process. It moves while the notebook runs."] * 2


def test_the_end_names_who_died_and_folds_only_where_a_figure_follows() -> None:
    once = {name: np.array([math.nan]) for name in FIELDS}
    lives = (
        ProcessCurves("main", 0, once),
        ProcessCurves("W0", 0, once, ended=1.5, died="killed by SIGKILL"),
    )
    moment = np.array([1.0])
    record = Timeline(moment, np.array([4]), moment, moment, moment, lives)
    shown = chart()
    shown.finish("Worker died", record)
    assert shown.end == {
        "how": "Worker died",
        "died": [["W0", 1.5, "killed by SIGKILL"]],
        "folded": True,
    }
    shown.finish("Stopped", None)
    assert shown.end == {"how": "Stopped", "died": [], "folded": False}


@pytest.mark.thorough  # it runs a notebook twice
def test_a_live_notebook_is_the_same_in_every_run(tmp_path: Path) -> None:
    here = str(Path(__file__).parents[1])
    live = lesson(
        code("path", f"import sys\nsys.path.insert(0, {here!r})"),
        code("import", "import dltutor\nfrom small_datasets import Numbers, load"),
        code("observe", "dltutor.observe(load(Numbers()), live=True)"),
        code("watch", "with dltutor.watch('loop'):\n    sum(1 for _ in load(Numbers()))"),
        code("monitor", "monitor = dltutor.monitor()"),
        code("stop", "monitor.stop()"),
    )
    path = save(live, tmp_path)
    executed = execute(path)
    outputs = [output for cell in executed.cells for output in cell.get("outputs", [])]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 3
    nbformat.write(executed, path)
    assert validate(path, solved=True) == []
