"""Recognize failure modes in which the loader is slower than it has to be."""

from __future__ import annotations

from typing import Final

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.finding import Finding
from dltutor.diagnosis.words import duration
from dltutor.tables import MB, size

_MATTERS: Final = 0.5  # seconds that workers add to an epoch; fewer aren't worth a change
_SAVES: Final = 0.15  # seconds of an epoch that sending each batch in one message must save


def tiny_tensors(evidence: Evidence) -> Finding | None:
    """Batches arrive much sooner when a worker sends each one in a single message."""
    parts, run, sending = evidence.parts, evidence.run, evidence.sending
    if sending is None or sending.times < 2:
        return None
    by_tensor, in_one = sending.both
    if (by_tensor - in_one) * (parts.batches or run.batches) < _SAVES:
        return None
    maker = parts.collate or f"{parts.dataset}"
    return Finding(
        f"A batch has {run.tensors:.0f} tensors, and the worker sends them one by one. A batch "
        f"took {duration(by_tensor)}. With each batch in one message, it took "
        f"{duration(in_one)}.",
        f"collate_fn={parts.collate}" if parts.collate else parts.where,
        f"Have {maker} join the tensors of each kind into one, and return the offsets with it. "
        "In the loop, torch.tensor_split gives you the pieces back.",
    )


_CHEAP: Final = 0.001  # seconds; a sample that takes less is cheap (sending it takes about 0.1 ms)


def cheap_samples(evidence: Evidence) -> Finding | None:
    """The loader is faster without workers, even after the workers have started."""
    parts, samples, workerless = evidence.parts, evidence.samples, evidence.workerless
    if workerless is None or samples is None or workerless.times < 1.6:
        return None
    if samples.typical > _CHEAP:
        return None
    for other in (evidence.sending, evidence.one_iterator):
        if other is not None and other.times > 2:
            return None  # sending batches or making iterators slows the loader down
    with_workers, without = workerless.both
    batches = parts.batches or evidence.run.batches
    lost = (with_workers - without) * batches
    if lost < _MATTERS:
        return None
    return Finding(
        f"A sample takes {duration(samples.typical)}. Not counting start-up, a batch takes "
        f"{duration(with_workers)} with {parts.workers} worker{'s' * (parts.workers > 1)} and "
        f"{duration(without)} without workers. In an epoch of {batches} batches, the workers add "
        f"{duration(lost)}.",
        f"num_workers={parts.workers}",
        f"Set num_workers=0. To go even faster, let {parts.dataset} make a whole batch at once: "
        "use a BatchSampler as the sampler with batch_size=None, or a __getitems__ method.",
    )


def loader_per_step(evidence: Evidence) -> Finding | None:
    """The loop drops each iterator after a batch or two. Keeping one would be much faster."""
    run, steps = evidence.run, evidence.one_iterator
    if evidence.alone is not None and len(evidence.alone.passes) > len(run.passes):
        run = evidence.alone  # the run without workers got further
    if steps is None or steps.times < 3:
        return None
    anew, kept = steps.both
    if anew - kept < 0.01:
        return None
    method = evidence.parts.method
    more = "" if method == "fork" else f", and more with {method}"
    return Finding(
        f"To get {run.batches} batches, your loop began {len(run.passes)} iterations of the "
        f"loader. A step with a new iterator takes {duration(anew)} with forked workers{more}. "
        f"With one iterator for all steps, it takes {duration(kept)}.",
        "in your training loop: next(iter(loader)), or a `for` loop that you leave right away",
        "Make one iterator before the loop and take every batch from it. "
        "`while True: yield from loader` begins the next epoch when one ends.",
    )


def head_of_line(evidence: Evidence) -> Finding | None:
    """Half of the batches arrive much sooner if no batch waits for a slow one ahead of it."""
    parts, samples, order = evidence.parts, evidence.samples, evidence.any_order
    if order is None or samples is None or order.times < 2:
        return None
    in_order, in_any = order.both
    if in_order - in_any < 0.15:
        return None
    which = f"sample {samples.slowest_at}" if parts.stream else f"dataset[{samples.slowest_at}]"
    return Finding(
        f"{which} takes {duration(samples.slowest)}, but a typical sample takes "
        f"{duration(samples.typical)}. It took {duration(in_order)} until half of the batches "
        f"around it had arrived, and {duration(in_any)} with in_order=False.",
        parts.where,
        f"Set in_order=False if the order of the batches doesn't matter. Otherwise, make {which} "
        "cost about as much as the others: cut long samples into pieces beforehand.",
    )


def idle_workers(evidence: Evidence) -> Finding | None:
    """Some workers of a stream deliver nothing, though there's enough for all of them."""
    shares, parts = evidence.shares, evidence.parts
    if shares is None or min(shares.shares, default=1):
        return None
    count = sum(shares.shares)
    if count < max(_ENOUGH, _EACH * parts.workers):
        return None
    idle = [f"W{number}" for number, share in enumerate(shares.shares) if not share]
    return Finding(
        f"Together, the {parts.workers} workers delivered {count} samples, but "
        f"{' and '.join(idle)} delivered none.",
        parts.where,
        "Split the data into at least as many files or shards as there are workers, or deal out "
        "smaller pieces: every `num_workers`-th sample, starting at `id`.",
    )


