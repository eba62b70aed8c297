"""Check what `observe`, `watch`, and `monitor` record, and that they draw only in a notebook."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import small_datasets
from fresh_interpreter import run_fresh
from small_datasets import Numbers, load

import dltutor
from dltutor.display import screen
from dltutor.display.chart import Chart
from dltutor.display.figure import MemoryFigure
from dltutor.observation.memory.timeline import Timeline

pytestmark = pytest.mark.usefixtures("nothing_left_behind")


@pytest.fixture
def displayed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Pretend to be a notebook, and return a list that collects what's displayed, in order."""
    shown: list[Any] = []
    monkeypatch.setattr(screen, "on_a_page", lambda: True)
    monkeypatch.setattr(screen, "_display", shown.append)
    return shown


def kinds(displayed: list[Any]) -> list[type]:
    return [kind for each in displayed for kind in (Chart, MemoryFigure) if isinstance(each, kind)]


def roles(record: Chart | Timeline) -> list[str]:
    """Return the sorted roles in a record, such as "main" and "W0", but leave out "other"."""
    if isinstance(record, Timeline):
        found = {process.role for process in record.processes}
    else:
        found = {role for row in record.history for role in row["p"]}
    return sorted(found - {"other"})


def a_while() -> None:
    time.sleep(0.8)


def killed_after_a_while() -> None:
    a_while()
    small_datasets.killed()


def slow(trouble: Callable[[], object] = a_while, **options: Any) -> Any:
    """Make a loader that calls `trouble` for one sample. By default, that sample takes 0.8 s."""
    return load(Numbers(trouble), **options)


def test_observe_draws_a_chart_while_it_runs_and_leaves_a_figure(displayed: list[Any]) -> None:
    seen = dltutor.observe(slow(), live=True)
    assert seen.end == "finished"
    assert kinds(displayed) == [Chart, MemoryFigure]
    chart = displayed[0]
    assert chart.title == "Numbers, 2 workers"
    assert roles(chart) == ["W0", "W1", "main"]
    assert chart.history[-1]["n"] == seen.batches == 8
    assert chart.end == {"how": "Finished", "died": [], "folded": True}
    assert chart.limits["memory"] > 0


def test_the_chart_names_who_died_and_without_it_the_story_is_the_same(
    displayed: list[Any],
) -> None:
    seen = dltutor.observe(load(Numbers(killed_after_a_while)), live=True)
    assert seen.end == "worker died"
    chart, _ = displayed
    [(role, _, how)] = chart.end["died"]
    assert role == "W0"
    assert how.startswith("killed by SIGKILL")
    assert chart.end["how"] == seen.story().title
    assert str(dltutor.observe(load(Numbers(killed_after_a_while)))) == str(seen)
    assert kinds(displayed) == [Chart, MemoryFigure], "nothing more is drawn"


def test_wrong_arguments_are_told_before_anything_is_drawn(displayed: list[Any]) -> None:
    with pytest.raises(ValueError, match=r"^deadline .* got -3"):
        dltutor.observe(load(Numbers()), deadline=-3, live=True)
    with pytest.raises(TypeError, match="got Numbers"):
        dltutor.observe(Numbers(), live=True)  # type: ignore[arg-type]
    assert displayed == []


def test_after_stop_the_chart_says_so_and_no_figure_follows(displayed: list[Any]) -> None:
    with pytest.raises(KeyboardInterrupt):
        dltutor.observe(load(Numbers(small_datasets.interrupt_main_and_sleep)), live=True)
    assert kinds(displayed) == [Chart]
    assert displayed[0].end == {"how": "Stopped", "died": [], "folded": False}


def test_in_a_script_and_in_a_terminal_nothing_is_drawn_and_nothing_loaded_to_draw() -> None:
    done = run_fresh(
        """
        import sys
        import dltutor
        from small_datasets import Numbers, load
        print(dltutor.observe(load(Numbers()), live=True).end)
        with dltutor.watch("loop") as watched:
            pass
        print(watched.timeline.roles, dltutor.monitor().stop().roles)
        print({"anywidget", "matplotlib", "IPython"} & sys.modules.keys())

        import dltutor.display.figure
        assert "matplotlib.pyplot" not in sys.modules
        from IPython.terminal.interactiveshell import TerminalInteractiveShell
        from dltutor.display import screen
        TerminalInteractiveShell.instance()
        assert not screen.on_a_page()
        """
    )
    assert done.stdout == "finished\n('main',) ('main',)\nset()\n"


def test_watch_records_a_training_loop_with_its_workers_of_each_epoch(
    displayed: list[Any],
) -> None:
    with dltutor.watch("my loop") as watched:
        for _ in range(2):
            for _ in slow():
                watched.batches += 1
    assert roles(watched.timeline) == ["W0", "W1", "main"]
    workers = [each.role for each in watched.timeline.processes if each.role.startswith("W")]
    assert sorted(workers) == ["W0", "W0", "W1", "W1"]
    assert watched.timeline.batches[-1] == 16
    assert kinds(displayed) == [Chart, MemoryFigure]
    assert displayed[0].title == "my loop"
    assert displayed[0].end["how"] == "Ended"


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_watch_lets_exceptions_and_stop_through_and_still_has_the_record(
    error: type[BaseException], displayed: list[Any]
) -> None:
    with pytest.raises(error), dltutor.watch() as watched:
        if error is KeyboardInterrupt:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(10)
        raise error
    assert roles(watched.timeline) == ["main"]
    assert displayed[0].end["how"] == f"Ended by {error.__name__}"
    assert kinds(displayed) == [Chart, MemoryFigure]


def test_watches_may_be_nested() -> None:
    with dltutor.watch("outer") as outer:
        with dltutor.watch("inner") as inner:
            for _ in slow():
                pass
        a_while()
    assert roles(inner.timeline) == roles(outer.timeline) == ["W0", "W1", "main"]
    assert outer.timeline.seconds[-1] > inner.timeline.seconds[-1]


def test_watch_works_in_a_thread(displayed: list[Any]) -> None:
    def work() -> list[str]:
        with dltutor.watch() as watched:
            pass
        return roles(watched.timeline)

    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(work).result(20) == ["main"]


def test_the_timeline_of_a_watch_is_there_when_the_block_has_ended() -> None:
    with (
        dltutor.watch() as watched,
        pytest.raises(RuntimeError, match=r"the .* block ends"),
    ):
        _ = watched.timeline


def test_a_monitor_samples_until_it_is_stopped_and_a_second_is_the_first_one_moved(
    displayed: list[Any],
) -> None:
    monitor = dltutor.monitor()
    try:
        assert dltutor.monitor() is monitor
        assert displayed[0] is displayed[1]
        assert displayed[0].alone
        for _ in slow():
            pass
        timeline = monitor.stop()
        assert roles(timeline) == ["W0", "W1", "main"]
        assert kinds(displayed) == [Chart, Chart, MemoryFigure]
        assert displayed[0].end["how"] == "Stopped"
        assert monitor.stop() is timeline
        assert len(displayed) == 3
        assert dltutor.monitor() is not monitor
    finally:
        dltutor.monitor().stop()
