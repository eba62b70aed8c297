"""Recognize failure modes in which samples are missing or arrive more than once."""

from __future__ import annotations

from collections import Counter
from itertools import chain, pairwise
from typing import Final

from dltutor.diagnosis.difference import between_fields, mixed, resumes_elsewhere
from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.finding import Finding
from dltutor.diagnosis.measures import Measures
from dltutor.diagnosis.rules.culprits import how_many


def silent_stop(evidence: Evidence) -> Finding | None:
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
        f"The epoch ended after {early[0]}{of} batches, without an error. In the main process, "
        f"{culprit.which} raises StopIteration.{how_many(evidence)}"
    )
    fix = (
        "Give that next() a default and handle it, or look it up in a dict, which raises KeyError. "
        f"Before the epoch, set aside the samples that {parts.dataset} can't make."
    )
    return Finding(said, culprit.at, fix, ends=True)


def repeated_stream(evidence: Evidence) -> Finding | None:
    """All workers of a stream deliver the same samples."""
    shares = evidence.shares
    # If forked workers deliver exactly main's samples, the repeats come from something that differs
    # between new interpreters, such as `hash()` of a string.
    if evidence.only_forked:
        return None
    if shares is None or not evidence.same_stream:
        return None
    counts = " and ".join(map(str, shares.shares[:4]))
    said = (
        f"One pass has {shares.whole} samples, but the workers draw {counts}."
        if shares.complete
        else f"The first {shares.compared} samples of W0 and W1 are the same."
    )
    if shares.complete and shares.same:
        said += f" The first {shares.same} samples of W0 and W1 are the same."
    return Finding(
        said,
        evidence.parts.where,
        f"In `{evidence.parts.dataset}.__iter__`, call `get_worker_info()` and take every "
        "`num_workers`-th sample or file, starting from `id`.",
    )


_TAIL: Final = 4  # a tail is at most one in this many samples


def lost_tail(evidence: Evidence) -> Finding | None:
    """The workers draw fewer samples than a stream has, or `drop_last` drops some."""
    run, alone, shares = evidence.run, evidence.alone, evidence.shares
    if alone is None or shares is None or not (run.well and alone.well and shares.complete):
        return None
    if evidence.handles is not None and evidence.handles.disturbed:
        return None
    if not (run.finished[:1] == alone.finished[:1] == (True,)):
        return None
    came, there = run.counted[0], alone.counted[0]
    if not shares.ended and not len(set(run.counted)) == len(set(alone.counted)) == 1:
        return None  # it's unclear how many samples the stream has
    whole = shares.whole if shares.ended else there
    drawn = sum(shares.shares)
    counts = " and ".join(map(str, shares.shares[:4]))
    if evidence.parts.drop_last and came < there and drawn >= whole:
        size = evidence.parts.batch_size or 1
        dropped = came == sum(share - share % size for share in shares.shares)
        return Finding(
            f"{came} samples arrive with {evidence.parts.workers} workers, and {there} without. "
            f"The workers draw {counts} of {whole}, but `drop_last` drops each one's last batch.",
            "drop_last=True",
            "Use `drop_last=False` if your loop can take short batches. Or build whole batches "
            f"in `{evidence.parts.dataset}`, deal those out, and use `batch_size=None`.",
            certainty="shown" if dropped else "likely",
        )
    each = run.drawn[0] if run.drawn else ()
    some_twice = len(set(each)) < len(each)  # repeated samples are a different failure mode
    if whole - drawn < evidence.parts.workers and run.lacks(alone) != whole - drawn:
        return None  # each worker may cut its own share into samples, so only pieces are left over
    tail = 0 < whole - drawn <= whole / _TAIL
    if tail and came < there and not some_twice:
        return Finding(
            f"The workers draw {counts} samples, which is {drawn} of the {whole} that the stream "
            "has without workers. The rest belong to no worker.",
            evidence.parts.where,
            "Give each worker every `num_workers`-th sample or file, starting from `id`, so that "
            "nothing is left over: `itertools.islice(samples, id, None, num_workers)` does that. "
            "If a worker collects samples in a buffer, yield what's left in it at the end.",
            cause="The workers' shares together don't cover the stream. That happens if the number "
            "of samples or files is divided by the number of workers and rounded down, or if each "
            "worker drops what's left in a buffer.",
        )
    return None


