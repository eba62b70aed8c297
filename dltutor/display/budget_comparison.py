"""A prediction beside what a trial measured: as bars, and in words."""

from __future__ import annotations

from typing import Final

from dltutor.display.bars import draw_bars
from dltutor.observation.budget.prediction import Prediction
from dltutor.observation.budget.trial import Trial
from dltutor.tables import size

_EXACT: Final = 0.03  # readings of PSS differ as much by themselves


def draw_shared(predicted: Prediction, tried: Trial | None) -> str:
    """HTML: batches in `/dev/shm`, predicted and, if there was a trial, measured."""
    one = predicted.settings
    if predicted.machine.shm is None:
        why = "There is no /dev/shm here. Batches are in memory all the same, but not measured."
        return f'<div style="margin:10px 0 0">{why}</div>'
    how = (
        f"{one.num_workers} x {one.prefetch_factor} batches ahead and 1 in the loop, "
        f"{size(one.batch_bytes)} each; for a moment one more: {size(one.peak_shared)}"
    )
    bars = {"predicted": {"batches": one.shared}}
    if tried:
        bars["measured"] = {"batches": tried.peak_shared or 0}
    return draw_bars("Shared memory (/dev/shm)", how, bars, predicted.machine.shm)


def draw_memory(predicted: Prediction, tried: Trial | None) -> str:
    """HTML: memory of main, workers and batches, predicted and, if there was a trial, measured."""
    one, each = predicted.settings, predicted.footprint
    how = f"each worker {size(each.worker)} and the samples of its next batch"
    if each.once:
        how += f"; once {size(each.once)} for what starts them"
    bars = {
        "predicted": {
            "main": each.main,
            "workers": predicted.processes - each.main,
            "batches": one.shared,
        }
    }
    if tried:
        before, peak = tried.before.processes, tried.peak
        bars["measured"] = {
            "main": before,
            "workers": peak.processes - before,
            "batches": peak.shared or 0,
        }
    return draw_bars(f"Memory, workers by {one.start_method}", how, bars, predicted.memory_limit)


def verdict(predicted: Prediction, tried: Trial | None) -> str:
    """What the trial says about the prediction, in words; nothing without a trial."""
    if tried is None:
        return ""
    peak, steady = tried.peak, tried.steady
    off = round(100 * (peak.total / predicted.total - 1))
    than = f"{abs(off)} % {'more' if off > 0 else 'less'} than" if off else "as"
    text = (
        f"Measured: at most {size(peak.total)} in all, {than} predicted"
        f"{_of_it(tried.peak_shared)}. "
        f"At the end, with full queues: {size(steady.total)}{_of_it(steady.shared)}."
    )
    kept = peak.processes - tried.before.processes
    if kept > predicted.processes - predicted.footprint.main + _EXACT * predicted.total:
        text += (
            " The workers have more than predicted: the C library may keep the memory of freed "
            "samples for the next ones, and how much it keeps is not predicted."
        )
    return text


def _of_it(shared: int | None) -> str:
    return f", {size(shared)} of it in /dev/shm" if shared else ""
