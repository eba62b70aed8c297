"""Find epochs that break off, don't end, or end late."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.finding import Certainty, Finding
from dltutor.diagnosis.messages import advice
from dltutor.diagnosis.words import count_of, duration

_finding: Final = partial(Finding, promise="ends")


def breaks_off(evidence: Evidence) -> Iterator[Finding]:
    """Find a run that ended with an error or a crash, whatever the reason."""
    run, alone, parts = evidence.run, evidence.alone, evidence.parts
    if run.end not in _ENDED:
        return
    said = f"{_ENDED[run.end]} after {run.batches} batches"
    said += f": {run.error}" if run.error else "."
    codes = [f"W{number}: {code}" for number, code in enumerate(run.codes) if code]
    if codes:
        said += f" Exit codes: {', '.join(codes)}."
    if alone is not None:
        how = "finishes" if alone.well else f"also ends early: {alone.error or alone.end}"
        said += f" Without workers, the loop {how}."
    if words := run.stderr.strip().splitlines():
        said += f" The last message on stderr: {words[-1][:160]!r}."
    where = run.line or run.stood or parts.where
    yield _finding(
        said,
        where,
        "Run it again with `dltutor.observe(loader)`, which keeps what each worker wrote, and look "
        "for what your code leaves running: a timer, a signal handler, a thread.",
        cause="Something in the workers ended the run. What they wrote to stderr, and how long a "
        "worker had been idle or busy, narrows it down.",
    )


_ENDED: Final = {
    "raised": "The loop raised",
    "worker died": "A worker died",
    "main died": "The main process died",
}


_LATE: Final = 3.0  # seconds; torch waits 5 for a worker to exit, and a healthy one takes under 1


def late(evidence: Evidence) -> Iterator[Finding]:
    """Find workers that don't end when the epoch does."""
    run, alone, parts = evidence.run, evidence.alone, evidence.parts
    if run.ending < _LATE or not parts.workers or parts.persistent:
        return
    if run.ending < run.first:
        return  # on a busy machine, a worker takes a long time both to start and to exit
    if alone is not None and alone.ending > run.ending / 2:
        return  # even without workers, the dataset or the loop takes more than half as long
    yield _finding(
        f"After the last batch, the loop waited {duration(run.ending)} until the epoch was over.",
        parts.where,
        "Make your threads daemons, or end them when the worker ends. Read each queue that workers "
        "write to until it's empty, or call its `cancel_join_thread()` in the worker.",
        cause="The workers have nothing left to do, but they don't exit. torch waits 5 s for each "
        "one, and then kills it. A process can't exit while one of its non-daemon threads is "
        "running, or while a multiprocessing queue holds something that hasn't been read.",
    )


def goes_on(evidence: Evidence) -> Iterator[Finding]:
    """Find an epoch that has far more batches than `len(loader)` says, and no end in sight."""
    run, parts = evidence.run, evidence.parts
    came = len((*run.passes, ())[0])
    if not parts.batches or run.end != "enough" or any(run.finished[:1]):
        return
    if came < 2 * parts.batches + parts.workers:
        return
    yield _finding(
        f"`len({parts.loader})` says {parts.batches} batches. {came} arrived in the first epoch, "
        "and there was no end yet.",
        parts.where,
        "Let the stream or the loader end each epoch, or let your loop stop after `len(loader)` "
        "batches, as `itertools.islice` does.",
        cause="The dataset or the sampler yields samples forever, and the length is only a number. "
        "A plain `for` loop over the loader never gets to a second epoch.",
        certainty="likely",
    )


def hangs(evidence: Evidence) -> Iterator[Finding]:
    """Find a loop that waits for a batch that never arrives."""
    run, alone, samples = evidence.run, evidence.alone, evidence.samples
    if not run.waited:
        return
    drawn = samples if samples is not None and samples.looked else None
    if run.batches and samples is not None and samples.ended == "sampler":
        yield _endless_sampler(evidence)
        return
    before = 0
    if samples is not None and samples.ended == "hung" and samples.at >= 0:
        before = samples.before
    if not run.batches and drawn is None and not before:
        return  # main didn't get a sample either, so samples may only be slow
    said = f"{_arrived(evidence)}, then no more." if run.batches else "No batch arrived."
    if drawn is not None:
        said += f" A sample takes {duration(drawn.typical)} in the main process."
    if samples is not None and before:
        stream = evidence.parts.stream
        which = f"sample {samples.at} of the stream" if stream else f"dataset[{samples.at}]"
        said += (
            f" In the main process, {which} didn't come back either, although {before} samples had "
            "come before it."
        )
    if alone is not None:
        how = "finishes" if alone.well else f"doesn't finish either ({alone.end})"
        said += f" Without workers, the loop {how}."
    if words := run.stderr.strip().splitlines():
        said += f" The last message on stderr: {words[-1][:160]!r}."
    waits = evidence.waits.stuck if evidence.waits is not None else ()
    where = waits[0][1] if waits else run.stood
    cause = "A worker never gets past this line. It waits for something, or it loops forever."
    if alone is not None and alone.well and evidence.parts.method == "fork":
        cause += (
            " Main does get past it, so a forked worker may lack something that's running in main, "
            "such as a thread, or its share of the data may lack what the line looks for."
        )
    fix = (
        "Look at the line above. What does it wait for, and which thread, process, or sample "
        "should provide it? With `timeout=60`, the loader raises an error instead of waiting "
        "forever."
    )
    if "in _feed" in run.said:
        where = evidence.parts.where
        cause = (
            "A worker's queue thread couldn't send a batch. It printed the error, dropped the "
            "batch, and went on, so main waits for that batch forever."
        )
        fix = advice(run.said) or "Look at the error that the queue thread printed."
    # If no batch arrived, and main also waited in vain for a sample, that sample may only be slow.
    certainty: Certainty = "likely" if before and not run.batches else "shown"
    yield _finding(said, where, fix, cause=cause, certainty=certainty)


def _endless_sampler(evidence: Evidence) -> Finding:
    run, parts = evidence.run, evidence.parts
    return _finding(
        f"{_arrived(evidence)}, then no more. Main asked the sampler for the next one and never "
        "got an answer. Asked alone, without a dataset or workers, the sampler doesn't finish "
        "either.",
        run.line,
        "Look at the line above. Which indices does it never get rid of? Raise an error for those, "
        "or skip them.",
        cause=f"{parts.sampler} loops forever or waits for something, so the workers get no "
        "indices.",
    )


def _arrived(evidence: Evidence) -> str:
    return f"{count_of(evidence.run.batches, 'batch', 'batches')} arrived"
