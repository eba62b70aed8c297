"""Recognize failure modes in which something that should be new each time repeats."""

from __future__ import annotations

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.finding import Finding


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
            return Finding(
                f"{'. '.join(said)}, though samples vary within a worker."
                + (f" The numbers come from {generator}." if generator not in ("", "own") else ""),
                path if own and path else _seeded(evidence),
                _fix(evidence, path if own else "", source),
                _cause(evidence, source, across=across),
                certainty="shown" if across or not evidence.parts.stream else "likely",
            )
    return None


def _seeded(evidence: Evidence) -> str:
    parts, samples = evidence.parts, evidence.samples
    if samples is not None and samples.joined and not samples.random:
        return f"collate_fn={parts.collate}"
    return f"worker_init_fn ({parts.init})" if parts.init else parts.where


def _cause(evidence: Evidence, source: str, *, across: bool) -> str:
    if not evidence.parts.init or source in ("all", "own"):
        return ""
    where = "in each worker" if across else "in every epoch"
    return f"`{evidence.parts.init}` seeds {source} with the same number {where}."


def _fix(evidence: Evidence, path: str, source: str) -> str:
    if path:
        return (
            f"In `worker_init_fn`, seed `{path}` from `torch.initial_seed()`. Or have the dataset "
            "make the generator from the seed, the epoch, and the index."
        )
    if evidence.parts.init and source not in ("all", "own"):
        return (
            f"Torch already seeds {source} in each worker and each epoch. Don't seed it in "
            f"`{evidence.parts.init}`, or seed it from `torch.initial_seed()`."
        )
    return ""
