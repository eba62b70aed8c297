"""Record, compare, and change the state of this process that a call could change."""

from __future__ import annotations

import atexit
import faulthandler
import gc
import locale
import multiprocessing
import os
import random
import resource
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import torch
from own_process import descriptors
from PIL import Image
from torch.utils.data import DataLoader, get_worker_info
from torch.utils.data._utils import signal_handling
from torch.utils.data.dataloader import _BaseDataLoaderIter

hooks: list[Any] = []
_register = os.register_at_fork


def hear_of_fork_hooks() -> None:
    """Record every later call to `os.register_at_fork` in `hooks`."""

    def register(**which: Any) -> None:
        hooks.append(which)
        _register(**which)

    os.register_at_fork = register  # type: ignore[assignment]


def state() -> dict[str, Any]:
    """Return random states, signal handlers, and other state of this process, by name."""
    numpy_state: Any = np.random.get_state(legacy=False)
    wakeup = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
    multiprocessing.active_children()  # reaps ended processes, and closes their pipes
    umask = os.umask(0)
    os.umask(umask)
    main = sys.modules["__main__"]
    folder = Path(tempfile.gettempdir())  # first, because this may set `tempfile.tempdir`
    return {
        "random": random.getstate(),
        "numpy": (numpy_state["state"]["key"].tolist(), numpy_state["state"]["pos"]),
        "torch random": torch.get_rng_state().tolist(),
        "signal handlers": {each: signal.getsignal(each) for each in signal.valid_signals()},
        "torch's own handler": signal_handling._SIGCHLD_handler_set,
        "signal mask": signal.pthread_sigmask(signal.SIG_BLOCK, ()),
        "alarm": signal.getitimer(signal.ITIMER_REAL),
        "wakeup": wakeup,
        "gc": (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count(), gc.get_debug()),
        "gc callbacks": list(gc.callbacks),
        "threads": [(each.name, each.ident) for each in threading.enumerate()],
        "descriptors": descriptors(),
        "children": sorted(each.pid or 0 for each in multiprocessing.active_children()),
        "warnings": list(warnings.filters),
        "warnings are shown by": (warnings.showwarning, warnings.formatwarning),
        "torch threads": (torch.get_num_threads(), torch.get_num_interop_threads()),
        "torch settings": (
            torch.get_default_dtype(),
            torch.is_grad_enabled(),
        ),
        "start method": multiprocessing.get_start_method(allow_none=True),
        "sharing strategy": torch.multiprocessing.get_sharing_strategy(),
        "fork hooks": len(hooks),
        "exit hooks": atexit._ncallbacks(),
        "path": (id(sys.path), list(sys.path)),
        "main module": (id(main), getattr(main, "__spec__", None), getattr(main, "__file__", None)),
        "streams": (id(sys.stdin), id(sys.stdout), id(sys.stderr)),
        "sys hooks": (sys.excepthook, sys.unraisablehook, threading.excepthook, sys.displayhook),
        "trace": (sys.gettrace(), sys.getprofile(), sys.getrecursionlimit()),
        "folder": (os.getcwd(), tempfile.tempdir, umask, dict(os.environ)),
        "temporary files": sorted(folder.glob("dlt*")),
        "limits": [resource.getrlimit(getattr(resource, each)) for each in _LIMITS],
        "locale": locale.setlocale(locale.LC_ALL),
        "faulthandler": faulthandler.is_enabled(),
        "patched": (
            DataLoader.__iter__,
            vars(DataLoader)["_get_iterator"],
            vars(BaseProcess)["exitcode"],
            dict(vars(_BaseDataLoaderIter)),
        ),
        "worker info": get_worker_info(),
        "pillow's limit": Image.MAX_IMAGE_PIXELS,
        "adopts orphans": _subreaper(),
    }


_LIMITS = ("RLIMIT_CORE", "RLIMIT_FSIZE", "RLIMIT_NOFILE")


def _subreaper() -> bool:
    from dltutor.system.processes import adopt_orphans

    before = adopt_orphans(True)
    adopt_orphans(before)
    return before


def differing(before: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Return the entries of `before` that have changed, with the beginnings of both values."""
    now = state()
    return {
        name: (_only(was, now[name]), _only(now[name], was))
        for name, was in before.items()
        if now[name] != was
    }


def _only(one: Any, other: Any) -> str:
    # Return the beginning of `one` as a string. From a dict, leave out items that `other` also has.
    if isinstance(one, dict):
        one = {key: value for key, value in one.items() if other.get(key, other) != value}
    return repr(one)[:300]


def change_everything() -> None:
    """Change most of what `state` returns. It's safe to call this more than once."""
    random.seed(7)
    np.random.seed(7)
    torch.manual_seed(7)
    if threading.current_thread() is threading.main_thread():
        for each in (signal.SIGTERM, signal.SIGUSR1, signal.SIGALRM, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(each, _nothing)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    gc.disable()
    gc.set_threshold(123)
    gc.freeze()
    gc.callbacks.append(_nothing)
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    os.open(os.devnull, os.O_RDONLY)
    warnings.simplefilter("error")
    warnings.showwarning = _nothing
    torch.set_num_threads(torch.get_num_threads() + 1)
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(False)
    multiprocessing.set_start_method("spawn", force=True)
    torch.multiprocessing.set_sharing_strategy("file_system")
    os.register_at_fork(before=_nothing)
    atexit.register(_nothing)
    sys.path.append("/nowhere")
    sys.modules["__main__"].__spec__ = None
    sys.excepthook = _nothing
    sys.setrecursionlimit(sys.getrecursionlimit() + 1)
    os.chdir("/")
    os.umask(0o77)
    os.environ["CHANGED"] = "1"
    tempfile.tempdir = "/"
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.settrace(lambda *_: None)
    Image.MAX_IMAGE_PIXELS = 1
    for each in (0, 1, 2):
        with suppress(OSError):  # an earlier call may have closed this descriptor
            os.close(each)


def _nothing(*_: Any, **__: Any) -> None: ...


def and_then(change: Callable[[], None]) -> Callable[[Any], None]:
    """Make a training loop that runs an epoch and then calls `change`."""

    def consume(loader: Any) -> None:
        for _ in loader:
            pass
        change()

    return consume
