"""What each experiment came to, in a line: the answer that stands below its question."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from dltutor.diagnosis import evidence as told
from dltutor.diagnosis.promises.broken import duration
from dltutor.tables import size


def answer(record: Any) -> str:
    """The answer of one experiment.

    Args:
        record: One of the records of `dltutor.diagnosis.evidence`.
    """
    return _ANSWERS[type(record)](record)


def _parts(parts: told.Parts) -> str:
    length = "of unknown length" if parts.length is None else f"of {parts.length}"
    batched = f"batches of {parts.batch_size}" if parts.batch_size else "a sampler of its own"
    return f"`{parts.dataset}` {length}, {batched}, {_count(parts.workers, 'worker')}."


def _run(run: told.Run) -> str:
    epochs = sum(run.finished)
    came = _count(run.batches, "batch", "batches")
    if run.end == "finished":
        paced = f", {duration(run.pace)} apart" if run.pace else ""
        return f"It finished: {_count(epochs, 'epoch')}, {came}{paced}."
    if run.end == "enough":
        return f"{came[:1].upper()}{came[1:]} came in the time there was."
    error = f": {run.error[:120]}" if run.error else ""
    return f"{_ENDED[run.end]} after {came}{error}."


def _samples(found: told.Samples) -> str:
    if found.ended in ("died", "hung"):
        return f"Drawing sample {found.at} {_CUT[found.ended]}."
    drawn = (
        f"{_count(found.looked, 'sample')} of {size(found.bytes)}, {duration(found.typical)} each"
    )
    failed = f"; {len(found.failed)} raised" if found.failed else ""
    random = "random" if found.random or found.joined else "not random"
    return f"{drawn}{failed}; {random}." if found.looked else f"None came{failed}."


def _handles(found: told.Handles) -> str:
    if not found.kind:
        return "They use nothing that was open before."
    shared = f"They share a {found.kind}" + (f", `{found.paths[0]}`" if found.paths else "")
    return f"{shared}: {found.wrong} of {found.looked} samples came out wrong."


def _waits(found: told.Waits) -> str:
    for _, line, kind, name, _, freed in found.stuck:
        what = f", for the {kind} `{name}`" if kind else ""
        return f"One waits at {line}{what}{', and goes on with it' if freed else ''}."
    return "None was seen to wait inside a sample."


def _fetched(found: told.Fetched) -> str:
    return _of(found.differ, found.looked, "sample", "aren't", "are")


def _reordered(found: told.Reordered) -> str:
    if not found.looked:
        return "It isn't even the same in the same order."
    return _of(found.differ, found.looked, "sample", "are others in another order", "are the same")


def _culprit(found: told.Culprit) -> str:
    blamed = f"`{found.which}`" if found.which else f"The {found.stage}"
    return f"{blamed}: {found.said}." if found.stage else "None fails there."


def _in_workers(found: told.InWorkers) -> str:
    died = ", ".join(f"W{number} at dataset[{at}]" for number, _, at in found.died[:3] if at >= 0)
    raised = ", ".join(f"dataset[{at}]: {kind}" for at, kind, _, _ in found.failed[:3])
    return f"{died or raised or 'Nothing that could be seen'}."


def _leftover(found: told.Leftover) -> str:
    return f"{_count(found.alive, 'worker')}."


def _paces(found: told.Paces) -> str:
    if not found.as_is:
        return "Too few batches came to tell."
    ours, changed = found.both
    return f"As it is {duration(ours)}, otherwise {duration(changed)}."


def _threads(found: told.Threads) -> str:
    return f"{list(found.computing)} threads computed, on {_count(found.cores, 'core')}."


def _travel(found: told.Travel) -> str:
    if found.cannot:
        path, kind, _ = found.cannot[0]
        return f"`{path}`, a {kind}, cannot be pickled."
    if found.raised or found.unlike:
        return f"Its copy is another one: {found.raised or f'{found.unlike} samples differ'}."
    return "It can be pickled, and its copy gives the same samples."


def _imported(found: told.Imported) -> str:
    new = f"; given main's globals, new ones: {found.new}" if found.new else ""
    return f"Forked workers: {found.forked}{new}."


def _two_ranks(found: told.TwoRanks) -> str:
    if found.failed:
        return f"As a rank it raised {found.failed}."
    return f"{found.alike} of {found.drawn} samples are the same on both."


def _repeats(found: told.Repeats) -> str:
    if not found.sources:
        return "No sample draws random numbers."
    _, _, same, compared, again, later = found.sources[0]
    return f"{same} of {compared} between workers, {again} of {later} between epochs."


def _shares(found: told.Shares) -> str:
    each = ", ".join(f"W{number} {count}" for number, count in enumerate(found.shares))
    whole = f"one pass has {found.whole}{'' if found.ended else ' or more'}"
    return f"{each} samples; {whole}." if each else f"No worker was seen; {whole}."


def _epochs(found: told.Epochs) -> str:
    return _of(
        found.stale, found.looked, "sample", "are those of another epoch", "show that it does"
    )


def _twice(found: told.Twice) -> str:
    return _of(found.own, found.looked, "sample", "are others the second time", "stay as they were")


def _copies(found: told.Copies) -> str:
    return _of(found.differ, found.looked, "batch", "change if samples are copied", "do")


def _ending(found: told.Ending) -> str:
    end = "no end was found" if found.end < 0 else f"samples end at {found.end}"
    return f"`len()` is {found.length}; {end}."


def _state(found: told.State) -> str:
    if not found.steady:
        return "Two runs of one kind don't come to the same."
    return "It does." if found.same else f"`{found.paths[0][0]}`." if found.paths else "It doesn't."


def _order(found: told.Order) -> str:
    return f"{found.repeated} of {_count(found.epochs, 'epoch')} repeated an order."


def _memory(found: told.Memory) -> str:
    if found.copied < 0:
        return "No worker could be measured."
    grew = (
        f"; {found.peak_as_it_is:.0f} MB more in {found.samples} samples" if found.samples else ""
    )
    return f"{found.copied:.0f} MB of main's pages were copied{grew}."


def _views(found: told.Views) -> str:
    return (
        f"{found.batches} batches take {found.as_they_come:.0f} MB, their copies "
        f"{found.as_copies:.0f} MB."
    )


def _ahead(found: told.Ahead) -> str:
    return f"{found.held:.0f} MB; with two for each worker {found.held_by_two:.0f} MB."


def _limits(found: told.Limits) -> str:
    return f"/dev/shm has {found.room:.0f} MB, a process {found.files} descriptors."


def _segments(found: told.Segments) -> str:
    return f"{found.left} of {_count(found.batches, 'batch', 'batches')} were left in /dev/shm."


def _of(some: int, looked: int, noun: str, ill: str, well: str) -> str:
    plural = noun + ("es" if noun.endswith("ch") else "s")
    if not looked:
        return f"No {noun} could be looked at."
    return f"{some} of {looked} {plural} {ill}." if some else f"All {looked} {plural} {well}."


def _count(count: int, noun: str, plural: str = "") -> str:
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


_ENDED: Final = {
    "raised": "It raised",
    "hung": "It stood still",
    "worker died": "A worker died",
    "main died": "Main died",
    "not run": "It was not run",
}
_CUT: Final = {"died": "ended the process", "hung": "did not come to its end"}
_ANSWERS: Final[dict[type, Callable[[Any], str]]] = {
    told.Parts: _parts,
    told.Run: _run,
    told.Samples: _samples,
    told.Handles: _handles,
    told.Waits: _waits,
    told.Fetched: _fetched,
    told.Reordered: _reordered,
    told.Culprit: _culprit,
    told.InWorkers: _in_workers,
    told.Leftover: _leftover,
    told.Paces: _paces,
    told.Threads: _threads,
    told.Travel: _travel,
    told.Imported: _imported,
    told.TwoRanks: _two_ranks,
    told.Repeats: _repeats,
    told.Shares: _shares,
    told.Epochs: _epochs,
    told.Twice: _twice,
    told.Copies: _copies,
    told.Ending: _ending,
    told.State: _state,
    told.Order: _order,
    told.Memory: _memory,
    told.Views: _views,
    told.Ahead: _ahead,
    told.Limits: _limits,
    told.Segments: _segments,
}
