"""A worker process dies, because something kills it, native code crashes, or the process exits.

Symptom: `RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed.`, `Segmentation
fault`, `Aborted`, `Terminated`, or `Bus error`. Or `RuntimeError: DataLoader worker (pid(s) 4711)
exited unexpectedly`, with the signal or the exit code in the exception above it ("The above
exception was the direct cause").

NOTE [ What The Signal Says ]

`Killed` is SIGKILL, which no program can catch: it comes from the OOM killer, a container's memory
limit, a batch system, or a person. `Segmentation fault` and `Aborted` come from native code: a
decoder that met a bad file, or a library that doesn't survive a fork. A positive exit code means
that a native library called `exit`, that your code called `sys.exit` (see `misleading_exit`), or
that an exception reached the top of the process, with a traceback on stderr. `Bus error` means that
memory behind a mapped file wasn't there, because `/dev/shm` was full or a file was cut short.

Linux tells the main process with SIGCHLD that a worker died, and torch's handler raises wherever
main happens to be, even in the model's forward pass. So the traceback says nothing about the cause.
Under forkserver, main gets no such signal, and the handler never raises in a thread other than the
main one. In these two cases, torch checks after 5 s without a batch, and what killed the worker is
lost (see `lost_cause`). If tensors from the dead worker are on their way, fetching them may fail
first, with `ConnectionResetError` or `ConnectionRefusedError` (see `misleading_exit`). Nothing
names the sample.

Fix: for `Killed`, find out whether memory ran out (read `dmesg -T`, or `oom_kill` in the cgroup's
`memory.events`, which is `memory.oom_control` under version 1), and use less. To name the sample,
have each worker write every index to a file before it decodes, because the file survives no matter
what kills the worker. For native code, `faulthandler.enable()` in `worker_init_fn` names the line.
Decode each file once in a separate process, set aside the files that kill the process, and report
them upstream.

Seen in: pytorch#8976, pytorch#4507, pytorch#5301 (exit code), TorchSSL#4, mmrotate#501,
mmsegmentation#2085.
"""

from __future__ import annotations

import ctypes
import faulthandler
import multiprocessing
import os
import signal
import struct
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Final, Literal

import numpy as np
from torch.utils.data import Dataset

from dltutor.failures.tools import Case, Failure, Says, facts_of, load, own_folder

How = Literal["killed", "segfault", "abort", "exit"]

#: The number of the frame that ends any process that decodes it.
BAD: Final = 9

# Ways in which native code ends its process if a frame is shorter than its header promises.
ACCIDENTS: Final[dict[How, Callable[[int], object]]] = {
    "killed": lambda length: os.kill(os.getpid(), signal.SIGKILL),  # the OOM killer's signal
    "segfault": lambda length: ctypes.string_at(0),
    "abort": lambda length: os.abort(),
    "exit": lambda length: os._exit(length % 256),  # so that lesson 03 can choose the exit code
}


def decode(data: bytes, how: How) -> np.ndarray:
    """Decode a frame, or end this process as `how` says if the header promises too many bytes."""
    (length,) = struct.unpack_from("<I", data)
    if length > len(data) - 4:
        ACCIDENTS[how](length)
    return np.frombuffer(data, np.uint8, count=length, offset=4)


class Frames(Dataset[np.ndarray]):
    """A dataset of a film's frames, each in its own file. A sample is a numpy array."""

    def __init__(self, paths: Sequence[Path], how: How) -> None:
        self.paths = list(paths)
        self.how: How = how

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> np.ndarray:
        return decode(self.paths[index].read_bytes(), self.how)


class VerifiedFrames(Frames):
    """A dataset of a film's frames, except frames whose decoding ends the process.

    Attributes:
        quarantined: The name of each file left out -> the signal or exit code of the process.
    """

    def __init__(self, paths: Sequence[Path], how: How) -> None:
        super().__init__(paths, how)
        self.quarantined: dict[str, str] = {}
        for path in paths:
            if code := exit_code_alone(decode, path.read_bytes(), how):
                cause = signal.Signals(-code).name if code < 0 else f"exit code {code}"
                self.quarantined[path.name] = cause
        self.paths = [path for path in paths if path.name not in self.quarantined]


def exit_code_alone(function: Callable[..., object], *args: object) -> int | None:
    """Call a function in a separate process.

    Returns:
        The exit code of the process: 0 if the function returned, 1 if the function raised an
        exception, the function's own code if it exited, or -N if signal N ended the process.
    """
    process = multiprocessing.get_context("fork").Process(target=_quietly, args=(function, *args))
    process.start()
    process.join()
    return process.exitcode


def _quietly(function: Callable[..., object], *args: object) -> None:
    faulthandler.disable()  # Jupyter and pytest turn faulthandler on, but this crash is expected
    function(*args)
    os._exit(0)  # Python's exit handlers would fail if a thread pool's thread forked this process


def broken(*, workers: int = 2, start_method: str = "fork", how: How = "killed") -> Case:
    """Build a case with one bad frame, which ends its worker as `how` says (see ACCIDENTS)."""
    frames = Frames(film_paths(), how)
    return Case(load(frames, workers, start_method, batch_size=2, collate_fn=np.stack))


def fixed(*, workers: int = 2, start_method: str = "fork", how: How = "killed") -> Case:
    """Build a case that tries each frame in a separate process, and leaves out the bad one."""
    frames = VerifiedFrames(film_paths(), how)
    return Case(load(frames, workers, start_method, batch_size=2, collate_fn=np.stack))


@cache
def film_paths() -> tuple[Path, ...]:
    """Write the frames of a film, once per process, and return their paths."""
    folder = own_folder()
    paths = tuple(folder / f"{number:02}.frame" for number in range(16))
    for number, path in enumerate(paths):
        pixels = bytes((number + i) % 256 for i in range(64))
        path.write_bytes(struct.pack("<I", 64 if number != BAD else 2**31 + 3) + pixels)
    return paths


FAILURE = Failure(
    **facts_of(__name__),
    broken=broken,
    fixed=fixed,
    sign=Says("worker died", ("killed by SIGKILL",)),
)
