"""How far does a sample of the stream move from one epoch to the next?

Draw two epochs in main, and compare the positions of the samples that both have. Then begin the
first epoch again with the same random numbers, because threads may change the order, too.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Final

import psutil

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.experiment import probe
from dltutor.diagnosis.limits import in_time
from dltutor.diagnosis.objects.digests import digest
from dltutor.diagnosis.probes.shares import LOOKED, PASS, draw_pass, most_of
from dltutor.diagnosis.running import forks
from dltutor.diagnosis.running.subject import Subject

_FAR: Final = 0.1  # if samples move by this part of an epoch on average, the stream shuffles enough


@dataclass(frozen=True)
class Displaced:
    """A comparison of the positions of a stream's samples in two epochs.

    Args:
        looked: How many samples of each epoch were compared.
        found: How many of them are in both epochs, once in each.
        moved: By how many positions these samples move, on average.
        falling: The most samples that the second epoch has in the reverse of their order in the
            first. That's at most k for a stream that reads k sources in order and takes each sample
            from a random one.
        shuffles: Whether only random numbers can change the order. Either the first epoch begins
            the same again with the same random numbers, or the stream starts no thread or process.
    """

    looked: int = 0
    found: int = 0
    moved: float = 0.0
    falling: int = 0
    shuffles: bool = False

    def __str__(self) -> str:
        if not self.found:
            return "No sample was in both epochs."
        return f"By {self.moved:.0f} of {self.looked} positions on average."


def needed(evidence: Evidence) -> bool:
    """Return whether a stream may have almost the same order in each epoch."""
    run, samples = evidence.called_again or evidence.run, evidence.samples
    if not evidence.parts.stream or not run.well:
        return False
    if samples is not None and samples.ended in ("died", "hung"):
        return False
    if "dataset" in evidence.parts.hooks or run.finished[:2] != (True, True):
        return True
    found = compared(*run.contents[:2])
    return found.found == 0 or 0 < found.moved < _FAR * found.looked


def ask(subject: Subject) -> Displaced:
    """Compare two epochs, and draw the beginning of the first one again."""
    first, second = forks.in_fork(partial(_two_epochs, subject), 2 * PASS + 2)
    again, alone = forks.in_fork(partial(_beginning, subject), PASS + 2)
    shuffles = alone or again == first[: len(again)]
    return replace(compared(first, second), shuffles=shuffles)


def _two_epochs(subject: Subject) -> list[list[str]]:
    epochs = []
    for epoch in range(2):
        subject.tell(epoch)
        epochs.append(draw_pass(subject, most_of(subject))[0])
    return epochs


def _beginning(subject: Subject) -> tuple[list[str], bool]:
    # Return digests of the first samples, and whether this process has no other thread or child
    # while the stream goes on. A fork begins with one thread.
    subject.tell(0)
    stream = iter(subject.dataset)
    drawn = [digest([each]) for each in in_time(islice(stream, LOOKED), PASS)]
    process = psutil.Process()
    return drawn, process.num_threads() == 1 and not process.children()


def compared(first: Sequence[str], second: Sequence[str]) -> Displaced:
    """Compare the positions of the samples in two epochs, as far as both got.

    Args:
        first: A digest of each sample of one epoch, in order.
        second: The same for the other epoch.
    """
    looked = min(len(first), len(second))
    one, other = (
        {sample: at for at, sample in enumerate(each[:looked])} for each in (first, second)
    )
    if len(one) < looked or len(other) < looked:
        return Displaced(looked)  # samples that aren't unique have no position
    positions = [(at, other[sample]) for sample, at in one.items() if sample in other]
    # For each length, keep the smallest position that a rising sequence of this length can end
    # with. The loop goes backward through the first epoch, so these sequences are in reverse order.
    ends: list[int] = []
    for _, later in reversed(positions):
        at = bisect_left(ends, later)
        ends[at : at + 1] = [later]
    moved = sum(abs(at - later) for at, later in positions) / max(len(positions), 1)
    return Displaced(looked, len(positions), moved, len(ends))


EXPERIMENT: Final = probe("displaced", 12.0, needed, ask)
