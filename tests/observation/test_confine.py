"""Check that `confine()` limits a child interpreter, names limits it can't set, and cleans up."""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import confined_cases
import mounting
import psutil
import pytest
import unprivileged
from confined_cases import MB
from own_process import DEADLINE, until

from dltutor.observation.confinement import child, confining, supervisor
from dltutor.observation.confinement.asked import read_size
from dltutor.observation.confinement.confining import confine
from dltutor.system import cgroups

GRACE = 5.0  # seconds that processes have to end
FULL = "unable to allocate shared memory(shm) for file"
"""The beginning of torch's message when /dev/shm is full. torch 2.10 and 2.11 add a random reason,
such as "Resource temporarily unavailable (11)", or even "Success (0)"."""


def processes(home: Path, name: str = "") -> list[psutil.Process]:
    """Return every live process that this test started, even if its parent has ended.

    Args:
        home: The test's DLTUTOR_HOME, which all these processes inherit.
        name: A string that must appear in a process's name or command line (default: any).
    """
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):  # the process may end between these calls
            ours = process.environ().get("DLTUTOR_HOME") == str(home)
            if ours and process.status() != psutil.STATUS_ZOMBIE:
                found += [process] if name in " ".join([process.name(), *process.cmdline()]) else []
    return found


def abandoned_groups() -> list[str]:
    groups = [g for parent, _ in cgroups._parents("/proc") for g in parent.glob("dltutor-*")]
    return [group.name for group in groups if not _lives(int(group.name.partition("-")[2]))]


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture(autouse=True)
def folder(
    own_home: Path,
    nothing_left_behind: Callable[..., None],
    short_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Path]:
    """Yield a temporary folder, and check that no process, cgroup, mount, or file is left."""
    monkeypatch.delenv("DLTUTOR_WATCHDOG", raising=False)
    short_folder.chmod(0o1777)
    mounts = Path("/proc/self/mountinfo").read_text()
    before = set(processes(own_home))  # multiprocessing's helpers may be running already

    def left_over() -> list[Any]:
        return [*(set(processes(own_home)) - before), *abandoned_groups(), *short_folder.iterdir()]

    yield short_folder
    end = time.monotonic() + GRACE
    while (left := left_over()) and time.monotonic() < end:
        time.sleep(0.05)
    assert not left, f"left behind: {left}"
    assert Path("/proc/self/mountinfo").read_text() == mounts


@pytest.fixture
def cgroup() -> None:
    """Skip a test if no memory cgroup can be made here."""
    try:
        cgroups.make(64 * MB).remove()
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error}")


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def write(code: str) -> Path:
        (tmp_path / "train.py").write_text(code)
        return tmp_path / "train.py"

    return write


# --- limits


@pytest.mark.usefixtures("cgroup")
def test_a_worker_that_takes_too_much_is_killed_by_the_kernel_which_says_so() -> None:
    # Main uses less than 500 MB, even with torch's CUDA build, so all processes together reach the
    # limit only after W0 has grown.
    seen = confine(confined_cases.growing, memory="500M")
    assert seen.end == "worker died", f"{seen}\n{seen.confinement}"
    died = seen.workers[0]
    assert (died.name, died.signal) == ("W0", "SIGKILL")
    by = seen.confinement
    assert by is not None and not by.stand_in
    # W1 may ask for memory before W0's is free, and then the kernel kills W1, too.
    assert by.oom_kills in (1, 2)
    assert by.peak == by.memory == seen.timeline.limits.cgroup == 500 * MB
    assert any("SIGKILL" in life.died for life in seen.timeline.processes)
    if not os.access("/dev/kmsg", os.R_OK):
        pytest.skip("all but the kernel's log, which may not be read here")
    lines = by.kernel_log or ()
    assert len(lines) == by.oom_kills
    assert sum("process W0 (pt_data_worker) total-vm:" in line for line in lines) == 1
    assert "total-vm" not in str(seen), "sizes differ from run to run"
    for worker in seen.workers:  # `workers` and the log agree on who was killed
        assert (worker.signal == "SIGKILL") == (f"process {worker.name} " in str(lines))


