"""Recognize failure modes in which samples arrive that differ from `dataset[i]`."""

from __future__ import annotations

import signal

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.finding import Finding


def global_state(evidence: Evidence) -> Finding | None:
    """With workers, results or batches differ, because each worker changes its own copy of data."""
    state, twice = evidence.state, evidence.twice
    if twice is not None and twice.counter and evidence.parts.workers:
        return _counter_decides(evidence, twice.counter)
    if state is None or not (state.steady and state.content and state.paths) or state.same:
        return None
    path, along, without = state.paths[0]
    return Finding(
        f"After the same batches, `{path}` in main is still {along} with workers, but {without} "
        f"without workers. The loop's result is `{_short(state.with_workers)}` with workers and "
        f"`{_short(state.without)}` without, the same in two runs of each.",
        path,
        f"Return what `{path}` counts with each sample and add it up in the loop, or keep it "
        "in shared memory, as a `multiprocessing.Value` under its lock.",
        ends=not evidence.run.well,
    )


def _counter_decides(evidence: Evidence, path: str) -> Finding | None:
    run, alone = evidence.run, evidence.alone
    if alone is None or not (run.well and alone.well) or run.passes == alone.passes:
        return None
    return Finding(
        f"Drawing samples changes `{path}`, and samples depend on `{path}`: if you set it back, "
        "you get the same sample again. Each worker counts on its own, so the batches differ from "
        "those without workers.",
        path,
        f"Keep `{path}` in shared memory, or have main set it by epoch or by index.",
    )


def _short(outcome: str) -> str:
    line = " ".join(outcome.split()) or "nothing"
    return line if len(line) <= 70 else f"{line[:67]}..."


def stale_epoch(evidence: Evidence) -> Finding | None:
    """Fresh workers see what main sets between epochs, but persistent workers don't."""
    epochs = evidence.epochs
    if epochs is None or not epochs.first or not epochs.looked:
        return None
    if not (epochs.stale and epochs.moved and epochs.arrived == epochs.looked):
        return None
    what = f"`{epochs.paths[0]}`" if epochs.paths else f"what {epochs.by} sets"
    like = "" if evidence.parts.stream else " and of a run without workers"
    return Finding(
        f"After the first epoch, {epochs.stale} of {epochs.looked} samples from persistent workers "
        f"differ from those of fresh workers{like}, because {what} doesn't reach the workers.",
        epochs.paths[0] if epochs.paths else evidence.parts.where,
        f"Keep {what} in a shared tensor (`torch.tensor(0).share_memory_()`), and set it with "
        "`fill_` before you iterate the loader. Or use `persistent_workers=False`.",
    )


def mutated_in_place(evidence: Evidence) -> Finding | None:
    """A sample differs when drawn again, because drawing or collating it changed the dataset."""
    twice, fetched, parts = evidence.twice, evidence.fetched, evidence.parts
    if fetched is not None and fetched.stained[0] and parts.collate:
        stained, tried = fetched.stained
        return Finding(
            f"`{parts.collate}` changes samples that the dataset keeps. After a batch was made of "
            f"them, {stained} of {tried} samples came out differently when they were drawn again "
            "with the same random numbers. Before that, drawing them again changed none of them.",
            f"collate_fn={parts.collate}",
            f"In `{parts.collate}`, compute new values (`x = x + 1` instead of `x += 1`), or have "
            f"{parts.dataset} return a copy of what it keeps.",
        )
    if twice is None or not twice.own or not (twice.paths or twice.files):
        return None
    path, file = (next(iter(each), "") for each in (twice.paths, twice.files))
    has = f"`{path}` has changed" if path else f"drawing it writes to `{file}`, which it maps"
    said = (
        f"`dataset[{twice.index}]` comes out differently when it's drawn again with the same "
        f"random numbers, and {has}. The same goes for {twice.own} of the {twice.looked} samples "
        "that were tried. Drawing others in between makes no difference."
    )
    fix = (
        f"Copy what you take from {f'`{path}`' if path else 'the file'} before you change it: "
        "`.copy()` for an array, `.clone()` for a tensor, `copy.deepcopy` for anything else."
    )
    if file:
        said += f" Your own runs change the file{f' `{file}`' * bool(path)}."
        fix += ' If the dataset only reads the file, map it with mode="r".'
    return Finding(said, f"{evidence.parts.where}: {path or file}".lstrip(": "), fix)


