"""Starting the keeper, and waiting for what it has to tell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, Final

from dltutor.observation.confinement.keeper import Report, Task
from dltutor.observation.interrupts import Interrupts
from dltutor.observation.memory.recorder import Recorder
from dltutor.observation.memory.timeline import Timeline
from dltutor.observation.texts import fate
from dltutor.system import cgroups
from dltutor.system.processes import end_strays

_PATIENCE: Final = 20.0  # seconds for the keeper to end all that it keeps

# The keeper does without site-packages, and without torch, which the packages import.
_KEEPER: Final = """
import json, sys, types
task, folders, path = map(json.loads, sys.argv[1:])
for name in folders:
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [folders[name]]
sys.path += path
from dltutor.observation.confinement.keeper import main
main(task)
"""


class Keeper:
    """A running keeper.

    Args:
        process: It.
        errors: The file in which it writes if it fails.
    """

    def __init__(self, process: subprocess.Popen[bytes], errors: Path) -> None:
        self._process = process
        self._errors = errors

    def wait(self, interrupts: Interrupts, *, record: bool) -> tuple[Report, Timeline | None]:
        """Wait until the child has ended and everything of it is gone.

        Args:
            interrupts: Let through while it waits.
            record: Record the memory of the child meanwhile.

        Returns:
            The report, and the timeline if there was a child to record.

        Raises:
            RuntimeError: The keeper itself was killed.
        """
        line = self._read(interrupts)
        timeline = None
        if "started" in line:
            recorder = _recorder(line["started"]) if record else None
            try:
                line = self._read(interrupts)
            finally:
                if recorder is not None:
                    timeline = recorder.stop()
        return Report(**line), timeline

    def _read(self, interrupts: Interrupts) -> dict[str, Any]:
        assert self._process.stdout is not None
        with interrupts.let_through():
            line = self._process.stdout.readline()
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        said = self._errors.read_text().strip().splitlines()[-1:]
        why = ": ".join([fate(self._process.wait(_PATIENCE)), *said])
        raise RuntimeError(f"the process that keeps the child interpreter was lost: it {why}")


@contextmanager
def keeper(task: Task) -> Iterator[Keeper]:
    """Start the keeper; at the end of the block nothing of it and of its child is left."""
    observation = Path(__file__).parents[1]
    folders = {"dltutor": str(observation.parent), "dltutor.observation": str(observation)}
    arguments = [json.dumps(each) for each in (asdict(task), folders, sys.path)]
    errors = Path(task.folder) / "keeper"
    with errors.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _KEEPER, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=file,
            # What the child leaves in its temporary folder goes with ours.
            env={**os.environ, "TMPDIR": task.folder, "PYTHONUNBUFFERED": "1"},
            # Stop, which interrupts the whole process group, must not reach it.
            start_new_session=True,
        )
    try:
        yield Keeper(process, errors)
    finally:
        _end(process, task.folder)


def _end(process: subprocess.Popen[bytes], folder: str) -> None:
    pipes: list[IO[bytes] | None] = [process.stdin, process.stdout]
    for pipe in pipes:
        if pipe is not None:
            pipe.close()  # a closed input tells it to end
    with suppress(subprocess.TimeoutExpired):
        process.wait(_PATIENCE)
    if process.returncode is None:
        process.kill()
        process.wait()
    if process.returncode != 0:  # killed or stopped: perhaps it did not tidy up
        end_strays(folder)
        cgroups.remove_abandoned()


def _recorder(pid: int) -> Recorder | None:
    try:
        recorder = Recorder(pid=pid)
    except ValueError:  # it has ended already
        return None
    recorder.start()
    return recorder
