"""Check what a Timeline computes, with timelines made by hand whose right answers are known."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import numpy as np
import pytest

from dltutor.observation.memory.process_curves import FIELDS, Bounds, ProcessCurves
from dltutor.observation.memory.timeline import Timeline

PAGE = 4096
NAN = math.nan


def curves(
    role: str, first: int = 0, ended: float | None = None, **values: list[float]
) -> ProcessCurves:
    length = len(next(iter(values.values())))
    filled = {field: np.array(values.get(field, [NAN] * length), float) for field in FIELDS}
    return ProcessCurves(role, first, filled, ended)


def timeline(*found: ProcessCurves, batches: list[int] | None = None, length: int = 5) -> Timeline:
    seconds = np.arange(length) / 4
    counted = np.array(batches if batches is not None else [0] * length, np.int64)
    known = np.full(length, 10.0)
    return Timeline(seconds, counted, known, known, known, found, Bounds(900, 500, 64))


def test_series_are_nan_where_nothing_was_sampled() -> None:
    made = timeline(curves("W0", first=2, rss=[7, 8]))
    np.testing.assert_array_equal(made.series("W0", "rss"), [NAN, NAN, 7, 8, NAN])
    assert np.isnan(made.series("W0", "uss")).all()
    assert np.isnan(made.series("W9", "rss")).all()


def test_a_role_used_again_is_one_series_and_processes_without_a_name_are_added_up() -> None:
    again = timeline(curves("W0", rss=[1, 2]), curves("W0", first=3, rss=[5, 6]))
    np.testing.assert_array_equal(again.series("W0", "rss"), [1, 2, NAN, 5, 6])
    both = timeline(curves("other", rss=[1, 2]), curves("other", first=1, rss=[10, 10]))
    np.testing.assert_array_equal(both.series("other", "rss"), [1, 12, 10, NAN, NAN])


@pytest.mark.parametrize(
    "roles",
    [
        ("main", "W2", "W10", "reader", "other"),
        ("main", "W0 of a", "W1 of a", "W0 of b", "W10 of b"),
    ],
)
def test_roles_come_in_the_order_main_workers_loader_by_loader_rest(roles: tuple[str, ...]) -> None:
    made = timeline(*(curves(role, rss=[1]) for role in reversed(roles)))
    assert made.roles == roles
    assert repr(made) == f"<Timeline: {', '.join(roles)}>"


def test_pss_is_joined_by_lines_while_the_same_processes_live() -> None:
    made = timeline(
        curves("main", pss=[10, NAN, 30, NAN, NAN]), curves("W0", pss=[5, NAN, NAN, NAN, 9])
    )
    np.testing.assert_allclose(made.pss_curve("main"), [10, 20, 30, 30, 30])
    np.testing.assert_allclose(made.total_pss(), [15, 26, 37, 38, 39])
    assert made.peak("pss") == 39


def test_processes_that_came_too_late_to_be_read_together_share_what_the_others_had() -> None:
    made = timeline(
        curves("main", pss=[100, NAN, 40, 40, 40]),
        curves("W0", first=1, pss=[NAN, 30, 30, 30]),
        curves("W1", first=2, pss=[30, 30, 30]),
    )
    np.testing.assert_array_equal(made.total_pss(), [100, 100, 100, 100, 100])


def test_peaks_are_of_one_role_or_of_the_sum() -> None:
    made = timeline(curves("main", uss=[5, 1, 1, 1, 1]), curves("W0", uss=[1, 1, 8, 1, 1]))
    assert made.peak("uss", "main") == 5
    assert made.peak("uss") == 9
    assert made.peak("shm") == 10
    assert math.isnan(made.peak("pss"))


def test_private_memory_does_not_grow_where_the_same_memory_is_taken_again_and_again() -> None:
    faults = [0, 1000, 2000, 3000, 4000]
    uss = [500 * PAGE, NAN, 500 * PAGE, NAN, NAN]
    made = timeline(curves("W0", uss=uss, faults=faults, rss=[9000 * PAGE] * 5))
    np.testing.assert_allclose(made.private_curve("W0"), [500 * PAGE] * 5)


def test_private_memory_goes_on_with_the_faults_after_the_last_reading_but_not_above_rss() -> None:
    faults = [0, 100, 200, 300, 400]
    uss = [NAN, 1100 * PAGE, NAN, NAN, NAN]
    made = timeline(curves("W0", uss=uss, faults=faults, rss=[1350 * PAGE] * 5))
    expected = [page * PAGE for page in (1000, 1100, 1200, 1300, 1350)]
    np.testing.assert_allclose(made.private_curve("W0"), expected)


def test_what_main_shared_with_a_worker_is_its_own_from_the_workers_end_on_and_not_before() -> None:
    # Main copies one page in each step, and shares 200 pages with W0 while W0 is alive.
    main = curves(
        "main",
        uss=[80 * PAGE, NAN, NAN, NAN, 284 * PAGE],
        pss=[180 * PAGE, NAN, NAN, NAN, 284 * PAGE],
        faults=[0, 1, 2, 3, 4],
        rss=[300 * PAGE] * 5,
    )
    worker = curves("W0", uss=[0, NAN, NAN, NAN], pss=[100 * PAGE, NAN, NAN, NAN], ended=4.0)
    made = timeline(main, worker)
    own = [80, 81, 82, 83, 284]
    np.testing.assert_allclose(made.private_curve("main"), [page * PAGE for page in own])
    with_its_share = [180, 181, 182, 183, 284]
    np.testing.assert_allclose(made.pss_curve("main"), [page * PAGE for page in with_its_share])


def test_private_memory_is_joined_by_lines_where_faults_are_not_counted() -> None:
    made = timeline(curves("W0", uss=[10, NAN, 20, NAN, 40], rss=[99] * 5))
    np.testing.assert_allclose(made.private_curve("W0"), [10, 15, 20, 30, 40])
    assert np.isnan(timeline(curves("W0", rss=[99] * 5)).private_curve("W0")).all()


def test_a_worker_that_was_not_read_yet_has_what_it_has_copied_but_not_more_than_its_rss() -> None:
    read = {"uss": [190 * PAGE, NAN], "pss": [200 * PAGE, NAN], "faults": [0, 0]}
    made = timeline(
        curves("main", rss=[500 * PAGE] * 2, **read),
        curves("W0", first=1, faults=[5], rss=[500 * PAGE]),
        curves("W1", first=1, faults=[900], rss=[30 * PAGE]),
        length=2,
    )
    assert [made.memory_curve(role)[1] / PAGE for role in made.roles] == [200, 5, 30]


def test_without_pss_memory_is_uss() -> None:
    only_uss = curves("main", uss=[60 * PAGE, NAN], faults=[0, 7], rss=[90 * PAGE] * 2)
    made = timeline(only_uss, length=2)
    assert (made.memory_curve("main") / PAGE).tolist() == [60, 67] and made.kind == "USS"


def test_growth_is_the_slope_of_the_steady_part_by_batch_and_by_second() -> None:
    # The steps before the first batch are start-up. After that, W0 grows by 3 bytes a batch, with
    # 10 batches between two samples.
    made = timeline(
        curves("W0", uss=[100, 150, 200, 1000, 1030], rss=[9999] * 5), batches=[0, 0, 0, 10, 20]
    )
    assert made.growth("W0") == pytest.approx(3)
    assert made.growth("W0", per="second") == pytest.approx(120)


def test_growth_is_not_moved_by_one_outlier() -> None:
    rss = [float(row) for row in range(40)]
    rss[30] = 1e6
    made = timeline(curves("W0", rss=rss), batches=list(range(40)), length=40)
    assert made.growth("W0", "rss") == pytest.approx(1)


def test_growth_never_compares_two_processes() -> None:
    processes = (curves("W0", rss=[1, 2, 3]), curves("W0", first=3, rss=[1001, 1002, 1003]))
    made = timeline(*processes, batches=[0, 1, 2, 3, 4, 5], length=6)
    assert made.growth("W0", "rss") == pytest.approx(1)


def test_growth_without_batches_leaves_out_the_first_quarter() -> None:
    rss = [0, 500, *(1000 + 10 * row for row in range(2, 8))]
    made = timeline(curves("main", rss=[float(value) for value in rss]), length=8)
    assert made.growth("main", "rss", per="second") == pytest.approx(40)
    assert math.isnan(made.growth("main", "rss", per="batch"))


def test_growth_of_a_flat_curve_is_zero_and_of_too_short_a_one_is_not_known() -> None:
    flat = timeline(curves("W0", rss=[5.0] * 5), batches=[0, 1, 2, 3, 4])
    assert flat.growth("W0", "rss") == 0
    short = timeline(curves("W0", first=4, rss=[5.0]), batches=[0, 1, 2, 3, 4])
    assert math.isnan(short.growth("W0", "rss"))


def test_the_memory_limit_is_the_lower_one() -> None:
    assert Bounds(900, 500).memory == 500
    assert Bounds(900, None).memory == 900
    assert Bounds().memory is None


def test_a_dict_of_it_can_be_written_as_json() -> None:
    made = timeline(curves("W0", first=1, rss=[7, NAN], ended=0.75))
    read = json.loads(json.dumps(made.to_dict(), allow_nan=False))
    assert read["seconds"] == [0, 0.25, 0.5, 0.75, 1]
    assert read["limits"] == {"machine": 900, "cgroup": 500, "shm": 64}
    (process,) = read["processes"]
    assert (process["role"], process["first"], process["ended"]) == ("W0", 1, 0.75)
    assert process["rss"] == [7, None]


def test_a_csv_has_a_line_for_each_process_in_each_sample(tmp_path: Path) -> None:
    made = timeline(curves("main", rss=[1, 2, 3, 4, 5]), curves("W0", first=3, rss=[7, NAN]))
    made.to_csv(tmp_path / "timeline.csv")
    with (tmp_path / "timeline.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 7
    assert [row["seconds"] for row in rows] == ["0", "0.25", "0.5", "0.75", "0.75", "1", "1"]
    assert [row["rss"] for row in rows if row["role"] == "W0"] == ["7", ""]


def test_an_empty_timeline_answers_everything(tmp_path: Path) -> None:
    empty = timeline(length=0)
    assert empty.roles == empty.workers == ()
    for field in FIELDS:
        assert empty.series("main", field).shape == (0,)
        assert math.isnan(empty.peak(field))
        assert math.isnan(empty.growth("main", field))
    assert math.isnan(empty.peak("shm"))
    assert empty.total_pss().shape == empty.private_curve("W0").shape == (0,)
    assert empty.to_dict()["processes"] == []
    empty.to_csv(tmp_path / "empty.csv")
    assert repr(empty) == "<Timeline: no samples>"


def test_an_unknown_field_is_answered_with_those_that_there_are() -> None:
    made = timeline(curves("main", rss=[1.0]))
    with pytest.raises(ValueError, match=r"^field .* got 'vms'"):
        made.series("main", "vms")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^field .* got 'vms'"):
        made.peak("vms")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^per .* got 'hour'"):
        made.growth("main", per="hour")  # type: ignore[arg-type]
