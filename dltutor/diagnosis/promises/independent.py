"""Find random numbers and orders that repeat, and samples that depend on Python's hash salt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Final

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.finding import Finding
from dltutor.diagnosis.running.random_states import SAID

_finding: Final = partial(Finding, promise="independent")

_FEW: Final = 10  # if fewer than one in this many samples repeats, it may be chance
_ENOUGH: Final = 4  # the fewest different samples in an epoch to base a finding on


def seeded(evidence: Evidence) -> Iterator[Finding]:
    """Find samples that all set a global random generator to the same state."""
    samples, parts = evidence.samples, evidence.parts
    if samples is None or not samples.seeded:
        return
    names = " and ".join(SAID[each] for each in samples.seeded)
    yield _finding(
        f"After each sample, {names} is in the same state, whatever its state was before.",
        parts.where,
        "Don't seed it, because torch already seeds each worker in each epoch. If you want samples "
        "that are always the same, make a generator from the index: "
        "`np.random.default_rng(index)`.",
        cause="Each sample seeds it with a constant, so all samples draw the same random numbers "
        "in every epoch. So does any other code in the same process that draws after a sample.",
    )


def seeded_by_index(evidence: Evidence) -> Iterator[Finding]:
    """Find samples that seed a global random generator from their index."""
    samples, parts = evidence.samples, evidence.parts
    if samples is None or not samples.seeded_each:
        return
    names = " and ".join(SAID[each] for each in samples.seeded_each)
    yield _finding(
        f"The state of {names} after a sample depends only on which sample it was.",
        parts.where,
        "If only a part of the sample should stay the same, draw that from a separate generator, "
        "such as `torch.Generator().manual_seed(index)` or `np.random.default_rng(index)`.",
        cause="Each sample seeds it with something like its index. Whatever the sample draws after "
        "that is the same in every epoch, and so is what other code in the process draws.",
        certainty="likely",
    )


def repeated(evidence: Evidence) -> Iterator[Finding]:
    """Find epochs that repeat all random numbers."""
    run = evidence.called_again or evidence.run
    samples, fetched, parts = evidence.samples, evidence.fetched, evidence.parts
    if samples is None or run.finished[:2] != (True, True):
        return
    if samples.random < _ENOUGH and not samples.joined:
        return
    if parts.method not in ("", "fork"):
        return  # the doctor doesn't know whether samples are random in a new interpreter
    apart = all(run.drawn[:2])
    first, second = (Counter(each) for each in (run.drawn if apart else run.passes)[:2])
    if len(first) < _ENOUGH:
        return
    by_sampler = fetched is not None and fetched.seeds
    said = (
        "Samples are random: drawn again, a sample comes out differently. But the "
        f"{first.total()} {'samples' if apart else 'batches'} of the second epoch are exactly "
        "those of the first."
    )
    if first != second:
        if not by_sampler or parts.persistent or "sampler" in parts.hooks:
            return
        said = (
            "Samples are random. But after the sampler has dealt out its indices, torch's global "
            "generator is always in the same state. The next epoch gets its workers' seeds from "
            "that state, so from the second epoch on, all epochs are the same."
        )
    cause = (
        "Whatever the samples draw from is in the same state at the start of each epoch. torch "
        "seeds the workers from main's global generator, or from the loader's `generator`."
    )
    if by_sampler:
        cause = (
            f"{parts.sampler} sets main's global generator to the same state in each epoch. Right "
            "after that, torch draws the workers' seeds from it."
        )
    yield _finding(
        said,
        f"{parts.sampler}.__iter__" if by_sampler else parts.where,
        "Don't seed a global generator in every epoch. If the order has to stay the same, give "
        "the sampler its own generator: `torch.Generator().manual_seed(...)`.",
        cause=cause,
        # A loop may seed on purpose, for example to validate with the same samples each time.
        certainty="shown" if first == second and run is evidence.run else "likely",
    )


def put_back(evidence: Evidence) -> Iterator[Finding]:
    """Find a loop that sets the random state back, so all epochs after the first are the same."""
    parts, whole = evidence.parts, (evidence.called_again or evidence.run).whole
    if not parts.loop or len(whole) < 3 or len({*whole[1]}) < _ENOUGH:
        return
    first, second, third = whole[:3]
    if first == second or second != third or Counter(first) != Counter(second):
        return
    yield _finding(
        "Epochs 1 and 2 have the same order. Epoch 0 has a different one.",
        "your training loop",
        "Draw what has to be the same each time from a `torch.Generator` of its own, or put it "
        "into a `with torch.random.fork_rng():` block, which restores the state afterwards.",
        cause="Something leaves torch's global generator in the same state in each epoch, such as "
        "a `torch.manual_seed` before validation. The next epoch's order and its workers' seeds "
        "are drawn from that state.",
        certainty="likely",
    )


def restarted(evidence: Evidence) -> Iterator[Finding]:
    """Find a random stream that begins again in each epoch, because its workers keep their seed."""
    run, parts = evidence.run, evidence.parts
    if not (parts.stream and parts.persistent) or evidence.by_seed < _ENOUGH:
        return
    if run.finished[:2] != (True, True):
        return
    first, second = run.contents[:2]
    if len({*first}) < _ENOUGH or first != second:
        return
    yield _finding(
        f"With another seed, other samples arrive. But the {len(second)} of the second epoch are "
        "exactly those of the first, in the same order.",
        parts.where,
        "Make the generator once in each worker, or from the seed and the number of the epoch.",
        cause="Workers that stay keep their seed. A generator that's made from "
        "`get_worker_info().seed` or `torch.initial_seed()` in each epoch begins again.",
        certainty="likely",
    )


def collides(evidence: Evidence) -> Iterator[Finding]:
    """Find a worker that repeats what another one delivered in the epoch before."""
    run, parts = evidence.run, evidence.parts
    size, count = parts.batch_size, parts.workers
    if not size or count < 2 or run.finished[:2] != (True, True) or not all(run.drawn[:2]):
        return
    if len({*run.counted[:2]}) > 1:
        return  # the epochs have different lengths, so they aren't made of the same data
    fields, later = map(dict, (*run.fields, (), ())[:2])
    both = [(path, fields[path], later[path]) for path in fields if path in later]
    for path, first, second in (("", *run.drawn[:2]), *both):
        if pair := _repeating(first, second, size, count):
            worker, other = pair
            what = f"values of `batch{path}`" if path else "samples"
            yield _finding(
                f"In epoch 1, W{worker} delivers the {what} that W{other} delivered in epoch 0, "
                f"in the same order. The other {what} differ between the epochs.",
                parts.where,
                "Seed from all three: `np.random.default_rng([seed, epoch, worker])`.",
                cause="Two workers use the same random numbers, one of them an epoch later. "
                "That's what happens if a seed is a sum: seed + epoch + worker is the same "
                "number for the next worker one epoch earlier.",
            )
            return


def duplicated(evidence: Evidence) -> Iterator[Finding]:
    """Find samples that arrive more than once with workers, though all differ without them."""
    run, alone, parts = evidence.run, evidence.alone, evidence.parts
    if alone is None or parts.workers < 2 or not (any(run.drawn[:1]) and any(alone.drawn[:1])):
        return
    if not run.finished[:1] == alone.finished[:1] == (True,):
        return
    ours, plain = run.drawn[0], alone.drawn[0]
    twice = len(ours) - len({*ours})
    if twice < max(_ENOUGH, len(ours) / _FEW) or len({*plain}) < len(plain):
        return
    yield _finding(
        f"{twice} of {len(ours)} samples in an epoch are exact copies of others. Without workers, "
        f"no two of {len(plain)} samples are the same.",
        f"worker_init_fn={parts.init}" if parts.init else parts.where,
        "Seed each worker from `get_worker_info().seed`, or from `torch.initial_seed() % 2**32` if "
        "a seed must have 32 bits. The workers' seeds differ only in their lowest bits.",
        cause="Workers draw the same random numbers, or their shares of the data overlap, so they "
        "deliver the same samples.",
    )


def _repeating(
    first: Sequence[str], second: Sequence[str], size: int, count: int
) -> tuple[int, int] | None:
    # Return a worker and the other worker whose samples from the first epoch it repeats in the
    # second epoch, or None if there's no such pair.
    if Counter(first) == Counter(second):
        return None  # both epochs have the same samples, perhaps from different workers
    before, after = (_by_worker(each, size, count) for each in (first, second))
    for worker, drawn in enumerate(after):
        for other, earlier in enumerate(before):
            both = min(len(drawn), len(earlier))
            alike = drawn[:both] == earlier[:both] and len({*drawn[:both]}) >= _ENOUGH
            if alike and other != worker:
                return worker, other
    return None


def _by_worker(drawn: Sequence[str], size: int, count: int) -> list[tuple[str, ...]]:
    # Return each worker's samples. Use only the first half of the epoch, because workers no longer
    # take turns once one of them runs out of batches.
    batches = [drawn[at : at + size] for at in range(0, len(drawn), size)]
    batches = batches[: len(batches) // 2]
    return [tuple(chain(*batches[worker::count])) for worker in range(count)]


def kept(evidence: Evidence) -> Iterator[Finding]:
    """Find workers that draw random numbers once for each sample, and keep the sample."""
    run, samples, parts = evidence.run, evidence.samples, evidence.parts
    once, again, fetched = evidence.reseeded, evidence.repeated, evidence.fetched
    if not evidence.seeded_once or samples is None or samples.joined:
        return
    if fetched is None or fetched.together:
        return  # perhaps the seed only decides which samples are padded together
    # The same seed has to repeat the samples. Otherwise they may differ for another reason, such as
    # a pid in each sample.
    if once is None or again is None or not again.covers(once):
        return
    if run.finished[:2] != (True, True) or not all(run.drawn[:2]):
        return
    first, second = map(set, run.drawn[:2])
    if len(first & second) < max(_ENOUGH, len(second) / _FEW):
        return
    yield _finding(
        f"{len(first & second)} of {len(second)} samples in the second epoch are exactly those of "
        "the first. Drawn again in the same process, a sample never changes. But with another "
        "seed, it's a different one.",
        parts.where,
        "Cache only what isn't random, such as the decoded file, and draw random numbers each time "
        "that a sample is drawn.",
        cause="A cache keeps samples after random numbers have gone into them. A worker that stays "
        "delivers such a sample in every epoch in which it gets the same index.",
    )


def stuck(evidence: Evidence) -> Iterator[Finding]:
    """Find a sampler that shuffles the same way in every epoch."""
    fetched, parts, run = evidence.fetched, evidence.parts, evidence.run
    if fetched is None or not fetched.stuck or "sampler" in parts.hooks:
        return
    if len(run.passes) > 1 and not run.begins_again:
        return  # the loop tells the sampler the epoch in some other way
    yield _finding(
        f"`{parts.sampler}` draws random numbers (`{fetched.stuck}`), but deals out the same "
        "batches in each epoch, whatever the seed.",
        f"{parts.sampler}.__iter__",
        "Make the generator once, in `__init__`. Or seed it from the epoch, in a `set_epoch` that "
        "your loop calls.",
        cause="The sampler makes a new generator each time, from a constant seed.",
        certainty="likely",
    )


def salted(evidence: Evidence) -> Iterator[Finding]:
    """Find samples or batches that depend on how Python salts the hash of a string."""
    new = evidence.new_interpreter
    if new is None or not new.salted:
        return
    made = f"{new.looked} batches of one sample" if new.collated else f"first {new.looked} samples"
    yield _finding(
        f"The {made} were made in new interpreters. With one value of `PYTHONHASHSEED` they came "
        f"out the same twice, but with another value {new.salted} of them differed.",
        evidence.parts.collate if new.collated else evidence.parts.where,
        "Use `zlib.crc32` or `hashlib` instead of `hash()`, and sort a set before you number or "
        "divide what's in it.",
        cause="Python salts the hash of a string differently in each interpreter, which changes "
        "`hash()` and the order of a set. Forked workers have main's salt, so they agree. A "
        "spawned worker, another rank, and your next run don't, so a saved model may get other "
        "inputs.",
    )


def left_early(evidence: Evidence) -> Iterator[Finding]:
    """Find epochs that the loop leaves early, and that begin with the same samples each time.

    Something calls the sampler's `set_epoch`, but apparently always with the same number.
    """
    order, parts = evidence.order, evidence.parts
    if order is None or not (order.follows and order.repeated) or order.told < 2:
        return
    if order.early < _ENOUGH or order.early >= (parts.length or 0):
        return
    yield _finding(
        f"The loop leaves the epoch early. The next time, the sampler deals out the same "
        f"{order.early} of {parts.length} samples first, although something calls its `set_epoch` "
        "each time.",
        f"{parts.sampler}.set_epoch",
        "Count the epochs in your loop, and call `loader.set_epoch(epoch)`, if the loader has it, "
        "or the sampler's. Or let each epoch end.",
        cause=f"{parts.loader} counts only the epochs that reach their end, so the sampler is told "
        "the same number each time. The other samples are never used.",
    )


def order(evidence: Evidence) -> Iterator[Finding]:
    """Find an order that repeats even though the loop called the sampler's `set_epoch`."""
    run, order, parts = evidence.run, evidence.order, evidence.parts
    if order is None or not order.moves or run.epochs_told < 2:
        return
    whole = [each for each in run.whole if len(each) > 3]
    same = [at for at in range(1, len(whole)) if whole[at] == whole[at - 1]]
    if not same:
        return
    yield _finding(
        f"Epochs {same[0] - 1} and {same[0]} have the same order, though the loop called "
        f"`{parts.sampler}.set_epoch` {run.epochs_told} times.",
        f"{parts.sampler}.set_epoch",
        f"Let each epoch end. {parts.loader} has one iterator for all epochs, but an ordinary "
        "loader with `persistent_workers=True` keeps its workers too.",
        cause="The sampler dealt out the order of an epoch before it was told which epoch it is, "
        "because a loader that never ends loads ahead.",
    )
