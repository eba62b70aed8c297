"""The budget on trial: measured in an interpreter of its own, where no kernel can come to harm.

A button's callback may run in any thread of a kernel, and `observe` needs the main one. A child
has a main thread in any case, and its figures do not depend on what a notebook did before.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import psutil

from dltutor.observation.budget.prediction import Footprint, Prediction
from dltutor.observation.budget.room import room
from dltutor.observation.budget.settings import Settings, check_start_method
from dltutor.system.processes import die_with_parent

if TYPE_CHECKING:
    from dltutor.observation.budget.filled import Filled
    from dltutor.observation.budget.usage import Usage

_START: Final = 60.0  # seconds for the child to import torch, and to tidy up
_TIDY: Final = 5.0  # seconds for it to tidy up when you press Stop
_FOOTPRINT: Final = 60.0  # seconds for a worker with nothing to do
_SAID: Final = 2000  # characters of what it wrote, the last ones
_BOOT: Final = (
    "import sys; folder, parent, *sys.path = sys.argv[1:]; "
    "from dltutor.observation.budget.trial import main; main(folder, int(parent))"
)

_footprints: dict[str, Footprint] = {}


@dataclass(frozen=True)
class Trial:
    """A prediction, and what a real run held.

    Args:
        prediction: What was to be tried.
        filled: The run.
    """

    prediction: Prediction
    filled: Filled

    @property
    def steady(self) -> Usage:
        """With full queues, when the loop held its last batch."""
        return self.filled.looks[-1]

    @property
    def peak_shared(self) -> int | None:
        """The most in `/dev/shm` at any look, in bytes; None where there is none."""
        found = [look.shared for look in self.filled.looks if look.shared is not None]
        return max(found, default=None)

    @property
    def peak(self) -> Usage:
        """The look with the most memory in all."""
        return max(self.filled.looks, key=lambda look: look.total)


def footprint(start_method: str) -> Footprint:
    """Measure what main and a worker take up: a real loader with one worker and empty samples.

    It is done once for each start method, in a child interpreter, and takes a few seconds.

    Args:
        start_method: fork, spawn or forkserver.

    Raises:
        ValueError: There is no such start method here.
        RuntimeError: The worker did not do its work.
    """
    check_start_method(start_method)
    if start_method not in _footprints:
        filled = _in_child(Settings(1, 1, 1, 1, start_method), _FOOTPRINT)
        before, then = filled.before, filled.looks[-1]
        worker = then.processes - then.once - before.processes
        _footprints[start_method] = Footprint(start_method, before.processes, then.once, worker)
    return _footprints[start_method]


def trial(prediction: Prediction, *, deadline: float = 60) -> Trial:
    """Run for real what was predicted, on synthetic samples, in a child interpreter.

    The loop takes a batch only when all others are made, so the queues are full.

    Args:
        prediction: What to try.
        deadline: Seconds for the run, without the start of the child.

    Returns:
        The Trial.

    Raises:
        ValueError: It would take more than is safe here now, or the deadline is not positive.
        RuntimeError: The run did not finish.
        KeyboardInterrupt: You pressed Stop; everything is cleaned up first.
    """
    number = isinstance(deadline, (int, float)) and not isinstance(deadline, bool)
    if not (number and 0 < deadline <= threading.TIMEOUT_MAX):
        raise ValueError(f"deadline must be a positive number of seconds, got {deadline!r}")
    if refusal := prediction.refusal(room()):
        raise ValueError(refusal)
    return Trial(prediction, _in_child(prediction.settings, deadline))


def _in_child(settings: Settings, deadline: float) -> Filled:
    with TemporaryDirectory(prefix="dltutor-") as name:
        folder = Path(name)
        (folder / "task").write_bytes(pickle.dumps((settings, deadline)))
        with (folder / "said").open("wb") as said:
            # A session of its own: Stop does not reach it past us, and it can be ended as a whole.
            child = subprocess.Popen(
                [sys.executable, "-c", _BOOT, name, str(os.getpid()), *sys.path],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                env={**os.environ, "TMPDIR": name},
                start_new_session=True,
            )
        try:
            child.wait(deadline + _START)
        except subprocess.TimeoutExpired:
            raise RuntimeError("the run did not finish: its process had to be killed") from None
        finally:
            _end(child)
        return _result(folder, child.returncode)


def _end(child: subprocess.Popen[bytes]) -> None:
    try:
        if child.poll() is None:
            child.send_signal(signal.SIGINT)  # observe tidies up
            with suppress(subprocess.TimeoutExpired):
                child.wait(_TIDY)
    finally:
        if child.returncode != 0:
            _kill_session(child.pid)
        child.wait()


def _kill_session(leader: int) -> None:
    left = [process for process in psutil.process_iter() if _session(process.pid) == leader]
    for process in left:
        with suppress(psutil.Error):
            # This one ends when all others have, and removes the semaphores of their queues.
            if not any("resource_tracker" in word for word in process.cmdline()):
                process.kill()
    for process in left:  # killed between making a segment and unlinking it
        for segment in Path("/dev/shm").glob(f"torch_{process.pid}_*"):
            segment.unlink(missing_ok=True)


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:  # gone, or somebody else's
        return 0


def _result(folder: Path, exitcode: int) -> Filled:
    if not (folder / "result").exists():
        said = (folder / "said").read_text(errors="replace")[-_SAID:]
        raise RuntimeError(f"the run ended with exit code {exitcode}.\n{said}".strip())
    result: Filled | str = pickle.loads((folder / "result").read_bytes())
    if isinstance(result, str):
        raise RuntimeError(result)
    return result


def main(folder: str, parent: int) -> None:
    """What the child does."""
    die_with_parent(parent)
    with suppress(OSError):  # if memory runs out after all, it is not the kernel that goes
        Path("/proc/self/oom_score_adj").write_text("1000")
    from dltutor.observation.budget.filled import fill

    result: Any
    settings, deadline = pickle.loads((Path(folder) / "task").read_bytes())
    try:
        result = fill(settings, deadline)
    except RuntimeError as error:
        result = str(error)
    (Path(folder) / "result").write_bytes(pickle.dumps(result))
