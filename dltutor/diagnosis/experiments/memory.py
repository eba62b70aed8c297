"""Does the workers' own memory grow?

Measure it inside forked workers, between two batches. First, run them as they are. If they copied
main's pages, hide main's objects from the collector. If they took new memory, collect after each
batch, return large blocks to the system, and draw the same samples again and again. Trace
what grows down to its container.
"""

from __future__ import annotations

import gc
import time
from contextlib import suppress
from typing import Any, Final

from dltutor.diagnosis.evidence import Evidence, Memory
from dltutor.diagnosis.experiment import Experiment
from dltutor.diagnosis.kit import containers, trial
from dltutor.diagnosis.kit.bench import Bench
from dltutor.diagnosis.kit.walking import Found
from dltutor.diagnosis.kit.worker_memory import Change, Probe, fill_holes

_LONG: Final = 2.0  # seconds of a run
_SOME: Final = 6.0  # MB of growth that make another run worth its time
_START: Final = 24.0  # MB of its own, more than an ordinary loader's worker has
_SETTLED: Final = 4  # batches until a worker has what it needs

Curve = list[dict[str, Any]]


def needed(evidence: Evidence | None) -> bool:
    """Ask if a worker grew, or had a lot of memory of its own from the start."""
    if evidence is None or not evidence.parts.workers:
        return False
    run = evidence.run
    if run.end not in ("finished", "enough", "not run"):
        return False
    forked = evidence.parts.method == "fork"
    return run.end == "not run" or any(
        most - first > _SOME / 2 or (forked and most > _START) for first, most in run.private
    )


def ask(bench: Bench) -> Memory:
    """Run it as it is, then with the changes that would say something."""
    until = time.monotonic() + bench.seconds - 1
    large = containers.large(
        [Found("dataset", bench.dataset), Found("collate_fn", bench.inner.collate_fn)]
    )
    fill_holes()
    run = _Runs(bench, until)
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
        if answer["copied"] - answer["copied_frozen"] > _SOME and bench.loop is not None:
            answer["copied_in_loop"] = _copied(run.with_loop())
    return Memory(**answer | _growth(bench, run, plain, _first_pass(bench)))


def _growth(bench: Bench, run: _Runs, plain: list[Curve], most: int) -> dict[str, Any]:
    late, samples = _late(plain, most)
    whole = late / max(samples, 1) * (bench_length(bench) or 0)
    if _peak(plain, most) < 2 * _SOME and (late < _SOME / 2 or whole < 2 * _SOME):
        return {}
    runs = {"": plain}
    for change in ("collected", "returned", "repeated"):
        runs[change] = run.measure(change, named=True)
    # Compare all runs at a number of samples that each one reached.
    most = min(most, *(_samples(curves) for curves in runs.values() if any(curves)))
    answer: dict[str, Any] = {"samples": most}
    for change, curves in runs.items():
        if any(curves):
            name = change or "as_it_is"
            answer[f"peak_{name}"] = _peak(curves, most)
            answer[f"late_{name}"], answer["late_samples"] = _late(curves, most)
    if runs.get("returned"):
        answer["later_epochs"] = _later(run.measure("", stay=True), _first_pass(bench))
    grown = _grown(runs["collected"], runs["repeated"])
    if grown:
        bounds = _bounds(run.measure("filled", named=True, batches=8))
        answer["grown"] = tuple(
            (path, kind, each, bounds.get(path, bound)) for path, kind, each, bound in grown
        )
    return answer


