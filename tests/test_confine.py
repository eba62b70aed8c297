"""confine(): real limits in a child interpreter, honest about those it cannot set."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import confined_cases
import mounting
import psutil
import pytest
import unprivileged

from dltutor.observation.confinement import supervisor
from dltutor.observation.confinement.asked_limits import ResourceLimits
from dltutor.observation.confinement.confining import CannotConfine, confine
from dltutor.system import cgroups

confine_module = sys.modules["dltutor.observation.confinement.confining"]

pytestmark = pytest.mark.timeout(60, method="thread")

MB = 1 << 20
GRACE = 5.0
"""Seconds for what is ending to be gone."""


def processes(home: Path) -> list[psutil.Process]:
    """Every process that was started from this test, whoever its parent is by now."""
    found = []
    for process in psutil.process_iter():
        try:
            ours = process.environ().get("DLTUTOR_HOME") == str(home)
            if ours and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def named(home: Path, name: str) -> list[psutil.Process]:
    found = []
    for process in processes(home):
        with suppress(psutil.Error):  # it may end, or be a zombie, between two looks
            if name in " ".join(process.cmdline()):
                found.append(process)
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
    own_home: Path, nothing_left_behind: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """The folder for temporary files. Nothing of a confined run may be left anywhere."""
    monkeypatch.delenv("DLTUTOR_WATCHDOG", raising=False)
    short = Path(tempfile.mkdtemp(prefix="c-", dir="/tmp"))  # names of sockets must be short
    monkeypatch.setattr(tempfile, "tempdir", str(short))
    monkeypatch.setenv("TMPDIR", str(short))
    short.chmod(0o1777)
    mounts = Path("/proc/self/mountinfo").read_text()
    before = set(processes(own_home))  # multiprocessing's own

    def left_over() -> list[Any]:
        return [*(set(processes(own_home)) - before), *abandoned_groups(), *short.iterdir()]

    yield short
    until = time.monotonic() + GRACE
    while (left := left_over()) and time.monotonic() < until:
        time.sleep(0.05)
    shutil.rmtree(short)
    assert not left, f"left behind: {left}"
    assert Path("/proc/self/mountinfo").read_text() == mounts


@pytest.fixture
def cgroup() -> None:
    """A test that needs a memory cgroup."""
    try:
        cgroups.make(64 * MB).remove()
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error}")


def until(condition: Callable[[], Any], seconds: float = 40) -> Any:
    """Wait for something to be there."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it never came"
        time.sleep(0.02)
    return found


# --- limits

LIMIT = "500M"
"""More than main takes, also with a torch for CUDA: the kernel ends who has the most."""


@pytest.mark.usefixtures("cgroup")
def test_a_worker_that_takes_too_much_is_killed_by_the_kernel_which_says_so() -> None:
    seen = confine(confined_cases.growing, memory=LIMIT)
    assert seen.end == "worker died", f"{seen}\n{seen.confinement}"
    died = seen.workers[0]
    assert (died.name, died.signal) == ("W0", "SIGKILL")
    assert seen.confinement is not None
    # While W0's memory goes back, W1 may be in need, and is killed as well.
    assert 1 <= seen.confinement.oom_kills <= 2
    assert seen.confinement.peak == 500 * MB
    assert not seen.confinement.stand_in
    assert "memory 500 MB: enforced by the kernel, with a cgroup" in str(seen)
    assert seen.timeline.limits.cgroup == 500 * MB
    assert any("SIGKILL" in life.died for life in seen.timeline.processes)
    if not os.access("/dev/kmsg", os.R_OK):
        pytest.skip("all but the kernel's log, which may not be read here")
    lines = seen.confinement.kernel_log or ()
    assert len(lines) == seen.confinement.oom_kills
    killed = f"Memory cgroup out of memory: Killed process {died.name} (pt_data_worker)"
    (line,) = (line for line in lines if "process W0 " in line)
    assert line.startswith(f"{killed} total-vm:")
    assert f"{killed}\n" in f"{seen}\n"
    for worker in seen.workers:  # whoever was killed is told as killed
        assert (worker.signal == "SIGKILL") == (f"process {worker.name} " in str(lines))


