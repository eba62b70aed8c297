"""What's the loader made of?

Read its settings and the names of its parts. The only method of the dataset that's called is
`__len__`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from torch.utils.data import BatchSampler, DataLoader, default_collate

from dltutor.diagnosis.evidence import Evidence, Parts
from dltutor.diagnosis.experiment import Experiment
from dltutor.diagnosis.kit.bench import Bench, own_line
from dltutor.observation.foreign import attribute


def needed(evidence: Evidence | None) -> bool:
    """Always ask this first."""
    return True


def ask(bench: Bench) -> Parts:
    """Read its settings."""
    inner, dataset = bench.inner, bench.dataset
    collate: Any = inner.collate_fn
    plain = collate is default_collate or _name(collate) == "default_convert"
    method: Any = type(dataset).__iter__ if bench.stream else type(dataset).__getitem__
    return Parts(
        loader=type(bench.loader).__name__,
        dataset=type(dataset).__name__,
        where=own_line(method),
        stream=bench.stream,
        workers=inner.num_workers,
        method=bench.method,
        batch_size=inner.batch_size,
        length=_length(dataset),
        batches=_length(inner),
        persistent=bool(inner.persistent_workers),
        prefetch=inner.prefetch_factor or 0,
        drop_last=bool(inner.drop_last),
        in_order=bool(getattr(inner, "in_order", True)),
        sampler=type(_sampler(inner)).__name__,
        collate="" if plain else _name(collate),
        init=_name(inner.worker_init_fn) if inner.worker_init_fn else "",
        loop=bench.loop is not None,
        hooks=tuple(
            name
            for name, owners in (("dataset", (dataset,)), ("sampler", _samplers(inner)))
            if any(callable(attribute(each, "set_epoch")) for each in owners)
        ),
    )


def _samplers(inner: DataLoader[Any]) -> tuple[Any, ...]:
    # The loader's own sampler, its batch sampler, and the sampler inside that one.
    batches = inner.batch_sampler
    return inner.sampler, batches, attribute(batches, "sampler")


def _sampler(inner: DataLoader[Any]) -> Any:
    batches = inner.batch_sampler
    return inner.sampler if batches is None or type(batches) is BatchSampler else batches


def _length(thing: Any) -> int | None:
    with suppress(Exception):  # a stream has none, and a user's `__len__` may do anything
        return len(thing)
    return None


def _name(function: Any) -> str:
    return str(attribute(function, "__qualname__", type(function).__name__)).rpartition(".")[2]


EXPERIMENT: Final = Experiment("parts", 5.0, needed, ask)