def reused_buffer(evidence: Evidence) -> Finding | None:
    """Batches come out differently if the doctor copies each sample and batch when it's made."""
    copies, fetched, parts = evidence.copies, evidence.fetched, evidence.parts
    if copies is None or not evidence.refilled:
        return None
    if evidence.twice is not None and evidence.twice.own:
        return None  # each draw changes the data, so a run with copies differs anyway
    crashed = [number for number, code in evidence.run.dead if code == -signal.SIGSEGV]
    by_collate = fetched is not None and fetched.overwritten
    unit, made, maker = ("batch", "made", parts.collate) if by_collate else ("sample", "drawn", "")
    what = f"`{copies.path}`" if copies.path else f"The memory of a {unit}"
    return Finding(
        f"{copies.differ} of {copies.looked} batches come out differently if each {unit} is copied "
        f"as it's {made}. {what} is refilled while the last {unit} is still on its way."
        + (f" W{crashed[0]} also died with SIGSEGV: torch moves that memory." if crashed else ""),
        f"{maker or parts.where}: {copies.path}".rstrip(": "),
        f"Return a copy, `.clone()` for a tensor or `.copy()` for an array"
        f"{f', instead of {what} itself' if copies.path else ''}.",
        ends=bool(crashed),
    )


def shared_file_offset(evidence: Evidence) -> Finding | None:
    """Two workers at once get wrong samples from a file that was open before they started."""
    handles = evidence.disturbed_by("file")
    if handles is None or handles.lazy:  # lazy_but_touched reports files opened on first use
        return None
    path = handles.paths[0] if handles.paths else ""
    what = f"`{path}`" if path else "the file"
    return Finding(
        f"{handles.seen} The file was open before the workers started.",
        path or evidence.parts.where,
        f"Open {what} in the process that reads it: in `worker_init_fn`, or in `__getitem__` "
        "the first time for each `os.getpid()`. For a plain file, `os.pread` needs no position.",
        ends=not evidence.run.well,
    )


def shared_connection(evidence: Evidence) -> Finding | None:
    """Two workers at once get each other's answers through a shared connection."""
    handles = evidence.disturbed_by("socket")
    if handles is None:
        return None
    path = handles.paths[0] if handles.paths else ""
    what = f"`{path}`" if path else "the connection"
    again = (
        f" `{handles.lazy}` reconnects when it's missing, but main had used it before."
        if handles.lazy
        else ""
    )
    return Finding(
        f"{handles.seen} The connection was made before the workers started.{again}",
        path or evidence.parts.where,
        f"Keep the address, and open {what} in the process that uses it: on first use for each "
        "`os.getpid()`, or in `worker_init_fn`.",
        ends=not evidence.run.well,
    )


def lazy_but_touched(evidence: Evidence) -> Finding | None:
    """A file that the dataset opens on first use was open before the workers started."""
    handles = evidence.disturbed_by("file")
    if handles is None or not handles.lazy:
        return None
    return Finding(
        f"{handles.seen} `{handles.lazy}` is opened when it's missing, but it was already open "
        "when the workers started, because main had drawn a sample before.",
        handles.lazy,
        f"Store `os.getpid()` next to `{handles.lazy}`, open it again in any other process, "
        "and leave it out in `__getstate__`.",
        ends=not evidence.run.well,
    )


def batched_fetch(evidence: Evidence) -> Finding | None:
    """A `__getitems__` that torch calls makes other samples than the dataset's `__getitem__`."""
    fetched = evidence.fetched
    if fetched is None or not fetched.differ or not fetched.by:
        return None
    said = (
        f"{fetched.differ} of the first {fetched.looked} samples differ from what `dataset[i]` "
        f"returns for their indices. `{fetched.by}.__getitems__` makes them, "
    )
    if not fetched.past:
        return Finding(
            f"{said}and doesn't do the same as `__getitem__`.",
            f"{fetched.by}.__getitems__",
            f"Have one of `{fetched.by}`'s two methods call the other. If they differ on purpose, "
            "nothing is wrong.",
            certainty="likely",
        )
    return Finding(
        f"{said}and `{fetched.past}.__getitem__` never runs.",
        f"{fetched.by}.__getitems__",
        f"Define `__getitems__` in {fetched.past}, too: "
        "`def __getitems__(self, indices): return [self[i] for i in indices]`.",
        ends=not evidence.run.well,
    )


def lost_column(evidence: Evidence) -> Finding | None:
    """A batch lacks a field that some samples have, or its rows belong to different samples."""
    fetched, parts = evidence.fetched, evidence.parts
    if fetched is None or not (fetched.ragged or fetched.dropped or fetched.crossed):
        return None
    said = [
        f"`{name}` has {rows} rows in a batch of {samples}, so row k doesn't belong to sample k"
        for name, rows, samples in fetched.ragged
    ]
    said += [
        f"`{name}` is missing from a batch, though {have} of its {samples} samples have it"
        for name, have, samples in fetched.dropped
    ]
    fix = (
        "Give each sample every field, with a placeholder where it has no value and a mask that "
        "marks the placeholder."
    )
    if not said:
        name, other = (each or "the batch" for each in fetched.crossed[0])
        said = [
            f"Row k of `{name}` and row k of `{other}` don't belong to the same sample. In batches "
            "of one sample, different rows go together"
        ]
        fix = "Sort or shuffle the samples before you split them into fields."
    return Finding(
        f"{'. '.join(said[:3])}.",
        f"collate_fn={parts.collate or 'default_collate'}",
        fix,
        certainty="shown" if fetched.ragged or fetched.crossed else "likely",
        ends=not evidence.run.well,
    )
