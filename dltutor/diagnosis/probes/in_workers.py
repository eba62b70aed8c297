"""Which sample was the worker drawing when it raised an error or died?

Run the loader with forked workers that record each index before they draw its sample. The doctor
asks this if a worker failed, but no sample fails without workers.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from torch.utils.data import get_worker_info

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.experiment import probe
from dltutor.diagnosis.running import runner
from dltutor.diagnosis.running.notes import Notes
from dltutor.diagnosis.running.random_states import wrap_draws
from dltutor.diagnosis.running.subject import Mark, Subject, described

_WORKERS: Final = 256


@dataclass(frozen=True)
class InWorkers:
    """The forked workers that died or raised an error in a run, and what they were drawing.

    Args:
        end: How the run ended, as in `Measures.end`.
        died: The workers with an exit code other than 0, each as (number, exit code, index that the
            worker drew last or -1).
        failed: The first exceptions, up to 20, that drawing a sample raised in a worker, each as
            (index, type, message, line of your code).
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
    run, culprit, samples = evidence.run, evidence.culprit, evidence.samples
    dies = samples is not None and samples.ended == "died"
    died = run.end == "worker died" or bool(run.dead)
    raised = run.end == "raised" and run.raised is not None
    return (died or raised) and (culprit is None or not culprit.stage) and not dies


def ask(subject: Subject) -> InWorkers:
    """Run the loader, and read what its workers recorded."""
    subject.change(method="fork")
    notes = Notes()
    marks = _write_down(subject, notes)
    seen = runner.run(subject, seconds=4.0, patience=4.0, content=False)
    return InWorkers(
        end=seen.end,
        died=tuple(
            (number, code, marks[number].get() if number < _WORKERS else -1)
            for number, code in enumerate(seen.codes)
            if code
        ),
        failed=tuple((at, kind, text, line) for at, kind, text, line in notes.read()[:20]),
    )


def _write_down(subject: Subject, notes: Notes) -> list[Mark]:
    # Have each worker write the index that it draws to its mark, and what it raises to the notes.
    marks = [Mark() for _ in range(_WORKERS)]

    def around(draw: Callable[[], Any], index: Any) -> Any:
        info, number = get_worker_info(), index if isinstance(index, int) else -1
        if info is None or info.id >= _WORKERS:
            return draw()
        marks[info.id].set(number)
        try:
            return draw()
        except StopIteration:
            raise
        except BaseException as error:  # even SystemExit, which ends a worker
            if number >= 0:
                notes.write([number, *described(error)])
            raise

    cls: Any = type(subject.dataset)
    with suppress(AttributeError, TypeError):  # without __getitems__, torch calls __getitem__
        delattr(cls, "__getitems__")
    wrap_draws(subject.dataset, around)
    return marks


EXPERIMENT: Final = probe("in_workers", 10.0, needed, ask)
