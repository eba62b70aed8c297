"""Find samples that are missing, arrive twice, or differ from the dataset's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import Final

from dltutor.diagnosis.evidence import Evidence, Run
from dltutor.diagnosis.kit.difference import Difference, between, close, with_workers
from dltutor.diagnosis.kit.pins import SAID
from dltutor.diagnosis.promises.broken import Broken
from dltutor.failures import Promise

_ENOUGH: Final = 4  # different samples in an epoch
_FEW: Final = 4  # times as many samples repeat as don't, if they aren't random


def differs(evidence: Evidence) -> Iterator[Broken]:
    """Find samples that differ with and without workers."""
    difference = with_workers(evidence)
    if difference is None or not difference.any or not _steady(evidence, difference):
        yield from _counts(evidence)
        return
    count, unit, expected = evidence.parts.workers, difference.unit, difference.expected
    workers = f"{count} worker{'' if count == 1 else 's'}"
    promise: Promise = "same" if difference.more and difference.missing else "complete"
    if promise == "same":
        said = (
            f"Of {expected} {unit} that arrive without workers{_which(difference)}, "
            f"{difference.missing} don't arrive with {workers}, but {difference.more} others do."
        )
    else:
        said = (
            f"Epoch {difference.epoch} has {expected} {unit} without workers, and "
            f"{difference.came} with {workers}"
        )
        if difference.missing:
            said += f", because {difference.missing} never arrive"
        elif difference.twice:
            said += f", and {difference.twice} of them arrive more than once"
        said += "."
    said += " They aren't random, because they're the same when drawn again without workers."
    yield Broken(promise, "shown", said, *_narrowed(evidence, difference))


def _counts(evidence: Evidence) -> Iterator[Broken]:
    # Random samples can't be compared, but whole epochs can be counted.
    run, alone, parts = evidence.run, evidence.alone, evidence.parts
    if alone is None or not parts.stream:
        return
    if any(each.finished[:2] != (True, True) for each in (run, alone)):
        return
    ours, theirs = run.counted[:2], alone.counted[:2]
    if len({*theirs}) > 1 or {*ours} == {*theirs}:
        return  # its length is random, or the same
    first, second = ours
    came = f"both have {first}" if first == second else f"they have {first} and {second}"
    yield Broken(
        "complete",
        "shown",
        f"Without workers, two epochs have {theirs[0]} samples each. With {parts.workers} workers, "
        f"{came}.",
        parts.where,
        "Each worker iterates its own copy of the dataset, and how many samples that gives depends "
        "on how many workers there are. Some samples are lost, or come more than once.",
        "Count what each worker delivers, and compare it with what there is. Look for what ends an "
        "iteration early: `zip` stops at the shortest, `next()` without a default ends a generator "
        "or raises StopIteration, and `drop_last` drops the end of each worker's share. Spawned "
        "workers don't agree on `hash()` of a string, so don't divide by that.",
    )


def _narrowed(evidence: Evidence, difference: Difference) -> tuple[str, str, str]:
    # Where a difference comes from as far as we know, why, and what to do or try.
    parts, fetched = evidence.parts, evidence.fetched
    if difference.epoch:
        return (
            parts.where,
            "The first epoch is the same. What main changes in the dataset after the workers have "
            "started doesn't reach them, so it was changed too late, or only in main.",
            f"Find the code that changes {parts.dataset} between epochs, and get that change to "
            "each worker: before `iter(loader)` with `persistent_workers=False`, in a tensor in "
            "shared memory, or as part of the index that the sampler deals out.",
        )
    if fetched is not None and fetched.dealt_once:
        return (
            f"{parts.sampler}.__iter__",
            "The sampler deals out different batches when it's asked a second time, and torch "
            "calls `iter()` on it twice when there are workers.",
            "Make `__iter__` a generator that changes nothing before its first `next()`.",
        )
    if parts.stream:
        return (
            parts.where,
            "Each worker iterates its own copy, and you decide which worker takes which share.",
            "If datasets wrap each other, let exactly one of them call `get_worker_info()`. Have "
            "it take every `num_workers`-th sample, starting at `id`.",
        )
    return (
        parts.where,
        "A sample comes out different when a worker makes it.",
        f"In each worker, print what `{parts.dataset}` does at this line.",
    )


def _which(difference: Difference) -> str:
    if difference.epoch:
        return f" in epoch {difference.epoch}"
    return "" if difference.whole else " first"


def _steady(evidence: Evidence, found: Difference) -> bool:
    # Whether the same samples arrive without workers, whatever the random numbers.
    alone, reseeded, samples = evidence.alone, evidence.reseeded, evidence.samples
    fetched, parts = evidence.fetched, evidence.parts
    ordered = parts.stream or parts.sampler == "SequentialSampler"
    if found.epoch and not ordered and (fetched is None or fetched.together):
        return False  # in another order, samples are padded to other lengths, or batched otherwise
    if not found.epoch and _random_in_workers(evidence.run):
        return False
    if alone is not None and reseeded is not None and not found.epoch:
        # A stream with the same samples in the same order has no random numbers in it.
        difference = between(alone, reseeded, in_order=evidence.parts.stream)
        if difference is not None and difference.unit == "samples":
            return not difference.any
    plain = samples is not None and not (samples.random or samples.again or samples.joined)
    return plain and samples is not None and samples.looked > 0 and not evidence.parts.stream


def _random_in_workers(run: Run) -> bool:
    # A dataset may draw random numbers in workers only: then epochs differ in most samples.
    first, second = (Counter(each) for each in (*run.drawn, (), ())[:2])
    both = run.finished[:2] == (True, True) and first.total() == second.total()
    return both and (first - second).total() > first.total() / 2


def fetched(evidence: Evidence) -> Iterator[Broken]:
    """Find batches that bypass `__getitem__`."""
    fetched, parts = evidence.fetched, evidence.parts
    if fetched is None or not fetched.differ or not fetched.by:
        return
    whose = f"Here `__getitems__` is that of {fetched.by}, inside {parts.dataset}."
    if fetched.by == parts.dataset:
        whose = "The two return different samples."
    yield Broken(
        "same",
        "shown",
        f"{fetched.differ} of the first {fetched.looked} samples differ from what "
        f"`{parts.dataset}.__getitem__` returns for their indices.",
        f"{fetched.by}.__getitems__",
        "A loader that finds `__getitems__` calls it for whole batches, and never calls "
        f"`__getitem__`. {whose}",
        f"Define `__getitems__` in {parts.dataset}: "
        "`def __getitems__(self, indices): return [self[i] for i in indices]`.",
    )


def reused(evidence: Evidence) -> Iterator[Broken]:
    """Find a sampler that fills one batch of indices again and again."""
    fetched, parts = evidence.fetched, evidence.parts
    if fetched is None or not fetched.reused or not parts.workers:
        return
    yield Broken(
        "complete",
        "shown",
        f"A batch of indices that `{parts.sampler}` has dealt out changes when it deals out the "
        "next one.",
        f"{parts.sampler}.__iter__",
        "It yields the same list or array every time. A queue pickles the indices for a worker a "
        "little later, so some workers get those of a later batch, and those of this one are lost.",
        "Yield a copy: `list(batch)`, or `batch.tolist()` of an array.",
    )


def fields(evidence: Evidence) -> Iterator[Broken]:
    """Find fields of a batch that only some of its samples have."""
    fetched, parts = evidence.fetched, evidence.parts
    if fetched is None or not (fetched.ragged or fetched.dropped):
        return
    told = [
        f"`{name}` has {rows} rows in a batch of {samples}, so row k isn't sample k's"
        for name, rows, samples in fetched.ragged
    ]
    told += [
        f"`{name}` is missing from a batch, though {have} of its {samples} samples have it"
        for name, have, samples in fetched.dropped
    ]
    yield Broken(
        "same",
        "shown" if fetched.ragged else "likely",
        f"{'; '.join(told[:3])}.",
        parts.collate or "default_collate",
        "The samples don't all have the same fields, and nothing fills in the missing ones.",
        "Give each sample every field, with a placeholder where it has no value and a mask that "
        "marks the placeholder.",
    )


def crossed(evidence: Evidence) -> Iterator[Broken]:
    """Find fields of a batch whose rows belong to different samples."""
    fetched, parts = evidence.fetched, evidence.parts
    if fetched is None or not fetched.crossed:
        return
    name, other = (each or "the batch" for each in fetched.crossed[0])
    yield Broken(
        "same",
        "shown",
        f"Row k of `{name}` and row k of `{other}` don't belong to the same sample. In batches of "
        "one sample, different rows go together.",
        parts.collate or "default_collate",
        "The collate function puts the two fields in different orders.",
        "Sort or shuffle the samples before you split them into fields.",
    )


def reordered(evidence: Evidence) -> Iterator[Broken]:
    """Find samples that depend on what was drawn before them."""
    found, parts = evidence.reordered, evidence.parts
    if found is None or not found.differ:
        return
    said = (
        f"{found.differ} of {found.looked} samples change if they're drawn from the last to the "
        "first, with all random numbers held."
    )
    if found.other:
        said += (
            f" In one of the two orders, `dataset[{found.index}]` returns the sample of "
            f"`dataset[{found.other}]`."
        )
    if found.paths:
        said += f" Drawing them changes {', '.join(f'`{each}`' for each in found.paths)}."
    yield Broken(
        "same",
        "shown",
        said,
        found.paths[0] if found.paths else parts.where,
        "A sample depends on which samples this process has drawn before. Each worker draws "
        "different ones, so what arrives depends on the number of workers and on the order."
        + (" A cache whose key doesn't tell two samples apart does that." if found.other else ""),
        "Make a sample only from its index and from what's fixed before the first draw. "
        + (
            "If there's a cache, put everything the sample depends on into its key."
            if found.other
            else "Compute what all samples need in `__init__`."
        ),
    )


def seeded(evidence: Evidence) -> Iterator[Broken]:
    """Find samples that all set a global random generator to the same state."""
    samples, parts = evidence.samples, evidence.parts
    if samples is None or not samples.seeded:
        return
    names = " and ".join(SAID[each] for each in samples.seeded)
    yield Broken(
        "independent",
        "shown",
        f"After each sample, {names} is in the same state, whatever its state was before.",
        parts.where,
        "Each sample seeds it with a constant, so all samples draw the same random numbers in "
        "every epoch. So does any code that draws next in the same process.",
        "Don't seed it, because torch seeds each worker again in each epoch. If you want samples "
        "that are always the same, make a generator from the index: "
        "`np.random.default_rng(index)`.",
    )


def repeated(evidence: Evidence) -> Iterator[Broken]:
    """Find epochs that repeat all random numbers."""
    run, samples, fetched, parts = evidence.run, evidence.samples, evidence.fetched, evidence.parts
    if samples is None or samples.random < _ENOUGH or run.finished[:2] != (True, True):
        return
    if parts.method not in ("", "fork"):
        return  # whether samples are random in such a worker wasn't seen
    apart = all(run.drawn[:2])
    first, second = (Counter(each) for each in (run.drawn if apart else run.passes)[:2])
    if first != second or len(first) < _ENOUGH:
        return
    cause = (
        "Whatever the samples draw from is in the same state at the start of each epoch. torch "
        "seeds the workers from main's global generator, or from the loader's `generator`."
    )
    by_sampler = fetched is not None and fetched.seeds
    if by_sampler:
        cause = (
            f"{parts.sampler} sets main's global generator to the same state in each epoch. Right "
            "after that, torch draws the workers' seeds from it."
        )
    yield Broken(
        "independent",
        "shown",
        "Samples are random, because a sample is a different one when it's drawn again. But the "
        f"{first.total()} {'samples' if apart else 'batches'} of the second epoch are exactly "
        "those of the first.",
        f"{parts.sampler}.__iter__" if by_sampler else parts.where,
        cause,
        "Don't seed a global generator in every epoch. If the order has to stay the same, give "
        "the sampler a generator of its own: `torch.Generator().manual_seed(...)`.",
    )


def collides(evidence: Evidence) -> Iterator[Broken]:
    """Find a worker that repeats what another one delivered in the epoch before."""
    run, parts = evidence.run, evidence.parts
    size, count = parts.batch_size, parts.workers
    if not size or count < 2 or run.finished[:2] != (True, True):
        return
    first, second = run.drawn[:2]
    if Counter(first) == Counter(second):
        return  # the same samples, perhaps dealt to other workers
    before, after = (_by_worker(each, size, count) for each in (first, second))
    for worker, drawn in enumerate(after):
        for other, earlier in enumerate(before):
            if drawn == earlier and other != worker and len({*drawn}) >= _ENOUGH:
                yield Broken(
                    "independent",
                    "shown",
                    f"In epoch 1, W{worker} delivers the samples that W{other} delivered in epoch "
                    f"0, in the same order. The other samples differ between the epochs.",
                    parts.where,
                    "Two workers use the same random numbers, one of them an epoch later. That's "
                    "what happens if a seed is a sum: seed + epoch + worker is the same number for "
                    "the next worker one epoch earlier.",
                    "Seed from all three: `np.random.default_rng([seed, epoch, worker])`.",
                )
                return


def _by_worker(drawn: tuple[str, ...], size: int, count: int) -> list[tuple[str, ...]]:
    # Batches come from the workers in turn, as long as all of them have some.
    batches = [drawn[at : at + size] for at in range(0, len(drawn), size)]
    batches = batches[: len(batches) // 2]
    return [tuple(chain(*batches[worker::count])) for worker in range(count)]


def stuck(evidence: Evidence) -> Iterator[Broken]:
    """Find a sampler that shuffles the same way in every epoch."""
    fetched, parts, run = evidence.fetched, evidence.parts, evidence.run
    if fetched is None or not fetched.stuck or "sampler" in parts.hooks:
        return
    if len(run.passes) > 1 and not _again(run):
        return  # the loop tells it the epoch some other way
    yield Broken(
        "independent",
        "likely",
        f"`{parts.sampler}` draws random numbers (`{fetched.stuck}`), but deals out the same "
        "batches in each epoch, whatever the seed.",
        f"{parts.sampler}.__iter__",
        "It makes a new generator each time, from a constant seed.",
        "Make the generator once, in `__init__`. Or seed it from the epoch, in a `set_epoch` that "
        "your loop calls.",
    )


def replaced(evidence: Evidence) -> Iterator[Broken]:
    """Find samples that stand in for others."""
    samples, parts = evidence.samples, evidence.parts
    if samples is None or not samples.replaced:
        return
    index, other, kind, text, line = samples.replaced[0]
    count = len(samples.replaced)
    yield Broken(
        "complete",
        "shown",
        f"`dataset[{index}]` returns the sample of `dataset[{other}]` after it catches {kind}"
        f"{f' ({text})' if text else ''}. In all, that happens to {count} of the "
        f"{samples.looked} samples drawn here.",
        line,
        f"{parts.dataset} hides that a sample can't be made, and returns another one twice.",
        "Find the bad samples once, before training, then leave them out and report how many "
        "there are.",
    )


def order(evidence: Evidence) -> Iterator[Broken]:
    """Find an order that repeats even if the sampler was told the epoch."""
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
        "The sampler dealt out the order of an epoch before it was told which epoch it is, because "
        "a loader that never ends loads ahead.",
        f"Let each epoch end. {parts.loader} has one iterator for all epochs, but an ordinary "
        "loader with `persistent_workers=True` keeps its workers too.",
    )


def dealt(evidence: Evidence) -> Iterator[Broken]:
    """Find a sampler whose number of batches differs from its `__len__`."""
    samples, parts = evidence.samples, evidence.parts
    if samples is None or min(samples.dealt) < 0 or parts.batches is None or parts.stream:
        return
    first, second = samples.dealt
    if first == second == parts.batches:
        return
    yield Broken(
        "complete",
        "likely",
        f"`len(loader)` is {parts.batches}, but the sampler deals out {first} batches in one epoch "
        f"and {second} in the next.",
        f"{parts.sampler}.__len__" if first == second else f"{parts.sampler}.__iter__",
        "The sampler's `__len__` and its `__iter__` count differently."
        if first == second
        else "The sampler keeps something from one epoch to the next, so what one epoch leaves out "
        "arrives in a later one, or arrives twice.",
        "Start each `__iter__` with nothing left over from before, deal out what's left at its "
        "end, and make `__len__` count the same.",
    )


def epochs(evidence: Evidence) -> Iterator[Broken]:
    """Find epochs with fewer samples than the first or, for a stream, different ones."""
    # If samples are random, all of them differ in the next epoch. If some are left out, few do.
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
        f"Epochs 0 and 1 have {first.total()} and {second.total()} samples. {missing} from epoch 0 "
        f"don't arrive in epoch 1, and {more} others do. The rest are the same.",
        parts.where,
        "Each epoch leaves some samples out. Often that's what is left in a buffer when the data "
        "ends.",
        "At the end of `__iter__`, deliver what's still in the buffer: `yield from` it instead of "
        "a `return`.",
    )


def _used_up(evidence: Evidence) -> Broken:
    run, parts = evidence.run, evidence.parts
    return Broken(
        "complete",
        "shown",
        f"The first epoch has {run.counted[0]} samples, and the next one has {run.counted[1]}.",
        parts.where if parts.stream else f"{parts.sampler}.__iter__",
        "Something that can be iterated only once is kept from one epoch to the next, such as a "
        "generator, an iterator, or an open file that was read to its end.",
        "Make a new one in `__iter__`.",
    )


def told(evidence: Evidence) -> Iterator[Broken]:
    """Find epochs that are the same if the workers stay."""
    run, alone, parts = evidence.run, evidence.alone, evidence.parts
    if alone is None or not parts.loop or not parts.persistent:
        return
    if not (_again(run) and len(alone.passes) > 1) or _again(alone):
        return
    yield Broken(
        "same",
        "shown",
        "With workers that stay, epochs 0 and 1 have the same samples in the same order. Without "
        "workers they differ.",
        parts.where,
        "A worker that stays keeps the copy of the dataset that it started with, so what your loop "
        "sets between epochs doesn't reach it.",
        "Keep what changes between epochs in a tensor in shared memory "
        "(`torch.zeros(1, dtype=torch.int64).share_memory_()`), or use "
        "`persistent_workers=False`.",
    )


def results(evidence: Evidence) -> Iterator[Broken]:
    """Find a loop that returns something else with workers, though the samples are the same."""
    run, alone, reseeded = evidence.run, evidence.alone, evidence.reseeded
    if alone is None or reseeded is None or not evidence.parts.loop:
        return
    ran = (run, alone, reseeded)
    if not all(each.end == "finished" and each.numbers for each in ran):
        return
    if not close(alone.numbers, reseeded.numbers, _EXACT):
        return  # it depends on the seed, or it's a time
    if close(run.numbers, alone.numbers, _RESULT):
        return
    yield Broken(
        "same",
        "shown",
        f"Your loop returns `{run.returned}` with workers, and `{alone.returned}` without. With "
        f"another seed, it returns `{reseeded.returned}` without workers.",
        "your training loop",
        "A batch from a worker is a copy. What your code attached to a tensor as an attribute, "
        "what it stored in another place while it made the sample, and which objects were the same "
        "one is lost on the way.",
        "Compare one batch with workers to the same batch without, in your loop: types, "
        "attributes, and flags. Return everything that the loop needs in the batch itself.",
    )


_RESULT: Final = 0.05  # of a number; sums of the same samples in another order differ by far less
_EXACT: Final = 1e-4  # of a number; times differ by more


def _again(run: Run) -> bool:
    # Whether an epoch starts like the one before it.
    first, second = (*run.passes, (), ())[:2]
    most = min(len(first), len(second))
    return most > 1 and first[:most] == second[:most]
