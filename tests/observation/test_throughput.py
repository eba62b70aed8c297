"""Check what `how_many_workers()` measures and recommends, and the command `dltutor workers`."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from own_process import DEADLINE
from small_datasets import Numbers, Stream, raise_error, sleep_on
from torch.utils.data import DataLoader, Dataset, get_worker_info

from dltutor import how_many_workers
from dltutor.__main__ import main
from dltutor.observation.speeds import Speed, Throughput
from dltutor.observation.throughput import CannotMeasure, default_counts, with_workers

pytestmark = pytest.mark.usefixtures("nothing_left_behind")


class Waits(Dataset[torch.Tensor]):
    """A dataset that waits before it returns a sample, for 10 ms by default."""

    def __init__(self, length: int = 400, wait: float = 0.01) -> None:
        self.length = length
        self.wait = wait

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(self.wait)
        return torch.tensor(index)


class HangsInWorkers(Waits):
    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(60 if get_worker_info() else 0)
        return torch.tensor(index)


def load(dataset: Any, batch_size: int = 4, **options: Any) -> DataLoader[Any]:
    return DataLoader(dataset, batch_size, **options)


FORKED: dict[str, Any] = {"num_workers": 1, "multiprocessing_context": "fork"}


def speeds(**medians: tuple[float, ...]) -> Throughput:
    return Throughput(
        tuple(Speed(int(name[1:]), rates, (0.1,) * len(rates)) for name, rates in medians.items())
    )


@pytest.mark.parametrize(
    ("measured", "take"),
    [
        (speeds(w0=(100, 101, 99), w1=(99, 98, 100), w2=(200, 198, 202), w4=(400, 402, 399)), 4),
        (speeds(w0=(900, 950, 980), w1=(100, 120, 110), w2=(200, 190, 210)), 0),
        (speeds(w0=(100, 100, 100), w2=(190, 190, 190), w4=(200, 200, 200)), 2),  # w4 is 5% faster
        (speeds(w0=(100, 100, 100), w2=(150, 150, 150), w4=(140, 200, 210)), 4),
        (speeds(w0=(100, 100, 100), w2=(175, 175, 175), w4=(140, 200, 210)), 2),  # w4 varies widely
        (speeds(w0=(100,), w2=(150,)), 2),
    ],
)
def test_the_smallest_is_taken_that_the_best_does_not_clearly_beat(
    measured: Throughput, take: int
) -> None:
    assert measured.take == take
    assert measured.why.startswith(f"Take {take}")
    assert ("the most that was tried" in measured.why) == (take == measured.speeds[-1].workers)
    assert str(measured).count("take this") == 1


def test_waits_add_up_to_as_many_times_the_throughput_as_there_are_workers() -> None:
    made = []

    def make() -> DataLoader[Any]:
        made.append(load(Waits(wait=0.03), **FORKED))
        return made[-1]

    found = how_many_workers(make, counts=(0, 4), runs=2, batches=4)
    none, four = found.speeds
    assert four.rate > 1.3 * none.rate  # four times, if nothing else ran on the machine
    assert found.take == 4
    assert len(none.rates) == len(four.rates) == 2
    assert len(made) == 4, "each run has one of its own"


def test_a_short_epoch_is_repeated_because_idle_workers_would_leave_the_cores_to_others() -> None:
    steps = []
    found = how_many_workers(load(Waits(12), **FORKED), counts=(2,), runs=1, step=steps.append)
    assert found.too_short == () and found.unit == "samples"
    assert len(steps) >= 4 + 32  # steps of the start-up, and of the part that a run times


def test_a_stream_that_is_too_short_for_a_number_is_said() -> None:
    # A worker's first two batches are for the start-up, and its last two are left out.
    found = how_many_workers(load(Stream(16), **FORKED), counts=(0, 1), runs=1)
    assert found.too_short == (1,)
    assert "Not measured: 1." in str(found)
    for empty in (load([]), load(Stream(16), batch_size=16)):
        with pytest.raises(CannotMeasure, match="too few batches"):
            how_many_workers(empty, counts=(0,))


def miss_a_label(batch: Any) -> None:
    raise KeyError("label")


@pytest.mark.parametrize(
    ("dataset", "options", "told"),
    [
        (Numbers(raise_error, at=0), {}, "with 0 workers.* ValueError"),
        (Numbers(sleep_on, at=0), {"deadline": 1}, "with 0 workers.* 1 s"),
        (Waits(), {"step": miss_a_label}, "step raised KeyError: 'label'$"),
        (Waits(), {"step": 30, "deadline": 1}, "deadline of 1 s"),
    ],
)
def test_a_loader_or_a_step_that_fails_is_told_in_a_sentence(
    dataset: Any, options: dict[str, Any], told: str
) -> None:
    began = time.monotonic()
    with pytest.raises(CannotMeasure, match=told):
        how_many_workers(load(dataset, **FORKED), counts=(0, 1), **options)
    assert time.monotonic() - began < 20


def test_what_was_measured_is_kept_when_the_deadline_comes() -> None:
    loader = load(HangsInWorkers(4000), **FORKED)
    found = how_many_workers(loader, counts=(4, 0, 2), deadline=4)
    assert [speed.workers for speed in found.speeds] == [0]
    assert (found.unfinished, found.too_short) == ((2, 4), ())
    for told in (str(found), found._repr_html_()):
        assert "Only 0 was measured" in told and "Not measured: 2, 4." in told
        assert "take this" not in told
    assert "Take 2" in replace(speeds(w0=(100,), w2=(190,)), unfinished=(4,)).why


def test_with_little_time_there_are_fewer_runs() -> None:
    found = how_many_workers(load(Waits(), **FORKED), counts=(0,), runs=99, deadline=4)
    assert 1 <= len(found.speeds[0].rates) < 99


@pytest.mark.parametrize(
    ("name", "error", "values"),
    [
        ("loader", TypeError, [Waits(), DataLoader]),
        ("counts", TypeError, [4, "0 1", (1.0,)]),
        ("counts", ValueError, [(), (-1, 2), (0, 5000)]),
        ("runs", ValueError, [0]),
        ("deadline", ValueError, [0]),
        ("step", TypeError, ["0.1", (0.1,), True, dict]),
        ("step", ValueError, [0, -1, math.nan, math.inf]),
    ],
)
def test_wrong_arguments_are_refused(name: str, error: type[Exception], values: list[Any]) -> None:
    for value in values:
        arguments: dict[str, Any] = {"loader": load(Waits()), name: value}
        with pytest.raises(error, match=f"^{name} ") as caught:
            how_many_workers(arguments.pop("loader"), **arguments)
        assert f"got {value!r}" in str(caught.value)


def reverse(samples: list[Any]) -> list[Any]:
    return samples[::-1]


@pytest.mark.parametrize(
    "loader",
    [
        load(list(range(10)), num_workers=2, collate_fn=reverse, persistent_workers=True),
        DataLoader(list(range(10)), sampler=[3, 1, 4], batch_size=None),
        DataLoader(list(range(10)), batch_sampler=[[1, 2], [3]]),
        DataLoader(Stream(64), 7, drop_last=True),
        DataLoader(Stream(64), batch_size=None),
        load(list(range(10)), timeout=5, num_workers=1, prefetch_factor=4, in_order=False),
    ],
)
def test_the_loader_made_anew_delivers_the_same(loader: DataLoader[Any]) -> None:
    again = with_workers(loader, 0)
    assert list(map(str, again)) == list(map(str, with_workers(again, 0)))
    assert list(map(str, again)) == list(map(str, with_workers(with_workers(loader, 1), 0)))
    more = with_workers(loader, 3)
    assert more.num_workers == 3 and not more.persistent_workers
    assert more.prefetch_factor == (loader.prefetch_factor or 2)
    assert (more.in_order, more.timeout) == (loader.in_order, loader.timeout)


def test_it_tries_up_to_twice_the_cores() -> None:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    counts = default_counts()
    assert counts[:2] == [0, 1] and counts == sorted(counts)
    assert counts[-1] <= 2 * (cores or 1)


# The command `dltutor workers`

OWN = """
import sys, time
import torch
from small_datasets import Numbers, Stream, raise_error, sleep_on
from torch.utils.data import DataLoader, Dataset
from beside import LENGTH

