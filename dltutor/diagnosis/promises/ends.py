"""Epochs that do not come to their end, or have nothing in them."""

from __future__ import annotations

from collections.abc import Iterator

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.promises.broken import Broken, duration


def no_batch(evidence: Evidence) -> Iterator[Broken]:
    """An epoch that ends without a batch."""
    run, parts = evidence.run, evidence.parts
    if run.end != "finished" or run.batches or not any(run.finished):
        return  # or the loop has not asked for any
    fix = "Assert after the epoch that batches came."
    if parts.drop_last and parts.length and (parts.batch_size or 0) > parts.length:
        why = (
            f"`drop_last=True` drops the only batch: there are {parts.length} samples, and a batch "
            f"takes {parts.batch_size}."
        )
        fix = "Use a smaller `batch_size`, or `drop_last=False` where there is no whole batch."
    elif parts.length == 0:
        why = f"`len({parts.dataset})` is 0."
    elif parts.stream:
        why = f"`{parts.dataset}.__iter__` ends before its first sample."
    else:
        why = f"The sampler, {parts.sampler}, deals no batch."
    said = "The loop came to its end, without an error and without a batch."
    yield Broken("complete", "shown", said, parts.where if parts.stream else "", why, fix)


def hangs(evidence: Evidence) -> Iterator[Broken]:
    """A loop that waits for what never comes."""
    run, alone, samples = evidence.run, evidence.alone, evidence.samples
    if not run.waited:
        return
    drawn = samples if samples is not None and samples.looked else None
    if not run.batches and drawn is None:
        return  # a sample that takes long is no hang
    came = f"{run.batches} batches came, and then no more" if run.batches else "No batch came"
    said = f"{came}."
    if drawn is not None:
        said += f" In a main process a sample takes {duration(drawn.typical)}."
    if alone is not None:
        how = "comes to its end" if alone.well else f"{alone.end}, too"
        said += f" Without workers the loop {how}."
    if words := run.said.strip().splitlines():
        said += f" The last words on stderr: {words[-1][:160]!r}."
    waits = evidence.waits.stuck if evidence.waits is not None else ()
    where = waits[0][1] if waits else run.stood
    cause = "Something that workers wait for never comes."
    if alone is not None and alone.well and evidence.parts.method == "fork":
        cause += " It comes without workers: what main had running isn't there."
    fix = (
        "Look at the line above: what does it wait for, and who should bring it? "
        "`timeout=60` makes the loader raise instead of waiting without end."
    )
    yield Broken("ends", "shown", said, where, cause, fix)
