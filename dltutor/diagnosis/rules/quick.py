"""Failure modes in which it takes longer than it must."""

from __future__ import annotations

from typing import Final

from dltutor.diagnosis.evidence import Evidence, Fit


def tiny_tensors(evidence: Evidence) -> Fit | None:
    """The same batches come far sooner when each is sent in one message."""
    parts, run, sending = evidence.parts, evidence.run, evidence.sending
    if sending is None or sending.times < 2:
        return None
    by_tensor, in_one = sending.both
    maker = parts.collate or f"{parts.dataset}'s samples"
    return Fit(
        "slow",
        "shown",
        f"A batch has {run.tensors:.0f} tensors, which are sent one by one: "
        f"{1000 * by_tensor:.3g} ms for a batch. The same batches, each in one message, took "
        f"{1000 * in_one:.3g} ms.",
        f"collate_fn={parts.collate}" if parts.collate else parts.where,
        f"Pack what {maker} puts into many tensors into one tensor with offsets for each kind of "
        "thing. torch.tensor_split gives the pieces back in the loop.",
    )


_CHEAP: Final = 0.003  # seconds: sending a sample takes a tenth of that


def cheap_samples(evidence: Evidence) -> Fit | None:
    """No workers deliver faster than the workers, which had started long before."""
    parts, samples, workerless = evidence.parts, evidence.samples, evidence.workerless
    if workerless is None or samples is None or workerless.times < 1.6:
        return None
    if samples.typical > _CHEAP:
        return None
    for other in (evidence.sending, evidence.one_iterator):
        if other is not None and other.times > 2:
            return None  # what makes the workers slow is known
    with_workers, without = workerless.both
    return Fit(
        "slow",
        "shown",
        f"A sample costs {1e6 * samples.typical:.2g} µs. A batch takes {1000 * with_workers:.3g} "
        f"ms from {parts.workers} worker{'s' * (parts.workers > 1)}, after they have started, and "
        f"{1000 * without:.3g} ms without any.",
        f"num_workers={parts.workers}",
        f"Set num_workers=0. For more, let {parts.dataset} make a whole batch at once: a "
        "BatchSampler as sampler and batch_size=None, or a method __getitems__.",
    )


def loader_per_step(evidence: Evidence) -> Fit | None:
    """The loop leaves each iterator after a batch or two, and from one they come far sooner."""
    run, steps = evidence.run, evidence.one_iterator
    if evidence.alone is not None and len(evidence.alone.passes) > len(run.passes):
        run = evidence.alone  # more of the loop was seen there
    if steps is None or steps.times < 3:
        return None
    anew, kept = steps.both
    if anew - kept < 0.01:
        return None
    method = evidence.parts.method
    more = "" if method == "fork" else f", and by {method} more"
    return Fit(
        "slow",
        "shown",
        f"The loop took {run.batches} batches and began {len(run.passes)} iterations of the "
        f"loader for them. A step with a new iterator takes {1000 * anew:.3g} ms with forked "
        f"workers{more}; with one iterator for all steps, {1000 * kept:.3g} ms.",
        "in the training loop: next(iter(loader)), or a `for` that is left at once",
        "Make one iterator before the loop and take every batch from it; "
        "`while True: yield from loader` begins the next epoch when one ends.",
    )


def head_of_line(evidence: Evidence) -> Fit | None:
    """Half of the batches come far sooner where none waits for a slow one before it."""
    parts, samples, order = evidence.parts, evidence.samples, evidence.any_order
    if order is None or samples is None or order.times < 2:
        return None
    in_order, in_any = order.both
    if in_order - in_any < 0.15:
        return None
    which = f"sample {samples.slowest_at}" if parts.stream else f"dataset[{samples.slowest_at}]"
    return Fit(
        "slow",
        "shown",
        f"{which} takes {samples.slowest:.2g} s, a typical one {_short(samples.typical)}. Half of "
        f"the batches around it had come after {in_order:.2g} s; with in_order=False after "
        f"{in_any:.2g} s.",
        parts.where,
        f"in_order=False, if the order of the batches does not matter. Otherwise make {which} cost "
        "about what the others cost: cut what is long into pieces beforehand.",
    )


def _short(seconds: float) -> str:
    return f"{1000 * seconds:.2g} ms" if seconds < 0.1 else f"{seconds:.2g} s"


def oversubscribed(evidence: Evidence) -> Fit | None:
    """More threads compute than there are cores, and with one for each worker it is as fast."""
    parts, threads = evidence.parts, evidence.threads
    if threads is None or not threads.too_many or not threads.paces:
        return None
    fewer = sum(threads.alone) < sum(threads.computing)
    times = [as_is / kept for as_is, kept in threads.paces]
    # As fast with one is enough, if it was so twice, and its threads could be counted.
    least = 1.3 if not sum(threads.alone) else 0.9 if len(times) > 1 else 1.1
    if not fewer or min(times) < least:
        return None
    as_is, kept = sorted(threads.paces)[0]
    told = " and ".join(str(count) for count in threads.computing)
    return Fit(
        "slow",
        "shown",
        f"The workers compute with {told} threads, on {threads.cores} "
        f"core{'s' * (threads.cores > 1)}. A batch takes {as_is:.2g} s; with one thread for each "
        f"worker it takes {kept:.2g} s.",
        f"worker_init_fn={parts.init}" if parts.init else parts.where,
        f"Leave each worker at one thread{f', also in {parts.init}' if parts.init else ''}: no "
        "torch.set_num_threads there; OPENBLAS_NUM_THREADS=1 and OMP_NUM_THREADS=1 before Python "
        "starts; cv2.setNumThreads(0).",
    )
