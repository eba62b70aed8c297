"""Keep a worker to one computing thread, in torch, OpenCV, and the libraries under numpy."""

from __future__ import annotations

import ctypes
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import torch

from dltutor.observation.foreign import attributes_of

_OPENBLAS: Final = (
    "openblas_set_num_threads",
    "openblas_set_num_threads64_",
    "scipy_openblas_set_num_threads64_",
    "scipy_openblas_set_num_threads",
)


def keep_to_one_thread(worker: int = 0) -> None:
    """Compute with one thread in this process from now on.

    The code in this process can't set another number through torch or OpenCV.

    Args:
        worker: The worker's number, which each `worker_init_fn` gets. This function ignores it.
    """
    own = torch.set_num_threads
    own(1)
    for module in list(sys.modules.values()):  # any module may have imported set_num_threads
        for name, thing in attributes_of(module).items():
            if thing is own:
                with suppress(Exception):
                    setattr(module, name, _keep)
    cv2: Any = sys.modules.get("cv2")
    with suppress(Exception):
        cv2.setNumThreads(0)
        cv2.setNumThreads = _keep
    for library in _openblas():
        for name in _OPENBLAS:
            with suppress(AttributeError):
                getattr(library, name)(1)
    with suppress(ImportError):
        threadpoolctl: Any = __import__("threadpoolctl")
        threadpoolctl.threadpool_limits(1)


def _keep(nthreads: int) -> None:
    pass


def _openblas() -> list[ctypes.CDLL]:
    found = []
    with suppress(OSError):
        maps = Path("/proc/self/maps").read_text()
        for path in sorted(set(re.findall(r"(/\S*openblas\S*)$", maps, re.MULTILINE))):
            with suppress(OSError):
                found.append(ctypes.CDLL(path))
    return found
