"""Define the Observation: the record of a run, with methods that judge and describe the run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any, Final

from dltutor.observation.growth import still_growing
from dltutor.observation.memory.timeline import Timeline
from dltutor.observation.record import Confinement, End, Frame, Worker
from dltutor.observation.texts import fate, said, tidy
from dltutor.tables import Table, Told, Tone, count_of

_TONES: Final[dict[End, Tone]] = {
    "finished": "good",
    "raised": "bad",
    "worker died": "bad",
    "main died": "bad",
    "hung": "warn",
}
_MOST: Final = 0.5  # the largest fraction of its time that a loop may wait for batches
_LONG: Final = 4.0  # seconds that any loop may wait, because a short run may be slow by chance


@dataclass(frozen=True, kw_only=True, repr=False)
class Observation(Told):
    """The record of a run in `observe` or `confine`.

    Args:
        end: How the run ended. "hung" means that `observe` or `confine` stopped the run at its
            deadline. Only `confine` reports "main died".
        deadline: The deadline, in seconds.
        batches: How many batches reached the loop.
        samples: How many samples the sampler dealt out for those batches, or None if unknown, for
            example because a stream's batches don't show the number, or because a wrapper delivers
            more or fewer batches than its loader.
        seconds: How long the run took, without the clean-up.
        first_batch_seconds: Seconds to the first batch, or None without a batch.
        last_batch_seconds: Seconds to the last batch, or None without a batch.
        chain: The type and message of the exception that arrived and its causes, outermost first.
        traceback: Your own lines in the traceback, outermost first, without torch's lines.
        raised_in_worker: The type of the exception that a worker raised, or None if no worker did.
        failed_worker: The number of the worker that raised an exception, or None if no worker did.
        workers: The last epoch's workers.
        stderr: What the workers wrote to file descriptor 2, at most the last 64,000 bytes. If
            `confine` observed main only from outside, `stderr` also has what main wrote, and
            standard output.
        raw: The error as a terminal would show it without `observe`, with shortened paths.
        timeline: Memory, descriptors, and shared memory over time.
        result: What the training loop returned in the last epoch, or None if it didn't finish.
        confinement: The limits that `confine` set, or None if `observe` ran the loader.
        failed_loader: The name of the loader whose iterator raised the exception (see Worker), or
            "" if there is only one loader or it's unknown.
        expected: How many samples `len(dataset)` promises for all epochs, or None if unknown,
            for example because the loop left an epoch early, the loader has `drop_last`, or the
            sampler doesn't deal out every sample.
        waited: The fraction of its time that your loop spent waiting for batches, or None for the
            default loop, which does nothing else.
        left: How many processes that workers had started were still running after the workers left,
            before `observe` ended these processes. It's 0 unless the run is `ok`.
        others: How many workers of other loaders, which the training loop iterated and kept, were
            running when it returned, before `observe` ended them. Those loaders start new workers
            when they're iterated again.
        notes: Notes on the exceptions in `chain`, from `add_note`. From Python 3.14 on, pickle adds
            notes that say where pickling failed: the attribute, the class, the process, innermost
            first.
    """

    end: End
    deadline: float
    batches: int = 0
    samples: int | None = 0
    seconds: float
    first_batch_seconds: float | None = None
    last_batch_seconds: float | None = None
    chain: tuple[tuple[str, str], ...] = ()
    traceback: tuple[Frame, ...] = ()
    raised_in_worker: str | None = None
    failed_worker: int | None = None
    workers: tuple[Worker, ...] = ()
    stderr: str = ""
    raw: str = ""
    timeline: Timeline
    result: object = None
    confinement: Confinement | None = None
    failed_loader: str = ""
    notes: tuple[str, ...] = ()
    expected: int | None = None
    waited: float | None = None
    left: int = 0
    others: int = 0

    @cached_property
    def signs(self) -> tuple[tuple[str, str], ...]:
        """The promises that the run broke even though it finished, each with its evidence."""
        return tuple(_signs(self)) if self.end == "finished" else ()

    @property
    def ok(self) -> bool:
        """Whether the run finished without an error and without a worker that died."""
        return self.end == "finished" and not any(worker.exitcode for worker in self.workers)

    def to_dict(self) -> dict[str, Any]:
        """Return the observation as lists, strings, and numbers that JSON can hold.

        The measurements (`seconds`, `first_batch_seconds`, `last_batch_seconds`, `waited`), `raw`,
        `timeline`, and the numbers in `signs` differ from run to run. If a worker died, so do
        `batches`, `samples`, and the exception. The rest is usually the same.

        Returns:
            The fields of Observation by name, plus `ok`, `title`, and `signs`, which is a list of
            dicts with `promise` and `evidence`. `chain` is a list of dicts with `type` and
            `message`. The messages, `notes`, and `stderr` are without pids and addresses.
            `traceback` and a worker's `stack` are sequences of dicts with `file`, `line`,
            `function`, and `code`. A worker also has `name` (such as W0), `signal`, and `fate`.
            `timeline` is what `Timeline.to_dict` returns. `confinement` is a dict of its rows, or
            None. `result` isn't there, because it can have any type.
        """
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        del plain["result"]
        return {
            "ok": self.ok,
            "title": self.story().title,
            "signs": [{"promise": promise, "evidence": what} for promise, what in self.signs],
            **plain,
            "chain": [{"type": kind, "message": tidy(message)} for kind, message in self.chain],
            "traceback": [asdict(frame) for frame in self.traceback],
            "workers": [
                {"name": each.name, "signal": each.signal, "fate": each.fate, **asdict(each)}
                for each in self.workers
            ],
            "notes": list(map(tidy, self.notes)),
            "stderr": tidy(self.stderr),
            "timeline": self.timeline.to_dict(),
            "confinement": dict(self.confinement.rows()) if self.confinement is not None else None,
        }

    def story(self) -> Table:
        """Return a short table without pids and times, which rarely differs between runs."""
        tone = "warn" if self.signs else _TONES[self.end]
        return Table(_title(self), tuple(_rows(self)), tone=tone)


def _signs(seen: Observation) -> Iterator[tuple[str, str]]:
    if seen.expected is not None and seen.samples not in (None, seen.expected):
        yield "complete", f"{seen.samples} samples arrived, but the dataset has {seen.expected}"
    for growing in still_growing(seen.timeline):
        yield "bounded", growing
    if seen.left:
        are = "process was" if seen.left == 1 else "processes were"
        yield "clean", f"{seen.left} {are} still running after the workers that started them left"
    if _waits(seen):
        yield "quick", "your loop spent most of its time waiting for batches"


def _waits(seen: Observation) -> bool:
    # Leave out the wait for the first batch, which includes the start of the workers.
    if seen.waited is None or seen.first_batch_seconds is None:
        return False
    waited = seen.waited * seen.seconds - seen.first_batch_seconds
    return waited > max(_LONG, _MOST * (seen.seconds - seen.first_batch_seconds))


def _rows(seen: Observation) -> Iterator[tuple[str, str]]:
    from_outside = seen.confinement is not None and seen.confinement.from_outside
    # Main notices a worker's death wherever main happens to be, so chance decides how many batches
    # arrived before and how torch words the error. `chain` and `raw` have the error.
    by_chance = seen.end == "worker died"
    if not by_chance and not from_outside:
        yield "got", _count(seen)
    yield from seen.signs
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


def _title(seen: Observation) -> str:
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
    if seen.signs:
        return f"Finished, but something is wrong: {', '.join(dict(seen.signs))}"
    return "Finished"


def _count(seen: Observation) -> str:
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
