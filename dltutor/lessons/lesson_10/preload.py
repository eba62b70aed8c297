"""Import what job D's workers need, and use up the small holes in the heap, in the fork server.

A worker inherits the server's heap. Importing leaves small holes in the heap, and sometimes they
have enough room for the records that would otherwise keep freed samples from merging (see the note
in `heap_growth`). Then D's workers hardly grow. Measured with 400 holes of 400 bytes or 40 kB that
we made on purpose: 3 of 16 runs grew half as much or less, and none of 28 did with these lines.
"""

import ctypes

from dltutor.lessons.lesson_10 import helpers as helpers

_malloc = ctypes.CDLL(None).malloc
_malloc.argtypes, _malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
for _size in range(4096, 0, -16):  # largest first, 4 MB in all, and never freed
    for _ in range(8):
        _malloc(_size)
