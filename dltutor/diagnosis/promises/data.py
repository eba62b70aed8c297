"""Samples that are missing, come twice, or are not those of the dataset."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from dltutor.diagnosis.evidence import Evidence, Run
from dltutor.diagnosis.kit.difference import Difference, between, with_workers
from dltutor.diagnosis.kit.pins import SAID
from dltutor.diagnosis.promises.broken import Broken
from dltutor.failures import Promise

_FEW: Final = 4  # times as many samples come again as don't, if they aren't random


def differs(evidence: Evidence) -> Iterator[Broken]:
    """Samples that are others with workers than without."""
    difference = with_workers(evidence)
    if difference is None or not difference.any or not _steady(evidence, difference):
        return
    count, unit, expected = evidence.parts.workers, difference.unit, difference.expected
    workers = f"{count} worker{'' if count == 1 else 's'}"
    promise: Promise = "same" if difference.more and difference.missing else "complete"
    if promise == "same":
        said = (
            f"Of {expected} {unit} that come without workers{_which(difference)}, "
            f"{difference.missing} don't come with {workers}. {difference.more} others do."
        )
    else:
        said = (
            f"Epoch {difference.epoch} has {expected} {unit} without workers, and "
            f"{difference.came} with {workers}"
        )
        if difference.missing:
            said += f": {difference.missing} never come"
        elif difference.twice:
            said += f", {difference.twice} of them more than once"
        said += "."
    said += " They aren't random: drawn again without workers, they are the same."
    yield Broken(promise, "shown", said, *_narrowed(evidence, difference))


def _narrowed(evidence: Evidence, difference: Difference) -> tuple[str, str, str]:
    # Where a difference comes from as far as is known, why, and what to do or to try.
    parts, fetched = evidence.parts, evidence.fetched
    if difference.epoch:
        return (
            parts.where,
            "The first epoch is the same. What main changes in the dataset after the workers have "
            "started doesn't reach them, and it was changed too late, or in main only.",
            f"Find who changes {parts.dataset} between epochs. Let each worker learn of it: with "
            "`persistent_workers=False` and before `iter(loader)`, in a tensor in shared memory, "
            "or as part of the index that the sampler deals.",
        )
    if fetched is not None and fetched.dealt_once:
        return (
            f"{parts.sampler}.__iter__",
            "The sampler deals other batches when it's asked a second time, and torch calls "
            "`iter()` of it twice where there are workers.",
            "Make `__iter__` a generator that changes nothing before its first `next()`.",
        )
    if parts.stream:
        return (
            parts.where,
            "Each worker iterates a copy of its own, and who takes which share is up to you.",
            "Let exactly one of the datasets that wrap each other look at `get_worker_info()`, and "
            "take every `num_workers`-th sample from `id` on.",
        )
    return (
        parts.where,
        "What a worker delivers depends on its being a worker.",
        f"Print what `{parts.dataset}` does at this line, in each worker.",
    )


def _which(difference: Difference) -> str:
    if difference.epoch:
        return f" in epoch {difference.epoch}"
    return "" if difference.whole else " first"


def _steady(evidence: Evidence, found: Difference) -> bool:
    # Whether the same samples come without workers, whatever the random numbers.
    alone, reseeded, samples = evidence.alone, evidence.reseeded, evidence.samples
    if alone is not None and reseeded is not None and not found.epoch:
        # A stream that is the same in the same order has no random numbers in it.
        difference = between(alone, reseeded, in_order=evidence.parts.stream)
        if difference is not None and difference.unit == "samples":
            return not difference.any
    plain = samples is not None and not (samples.random or samples.again or samples.joined)
    return plain and samples is not None and samples.looked > 0 and not evidence.parts.stream


def fetched(evidence: Evidence) -> Iterator[Broken]:
    """Batches that are fetched past `__getitem__`."""
    fetched, parts = evidence.fetched, evidence.parts
    if fetched is None or not fetched.differ or not fetched.by:
        return
    whose = f"Here it is that of {fetched.by}, inside {parts.dataset}."
    if fetched.by == parts.dataset:
        whose = "They give different samples."
    yield Broken(
        "same",
        "shown",
        f"{fetched.differ} of the first {fetched.looked} samples are not what "
        f"`{parts.dataset}.__getitem__` gives for their indices.",
        f"{fetched.by}.__getitems__",
        "A loader that finds `__getitems__` asks it for whole batches, and never asks "
        f"`__getitem__`. {whose}",
        f"Define it in {parts.dataset}: "
        "`def __getitems__(self, indices): return [self[i] for i in indices]`.",
    )


def fields(evidence: Evidence) -> Iterator[Broken]:
    """Fields of a batch that not all of its samples have."""
    fetched, parts = evidence.fetched, evidence.parts
    if fetched is None or not (fetched.ragged or fetched.dropped):
        return
    told = [
        f"`{name}` has {rows} rows in a batch of {samples}: row k isn't sample k's"
        for name, rows, samples in fetched.ragged
    ]
    told += [
        f"`{name}`, which {have} of {samples} samples have, is missing from a batch"
        for name, have, samples in fetched.dropped
    ]
    yield Broken(
        "same",
        "shown" if fetched.ragged else "likely",
        f"{'; '.join(told[:3])}.",
        parts.collate or "default_collate",
        "The samples don't all have the same fields, and the batch keeps what it finds.",
        "Give each sample every field, with a placeholder where there is nothing, and a mask that "
        "says so.",
    )


def crossed(evidence: Evidence) -> Iterator[Broken]:
    """Fields of a batch whose rows belong to different samples."""
    fetched, parts = evidence.fetched, evidence.parts
    if fetched is None or not fetched.crossed:
        return
    name, other = (each or "the batch" for each in fetched.crossed[0])
    yield Broken(
        "same",
        "shown",
        f"Row k of `{name}` and row k of `{other}` don't belong to the same sample: alone, each "
        "sample has other ones.",
        parts.collate or "default_collate",
        "The collate function brings one field into another order than the other.",
        "Sort or shuffle the samples, before their fields are taken apart.",
    )


def reordered(evidence: Evidence) -> Iterator[Broken]:
    """Samples that depend on which were drawn before."""
    found, parts = evidence.reordered, evidence.parts
    if found is None or not found.differ:
        return
    said = (
        f"{found.differ} of {found.looked} samples are others if they are drawn from the last to "
        "the first, with all random numbers held."
    )
    if found.other:
        said += (
            f" `dataset[{found.index}]` is then, or otherwise, that of `dataset[{found.other}]`."
        )
    if found.paths:
        said += f" Drawing them changes {', '.join(f'`{each}`' for each in found.paths)}."
    yield Broken(
        "same",
        "shown",
        said,
        found.paths[0] if found.paths else parts.where,
        "A sample depends on which samples this process has drawn before. Each worker draws "
        "others, so that what arrives depends on the number of workers and on the order."
        + (" A cache whose key doesn't tell two samples apart does that." if found.other else ""),
        "Make a sample from its index and from what stands before the first draw. "
        + (
            "Let the key hold all that the sample depends on."
            if found.other
            else "Work out in `__init__` what all samples need."
        ),
    )


def seeded(evidence: Evidence) -> Iterator[Broken]:
    """Samples that set a global random generator, all to the same state."""
    samples, parts = evidence.samples, evidence.parts
    if samples is None or not samples.seeded:
        return
    names = " and ".join(SAID[each] for each in samples.seeded)
    yield Broken(
        "independent",
        "shown",
        f"After each sample {names} is in the same state, whatever it was before.",
        parts.where,
        "A sample seeds it with a constant. All samples then draw the same random numbers, in "
        "each epoch, and so does whoever draws next in the same process.",
        "Leave the seeding out: torch seeds each worker anew in each epoch. For samples that are "
        "always the same, make a generator from the index: `np.random.default_rng(index)`.",
    )


def stuck(evidence: Evidence) -> Iterator[Broken]:
    """A sampler that shuffles alike in every epoch."""
    fetched, parts, run = evidence.fetched, evidence.parts, evidence.run
    if fetched is None or not fetched.stuck or "sampler" in parts.hooks:
        return
    if len(run.passes) > 1 and not _again(run):
        return  # the loop tells it the epoch in another way
    yield Broken(
        "independent",
        "likely",
        f"`{parts.sampler}` asks for random numbers (`{fetched.stuck}`), and deals the same "
        "batches in each epoch, whatever the seed.",
        f"{parts.sampler}.__iter__",
        "It makes its generator anew each time, from a constant seed.",
        "Make the generator once, in `__init__`, or seed it from the epoch: with a `set_epoch` "
        "that the loop calls.",
    )


def replaced(evidence: Evidence) -> Iterator[Broken]:
    """Samples that stand in for others."""
    samples, parts = evidence.samples, evidence.parts
    if samples is None or not samples.replaced:
        return
    index, other, kind, text, line = samples.replaced[0]
    count = len(samples.replaced)
    yield Broken(
        "complete",
        "shown",
        f"`dataset[{index}]` gives the sample of `dataset[{other}]`, after {kind}"
        f"{f' ({text})' if text else ''} was caught. So do {count} of the {samples.looked} samples "
        "that were drawn.",
        line,
        f"{parts.dataset} hides that a sample can't be made, and gives another one twice.",
        "Find the bad samples once, before training, leave them out, and say how many there are.",
    )


def order(evidence: Evidence) -> Iterator[Broken]:
    """An order that comes again, although the sampler was told the epoch."""
    run, order, parts = evidence.run, evidence.order, evidence.parts
    if order is None or not order.moves or run.epochs_told < 2:
        return
    epochs = [drawn or passed for drawn, passed in zip(run.drawn, run.passes, strict=True)]
    whole = [
        each for each, done in zip(epochs, run.finished, strict=True) if done and len(each) > 3
    ]
    same = [at for at in range(1, len(whole)) if whole[at] == whole[at - 1]]
    if not same:
        return
    yield Broken(
        "independent",
        "shown",
        f"Epochs {same[0] - 1} and {same[0]} have the same order, though the loop called "
        f"`{parts.sampler}.set_epoch` {run.epochs_told} times.",
        f"{parts.sampler}.set_epoch",
        "The order of an epoch was dealt before the sampler was told which epoch it is: a loader "
        "that never ends loads ahead.",
        f"Let an epoch end: an ordinary loader with `persistent_workers=True` keeps its workers. "
        f"{parts.loader} has one iterator for all epochs.",
    )


def dealt(evidence: Evidence) -> Iterator[Broken]:
    """A sampler that deals another number of batches than it says."""
    samples, parts = evidence.samples, evidence.parts
    if samples is None or min(samples.dealt) < 0 or parts.batches is None or parts.stream:
        return
    first, second = samples.dealt
    if first == second == parts.batches:
        return
    yield Broken(
        "complete",
        "likely",
        f"`len(loader)` is {parts.batches}. In one epoch the sampler deals {first} batches, in the "
        f"next {second}.",
        f"{parts.sampler}.__len__" if first == second else f"{parts.sampler}.__iter__",
        "The sampler's `__len__` and its `__iter__` count differently."
        if first == second
        else "The sampler keeps something from one epoch to the next: what an epoch leaves out "
        "comes in a later one, or comes twice.",
        "Begin each `__iter__` with nothing left over from before, deal what is left at its end, "
        "and let `__len__` count the same.",
    )


def epochs(evidence: Evidence) -> Iterator[Broken]:
    """Epochs that have fewer samples than the first, or, of a stream, other ones."""
    # Of random samples all are others in the next epoch, of those that are left out some.
    run, parts = evidence.run, evidence.parts
    if not (run.well and run.finished[:2] == (True, True)):
        return
    if min(run.counted[:2]) < run.counted[0] / 2:
        yield _used_up(evidence)
        return
    first, second = (Counter(each) for each in run.drawn[:2])
    if not parts.stream:
        return
    missing, more = (first - second).total(), (second - first).total()
    if not 0 < max(missing, more) <= first.total() / _FEW:
        return
    yield Broken(
        "complete",
        "likely",
        f"Epochs 0 and 1 have {first.total()} and {second.total()} samples. {missing} of the first "
        f"don't come in the second, and {more} others do; the rest are the same.",
        parts.where,
        "Each epoch leaves some samples out: often what is left in a buffer when the data ends.",
        "At the end of `__iter__`, deliver what is still in the buffer: `yield from`, and not "
        "`return`.",
    )


def _used_up(evidence: Evidence) -> Broken:
    run, parts = evidence.run, evidence.parts
    return Broken(
        "complete",
        "shown",
        f"The first epoch has {run.counted[0]} samples, the next one {run.counted[1]}.",
        parts.where if parts.stream else f"{parts.sampler}.__iter__",
        "Something that can be iterated only once is kept from one epoch to the next: a generator, "
        "an iterator, an open file that has come to its end.",
        "Make it anew in `__iter__`.",
    )


def told(evidence: Evidence) -> Iterator[Broken]:
    """Epochs that are alike in workers that stay."""
    run, alone, parts = evidence.run, evidence.alone, evidence.parts
    if alone is None or not parts.loop or not parts.persistent:
        return
    if not (_again(run) and len(alone.passes) > 1) or _again(alone):
        return
    yield Broken(
        "same",
        "shown",
        "Epochs 0 and 1 have the same samples in the same order with workers that stay, and others "
        "without workers.",
        parts.where,
        "A worker that stays has the copy of the dataset that it started with. What the loop sets "
        "between epochs doesn't reach it.",
        "Keep what changes between epochs in a tensor in shared memory "
        "(`torch.zeros(1, dtype=torch.int64).share_memory_()`), or take "
        "`persistent_workers=False`.",
    )


def _again(run: Run) -> bool:
    # Whether an epoch begins as the one before.
    first, second = (*run.passes, (), ())[:2]
    most = min(len(first), len(second))
    return most > 1 and first[:most] == second[:most]
