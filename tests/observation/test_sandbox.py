"""Check that no answer harms the notebook's process, state, or files, or takes too much time."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from fresh_interpreter import run_fresh
from harms import (
    change_everything,
    keep_allocating,
    print_a_hundred_megabytes,
    signal_parent,
    start_a_stray,
    start_threads,
    swallow_everything,
)
from own_exercise import own_exercise
from state_of_main import state
from torch.utils.data import DataLoader

from dltutor.diagnosis.progress import shown
from dltutor.lessons.engine.checking import check
from dltutor.lessons.engine.exercise import Grader
from dltutor.lessons.engine.outcomes import Outcome, Result, correct, not_yet
from dltutor.lessons.engine.running import theirs
from dltutor.observation import sandbox
from dltutor.system import marks
from dltutor.tables import MB

pytestmark = pytest.mark.usefixtures("nothing_left_behind")

LIMIT = 30  # seconds that the exercise of these tests allows. Most answers take less than 1 s.
CLEANING = 4  # extra seconds, on a busy machine, to end all that an answer started


def gather(answer: Callable[[], object]) -> object:
    with theirs():
        return answer()


@pytest.fixture(autouse=True)
def own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Define an exercise that calls its answer and accepts whatever it returns."""
    at_most(LIMIT, monkeypatch)


def in_a_worker(work: Callable[[], object]) -> Callable[[], object]:
    def run() -> None:
        process = multiprocessing.get_context("fork").Process(target=work)
        process.start()
        process.join()

    return run


def start_a_stray_through_a_child() -> None:
    subprocess.run([sys.executable, "-c", ORPHAN], check=True)


ORPHAN = "import subprocess; subprocess.Popen(['sleep', '600'], start_new_session=True)"


class NoRepr:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    def __reduce__(self) -> Any:
        raise RuntimeError("no pickle")


def fails(text: str) -> Callable[[], object]:
    def run() -> None:
        raise ValueError(text)

    return run


def run(code: str) -> Callable[[], object]:
    return lambda: eval(code)


# For each misdeed, an answer that commits it, the outcome of the check, and a string that the
# result's code and fields contain.
DEEDS: dict[str, tuple[Callable[[], object], Outcome, str]] = {
    "ends it as if all were well": (run("os._exit(0)"), Outcome.ERROR, "ended with exit code 0"),
    "exits": (run("sys.exit(3)"), Outcome.ERROR, "SystemExit: 3"),
    "kills itself": (run("os.kill(os.getpid(), 9)"), Outcome.ERROR, "was killed by SIGKILL"),
    "is interrupted": (run("signal.raise_signal(2)"), Outcome.ERROR, "KeyboardInterrupt"),
    "kills its parent": (
        signal_parent(9),
        Outcome.ERROR,
        "parent-ended was killed by SIGKILL",
    ),
    "kills its parent in a worker": (
        in_a_worker(signal_parent(9)),
        Outcome.ERROR,
        "process-ended was killed by SIGKILL",
    ),
    "retries under a bare except": (swallow_everything, Outcome.NOT_YET, "in swallow_everything"),
    "waits for input": (run("input()"), Outcome.ERROR, "EOFError"),
    "reads stdin": (run("sys.stdin.read()"), Outcome.CORRECT, "correct"),
    "leaves a process": (start_a_stray, Outcome.NOT_YET, "still-running a process"),
    "leaves a grandchild": (
        start_a_stray_through_a_child,
        Outcome.NOT_YET,
        "still-running a process",
    ),
    "leaves threads": (start_threads, Outcome.CORRECT, "correct"),
    "changes everything": (change_everything, Outcome.CORRECT, "correct"),
    "returns what cannot be pickled": (NoRepr, Outcome.CORRECT, "correct"),
    "raises a text of a megabyte": (fails("x" * 1_000_000), Outcome.ERROR, "`ValueError: xxx"),
}


@pytest.mark.usefixtures("nothing_frozen")
@pytest.mark.parametrize("deed", DEEDS)
def test_an_answer_that_does_harm_is_told_so_and_harms_nothing(
    deed: str, nothing_left_behind: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, outcome, told = DEEDS[deed]
    if answer is swallow_everything:
        at_most(3, monkeypatch)
    before = state()
    started = time.monotonic()
    result = check("00.own", answer)
    seconds = time.monotonic() - started
    assert result.outcome is outcome, result
    assert told in " ".join((result.code, *map(str, result.fields.values())))
    assert len(result.text) < 4000
    assert seconds < LIMIT + CLEANING
    assert state() == before
    assert os.fork is not None and in_a_fork(lambda: 7) == 7  # no fork hook is left


def test_what_is_left_is_found_where_no_process_can_be_marked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(marks, "new", lambda: 0)  # as on macOS
    assert check("00.own", start_a_stray_through_a_child).outcome is Outcome.NOT_YET


def in_a_fork(value: Callable[[], int]) -> int:
    pid = os.fork()
    if pid == 0:
        os._exit(value())
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_an_answer_that_fills_memory_is_stopped_before_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sandbox, "MEMORY", 600 * MB)
    at_most(60, monkeypatch)
    result = check("00.own", keep_allocating)
    assert result.outcome is Outcome.NOT_YET
    assert (result.code, result.fields) == ("too-much-memory", {"memory": "600 MB"})


