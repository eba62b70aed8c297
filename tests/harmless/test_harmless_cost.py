"""Test how often instruments read memory, and that the sampler imports no slow modules."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest
from small_datasets import Numbers, load
from test_sampler import Made, Simulated

import dltutor
from dltutor.display import instruments
from dltutor.lessons import lesson_10
from dltutor.observation import observing
from dltutor.observation.memory import recorder, sampler
from dltutor.observation.memory.moments import Moment
from dltutor.observation.memory.recorder import Recorder
from dltutor.observation.memory.sampler import Sampler
from dltutor.observation.memory.timeline import Timeline

pytestmark = pytest.mark.usefixtures("nothing_left_behind")

CHEAP: Final = 0.0001  # simulated CPU seconds to sample three processes with torch, without PSS
FULL: Final = 0.02  # simulated CPU seconds to read the PSS of all three
WAITS: Final = 2  # simulated seconds that a CPU second of reading PSS takes, as no core is idle


@pytest.fixture
def recorders(monkeypatch: pytest.MonkeyPatch) -> list[Recorder]:
    """Return a list that collects the recorders that a test starts."""
    made: list[Recorder] = []
    own = Recorder.start

    def start(self: Recorder) -> None:
        made.append(self)
        own(self)

    monkeypatch.setattr(Recorder, "start", start)
    return made


def observe_unseen() -> None:
    dltutor.observe(load(Numbers()))


def observe_live() -> None:
    dltutor.observe(load(Numbers()), live=True)


def watch() -> None:
    with dltutor.watch():
        pass


def monitor() -> None:
    dltutor.monitor().stop()


def lesson() -> None:
    lesson_10.observe_memory(load(Numbers()))


class Run(Simulated):
    """A simulated sampler with two workers, and with the rates that a Recorder gave its sampler."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]) -> None:
        known = inspect.signature(Sampler).parameters.keys() - {"pid"}
        rates = {name: options[name] for name in known & options.keys()}
        super().__init__(monkeypatch, CHEAP, FULL, WAITS, **rates)
        self.samples = 0
        self.read_at: list[float] = []
        self.look()
        self.new_workers()

    def new_workers(self) -> None:
        """Replace the workers with those of the next epoch."""
        first = 2 + max(self.reader.processes)
        self.reader.processes = {1: 10, first: first, first + 1: first}

    def look(self) -> bool:
        self.samples += 1
        read = super().look()
        if read:
            self.read_at.append(self.clock.now)
        return read

    def until(self, seconds: float, epoch: float = 1e9) -> None:
        """Sample until this time in seconds, and replace the workers after each `epoch` seconds."""
        ends = epoch
        while self.clock.now < seconds:
            if self.clock.now > ends:
                self.new_workers()
                ends += epoch
            self.look()


def test_where_nobody_looks_a_run_has_its_workers_read_once_and_then_every_ten_seconds(
    recorders: list[Recorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    observe_unseen()
    run = Run(monkeypatch, recorders[0]._options)
    run.until(5.0)
    assert len(run.read_at) == 1
    assert run.read_at[0] < 1.0, "the workers had just been started"
    assert run.samples <= 4 * 5
    run.until(60.0)
    assert 5 <= len(run.read_at) <= 7
    assert run.samples <= 4 * 60


def test_where_nobody_looks_new_workers_in_each_second_keep_to_the_budget(
    recorders: list[Recorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    observe_unseen()
    options = recorders[0]._options
    run = Run(monkeypatch, options)
    run.until(60.0, epoch=1.0)
    # Count the time that workers have to wait, not only the sampler's CPU time.
    taken = len(run.read_at) * WAITS * FULL + run.samples * CHEAP
    assert taken <= options["memory_budget"] * 60 + sampler._AT_ONCE + WAITS * FULL
    assert len(run.read_at) >= 5


def test_workers_that_come_one_after_the_other_are_read_together() -> None:
    reader: Any = Made({1: 10})
    sampling = Sampler(reader, 1, 1e6, 1.0, often=False)
    read = [sampling.look()["memory"]]
    for worker in (2, 3, 4):
        reader.processes[worker] = worker
        read.append(sampling.look()["memory"])
    assert read == [None] * 4
    assert sampling.look()["memory"].keys() == {1, 2, 3, 4}


@pytest.mark.parametrize("look", [observe_live, watch, monitor, lesson])
def test_where_somebody_looks_a_short_run_is_read_twice_a_second(
    look: Callable[[], None], recorders: list[Recorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instruments, "Screen", NoScreen)
    look()
    run = Run(monkeypatch, recorders[0]._options)
    run.until(10.0)
    assert len(run.read_at) >= 18


class NoScreen:
    """A stand-in for `instruments.Screen` that shows nothing."""

    listeners = ()

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def show(self) -> None:
        pass

    def finish(self, how: str, timeline: Timeline | None) -> None:
        pass


def test_a_run_where_nobody_looks_has_its_workers_memory_all_the_same() -> None:
    seen: list[Moment] = []

    def until_read(loader: Any) -> None:
        for _ in loader:
            if any(_read(moment, "W0") and _read(moment, "W1") for moment in list(seen)):
                break

    found = observing.observe(
        load(Numbers(length=10**8)), consume=until_read, listeners=[seen.append]
    )
    assert found.end == "finished"
    timeline = found.timeline
    read = {role: ~np.isnan(timeline.series(role, "pss")) for role in timeline.roles}
    assert read["main"][-1], "the last sample has it"
    assert not np.isnan(timeline.memory_curve("W0")[read["W0"]]).any()
    # Besides one reading every `_SELDOM` seconds, allow a reading for new workers, one at the end,
    # and one more if the workers start late.
    assert sum(read["main"]) <= 2 + timeline.seconds[-1] / recorder._SELDOM + 1


def _read(moment: Moment, role: str) -> bool:
    return role in moment.processes and moment.processes[role].pss is not None


IMPORTED = """
import sys
path = sys.argv[1]
exec(compile(open(path).read(), path, "exec"), {"__name__": "sampler", "__file__": path})
print(*{"enum", "typing", "json"} & {*sys.modules})
"""


def test_the_helper_imports_nothing_that_takes_as_long_as_the_start_of_python() -> None:
    command = [sys.executable, "-I", "-S", "-c", IMPORTED, sampler.__file__]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    assert done.stdout.split() == []