def no_batch(evidence: Evidence) -> Finding | None:
    """An epoch ends without a batch, even without workers."""
    run, alone, parts, samples = evidence.run, evidence.alone, evidence.parts, evidence.samples
    if run.end not in ("finished", "raised") or run.raised or run.batches or not any(run.finished):
        return None  # if no iteration finished, the loop may not have asked for a batch
    if (alone is not None and alone.batches) or silent_stop(evidence):
        return None
    said = "The loop ended without an error, but it never got a batch."
    where = parts.where if parts.stream else ""
    fix = "After the epoch, assert that batches arrived."
    if run.end == "raised":
        said = f"The loop never got a batch, and then raised {run.error.rstrip('.')}."
    size, some = parts.batch_size or 0, samples is not None and samples.looked > 0
    if parts.drop_last and parts.length and size > parts.length and not parts.stream:
        why = (
            f"`drop_last=True` drops the only batch, because there are {parts.length} samples and "
            f"a batch takes {size}."
        )
        where = "drop_last=True"
        fix = "Use a smaller `batch_size`, or `drop_last=False` if there's no whole batch."
    elif parts.length == 0:
        why = f"`len({parts.dataset})` is 0."
    elif parts.drop_last and (some or not parts.stream):
        what = f"{parts.dataset}.__iter__" if parts.stream else parts.sampler
        why = f"`drop_last=True` drops a batch of fewer than {size} samples, and {what} has fewer."
        where, fix = "drop_last=True", "Use a smaller `batch_size`, or `drop_last=False`."
    elif parts.stream:
        why = f"`{parts.dataset}.__iter__` ends before its first sample."
    else:
        why = f"The sampler, {parts.sampler}, doesn't deal out any batch."
    return Finding(said, where, fix, cause=why, ends=True)


_WANTED: Final = 20  # if `__len__` leaves out all but one in this many samples, that's intended


def wrong_length(evidence: Evidence) -> Finding | None:
    """`__getitem__` returns more or fewer samples than `__len__` says."""
    ending = evidence.ending
    if ending is None or ending.end < 0 or ending.end == ending.length:
        return None
    length, end = ending.length, ending.end
    where = f"{evidence.parts.dataset}.__len__"
    if end < length:
        return Finding(
            f"`len(dataset)` is {length}, but every index from {end} on raises {ending.said}. All "
            "samples before that exist.",
            where + (f"; raised at {ending.line}" if ending.line else ""),
            f"Make `{where}` count what `__getitem__` can return, which is {end} here.",
            ends=not evidence.run.well,
        )
    if ending.limits or end > _WANTED * length:
        return None
    return Finding(
        f"`len(dataset)` is {length}, but `dataset[{length}]` to `dataset[{end - 1}]` exist too, "
        f"so {end - length} of {end} samples are never drawn.",
        where,
        f"Make `{where}` count what `__getitem__` can return, which is {end} here. If you "
        "meant to limit it, nothing is wrong.",
        certainty="likely",
    )


def ranks(evidence: Evidence) -> Finding | None:
    """Epochs repeat an order that `set_epoch` would change, or ranks share samples."""
    order = evidence.order
    if order is None:
        return None
    # Require `early` to be 0. Otherwise, the doctor called the loop twice, because the loop left
    # its only epoch early, and in your program, the loop's caller may call `set_epoch`.
    if order.moves and order.epochs > 1 and order.repeated and not (order.told or order.early):
        return Finding(
            f"{order.repeated + 1} of {order.epochs} epochs had the same order, because your loop "
            "never calls the sampler's `set_epoch`. When the doctor called it, the order changed.",
            f"{evidence.parts.sampler}.set_epoch",
            "Call `loader.sampler.set_epoch(epoch)` before each epoch. If the sampler is inside a "
            "batch sampler, call it on that one, for example `loader.batch_sampler.sampler`.",
        )
    if order.twice and not order.shuffles and not evidence.parts.drop_last:
        return Finding(
            f"Together, the {order.ranks} ranks get {order.twice} of the "
            f"{evidence.parts.length} samples twice, because the sampler pads their shares. An "
            "evaluation counts those samples twice.",
            "loader.sampler",
            "For evaluation, give each rank `range(rank, len(dataset), ranks)` without "
            "padding, or drop the duplicates when you gather.",
            certainty="likely",
        )
    return None


