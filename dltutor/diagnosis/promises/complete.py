"""Find samples that are missing or arrive more than once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from dltutor.diagnosis.difference import between_fields, recut, same_field
from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.finding import Finding
from dltutor.diagnosis.measures import Measures
from dltutor.diagnosis.words import by_interpreter

_finding: Final = partial(Finding, promise="complete")

_PART: Final = 10  # a sampler that leaves out more than one in this many indices does so on purpose
_FEW: Final = 4  # if more than one in this many samples differs between epochs, they may be random
_ANEW: Final = "Make a new generator, iterator, list, or file at the start of each `__iter__`."


def no_batch_from_workers(evidence: Evidence) -> Iterator[Finding]:
    """Find an epoch that ends without a batch, but only with workers."""
    run, alone, parts = evidence.run, evidence.alone, evidence.parts
    if run.end != "finished" or run.batches or not any(run.finished):
        return  # if no iteration finished, the loop may not have asked for a batch
    if alone is None or not alone.batches:
        return
    yield _finding(
        f"The loop ended without an error, but it never got a batch. Without workers, it gets "
        f"{alone.batches}.",
        parts.where,
        "Print what each worker's share is. After the epoch, assert that batches arrived.",
        cause="Every worker ends before its first batch. Its share may be empty, or, with "
        "`drop_last=True`, smaller than a batch.",
    )


def counts(evidence: Evidence) -> Iterator[Finding]:
    """Find a stream whose epochs differ in length with and without workers.

    The doctor can't compare random samples, but can count them in finished epochs.
    """
    run, alone, parts = evidence.run, evidence.alone, evidence.parts
    if alone is None or not parts.stream:
        return
    if any(each.finished[:2] != (True, True) for each in (run, alone)):
        return
    ours, theirs = run.counted[:2], alone.counted[:2]
    if len({*theirs}) > 1 or {*ours} == {*theirs} or recut(run, alone):
        return  # the stream's length is random, or the same in both runs, or only the cuts differ
    first, second = ours
    came = f"both have {first}" if first == second else f"they have {first} and {second}"
    said = (
        f"Without workers, two epochs have {theirs[0]} samples each. With {parts.workers} workers, "
        f"{came}."
    )
    cause = (
        "Each worker iterates its own copy of the dataset, and how many samples that gives depends "
        "on how many workers there are. Some samples are lost, or arrive more than once."
    )
    fix = (
        "Count what each worker delivers, and compare it with what there is. Look for what ends an "
        "iteration early: `zip` stops at the shortest, `next()` without a default ends a generator "
        "or raises StopIteration, and `drop_last` drops the end of each worker's share."
    )
    forked = evidence.forked
    if forked is not None and forked.finished[:1] == (True,) and forked.counted[0] == theirs[0]:
        said += f" With forked workers, an epoch has {theirs[0]}."
        cause, fix = by_interpreter("What divides the stream")
    yield _finding(said, parts.where, fix, cause=cause)


def overlaps(evidence: Evidence) -> Iterator[Finding]:
    """Find a field whose values show that some samples are missing and others repeat.

    This works even if the rest of a sample is random.
    """
    found, parts = between_fields(evidence), evidence.parts
    if found is None:
        return
    said = (
        f"Without workers, `batch{found.path}` has {found.expected} different values in each "
        f"epoch. With {parts.workers} workers, {found.missing} of them don't arrive, and "
        f"{found.twice} arrive more than once."
    )
    cause = "With workers, an index doesn't always give the same sample."
    fix = f"In each worker, print the index that `{parts.dataset}` gets, and the sample it returns."
    if parts.stream:
        cause = "Each worker takes a share of the stream, and these shares overlap and leave gaps."
        fix = f"In each worker, print what `{parts.dataset}` takes as its share."
    if same_field(evidence.forked, evidence.alone, found.path):
        said += " With forked workers, each arrives once."
        cause, fix = by_interpreter("What divides the stream" if parts.stream else "A sample")
    yield _finding(said, parts.where, fix, cause=cause)


def announced(evidence: Evidence) -> Iterator[Finding]:
    """Find a stream whose `__len__` isn't the number of samples that it delivers."""
    run, alone, parts = evidence.run, evidence.alone, evidence.parts
    if not parts.stream or parts.length is None or not parts.batch_size or parts.drop_last:
        return
    runs = [each for each in (run, alone) if each is not None]
    counts = {count for each in runs for count in each.lengths}
    if not all(each.finished[:1] == (True,) for each in runs) or len(counts) != 1:
        return
    (count,) = counts
    if count == parts.length:
        return
    more = count > parts.length
    yield _finding(
        f"`len(dataset)` is {parts.length}, but each epoch has {count} samples, "
        f"{'with workers and without' if parts.workers else 'every time'}.",
        f"{parts.dataset}.__len__",
        f"Make `{parts.dataset}.__len__` count what `__iter__` yields, or leave it out.",
        cause="Anything that relies on `len(loader)` gets the wrong number of batches: a progress "
        "bar, a learning rate schedule, "
        + ("a loop that stops there and misses the rest." if more else "a step count."),
    )


