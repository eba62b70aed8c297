"""observe, watch and monitor at the package's root: the same run with and without a chart."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import datasets
import pytest
from datasets import Numbers, load
from fresh_interpreter import run_fresh

import dltutor
from dltutor.display import screen
from dltutor.display.chart import Chart
from dltutor.display.figure import MemoryFigure
from dltutor.observation.memory.timeline import Timeline

pytestmark = [
    pytest.mark.timeout(60, method="thread"),
    pytest.mark.usefixtures("nothing_left_behind"),
]


@pytest.fixture
def displayed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is displayed, in order, as if this were a notebook's kernel."""
    shown: list[Any] = []
    monkeypatch.setattr(screen, "on_a_page", lambda: True)
    monkeypatch.setattr(screen, "_display", shown.append)
    return shown


@pytest.fixture
def no_monitor(nothing_left_behind: object) -> Iterator[None]:
    """None is running when the test has ended."""
    yield
    dltutor.monitor().stop()


def kinds(displayed: list[Any]) -> list[type]:
    return [kind for each in displayed for kind in (Chart, MemoryFigure) if isinstance(each, kind)]


def roles(record: Chart | Timeline) -> list[str]:
    """Without the other processes that the tests themselves have."""
    if isinstance(record, Timeline):
        found = {process.role for process in record.processes}
    else:
        found = {role for row in record.history for role in row["p"]}
    return sorted(found - {"other"})


def a_while() -> None:
    time.sleep(0.8)


def killed_after_a_while() -> None:
    a_while()
    datasets.killed()


def slow(trouble: Callable[[], object] = a_while, **options: Any) -> Any:
    """A loader that takes as long as its trouble, with nothing wrong otherwise."""
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


def test_the_chart_names_who_died_and_how(displayed: list[Any]) -> None:
    seen = dltutor.observe(load(Numbers(killed_after_a_while)), live=True)
    assert seen.end == "worker died"
    [(role, _, how)] = displayed[0].end["died"]
    assert role == "W0"
    assert how.startswith("killed by SIGKILL")
    assert displayed[0].end["how"].startswith("Worker died: W0")


def test_observe_draws_nothing_unless_it_is_asked_to(displayed: list[Any]) -> None:
    assert dltutor.observe(load(Numbers())).end == "finished"
    assert displayed == []


def test_wrong_arguments_are_told_before_anything_is_drawn(displayed: list[Any]) -> None:
    with pytest.raises(ValueError, match="deadline must be a positive number of seconds, got -3"):
        dltutor.observe(load(Numbers()), deadline=-3, live=True)
    with pytest.raises(TypeError, match="got Numbers"):
        dltutor.observe(Numbers(), live=True)  # type: ignore[arg-type]
    assert displayed == []


def test_after_stop_the_chart_says_so_and_no_figure_follows(displayed: list[Any]) -> None:
    with pytest.raises(KeyboardInterrupt):
        dltutor.observe(load(Numbers(datasets.interrupt_main_and_sleep)), live=True)
    assert kinds(displayed) == [Chart]
    assert displayed[0].end == {"how": "Stopped", "died": [], "folded": False}


def test_the_story_is_the_same_with_and_without_a_picture(displayed: list[Any]) -> None:
    stories = [
        str(dltutor.observe(load(Numbers(datasets.raise_error)), live=live))
        for live in (True, False)
    ]
    assert stories[0] == stories[1]


def test_in_a_script_nothing_is_drawn_and_nothing_loaded_to_draw() -> None:
    done = run_fresh(
        """
        import sys
        import dltutor
        from datasets import Numbers, load
        print(dltutor.observe(load(Numbers()), live=True).end)
        with dltutor.watch("loop") as watched:
            pass
        print(watched.timeline.roles, dltutor.monitor().stop().roles)
        print({"anywidget", "matplotlib", "IPython"} & sys.modules.keys())
        """
    )
    assert done.stdout == "finished\n('main',) ('main',)\nset()\n"


def test_in_a_terminal_there_is_no_page() -> None:
    run_fresh(
        """
        from IPython.terminal.interactiveshell import TerminalInteractiveShell
        from dltutor.display import screen
        TerminalInteractiveShell.instance()
        assert not screen.on_a_page()
        """
    )


def test_watch_records_a_training_loop_with_its_workers(displayed: list[Any]) -> None:
    with dltutor.watch("my loop") as watched:
        for _ in slow():
            watched.batches += 1
    assert roles(watched.timeline) == ["W0", "W1", "main"]
    assert watched.timeline.batches[-1] == 8
    assert kinds(displayed) == [Chart, MemoryFigure]
    assert displayed[0].title == "my loop"
    assert displayed[0].end["how"] == "Ended"


def test_watch_begins_with_w0_in_each_epoch() -> None:
    with dltutor.watch() as watched:
        for _ in range(2):
            for _ in slow():
                pass
    processes = [
        process.role for process in watched.timeline.processes if process.role.startswith("W")
    ]
    assert sorted(processes) == ["W0", "W0", "W1", "W1"]


def test_watch_lets_exceptions_through_and_still_has_the_record(displayed: list[Any]) -> None:
    with pytest.raises(ZeroDivisionError), dltutor.watch() as watched:
        print(1 / 0)
    assert roles(watched.timeline) == ["main"]
    assert displayed[0].end["how"] == "Ended by ZeroDivisionError"
    assert kinds(displayed) == [Chart, MemoryFigure]


def test_watch_lets_stop_through_and_leaves_nothing(displayed: list[Any]) -> None:
    with pytest.raises(KeyboardInterrupt), dltutor.watch() as watched:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(10)
    assert roles(watched.timeline) == ["main"]
    assert displayed[0].end["how"] == "Ended by KeyboardInterrupt"


def test_watches_may_be_nested() -> None:
    with dltutor.watch("outer") as outer:
        with dltutor.watch("inner") as inner:
            for _ in slow():
                pass
        a_while()
    assert roles(inner.timeline) == roles(outer.timeline) == ["W0", "W1", "main"]
    assert outer.timeline.seconds[-1] > inner.timeline.seconds[-1]


def test_watch_works_in_a_thread(displayed: list[Any]) -> None:
    done = []

    def work() -> None:
        with dltutor.watch() as watched:
            pass
        done.append(roles(watched.timeline))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(20)
    assert done == [["main"]]


def test_the_timeline_of_a_watch_is_there_when_the_block_has_ended() -> None:
    with (
        dltutor.watch() as watched,
        pytest.raises(RuntimeError, match="when the `with watch\\(\\)` block has ended"),
    ):
        _ = watched.timeline


@pytest.mark.usefixtures("no_monitor")
def test_a_second_monitor_is_the_first_one_moved(displayed: list[Any]) -> None:
    first = dltutor.monitor()
    second = dltutor.monitor()
    assert second is first
    assert displayed[0] is displayed[1]
    assert displayed[0].alone


@pytest.mark.usefixtures("no_monitor")
def test_a_monitor_samples_until_it_is_stopped(displayed: list[Any]) -> None:
    monitor = dltutor.monitor()
    for _ in slow():
        pass
    timeline = monitor.stop()
    assert roles(timeline) == ["W0", "W1", "main"]
    assert kinds(displayed) == [Chart, MemoryFigure]
    assert displayed[0].end["how"] == "Stopped"
    assert monitor.stop() is timeline
    assert len(displayed) == 2
    assert dltutor.monitor() is not monitor