def sampler_with_state(evidence: Evidence) -> Finding | None:
    """An iterator that's made and not used takes the place of the sampler's first epoch."""
    fetched, parts = evidence.fetched, evidence.parts
    if fetched is None or not fetched.begun[0] or not parts.workers:
        return None
    first, begun, both = fetched.begun
    said = f"In its first epoch, `{parts.sampler}` deals out {first} indices. After an iterator had"
    said += f" been made and not used, it dealt out {begun}{' others' * (not both)} instead."
    said += " torch makes such an iterator when a loader starts workers."
    return Finding(said, f"{parts.sampler}.__iter__")


def resume_repeats(evidence: Evidence) -> Finding | None:
    """After the loop left an iteration, the next one goes on at another sample with workers."""
    return (
        _resumed_in_loop(evidence)
        or _resumed_by_next_call(evidence)
        or _resumed_from_state(evidence)
    )


def _resumed_in_loop(evidence: Evidence) -> Finding | None:
    # The runs `seeded` (with workers) and `reseeded` (without) have the same seed. The run `alone`
    # shows that the length of an epoch doesn't depend on the seed.
    run, alone, parts = evidence.run, evidence.alone, evidence.parts
    ours, theirs, shares = evidence.seeded, evidence.reseeded, evidence.shares
    if alone is None or ours is None or theirs is None or not parts.loop:
        return None
    at = resumes_elsewhere(ours, theirs)
    if not at or _until_the_end(alone, at) != _until_the_end(theirs, at):
        return None
    before, count, without = ours.counted[at - 1], _count(ours, at), _count(theirs, at)
    if run.end == "finished":  # otherwise, the run may have run out of time
        again = resumes_elsewhere(run, alone)
        if not again or (_count(run, again) < _count(alone, again)) != (count < without):
            return None
    if parts.stream and (shares is None or sum(shares.shares) != shares.whole):
        return None  # an epoch has another length with workers, even if the loop doesn't resume
    so = f"{without - count} were skipped" if count < without else f"{count - without} came again"
    return Finding(
        f"Your loop left an iteration after {before} samples. The next one had {count} samples "
        f"with {parts.workers} workers and {without} without, so {so}.",
        parts.where if parts.stream else f"{parts.sampler}.__iter__",
    )


def _resumed_by_next_call(evidence: Evidence) -> Finding | None:
    # The loop was called several times, with workers and without, with the same seed.
    parts, again, alone = evidence.parts, evidence.called_again, evidence.called_alone
    if again is None or alone is None:
        return None
    if any(len(each.passes) < 2 or each.finished[0] for each in (again, alone)):
        return None
    (first, second), (plain, later) = again.contents[:2], alone.contents[:2]
    said = f"Your loop leaves the epoch after {again.counted[0]} samples. When it's called again"
    where = parts.where if parts.stream else f"{parts.sampler}.__iter__"
    if Counter(first) == Counter(second) and later and not {*plain} & {*later}:
        return Finding(
            f"{said} without workers, it goes on with others. With {parts.workers} workers, it "
            "gets the same ones.",
            where,
            cause="Workers have copies of the dataset, and a copy's position is lost when its "
            "worker ends. Main's dataset never moves on, and neither does its saved state.",
        )
    skipped = _skipped(again, alone, evidence.run)
    if not skipped:
        return None
    ahead = parts.workers * parts.prefetch * (parts.batch_size or 1)
    so = ", which is how many they load ahead" if skipped == ahead else ""
    return Finding(
        f"{said} without workers, it goes on with the next sample. With {parts.workers} workers, "
        f"it skips {skipped} samples{so}.",
        where,
    )


