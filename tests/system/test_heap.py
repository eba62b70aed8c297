"""Check that after `fill_holes`, hardly any new block gets the place of a freed one."""

from __future__ import annotations

import ctypes

import pytest

from dltutor.diagnosis.running.forks import in_fork
from dltutor.failures.heap_growth import c_library
from dltutor.system.heap import fill_holes

HOLES = 200
CACHED = 7  # by default, the most freed blocks of one size that glibc keeps in a thread's cache


def reused(filled: bool) -> int:
    """Free every other one of many blocks, and return how many new blocks get a freed place.

    If `filled` is True, call `fill_holes` before making the new blocks.
    """
    libc = ctypes.CDLL(None)
    libc.malloc.argtypes, libc.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
    libc.free.argtypes = [ctypes.c_void_p]
    blocks = [libc.malloc(400) for _ in range(2 * HOLES)]
    for block in blocks[::2]:
        libc.free(block)
    if filled:
        fill_holes()
    return len({libc.malloc(400) for _ in range(HOLES)} & {*blocks[::2]})


@pytest.mark.skipif(not c_library().startswith("glibc"), reason=f"for glibc, not {c_library()}")
def test_new_blocks_get_no_freed_place_once_the_holes_are_filled() -> None:
    assert in_fork(lambda: reused(filled=False), 20) > HOLES / 2
    assert in_fork(lambda: reused(filled=True), 20) <= CACHED
