"""Do workers get in each other's way through a file or connection that they share?

Draw from the dataset in main, with one worker, with two workers taking turns, and with two at once.
When both run at once, their reading and sending is slowed down so that they have to collide. Only
what goes wrong in that last case alone is the workers' doing.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from typing import Final

from dltutor.diagnosis.evidence import Evidence, Handles
from dltutor.diagnosis.experiment import Experiment
from dltutor.diagnosis.kit import forks
from dltutor.diagnosis.kit.bench import Bench
from dltutor.diagnosis.kit.descriptors import (
    Listener,
    descriptors,
    drain,
    holders,
    short_paths,
    standing,
)
from dltutor.diagnosis.kit.lazily_opened import lazily_opened
from dltutor.diagnosis.kit.rivals import samples, shares


def needed(evidence: Evidence | None) -> bool:
    """Ask if there are workers, and samples can be drawn without them."""
    if evidence is None or evidence.parts.workers == 0:
        return False
    return not (evidence.samples and evidence.samples.ended in ("died", "hung"))


def ask(bench: Bench) -> Handles:
    """Find what's open and used, then let two workers use it."""
    if not bench.stream:
        bench.indices()  # a loader asks for the length and order before workers start
    inherited = descriptors()
    draw = shares if bench.stream else samples
    used = _used(bench, inherited)
    if not used:
        return Handles()
    try:
        right, wrong, said = draw(bench, inherited)
    finally:
        drain(used)
    kind = "socket" if "file" not in used.values() else "file"
    held = holders(bench.dataset, used)
    return Handles(
        kind=kind,
        paths=tuple(short_paths(held)[:3]),
        looked=right,
        wrong=wrong,
        said=said,
        lazy=lazily_opened(bench, held) if wrong else "",
    )


def _used(bench: Bench, inherited: dict[int, str]) -> dict[int, str]:
    def look() -> set[int]:
        listener = Listener(inherited)
        before = standing(inherited)
        with suppress(Exception), listener.listening():
            if bench.stream:
                list(islice(bench.dataset, 4))
            else:
                for index in bench.indices()[:4]:
                    bench.dataset[index]
        after = standing(inherited)
        return listener.used | {each for each in inherited if before.get(each) != after.get(each)}

    with suppress(forks.NoAnswer):
        return {each: inherited[each] for each in forks.in_fork(look, 3.0)}
    return {}


EXPERIMENT: Final = Experiment("handles", 20.0, needed, ask)
