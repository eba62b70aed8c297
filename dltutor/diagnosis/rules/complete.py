"""Failure modes in which samples are missing, or come more than once."""

from __future__ import annotations

from collections import Counter
from typing import Final

from dltutor.diagnosis.evidence import Evidence, Fit
from dltutor.diagnosis.rules.culprits import how_many


def silent_stop(evidence: Evidence) -> Fit | None:
    """An epoch ends early, and drawing a sample or making a batch raises StopIteration."""
    run, culprit, parts = evidence.run, evidence.culprit, evidence.parts
    if culprit is None or culprit.kind != "StopIteration":
        return None
    if culprit.stage not in ("sample", "collate"):
        return None
    early = [
        len(seen)
        for done, seen in zip(run.finished, run.passes, strict=False)
        if done and (parts.batches is None or len(seen) < parts.batches)
    ]
    if not early:
        return None
    of = f" of {parts.batches}" if parts.batches is not None else ""
    said = (
        f"The epoch ended after {early[0]}{of} batches, without an error. In a main process "
        f"{culprit.which} raises StopIteration.{how_many(evidence)}"
    )
    fix = (
        "Give that next() a default and handle it, or look up in a dict, which raises KeyError. "
        f"Samples of {parts.dataset} that cannot be made belong set aside before the epoch."
    )
    return Fit("ends", "shown", said, culprit.at, fix)


def repeated_stream(evidence: Evidence) -> Fit | None:
    """Each worker delivers what the other ones do."""
    shares = evidence.shares
    if overlap := _overlap(evidence):
        return overlap
    if shares is None or not evidence.same_stream:
        return None
    counts = " and ".join(map(str, shares.shares[:4]))
    said = (
        f"One pass has {shares.whole} samples, and the workers draw {counts}."
        if shares.complete
        else f"The first {shares.compared} samples of W0 and W1 are the same."
    )
    if shares.complete and shares.same:
        said += f" The first {shares.same} samples of W0 and W1 are the same."
    return Fit(
        "wrong",
        "shown",
        said,
        where=evidence.parts.where,
        fix=f"In `{evidence.parts.dataset}.__iter__`, ask `get_worker_info()` and take every "
        "`num_workers`-th sample or file, from `id` on.",
    )


def _overlap(evidence: Evidence) -> Fit | None:
    # Workers that share a part only: each shuffles anew before it takes its own.
    run, alone = evidence.run, evidence.alone
    if not evidence.parts.stream or alone is None:
        return None
    if not (run.finished[:1] == alone.finished[:1] == (True,)) or not (run.drawn and alone.drawn):
        return None
    came, there = Counter(run.drawn[0]), Counter(alone.drawn[0])
    if not there or max(there.values()) > 1 or not came.keys() <= there.keys():
        return None
    twice, never = sum(count > 1 for count in came.values()), len(there.keys() - came.keys())
    if twice < 2 or never < 2:
        return None
    return Fit(
        "wrong",
        "shown",
        f"Of {len(there)} samples {twice} come more than once and {never} never with "
        f"{evidence.parts.workers} workers; without workers each comes once.",
        where=evidence.parts.where,
        fix=f"In `{evidence.parts.dataset}.__iter__`, have all workers agree on one order, from a "
        "seed that is the same in each, before each takes its share of it.",
    )


_TAIL: Final = 4  # times as many samples as belong to no worker: of fewer it is no tail


