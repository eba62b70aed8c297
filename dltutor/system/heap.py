"""Use up the free blocks in this process's heap, so that a forked worker's heap grows at once."""

from __future__ import annotations

import ctypes
from typing import Final

_SIZES: Final = (*(4**power for power in range(11, 4, -1)), 512, 256, 128, 96, 64, 32, 16)  # bytes
_HOLES: Final = 4000  # the most free blocks of one size to allocate
_HEAP: Final = 64 << 30  # a block more than this many bytes below the heap's top isn't in the heap


def fill_holes() -> None:
    """Allocate the free blocks in the middle of this process's heap, and never free them.

    Otherwise, a forked worker would use up these blocks before its heap grows, and the number of
    blocks depends on chance. See the note in `dltutor/failures/heap_growth.py`.
    """
    libc = ctypes.CDLL(None)
    libc.malloc.restype = libc.sbrk.restype = ctypes.c_void_p
    libc.malloc.argtypes = [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    libc.sbrk.argtypes = [ctypes.c_ssize_t]
    top = libc.sbrk(0) or 0
    for size in _SIZES:
        for _ in range(_HOLES):
            place = libc.malloc(size)
            if not place or not top - _HEAP < place < top - size:
                libc.free(place)
                break
