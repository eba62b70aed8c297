"""Describe a run in words: its title, and rows that rarely differ between runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dltutor.observation.record import End, Frame, Record
from dltutor.observation.texts import fate, said, tidy
from dltutor.tables import Table, Tone, count_of

Signs = tuple[tuple[str, str], ...]

_TONES: Final[dict[End, Tone]] = {
    "finished": "good",
    "raised": "bad",
    "worker died": "bad",
    "main died": "bad",
    "hung": "warn",
}


def story(seen: Record, signs: Signs) -> Table:
    """Return a short table without pids and times, which rarely differs between runs.

    Args:
        seen: The record of the run.
        signs: The promises that the run broke even though it finished, each with its evidence.
    """
    tone = "warn" if signs else _TONES[seen.end]
    return Table(_title(seen, signs), tuple(_rows(seen, signs)), tone=tone)


def _rows(seen: Record, signs: Signs) -> Iterator[tuple[str, str]]:
    from_outside = seen.confinement is not None and seen.confinement.from_outside
    # Main notices a worker's death wherever main happens to be, so chance decides how many batches
    # arrived before and how torch words the error. `chain` and `raw` have the error.
    by_chance = seen.end == "worker died"
    if not by_chance and not from_outside:
        yield "got", _count(seen)
    yield from signs
    if seen.chain and not by_chance:
        yield "error", "\n".join(tidy(said(kind, message)) for kind, message in seen.chain)
    if seen.notes and not by_chance:
        yield "notes", "\n".join(map(tidy, seen.notes))
    if seen.raised_in_worker and seen.raised_in_worker != seen.chain[0][0]:
        yield "type", f"{seen.raised_in_worker} in the worker, {seen.chain[0][0]} in main"
    if seen.traceback and not by_chance:
        yield "where", _lines(seen.traceback[-3:])
    if seen.workers:
        yield "workers", "\n".join(map(str, seen.workers))
    for worker in seen.workers:
        if worker.stack:
            yield f"{worker.name} was at", _lines(worker.stack)
    if seen.stderr.strip():
        yield "output" if from_outside else "stderr", _tail(tidy(seen.stderr.strip()))
    if seen.confinement is not None:
        yield from seen.confinement.rows()


def _title(seen: Record, signs: Signs) -> str:
    exitcode = seen.confinement.exitcode if seen.confinement is not None else None
    if seen.end == "main died":
        return f"Main died: {fate(exitcode)}"
    if seen.end == "raised" and not seen.chain:
        return fate(exitcode).capitalize()
    if seen.end == "raised":
        of = f" of {seen.failed_loader}" if seen.failed_loader else ""
        place = f"W{seen.failed_worker}{of}" if seen.failed_worker is not None else "main"
        return f"Raised: {seen.raised_in_worker or seen.chain[0][0]} in {place}"
    if seen.end == "worker died":
        died = [worker for worker in seen.workers if worker.exitcode is not None]
        return f"Worker died: {', '.join(map(str, died)) or 'which one is unknown'}"
    if seen.end == "hung":
        return f"Hung: stopped at its deadline of {seen.deadline:g} s"
    if signs:
        return f"Finished, but something is wrong: {', '.join(dict(signs))}"
    return "Finished"


def _count(seen: Record) -> str:
    text = count_of(seen.batches, "batch", "batches")
    if seen.samples is not None:
        text += f", {count_of(seen.samples, 'sample')}"
    return text if seen.end == "finished" else f"{text} before that"


def _lines(frames: tuple[Frame, ...]) -> str:
    return "\n".join(map(str, frames))


def _tail(text: str, lines: int = 12) -> str:
    kept = text.splitlines()
    if len(kept) <= lines:
        return text
    return "\n".join([f"({len(kept) - lines} earlier lines)", *kept[-lines:]])