_ENOUGH: Final = 24  # the fewest samples to base a finding on
_EACH: Final = 4  # samples for each worker; with fewer, there may be none left for a worker


def oversubscribed(evidence: Evidence) -> Finding | None:
    """The workers' threads outnumber the cores, and one per worker is about as fast or faster."""
    parts, threads = evidence.parts, evidence.threads
    if threads is None or not threads.too_many or not threads.paces:
        return None
    fewer = sum(threads.alone) < sum(threads.computing)
    times = [as_is / kept for as_is, kept in threads.paces]
    # Ask for a smaller gain if the doctor also counted the threads of workers with one thread each.
    # If the doctor timed both loaders twice, one thread may even be a little slower.
    least = 1.3 if not sum(threads.alone) else 0.9 if len(times) > 1 else 1.1
    if not fewer or min(times) < least:
        return None
    as_is, kept = sorted(threads.paces)[0]
    counts = " and ".join(str(count) for count in threads.computing)
    return Finding(
        f"The workers compute with {counts} threads on {threads.cores} "
        f"core{'s' * (threads.cores > 1)}. A batch takes {duration(as_is)}. With one thread for "
        f"each worker, it takes {duration(kept)}.",
        f"worker_init_fn={parts.init}" if parts.init else parts.where,
        f"Leave each worker with one thread. Don't call torch.set_num_threads"
        f"{f' in {parts.init}' if parts.init else ' in workers'}. Set OPENBLAS_NUM_THREADS=1 and "
        "OMP_NUM_THREADS=1 before Python starts, and call cv2.setNumThreads(0).",
    )


def one_core(evidence: Evidence) -> Finding | None:
    """The workers share fewer cores than there are workers, though main may use more."""
    run, parts = evidence.run, evidence.parts
    theirs, mains = run.cores
    if not 0 < theirs < min(parts.workers, mains):
        return None
    cores = "one core" if theirs == 1 else f"{theirs} cores"
    return Finding(
        f"Together, the {parts.workers} workers may use only {cores}, but the main process may use "
        f"{mains}.",
        f"worker_init_fn={parts.init}" if parts.init else parts.where,
        "Remove the call that pins workers (`os.sched_setaffinity`, `psutil.Process.cpu_affinity`, "
        "or a variable such as `KMP_AFFINITY`), or give each worker its own core.",
    )


_KB: Final = 1024
_REREAD: Final = 3  # reading all files this many times to draw each sample once is too much
_AS_MUCH: Final = 16  # reading this many times a sample's bytes to make the sample is too much
# Taking this many times as long as in ascending order is too slow. On a busy machine, a healthy
# dataset took 2.3 times as long.
_SCATTERED: Final = 3.0


def wrong_chunks(evidence: Evidence) -> Finding | None:
    """Each sample reads, or unpacks, many times what it needs from the files."""
    return _reread(evidence) or _scattered(evidence) or _unpacked(evidence)


def _reread(evidence: Evidence) -> Finding | None:
    samples = evidence.samples
    if samples is None or not samples.looked or not samples.of_files:
        return None
    each, times = samples.read / samples.looked, samples.read / samples.of_files
    if each < max(_AS_MUCH * samples.bytes, 256 * _KB) or times < _REREAD:
        return None
    if each < MB and samples.typical < _CHEAP:
        return None  # reading so little is fast, because the operating system caches the files
    return Finding(
        f"A sample of {size(samples.bytes)} reads {size(each)}. {samples.looked} samples read "
        f"{size(samples.read)} from files of {size(samples.of_files)} in total, which is "
        f"{times:.0f} times all of them. A sample takes {duration(samples.typical)}.",
        evidence.parts.where,
    )


def _scattered(evidence: Evidence) -> Finding | None:
    found, samples = evidence.reordered, evidence.samples
    if found is None or samples is None or found.times < _SCATTERED:
        return None
    if found.seconds - found.ascending < _CHEAP * found.looked:
        return None
    ours, ascending = found.seconds / found.looked, found.ascending / found.looked
    return Finding(
        f"In the order of the sampler, a sample takes {duration(ours)}. The same {found.looked} "
        f"samples, drawn in ascending order, take {duration(ascending)} each.",
        samples.busiest or evidence.parts.where,
        "Store the samples so that each can be read by itself (uncompressed, or compressed one by "
        "one), or shuffle whole blocks and draw each block in order.",
        cause="The data is laid out for reading from beginning to end. In any other order, your "
        "dataset reads or decompresses the same parts over and over to get to one sample.",
    )


def _unpacked(evidence: Evidence) -> Finding | None:
    # If the call always returns the same value, nothing is in chunks, and keeping this value is
    # enough.
    found, samples = evidence.recomputed, evidence.samples
    if found is None or samples is None or found.values < 2:
        return None
    return Finding(
        f"A sample takes {duration(samples.typical)}, and one call is {100 * found.share:.0f} "
        f"percent of that. For {found.samples} different samples of {size(samples.bytes)}, it "
        f"returned one of {found.values} values, each about {size(found.bytes)}.",
        found.line,
        certainty="likely",
    )
