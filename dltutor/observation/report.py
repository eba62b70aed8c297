"""Define the Observation: the record of a run, with methods that judge and describe the run."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any

from dltutor.observation import story, texts
from dltutor.observation.record import Record
from dltutor.observation.signs import signs
from dltutor.tables import Table, Told


@dataclass(frozen=True, kw_only=True, repr=False)
class Observation(Record, Told):
    """The record of a run in `observe` or `confine`.

    Args:
        end: How the run ended. "hung" means that `observe` or `confine` stopped the run at its
            deadline. Only `confine` reports "main died".
        deadline: The deadline, in seconds.
        batches: How many batches reached the loop.
        samples: How many samples the sampler dealt out for those batches, or None if unknown, for
            example because a stream's batches don't show the number, or because a wrapper's batches
            differ from its loader's batches.
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

    @cached_property
    def signs(self) -> tuple[tuple[str, str], ...]:
        """The promises that the run broke even though it finished, each with its evidence."""
        return tuple(signs(self)) if self.end == "finished" else ()

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
            "signs": [{"promise": promise, "evidence": said} for promise, said in self.signs],
            **plain,
            "chain": [
                {"type": kind, "message": texts.tidy(message)} for kind, message in self.chain
            ],
            "traceback": [asdict(frame) for frame in self.traceback],
            "workers": [
                {"name": each.name, "signal": each.signal, "fate": each.fate, **asdict(each)}
                for each in self.workers
            ],
            "notes": list(map(texts.tidy, self.notes)),
            "stderr": texts.tidy(self.stderr),
            "timeline": self.timeline.to_dict(),
            "confinement": dict(self.confinement.rows()) if self.confinement is not None else None,
        }

    def story(self) -> Table:
        """Return a short table without pids and times, which rarely differs between runs."""
        return story.story(self, self.signs)
