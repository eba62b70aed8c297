"""The live chart as Python sees it: the rows that it sends, and what it keeps for late views."""

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

from dltutor.display.chart import Chart, Layers
from dltutor.observation.memory.lives import Life
from dltutor.observation.memory.moments import Moment, Reading
from dltutor.observation.memory.timeline import FIELDS, Timeline
from notebooks import execute

pytestmark = pytest.mark.timeout(30, method="thread")

MB = 1 << 20
PAGE = 4096


def process(
    rss: float = 500, *, uss: float | None = None, pss: float | None = None, **other: Any
) -> Reading:
    """Sizes in MB. `private` is USS unless told otherwise."""
    sizes = {"rss": rss, "uss": uss, "pss": pss, "private": other.pop("private", uss)}
    in_bytes = {name: None if size is None else int(size * MB) for name, size in sizes.items()}
    return Reading(**({"faults": 0, "threads": 1, "fds": 10} | in_bytes | other))


def sample(seconds: float = 0.0, *, gone: tuple[str, ...] = (), **roles: Reading) -> Moment:
    return Moment(seconds, 0, roles, shm=3 * MB, available=None, cgroup=None, gone=gone)


def total(layers: dict[str, int]) -> float:
    return sum(layers.values()) / MB


@pytest.fixture
def family() -> Layers:
    """Main and two workers: 60 MB each of their own, and 120 MB that the three share."""
    layers = Layers()
    read = process(180, uss=60, pss=100)
    assert total(layers.add(sample(main=read, W0=read, W1=read))) == 300
    return layers


def test_where_pss_is_read_the_layers_are_what_was_read() -> None:
    layers = Layers().add(sample(main=process(uss=60, pss=100), W0=process(uss=10, pss=50)))
    assert layers == {"main": 100 * MB, "W0": 50 * MB}


def test_pages_copied_since_the_reading_add_themselves_to_the_layer(family: Layers) -> None:
    same = process(180, private=60)
    layers = family.add(sample(main=same, W0=process(180, private=85), W1=same))
    assert layers == {"main": 100 * MB, "W0": 125 * MB, "W1": 100 * MB}


