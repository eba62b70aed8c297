"""What is the loader made of?

Nothing of the dataset's is called but `__len__`: its attributes are walked, and what belongs to one
process is written down with the way there, for the sentence that says where. No verdict rests on
it.
"""

from __future__ import annotations

import inspect
import io
import queue
import random
import socket
import sqlite3
import threading
import types
from concurrent.futures import Executor
from contextlib import suppress
from typing import Any, Final

import numpy as np
import torch
from torch.utils.data import DataLoader, default_collate

from dltutor.diagnosis.bench import Bench, own_line
from dltutor.failures.kit.evidence import Evidence, Parts

FIELD: Final = "parts"
SECONDS: Final = 5.0

_DEEP: Final = 5
_MOST: Final = 3000  # things that are looked at
_MANY: Final = 2000  # elements from which on a container is large
_LOCKS: Final = (type(threading.Lock()), type(threading.RLock()), threading.Condition)
_KINDS: Final[tuple[tuple[type | tuple[type, ...], str], ...]] = (
    (io.IOBase, "file"),
    (socket.socket, "socket"),
    (sqlite3.Connection, "connection"),
    (threading.Thread, "thread"),
    (Executor, "executor"),
    (queue.Queue, "queue"),
    (_LOCKS, "lock"),
    (torch.Generator, "torch generator"),
    ((np.random.Generator, np.random.RandomState, random.Random), "random"),
    ((types.GeneratorType, types.FunctionType), "generator"),
)


def needed(evidence: Evidence | None) -> bool:
    """Always: it is the first."""
    return True


def ask(bench: Bench) -> Parts:
    """Walk the loader and its dataset."""
    inner, dataset = bench.inner, bench.dataset
    held, large = _walk(dataset)
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
        sampler=type(inner.sampler).__name__,
        collate="" if plain else _name(collate),
        init=_name(inner.worker_init_fn) if inner.worker_init_fn else "",
        loop=bench.loop is not None,
        held=tuple(held),
        large=tuple(large),
        hooks=tuple(
            name
            for name, each in (("dataset", dataset), ("sampler", inner.sampler))
            if callable(getattr(each, "set_epoch", None))
        ),
    )


def _length(thing: Any) -> int | None:
    with suppress(Exception):  # a stream has none, and a user's own may do anything
        return len(thing)
    return None


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", type(function).__name__).rpartition(".")[2]


def _walk(dataset: Any) -> tuple[list[tuple[str, str]], list[tuple[str, str, int]]]:
    held: list[tuple[str, str]] = []
    large: list[tuple[str, str, int]] = []
    waiting: list[tuple[str, Any, int]] = [("dataset", dataset, _DEEP)]
    seen: set[int] = set()
    while waiting and len(seen) < _MOST:
        path, thing, depth = waiting.pop(0)
        if id(thing) in seen or isinstance(thing, (type, types.ModuleType, DataLoader)):
            continue
        seen.add(id(thing))
        kind = kind_of(thing)
        if kind:
            held.append((path, kind))
        elif depth:
            waiting += [(name, each, depth - 1) for name, each in inside(path, thing)]
        if isinstance(thing, (list, dict, tuple, set)) and len(thing) >= _MANY:
            large.append((path, type(thing).__name__, len(thing)))
    return held, large


def kind_of(thing: Any) -> str:
    """What kind of thing of one process this is; "" for anything else."""
    for classes, kind in _KINDS:
        if isinstance(thing, classes):
            named = isinstance(thing, types.FunctionType) and thing.__name__ != "<lambda>"
            return "" if named else kind
    # Connections of libraries, by what they can do.
    if not isinstance(thing, type) and hasattr(thing, "cursor") and hasattr(thing, "commit"):
        return "connection"
    return ""


def inside(path: str, thing: Any) -> list[tuple[str, Any]]:
    """What an object holds, each with the way there."""
    found: list[tuple[str, Any]] = []
    if isinstance(thing, dict):
        found += [(f"{path}[{key!r}]", each) for key, each in list(thing.items())[:20]]
    elif isinstance(thing, (list, tuple)):
        found += [(f"{path}[{number}]", each) for number, each in enumerate(thing[:20])]
    elif not isinstance(thing, (str, bytes, int, float, np.ndarray, torch.Tensor)):
        held = getattr(thing, "__dict__", None)
        if isinstance(held, dict):
            found += [(f"{path}.{name}", each) for name, each in held.items()]
        for name in getattr(type(thing), "__slots__", ()):
            with suppress(AttributeError):
                found.append((f"{path}.{name}", inspect.getattr_static(thing, name)))
    return found