def test_within_its_limits_a_loader_finishes_as_ever(cgroup: None) -> None:
    seen = confine(confined_cases.modest, memory="400M", shm="32M", open_files=64)
    assert (seen.end, seen.batches, seen.samples) == ("finished", 4, 16)
    assert seen.confinement is not None
    assert seen.confinement.oom_kills == 0
    assert 0 < (seen.confinement.peak or 0) < 400 * MB
    assert seen.timeline.limits.shm == 32 * MB
    assert "main" in seen.timeline.roles
    story = str(seen)
    assert "/dev/shm 32 MB: one of its own, in a mount namespace" in story
    assert "open files 64 for each process: enforced by the kernel, with RLIMIT_NOFILE" in story
    assert "OOM kills, by the cgroup's own count: 0" in story
    assert str(pickle.loads(pickle.dumps(seen))) == story


@pytest.mark.usefixtures("cgroup")
def test_a_function_that_returns_a_loader_is_confined_too() -> None:
    seen = confine(confined_cases.growing_loader, memory=LIMIT)
    assert (seen.end, seen.workers[0].signal) == ("worker died", "SIGKILL")
    assert seen.confinement is not None
    # Until W0 has given its memory back, the kernel may kill another one.
    killed = sum(worker.signal == "SIGKILL" for worker in seen.workers)
    assert seen.confinement.oom_kills == killed >= 1


@pytest.mark.thorough  # an interpreter with torch
def test_without_limits_it_is_a_child_interpreter_that_prints_nothing(
    capfd: pytest.CaptureFixture[str],
) -> None:
    seen = confine(confined_cases.only_a_loader, workers=1)
    assert (seen.end, seen.samples) == ("finished", 16)
    assert seen.confinement is not None
    assert seen.confinement.limits == ()
    assert "limits" not in str(seen)
    assert capfd.readouterr() == ("", "")


def test_a_full_dev_shm_is_reported_with_the_limit_that_it_had() -> None:
    try:
        seen = confine(confined_cases.large_batches, shm="64M")
    except CannotConfine as refused:
        assert mounting.why_not(), refused
        pytest.skip(str(refused))
    check_full_shm(seen.end, seen.chain[0][1], str(seen))


def check_full_shm(end: str, message: str, story: str) -> None:
    assert end == "raised"
    assert "No space left on device (28)" in message
    assert "/dev/shm 64 MB: one of its own, in a mount namespace" in story


AS_NOBODY = f"""
import json, os, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import confined_cases
from dltutor.lessons.engine.memory import room
from dltutor.observation.confinement.confining import CannotConfine, confine
facts = {{"user": os.geteuid()}}
try:
    seen = confine(confined_cases.large_batches, shm="64M")
    facts["shm"] = seen.end, seen.chain[0][1], str(seen)
except CannotConfine as refused:
    facts["refused"] = str(refused)
# torch's build for CUDA takes 400 MB before anything grows.
seen = confine(confined_cases.growing, memory=room(200, workers=2))
facts["memory"] = seen.end, seen.confinement.stand_in, str(seen)
try:
    confine(confined_cases.modest, open_files=10**7)
except CannotConfine as refused:
    facts["open files"] = str(refused)
print(json.dumps(facts))
"""


@pytest.mark.timeout(120, method="thread")  # four interpreters import torch, one after the other
def test_a_user_without_privileges_gets_dev_shm_and_a_watchdog_that_says_what_it_is() -> None:
    done = unprivileged.run(AS_NOBODY, timeout=100)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["user"] != 0
    if "shm" in facts:
        check_full_shm(*facts["shm"])
    else:  # no user namespaces: then it is refused, and nothing pretends
        assert "a /dev/shm of 64 MB for the child alone is not permitted here" in facts["refused"]
    end, stand_in, story = facts["memory"]
    assert end == "worker died"
    if stand_in:  # else the user may make cgroups
        assert "MB: not by the kernel" in story
        assert "a watchdog that sends the same SIGKILL stood in for the OOM killer" in story
        assert "OOM kills" not in story
    assert "open_files: 10000000 are not permitted here" in facts["open files"]


