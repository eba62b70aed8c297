"""What a run of a loader changes in this process without being asked: put back at its end."""

from __future__ import annotations

import multiprocessing
import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def state_kept() -> Iterator[None]:
    """Put back the global random states and the choice of a start method after the block.

    torch draws the seeds of workers, and a sampler without a generator its order, from the global
    random state. Making the first queue fixes how this process starts others, for good.
    """
    python, own, others = random.getstate(), torch.get_rng_state(), np.random.get_state()
    chosen = multiprocessing.get_start_method(allow_none=True)
    try:
        yield
    finally:
        random.setstate(python)
        torch.set_rng_state(own)
        np.random.set_state(others)
        # A method that your loop has chosen stays: it is not the default one.
        default = multiprocessing.get_all_start_methods()[0]
        if chosen is None and multiprocessing.get_start_method(allow_none=True) == default:
            multiprocessing.set_start_method(None, force=True)