def test_a_fork_adds_to_the_sum_only_what_the_worker_has_copied() -> None:
    layers = Layers()
    layers.add(sample(main=process(200, uss=190, pss=200)))
    worker = process(200, faults=5 * MB // PAGE)
    forked = layers.add(sample(main=process(200, private=190), W0=worker))
    assert forked == {"main": 200 * MB, "W0": 5 * MB}


def test_a_worker_that_was_not_read_yet_is_never_more_than_its_rss() -> None:
    layers = Layers().add(sample(main=process(uss=1, pss=1), W0=process(30, faults=10**6)))
    assert layers["W0"] == 30 * MB


def test_the_others_inherit_the_shared_pages_of_a_worker_that_ends(family: Layers) -> None:
    same = process(180, private=60)
    layers = family.add(sample(main=same, W0=same, gone=("W1",)))
    assert layers["main"] == layers["W0"] == 120 * MB
    assert total(family.add(sample(main=same, gone=("W0",)))) == 180


def test_the_sum_falls_by_the_private_memory_of_the_worker_that_ends(family: Layers) -> None:
    same = process(180, private=60)
    before = total(family.add(sample(main=same, W0=same, W1=process(180, private=90))))
    after = total(family.add(sample(main=same, W0=same, gone=("W1",))))
    assert before - after == 90


def test_without_pss_the_layers_are_uss_and_say_so() -> None:
    layers = Layers()
    assert layers.add(sample(main=process(uss=60), W0=process(uss=10))) == {
        "main": 60 * MB,
        "W0": 10 * MB,
    }
    assert layers.kind == "USS"


def test_a_worker_that_denies_its_figures_is_drawn_by_its_faults() -> None:
    layers = Layers()
    denied = process(100, faults=20 * MB // PAGE)
    assert layers.add(sample(main=process(uss=60, pss=70), W0=denied))["W0"] == 20 * MB
    assert layers.kind == "PSS"


def chart(**options: Any) -> Chart:
    return Chart("Numbers, 2 workers", limits={"memory": 1000 * MB}, **options)


def test_a_row_has_kilobytes_and_descriptors_by_role() -> None:
    shown = chart(counted=True)
    shown.add(sample(1.23456, main=process(uss=60, pss=100), W0=process(uss=10, pss=50)))
    assert shown.row == {
        "t": 1.235,
        "p": {"main": [100 << 10, 10], "W0": [50 << 10, 10]},
        "shm": 3 << 10,
        "kind": "PSS",
        "n": 0,
        "read": True,
    }


def test_batches_that_nobody_counts_are_left_out() -> None:
    shown = chart()
    shown.add(sample(main=process(uss=60, pss=100)))
    assert "n" not in shown.row


@pytest.mark.parametrize(("workers", "most"), [(16, 512), (40, 1024), (64, 1536)])
def test_a_row_is_small(workers: int, most: int) -> None:
    shown = chart(counted=True)
    roles = {f"W{number}": process(uss=2000.5, pss=3000.5, fds=900) for number in range(workers)}
    shown.add(sample(1234.567, main=process(uss=60, pss=100), **roles))
    assert len(json.dumps(shown.row, separators=(",", ":"))) <= most


def test_a_sample_in_which_an_unnamed_process_turns_up_is_not_drawn() -> None:
    shown = chart()
    main, new = process(uss=60, pss=100), process(uss=1, pss=2)
    shown.add(sample(1, main=main))
    shown.add(sample(2, main=main, other=new, gone=("W3",)))
    shown.add(sample(3, main=main, W0=new))
    assert [(row["t"], [*row["p"]]) for row in shown.history] == [
        (1, ["main"]),
        (3, ["main", "W0"]),
    ]
    assert shown.row["gone"] == ["W3"]


def test_a_process_that_stays_unnamed_is_one_of_the_others() -> None:
    shown = chart()
    both = {"main": process(uss=60, pss=100), "other": process(uss=1, pss=2)}
    for second in range(3):
        shown.add(sample(second, **both))
    assert [row["t"] for row in shown.history] == [1, 2]
    assert shown.row["p"]["other"] == [2 << 10, 10]


def test_a_late_view_finds_the_history_in_the_state() -> None:
    shown = chart()
    for second in range(3):
        shown.add(sample(second, main=process(uss=60, pss=100)))
    state = shown.get_state()
    assert [row["t"] for row in state["history"]] == [0, 1, 2]
    assert state["row"] == state["history"][-1]


def test_a_row_is_sent_without_the_history(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = chart()
    sent: list[set[str]] = []
    monkeypatch.setattr(shown, "_send", lambda message, **_: sent.append({*message["state"]}))
    for second in range(20):
        shown.add(sample(second, main=process(uss=60, pss=100)))
    assert sent.count({"row"}) == 20
    assert sent.count({"history"}) == 2


def test_a_long_history_is_thinned_and_forgets_no_event() -> None:
    shown = chart()
    ended = {13: ("W0",), 700: ("W1", "W2"), 2998: ("W3",)}
    for second in range(3000):
        shown.add(sample(second, gone=ended.get(second, ()), main=process(uss=60, pss=100)))
    seconds = [row["t"] for row in shown.history]
    assert 200 <= len(seconds) <= 400
    assert seconds[-1] == 2999
    assert seconds == sorted(seconds)
    gone = [role for row in shown.history for role in row.get("gone", ())]
    assert gone == ["W0", "W1", "W2", "W3"]


def test_a_window_forgets_what_is_older() -> None:
    shown = chart(window=10)
    for second in range(100):
        shown.add(sample(second, main=process(uss=60, pss=100)))
    assert [row["t"] for row in shown.history] == list(range(89, 100))


def test_a_saved_notebook_always_shows_the_same_words() -> None:
    one, other = chart(), chart(counted=True, window=9)
    other.add(sample(main=process(uss=60, pss=100)))
    texts = [each._repr_mimebundle_()[0]["text/plain"] for each in (one, other)]
    assert texts == ["Live chart of memory by process. It moves while the notebook runs."] * 2


def test_the_end_names_who_died_and_folds_where_a_figure_follows() -> None:
    once = {name: np.array([math.nan]) for name in FIELDS}
    lives = (Life("main", 0, once), Life("W0", 0, once, ended=1.5, died="killed by SIGKILL"))
    moment = np.array([1.0])
    record = Timeline(moment, np.array([4]), moment, moment, moment, lives)
    shown = chart()
    shown.finish("Worker died", record)
    assert shown.end == {
        "how": "Worker died",
        "died": [["W0", 1.5, "killed by SIGKILL"]],
        "folded": True,
    }


def test_without_a_figure_the_chart_stays_open() -> None:
    shown = chart()
    shown.finish("Stopped", None)
    assert shown.end == {"how": "Stopped", "died": [], "folded": False}


@pytest.mark.timeout(90, method="thread")
def test_a_live_notebook_is_the_same_in_every_run(tmp_path: Path) -> None:
    here = str(Path(__file__).parent)
    live = lesson(
        code("path", f"import sys\nsys.path.insert(0, {here!r})"),
        code("import", "import dltutor\nfrom datasets import Numbers, load"),
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
