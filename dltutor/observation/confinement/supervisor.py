"""Run a child interpreter, with a supervisor process between the child and this process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from dltutor.observation.confinement.task import Report, Task
from dltutor.observation.interrupts import Interrupts, interrupts_held
from dltutor.observation.memory.recorder import Recorder
from dltutor.observation.memory.timeline import Timeline
from dltutor.observation.texts import fate
from dltutor.system import cgroups
from dltutor.system.processes import end

_PATIENCE: Final = 20.0  # seconds to wait for the supervisor to end everything that it supervises

# Importing `dltutor.observation` would import torch, which the supervisor doesn't need. So replace
# two of our packages with empty modules that have only a path.
_SUPERVISOR: Final = """
import json, sys, types
task, folders, path = map(json.loads, sys.argv[1:])
for name in folders:
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [folders[name]]
sys.path += path
from dltutor.observation.confinement.supervisor_main import main
main(task)
"""
# Turn off garbage collection while the child imports torch, because a collection would find nothing
# and make the import slower.
_CHILD: Final = """
import gc, sys
from importlib import import_module
gc.disable()
name, folder, *sys.path = sys.argv[1:]
module = import_module(name)
gc.enable()
module.main(folder)
"""


def argv_of(module: str, folder: Path) -> list[str]:
    """Return the command line of a child that calls a module's `main(folder)`.

    The child gets this process's `sys.path`, so that it finds the same modules.
    """
    return [sys.executable, "-X", "faulthandler", "-c", _CHILD, module, str(folder), *sys.path]


@contextmanager
def workspace() -> Iterator[tuple[Path, Interrupts]]:
    """Make a folder for everything that a child writes, and remove it at the end of the block.

    Also hold interrupts back in the block.

    Yields:
        The folder, and the Interrupts that can let interrupts through.
    """
    with (
        interrupts_held() as interrupts,
        tempfile.TemporaryDirectory(prefix="dltutor-child-", dir=_outside_shm()) as name,
    ):
        yield Path(name), interrupts


def _outside_shm() -> str | None:
    # The child may get its own /dev/shm, where it wouldn't find a folder from our /dev/shm.
    return "/tmp" if os.path.realpath(tempfile.gettempdir()).startswith("/dev/shm") else None


def run(
    task: Task, interrupts: Interrupts, *, record: bool = False
) -> tuple[Report, Timeline | None]:
    """Have a supervisor run a child, then end both and everything that they started.

    Stop gets through while this function waits. If `record` is True, record the child's memory.

    Returns:
        The report, and the timeline of the child's memory, which is None without `record` or if the
        child couldn't start.

    Raises:
        RuntimeError: The supervisor ended without a report, for example because it was killed.
    """
    observation = Path(__file__).parents[1]
    folders = {"dltutor": str(observation.parent), "dltutor.observation": str(observation)}
    arguments = [json.dumps(each) for each in (asdict(task), folders, sys.path)]
    errors = Path(task.folder) / "supervisor"
    with errors.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _SUPERVISOR, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=file,
            # Put the child's temporary files in our folder, which the caller removes.
            env={**os.environ, "TMPDIR": task.folder, "PYTHONUNBUFFERED": "1"},
            # Stop, which interrupts the whole process group, must not reach the supervisor.
            start_new_session=True,
        )
    recorder = None
    with ExitStack() as clean_up:
        clean_up.callback(_end, process, task.mark)
        line = _read(process, errors, interrupts)
        if "started" in line:
            if record:
                recorder = Recorder(pid=line["started"])
                recorder.start()
                clean_up.callback(recorder.stop)
            line = _read(process, errors, interrupts)
        return Report(**line), recorder.stop() if recorder else None


def _read(process: subprocess.Popen[bytes], errors: Path, interrupts: Interrupts) -> dict[str, Any]:
    assert process.stdout is not None
    with interrupts.let_through():
        line = process.stdout.readline()
    if line:
        answer: dict[str, Any] = json.loads(line)
        return answer
    last_line = errors.read_text().strip().splitlines()[-1:]
    why = ": ".join([fate(process.wait(_PATIENCE)), *last_line])
    raise RuntimeError(f"the process that supervises the child was lost: {why}")


def _end(process: subprocess.Popen[bytes], mark: int) -> None:
    with suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=_PATIENCE)  # closes the supervisor's input, so that it ends
    if process.returncode is None:
        process.kill()
        process.communicate()
    if process.returncode != 0:  # a killed supervisor may not have cleaned up
        end(mark=mark)
        cgroups.remove_abandoned()