def _skipped(again: Measures, alone: Measures, run: Measures) -> int:
    """Return how many samples the second call skips with workers, or 0 if it skips none.

    Compare whole samples and then each field, because a field may name samples that are otherwise
    random. In the samples that arrive without workers, look for those of the second call.
    """
    runs = (again, alone, run)
    every = [
        [each.contents for each in runs],
        *([_field(each, path) for each in runs] for path, _ in (*again.fields, ())[0]),
    ]
    for (first, second, *_), (plain, *after), (as_it_is, *_) in every:
        # Require `run`, which has no seed, to begin with the same samples. Otherwise, the sampler
        # may draw random numbers as it goes. Then it draws more of them with workers, so its later
        # samples differ, and that's fine.
        if not first or not first == plain == as_it_is[: len(first)]:
            continue
        # If samples come again before the epoch ends, the sampler doesn't go on where the loop
        # left, or it draws with replacement, and then no sample can be skipped.
        if len({*plain, *after[0]}) < len(plain) + len(after[0]):
            continue
        if again.finished[1] and not again.counted[1]:
            return alone.counted[1]  # nothing is left of the epoch
        # Search all later calls without workers, because the second call with workers may skip that
        # far, even into the next epoch.
        rest = tuple(chain.from_iterable(after))
        starts = (at for at, each in enumerate(rest) if (each,) == second[:1])
        fits = (at for at in starts if rest[at : at + len(second)] == second[: len(rest) - at])
        if at := next(fits, 0):
            # If batches can't be taken apart, `at` counts batches.
            return at * again.counted[0] // len(first)
    return 0


def _resumed_from_state(evidence: Evidence) -> Finding | None:
    # The loop loads a state of the sampler before it goes on. Other runs may have left the state
    # that a run begins with, for example in a file, so compare the states within each run.
    parts = evidence.parts
    for run, alone in (
        (evidence.run, evidence.alone),
        (evidence.called_again, evidence.called_alone),
    ):
        if run is None or alone is None:
            continue
        ours, theirs = _moved(run), _moved(alone)
        arrived, by = next(iter(ours), (0, 0))
        without = dict(theirs).get(arrived)
        if without is not None and min(b - a for a, b in ours) > max(b - a for a, b in theirs):
            return Finding(
                f"Your loop gets {arrived} samples between two times that it loads the sampler's "
                f"state. With {parts.workers} workers, the second state is {by} samples further "
                f"than the first. Without workers, it's {without} samples further.",
                f"{parts.sampler}.__iter__",
            )
    return None


def _moved(run: Measures) -> list[tuple[int, int]]:
    # Return how many samples arrived between two states that the sampler had, and by how many
    # samples the second state was further. Leave out a second state of another epoch.
    return [
        (then - before, left - rest)
        for (before, left), (then, rest) in pairwise(run.loaded)
        if then > before and left > rest
    ]


def _field(run: Measures, path: str) -> tuple[tuple[str, ...], ...]:
    # Return the digests of one field in the first two iterations, or none if the field isn't known.
    return tuple(dict(each).get(path, ()) for each in run.fields[:2])


def _count(run: Measures, at: int) -> int:
    # Return how many samples an iteration had, or 0 if the loop didn't begin that iteration.
    return run.counted[at] if at < len(run.counted) else 0


def _until_the_end(run: Measures, at: int) -> int:
    # Return how many samples arrived in the epoch that iteration `at` belongs to, in all iterations
    # up to the one that reached the epoch's end, or up to the last one.
    start = max((each + 1 for each in range(at) if run.finished[each]), default=0)
    end = next((each + 1 for each in range(at, len(run.counted)) if run.finished[each]), None)
    return sum(run.counted[start:end])


