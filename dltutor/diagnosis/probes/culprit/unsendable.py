"""Find out whether a worker could send an object to main, by pickling and unpickling it.

A worker moves tensors to shared memory and serves their descriptors from a socket. This module
leaves tensors out, because sharing them would leave files behind.
"""

from __future__ import annotations

import io
import pickle
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch._utils import ExceptionWrapper

from dltutor.diagnosis.running.subject import described
from dltutor.observation.foreign import is_a


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
    """Return why an object can't be pickled, as "type: message" of the error, or "" if it can."""
    try:
        _Pickler(io.BytesIO()).dump(thing)
    except Exception as error:  # your __reduce__ may raise anything
        kind, text, _ = described(error)
        return f"{kind}: {text}"
    return ""


def unread(thing: Any) -> tuple[str, str, str]:
    """Return the type, message, and line of the exception that unpickling raises, or empty strings.

    If pickling fails, return the same about its exception. Unpickling may also raise because it
    gets the number 0 in place of each tensor.
    """
    file = io.BytesIO()
    try:
        _Pickler(file).dump(thing)
        pickle.loads(file.getvalue())
    except Exception as error:  # a __getattr__ or __setstate__ of yours may raise anything
        return described(error)
    return "", "", ""


def arrives(error: BaseException) -> str:
    """Return the type that main gets if a worker raises this error, or "" if it isn't sent."""
    if not isinstance(error, Exception):
        return ""
    try:
        ExceptionWrapper((type(error), error, error.__traceback__), "in a trial").reraise()
    except BaseException as arrived:
        return type(arrived).__name__
    return ""
