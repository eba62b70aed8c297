"""Find samples that differ from the dataset's, or from the samples without workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Final

from dltutor.diagnosis.difference import (
    EXACT,
    RESULT,
    Difference,
    between,
    close,
    comparable_results,
    recut,
    repeats_without_workers,
    results_differ,
    with_workers,
)
from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.finding import Certainty, Finding
from dltutor.diagnosis.measures import Measures
from dltutor.diagnosis.words import by_interpreter
from dltutor.failures import Promise

_MANY: Final = 9  # if a loop returns this many numbers, a finding only says how many differ

_finding: Final = partial(Finding, promise="same")


def lost(evidence: Evidence) -> Iterator[Finding]:
    """Find attributes of arrays and tensors that don't get through to main."""
    fetched, parts = evidence.fetched, evidence.parts
    if fetched is None or not fetched.lost or not parts.workers:
        return
    path, name = fetched.lost[0]
    yield _finding(
        f"`batch{path}` has an attribute `{name}`. If a worker makes the batch, the attribute "
        "doesn't reach your loop, or it has another value there.",
        f"collate_fn={parts.collate}" if parts.collate else parts.where,
        "Return the value as a field of the sample, next to the tensor or array. Or define "
        "`__reduce__` in the array's class, so that the attribute is pickled with the array.",
        cause="A worker sends a tensor as its storage, and pickles an array as its numbers. "
        "Attributes that were set on it aren't part of either.",
    )


def narrowed(evidence: Evidence) -> Iterator[Finding]:
    """Find integers that arrive as other numbers, because a float dtype held them."""
    fetched, parts = evidence.fetched, evidence.parts
    if fetched is None or not fetched.narrowed:
        return
    field, path, kind, before, after, changed, looked = fetched.narrowed[0]
    yield _finding(
        f"In `batch{path}`, {changed} of {looked} different numbers aren't those of "
        f"`dataset[i]{field}`. For example, {before} arrives as {after}, which is what {kind} "
        "makes of it. If the samples have the second number, the batch is the same.",
        f"collate_fn={parts.collate or 'default_collate'}",
        "Make a tensor for each field, with a dtype that can hold all its numbers, such as "
        "`torch.tensor(numbers, dtype=torch.int64)`.",
        cause=f"A tensor or array of {kind} held the numbers, and it can't hold all of them "
        "exactly. `torch.tensor` makes float32 of integers if there's one float among them.",
    )


def changed_by_loop(evidence: Evidence) -> Iterator[Finding]:
    """Find a loop that changes batches in place, and thereby the data that the dataset keeps."""
    run, copied = evidence.run, evidence.copied
    if copied is None or not copied.well:
        return
    for epoch in range(len(copied.passes)):
        # If the sampler shuffles, both runs have the same order only in the first epoch.
        found = between(run, copied, epoch, in_order=evidence.parts.ordered or not epoch)
        if found is None or not found.any:
            continue
        yield _finding(
            f"In epoch {epoch}, {found.more} of {found.came} {found.unit} come out differently "
            "than if your loop gets a copy of each batch.",
            evidence.parts.where,
            "In your loop, compute a new tensor instead of changing the batch in place "
            "(`x = x - x.mean()` instead of `x -= x.mean()`). Or have the dataset return copies.",
            cause="Your loop changes batches in place. A batch is in memory that main shares with "
            "the worker, so if a sample is part of something that the dataset keeps, later samples "
            "change with it.",
        )
        return


def reordered(evidence: Evidence) -> Iterator[Finding]:
    """Find samples that depend on the samples drawn before them."""
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
    yield _finding(
        said,
        found.paths[0] if found.paths else parts.where,
        "Make a sample only from its index and from what's fixed before the first draw. "
        + (
            "If there's a cache, put everything the sample depends on into its key."
            if found.other
            else "Compute what all samples need in `__init__`."
        ),
        cause="A sample depends on which samples this process has drawn before. Each worker draws "
        "different ones, so what arrives depends on the number of workers and on the order."
        + (" A cache whose key doesn't tell two samples apart does that." if found.other else ""),
    )


