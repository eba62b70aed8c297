"""Recognize failure modes in which something that should be new each time repeats."""

from __future__ import annotations

from math import sqrt
from typing import Final

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.finding import Finding
from dltutor.diagnosis.probes.repeats import COLLATE
from dltutor.diagnosis.running.random_states import SAID


def repeated_randomness(evidence: Evidence) -> Finding | None:
    """Samples vary within a worker, but another worker or the next epoch repeats them."""
    repeats, twice = evidence.repeats, evidence.twice
    if repeats is None or (twice and (twice.own or twice.counter)) or evidence.same_stream:
        return None
    natural = evidence.shares is not None and evidence.shares.natural
    named = sorted(repeats.sources, key=lambda each: each[0] == "all")
    for source, varied, same, compared, again, later in named:
        if varied < 3:
            continue
        across = same == compared > 2 and (not repeats.order or natural)
        over = again == later > 2
        if across or over:
            said = [f"W0 and W1 drew the same {same} of {compared} random samples"] * across
            said += [f"Fresh workers repeated {again} of {later} in the next epoch"] * over
            path = ", ".join(repeats.own[:2])
            own = source == "own" or (source == "all" and bool(path))
            generator = f"`{path}`" if own and path else source if source != "all" else ""
            if source == COLLATE:
                generator = f"`{evidence.parts.collate}`, not from the dataset"
            return Finding(
                f"{'. '.join(said)}, though samples vary within a worker."
                + (f" The numbers come from {generator}." if generator not in ("", "own") else ""),
                path if own and path else _seeded(evidence, source),
                _fix(evidence, path if own else "", source),
                _cause(evidence, source, across=across),
                certainty="shown" if across or not evidence.parts.stream else "likely",
            )
    return None


def _seeded(evidence: Evidence, source: str) -> str:
    parts, samples = evidence.parts, evidence.samples
    only = samples is not None and samples.joined and not samples.random
    if only or source == COLLATE:
        return f"collate_fn={parts.collate}"
    return f"worker_init_fn ({parts.init})" if parts.init else parts.where


def _cause(evidence: Evidence, source: str, *, across: bool) -> str:
    if not evidence.parts.init or source in ("all", "own", COLLATE):
        return ""
    where = "in each worker" if across else "in every epoch"
    return f"`{evidence.parts.init}` seeds {source} with the same number {where}."


def _fix(evidence: Evidence, path: str, source: str) -> str:
    if path:
        return (
            f"In `worker_init_fn`, seed `{path}` from `torch.initial_seed()`. Or have the dataset "
            "make the generator from the seed, the epoch, and the index."
        )
    if source == COLLATE:
        return (
            f"Have `{evidence.parts.collate}` draw from torch's global generator, which torch "
            "seeds in each worker. Or seed its own generator in `worker_init_fn`, from "
            "`torch.initial_seed()`."
        )
    if evidence.parts.init and source not in ("all", "own"):
        return (
            f"Torch already seeds {source} in each worker and each epoch. Don't seed it in "
            f"`{evidence.parts.init}`, or seed it from `torch.initial_seed()`."
        )
    return ""


_FEW: Final = 100  # in an epoch of fewer samples, a small buffer is enough
_SAME: Final = 0.9  # if a smaller share of samples is in both epochs, positions say little
# The part of an epoch by which a sample should move, at least. In a random order, a sample moves by
# a third. With a buffer, it moves by about as many positions as the buffer has room for.
_NEAR: Final = 0.05
# A stream shuffles with a buffer if `falling` is more than this factor times the square root of
# `moved`. For buffers with room for 8 to 128 of 200 to 4,096 samples, the factor was at least 2.53.
# For 2 to 16 sources, read in order, with each sample from a random one, it was at most 2.21.
_MIXES: Final = 2.5


def poor_shuffle(evidence: Evidence) -> Finding | None:
    """A stream shuffles, but its samples are nearly where they were in the epoch before."""
    found, parts = evidence.displaced, evidence.parts
    if found is None or not found.shuffles or found.looked < _FEW or evidence.same_stream:
        return None
    length = max(found.looked, *evidence.run.counted)
    if found.found < _SAME * found.looked or found.moved >= _NEAR * length:
        return None
    if found.falling <= max(_MIXES * sqrt(found.moved), 2):
        return None
    return Finding(
        f"The order of the stream changes from epoch to epoch, but a sample moves by only "
        f"{found.moved:.0f} of {length} positions on average. In a random order, it would move by "
        f"about {length / 3:.0f}.",
        parts.where,
        certainty="likely",  # if the files are in random order, a small buffer does little harm
    )


def same_on_all_ranks(evidence: Evidence) -> Finding | None:
    """Ranks that begin with different random numbers draw the same ones after the loop starts."""
    ranks, parts = evidence.two_ranks, evidence.parts
    if ranks is None or not ranks.seeded:
        return None
    names = " and ".join(SAID[each] for each in ranks.seeded)
    who = "each worker of rank 1" if parts.workers else "rank 1"
    return Finding(
        f"The doctor ran your loop as rank 0 and as rank 1 of 2, each with a seed of its own. But "
        f"{who} drew the same random numbers as on rank 0, from {names}.",
        f"your loop, or worker_init_fn={parts.init}" if parts.init else "your loop",
        "Find the call that seeds (`manual_seed`, `set_seed`, `seed_everything`), and add the rank "
        "to its seed. If it adds a rank that your program read before it called the doctor, "
        "nothing is wrong.",
        certainty="likely",
    )
