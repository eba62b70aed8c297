"""Which sample was the worker drawing when it raised an error or died?

Run the loader with forked workers. Each one writes down the index before it draws the sample. This
is asked when no sample fails without workers.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from torch.utils.data import get_worker_info

from dltutor.diagnosis.evidence import Evidence, InWorkers
from dltutor.diagnosis.experiment import Experiment
from dltutor.diagnosis.kit import trial
from dltutor.diagnosis.kit.bench import Bench, described
from dltutor.diagnosis.rules.culprits import dead

_WORKERS: Final = 256


def needed(evidence: Evidence | None) -> bool:
    """Ask if something goes wrong only with workers."""
    if evidence is None or not evidence.parts.workers:
        return False
    run, culprit = evidence.run, evidence.culprit
    died = run.end == "worker died" or bool(dead(evidence))
    raised = run.end == "raised" and run.raised is not None
    return (died or raised) and (culprit is None or not culprit.stage) and not _dies(evidence)


def _dies(evidence: Evidence) -> bool:
    return evidence.samples is not None and evidence.samples.ended == "died"


def ask(bench: Bench) -> InWorkers:
    """Run it, and read what the workers wrote down."""
    bench.change(method="fork")
    with tempfile.TemporaryFile("w+b", buffering=0) as heard, _written_down(bench, heard) as places:
        seen = trial.run(bench, seconds=4.0, patience=4.0, content=False)
        heard.seek(0)
        failed = [json.loads(line) for line in heard.read().splitlines()]
    return InWorkers(
        end=seen.end,
        died=tuple(
            (number, code, places(number)) for number, code in enumerate(seen.codes) if code
        ),
        failed=tuple((each[0], each[1], each[2], each[3]) for each in failed[:20]),
    )


@contextmanager
def _written_down(bench: Bench, heard: Any) -> Iterator[Callable[[int], int]]:
    # Change the class, not the object, so the object looks the same to any code that inspects it.
    memory = mmap.mmap(-1, 8 * _WORKERS)
    memory[:] = struct.pack("q", -1) * _WORKERS
    main = os.getpid()

    def note(index: Any) -> None:
        info = get_worker_info()
        if info is not None and info.id < _WORKERS:
            number = index if isinstance(index, int) else -1
            memory[8 * info.id : 8 * info.id + 8] = struct.pack("q", number)

    def tell(index: Any, error: BaseException) -> None:
        if os.getpid() != main and isinstance(index, int):
            line = json.dumps([index, *described(error)]) + "\n"
            os.write(heard.fileno(), line.encode())

    cls: Any = type(bench.dataset)
    name = "__iter__" if bench.stream else "__getitem__"
    own = getattr(cls, name)

    def __getitem__(self: Any, index: Any) -> Any:
        note(index)
        try:
            return own(self, index)
        except BaseException as error:  # even SystemExit, which ends a worker
            tell(index, error)
            raise

    def __iter__(self: Any) -> Any:
        number, source = 0, iter(own(self))
        while True:
            note(number)
            try:
                sample = next(source)
            except StopIteration:
                return
            except BaseException as error:
                tell(number, error)
                raise
            yield sample
            number += 1

    with suppress(AttributeError):  # then only one way is left, and we watch that one
        delattr(cls, "__getitems__")
    setattr(cls, name, __iter__ if bench.stream else __getitem__)
    yield lambda worker: struct.unpack_from("q", memory, 8 * worker)[0] if worker < _WORKERS else -1


EXPERIMENT: Final = Experiment("in_workers", 10.0, needed, ask)
