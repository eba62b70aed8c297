"""Compare a prediction with a trial, in sentences and as HTML bars with text for screen readers."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Final

from dltutor.display.style import ALARM, MAIN, WORKERS
from dltutor.observation.budget.prediction import Prediction
from dltutor.observation.budget.trial import Trial
from dltutor.tables import size

# Ignore a difference of up to this fraction of the total, because readings of PSS vary.
_EXACT: Final = 0.03
_FIRST_SCALE: Final = 64 << 20
_NEXT_SCALE: Final = 4  # each scale is this many times as long as the one before

# Use JupyterLab's or VS Code's colors, or else the page's own colors.
_TEXT: Final = "var(--jp-content-font-color1, var(--vscode-foreground, inherit))"
_PAGE: Final = "var(--jp-layout-color0, var(--vscode-editor-background, transparent))"


#: The name of each part that a bar may have -> the part's color.
COLORS: Final = {"main": MAIN, "workers": WORKERS[0], "batches": WORKERS[1]}


def draw_shared(predicted: Prediction, tried: Trial | None) -> str:
    """Return bars for the batches in `/dev/shm`, as predicted and, after a trial, as measured.

    Without a `/dev/shm`, return a sentence that says so.
    """
    one = predicted.settings
    if predicted.machine.shm is None:
        why = "There is no /dev/shm here. Batches still take up memory, but it isn't measured."
        return f'<div style="margin:10px 0 0">{why}</div>'
    how = (
        f"{one.num_workers} x {one.prefetch_factor} batches ahead and 1 in the loop, "
        f"{size(one.batch_bytes)} each. With one more for a moment: {size(one.peak_shared)}"
    )
    bars = {"predicted": {"batches": one.shared}}
    if tried:
        bars["measured"] = {"batches": tried.peak_shared or 0}
    return draw_bars("Shared memory (/dev/shm)", how, bars, predicted.machine.shm)


def draw_memory(predicted: Prediction, tried: Trial | None) -> str:
    """Return bars for all memory, with batches, as predicted and, after a trial, as measured."""
    one, each = predicted.settings, predicted.footprint
    how = f"{size(each.worker)} for each worker, plus the samples of its next batch"
    if each.once:
        how += f", plus {size(each.once)} once for the process that starts them"
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
    """Return sentences that compare the trial with the prediction, or "" without a trial."""
    if tried is None:
        return ""
    peak, steady = tried.peak, tried.steady
    off = round(100 * (peak.total / predicted.total - 1))
    than = f"{abs(off)} percent {'more' if off > 0 else 'less'} than" if off else "as"
    text = (
        f"Measured: at most {size(peak.total)} in total, {than} predicted"
        f"{_of_it(tried.peak_shared)}. "
        f"At the end, with full queues: {size(steady.total)}{_of_it(steady.shared)}."
    )
    kept = peak.processes - tried.before.processes
    if kept > predicted.processes - predicted.footprint.main + _EXACT * predicted.total:
        text += (
            " The workers use more than predicted, because the C library may keep the memory of "
            "freed samples for the next ones. The prediction doesn't include that."
        )
    return text


def _of_it(shared: int | None) -> str:
    return f", {size(shared)} of it in /dev/shm" if shared else ""


def scale_for(highest: float, limit: float) -> float:
    """Return the bytes at a scale's end: 64 MB, 256 MB, 1 GB, ..., or the limit if that's lower.

    If the longest bar, of `highest` bytes, is longer than the limit, the scale ends with that bar.
    """
    end = float(_FIRST_SCALE)
    while end < highest:
        end *= _NEXT_SCALE
    return max(min(end, limit), highest)


def draw_bars(title: str, how: str, bars: Mapping[str, Mapping[str, float]], limit: float) -> str:
    """Return HTML with the bars on one scale, the limit, and a table of the parts' sizes.

    The heading compares the first bar with the limit. If each bar has only one part, there is no
    table.

    Args:
        title: What the bars measure.
        how: A line of text that says what makes up the size.
        bars: The name of each bar, such as "predicted" -> its parts, from left to right. A part's
            key is its name in COLORS, and its value is its size in bytes. All bars have the same
            parts.
        limit: How many bytes the machine, its cgroup, or `/dev/shm` allows.
    """
    totals = [sum(parts.values()) for parts in bars.values()]
    end = scale_for(max(totals), limit)
    over = ", which is too much" if totals[0] > limit else ""
    head = f"{escape(title)}: {size(totals[0])} of {size(limit)}{over}"
    rows = "".join(_row(name, parts, end, limit) for name, parts in bars.items())
    return (
        f'<div class="dltutor-bars" style="color:{_TEXT};line-height:1.5;margin:10px 0 0;'
        'max-width:640px;font-variant-numeric:tabular-nums">'
        f'<div style="font-weight:600">{head}</div><div style="opacity:.8">{escape(how)}</div>'
        f"{rows}{_axis(end, limit)}{_legend(bars)}</div>"
    )


def _row(name: str, parts: Mapping[str, float], end: float, limit: float) -> str:
    total = size(sum(parts.values()))
    words = ", ".join(f"{part} {size(count)}" for part, count in parts.items())
    pieces = "".join(
        f'<div style="width:{100 * count / end:.2f}%;background:{COLORS[part]};'
        f'box-sizing:border-box;border-right:1px solid {_PAGE}"></div>'
        for part, count in parts.items()
    )
    return _line(
        name,
        f'<div role="img" aria-label="{name}: {total}. {words}" style="position:relative;'
        'display:flex;height:16px;background:rgba(127,127,127,.2)">'
        f"{pieces}{_mark(end, limit)}</div>",
        total,
    )


def _mark(end: float, limit: float) -> str:
    if limit >= end:
        return ""
    return (
        f'<div style="position:absolute;left:{100 * limit / end:.2f}%;top:-3px;bottom:-3px;'
        f'width:3px;background:{ALARM}"></div>'
    )


def _axis(end: float, limit: float) -> str:
    place = 100 * limit / end
    # Put the limit's label to the right of its mark. Near the right end, put the label to the left
    # of the mark, and drop the end's own label.
    texts = {"left:0": "0", "right:0": size(end)}
    if limit == end:
        texts["right:0"] = f"limit {size(limit)}"
    elif place < 60:
        texts[f"left:max({place:.2f}%, 1.5em)"] = f"limit {size(limit)}"
    elif place < 100:
        texts = {"left:0": "0", f"right:{100 - place:.2f}%": f"limit {size(limit)}"}
    spans = "".join(
        f'<span style="position:absolute;{where}">{what}</span>' for where, what in texts.items()
    )
    style = "position:relative;height:1.5em;opacity:.8;font-size:.9em"
    return _line("", f'<div style="{style}">{spans}</div>', "")


def _legend(bars: Mapping[str, Mapping[str, float]]) -> str:
    first = next(iter(bars.values()))
    if len(first) == 1:
        return ""
    cell = "text-align:left;padding:0 1.2em 0 0;background:transparent;font-weight:400"
    wide = ";min-width:5.5em;padding-right:8px"  # as wide as the column with the bars' names
    names = "".join(
        f'<th style="{cell}"><span style="display:inline-block;width:.7em;height:.7em;'
        f'background:{COLORS[part]}"></span> {part}</th>'
        for part in first
    )
    body = "".join(
        f'<tr style="background:transparent"><th style="{cell}{wide}">{name}</th>'
        + "".join(f'<td style="{cell}">{size(each)}</td>' for each in parts.values())
        + f'<td style="{cell}">{size(sum(parts.values()))}</td></tr>'
        for name, parts in bars.items()
    )
    return (
        '<table style="border-collapse:collapse;margin:2px 0;font-size:1em;color:inherit">'
        f'<tr style="background:transparent"><th></th>{names}'
        f'<th style="{cell}">in total</th></tr>{body}</table>'
    )


def _line(left: str, middle: str, right: str) -> str:
    return (
        '<div style="display:grid;grid-template-columns:5.5em 1fr 4.5em;column-gap:8px;'
        'align-items:center;margin:2px 0">'
        f'<div>{left}</div>{middle}<div style="text-align:right">{right}</div></div>'
    )