def reused(evidence: Evidence) -> Iterator[Finding]:
    """Find a sampler that reuses one list or array for its batches of indices."""
    fetched, parts = evidence.fetched, evidence.parts
    if fetched is None or not fetched.reused or not parts.workers:
        return
    yield _finding(
        f"A batch of indices that `{parts.sampler}` has dealt out changes when it deals out the "
        "next one.",
        f"{parts.sampler}.__iter__",
        "Yield a copy: `list(batch)`, or `batch.tolist()` for an array.",
        cause="It yields the same list or array every time. A queue pickles the indices for a "
        "worker a little later, so some workers get the indices of a later batch, and the batch "
        "they should have made is lost.",
    )


def dealt(evidence: Evidence) -> Iterator[Finding]:
    """Find a sampler that deals out more or fewer batches than `len(loader)` says."""
    samples, parts = evidence.samples, evidence.parts
    if samples is None or len(samples.dealt) < 2 or parts.stream:
        return
    if all(said in (-1, dealt) for said, dealt in samples.dealt):
        return
    (said, first), (later, second) = samples.dealt
    if said == first and later != said:
        return  # `__len__` counts what's left, so a loop has to say when a new epoch begins
    cause = (
        "The sampler keeps something from one epoch to the next, so what one epoch leaves out "
        "arrives in a later one, or arrives twice."
    )
    fix = (
        "Start each `__iter__` with nothing left over from before, deal out what's left at its "
        "end, and make `__len__` count the same."
    )
    left_out, method = samples.left_out[:2], "__iter__"
    if not second:
        cause, fix = "One epoch uses up the sampler, so there's nothing left for the next.", _ANEW
    elif left_out and all(left_out) and max(first, second) < said:
        cause = "The sampler drops indices that its `__len__` counts, such as the rest of a bucket."
    elif first == second:
        cause, method = "The sampler's `__len__` and its `__iter__` count differently.", "__len__"
    yield _finding(
        f"`len(loader)` is {said}, but the sampler deals out {first} batches in one epoch "
        f"and {second} in the next."
        + (f" It leaves out {' and '.join(map(str, left_out))} samples." if left_out else ""),
        f"{parts.sampler}.{method}",
        fix,
        cause=cause,
        certainty="likely" if second else "shown",
    )


