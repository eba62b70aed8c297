"""Check that instruments change nothing in main, and don't report failures that only forks have."""

from __future__ import annotations

import fcntl
import gzip
import mmap
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import confined_cases
import numpy as np
import pytest
import torch
from fresh_interpreter import run_fresh
from torch.utils.data import DataLoader, Dataset

from dltutor import confine, diagnose, how_many_workers, observe
from dltutor.diagnosis import fork_doubts
from dltutor.diagnosis.errors import CannotRun
from dltutor.diagnosis.report import Diagnosis
from dltutor.diagnosis.running import forks
from dltutor.diagnosis.running.random_states import global_states
from dltutor.lessons.engine.checking import check
from dltutor.observation import own_files, sandbox
from dltutor.observation.own_mappings import keep_private, written

pytestmark = pytest.mark.usefixtures("nothing_left_behind")

ROWS = [f"row {number:6}, {number * number % 9973:6}\n" for number in range(8000)]  # 152,000 B
WIDTH = len(ROWS[0])


class Reader(NamedTuple):
    """A file's open descriptor, and a function that reads the file's next row through it."""

    descriptor: int
    following: Callable[[], str | bytes]

    def rows(self, count: int) -> list[str]:
        found = [self.following() for _ in range(count)]
        return [each if isinstance(each, str) else each.decode() for each in found]


@pytest.fixture
def readers(tmp_path: Path) -> Iterator[list[Reader]]:
    """Open five kinds of files, and read the first three rows of each."""
    rows = "".join(ROWS).encode()
    plain, packed, zipped = tmp_path / "rows", tmp_path / "rows.gz", tmp_path / "rows.zip"
    plain.write_bytes(rows)
    packed.write_bytes(gzip.compress(rows, 0))
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("rows", rows)
    with (
        plain.open() as text,
        plain.open("rb", buffering=0) as raw,
        tempfile.TemporaryFile(dir=tmp_path) as deleted,
        gzip.open(packed) as unpacked,
        zipped.open("rb") as container,
        zipfile.ZipFile(container) as archive,
        archive.open("rows") as member,
    ):
        deleted.write(rows)
        deleted.seek(0)
        found = [
            Reader(text.fileno(), text.readline),
            Reader(raw.fileno(), lambda: os.read(raw.fileno(), WIDTH)),
            Reader(deleted.fileno(), deleted.readline),
            Reader(unpacked.fileno(), unpacked.readline),
            Reader(container.fileno(), member.readline),
        ]
        assert [each.rows(3) for each in found] == [ROWS[:3]] * len(found)
        yield found


def some(readers: list[Reader]) -> list[list[str]]:
    return [each.rows(1000) for each in readers]


class Following(Dataset[int]):
    """A dataset that ignores the index, and adds up the next number of each file."""

    def __init__(self, readers: list[Reader]) -> None:
        self.readers = readers

    def __len__(self) -> int:
        return 400

    def __getitem__(self, index: int) -> int:
        return sum(int(row[4:10]) for each in self.readers for row in each.rows(1))


def test_open_files_stay_where_they_were_and_what_follows_is_what_followed(
    readers: list[Reader],
) -> None:
    def positions() -> list[int]:
        return [os.lseek(each.descriptor, 0, os.SEEK_CUR) for each in readers]

    before = positions()
    diagnose(DataLoader(Following(readers), batch_size=8, num_workers=2), deadline=6)
    assert positions() == before
    assert [each.rows(7000) for each in readers] == [ROWS[3:7003]] * len(readers)


class InPlace(Dataset[torch.Tensor]):
    """A dataset of a mapped file's rows, which divides each row by two in place.

    If `at_once` is False, the dataset maps the file only when it makes the first sample. If `anew`,
    it maps the file for each sample.
    """

    def __init__(self, path: Path, *, at_once: bool = True, anew: bool = False) -> None:
        self.path = path
        self.anew = anew
        self.rows = self.opened() if at_once else None

    def opened(self) -> np.memmap[Any, Any]:
        return np.memmap(self.path, np.float32, "r+", shape=(32, 2))

    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> torch.Tensor:
        rows = self.opened() if self.rows is None else self.rows
        self.rows = None if self.anew else rows
        row = rows[index]
        row /= 2
        return torch.tensor(row)