def lost_tail(evidence: Evidence) -> Fit | None:
    """A stream has fewer samples with workers than without, and they were there to be drawn."""
    run, alone, shares = evidence.run, evidence.alone, evidence.shares
    if alone is None or shares is None or not (run.well and alone.well and shares.complete):
        return None
    if evidence.handles is not None and evidence.handles.disturbed:
        return None
    if not (run.finished[:1] == alone.finished[:1] == (True,)):
        return None
    came, there = run.counted[0], alone.counted[0]
    if not shares.ended and not len(set(run.counted)) == len(set(alone.counted)) == 1:
        return None  # how many there are has to be certain
    whole = shares.whole if shares.ended else there
    drawn = sum(shares.shares)
    counts = " and ".join(map(str, shares.shares[:4]))
    if evidence.parts.drop_last and came < there and drawn >= whole:
        return Fit(
            "wrong",
            "shown",
            f"{came} samples come with {evidence.parts.workers} workers and {there} without. The "
            f"workers draw {counts} of {whole}; `drop_last` drops the rest of each.",
            where="drop_last=True",
            fix="Use `drop_last=False` if the loop takes short batches; or build whole batches in "
            f"`{evidence.parts.dataset}`, deal those out, and give the loader `batch_size=None`.",
        )
    each = run.drawn[0] if run.drawn else ()
    some_twice = len(set(each)) < len(each)  # that is another failure
    tail = 0 < whole - drawn <= whole / _TAIL
    if tail and came < there and not some_twice:
        return Fit(
            "wrong",
            "shown",
            f"The workers draw {counts} samples, {drawn} of the {whole} that there are "
            "without workers: the rest belongs to none of them.",
            where=evidence.parts.where,
            fix="Deal out so that nothing is left over: every `num_workers`-th sample from `id` "
            "on, as `itertools.islice(samples, id, None, num_workers)` does.",
        )
    return None


_WANTED: Final = 20  # times as many samples as are counted: nobody forgets that many


def wrong_length(evidence: Evidence) -> Fit | None:
    """`__getitem__` ends elsewhere than `__len__` says."""
    ending = evidence.ending
    if ending is None or ending.end < 0 or ending.end == ending.length:
        return None
    length, end = ending.length, ending.end
    where = f"{evidence.parts.dataset}.__len__"
    if end < length:
        return Fit(
            evidence.harm,
            "shown",
            f"`len(dataset)` is {length}, and every index from {end} on raises {ending.said}. All "
            "before it are there.",
            where=where + (f"; raised at {ending.line}" if ending.line else ""),
            fix=f"Have `{where}` count what `__getitem__` can give: {end} here.",
        )
    if ending.limits or end > _WANTED * length:
        return None
    return Fit(
        "wrong",
        "likely",
        f"`len(dataset)` is {length}, and `dataset[{length}]` to `dataset[{end - 1}]` are there "
        f"too: {end - length} of {end} samples are never drawn.",
        where=where,
        fix=f"Have `{where}` count what `__getitem__` can give: {end} here. If the limit is "
        "wanted, nothing is wrong.",
    )


def ranks(evidence: Evidence) -> Fit | None:
    """Epochs repeat the order of a sampler that would change it; or ranks share samples."""
    order = evidence.order
    if order is None:
        return None
    if order.moves and order.epochs > 1 and order.repeated and not order.told:
        return Fit(
            "wrong",
            "shown",
            f"{order.repeated + 1} of {order.epochs} epochs had the same order: the loop never "
            "calls `set_epoch` of the sampler. Called here, it changes the order.",
            where="loader.sampler",
            fix="Call `loader.sampler.set_epoch(epoch)` before each epoch.",
        )
    if order.twice and not order.shuffles and not evidence.parts.drop_last:
        return Fit(
            "wrong",
            "likely",
            f"The {order.ranks} ranks together get {order.twice} of the "
            f"{evidence.parts.length} samples twice: the sampler pads their shares. An evaluation "
            "counts them twice.",
            where="loader.sampler",
            fix="For evaluation, deal out `range(rank, len(dataset), ranks)` without padding, or "
            "drop what comes twice when you gather.",
        )
    return None


def nested_persistent(evidence: Evidence) -> Fit | None:
    """An iteration goes on after another has begun, and gets other batches than by itself."""
    run, own = evidence.run, evidence.not_kept
    if own is None or not run.resumed or not own.well:
        return None
    if (run.counted, run.finished) == (own.counted, own.finished):
        return None
    return Fit(
        "wrong",
        "shown",
        f"An iteration of the loader began while another one was under way, and both went on with "
        f"one iterator: the loop got {run.batches} batches in {len(run.passes)} iterations. With "
        f"persistent_workers=False it got {own.batches} in {len(own.passes)}.",
        "in the training loop: the loader is iterated inside a loop over the same loader",
        "Give the inner loop a loader of its own, over the same dataset; or set "
        "persistent_workers=False.",
    )