def test_within_its_limits_a_loader_finishes_as_ever(cgroup: None) -> None:
    own = int(Path("/proc/self/oom_score_adj").read_text())
    seen = confine(confined_cases.scores, memory="400M", shm="32M", open_files=64)
    assert (seen.end, seen.batches, seen.samples) == ("finished", 8, 8)
    assert seen.result == [min(own + 1000, 1000)], "workers are put forward to the OOM killer"
    by = seen.confinement
    assert by is not None
    assert by.oom_kills == 0
    assert 0 < (by.peak or 0) < 400 * MB
    assert [re.findall(r"\d+ MB|\d+", each)[0] for each in by.limits] == [
        "400 MB",
        "1000",
        "32 MB",
        "64",
    ]
    assert seen.timeline.limits.shm == 32 * MB
    assert "main" in seen.timeline.roles
    assert str(pickle.loads(pickle.dumps(seen))) == str(seen)


@pytest.mark.thorough  # starts an interpreter that imports torch
def test_without_limits_it_is_a_child_interpreter_that_prints_nothing(
    capfd: pytest.CaptureFixture[str],
) -> None:
    seen = confine(confined_cases.scores, workers=1)
    assert (seen.end, seen.samples) == ("finished", 8)
    assert seen.result == [int(Path("/proc/self/oom_score_adj").read_text())]
    assert seen.confinement is not None and seen.confinement.rows() == []
    assert capfd.readouterr() == ("", "")


AS_NOBODY = f"""
import json, os, sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
import confined_cases
from dltutor.observation.confinement.confining import CannotConfine, confine
facts = {{"user": os.geteuid(), "refused": []}}
for limits in ({{"open_files": 10**7}}, {{"shm": "64M", "memory": "1G"}}, {{"memory": "1G"}}):
    try:
        seen = confine(confined_cases.large_batches, **limits)
    except CannotConfine as refused:
        facts["refused"].append(str(refused))
    else:
        facts["seen"] = seen.end, seen.chain, seen.confinement.stand_in, seen.confinement.oom_kills
        break
print(json.dumps(facts))
"""


def test_a_user_without_privileges_gets_dev_shm_and_a_watchdog_that_says_what_it_is() -> None:
    done = unprivileged.run(AS_NOBODY, timeout=DEADLINE)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["user"] != 0
    files, *shm = facts["refused"]
    assert files.startswith("open_files: 10000000 ")
    end, chain, stand_in, oom_kills = facts["seen"]
    if shm:  # without user namespaces, confine() refuses `shm`
        assert shm[0].startswith("shm: ") and "64 MB" in shm[0]
    else:
        assert end == "raised" and FULL in chain[0][1]
    assert stand_in == (oom_kills is None)  # there is no count without a cgroup


NOT_PERMITTED = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
import confined_cases
from dltutor.observation.confinement.confining import CannotConfine, confine
try:
    confine(confined_cases.scores, shm="32M")
except CannotConfine as refused:
    print(refused)
"""


def test_where_nothing_can_be_mounted_a_dev_shm_is_refused() -> None:
    done = unprivileged.run_without_namespaces(NOT_PERMITTED, timeout=DEADLINE)
    assert re.match(r"shm: .*32 MB.*\(unshare: ", done.stdout), done.stderr


def test_the_watchdog_kills_the_largest_worker_and_is_never_taken_for_the_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DLTUTOR_WATCHDOG", "1")
    seen = confine(confined_cases.growing, memory="400M")
    assert seen.end == "worker died"
    assert (seen.workers[0].name, seen.workers[0].signal) == ("W0", "SIGKILL")
    by = seen.confinement
    assert by is not None
    assert by.stand_in
    assert by.watchdog == ("W0",)
    assert by.oom_kills is None and by.kernel_log is None
    assert "W0" in dict(by.rows())["watchdog"]


# --- scripts


def test_a_script_runs_as_main_and_what_it_wrote_is_kept(write: Callable[[str], Path]) -> None:
    code = """
import os, sys
s = os.statvfs('/dev/shm')
print(__name__, s.f_blocks * s.f_frsize)
print('warned', file=sys.stderr)
"""
    shm = None if mounting.why_not() else "8M"
    seen = confine(write(code), shm=shm)
    assert seen.end == "finished"
    assert re.fullmatch(r"__main__ \d+\nwarned\n", seen.stderr)
    assert seen.confinement is not None
    assert seen.confinement.exitcode == 0
    assert "batches" not in str(seen)
    if shm:
        assert int(seen.stderr.split()[1]) == seen.timeline.limits.shm == 8 * MB
        assert any("/dev/shm" in note for note in seen.timeline.notes), "it isn't sampled"


def test_a_script_that_raises_ends_with_its_exit_code(write: Callable[[str], Path]) -> None:
    seen = confine(str(write("print('epoch 1')\n1 / 0\n")))
    assert seen.end == "raised"
    assert seen.story().title == "Ended with exit code 1"
    assert "ZeroDivisionError: division by zero" in str(seen)


@pytest.mark.usefixtures("cgroup")
def test_a_script_that_takes_too_much_is_killed_by_the_kernel(write: Callable[[str], Path]) -> None:
    seen = confine(write(f"rows = [bytearray(b'x') * {MB} for _ in range(500)]"), memory="100M")
    assert seen.end == "main died"
    assert seen.confinement is not None
    assert (seen.confinement.exitcode, seen.confinement.oom_kills) == (-signal.SIGKILL, 1)
    assert "SIGKILL" in seen.story().title


def test_a_script_that_never_ends_is_stopped_with_all_that_it_started(
    write: Callable[[str], Path],
) -> None:
    code = """
