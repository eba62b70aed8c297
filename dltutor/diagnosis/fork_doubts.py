"""Recognize outcomes that a fork may have caused, because some libraries don't survive a fork."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from dltutor.observation.sandbox import Ended

#: Matches what a library says if it notices that it runs in a fork but shouldn't. Don't match the
#: rest of the sentence, because trying that from each character of a long answer takes seconds.
_COMPLAINT: Final = re.compile(
    r"\b(?:forked (?:sub|child )?process|after (?:a )?fork|fork[- ]safe|was forked)\b",
    re.IGNORECASE,
)
_BETWEEN: Final = re.compile(r"[.\n\"]")  # matches a character between two sentences


def _grpc_threads(module: Any) -> bool:
    for task in os.listdir("/proc/self/task"):
        with suppress(OSError), open(f"/proc/self/task/{task}/comm") as name:
            if name.read().startswith(("grpc", "event_engine")):
                return True
    return False


#: The libraries that don't survive a fork, by module. Each has a name, a function that takes the
#: module and returns whether this process uses the library, and a pattern for the library's errors.
_RUNTIMES: Final[dict[str, tuple[str, Callable[[Any], Any], str]]] = {
    "torch.cuda": ("CUDA", lambda cuda: cuda.is_initialized(), r"\bCUDA\b"),
    "tensorflow.python.eager.context": (
        "TensorFlow",
        lambda module: module._context is not None and module._context._context_handle is not None,
        "tensorflow",
    ),
    "jax._src.xla_bridge": ("JAX", lambda bridge: bridge._backends, r"\b(?:jax|jaxlib|xla)"),
    "grpc": ("gRPC", _grpc_threads, "grpc"),
    "mpi4py.MPI": ("MPI", lambda mpi: mpi.Is_initialized() and not mpi.Is_finalized(), r"\bmpi"),
    "wandb": ("wandb", lambda wandb: wandb.run is not None, "wandb"),
    "ray": ("Ray", lambda ray: ray.is_initialized(), r"\bray\b"),
}


def in_use() -> dict[str, str]:
    """Return each library in use that doesn't survive a fork, with a pattern for its errors."""
    found = {}
    for name, (title, asked, pattern) in _RUNTIMES.items():
        module = sys.modules.get(name)
        if module is not None:
            used = True  # if asking the library fails, assume that it's in use
            with suppress(Exception):
                used = bool(asked(module))
            if used:
                found[title] = pattern
    return found


def doubt(ended: Ended, own_loop: bool) -> str:
    """Say why a fork may have caused an experiment's outcome, or return "" if nothing suggests it.

    Args:
        ended: How the experiment's process ended, and what it returned.
        own_loop: Whether the doctor has your training loop, which may hang in main.
    """
    how = _how(ended, own_loop)
    if not how:
        return ""
    said = json.dumps(ended.result) + ended.printed
    if complaint := _COMPLAINT.search(said):
        sentence = _BETWEEN.split(said[: complaint.start()])[-1]
        sentence += _BETWEEN.split(said[complaint.start() :], maxsplit=1)[0]
        return (
            f"your code said {sentence.strip()!r} in an experiment, which is a fork of this process"
        )
    for title, pattern in in_use().items():
        if how in ("died", "hung") or (how == "raised" and re.search(pattern, said, re.IGNORECASE)):
            return (
                f"it {how} in a fork of this process, and {title}, which is in use here, doesn't "
                "survive a fork"
            )
    return ""


def no_sample(ended: Ended) -> bool:
    """Return whether the experiment `samples` failed and reported no sample."""
    match ended.result:
        case {"answer": {"looked": looked}} if looked:
            return False
    return _how(ended, own_loop=False) != ""


def _how(ended: Ended, own_loop: bool) -> str:
    # Return "raised", "raised in a worker", "died", "hung", or "" for anything else. If a worker
    # died or hung, return "", because each worker is a process of its own in your program, too, so
    # the experiment's fork isn't to blame. With your own loop, a run that hangs is "hung", because
    # the loop may hang in main.
    match ended.result:
        case {"answer": {"failed": [_, *_]}} | {"unmade": _} | {"failed": _}:
            return "raised"
        case {"answer": {"end": "raised", "raised": worker}}:
            return "raised" if worker is None else "raised in a worker"
        case {"answer": {"ended": "died"}} | {"answer": {"end": "main died"}}:
            return "died"
        case {"answer": {"ended": "hung"}}:
            return "hung"
        case {"answer": {"end": "hung"}}:
            return "hung" if own_loop else ""
        case None:
            return {"": "died", "limit": "hung"}.get(ended.stopped, "")
    return ""
