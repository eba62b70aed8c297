"""Does the workers' own memory grow?

Measure the memory inside forked workers, between two batches, first with nothing changed. If the
workers copied main's pages, hide main's objects from the garbage collector. If the workers took new
memory, run them again with a collection after each batch, with large blocks returned to the
operating system, and with the same samples again and again. Find the containers that grow.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.experiment import probe
from dltutor.diagnosis.objects import containers
from dltutor.diagnosis.objects.walking import Found
from dltutor.diagnosis.probes.memory.worker_memory import Change, Probe
from dltutor.diagnosis.running import runner
from dltutor.diagnosis.running.subject import Subject, length_of
from dltutor.system.heap import fill_holes

_LONG: Final = 2.0  # the most seconds for each run
_SOME: Final = 6.0  # about how many MB of growth justify another run
_START: Final = 24.0  # MB of private memory; an ordinary loader's worker has less
_SETTLED: Final = 4  # batches after which a worker has allocated what it needs

Curve = list[dict[str, Any]]


@dataclass(frozen=True)
class Memory:
    """The memory of forked workers in MB, measured inside them between two batches.

    Each number of MB is the largest from any worker, or -1 if the doctor skipped that run. "peak"
    is growth since before the first sample, and "late" is growth after a third of the samples.
    For both, all runs are compared after the same number of samples.

    Args:
        copied: MB of main's pages that a worker copied, or -1 if no worker could be measured.
        copied_frozen: MB copied with main's objects hidden from the garbage collector, and with
            automatic collection turned off in the workers.
        copied_in_loop: MB copied when the training loop takes the batches.
        collections: The most full garbage collections that ran in one worker.
        collected_at: The file and line where the last full collection in a worker started, or "".
        read: Large containers of Python objects, each as (path, class, length, share of its
            elements' pages that a worker had copied before its first sample, the share at the end).
        samples: After how many samples the runs are compared, or 0 if they aren't.
        late_samples: How many of the compared samples came after the first third.
        peak_as_it_is: Growth with nothing changed.
        peak_collected: Growth with a garbage collection after each batch.
        peak_returned: Growth with large blocks returned to the operating system.
        peak_repeated: Growth with the same samples again and again.
        late_as_it_is: Growth after the first third, with nothing changed.
        late_collected: Growth after the first third, with a collection after each batch.
        late_returned: Growth after the first third, with large blocks returned.
        late_repeated: Growth after the first third, with the same samples again and again.
        later_epochs: Growth in persistent workers after the first epoch, or -1 if no later one ran.
        grown: Containers that grew with new samples, each as (path, class, elements per sample,
            bound). The bound is a number of elements, 0 if that number isn't known, or None if the
            container seems to have no bound.
    """

    copied: float = -1.0
    copied_frozen: float = -1.0
    copied_in_loop: float = -1.0
    collections: int = 0
    collected_at: str = ""
    read: tuple[tuple[str, str, int, float, float], ...] = ()
    samples: int = 0
    late_samples: int = 1
    peak_as_it_is: float = -1.0
    peak_collected: float = -1.0
    peak_returned: float = -1.0
    peak_repeated: float = -1.0
    late_as_it_is: float = -1.0
    late_collected: float = -1.0
    late_returned: float = -1.0
    late_repeated: float = -1.0
    later_epochs: float = -1.0
    grown: tuple[tuple[str, str, float, int | None], ...] = ()

    def __str__(self) -> str:
        if self.copied < 0:
            return "Can't tell, because no worker could be measured."
        grew = (
            f", and took {self.peak_as_it_is:.0f} MB of its own in {self.samples} samples"
            if self.samples
            else ""
        )
        return f"A worker copied {self.copied:.0f} MB of main's pages{grew}."


def needed(evidence: Evidence) -> bool:
    """Return whether a worker grew, a forked one held over 24 MB, or no run has measured that."""
    if not evidence.parts.workers:
        return False
    run = evidence.run
    if run.end not in ("finished", "enough", "not run"):
        return False
    forked = evidence.parts.method == "fork"
    return run.end == "not run" or any(
        most - first > _SOME / 2 or (forked and most > _START) for first, most in run.private
    )


def ask(subject: Subject) -> Memory:
    """Run the loader as it is, then with the changes that may explain the workers' memory."""
    until = time.monotonic() + subject.seconds - 1
    large = containers.large(
        [Found("dataset", subject.dataset), Found("collate_fn", subject.inner.collate_fn)]
    )
    fill_holes()
    run = _Runs(subject, until)
    plain = run.measure("", large)
    if not any(plain):
        return Memory()
    answer: dict[str, Any] = {
        "copied": _copied(plain),
        "collections": max(curve[-1]["collections"] for curve in plain),
        "collected_at": next(
            (curve[-1]["collected_at"][0] for curve in plain if curve[-1]["collected_at"]), ""
        ),
    }
    if answer["copied"] > _SOME / 2:
        frozen = run.measure("frozen", large)
        most = min(_samples(plain), _samples(frozen)) if frozen else 0
        answer["copied"] = _copied(plain, most)
        answer["copied_frozen"] = _copied(frozen, most)
        answer["read"] = _read(large, frozen, most)
        if answer["copied"] - answer["copied_frozen"] > _SOME and subject.loop is not None:
            answer["copied_in_loop"] = _copied(run.with_loop())
    return Memory(**answer | _growth(subject, run, plain, _first_pass(subject)))


def _growth(subject: Subject, run: _Runs, plain: list[Curve], most: int) -> dict[str, Any]:
    late, samples = _late(plain, most)
    whole = late / max(samples, 1) * (length_of(subject.dataset) or 0)
    if _peak(plain, most) < 2 * _SOME and (late < _SOME / 2 or whole < 2 * _SOME):
        return {}
    runs = {"": plain}
    for change in ("collected", "returned", "repeated"):
        runs[change] = run.measure(change, named=True)
    # Compare all runs at a number of samples that every run reached.
    most = min(most, *(_samples(curves) for curves in runs.values() if any(curves)))
    answer: dict[str, Any] = {"samples": most}
    for change, curves in runs.items():
        if any(curves):
            name = change or "as_it_is"
            answer[f"peak_{name}"] = _peak(curves, most)
            answer[f"late_{name}"], answer["late_samples"] = _late(curves, most)
    if runs.get("returned"):
        answer["later_epochs"] = _later(run.measure("", stay=True), _first_pass(subject))
    grown = _grown(runs["collected"], runs["repeated"])
    if grown:
        bounds = _bounds(run.measure("filled", named=True, batches=8))
        answer["grown"] = tuple(
            (path, kind, each, bounds.get(path, bound)) for path, kind, each, bound in grown
        )
    return answer


class _Runs:
    def __init__(self, subject: Subject, until: float) -> None:
        self.subject = subject
        self.until = until
        subject.change(method="fork")

    def measure(
        self,
        change: Change,
        large: list[Any] | None = None,
        *,
        named: bool = False,
        batches: int = 1_000_000,
        stay: bool = False,
    ) -> list[Curve]:
        """Return the workers' measurements from a run with a plain loop, or [] if time is up."""
        if time.monotonic() > self.until - 0.5:
            return []
        probe = Probe(change, large, named=named)
        self.subject.in_workers(probe.begin)
        if change in ("frozen", "collected"):
            gc.freeze()
        until = min(time.monotonic() + _LONG, self.until)
        inner = self.subject.inner
        stays = inner.persistent_workers
        if stay:
            self.subject.change(persistent_workers=True)
        for _ in range(3 if stay or stays else 1):
            taken = 0
            for taken, _batch in enumerate(self.subject.loader, start=1):
                if probe.full or time.monotonic() > until or taken >= batches:
                    break
            if probe.full or time.monotonic() > until or not taken:
                break
        self.subject.change(persistent_workers=stays)
        gc.unfreeze()
        return probe.read()

    def with_loop(self) -> list[Curve]:
        """Return the workers' measurements from a run of the training loop."""
        probe = Probe()
        self.subject.in_workers(probe.begin)
        runner.run(self.subject, seconds=_LONG, content=False, epochs=1)
        return probe.read()


def _first_pass(subject: Subject) -> int:
    # Return how many samples a worker draws before any of them repeats. If the dataset has no
    # length, that isn't known, so return a large number.
    length = length_of(subject.dataset)
    return max(length // subject.inner.num_workers, 1) if length else 1_000_000_000


def _samples(curves: list[Curve]) -> int:
    most: int = max(curve[-1]["samples"] for curve in curves)
    return most


def _copied(curves: list[Curve], until: int = 1_000_000_000) -> float:
    # Where private memory grows more than anonymous memory, the worker copied main's pages.
    mine = [
        (first["private"] - first["anonymous"], each["private"] - each["anonymous"])
        for first, each in _within(curves, until)
    ]
    return max((now - start for start, now in mine), default=0.0)


def _within(curves: list[Curve], most: int) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    # For each measurement after at most `most` samples, yield the worker's first measurement and
    # this one.
    return ((curve[0], each) for curve in curves for each in curve if each["samples"] <= most)


def _read(
    large: list[Any], curves: list[Curve], most: int
) -> tuple[tuple[str, str, int, float, float], ...]:
    found = []
    for number, (path, kind, length, _) in enumerate(large):
        started = max((curve[0]["shares"][number] for curve in curves), default=-1.0)
        ended = max((each["shares"][number] for _, each in _within(curves, most)), default=-1.0)
        found.append((path, kind, length, started, ended))
    return tuple(sorted(found, key=lambda each: each[3] - each[4]))[:3]


def _peak(curves: list[Curve], most: int) -> float:
    grown = (each["anonymous"] - first["anonymous"] for first, each in _within(curves, most))
    return max(grown, default=0.0)


def _late(curves: list[Curve], most: int) -> tuple[float, int]:
    # Return the growth after a third of the samples and up to four batches, whichever is later, and
    # how many samples came after that point.
    found = (0.0, 1)
    for curve in curves:
        within = [each for each in curve if each["samples"] <= most]
        last = within[-1]["samples"]
        settled = min(_SETTLED, within[-1]["batches"] // 2)
        early = [
            each for each in within if each["samples"] <= last / 3 or each["batches"] <= settled
        ]
        more = max(each["anonymous"] for each in within) - max(each["anonymous"] for each in early)
        found = max(found, (more, max(last - early[-1]["samples"], 1)))
    return found


def _later(curves: list[Curve], epoch: int) -> float:
    # Return the growth after a worker's first epoch, or -1 if no worker ran a later one.
    found = -1.0
    for curve in curves:
        first = [each["anonymous"] for each in curve if each["samples"] <= epoch]
        later = [each["anonymous"] for each in curve if each["samples"] > epoch]
        if first and later:
            found = max(found, later[-1] - max(first), 0.0)
    return found


def _grown(new: list[Curve], repeated: list[Curve]) -> list[tuple[str, str, float, int | None]]:
    # Return up to three containers that gain more than 0.2 elements per sample, in any worker.
    # Containers that don't grow with repeated samples come first.
    still = {path for curve in repeated for path, *_ in curve[-1].get("grown", ())}
    found: dict[str, tuple[str, str, float, int | None]] = {}
    for curve in new:
        first = next((each["samples"] for each in curve if each["batches"]), 0)
        more = curve[-1]["samples"] - first
        for path, before, now, bound, kind in curve[-1].get("grown", ()):
            each = (now - before) / max(more, 1)
            if each > 0.2 and (path not in found or found[path][2] < each):
                found[path] = (path, kind, each, bound)
    return sorted(found.values(), key=lambda each: (each[0] in still, -each[2]))[:3]


def _bounds(curves: list[Curve]) -> dict[str, int]:
    # The worker added many elements to each container. If a container has no more elements at the
    # last measurement than right after that, something removes elements, so it has a bound. Return
    # 0 for this bound, because the number isn't known.
    found: dict[str, list[bool]] = {}
    for curve in curves:
        for path, before, now in curve[-1].get("filled", ()):
            found.setdefault(path, []).append(now is not None and now <= before)
    return {path: 0 for path, each in found.items() if all(each)}


EXPERIMENT: Final = probe("memory", 16.0, needed, ask)