class Rows(Dataset):
    def __len__(self):
        return LENGTH
    def __getitem__(self, index):
        return torch.tensor(index)

loader = DataLoader(Rows(), 64, multiprocessing_context=None)
number = 3

def make():
    return loader

def make_number():
    return 3

def needs(what):
    return loader

def broken():
    raise KeyError("label")
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "beside.py").write_text("LENGTH = 2000\n")
    (tmp_path / "own_job.py").write_text(OWN)
    (tmp_path / "raises.py").write_text("raise KeyError('path')\n")
    (tmp_path / "leaves.py").write_text("import sys\nsys.exit('no')\n")
    (tmp_path / "trains.py").write_text("import time\ntime.sleep(60)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name in ("beside", "own_job", "raises", "leaves", "trains"):
            del sys.modules[name]


@pytest.mark.parametrize(
    ("target", "words", "counts", "told"),
    [
        ("own_job.py:loader", "--counts 1 0", ["0", "1"], "Take "),
        ("own_job:make", "--counts 0", ["0"], "Only 0 was measured"),
        ("{}/own_job.py:make", "--counts 0 --step 0.01", ["0"], "0.01 s"),
    ],
)
def test_the_command_says_what_to_take(
    own: Path,
    target: str,
    words: str,
    counts: list[str],
    told: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["workers", target.format(own), *words.split(), "--deadline", "20"]) == 0
    title, header, *rows, last = capsys.readouterr().out.splitlines()
    assert header.split()[:2] == ["workers", "samples/s"]
    assert [row.split()[0] for row in rows] == counts
    assert told in f"{title}\n{last}"


@pytest.mark.parametrize(
    ("target", "code", "told"),
    [
        ("train", 2, "such as train.py:loader, got 'train'"),
        ("nothing.py:loader", 2, "there's no file 'nothing.py'"),
        ("no.module:loader", 2, "there's no module 'no.module' here"),
        ("own_job.py:loadr", 2, "has no 'loadr': it has loader"),
        ("beside.py:loader", 2, "has no DataLoader in its globals"),
        ("own_job.py:number", 2, "number must be a DataLoader or a function"),
        ("raises.py:loader", 2, "importing raises.py raised KeyError: 'path'"),
        ("leaves.py:loader", 2, "importing leaves.py raised SystemExit: no"),
        ("own_job.py:make_number", 1, "must return a DataLoader, but it returned 3"),
        ("own_job.py:needs", 1, "missing 1 required positional argument"),
        ("own_job.py:broken", 1, "raised KeyError: 'label'"),
        ("own_job.py:loader --counts 5000", 2, "each from 0 to 1024, got [5000]"),
    ],
)
def test_bad_input_gets_one_sentence(
    own: Path, target: str, code: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["workers", *target.split()]) == code
    said = capsys.readouterr()
    assert told in said.err and said.err.count("\n") == 1
    assert said.out == ""


def test_a_file_that_trains_when_it_is_imported_is_stopped(
    own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["workers", "trains.py:loader", "--deadline", "1"]) == 1
    assert "`if __name__ == '__main__':`" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--deadline", "0"], "must be a positive number of seconds"),
        (["--deadline", "soon"], "must be a positive number of seconds"),
        (["--step", "0"], "--step: must be a positive number of seconds"),
        (["--counts", "0,2"], "with spaces between them, such as 0 1 2 4"),
        (["--counts", "-1"], "must be numbers of workers"),
        (["--counts"], "expected at least one argument"),
    ],
)
def test_wrong_words_are_refused(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["workers", "own_job.py:loader", *words])
    assert told in capsys.readouterr().err


@pytest.mark.thorough
def test_spawned_workers_find_the_file(own: Path, nothing_left_behind: Callable[..., None]) -> None:
    text = OWN.replace(
        "multiprocessing_context=None", "num_workers=1, multiprocessing_context='spawn'"
    )
    (own / "spawned.py").write_text(text)
    command = [
        sys.executable,
        "-c",
        "import os; os.sched_setaffinity(0, {0})\nfrom dltutor.__main__ import command; command()",
        "workers",
        "spawned.py:loader",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, cwd=own)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Take 0" in done.stdout