@pytest.mark.parametrize(
    "how",
    [
        pytest.param("at hand", marks=pytest.mark.thorough),  # each diagnosis takes seconds
        pytest.param("by a function", marks=pytest.mark.thorough),
        pytest.param("on first use", marks=pytest.mark.thorough),
        "for each sample",
    ],
)
def test_a_file_that_samples_write_through_a_mapping_is_as_before_and_the_cause_is_found(
    how: str, tmp_path: Path
) -> None:
    path = tmp_path / "rows"
    np.arange(1.0, 65.0, dtype=np.float32).tofile(path)
    before = path.read_bytes()

    def make() -> Any:
        once = how not in ("on first use", "for each sample")
        rows = InPlace(path, at_once=once, anew=how == "for each sample")
        loader: Any = DataLoader(rows, batch_size=4, num_workers=2, multiprocessing_context="fork")
        return loader

    found = diagnose(make if how == "by a function" else make(), deadline=60).findings
    assert [each.name for each in found] == ["mutated_in_place"]
    assert str(path) in found[0].evidence
    assert path.read_bytes() == before


def test_what_a_fork_writes_to_a_mapped_file_stays_there_when_it_maps_the_file_again(
    tmp_path: Path,
) -> None:
    paths = [tmp_path / str(number) for number in range(40)]
    for path in paths:
        path.write_bytes(bytes(8))
        os.utime(path, (1, 1))

    def work(begin: Callable[[], None]) -> tuple[int, list[str], int, int]:
        keep_private()
        np.memmap(paths[0], np.uint8, "r+")[:] = 1
        seen = int(np.memmap(paths[0], np.uint8, "r+").sum())
        changed = written()
        before = len(os.listdir("/proc/self/fd"))
        for path in paths:
            np.memmap(path, np.uint8, "r+").sum()
        opened = len(os.listdir("/proc/self/fd")) - before
        with paths[1].open("r+b") as file:
            first, second = (
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_WRITE) for _ in range(2)
            )
            first.read(4)
            return seen, changed, opened, len(second.read())

    seen, changed, opened, read = sandbox.run(work, at_most=20).result
    assert (seen, changed, read) == (8, [str(paths[0])], 8)
    assert opened <= 8


@pytest.mark.parametrize("private", [True, False])
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_what_workers_write_to_a_mapped_file_stays_there_in_the_sandbox(
    method: str, private: bool, tmp_path: Path
) -> None:
    path = tmp_path / "rows"
    np.arange(1.0, 65.0, dtype=np.float32).tofile(path)
    os.utime(path, (1, 1))
    before = path.read_bytes()
    rows = InPlace(path, at_once=False, anew=True)
    loader: Any = DataLoader(rows, batch_size=4, num_workers=1, multiprocessing_context=method)

    def work(begin: Callable[[], None]) -> int:
        if private:
            keep_private()
        return observe(loader, deadline=30).batches

    assert sandbox.run(work, at_most=40).result == 8
    assert (path.read_bytes() == before) == private


