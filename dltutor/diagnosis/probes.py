"""Probes: small loaders of the same dataset, each in a fork of the bench's process.

They all begin in the same state, and nothing that one of them does reaches the next.
"""

from __future__ import annotations

import os
import pickle
import selectors
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

from torch.utils.data import DataLoader, get_worker_info

from dltutor.diagnosis.bench import Bench
from dltutor.diagnosis.digests import digest
from dltutor.system.processes import descendants

_hung: list[Any] = []  # iterators: without them, torch waits seconds for each of their workers
TIMEOUT: Final = 3.0  # seconds after which a probe's worker counts as hanging


class NoAnswer(Exception):
    """A fork died, hung or raised."""


def in_fork(work: Callable[[], Any], seconds: float) -> Any:
    """What a function returns in a fork of this process; all its processes are ended then.

    Args:
        work: Returns what can be pickled.
        seconds: How long it may take.

    Raises:
        NoAnswer: It raised, died, or did not come to its end.
    """
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(read)
            answer = pickle.dumps(_attempt(work))
            with os.fdopen(write, "wb") as pipe:
                pipe.write(answer)
            time.sleep(60)  # it is killed: its children are known as long as it lives
        finally:
            os._exit(0)
    os.close(write)
    told = _read(read, time.monotonic() + seconds)
    # Its children too: they may hold what the next probe needs.
    for each in (*descendants(pid), pid):
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)
    if not told:
        raise NoAnswer("it died, or did not come to its end")
    answer, error = pickle.loads(told)
    if error:
        raise NoAnswer(error)
    return answer


def _attempt(work: Callable[[], Any]) -> tuple[Any, str]:
    try:
        return work(), ""
    except BaseException as error:  # also SystemExit
        return None, f"{type(error).__name__}: {error}"


def _read(descriptor: int, until: float) -> bytes:
    told = b""
    with os.fdopen(descriptor, "rb", buffering=0) as pipe, selectors.DefaultSelector() as ready:
        ready.register(pipe, selectors.EVENT_READ)
        # The end is known by pickle's own: workers that live on keep the pipe open.
        while time.monotonic() < until:
            if ready.select(0.05):
                got = pipe.read(1 << 16)
                told += got or b""
                if not got or _whole(told):
                    return told if _whole(told) else b""
    return b""


def _whole(told: bytes) -> bool:
    if not told.endswith(b"."):
        return False
    with suppress(Exception):
        pickle.loads(told)
        return True
    return False


class Prepared:
    """A worker_init_fn: the user's own, then what the probe needs in a worker.

    Args:
        bench: Its `worker_init_fn` is called first, as in a real worker.
        prepare: Called with the worker's number.
    """

    def __init__(self, bench: Bench, prepare: Callable[[int], None]) -> None:
        self.bench, self.prepare = bench, prepare
        self.init = bench.inner.worker_init_fn
        self.travels = bench.method in ("spawn", "forkserver")

    def __call__(self, worker: int) -> None:
        if self.travels:
            _as_if_pickled(self.bench.dataset)
        if self.init is not None:
            self.init(worker)
        self.prepare(worker)


def _as_if_pickled(dataset: Any) -> None:
    # A worker that is not forked has what pickle makes of the dataset.
    with suppress(Exception):
        copy = pickle.loads(pickle.dumps(dataset))
        dataset.__dict__.clear()
        dataset.__dict__.update(copy.__dict__)


def tagged(samples: Any) -> tuple[int, str]:
    """A collate function: who drew it, and what it holds."""
    info = get_worker_info()
    return (info.id if info else -1), digest(samples)


def probe(
    bench: Bench,
    prepare: Callable[[int], None],
    *,
    workers: int,
    indices: Iterable[Any] | None = None,
    collate: Callable[[Any], Any] = tagged,
    prefetch: int = 2,
    persistent: bool = False,
) -> DataLoader[Any]:
    """A loader of one sample at a time.

    Args:
        bench: Its dataset, worker_init_fn and generator are used.
        prepare: Called in each worker after the user's own worker_init_fn.
        workers: How many.
        indices: What is drawn, dealt out in turn; None for a stream.
        collate: What becomes of each.
        prefetch: How many each worker draws ahead.
        persistent: Whether the workers stay.
    """
    return DataLoader(
        bench.dataset,
        batch_size=1,
        sampler=None if indices is None else list(indices),
        num_workers=workers,
        collate_fn=collate,
        worker_init_fn=Prepared(bench, prepare),
        multiprocessing_context="fork",
        prefetch_factor=prefetch,
        persistent_workers=persistent,
        timeout=TIMEOUT,
        generator=bench.inner.generator,
    )


def answers(loader: DataLoader[Any], seconds: float, most: int = 100_000) -> Iterator[Any]:
    """What a probe delivers; an exception in its place where a sample raised.

    Args:
        loader: As `probe` makes it.
        seconds: After them no more is taken.
        most: So many at most.
    """
    until = time.monotonic() + seconds
    iterator = iter(loader)
    for _ in range(most):
        try:
            yield next(iterator)
        except StopIteration:
            return
        except Exception as error:
            yield error
            if "timed out" in str(error) or "exited unexpectedly" in str(error):
                _hung.append(iterator)
                return
        if time.monotonic() > until:
            return