class _Runs:
    def __init__(self, bench: Bench, until: float) -> None:
        self.bench = bench
        self.until = until
        self.own_init = bench.inner.worker_init_fn
        bench.change(method="fork")

    def measure(
        self,
        change: Change,
        large: list[Any] | None = None,
        *,
        named: bool = False,
        batches: int = 1_000_000,
        stay: bool = False,
    ) -> list[Curve]:
        """Return what the workers wrote down in one run that only takes the batches."""
        if time.monotonic() > self.until - 0.5:
            return []
        probe = self._put(change, large, named)
        if change in ("frozen", "collected"):
            gc.freeze()
        until = min(time.monotonic() + _LONG, self.until)
        inner = self.bench.inner
        stays = inner.persistent_workers
        if stay:
            self.bench.change(persistent_workers=True)
        for _ in range(3 if stay or stays else 1):
            taken = 0
            for taken, _batch in enumerate(self.bench.loader, start=1):
                if probe.full or time.monotonic() > until or taken >= batches:
                    break
            if probe.full or time.monotonic() > until or not taken:
                break
        self.bench.change(persistent_workers=stays)
        gc.unfreeze()
        return probe.read()

    def with_loop(self) -> list[Curve]:
        """Do the same in a run of the training loop."""
        probe = self._put("", None, False)
        trial.run(self.bench, seconds=_LONG, content=False, epochs=1)
        return probe.read()

    def _put(self, change: Change, large: Any, named: bool) -> Probe:
        probe = Probe(change, large, named=named)
        self.bench.change()
        vars(self.bench.inner)["worker_init_fn"] = probe.init(self.own_init)
        return probe


def _first_pass(bench: Bench) -> int:
    # The samples of a worker that are all new to it. A stream's end isn't known.
    length = bench_length(bench)
    return max(length // bench.inner.num_workers, 1) if length else 1_000_000_000


def bench_length(bench: Bench) -> int | None:
    """Return the number of samples in an epoch, or None if it isn't known."""
    with suppress(Exception):
        return len(bench.dataset)
    return None


def _samples(curves: list[Curve]) -> int:
    most: int = max(curve[-1]["samples"] for curve in curves)
    return most


def _copied(curves: list[Curve], until: int = 1_000_000_000) -> float:
    # Growth of private memory minus growth of anonymous memory: pages once shared with main.
    most = 0.0
    for curve in curves:
        start = curve[0]["private"] - curve[0]["anonymous"]
        for each in curve:
            if each["samples"] <= until:
                most = max(most, each["private"] - each["anonymous"] - start)
    return most


def _read(
    large: list[Any], curves: list[Curve], most: int
) -> tuple[tuple[str, str, int, float, float], ...]:
    found = []
    for number, (path, kind, length, _) in enumerate(large):
        started = max((curve[0]["shares"][number] for curve in curves), default=-1.0)
        ended = max(
            (
                each["shares"][number]
                for curve in curves
                for each in curve
                if each["samples"] <= most
            ),
            default=-1.0,
        )
        found.append((path, kind, length, started, ended))
    return tuple(sorted(found, key=lambda each: each[3] - each[4]))[:3]


def _peak(curves: list[Curve], most: int) -> float:
    return max(
        (
            each["anonymous"] - curve[0]["anonymous"]
            for curve in curves
            for each in curve
            if each["samples"] <= most
        ),
        default=0.0,
    )


def _late(curves: list[Curve], most: int) -> tuple[float, int]:
    # Growth after a third of the samples and some batches, and the number of samples it took.
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
    # Growth after the first epoch of a worker.
    found = -1.0
    for curve in curves:
        first = [each["anonymous"] for each in curve if each["samples"] <= epoch]
        later = [each["anonymous"] for each in curve if each["samples"] > epoch]
        if first and later:
            found = max(found, later[-1] - max(first), 0.0)
    return found


def _grown(new: list[Curve], repeated: list[Curve]) -> list[tuple[str, str, float, int | None]]:
    # Containers that gain elements with each new sample, in any worker.
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
    # A container that was filled up and then has no more elements than before has a bound.
    found: dict[str, list[bool]] = {}
    for curve in curves:
        for path, before, now in curve[-1].get("filled", ()):
            found.setdefault(path, []).append(now is not None and now <= before)
    return {path: 0 for path, each in found.items() if all(each)}


EXPERIMENT: Final = Experiment("memory", 16.0, needed, ask)
