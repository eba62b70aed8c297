"""Find out whether a worker could send a thing to main, by pickling it.

A worker moves tensors to shared memory and serves their descriptors from a socket. This module
leaves tensors out, because sharing them would leave files behind.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from itertools import islice
from multiprocessing.reduction import ForkingPickler
from typing import Any, Final

import torch
from torch._utils import ExceptionWrapper

from dltutor.diagnosis.running.subject import described
from dltutor.observation import foreign
from dltutor.observation.foreign import attributes_of, is_a

_DEEP: Final = 8
_MOST: Final = 200  # the most parts to look at in one thing


class _Pickler(ForkingPickler):
    def reducer_override(self, thing: Any) -> Any:
        if is_a(thing, torch.Tensor):
            if thing.requires_grad and not thing.is_leaf:
                raise RuntimeError(
                    "Cowardly refusing to serialize non-leaf tensor which requires_grad"
                )
            return int, ()
        if is_a(thing, (torch.UntypedStorage, torch.TypedStorage)):
            return int, ()
        return NotImplemented


def why_not(thing: Any) -> str:
    """Return why a thing can't be pickled, as "type: message" of the error, or "" if it can."""
    try:
        _Pickler(io.BytesIO()).dump(thing)
    except Exception as error:  # your __reduce__ may raise anything
        kind, text, _ = described(error)
        return f"{kind}: {text}"
    return ""


def arrives(error: BaseException) -> str:
    """Return the type that main gets if a worker raises this error, or "" if it isn't sent."""
    if not isinstance(error, Exception):
        return ""
    try:
        ExceptionWrapper((type(error), error, error.__traceback__), "in a trial").reraise()
    except BaseException as arrived:
        return type(arrived).__name__
    return ""


def culprit_in(thing: Any, path: str) -> tuple[str, str]:
    """Return the path and the class of a thing's innermost part that can't be pickled."""
    for _ in range(_DEEP):
        for name, part in islice(_parts(thing), _MOST):
            if why_not(part):
                path, thing = f"{path}{name}", part
                break
        else:
            break
    return path, foreign.kind_of(thing)


def _parts(thing: Any) -> Iterator[tuple[str, Any]]:
    if is_a(thing, (Mapping, list, tuple)):
        inside = foreign.elements(thing)
        return ((f"[{foreign.text(key)}]", each) for key, each in inside)
    if is_a(thing, torch.Tensor):
        return iter(())
    return ((f".{name}", each) for name, each in attributes_of(thing).items())
