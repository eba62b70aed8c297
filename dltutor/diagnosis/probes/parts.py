"""What's the loader made of?

Read the loader's settings and the names of its parts. Call no dataset method except `__len__`.
"""

from __future__ import annotations

import inspect
import re
import resource
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from torch.utils.data import BatchSampler, DataLoader, default_collate

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.experiment import probe
from dltutor.diagnosis.running.subject import Subject, length_of, own_line
from dltutor.diagnosis.words import count_of
from dltutor.observation.errors import is_yours
from dltutor.observation.foreign import attribute, attributes_of, is_a, module_of
from dltutor.observation.loaders import inner_loaders, sampler_of
from dltutor.system.process_memory import shared_memory
from dltutor.tables import MB

# torch's samplers that don't shuffle, for map-style datasets and for streams.
_ORDERED: Final = ("SequentialSampler", "_InfiniteConstantSampler")
_RANK: Final = re.compile(r"\b(?:LOCAL_)?RANK\b|\bWORLD_SIZE\b|\bget_rank\b")
_DEEP: Final = 5  # the most wrappers around the dataset to look into


@dataclass(frozen=True)
class Parts:
    """The settings of a loader and the names of its parts, read without drawing a sample.

    Args:
        loader: The name of the loader's class.
        dataset: The name of the dataset's class.
        where: The file and line of your dataset's `__getitem__` or `__iter__`, or "" if unknown.
        stream: Whether the dataset is an IterableDataset.
        workers: How many workers the loader starts.
        method: The workers' start method, or "" if there are no workers.
        batch_size: The batch size, or None if the loader was given a batch sampler or makes no
            batches.
        length: What `len(dataset)` returns, or None if it raises.
        batches: What `len(loader)` returns, or None if it raises.
        persistent: Whether the workers stay between epochs.
        prefetch: How many batches each worker loads ahead, or 0 without workers.
        drop_last: Whether the loader drops an incomplete last batch.
        in_order: Whether a batch that's ready early has to wait for its turn.
        sampler: The name of a custom batch sampler's class or, without one, of the sampler's class.
        collate: The name of the collate function, or "" if it's torch's own.
        init: The name of the worker_init_fn, or "" if there's none.
        loop: Whether the doctor got a training loop.
        threads: The names of main's other threads.
        hooks: Which of "dataset" and "sampler" have a `set_epoch`.
        generator: Whether the loader has its own generator.
        shm: The size of /dev/shm in MB, or 0 if there's none.
        files: How many file descriptors a process may have open.
        pinned: Whether the loader pins memory.
        mixed: Whether a wrapper has several DataLoaders, one of which doesn't go in order. Workers
            change when each loader draws its order from the generator that all loaders share, so
            with workers, the wrapper may combine other samples.
        by_rank: Whether the file with your function that makes the loader, your dataset, or your
            sampler mentions a rank.
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
    threads: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()
    generator: bool = False
    shm: float = 0.0
    files: int = 0
    pinned: bool = False
    mixed: bool = False
    by_rank: bool = False

    @property
    def ordered(self) -> bool:
        """Whether main is sure to request samples in the same order in each epoch."""
        return self.stream or self.sampler in _ORDERED

    def __str__(self) -> str:
        length = "an unknown number of" if self.length is None else f"{self.length}"
        batched = f"batches of {self.batch_size}" if self.batch_size else "no fixed batch size"
        return (
            f"`{self.dataset}` with {length} samples, {batched}, and "
            f"{count_of(self.workers, 'worker')}."
        )


def needed(evidence: Evidence) -> bool:
    """Return True, because all other questions depend on this answer."""
    return True


def ask(subject: Subject) -> Parts:
    """Read the loader's settings and the names of its parts."""
    inner, dataset = subject.inner, subject.dataset
    collate: Any = inner.collate_fn
    plain = collate is default_collate or _name(collate) == "default_convert"
    cls: Any = type(_yours(dataset))
    method = cls.__iter__ if subject.stream else cls.__getitem__
    every = [_sampler(each) for each in inner_loaders(subject.loader).values()]
    return Parts(
        loader=type(subject.loader).__name__,
        dataset=type(dataset).__name__,
        where=own_line(method),
        stream=subject.stream,
        workers=inner.num_workers,
        method=subject.method,
        batch_size=inner.batch_size,
        length=length_of(dataset),
        batches=length_of(subject.loader),
        persistent=bool(inner.persistent_workers),
        prefetch=inner.prefetch_factor or 0,
        drop_last=bool(inner.drop_last),
        in_order=bool(getattr(inner, "in_order", True)),
        sampler=type(_sampler(inner)).__name__,
        collate="" if plain else _name(collate),
        init=_name(inner.worker_init_fn) if inner.worker_init_fn else "",
        loop=subject.loop is not None,
        generator=inner.generator is not None,
        shm=(shared_memory()[1] or 0) / MB,
        files=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        pinned=bool(inner.pin_memory),
        mixed=len(every) > 1 and any(type(each).__name__ not in _ORDERED for each in every),
        by_rank=any(map(_mentions_rank, (subject.make, cls, type(_sampler(inner))))),
        hooks=tuple(
            name
            for name, owners in (("dataset", (dataset,)), ("sampler", subject.samplers))
            if any(callable(attribute(each, "set_epoch")) for each in owners)
        ),
    )


def _mentions_rank(thing: Any) -> bool:
    # Return whether the file with a class or function is yours and mentions a rank.
    with suppress(OSError, UnicodeError, TypeError):  # it has no file that can be read
        file = inspect.getfile(thing)
        return is_yours(file) and bool(_RANK.search(Path(file).read_text()))
    return False


def _yours(dataset: Any) -> Any:
    # Return the dataset, or the first of several, inside torch's wrappers, such as ConcatDataset.
    for _ in range(_DEEP):
        held = attributes_of(dataset)
        inside = [held[name] for name in ("dataset", "datasets") if name in held]
        if not inside or not module_of(type(dataset)).startswith("torch."):
            break
        dataset = inside[0][0] if is_a(inside[0], (list, tuple)) and inside[0] else inside[0]
    return dataset


def _sampler(inner: DataLoader[Any]) -> Any:
    batches = inner.batch_sampler
    return sampler_of(inner) if batches is None or type(batches) is BatchSampler else batches


def _name(function: Any) -> str:
    return str(attribute(function, "__qualname__", type(function).__name__)).rpartition(".")[2]


EXPERIMENT: Final = probe("parts", 5.0, needed, ask)
