"""Answer each experiment's question in one line, which the report prints right after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from dltutor.diagnosis import evidence as told
from dltutor.diagnosis.promises.broken import duration
from dltutor.tables import size


def answer(record: Any) -> str:
    """Return the answer of one experiment, as a sentence.

    Args:
        record: One of the records of `dltutor.diagnosis.evidence`.
    """
    return _ANSWERS[type(record)](record)


def _parts(parts: told.Parts) -> str:
    length = "an unknown number of" if parts.length is None else f"{parts.length}"
    batched = f"batches of {parts.batch_size}" if parts.batch_size else "no fixed batch size"
    return (
        f"`{parts.dataset}` with {length} samples, {batched}, and "
        f"{_count(parts.workers, 'worker')}."
    )


def _run(run: told.Run) -> str:
    epochs = sum(run.finished)
    came = _count(run.batches, "batch", "batches")
    if run.end == "finished":
        paced = f", {duration(run.pace)} apart on average" if run.pace else ""
        return f"It finished after {_count(epochs, 'full epoch')} and {came}{paced}."
    if run.end == "enough":
        return f"{came[:1].upper()}{came[1:]} arrived before time ran out."
    error = f": {run.error[:120]}" if run.error else ""
    return f"{_ENDED[run.end]} after {came}{error}."


def _samples(found: told.Samples) -> str:
    if found.ended in ("died", "hung"):
        return f"Drawing sample {found.at} {_CUT[found.ended]}."
    drawn = (
        f"{_count(found.looked, 'sample')}, about {size(found.bytes)} and "
        f"{duration(found.typical)} each"
    )
    failed = f", and {len(found.failed)} raised an error" if found.failed else ""
    random = "They're random" if found.random or found.joined else "No randomness was seen"
    busiest = f" Most of their time goes to {found.busiest}." if found.busiest else ""
    return f"{drawn}{failed}. {random}.{busiest}" if found.looked else f"None came back{failed}."


def _handles(found: told.Handles) -> str:
    if not found.kind:
        return "They don't seem to use anything that was already open."
    shared = f"They share a {found.kind}" + (f", `{found.paths[0]}`" if found.paths else "")
    return f"{shared}. {found.wrong} of {found.looked} samples came back wrong."


def _waits(found: told.Waits) -> str:
    for _, line, kind, name, _, freed in found.stuck:
        what = f" for the {kind} `{name}`" if kind else ""
        return f"One waits at {line}{what}{', and continues once it gets it' if freed else ''}."
    return "No worker was seen waiting inside a sample."


def _fetched(found: told.Fetched) -> str:
    return _of(found.differ, found.looked, "sample", "don't", "do")


def _reordered(found: told.Reordered) -> str:
    if not found.looked:
        return "Can't tell, because two passes in the same order didn't agree or didn't finish."
    return _of(found.differ, found.looked, "sample", "change with the order", "do")


def _culprit(found: told.Culprit) -> str:
    blamed = f"`{found.which}`" if found.which else f"The {found.stage}"
    return f"{blamed}: {found.said}." if found.stage else "None of them fails there."


def _in_workers(found: told.InWorkers) -> str:
    died = ", ".join(f"W{number} at `dataset[{at}]`" for number, _, at in found.died[:3] if at >= 0)
    raised = ", ".join(f"`dataset[{at}]`: {kind}" for at, kind, _, _ in found.failed[:3])
    return f"{died or raised or 'No index was seen'}."


def _leftover(found: told.Leftover) -> str:
    return f"{_count(found.alive, 'worker')}."


def _paces(found: told.Paces) -> str:
    if not found.as_is:
        return "Can't tell, because too few batches arrived."
    ours, changed = found.both
    return f"It takes {duration(ours)} as it is, and {duration(changed)} with that change."


def _threads(found: told.Threads) -> str:
    return f"{list(found.computing)} threads per worker, on {_count(found.cores, 'core')}."


def _travel(found: told.Travel) -> str:
    if found.cannot:
        path, kind, _ = found.cannot[0]
        return f"`{path}`, a {kind}, can't be pickled."
    if found.raised or found.unlike:
        unlike = found.raised or f"{found.unlike} samples differ"
        return f"They can, but a copy of the dataset behaves differently: {unlike}."
    return "They can, and no difference showed in a copy of the dataset."


def _imported(found: told.Imported) -> str:
    new = f". New workers that got main's globals: {found.new}" if found.new else ""
    return f"Forked workers: {found.forked}{new}."


def _two_ranks(found: told.TwoRanks) -> str:
    if found.failed:
        return f"Can't tell, because it raised {found.failed} when it was told its rank."
    return f"{found.alike} of {found.drawn} samples are the same on both ranks."


def _repeats(found: told.Repeats) -> str:
    if not found.sources:
        return "None, because no sample draws random numbers."
    _, _, same, compared, again, later = found.sources[0]
    return f"{same} of {compared} in another worker, {again} of {later} in the next epoch."


def _shares(found: told.Shares) -> str:
    each = ", ".join(f"W{number}: {count}" for number, count in enumerate(found.shares))
    whole = f"One pass in main has {found.whole}{'' if found.ended else ' or more'}"
    return f"{each}. {whole}." if each else f"No worker could be counted. {whole}."


def _epochs(found: told.Epochs) -> str:
    return _of(found.stale, found.looked, "sample", "don't match the epoch", "show that they do")


def _twice(found: told.Twice) -> str:
    return _of(found.own, found.looked, "sample", "change the second time", "do")


def _copies(found: told.Copies) -> str:
    return _of(
        found.differ, found.looked, "batch", "come out differently if they are copied at once", "do"
    )


def _ending(found: told.Ending) -> str:
    end = (
        "no other end was found" if found.end < 0 else f"no samples exist from index {found.end} on"
    )
    return f"`len()` says {found.length}, and {end}."


def _state(found: told.State) -> str:
    if not found.steady:
        return "Can't tell, because nothing changed or two runs of the same kind differ."
    if found.same:
        return "It does."
    return f"It doesn't: `{found.paths[0][0]}` differs." if found.paths else "It doesn't."


def _order(found: told.Order) -> str:
    return f"{found.repeated} of {_count(found.epochs, 'epoch')} repeated an earlier order."


def _memory(found: told.Memory) -> str:
    if found.copied < 0:
        return "Can't tell, because no worker could be measured."
    grew = (
        f", and took {found.peak_as_it_is:.0f} MB of its own in {found.samples} samples"
        if found.samples
        else ""
    )
    return f"A worker copied {found.copied:.0f} MB of main's pages{grew}."


def _views(found: told.Views) -> str:
    return (
        f"{found.batches} batches take up {found.as_they_come:.0f} MB, and copies of them "
        f"{found.as_copies:.0f} MB."
    )


def _ahead(found: told.Ahead) -> str:
    return f"{found.held:.0f} MB. With two batches per worker it's {found.held_by_two:.0f} MB."


def _limits(found: told.Limits) -> str:
    return f"`/dev/shm` has {found.room:.0f} MB, and a process may open {found.files} files."


def _segments(found: told.Segments) -> str:
    batches = _count(found.batches, "batch", "batches")
    return f"{_count(found.left, 'segment')} in `/dev/shm`, from a run that held {batches}."


def _of(some: int, looked: int, noun: str, ill: str, well: str) -> str:
    plural = noun + ("es" if noun.endswith("ch") else "s")
    if not looked:
        return f"Can't tell, because no {noun} could be compared."
    return f"{some} of {looked} {plural} {ill}." if some else f"All {looked} {plural} {well}."


def _count(count: int, noun: str, plural: str = "") -> str:
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


_ENDED: Final = {
    "raised": "It raised",
    "hung": "It hung",
    "worker died": "A worker died",
    "main died": "The main process died",
    "not run": "It wasn't run",
}
_CUT: Final = {"died": "ended the process", "hung": "didn't finish"}
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
