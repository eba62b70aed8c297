"""Mark a worker, redirect its stderr to a file, and have it answer when we ask for its stack.

The worker runs a WorkerSetup before its `worker_init_fn`, under every start method.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import current_process
from multiprocessing.util import get_temp_dir
from pathlib import Path
from typing import Any, TextIO

from dltutor.observation import own_mappings
from dltutor.observation.stacks import answer_when_asked
from dltutor.system import marks


@dataclass(frozen=True)
class WorkerSetup:
    """A function that prepares a worker, for `WorkerInit` to call in the worker.

    The folder gets the worker's stacks, the file `stderr`, and a link to the worker's temporary
    folder. The worker and everything that it starts get the mark (see `dltutor.system.marks`),
    unless the mark is 0. If `private` is true, what the worker writes to a file that it maps stays
    in the worker (see `dltutor.observation.own_mappings`).
    """

    folder: str
    mark: int
    private: bool

    def __call__(self, worker_id: int) -> None:
        marks.put(self.mark)
        if self.private:
            own_mappings.keep_private()
        _point_2_at(Path(self.folder) / "stderr")
        # In a notebook, `sys.stderr` isn't descriptor 2, so a forked worker's output would appear
        # in the notebook later.
        sys.stderr = _text(_Kept(2, "w", closefd=False))
        answer_when_asked(self.folder)
        inherited = _temporary_folder()
        mine = get_temp_dir()
        if mine != inherited:
            (Path(self.folder) / f"sockets-{os.getpid()}").symlink_to(mine)


@contextmanager
def stderr_for_workers(path: Path) -> Iterator[None]:
    """Point descriptor 2 at a file while workers start, so that they inherit the file.

    The file gets what a worker writes before its `worker_init_fn` runs, for example that it
    couldn't unpickle its dataset. What this process itself prints to `sys.stderr` still reaches the
    screen.
    """
    screen = os.dup(2)
    ours = sys.stderr
    if _writes_to_2(ours):
        sys.stderr = _text(io.FileIO(screen, "w", closefd=False))
    _point_2_at(path)
    try:
        yield
    finally:
        os.dup2(screen, 2)
        sys.stderr = ours
        os.close(screen)


def remove_temporary_folders(folder: str) -> None:
    """Remove the folders that killed workers left behind in the machine's temporary folder.

    multiprocessing makes a folder there for the sockets over which a worker passes shared memory.
    The worker removes the folder when it ends, unless it's killed. A WorkerSetup has linked the
    workers' folders in `folder`.
    """
    for link in Path(folder).glob("sockets-*"):
        shutil.rmtree(link.resolve(), ignore_errors=True)


@contextmanager
def temporary_folder_shown(folder: str) -> Iterator[None]:
    """Make a link, in `folder`, to the temporary folder that multiprocessing may make in the block.

    multiprocessing makes a folder for a fork server's socket, and removes it when this process
    ends. If this process is killed, the link shows the memory sampler what to remove.
    """
    before = _temporary_folder()
    try:
        yield
    finally:
        if (mine := _temporary_folder()) and not before:
            (Path(folder) / "main").symlink_to(mine)


def _temporary_folder() -> str | None:
    found: str | None = getattr(current_process(), "_config", {}).get("tempdir")
    return found


def _writes_to_2(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.fileno() == 2
    except (OSError, ValueError):
        return False


def _point_2_at(path: Path) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 2)
    os.close(descriptor)


class _Kept(io.FileIO):
    """A stream that drops a worker's output if the disk is full, so that the worker carries on."""

    def write(self, text: Any) -> int:
        try:
            return super().write(text)
        except OSError:
            return len(text)


def _text(raw: io.FileIO) -> TextIO:
    return io.TextIOWrapper(raw, errors="backslashreplace", write_through=True)