def differs(evidence: Evidence) -> Iterator[Finding]:
    """Find samples that differ with and without workers."""
    difference = with_workers(evidence)
    if difference is None or not difference.any or not _steady(evidence, difference):
        return
    if difference.replayed:
        return  # every sample arrived, and which ones repeat depends on the workers
    count, unit, expected = evidence.parts.workers, difference.unit, difference.expected
    # If a stream packs what it reads, each worker packs its own share, so most samples differ.
    packed = evidence.parts.stream and min(difference.more, difference.missing) > expected / 2
    if packed and evidence.alone is not None and recut(evidence.run, evidence.alone):
        return
    if evidence.shares is not None and evidence.shares.alike:
        return  # the workers draw main's samples, but batch or pad them differently
    workers = f"{count} worker{'' if count == 1 else 's'}"
    promise: Promise = "same" if difference.other and difference.missing else "complete"
    if promise == "same":
        missing, more = difference.missing, difference.more
        first = "" if difference.whole or difference.epoch else "the first "
        epoch = f" in epoch {difference.epoch}" if difference.epoch else ""
        said = (
            f"Of {first}{expected} {unit} that arrive without workers{epoch}, {missing} "
            f"{'does' if missing == 1 else 'do'}n't arrive with {workers}, but {more} "
            f"{'other does' if more == 1 else 'others do'}."
        )
    else:
        said = (
            f"Epoch {difference.epoch} has {expected} {unit} without workers and "
            f"{difference.came} with {workers}."
        )
        if difference.missing:
            said += f" {difference.missing} never arrive{'s' * (difference.missing == 1)}."
        if difference.twice:
            said += f" {difference.twice} arrive{'s' * (difference.twice == 1)} more than once."
    said += " They aren't random, because they're the same when drawn again without workers."
    where, cause, fix = _narrowed(evidence, difference)
    certainty: Certainty = "likely" if packed and not difference.epoch else "shown"
    yield Finding(said, where, fix, cause=cause, promise=promise, certainty=certainty)


def _narrowed(evidence: Evidence, difference: Difference) -> tuple[str, str, str]:
    # Return where a difference comes from, as far as the doctor knows, why, and what to do.
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
    if evidence.only_forked:
        cause, fix = by_interpreter("What divides the stream" if parts.stream else "A sample")
        return parts.where, f"Forked workers deliver main's samples. {cause}", fix
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
            "Each worker iterates its own copy, and you decide which worker takes which share. If "
            "the stream packs or cuts what it reads, each worker does that with its own share, and "
            "then other samples are expected.",
            "If datasets wrap each other, let exactly one of them call `get_worker_info()`. Have "
            "it take every `num_workers`-th sample, starting at `id`.",
        )
    if not difference.other:
        return (
            parts.where,
            "Every sample that arrives is one of main's, but in a worker, the same index leads to "
            "another one. Each worker may have shuffled or split the data for itself.",
            "Make what turns an index into a sample in the main process, once, and give it to "
            f"`{parts.dataset}`, so that all workers have the same. Or make it from a fixed seed.",
        )
    return (
        parts.where,
        "A sample comes out different when a worker makes it.",
        f"In each worker, print what `{parts.dataset}` does at this line.",
    )


def _steady(evidence: Evidence, found: Difference) -> bool:
    # Return whether the loader without workers delivers the same samples with any seed, as far as
    # the doctor can tell. If not, random numbers may explain why samples differ with workers.
    alone, reseeded, samples = evidence.alone, evidence.reseeded, evidence.samples
    fetched, parts = evidence.fetched, evidence.parts
    if found.epoch and not parts.ordered and (fetched is None or fetched.together):
        return False  # in another order, samples are padded or batched differently
    if not found.epoch and _random_in_workers(evidence.run) and not evidence.only_forked:
        return False
    if alone is not None and reseeded is not None and not found.epoch:
        # If the loop itself sets the seed, a run with another seed shows nothing.
        by_loop = alone.state != "" and alone.state == reseeded.state
        # A stream without random numbers has the same order in both runs, so the doctor can compare
        # unfinished epochs, too.
        difference = between(alone, reseeded, in_order=evidence.parts.stream)
        if difference is not None and difference.unit == "samples" and not by_loop:
            return not difference.any
    plain = samples is not None and not (samples.random or samples.again or samples.joined)
    return plain and samples is not None and samples.looked > 0 and not evidence.parts.stream


