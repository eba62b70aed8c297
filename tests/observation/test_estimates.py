"""Check that the chart, the figure, and the table share one estimate of memory between readings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dltutor.display.areas import areas
from dltutor.display.chart import Chart
from dltutor.observation.confinement.results import timeline_of
from dltutor.observation.memory.collector import Collector
from dltutor.observation.memory.moments import Moment
from dltutor.observation.memory.process_curves import Bounds
from dltutor.observation.memory.timeline import Timeline

MB = 1 << 20
PAGE = 4096


# The tests use one made-up run, in which two workers copy a list, and W1 ends early.


def recorded() -> tuple[list[Moment], Timeline]:
    """Return the moments and the timeline of a run with 24 samples, four a second.

    Every third sample and the last one have USS and PSS.
    """
    collector = Collector(10, memory_period=0.5)
    collector.names.update({11: "W0", 12: "W1"})
    collector.limits = Bounds(1 << 33, None, 1 << 26)
    moments = [collector.add(line(row), batches=row) for row in range(24)]
    return moments, collector.timeline()


def line(row: int) -> dict[str, Any]:
    """Return what the memory sampler would write for the sample with this number."""
    living = {10, *([11] if row >= 2 else []), *([12] if 2 <= row < 18 else [])}
    shares = 240 / len(living)

    def copied(pid: int) -> float:
        # The copying is uneven, so an estimate that follows the clock instead of faults is wrong.
        return 0 if pid == 10 else (row**2 / (4 if pid == 11 else 9))

    return {
        "seconds": row / 4,
        "processes": {
            pid: {"rss": 400 * MB, "faults": int(copied(pid) * MB / PAGE), "threads": 1, "fds": 9}
            for pid in living
        },
        "memory": {
            pid: {
                "uss": int((30 + copied(pid)) * MB),
                "pss": int((30 + copied(pid) + shares) * MB),
                "pss_shm": 0,
            }
            for pid in living
        }
        if row % 3 == 0 or row == 23
        else None,
        "gone": [12] if row == 18 else [],
        "shm": 0,
        "available": None,
        "cgroup": None,
    }


def test_chart_figure_and_table_show_the_same_numbers_of_one_run() -> None:
    moments, timeline = recorded()
    chart = Chart("recorded", limits={}, counted=True)
    for moment in moments:
        chart.add(moment)
    drawn = areas(timeline)
    assert len(chart.history) == len(drawn.seconds) == 24
    for role in ("main", "W0", "W1"):
        figure = dict(zip(drawn.seconds.tolist(), drawn.layers[role].tolist(), strict=True))
        charted = {row["t"]: row["p"].get(role, [0])[0] / 1024 for row in chart.history}
        assert charted == pytest.approx(figure, abs=0.001)
    assert timeline.peak("pss") / MB == pytest.approx(drawn.peak)
    totals = [sum(size for size, _ in row["p"].values()) / 1024 for row in chart.history]
    assert max(totals) == pytest.approx(drawn.peak, abs=0.01)


def test_what_a_main_process_that_died_left_is_the_same_timeline() -> None:
    moments, timeline = recorded()
    again = timeline_of(moments, "cut off")
    assert (again.roles, again.notes) == (timeline.roles, ("cut off",))
    for one, other in zip(again.processes, timeline.processes, strict=True):
        assert (one.role, one.first, one.ended) == (other.role, other.first, other.ended)
        np.testing.assert_array_equal(again.memory_curve(one.role), timeline.memory_curve(one.role))


def test_growth_is_that_of_the_curve_that_the_chart_shows() -> None:
    moments, timeline = recorded()
    private = [m.processes["W0"].private for m in moments if "W0" in m.processes]
    settled = timeline.private_curve("W0")[2:]
    # Values from a reading stay as they were. In between, the curve follows the copied pages.
    np.testing.assert_allclose(settled[1::3], [float(each or 0) for each in private[1::3]], atol=2)
    copied = [30 * MB + row**2 / 4 * MB for row in range(2, 24)]
    np.testing.assert_allclose(settled, copied, rtol=0.001)
    assert timeline.growth("W0") / MB == pytest.approx(6.5, abs=0.5)


def test_the_estimate_is_true_between_readings_and_where_a_worker_comes_or_goes() -> None:
    _, timeline = recorded()
    living = [1 + (row >= 2) + (2 <= row < 18) for row in range(24)]
    for role, copies in (("main", 0.0), ("W0", 1 / 4)):
        alive = [row for row in range(24) if role == "main" or row >= 2]
        true = [30 + copies * row**2 + 240 / living[row] for row in alive]
        np.testing.assert_allclose(timeline.memory_curve(role)[alive] / MB, true, rtol=0.001)
