"""Do workers that stay see what main changes between epochs?

Run the same epochs with persistent workers, with fresh workers, and without any. The order is the
same and random numbers are held, so any difference comes from what main changed.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from functools import partial
from typing import Any, Final

import torch

from dltutor.diagnosis.evidence import Epochs, Evidence
from dltutor.diagnosis.experiment import Experiment
from dltutor.diagnosis.kit import forks, trial
from dltutor.diagnosis.kit.bench import Bench
from dltutor.diagnosis.kit.digests import digest
from dltutor.diagnosis.kit.pins import hold_draws
from dltutor.diagnosis.kit.small_loaders import Prepared
from dltutor.diagnosis.kit.walking import walk
from dltutor.observation.foreign import is_a

_RUN: Final = 2.5  # seconds

Passes = list[list[str]]


def needed(evidence: Evidence | None) -> bool:
    """Ask if workers stay and something is set between epochs."""
    if evidence is None or not evidence.parts.persistent or not evidence.run.well:
        return False
    return (
        len(evidence.run.passes) > 1 if evidence.parts.loop else "dataset" in evidence.parts.hooks
    )


def ask(bench: Bench) -> Epochs:
    """Run the epochs with workers that stay, with fresh workers, and without any."""
    settings: tuple[dict[str, Any], ...] = (
        {"persistent_workers": True},
        {"persistent_workers": False},
        {"num_workers": 0},
    )
    (kept, _), (fresh, changed), (alone, _) = (
        forks.in_fork(partial(_run, bench, each), 2 * _RUN + 1) for each in settings
    )
    count = min(len(kept), len(fresh), len(alone))
    later = range(1, count)
    unlike = _out_of_place if bench.stream else _unlike
    return Epochs(
        looked=sum(len(fresh[each]) for each in later),
        stale=sum(unlike(kept[each], fresh[each]) for each in later),
        arrived=sum(
            len(fresh[each]) - (0 if bench.stream else _unlike(fresh[each], alone[each]))
            for each in later  # without workers, a stream has a different order
        ),
        moved=sum(unlike(fresh[each], fresh[0]) for each in later),
        first=count > 0 and not unlike(kept[0], fresh[0]),
        by="set_epoch" if bench.loop is None else "the loop",
        paths=tuple(changed[:3]),
    )


def _run(bench: Bench, settings: dict[str, Any]) -> tuple[Passes, list[str]]:
    bench.seed_sampler()

    def prepare(_: int) -> None:
        hold_draws(bench.dataset)

    bench.change(method="fork", **settings)
    init = Prepared(bench, prepare)
    if settings.get("num_workers") == 0:
        prepare(0)
    else:
        bench.change(worker_init_fn=init)
    before = _state(bench.dataset)
    epochs = max(bench.epochs, 2) if bench.loop is None else bench.epochs
    ran = trial.run(bench, seconds=_RUN, epochs=epochs, told=True)
    after = _state(bench.dataset)
    changed = [path for path, content in after.items() if before.get(path, content) != content]
    found = [
        list(drawn or whole)
        for drawn, whole, finished in zip(ran.drawn, ran.passes, ran.finished, strict=True)
        if finished
    ]
    return found, changed


def _state(dataset: Any) -> dict[str, str]:
    # Plain values only, because that's what a loop sets.
    found = {}
    for each in walk(dataset):
        if is_a(each.thing, (int, float, str, bool, torch.Tensor)):
            with suppress(Exception):
                found[each.path] = digest(each.thing)
    return found


def _unlike(one: list[str], other: list[str]) -> int:
    return (Counter(one) - Counter(other)).total()


def _out_of_place(one: list[str], other: list[str]) -> int:
    return sum(a != b for a, b in zip(one, other, strict=False)) + abs(len(one) - len(other))


EXPERIMENT: Final = Experiment("epochs", 16.0, needed, ask)