def raced(evidence: Evidence) -> Iterator[Finding]:
    """Find random samples that a seed decides without workers, but not with workers."""
    seeded, again, parts = evidence.seeded, evidence.seeded_again, evidence.parts
    if seeded is None or again is None or not repeats_without_workers(evidence):
        return
    found = between(seeded, again, in_order=True)
    if found is None or not found.any:
        return
    yield _finding(
        f"Of {found.came} {found.unit} in an epoch with workers, {found.more} come out differently "
        "in another epoch with the same seed. Without workers, two such epochs are the same.",
        f"worker_init_fn={parts.init}" if parts.init else parts.where,
        "Draw random numbers from torch's global generator, which torch seeds in each worker. Or "
        "make a generator from the seed, the epoch, and the index of the sample.",
        cause="The loader has a generator, but it doesn't decide everything. Which random numbers "
        "a sample gets may depend on which worker is faster, for example if workers share a "
        "counter, or on a seed from the time or the operating system.",
        certainty="shown" if not parts.init else "likely",
    )


def _random_in_workers(run: Measures) -> bool:
    # Return whether most samples differ between epochs, which they do if a dataset draws random
    # numbers only in workers.
    first, second = (Counter(each) for each in (*run.drawn, (), ())[:2])
    both = run.finished[:2] == (True, True) and first.total() == second.total()
    return both and (first - second).total() > first.total() / 2


def repeats_with_workers(evidence: Evidence) -> Iterator[Finding]:
    """Find epochs that are the same only with workers."""
    run, alone, parts = evidence.run, evidence.alone, evidence.parts
    if alone is None or not parts.workers or (parts.persistent and not parts.loop):
        return
    if not (run.begins_again and len(alone.passes) > 1) or alone.begins_again:
        return
    kept = " persistent" if parts.persistent else ""
    cause = (
        "Each epoch has new workers, which begin with main's copy of the dataset. What an epoch "
        "changes in its workers' copies, such as a count of epochs, is gone with them."
    )
    if parts.persistent:
        cause = (
            "A persistent worker keeps the copy of the dataset that it started with, so what your "
            "loop sets between epochs doesn't reach it."
        )
    yield _finding(
        f"With{kept} workers, epochs 0 and 1 have the same samples in the same order. Without "
        "workers, they differ.",
        parts.where,
        "Keep what changes between epochs in a tensor in shared memory "
        "(`torch.zeros(1, dtype=torch.int64).share_memory_()`), or use "
        f"`persistent_workers={not parts.persistent}`.",
        cause=cause,
    )


def results(evidence: Evidence) -> Iterator[Finding]:
    """Find a loop that returns different results with workers, though the samples are the same."""
    pair, again = comparable_results(evidence), evidence.seeded_again
    if pair is None or not results_differ(*pair) or again is None or evidence.seeded is None:
        return
    if again.end != "finished" or not close(evidence.seeded.numbers, again.numbers, EXACT):
        return  # the result varies, like a time or an amount of memory
    run, alone = pair
    other = " Both runs had the same seed, and the same samples in the same order."
    if run is evidence.run:
        other = " With another seed, each of these results is the same."
    yield _finding(
        _results(run, "with workers", alone, "without") + other,
        "your training loop",
        "Compare one batch with workers to the same batch without, in your loop: types, "
        "attributes, and flags. Return everything that the loop needs in the batch itself.",
        cause="A batch from a worker is a copy. It loses the attributes that your code set on a "
        "tensor, anything that the sample's code stored elsewhere, and the information that two "
        "objects were the same one.",
    )


def out_of_turn(evidence: Evidence) -> Iterator[Finding]:
    """Find a loop whose result depends on the order in which batches happen to arrive."""
    run, alone, in_turn = evidence.run, evidence.alone, evidence.in_turn
    if alone is None or in_turn is None or not close(in_turn.numbers, alone.numbers, EXACT):
        return
    ours, theirs = ([*map(sorted, each.drawn[:1])] for each in (run, in_turn))
    if not results_differ(run, alone) or ours != theirs:
        return
    yield _finding(
        _results(run, "with `in_order=False`", in_turn, "with `in_order=True`")
        + " The samples are the same.",
        "your training loop",
        "Use `in_order=True`. Or return each sample's index with the sample, and have your loop "
        "go by it.",
        cause="With `in_order=False`, a batch arrives as soon as a worker has made it, so your "
        "loop can't tell which samples are in it by counting batches.",
    )


def _results(run: Measures, how: str, other: Measures, instead: str) -> str:
    # Say how the loop's results differ between two runs.
    count = len(run.numbers)
    if count < _MANY or count != len(other.numbers):
        return f"Your loop returns `{run.returned}` {how}, and `{other.returned}` {instead}."
    pairs = zip(run.numbers, other.numbers, strict=True)
    different = sum(not close([a], [b], RESULT) for a, b in pairs)
    return f"Of {count} numbers that your loop returns, {different} differ {how} and {instead}."