def test_a_file_of_the_experiment_s_own_can_be_written_through_a_mapping(tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.write_bytes(bytes(8))
    os.utime(old, (1, 1))

    def work(begin: Callable[[], None]) -> list[int]:
        made = [tmp_path / str(number) for number in range(40)]
        for path in made:  # many, because Linux may date a new file a few ms too early
            keep_private()
            np.memmap(path, np.uint8, "w+", shape=8)[:] = 1
        np.memmap(old, np.uint8, "r+", shape=8)[:] = 1
        with tempfile.TemporaryFile() as nameless:
            nameless.write(bytes(8))
            nameless.flush()
            np.memmap(nameless, np.uint8, "r+", shape=8)[:] = 1
            nameless.seek(0)
            everything = b"".join(path.read_bytes() for path in made)
            return [sum(each) for each in (everything, old.read_bytes(), nameless.read())]

    assert sandbox.run(work, at_most=20).result == [320, 0, 8]


def test_what_processes_share_in_memory_stays_shared_in_the_sandbox() -> None:
    counted = torch.zeros(1).share_memory_()

    def work(begin: Callable[[], None]) -> float:
        forks.in_fork(lambda: counted.add_(1) is counted, 10)
        return float(counted)

    assert sandbox.run(work, at_most=20).result == 1.0


def test_each_experiment_and_each_attempt_in_it_begin_where_the_first_began(
    readers: list[Reader],
) -> None:
    def attempts(begin: Callable[[], None]) -> list[Any]:
        return [forks.in_fork(lambda: some(readers), 10) for _ in range(2)]

    expected = [ROWS[3:1003]] * len(readers)
    for _ in range(2):
        assert sandbox.run(lambda begin: some(readers), at_most=20).result == expected
    assert sandbox.run(attempts, at_most=30).result == [expected] * 2


def test_global_generators_go_on_in_each_experiment_where_main_has_them() -> None:
    # Python seeds the module `random` again in each fork, so forks have to restore main's state.
    before = global_states()
    assert sandbox.run(lambda begin: global_states(), at_most=20).result == before
    assert forks.in_fork(global_states, 10) == before


def test_each_file_is_opened_again(readers: list[Reader]) -> None:
    # One file may have the flag O_TMPFILE, which the sandbox must drop to open the file again.
    assert sandbox.run(lambda begin: own_files.open_again(), at_most=20).result == []


def test_what_main_prints_to_a_file_meanwhile_stays(capfd: pytest.CaptureFixture[str]) -> None:
    # pytest has a second descriptor for the file that stdout goes to. If the sandbox put that
    # descriptor back to its earlier position, "later" would overwrite "announced".
    def wait(begin: Callable[[], None]) -> None:
        begin()
        os.close(0)

    sandbox.run(wait, at_most=20, announce=lambda: print("announced", flush=True))
    print("later", flush=True)
    assert capfd.readouterr().out == "announced\nlater\n"


def test_descriptors_of_the_sandbox_are_as_they_were_but_for_their_positions(
    tmp_path: Path,
) -> None:
    path = tmp_path / "rows"
    path.write_text("".join(ROWS))
    with path.open("r+b") as file, path.open("ab") as log, path.open("wb") as written:
        numbers = [each.fileno() for each in (file, log, written)]
        os.set_inheritable(numbers[0], True)
        fcntl.fcntl(numbers[0], fcntl.F_SETFL, os.O_NONBLOCK)

        def look(begin: Callable[[], None] = lambda: None) -> list[Any]:
            return [
                [fcntl.fcntl(each, fcntl.F_GETFL), os.get_inheritable(each), os.fstat(each).st_ino]
                for each in numbers
            ]

        assert sandbox.run(look, at_most=20).result == look()


def test_two_descriptors_of_one_position_still_share_it_in_the_sandbox(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_text("".join(ROWS))
    with path.open("rb") as one, path.open("rb") as stranger:
        other = os.dup(one.fileno())

        def read(begin: Callable[[], None]) -> list[int]:
            os.read(one.fileno(), WIDTH)
            return [os.lseek(each, 0, os.SEEK_CUR) for each in (other, stranger.fileno())]

        try:
            assert sandbox.run(read, at_most=20).result == [WIDTH, 0]
            assert os.lseek(other, 0, os.SEEK_CUR) == 0
        finally:
            os.close(other)


def test_what_cannot_be_opened_again_is_put_back(tmp_path: Path) -> None:
    # A lock belongs to an open file, so if the sandbox opened the file again, `flock` would hang.
    path = tmp_path / "rows"
    path.write_text("".join(ROWS))
    with path.open("rb", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(WIDTH)

        def read(begin: Callable[[], None]) -> str:
            fcntl.flock(file, fcntl.LOCK_EX)
            return file.read(WIDTH).decode()

        for _ in range(2):
            assert sandbox.run(read, at_most=20).result == ROWS[1]
        assert file.tell() == WIDTH


def test_what_an_experiment_writes_to_a_log_stays_and_main_goes_on_behind_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "log"
    with path.open("wb", buffering=0) as file:
        file.write(b"main\n")
        sandbox.run(lambda begin: file.write(b"sandbox\n"), at_most=20)
        file.write(b"main\n")
    assert path.read_bytes() == b"main\nsandbox\nmain\n"


class Guarded(Dataset[int]):
    """A dataset that holds a lock while it makes a row."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> int:
        with self.lock:
            return index


def test_a_visit_whose_time_was_over_makes_no_later_fork_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dataset = Guarded()
    over = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(over.wait)  # start a thread, so that the doctor looks at locks
        assert diagnose(DataLoader(dataset, num_workers=2), deadline=0.1).untried
        waits: list[float] = []
        monkeypatch.setattr(time, "sleep", waits.append)
        with dataset.lock:
            pid = os.fork()
            if pid == 0:
                os._exit(0)
        over.set()
    os.waitpid(pid, 0)
    assert waits == []


ROWS_OF_THREE: Any = [1, 2, 3]


@pytest.mark.parametrize(
    "call",
    [
        lambda: diagnose(DataLoader(ROWS_OF_THREE, num_workers=1)),
        lambda: check("00.predict", "b"),
        lambda: observe(DataLoader(ROWS_OF_THREE)),
        lambda: how_many_workers(DataLoader(ROWS_OF_THREE), counts=(0,)),
        lambda: confine(confined_cases.scores),
    ],
    ids=["diagnose", "check", "observe", "how_many_workers", "confine"],
)
def test_in_another_thread_one_sentence_names_the_thread(call: Callable[[], object]) -> None:
    with ThreadPoolExecutor(1, thread_name_prefix="trainer") as pool:
        error = pool.submit(call).exception()
    assert type(error) is RuntimeError
    assert "must be called in the main thread" in str(error) and "trainer_0" in str(error)


@pytest.mark.usefixtures("short_folder")
def test_diagnose_changes_nothing_whatever_the_loop_changes_and_makes_no_fork_dearer() -> None:
    run_fresh(
        """
        import timeit
        from state_of_main import *
        hear_of_fork_hooks()
        from dltutor import confine, diagnose, how_many_workers, observe
        class Rows:
            def __len__(self): return 32
            def __getitem__(self, index): return float(torch.rand(())), random.random()
        loader = DataLoader(Rows(), batch_size=4, num_workers=2, shuffle=True)
        import dltutor.diagnosis.diagnose, dltutor.observation.memory.recorder
        diagnose(loader, deadline=0.1)  # what is made once for a process
        held = dict(vars(loader))
        before = state()
        said = diagnose(loader, consume=and_then(change_everything), deadline=8)
        assert not differing(before), differing(before)
        assert dict(vars(loader)) == held
        assert said.findings or said.tried

        at_fork = [each for which in hooks for when, each in which.items() if "child" not in when]
        ours = [each for each in at_fork if (each.__module__ or "").startswith("dltutor")]
        assert [each.__module__ for each in ours] == ["dltutor.observation.sandbox"]
        cost = min(timeit.repeat(ours[0], number=1000, repeat=9)) / 1000
        assert cost < 1e-5, cost  # a fork itself takes a hundred times as long
        """
    )


@pytest.mark.parametrize(
    "start_method",
    [
        "fork",
        pytest.param("spawn", marks=pytest.mark.thorough),  # spawned workers have to import torch
        pytest.param("forkserver", marks=pytest.mark.thorough),
    ],
)
@pytest.mark.usefixtures("short_folder")
def test_observe_changes_nothing_but_what_the_loop_trains(start_method: str) -> None:
    script = """
        from state_of_main import *
        hear_of_fork_hooks()
        from dltutor import observe
        from small_datasets import Numbers
        def train(loader):
            for batch in loader:
                weight.add_(1 + torch.rand(()) * random.random() * np.random.rand())
        if __name__ == "__main__":
            import dltutor.observation.observing
            observe(DataLoader([1]))  # what is made once for a process, such as Python's helpers
            before = state()
            for method in ("", START_METHOD):
                options = dict(num_workers=2, multiprocessing_context=method) if method else {}
                loader = DataLoader(Numbers(), batch_size=4, shuffle=True, **options)
                weight = torch.zeros(())
                for consume in (None, train):
                    seen = observe(loader, consume=consume, deadline=60)
                    assert seen.end == "finished", seen
                    assert not differing(before), (method, differing(before))
                assert weight > 0
        """
    script = script.replace("START_METHOD", repr(start_method))
    run_fresh(script, seconds=250)


class Answered(Dataset[int]):
    """A dataset that gets rows over one connection, from a server that records what it hears."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.connection = socket.create_connection(listener.getsockname())
            there, _ = listener.accept()
        self.heard: list[bytes] = []
        threading.Thread(target=self._serve, args=(there,), daemon=True).start()

    def _serve(self, there: socket.socket) -> None:
        with there:
            while question := there.recv(1):
                self.heard.append(question)
                there.send(question)

    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> int:
        self.connection.sendall(bytes([index]))
        return self.connection.recv(1)[0]


def test_the_server_of_an_open_connection_hears_nothing_and_nothing_is_found() -> None:
    dataset = Answered()
    try:
        assert dataset[7] == 7
        diagnosis = diagnose(DataLoader(dataset, batch_size=4, num_workers=2), deadline=20)
        assert dataset.heard == [b"\x07"]
        assert dataset[8] == 8  # main's connection still works
    finally:
        dataset.connection.close()
    assert diagnosis.findings == ()
    why, *others = (each.why for each in diagnosis.untried)
    assert "`dataset.connection`" in why and "function" in why
    assert set(others) == {"the same problem got in the way"}


def test_a_connection_to_torchs_own_helper_is_not_cut() -> None:
    run_fresh(
        """
        import torch
        from torch.utils.data import DataLoader
        from dltutor import confine, diagnose, how_many_workers, observe
        torch.multiprocessing.set_sharing_strategy("file_system")
        kept = torch.ones(3).share_memory_()
        class Rows:
            def __len__(self): return 32
            def __getitem__(self, index): return kept * index
        diagnosis = diagnose(DataLoader(Rows(), batch_size=4, num_workers=2), deadline=120)
        names = [each.name for each in diagnosis.findings]
        assert names == ["orphaned_segments"] and diagnosis.untried == (), diagnosis
        """,
        seconds=150,
    )


BAD_FORK = (
    "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must "
    "use the 'spawn' start method"
)
MAIN = os.getpid()


def pretend_cuda(patch: pytest.MonkeyPatch) -> None:
    """Make the doctor believe that this process uses CUDA.

    Don't fool torch, because on a machine with a GPU, torch would then seed CUDA in the workers.
    """
    patch.setitem(fork_doubts._RUNTIMES, "torch.cuda", ("CUDA", lambda cuda: True, r"\bCUDA\b"))


def touch_cuda() -> None:
    """Pretend to use CUDA. In a fork of a process that uses CUDA, raise the same error as torch."""
    if "CUDA" in fork_doubts.in_use() and os.getpid() != MAIN:
        raise RuntimeError(BAD_FORK)


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_cuda(monkeypatch)


class OnTheDevice(Dataset[int]):
    """A dataset that calls `check` for each row. The row `unlabeled` has no label.

    Args:
        unlabeled: The index at which the dataset raises KeyError (default -1, which is no index).
        check: By default, the function that pretends to use CUDA.
    """

    def __init__(self, unlabeled: int = -1, check: Callable[[], None] = touch_cuda) -> None:
        self.unlabeled = unlabeled
        self.check = check

    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> int:
        self.check()
        if index == self.unlabeled:
            raise KeyError(f"no label for row {index}")
        return index


def on_the_device(unlabeled: int = -1) -> DataLoader[int]:
    return DataLoader(
        OnTheDevice(unlabeled), batch_size=4, num_workers=2, multiprocessing_context="fork"
    )


def step_on_the_device(loader: Any) -> None:
    touch_cuda()
    for _ in loader:
        pass


def untried(diagnosis: Diagnosis) -> list[str]:
    assert diagnosis.findings == (), str(diagnosis)
    return [each.why for each in diagnosis.untried]


@pytest.mark.parametrize(("dataset", "loop"), [(OnTheDevice, None), (Guarded, step_on_the_device)])
def test_what_fails_only_in_a_fork_is_untried_with_the_way_out(
    dataset: type[Any], loop: Any, cuda: None
) -> None:
    loader = DataLoader(dataset(), batch_size=4, num_workers=2, multiprocessing_context="fork")
    why, *others = untried(diagnose(loader, consume=loop))
    assert "CUDA" in why and "function" in why
    assert set(others) == {"the same problem got in the way"}


def test_a_function_gets_the_same_diagnosis_where_forks_prove_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def make() -> DataLoader[int]:
        return on_the_device(unlabeled=21)

    without = diagnose(make, consume=step_on_the_device)
    pretend_cuda(monkeypatch)
    diagnosis = diagnose(make, consume=step_on_the_device)
    assert [each.name for each in without.findings] == ["raises"]
    told, expected = diagnosis.to_dict(), without.to_dict()
    told["loader"].pop("threads"), expected["loader"].pop("threads")  # varies by process
    timed = ("bounded", "quick")  # what a short run shows about these varies
    for each in (told, expected):
        each["tried"] = [one["question"] for one in each["tried"]]  # answers have times in them
        each["promises"] = [one for one in each["promises"] if one["promise"] not in timed]
    assert told == expected
    assert capsys.readouterr().out.count("Running the loader again") == 2


CELL = """\
class Cards:
    def __len__(self): return 32
    def __getitem__(self, index):
        if "CUDA" in fork_doubts.in_use():
            raise RuntimeError("Cannot re-initialize CUDA in forked subprocess")
        return cards[index]
cards = list(range(30))
def make():
    return DataLoader(Cards(), batch_size=4, num_workers=2)
"""


def test_a_function_typed_into_main_travels_by_value_with_its_lines() -> None:
    run_fresh(
        """
        import linecache, os, sys, types, pytest, torch
        from dltutor.diagnosis import fork_doubts
        from torch.utils.data import DataLoader
        from test_harmless_state import CELL as cell, pretend_cuda
        file = "/tmp/ipykernel_7/7.py"
        linecache.cache[file] = (len(cell), None, cell.splitlines(True), file)
        exec(compile(cell, file, "exec"))
        pretend_cuda(pytest.MonkeyPatch())
        from dltutor import confine, diagnose, how_many_workers, observe
        diagnosis = diagnose(make)
        assert [each.name for each in diagnosis.findings] == ["wrong_length"], diagnosis
        assert "return cards[index]" in diagnosis.findings[0].where, diagnosis
        """,
        seconds=150,
    )


class Model:
    """A stand-in for a model on the GPU. A process that unpickles it uses CUDA from then on."""

    used_in = 0

    def __setstate__(self, state: Any) -> None:
        Model.used_in = os.getpid()
        pretend_cuda(pytest.MonkeyPatch())

    def __getstate__(self) -> dict[str, int]:
        return {"layers": 3}

    @staticmethod
    def check() -> None:
        if Model.used_in != os.getpid():
            raise RuntimeError(BAD_FORK)


@pytest.mark.thorough  # it starts many interpreters, as does the test of a function typed into main
def test_if_unpickling_the_function_uses_cuda_each_experiment_unpickles_it_anew(cuda: None) -> None:
    model = Model()

    def make() -> DataLoader[int]:
        return DataLoader(OnTheDevice(check=model.check), batch_size=4)

    def train(loader: Any) -> None:
        for _ in loader:
            model.check()

    assert diagnose(make, consume=train).ok


def test_no_experiment_pins_memory_if_cuda_is_in_use_here_and_the_report_says_so(
    cuda: None,
) -> None:
    def train(loader: Any) -> None:
        assert not loader.pin_memory
        for _ in loader:
            pass

    loader = DataLoader(Guarded(), batch_size=4, num_workers=2, pin_memory=True)
    diagnosis = diagnose(loader, consume=train)
    assert diagnosis.ok and loader.pin_memory
    assert any("pin" in each.question and "CUDA" in each.why for each in diagnosis.untried)


def test_a_function_that_cannot_be_sent_is_untried_and_the_reason_is_said(cuda: None) -> None:
    lock = threading.Lock()

    def make() -> DataLoader[int]:
        with lock:
            return on_the_device()

    why, *_ = untried(diagnose(make))
    assert "CUDA" in why and "sent" in why and "lock" in why


@pytest.mark.thorough  # a second reason for a new interpreter
def test_a_function_that_fails_in_each_fork_is_asked_in_a_new_interpreter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Forks of this process inherit what it has loaded, but a new interpreter doesn't.
    monkeypatch.setattr(sys, "loaded_here", True, raising=False)

    def refuse_strangers() -> None:
        if hasattr(sys, "loaded_here"):
            raise ValueError("this library works only in the process that has loaded it")

    def make() -> DataLoader[int]:
        return DataLoader(OnTheDevice(check=refuse_strangers), batch_size=4, num_workers=0)

    assert diagnose(make).ok


def test_stop_ends_a_visit_in_a_new_interpreter_and_nothing_is_left(cuda: None) -> None:
    timer = threading.Timer(3, os.kill, (os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        timer.start()
        diagnose(sleepy)
        time.sleep(20)  # in case diagnose() returns before the timer fires
    timer.join()


def sleepy() -> Any:
    time.sleep(600)


def test_the_deadline_holds_in_a_new_interpreter(cuda: None) -> None:
    began = time.monotonic()
    with pytest.raises(CannotRun):
        diagnose(sleepy, deadline=4)
    assert time.monotonic() - began < 4 + 15  # 15 s to end the interpreter on a busy machine


def refuse_forks(how: str) -> None:
    """Outside main, hang, die, or raise, like a library that can't be forked."""
    if os.getpid() == MAIN:
        return
    if how == "hangs":
        time.sleep(600)
    if how == "dies":
        os.kill(os.getpid(), signal.SIGABRT)
    raise RuntimeError("ray.get() was called by a process that Ray does not know")


@pytest.mark.parametrize("how", ["hangs", "dies", "raises"])
def test_what_another_runtime_does_in_a_fork_is_untried(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = types.ModuleType("ray")
    ray.is_initialized = lambda: True  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ray", ray)
    dataset = OnTheDevice(check=partial(refuse_forks, how))
    why, *_ = untried(diagnose(DataLoader(dataset, batch_size=4, num_workers=2), deadline=10))
    assert "Ray" in why and "function" in why


def test_an_error_of_your_own_is_found_where_a_runtime_is_in_use(cuda: None) -> None:
    dataset = OnTheDevice(unlabeled=21, check=lambda: None)
    diagnosis = diagnose(DataLoader(dataset, batch_size=4, num_workers=2))
    assert [each.name for each in diagnosis.findings] == ["raises"]


SCRIPT = f"""\
from torch.utils.data import DataLoader

from dltutor.diagnosis import fork_doubts

{CELL.replace("range(30)", "range(32)").replace("=2)", "=2, multiprocessing_context='spawn')")}

if __name__ == "__main__":
    from dltutor import diagnose

    fork_doubts._RUNTIMES["torch.cuda"] = ("CUDA", lambda cuda: True, "CUDA")
    diagnosis = diagnose(make, deadline=120)
    assert diagnosis.ok and diagnosis.untried == (), diagnosis
"""


@pytest.mark.thorough  # it starts many interpreters that import torch
def test_spawned_workers_of_a_new_interpreter_find_what_the_script_defines(tmp_path: Path) -> None:
    script = tmp_path / "cards.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=250, check=False
    )
    assert done.returncode == 0, done.stderr