def left_out(evidence: Evidence) -> Iterator[Finding]:
    """Find a sampler that leaves out a few samples, but more than a batch, in each epoch.

    Report the sampler only if it leaves out different samples in two epochs, and also a different
    number of them or one for each batch.
    """
    samples, parts = evidence.samples, evidence.parts
    if samples is None or not samples.left_out or parts.drop_last or not parts.length:
        return
    first, second, largest = samples.left_out
    # After an epoch's last batch, an index that could be dropped follows only sometimes. A sampler
    # that drops one of each group on purpose drops one for each batch every time.
    more = {
        batches - count for count, (_, batches) in zip((first, second), samples.dealt, strict=False)
    }
    for_each = {1} <= more <= {0, 1}
    if first == second and not for_each:
        return  # a sampler that drops the rest of each bucket on purpose drops as many each time
    if not largest < min(first, second) <= max(first, second) <= parts.length / _PART:
        return  # at most a batch is left out, or the sampler draws a part of the data on purpose
    said = (
        f"Of {parts.length} samples, the sampler leaves out {first} in one epoch and {second} in "
    )
    said += "the next, and not the same ones."
    fix = (
        "Deal out what's left at the end of each bucket or pool, or carry it over to the next one."
    )
    cause = "The sampler groups the indices and drops what doesn't fill a batch in each group."
    if for_each:
        said += f" It deals out {samples.dealt[0][1]} batches."
        fix = "Begin the next batch with the index that didn't fit."
        cause = "When a batch is full, the sampler has already taken one index more, and drops it."
    yield _finding(
        f"{said} Its largest batch has {largest} indices.",
        f"{parts.sampler}.__iter__",
        fix,
        cause=cause,
        certainty="likely",
    )


def epochs(evidence: Evidence) -> Iterator[Finding]:
    """Find a second epoch with far fewer samples or, for a stream, with some different ones."""
    # If samples are random, all of them differ in the next epoch. If each epoch leaves out a few,
    # only those differ.
    run, parts = evidence.run, evidence.parts
    if not (run.well and run.finished[:2] == (True, True)):
        return
    if min(run.counted[:2]) < run.counted[0] / 2:
        yield _used_up(evidence)
        return
    if not parts.stream:
        return
    first, second = (Counter(_unpadded(run, epoch)) for epoch in range(2))
    missing, more = (first - second).total(), (second - first).total()
    if not 0 < max(missing, more) <= first.total() / _FEW:
        return
    yield _finding(
        f"Epochs 0 and 1 have {first.total()} and {second.total()} samples. {missing} from epoch 0 "
        f"{'does' if missing == 1 else 'do'}n't arrive in epoch 1, and {more} "
        f"{'other does' if more == 1 else 'others do'}. The rest are the same.",
        parts.where,
        "At the end of `__iter__`, deliver what's still in the buffer: `yield from` it instead of "
        "a `return`.",
        cause="Each epoch leaves some samples out. Often that's what is left in a buffer when the "
        "data ends.",
        certainty="likely",
    )


def _unpadded(run: Measures, epoch: int) -> Sequence[object]:
    # Return a digest of each sample. If some fields are padded, return digests of all other fields,
    # because padding depends on which samples share a batch.
    if not run.padded:
        return run.drawn[epoch]
    fields = [parts for path, parts in run.fields[epoch] if path not in run.padded]
    return [*zip(*fields, strict=True)]


def _used_up(evidence: Evidence) -> Finding:
    run, parts = evidence.run, evidence.parts
    return _finding(
        f"The first epoch has {run.counted[0]} samples, and the next one has {run.counted[1]}.",
        parts.where if parts.stream else f"{parts.sampler}.__iter__",
        _ANEW,
        cause="One epoch uses up something that the next one needs, such as a generator, an "
        "iterator, or an open file that was read to its end.",
    )


def between_ranks(evidence: Evidence) -> Iterator[Finding]:
    """Find ranks that share some samples and leave others out.

    Each rank shuffles differently before it takes its share.
    """
    found = evidence.made_as_rank
    if found is None or len(found.dealt) < 2 or found.repeated > found.batch:
        return
    # Ranks whose shares have to be of equal length may get a batch or two twice, or not at all.
    slack = max(found.length / _PART, 4 * found.batch)
    if min(found.both, found.neither) < slack or sum(found.dealt) < found.length - slack:
        return
    yield _finding(
        f"If rank 0 and rank 1 of 2 make the loader, {found.both} of {found.length} samples go to "
        f"both ranks, and {found.neither} go to none.",
        found.where or evidence.parts.sampler,
        "Have all ranks shuffle with the same seed, for example a fixed number plus the epoch, "
        "and then take each rank's share.",
        cause="Each rank shuffles in its own way, and takes its share of its own order.",
    )