import multiprocessing, subprocess, time
lock = multiprocessing.get_context("spawn").Lock()  # has a name in /dev/shm
subprocess.run(["sh", "-c", "sleep 600 &"], start_new_session=True)  # an orphan
time.sleep(600)
"""
    seen = confine(write(code), deadline=1)
    assert seen.end == "hung"
    assert "main" in seen.timeline.roles


# --- ends that the child can't report


@pytest.mark.parametrize(
    ("case", "end", "exitcode", "where"),
    [
        (confined_cases.main_killed, "main died", -signal.SIGTERM, None),
        (confined_cases.main_crashes, "main died", -signal.SIGSEGV, "crash"),
        (confined_cases.deaf, "hung", None, "wait_in_c"),
    ],
)
def test_a_main_process_that_cannot_tell_of_its_end_is_seen_from_outside(
    case: Any, end: str, exitcode: int | None, where: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confining, "_END", 1)
    seen = confine(case, deadline=1 if end == "hung" else 30)
    assert seen.end == end
    assert seen.confinement is not None
    assert (seen.confinement.from_outside, seen.confinement.exitcode) == (True, exitcode)
    assert "batches" not in str(seen)
    assert [frame.function for frame in seen.traceback][-1:] == ([where] if where else [])
    assert len(seen.timeline.notes) == 1, "main's last moments are missing"
    if case is confined_cases.main_killed:  # killed after a second, so there are samples
        assert {"main", "W0", "W1"} <= set(seen.timeline.roles)
        assert seen.timeline.peak("rss", "main") > 50 * MB
    assert not list(Path.cwd().glob("core*"))


# --- functions that raise or don't return a loader


def test_a_function_that_raises_is_an_observation_and_one_without_a_loader_a_mistake(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # Observe cases as the child does, but in this process.
    monkeypatch.setattr(child, "answer_when_asked", lambda folder: None)
    seen = child.observe_made(str(tmp_path), "confined_cases:unreadable", {}, 5, 0)
    assert seen.end == "raised"
    assert seen.chain[0][0] == "FileNotFoundError"
    assert [frame.function for frame in seen.traceback] == ["unreadable"]
    assert re.findall(r"File \".*\", line \d+, in (\w+)", seen.raw) == ["unreadable"]
    assert seen.raw.endswith("FileNotFoundError: [Errno 2] No such file or directory: 'labels.csv'")
    assert seen.timeline.roles == () and len(seen.timeline.notes) == 1
    with pytest.raises(TypeError, match=r"only_a_dataset\(\).*a Dataset"):
        child.observe_made(str(tmp_path), "confined_cases:only_a_dataset", {}, 5, 0)


# --- limits and targets that are given as arguments


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("memory", value) for value in (0, "300X", True, 1.5e9)),
        ("shm", "-64M"),
        *(("open_files", value) for value in ("64", 3)),
        *(("deadline", value) for value in (0, 1e10, "soon")),
    ],
)
def test_a_bad_limit_is_named(name: str, value: Any) -> None:
    options = {name: value}
    with pytest.raises(ValueError, match=f"^{name} must be .*got {re.escape(repr(value))}"):
        confine(confined_cases.scores, **options)


def at_home(*, workers: int = 2) -> Any:
    raise AssertionError


at_home.__module__ = "__main__"


@pytest.mark.parametrize(
    ("target", "options", "error", "named"),
    [
        (at_home, {}, ValueError, "at_home .*%%writefile"),
        (lambda: None, {}, ValueError, "<lambda>"),
        ("train.sh", {}, ValueError, "train.sh"),
        ("nowhere.py", {}, FileNotFoundError, "nowhere.py"),
        (__file__, {"workers": 2}, TypeError, "options, got workers"),
        (confined_cases.Scores, {}, TypeError, "got type: .*Scores"),
        (7, {}, TypeError, "got int: 7"),
        (confined_cases.scores, {"worker": 2}, TypeError, r"scores\(\) .*'worker'"),
        (confined_cases.scores, {"workers": threading.Lock()}, TypeError, "scores .*pickl"),
    ],
)
def test_a_target_that_a_child_could_not_run_is_refused(
    target: Any, options: dict[str, Any], error: type[Exception], named: str
) -> None:
    with pytest.raises(error, match=named):
        confine(target, **options)


@pytest.mark.parametrize(
    ("text", "count"),
    [("300M", 300 * MB), ("1.5 GB", 1536 * MB), ("2048k", 2 * MB), (64 * MB, 64 * MB)],
)
def test_sizes_are_read_as_people_write_them(text: Any, count: int) -> None:
    assert read_size("shm", text) == count


# --- Stop, and processes that are killed

# A script that makes a temporary file, forks, and then hangs in both processes.
STUCK = "import os, tempfile, time; tempfile.mkstemp(); os.fork(); time.sleep(600)"


def stuck_pair(home: Path) -> list[psutil.Process]:
    pair = [each for each in processes(home, "train.py") if "-c" not in each.cmdline()]
    return pair if len(pair) == 2 else []


def supervisor_of(home: Path) -> psutil.Process:
    (found,) = processes(home, "supervisor_main import main")
    return found


@pytest.mark.parametrize("delay", [0.3, 2.0])
def test_stop_ends_it_at_any_moment(delay: float, write: Callable[[str], Path]) -> None:
    target = confined_cases.stuck if delay > 1 else write(STUCK)  # after 2 s, `stuck` has workers
    timer = threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT))
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        timer.start()
        confine(target, memory="400M", deadline=20)
    assert time.monotonic() - started < delay + 10
    timer.join()


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (supervisor, "_outside_shm"),
        (subprocess, "Popen"),
        (supervisor, "_end"),
        (confining, "observation_of"),
    ],
)
def test_stop_at_a_bad_moment_waits_until_it_does_no_harm(
    module: Any, name: str, monkeypatch: pytest.MonkeyPatch, write: Callable[[str], Path]
) -> None:
    real = getattr(module, name)

    def stopped(*args: Any, **options: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return real(*args, **options)

    monkeypatch.setattr(module, name, stopped)
    with pytest.raises(KeyboardInterrupt):
        confine(write("import time; time.sleep(0.3)"), memory="100M")


@pytest.mark.parametrize("violence", [signal.SIGKILL, signal.SIGTERM])
def test_a_supervisor_that_is_lost_takes_all_with_it(
    violence: signal.Signals, own_home: Path, write: Callable[[str], Path]
) -> None:
    def kill() -> None:
        until(lambda: stuck_pair(own_home))
        supervisor_of(own_home).send_signal(violence)

    thread = threading.Thread(target=kill)
    thread.start()
    with pytest.raises(RuntimeError, match="supervises the child was lost"):
        confine(write(STUCK), memory="100M", deadline=50)
    thread.join()


@contextmanager
def killed_caller(target: Any, memory: str) -> Iterator[None]:
    """Confine a target in another process, and kill that process at the end of the block."""
    pid = os.fork()
    if pid == 0:
        confine(target, memory=memory, deadline=50)
        os._exit(0)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


@pytest.mark.parametrize("with_supervisor", [False, True])
def test_nothing_outlives_a_killed_caller(
    with_supervisor: bool, own_home: Path, write: Callable[[str], Path], folder: Path
) -> None:
    with killed_caller(write(STUCK), "100M"):
        pair = until(lambda: stuck_pair(own_home))
        between = supervisor_of(own_home)
        (main,) = [process for process in pair if process.ppid() == between.pid]
        if with_supervisor:
            between.suspend()  # so that the supervisor has no time to clean up
    if with_supervisor:
        between.kill()
        until(lambda: between not in processes(own_home))
        until(lambda: main not in processes(own_home))
        (left,) = folder.iterdir()
        shutil.rmtree(left)  # because the killed supervisor couldn't
        confine(write("pass"), memory="100M")  # the next run removes the cgroup


@pytest.mark.thorough  # starts an interpreter that imports torch
def test_workers_of_a_fork_server_do_not_outlive_a_killed_caller(own_home: Path) -> None:
    with killed_caller(confined_cases.served, "1G"):
        until(lambda: len(processes(own_home, "pt_data_worker")) == 2)
