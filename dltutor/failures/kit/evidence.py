"""What the doctor has found out about one foreign loader, and what a failure mode makes of it.

Each experiment of `dltutor.diagnosis.experiments` answers with one of these records; those that
were not made are None. A failure mode's `fits` reads them and returns a Fit, or None. The records
are plain numbers and texts: they come out of another process as JSON.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal, TypeVar

Certainty = Literal["shown", "likely"]
#: How serious it is: the run ends; the data is wrong; memory or files run out; it is slow.
Harm = Literal["ends", "wrong", "memory", "slow"]

_Record = TypeVar("_Record")


@dataclass(frozen=True)
class Fit:
    """Why a failure mode is what a loader has.

    Args:
        harm: How serious it is.
        certainty: "shown" if an experiment would have come out differently without it.
        evidence: What was measured, in one or two sentences.
        where: The file and line, or the attribute path; "" where it cannot be known.
        fix: What to do with this loader, in its own names; "" for the failure mode's own remedy.
    """

    harm: Harm
    certainty: Certainty
    evidence: str
    where: str = ""
    fix: str = ""


@dataclass(frozen=True)
class Parts:
    """What the loader is made of, as far as it can be seen without a sample.

    Args:
        loader: Its class.
        dataset: The class of its dataset.
        where: The file and line of the dataset's `__getitem__` or `__iter__`.
        stream: Whether it is an IterableDataset.
        workers: Their number.
        method: Their start method.
        batch_size: None without batching.
        length: What `len(dataset)` says, or None.
        batches: What `len(loader)` says, or None.
        persistent: Whether the workers stay.
        prefetch: Batches that each worker loads ahead.
        drop_last: Whether an unfinished batch is dropped.
        in_order: Whether batches come in order.
        sampler: The class of the sampler.
        collate: The name of the collate function; "" for torch's own.
        init: The name of the worker_init_fn; "" without one.
        loop: Whether there is a training loop.
        held: What the dataset holds that belongs to one process or one thread: [path, kind], kind
            one of "file", "socket", "connection", "lock", "thread", "executor", "generator",
            "torch generator", "random".
        large: Containers of many Python objects in it: [path, class, length].
        threads: The names of main's other threads.
        hooks: Which of `set_epoch` the dataset and the sampler have: "dataset", "sampler".
    """

    loader: str
    dataset: str
    where: str
    stream: bool
    workers: int
    method: str
    batch_size: int | None
    length: int | None
    batches: int | None
    persistent: bool
    prefetch: int
    drop_last: bool
    in_order: bool
    sampler: str
    collate: str
    init: str
    loop: bool
    held: tuple[tuple[str, str], ...] = ()
    large: tuple[tuple[str, str, int], ...] = ()
    threads: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()

    def path(self, *kinds: str) -> str:
        """The paths of what it holds of these kinds, with commas."""
        return ", ".join(path for path, kind in self.held if kind in kinds)


@dataclass(frozen=True)
class Run:
    """One run of the loader: as it is, or changed in one respect.

    Args:
        end: As in an Observation; "enough" if it was stopped between two batches, when all had
            been seen that there was time for.
        error: Type and text of what arrived in main, the worker's own where it raised; "" without.
        kind: The type that arrived in main.
        raised: The type that the worker raised, or None.
        at: Your own lines in the traceback, innermost first.
        said: All that was said, by exceptions and on stderr.
        named: The failure modes that these words point to, the best first.
        stood: Where each worker stood that was asked, innermost line first.
        codes: The exit code of each worker.
        batches: How many reached the loop.
        samples: How many samples in them.
        seconds: How long it took.
        first: Seconds to the first batch, or None.
        gap: The longest time between two batches, in seconds.
        passes: For each iteration of the loader, what each batch held, as a digest.
        drawn: The same for each sample, where a batch can be taken apart.
        counted: How many samples each iteration delivered.
        finished: Whether each iteration came to its end by itself.
        restarted: How many iterations were begun anew before they had ended.
        alive: How many workers were alive when the loop had returned, though not to be kept.
        result: What the loop returned, as a digest of its value; "" for nothing to compare.
        returned: The same in words.
        kept: How many batches the loop still had in hand when it had taken others.
        kept_bytes: Their bytes.
        tensors: How many tensors a batch has, on average.
        batch_bytes: The bytes of the largest batch.
        storage_bytes: The bytes of the storages that came with it.
        private: MB of each worker's own memory, at its first batch and at the end.
        resident: The same with what it shares.
        shared: The most MB of batches in shared memory that were seen at once.
        files: How many more descriptors main had at the end than at the first batch.
        epochs_told: How often the loop called a `set_epoch`.
        orders: The order of the indices in each epoch as the sampler gave it, as digests.
    """

    end: str
    error: str = ""
    kind: str = ""
    raised: str | None = None
    at: tuple[str, ...] = ()
    said: str = ""
    named: tuple[str, ...] = ()
    stood: tuple[tuple[str, ...], ...] = ()
    codes: tuple[int | None, ...] = ()
    batches: int = 0
    samples: int = 0
    seconds: float = 0.0
    first: float | None = None
    gap: float = 0.0
    passes: tuple[tuple[str, ...], ...] = ()
    drawn: tuple[tuple[str, ...], ...] = ()
    counted: tuple[int, ...] = ()
    finished: tuple[bool, ...] = ()
    restarted: int = 0
    alive: int = 0
    result: str = ""
    returned: str = ""
    kept: int = 0
    kept_bytes: int = 0
    tensors: float = 0.0
    batch_bytes: int = 0
    storage_bytes: int = 0
    private: tuple[tuple[float, float], ...] = ()
    resident: tuple[tuple[float, float], ...] = ()
    shared: float = 0.0
    files: int = 0
    epochs_told: int = 0
    orders: tuple[str, ...] = ()

    @property
    def well(self) -> bool:
        """Whether nothing ended it before its time."""
        return self.end in ("finished", "enough")


@dataclass(frozen=True)
class Samples:
    """What the samples are, drawn one after the other in a main process without workers.

    Args:
        looked: How many were drawn.
        failed: Those that raised: [index, type, text, line of yours].
        nones: The indices of those that hold a None.
        shapes: The different shapes of what a sample holds, up to five.
        ended: How drawing ended before its time: "", "died", "hung", "time".
        at: The index that was being drawn then.
        code: The exit code of the process, if it died.
        typical: Seconds that a sample takes, the median.
        slowest: Seconds of the slowest.
        slowest_at: Its index.
        again: How many of those that were drawn twice, under the same seeds, came out differently.
        twice: How many were drawn twice.
        changed: Paths of arrays of the dataset whose content changed when samples were drawn.
        random: How many came out differently when drawn again without a seed being set.
        overwritten: How many changed when the next one was drawn.
        beyond: The index past the end that was still answered with something new; -1 for none.
        stops: The index at which it stops being answered beyond the end; -1 if never.
        grown: Containers of the dataset that had more elements at the end: [path, before, after,
            MB by which they grew]; each sample was drawn once.
    """

    looked: int
    failed: tuple[tuple[int, str, str, str], ...] = ()
    nones: tuple[int, ...] = ()
    shapes: tuple[str, ...] = ()
    ended: str = ""
    at: int = -1
    code: int | None = None
    typical: float = 0.0
    slowest: float = 0.0
    slowest_at: int = -1
    again: int = 0
    twice: int = 0
    changed: tuple[str, ...] = ()
    random: int = 0
    overwritten: int = 0
    beyond: int = -1
    stops: int = -1
    grown: tuple[tuple[str, int, int, float], ...] = ()


@dataclass(frozen=True)
class Evidence:
    """All that was found out. What was not asked, or not answered, is None.

    Args:
        parts: What the loader is made of.
        run: The loader as it is.
        samples: Its samples, drawn without workers.
        alone: The loader without workers.
    """

    parts: Parts
    run: Run
    samples: Samples | None = None
    alone: Run | None = None


def read(record: type[_Record], answer: dict[str, Any]) -> _Record:
    """Make a record of what JSON has: lists become tuples."""
    known = {field.name for field in fields(record)}  # type: ignore[arg-type]  # dataclasses only
    return record(**{name: _frozen(value) for name, value in answer.items() if name in known})


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