def nested_persistent(evidence: Evidence) -> Finding | None:
    """Two iterations use one iterator, and their lengths change with `persistent_workers=False`."""
    run, own = evidence.run, evidence.not_kept
    if own is None or not run.resumed or not own.well:
        return None
    if (run.counted, run.finished) == (own.counted, own.finished):
        return None
    return Finding(
        f"Your loop began a second iteration of the loader in the middle of another, and both used "
        f"one iterator. It got {run.batches} batches in {len(run.passes)} iterations. With "
        f"persistent_workers=False, it got {own.batches} in {len(own.passes)}.",
        "in your training loop, where a loop over the loader is inside another one",
        "Give the inner loop its own loader over the same dataset, or set "
        "persistent_workers=False.",
    )


def swallowed_error(evidence: Evidence) -> Finding | None:
    """The dataset catches an exception, and returns the sample of another index."""
    samples, parts = evidence.samples, evidence.parts
    if samples is None or not samples.replaced:
        return None
    index, other, kind, text, line = samples.replaced[0]
    count = len(samples.replaced)
    return Finding(
        f"`dataset[{index}]` returns the sample of `dataset[{other}]` after it catches {kind}"
        f"{f' ({text})' if text else ''}. In all, that happens to {count} of the "
        f"{samples.looked} samples drawn here.",
        line,
        f"Try every sample of `{parts.dataset}` once, before training. Leave out the ones that "
        "fail, and report them.",
    )


def own_order_in_worker(evidence: Evidence) -> Finding | None:
    """Samples of a stream arrive more than once, and others never, but only with workers."""
    run, alone, parts = evidence.run, evidence.alone, evidence.parts
    if not parts.stream or alone is None or evidence.only_forked:
        return None
    if evidence.handles is not None and evidence.handles.disturbed:
        return None
    if not run.finished[:1] == alone.finished[:1] == (True,):
        return None
    # Look at every finished epoch, because in one of them, the workers' shares may happen not to
    # overlap.
    ended = (one and other for one, other in zip(run.finished, alone.finished, strict=False))
    epochs = zip(run.drawn, alone.drawn, ended, strict=False)
    each = (mixed("", drawn, plain) for drawn, plain, whole in epochs if whole)
    found = next(filter(None, each), None) or between_fields(evidence)
    if found is None:
        return None
    what = f"different values of `batch{found.path}`" if found.path else "samples"
    return Finding(
        f"Of {found.expected} {what}, {found.twice} arrive more than once and {found.missing} "
        f"never arrive with {parts.workers} workers. Without workers, each arrives once.",
        parts.where,
        f"In `{parts.dataset}.__iter__`, shuffle with the same seed in all workers, such as "
        "`info.seed - info.id` with `info = get_worker_info()`, and only then take a share. Or "
        "take the share first, and shuffle that.",
    )


_OFF: Final = 0.25  # the total may differ from 1/n by this part of 1/n, because files may be uneven


def sharded_twice(evidence: Evidence) -> Finding | None:
    """One worker draws a whole stream, but n workers together draw only 1/n of it."""
    shares, parts = evidence.shares, evidence.parts
    if shares is None or not shares.totals or not (shares.ended and shares.complete):
        return None
    (_, one), (more, with_more) = shares.totals
    workers, drawn, whole = len(shares.shares), sum(shares.shares), shares.whole
    if workers < 2 or one != whole or whole < 4 * more**2:
        return None
    each = ((workers, drawn), (more, with_more))
    if any(abs(count * total - whole) > _OFF * whole for count, total in each):
        return None
    return Finding(
        f"One pass has {whole} samples, and one worker draws all of them. But {workers} workers "
        f"together draw {drawn}, and {more} draw {with_more}. That's about 1/{workers} and "
        f"1/{more} of the stream, so each worker takes a share of its share.",
        parts.where,
        f"Look for `get_worker_info()` in `{parts.dataset}`, the datasets inside it, and "
        "`worker_init_fn`. Let exactly one of them divide the stream.",
    )
