"""Failure modes in which samples arrive that `dataset[i]` doesn't give."""

from __future__ import annotations

from dltutor.diagnosis.evidence import Evidence, Fit


def global_state(evidence: Evidence) -> Fit | None:
    """The loop comes to another end without workers, and so does what it finds changed."""
    state, twice = evidence.state, evidence.twice
    if twice is not None and twice.counter and evidence.parts.workers:
        return _decides(evidence, twice.counter)
    if state is None or not (state.steady and state.content and state.paths) or state.same:
        return None
    path, along, without = state.paths[0]
    return Fit(
        evidence.harm,
        "shown",
        f"After the same batches `{path}` is {along} in main with workers, as before the loop, and "
        f"{without} without workers. The loop comes to `{_short(state.with_workers)}` with "
        f"workers, and to `{_short(state.without)}` without; twice the same each time.",
        where=path,
        fix=f"Return what `{path}` counts with each sample and add it up in the loop, or keep it "
        "in shared memory: a `multiprocessing.Value` under its lock.",
    )


def _decides(evidence: Evidence, path: str) -> Fit | None:
    run, alone = evidence.run, evidence.alone
    if alone is None or not (run.well and alone.well) or run.passes == alone.passes:
        return None
    return Fit(
        "wrong",
        "shown",
        f"Drawing samples changes `{path}`, and `{path}` decides what a sample is: put back, it "
        "gives the same sample again. Each worker counts for itself, and the batches are others "
        "than without workers.",
        where=path,
        fix=f"Keep `{path}` in shared memory, or set it in main: by epoch, or by the index.",
    )


def _short(outcome: str) -> str:
    line = " ".join(outcome.split()) or "nothing"
    return line if len(line) <= 70 else f"{line[:67]}..."


def stale_epoch(evidence: Evidence) -> Fit | None:
    """Fresh workers see what main sets between epochs, and those that stay do not."""
    epochs = evidence.epochs
    if epochs is None or not epochs.first or not epochs.looked:
        return None
    if not (epochs.stale and epochs.moved and epochs.arrived == epochs.looked):
        return None
    what = f"`{epochs.paths[0]}`" if epochs.paths else f"what {epochs.by} sets"
    like = "" if evidence.parts.stream else " and no workers at all"
    return Fit(
        "wrong",
        "shown",
        f"After the first epoch, {epochs.stale} of {epochs.looked} samples from persistent workers "
        f"are not those that fresh workers{like} give: {what} does not arrive.",
        where=epochs.paths[0] if epochs.paths else evidence.parts.where,
        fix=f"Keep {what} in a shared tensor (`torch.tensor(0).share_memory_()`, set with `fill_` "
        "before the loader is iterated), or use `persistent_workers=False`.",
    )


def mutated_in_place(evidence: Evidence) -> Fit | None:
    """A sample is another when it is drawn again, and what the dataset stores has changed."""
    twice = evidence.twice
    if twice is None or not twice.own or not twice.paths:
        return None
    return Fit(
        "wrong",
        "shown",
        f"`dataset[{twice.index}]`, drawn twice with all random numbers held, comes out "
        f"differently, and `{twice.paths[0]}` has changed: so do {twice.own} of the {twice.looked} "
        "samples that were tried. Drawing other samples in between changes nothing.",
        where=f"{evidence.parts.where}: {twice.paths[0]}".lstrip(": "),
        fix=f"Copy what comes from `{twice.paths[0]}` before you change it: `.copy()` of an array, "
        "`.clone()` of a tensor, `copy.deepcopy` of anything else.",
    )


def reused_buffer(evidence: Evidence) -> Fit | None:
    """Batches are others where each sample is copied as it is drawn."""
    copies = evidence.copies
    if copies is None or not copies.steady or not copies.differ:
        return None
    what = f"`{copies.path}`" if copies.path else "The memory of a sample"
    return Fit(
        "wrong",
        "shown",
        f"{copies.differ} of {copies.looked} batches change if each sample is copied as it is "
        f"drawn. {what} is filled again for the next sample while the last one is on its way.",
        where=f"{evidence.parts.where}: {copies.path}".rstrip(": "),
        fix=f"Return a copy: `.clone()` of a tensor, `.copy()` of an array"
        f"{f', instead of {what} itself' if copies.path else ''}.",
    )


def shared_file_offset(evidence: Evidence) -> Fit | None:
    """Two workers at once get wrong samples from a file that was open before they started."""
    handles = evidence.disturbed_by("file")
    if handles is None or handles.lazy:  # see lazy_but_touched
        return None
    path = handles.paths[0] if handles.paths else ""
    what = f"`{path}`" if path else "the file"
    return Fit(
        evidence.harm,
        "shown",
        f"{handles.seen} The file was open before the workers started.",
        where=path or evidence.parts.where,
        fix=f"Open {what} in the process that reads it: in `__getitem__` if there is none yet for "
        "`os.getpid()`, or in `worker_init_fn`. For a plain file, `os.pread` needs no position.",
    )


def shared_connection(evidence: Evidence) -> Fit | None:
    """Two workers at once get each other's answers from one connection."""
    handles = evidence.disturbed_by("socket")
    if handles is None:
        return None
    path = handles.paths[0] if handles.paths else ""
    what = f"`{path}`" if path else "the connection"
    again = (
        f" `{handles.lazy}` connects again where it is missing; main had used it before."
        if handles.lazy
        else ""
    )
    return Fit(
        evidence.harm,
        "shown",
        f"{handles.seen} The connection was made before the workers started.{again}",
        where=path or evidence.parts.where,
        fix=f"Keep the address, and make {what} in the process that asks: on first use for each "
        "`os.getpid()`, or in `worker_init_fn`.",
    )


def lazy_but_touched(evidence: Evidence) -> Fit | None:
    """A file that opens by itself when needed was open before the workers started."""
    handles = evidence.disturbed_by("file")
    if handles is None or not handles.lazy:
        return None
    return Fit(
        evidence.harm,
        "shown",
        f"{handles.seen} `{handles.lazy}` is opened again by itself where it is missing, but it "
        "was open when the workers started: main had taken a sample before.",
        where=handles.lazy,
        fix=f"Remember `os.getpid()` with `{handles.lazy}`, and open it again in another process; "
        "leave it out in `__getstate__`.",
    )
