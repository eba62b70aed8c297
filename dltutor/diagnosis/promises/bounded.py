"""Find memory and file descriptors that pile up."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Final

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.finding import Finding
from dltutor.observation.growth import LATE
from dltutor.tables import MB, size

_finding: Final = partial(Finding, promise="bounded")

_OPENED: Final = 16  # descriptors still open after some samples; a healthy dataset may keep a few
_KEPT: Final = 64  # descriptors that main gained; fewer are no trouble
_STEPS: Final = 16  # the fewest batches to judge by; the first ones allocate an optimizer's state
_ON_GPU: Final = 16 * MB  # bytes; the numbers that a loop collects take up far less
# The fewest samples from a worker. The first samples take memory that later ones reuse.
_ENOUGH: Final = 24


def held(evidence: Evidence) -> Iterator[Finding]:
    """Find descriptors that main keeps open."""
    parts = evidence.parts
    run = max(evidence.as_it_is, key=lambda run: run.files)
    # Batches that arrive before their turn wait in main, where each of their tensors has a
    # descriptor.
    waiting = run.tensors * parts.prefetch * parts.workers
    if run.files < max(_KEPT, run.batches / 2, waiting):
        return
    yield _finding(
        f"After {run.batches} batches, main had {run.files} more open descriptors than at the "
        "first batch.",
        "your training loop" if parts.loop else parts.where,
        "Keep copies or plain numbers of what you collect: `labels.clone()`, `loss.item()`.",
        cause="Each tensor from a worker keeps a descriptor open as long as anything refers to it, "
        "even a small view.",
    )


def grows_on_gpu(evidence: Evidence) -> Iterator[Finding]:
    """Find a loop that takes up more memory on the GPU with each batch."""
    amounts = evidence.run.gpu
    if len(amounts) < _STEPS:
        return
    half = amounts[len(amounts) // 2 :]
    steps = [after - before for before, after in pairwise(half)]
    # A healthy loop may have more on the GPU after a long batch, but less after a short one.
    if sum(step > 0 for step in steps) < 0.9 * len(steps) or half[-1] - half[0] < _ON_GPU:
        return
    yield _finding(
        f"The memory of main's tensors on the GPU grew with each batch, from {size(half[0])} at "
        f"batch {len(amounts) - len(half)} to {size(half[-1])} at batch {len(amounts) - 1}.",
        "your training loop",
        "Call `.item()` or `.detach()` on what the loop collects, such as a loss or a sum of "
        "losses. Validate under `torch.no_grad()`.",
        cause="Something keeps a tensor from each step. If the tensor belongs to a graph, it also "
        "keeps everything that a backward pass would need.",
    )


def opened(evidence: Evidence) -> Iterator[Finding]:
    """Find descriptors that samples leave open."""
    samples, parts = evidence.samples, evidence.parts
    if samples is None or samples.opened < max(_OPENED, samples.looked // 2):
        return
    yield _finding(
        f"Drawing {samples.looked} samples in the main process left {samples.opened} descriptors "
        "open.",
        parts.where,
        "Close it: `with open(...) as file:`. Or open it once per process and keep it.",
        cause="What a sample opens stays open, and a process may have only about 1000 open at "
        "once.",
    )


def opened_in_workers(evidence: Evidence) -> Iterator[Finding]:
    """Find descriptors that samples leave open in workers that stay for a second epoch."""
    run, parts = evidence.run, evidence.parts
    finished = [count for count, done in zip(run.counted, run.finished, strict=False) if done]
    if not parts.workers or len(finished) < 2:
        return
    # A worker that opens each file once and keeps it gains fewer, because some of its samples are
    # of files that it has opened in the first epoch.
    if run.opened < max(_OPENED, 0.9 * finished[1] / parts.workers):
        return
    yield _finding(
        f"In the second epoch, with {finished[1]} samples for {parts.workers} "
        f"worker{'s' * (parts.workers > 1)}, a worker gained {run.opened} open descriptors.",
        f"worker_init_fn={parts.init}" if parts.init else parts.where,
        "Close what a sample opens: `with open(...) as file:`. If it's part of a reference cycle, "
        "only a garbage collection closes it, so don't turn the collector off.",
        cause="What a sample opens stays open in a worker that goes on to the next epoch, and a "
        "process may have only about 1000 descriptors open at once.",
    )


def grows(evidence: Evidence) -> Iterator[Finding]:
    """Find workers that grow even if they collect garbage or return freed memory to Linux."""
    memory = evidence.memory
    if memory is None or memory.samples < _ENOUGH:
        return
    late = min(memory.late_as_it_is, memory.late_collected, memory.late_returned)
    later = memory.later_epochs if evidence.parts.persistent else 0.0
    # If collecting garbage or returning free blocks stops the growth, a failure mode explains it.
    if late < (LATE if later < LATE else LATE / 3):
        return
    # If workers also grow when samples repeat, every sample takes memory, not only new ones.
    again = memory.late_repeated >= memory.late_as_it_is / 2
    by = "even with the same samples again and again" if again else "only with new samples"
    yield _finding(
        f"A worker's own memory grew by {memory.peak_as_it_is:.0f} MB in {memory.samples} samples, "
        f"{memory.late_as_it_is:.0f} MB of it after the first third. It grew {by}."
        + (f" In the next two epochs, it grew by {later:.0f} MB more." if later >= LATE else ""),
        evidence.parts.where,
        "Count what your dataset holds before and after some samples (`tracemalloc` names the "
        "lines), and watch a longer run with `dltutor.observe(loader, live=True)`.",
        cause="Something holds on to memory from each sample.",
        certainty="likely",
    )
