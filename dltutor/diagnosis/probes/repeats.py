"""How many random draws repeat in another worker or in the next epoch?

Two workers (or the only one) draw the same indices, each index twice in a row, in two epochs.
Samples that vary within a worker are random. If these samples are the same in the other worker,
both workers drew the same random numbers. To find the generator that the numbers come from, let one
generator at a time run freely, and start all others in the same state for each sample. To find out
about the collate function, start all of them in the same state, and collate.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.experiment import probe
from dltutor.diagnosis.running import forks
from dltutor.diagnosis.running.random_states import SAID, SOURCES, Pins, used_generators, wrap_draws
from dltutor.diagnosis.running.small_loaders import answers, small_loader, tagged
from dltutor.diagnosis.running.subject import Subject

_INDICES: Final = 12
_EPOCH: Final = 3.5  # the most seconds for each epoch
_FEW: Final = 5  # with this many indices or fewer, there's no time to try each source

COLLATE: Final = "collate_fn"
"""The name in `Repeats.sources` of the collate function, which gets the same samples each time."""

Drawn = list[list[str]]  # the digests that each worker delivered, in order


@dataclass(frozen=True)
class Repeats:
    """A count of the random draws that repeat in another worker or in the next epoch.

    Args:
        sources: For each source of random numbers, (name, samples that vary within a worker, draws
            that are the same in the other worker, draws compared with the other worker, draws that
            are the same in the next epoch, draws compared with the next epoch). The name is "all",
            the one source that wasn't reset before each draw, or COLLATE.
        own: The paths of the dataset's own generators that samples draw from.
        order: Whether the dataset is a stream that may always have the same samples, so that only
            their order varies.
    """

    sources: tuple[tuple[str, int, int, int, int, int], ...] = ()
    own: tuple[str, ...] = ()
    order: bool = False

    def __str__(self) -> str:
        if not self.sources:
            return "None, because no sample draws random numbers."
        _, _, same, compared, again, later = self.sources[0]
        return f"{same} of {compared} in another worker, {again} of {later} in the next epoch."


def needed(evidence: Evidence) -> bool:
    """Return whether workers draw from a map-style dataset with random samples or batches."""
    if evidence.samples is None or evidence.parts.stream:
        return False
    varies = evidence.samples.random > 0 or evidence.samples.joined
    return evidence.parts.workers > 0 and varies


def ask(subject: Subject) -> Repeats:
    """Have up to two workers draw the same samples in two epochs, and count draws that repeat."""
    indices = subject.keys()[:_INDICES]
    samples = subject.known.samples if subject.known else None
    seconds = samples.typical if samples else 0.0
    modes: tuple[str, ...] = ("", *SOURCES, COLLATE)
    while seconds * 2 * len(indices) * len(modes) > _EPOCH / 2 and len(indices) > 3:
        indices = indices[:-1]
        if len(indices) <= _FEW:
            modes = ("",)
    workers = min(subject.inner.num_workers, 2)
    epochs: list[Drawn] = forks.in_fork(
        partial(_drawn, subject, indices, modes, workers), 2 * _EPOCH + 1
    )
    found = []
    for number, mode in enumerate(modes):
        part = slice(number * 2 * len(indices), (number + 1) * 2 * len(indices))
        first, second = ([worker[part] for worker in epoch] for epoch in epochs)
        found.append((SAID.get(mode, mode) or "all", *_compared(first, second)))
    own = used_generators(subject.dataset, lambda: [subject.dataset[each] for each in indices])
    return Repeats(sources=tuple(found), own=tuple(own))


def _drawn(
    subject: Subject, indices: list[Any], modes: tuple[str, ...], workers: int
) -> list[Drawn]:
    # The one source that runs freely for this sample, "" if all do, or COLLATE if none does.
    mode = [""]

    def joined(samples: Any) -> tuple[int, str]:
        # To look at one source, skip your collate function, because it may draw random numbers,
        # too, but sources are reset only while the dataset draws.
        with suppress(Exception):
            if mode[0] in ("", COLLATE):
                return tagged(subject.inner.collate_fn(samples))
        return tagged(samples)

    def prepare(worker: int) -> None:
        pins = Pins(subject.dataset)
        count = [0]

        def around(draw: Any, index: Any) -> Any:
            mode[0] = modes[count[0] // (2 * len(indices)) % len(modes)]
            count[0] += 1
            if not mode[0]:
                return draw()
            with pins.held(free=mode[0]):
                return draw()

        wrap_draws(subject.dataset, around)

    order = [index for _ in modes for index in indices for _ in range(2 * workers)]
    persistent = bool(subject.inner.persistent_workers)
    loader = small_loader(
        subject, prepare, workers=workers, indices=order, collate=joined, persistent=persistent
    )
    epochs = []
    for epoch in range(2):
        subject.tell(epoch)
        found: Drawn = [[] for _ in range(workers)]
        for position, answer in enumerate(answers(loader, _EPOCH)):
            text = f"!{position}" if isinstance(answer, Exception) else answer[1]
            found[position % workers].append(text)
        epochs.append(found)
    return epochs


def _compared(first: Drawn, second: Drawn) -> tuple[int, int, int, int, int]:
    """Count the samples that vary within W0, and the draws of these samples that repeat.

    Returns:
        The samples that vary, the draws that repeat in W1, the draws compared with W1, and the
        same two numbers for the next epoch.
    """
    varied = [
        at
        for at in range(0, len(first[0]) - 1, 2)
        if first[0][at] != first[0][at + 1] and not first[0][at].startswith("!")
    ]
    at_all = [each for at in varied for each in (at, at + 1)]
    across = _same(first[0], first[1], at_all) if len(first) > 1 else (0, 0)
    return (len(varied), *across, *_same(first[0], second[0], at_all))


def _same(one: list[str], other: list[str], at: list[int]) -> tuple[int, int]:
    both = [each for each in at if each < min(len(one), len(other))]
    return sum(one[each] == other[each] for each in both), len(both)


EXPERIMENT: Final = probe("repeats", 12.0, needed, ask)