NOT_PERMITTED = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import confined_cases
from dltutor.observation.confinement.confining import CannotConfine, confine
try:
    confine(confined_cases.modest, shm="32M")
except CannotConfine as refused:
    print(refused)
"""


def test_where_nothing_can_be_mounted_a_dev_shm_is_refused() -> None:
    done = unprivileged.run_without_namespaces(NOT_PERMITTED, timeout=50)
    assert done.stdout.startswith(
        "shm: a /dev/shm of 32 MB for the child alone is not permitted here (unshare: "
    ), done.stderr


def test_too_many_open_files_are_refused_to_main_where_it_keeps_its_batches() -> None:
    seen = confine(confined_cases.kept_batches, open_files=64)
    assert seen.end == "raised"
    assert "Too many open files" in seen.chain[0][1]
    assert "in keep_all" in str(seen)
    assert 0 < seen.batches < 64


def test_the_watchdog_kills_the_largest_worker_and_is_never_taken_for_the_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DLTUTOR_WATCHDOG", "1")
    seen = confine(confined_cases.growing, memory="400M")
    assert seen.end == "worker died"
    died = seen.workers[0]
    assert (died.name, died.signal) == ("W0", "SIGKILL")
    assert seen.confinement is not None
    assert seen.confinement.stand_in
    assert seen.confinement.watchdog == (died.name,)
    assert seen.confinement.oom_kills is None
    assert seen.confinement.kernel_log is None
    assert f"watchdog  sent SIGKILL to {died.name}" in str(seen)
    assert "enforced by the kernel" not in str(seen)


@pytest.mark.thorough  # an interpreter with torch
def test_the_watchdog_lets_a_run_within_its_limit_finish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLTUTOR_WATCHDOG", "1")
    seen = confine(confined_cases.modest, memory="1G")
    assert seen.end == "finished"
    assert "watchdog  sent SIGKILL to nobody" in str(seen)


# --- scripts


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def write(code: str) -> Path:
        (tmp_path / "train.py").write_text(code)
        return tmp_path / "train.py"

    return write


def test_a_script_runs_as_main_and_what_it_wrote_is_kept(write: Callable[[str], Path]) -> None:
    seen = confine(write("import sys; print(__name__); print('warned', file=sys.stderr)"))
    assert seen.end == "finished"
    assert seen.stderr == "__main__\nwarned\n"
    assert seen.confinement is not None
    assert seen.confinement.exitcode == 0
    assert "batches" not in str(seen)


def test_a_script_that_raises_ends_with_its_exit_code(write: Callable[[str], Path]) -> None:
    seen = confine(str(write("print('epoch 1')\n1 / 0\n")))
    assert seen.end == "raised"
    assert str(seen).startswith("Ended with exit code 1\n")
    assert "ZeroDivisionError: division by zero" in str(seen)


@pytest.mark.usefixtures("cgroup")
def test_a_script_that_takes_too_much_is_killed_by_the_kernel(write: Callable[[str], Path]) -> None:
    seen = confine(write(f"rows = [bytearray(b'x') * {MB} for _ in range(500)]"), memory="100M")
    assert seen.end == "main died"
    assert str(seen).startswith("Main died: killed by SIGKILL (exit code -9)\n")
    assert seen.confinement is not None
    assert seen.confinement.oom_kills == 1


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
    assert str(seen).startswith("Hung: stopped at its deadline of 1 s")
    assert "main" in seen.timeline.roles


@pytest.mark.skipif(bool(mounting.why_not()), reason=f"may not mount: {mounting.why_not()}")
def test_a_script_sees_the_dev_shm_that_its_timeline_does_not_show(
    write: Callable[[str], Path],
) -> None:
    code = "import os; s = os.statvfs('/dev/shm'); print(s.f_blocks * s.f_frsize)"
    seen = confine(write(code), shm="8M")
    assert int(seen.stderr) == 8 * MB
    assert seen.timeline.limits.shm == 8 * MB
    assert "the script's own /dev/shm could not be sampled" in seen.timeline.notes


# --- ends that the child cannot tell of


def test_a_main_process_that_dies_is_told_of_with_the_memory_it_had() -> None:
    seen = confine(confined_cases.main_killed)
    assert seen.end == "main died"
    assert str(seen) == "Main died: killed by SIGTERM (exit code -15)"
    assert {"main", "W0", "W1"} <= set(seen.timeline.roles)
    assert seen.timeline.peak("rss", "main") > 50 * MB
    assert seen.timeline.notes == ("main's last moments were not sampled",)


def test_a_main_process_that_crashes_says_where_it_stood() -> None:
    seen = confine(confined_cases.main_crashes)
    assert seen.end == "main died"
    assert str(seen).startswith("Main died: killed by SIGSEGV (exit code -11)")
    assert seen.traceback[-1].function == "crash"
    assert not list(Path.cwd().glob("core*"))


def test_a_main_process_that_is_deaf_to_its_deadline_is_stopped_and_says_where_it_stood(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(confine_module, "_END", 1)
    seen = confine(confined_cases.deaf, deadline=2)
    assert seen.end == "hung"
    assert seen.traceback[-1].function == "wait_in_c"


def test_a_case_that_cannot_be_built_is_an_observation_too() -> None:
    seen = confine(confined_cases.unreadable)
    assert seen.end == "raised"
    assert seen.chain[0][0] == "FileNotFoundError"
    assert seen.traceback[-1].function == "unreadable"
    assert seen.timeline.notes == ("the loader could not be built",)


def test_a_target_that_returns_no_loader_is_a_mistake_of_the_caller() -> None:
    message = r"a DataLoader or a Case, only_a_dataset\(\) does not: .*a Dataset"
    with pytest.raises(TypeError, match=message):
        confine(confined_cases.only_a_dataset)


# --- bad input


def at_home(*, workers: int = 2) -> Any:
    raise AssertionError


at_home.__module__ = "__main__"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"memory": 0}, "memory must be bytes, as a number or as text such as .*, got 0"),
        ({"memory": "300X"}, "memory must be bytes, .*, got '300X'"),
        ({"memory": True}, "memory must be bytes, .*, got True"),
        ({"memory": 1.5e9}, "memory must be bytes, .*, got 1500000000.0"),
        ({"shm": "-64M"}, "shm must be bytes, .*, got '-64M'"),
        ({"open_files": "64"}, "open_files must be a whole number of 16 or more, got '64'"),
        ({"open_files": 3}, "open_files must be a whole number of 16 or more, got 3"),
        ({"deadline": 0}, "deadline must be a positive number of seconds, got 0"),
        ({"deadline": 1e10}, "deadline must be a positive number of seconds, got 1"),
        ({"deadline": "soon"}, "deadline must be a positive number of seconds, got 'soon'"),
    ],
)
def test_a_bad_limit_is_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        confine(confined_cases.modest, **arguments)


@pytest.mark.parametrize(
    ("target", "options", "error", "message"),
    [
        (at_home, {}, ValueError, r"got at_home of your notebook .*%%writefile my_loader.py"),
        (lambda: None, {}, ValueError, "define it at the top level of a file"),
        ("train.sh", {}, ValueError, 'a script that ends in ".py", got train.sh'),
        ("nowhere.py", {}, FileNotFoundError, "a script that exists, got nowhere.py"),
        (__file__, {"workers": 2}, TypeError, "a script takes no options, got workers"),
        (confined_cases.Samples, {}, TypeError, "a function that returns a DataLoader or a Case"),
        (7, {}, TypeError, "a function that returns a DataLoader .* got int: 7"),
        (confined_cases.modest, {"worker": 2}, TypeError, r"modest\(\) cannot be called"),
        (confined_cases.modest, {"workers": threading.Lock()}, TypeError, "must be picklable"),
    ],
)
def test_a_target_that_a_child_could_not_run_is_refused(
    target: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        confine(target, **options)


@pytest.mark.parametrize(
    ("text", "count"),
    [("300M", 300 * MB), ("1.5 GB", 1536 * MB), ("2048k", 2 * MB), (64 * MB, 64 * MB)],
)
def test_sizes_are_read_as_people_write_them(text: Any, count: int) -> None:
    assert ResourceLimits.read(None, text, None).shm == count


def test_outside_the_main_thread_it_says_why_not() -> None:
    caught: list[BaseException] = []

    def run() -> None:
        try:
            confine(confined_cases.modest)
        except RuntimeError as error:
            caught.append(error)

    thread = threading.Thread(target=run, name="elsewhere")
    thread.start()
    thread.join()
    assert "must be called in the main thread" in str(caught[0])


# --- interrupts and violence


@pytest.mark.parametrize("delay", [0.02, 0.3, 2.0])
def test_stop_ends_it_at_any_moment(delay: float) -> None:
    timer = threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT))
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        timer.start()
        confine(confined_cases.stuck, memory="400M", deadline=20)
    assert time.monotonic() - started < delay + 10
    timer.join()


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (supervisor, "_outside_shm"),
        (supervisor.subprocess, "Popen"),
        (supervisor, "_end"),
        (confine_module, "observation_of"),
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


# A main process that is stuck, with a child that is stuck too and a temporary file.
STUCK = "import os, tempfile, time; tempfile.mkstemp(); os.fork(); time.sleep(600)"


def stuck_pair(home: Path) -> list[psutil.Process]:
    pair = [process for process in named(home, "train.py") if "-c" not in process.cmdline()]
    return pair if len(pair) == 2 else []


@pytest.mark.parametrize("violence", [signal.SIGKILL, signal.SIGTERM])
def test_a_supervisor_that_is_lost_takes_all_with_it(
    violence: signal.Signals, own_home: Path, write: Callable[[str], Path]
) -> None:
    def kill() -> None:
        until(lambda: stuck_pair(own_home))
        (supervisor,) = named(own_home, "supervisor_main import main")
        supervisor.send_signal(violence)

    thread = threading.Thread(target=kill)
    thread.start()
    with pytest.raises(RuntimeError, match="supervises the child was lost"):
        confine(write(STUCK), memory="100M", deadline=50)
    thread.join()


CALLER = """
import sys
from dltutor.observation.confinement.confining import confine
confine(sys.argv[1], memory="100M", deadline=50)
"""


@pytest.mark.parametrize("with_supervisor", [False, True])
def test_nothing_outlives_a_killed_caller(
    with_supervisor: bool, own_home: Path, write: Callable[[str], Path], folder: Path
) -> None:
    with subprocess.Popen([sys.executable, "-c", CALLER, write(STUCK)]) as caller:
        pair = until(lambda: stuck_pair(own_home))
        (supervisor,) = named(own_home, "supervisor_main import main")
        (main,) = [process for process in pair if process.ppid() == supervisor.pid]
        if with_supervisor:
            supervisor.suspend()  # it must not have the time to tidy up
        caller.kill()
        caller.wait(10)
    if with_supervisor:
        supervisor.kill()
        until(lambda: not named(own_home, "supervisor_main import main"))
        until(lambda: main not in processes(own_home))
        (left,) = folder.iterdir()
        shutil.rmtree(left)  # nobody is there to do it
        confine(write("pass"), memory="100M")  # the next one removes the group