def at_most(seconds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    own_exercise(monkeypatch, Grader(gather, lambda _: correct(), at_most=seconds))


def test_an_answer_that_starts_process_after_process_is_stopped_before_its_time() -> None:
    def multiply() -> None:
        while True:
            start_a_stray()

    started = time.monotonic()
    result = check("00.own", multiply)
    assert result.outcome is Outcome.NOT_YET
    assert result.code == "too-many-processes"
    assert time.monotonic() - started < LIMIT + CLEANING


def test_an_answer_that_prints_a_hundred_megabytes_is_read_to_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at_most(60, monkeypatch)
    assert check("00.own", print_a_hundred_megabytes).outcome is Outcome.CORRECT


def test_an_answer_runs_as_a_main_process_with_the_kernels_data() -> None:
    kept, kernel = [1, 2, 3], os.getpid()

    def answer() -> None:
        assert kept == [1, 2, 3]
        assert os.getppid() != kernel  # so a signal to the parent doesn't reach the notebook
        assert multiprocessing.current_process().name == "MainProcess"
        assert multiprocessing.parent_process() is None
        assert threading.current_thread() is threading.main_thread()
        kept.append(4)

    assert check("00.own", answer).outcome is Outcome.CORRECT
    assert kept == [1, 2, 3]


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_an_answer_starts_processes_by_any_method_also_after_a_reset_of_the_notebook(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer() -> None:
        context: Any = multiprocessing.get_context(method)
        with context.Pool(1) as pool:
            assert pool.apply(abs, [-1]) == 1

    at_most(60, monkeypatch)
    monkeypatch.delattr(sys.modules["__main__"], "__spec__")  # as `%reset -f` leaves it
    assert check("00.own", answer).outcome is Outcome.CORRECT


def test_what_an_answer_removes_by_a_bare_name_is_not_the_learners(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "lessons"
    folder.mkdir()
    notebook, module = folder / "04-global-state.ipynb", folder / "module_of_mine.py"
    notebook.touch()
    module.touch()
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend("")

    def remove() -> None:
        assert not os.listdir()
        Path(notebook.name).unlink(missing_ok=True)
        Path("breadcrumb.txt").touch()
        importlib.import_module("module_of_mine")

    assert check("00.own", remove).outcome is Outcome.CORRECT
    assert {each for each in folder.iterdir() if each.name != "__pycache__"} == {notebook, module}


def test_a_handler_that_waits_at_every_fork_is_told_and_the_kernel_goes_on() -> None:
    script = """
        import os, threading
        from dltutor import check
        lock = threading.Lock()
        os.register_at_fork(before=lock.acquire, after_in_child=lock.release)
        assert check("00.predict", "b").outcome.value == "Correct"  # it holds the lock from now on
        result = check("00.predict", "b")
        assert result.outcome.value == "Could not check here", result
        assert result.code == "fork-hooks-hang"
        """
    run_fresh(script)


def test_a_semaphore_that_an_answer_leaves_is_not_said_to_be_printed_by_it(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def leave_one() -> None:
        global kept
        kept = multiprocessing.get_context("spawn").Lock()
        raise ValueError("left one")

    check("00.own", leave_one)
    assert "leaked" not in "".join(capfd.readouterr())


def test_what_an_answer_prints_is_shown_without_torchs_advice_on_start_methods(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def send_a_lock() -> None:
        print("  mine")
        os.write(2, b"and this\n")
        unsendable: Any = [threading.Lock()]
        iter(DataLoader(unsendable, num_workers=1, multiprocessing_context="spawn"))

    check("00.own", send_a_lock)
    out, err = capfd.readouterr()
    assert out.splitlines()[1:] == ["Your code printed:", "    mine", "  and this"]
    assert err == ""


def test_temporary_files_of_an_answer_are_gone_with_it(tmp_path: Path) -> None:
    def answer() -> None:
        import tempfile

        folder = tempfile.mkdtemp()
        (tmp_path / "where").write_text(folder)
        Path(folder, "file").write_bytes(b"x")

    check("00.own", answer)
    assert not Path((tmp_path / "where").read_text()).exists()


def test_stop_ends_a_check_and_all_that_it_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def press_stop() -> None:
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(sandbox, "LOOKING", 30)
    timer = threading.Timer(1, press_stop)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        check("00.own", lambda: (start_a_stray(), time.sleep(60)))
    timer.join()
    assert not [p for p in psutil.Process().children(recursive=True) if p.name() == "sleep"]


def test_nothing_is_announced_for_an_answer_that_is_not_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def look(answer: Any) -> Any:
        return answer if answer == 3 else not_yet("no")

    def judge(evidence: Any) -> Result:
        return correct()

    own_exercise(monkeypatch, Grader(lambda a: a, judge, look, at_most=20), no="No.")
    assert check("00.own", 4).outcome is Outcome.NOT_YET
    assert capsys.readouterr().out == ""
    assert check("00.own", 3).outcome is Outcome.CORRECT
    assert capsys.readouterr().out == "Checking 00.own: calls it, usually 1 s, at most 20 s.\n"


def test_with_a_closed_stdin_an_answer_has_an_empty_one() -> None:
    stdin = os.dup(0)
    os.close(0)
    try:
        ended = sandbox.run(lambda begin: {"read": os.read(0, 1).decode()}, at_most=LIMIT)
    finally:
        os.dup2(stdin, 0)
        os.close(stdin)
    assert ended.result == {"read": ""}


def test_children_of_an_answer_have_an_exit_code_if_main_ignores_the_signal_of_their_end() -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        ended = sandbox.run(lambda begin: {"exit": os.system("exit 3")}, at_most=LIMIT)
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert ended.result == {"exit": 3 << 8}


def test_a_program_without_streams_can_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    with shown() as asked:
        asked("What's one and one?", 1.0)
        assert sandbox.run(lambda begin: {"sum": 2}, at_most=LIMIT).result == {"sum": 2}
