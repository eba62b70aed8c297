"""Which sample was the worker drawing when it raised an error or died?

Run the loader with forked workers that record each index before they draw its sample. The doctor
asks this if a worker failed, but no sample fails without workers.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

from torch.utils.data import get_worker_info

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.experiment import probe
from dltutor.diagnosis.running import runner
from dltutor.diagnosis.running.subject import Mark, Subject, described

_WORKERS: Final = 256


@dataclass(frozen=True)
class InWorkers:
    """The forked workers that died or raised an error in a run, and what they were drawing.

    Args:
        end: How the run ended, in the words of `Measures.end`.
        died: The workers that died, each as [number, exit code, index that it was drawing or -1].
        failed: What the workers raised, each as [index, type, message, line of your code].
    """

    end: str
    died: tuple[tuple[int, int, int], ...] = ()
    failed: tuple[tuple[int, str, str, str], ...] = ()

    def __str__(self) -> str:
        died = ", ".join(
            f"W{number} at `dataset[{at}]`" for number, _, at in self.died[:3] if at >= 0
        )
        raised = ", ".join(f"`dataset[{at}]`: {kind}" for at, kind, _, _ in self.failed[:3])
        return f"{died or raised or 'No index was seen'}."


def needed(evidence: Evidence) -> bool:
    """Return whether a worker died or raised, and no sample or batch fails without workers."""
    if not evidence.parts.workers:
        return False
    run, culprit = evidence.run, evidence.culprit
    died = run.end == "worker died" or bool(run.dead)
    raised = run.end == "raised" and run.raised is not None
    return (died or raised) and (culprit is None or not culprit.stage) and not _dies(evidence)


def _dies(evidence: Evidence) -> bool:
    return evidence.samples is not None and evidence.samples.ended == "died"


def ask(subject: Subject) -> InWorkers:
    """Run the loader, and read what its workers recorded."""
    subject.change(method="fork")
    with (
        tempfile.TemporaryFile("w+b", buffering=0) as heard,
        _written_down(subject, heard) as places,
    ):
        seen = runner.run(subject, seconds=4.0, patience=4.0, content=False)
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
def _written_down(subject: Subject, heard: Any) -> Iterator[Callable[[int], int]]:
    # Change the class, not the object, so that code that inspects the object sees no difference.
    marks = [Mark() for _ in range(_WORKERS)]
    main = os.getpid()

    def note(index: Any) -> None:
        info = get_worker_info()
        if info is not None and info.id < _WORKERS:
            marks[info.id].set(index if isinstance(index, int) else -1)

    def tell(index: Any, error: BaseException) -> None:
        if os.getpid() != main and isinstance(index, int):
            line = json.dumps([index, *described(error)]) + "\n"
            os.write(heard.fileno(), line.encode())

    cls: Any = type(subject.dataset)
    name = "__iter__" if subject.stream else "__getitem__"
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

    with suppress(AttributeError, TypeError):  # without __getitems__, torch calls __getitem__
        delattr(cls, "__getitems__")
    with suppress(TypeError):  # a class from an extension can't be changed
        setattr(cls, name, __iter__ if subject.stream else __getitem__)
    yield lambda worker: marks[worker].get() if worker < _WORKERS else -1


EXPERIMENT: Final = probe("in_workers", 10.0, needed, ask)
