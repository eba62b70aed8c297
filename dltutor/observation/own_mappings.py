"""Give a fork its own view of mapped files, so that what it writes doesn't reach the files.

A fork shares each writable mapping of a file with its parent. So if a dataset changes the samples
of a `np.memmap(mode="r+")` in place, an experiment would spoil the file for its owner and for all
later experiments. Shared memory (`/dev/shm`, or a file without a name) stays shared, because
processes use it to exchange data.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from contextlib import suppress
from typing import Final

_EXCHANGE: Final = ("/dev/", "/memfd:")
_FIXED: Final = 0x10  # MAP_FIXED of mman.h: replace what is mapped at this address


def make_private() -> None:
    """Map each file that this process, a fork, has mapped for writing once more, privately.

    The addresses stay, so arrays don't notice. From now on, what this process and its children
    write stays in their own memory.
    """
    map_ = ctypes.CDLL(None).mmap
    map_.restype = ctypes.c_void_p
    map_.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    for start, size, offset, path in _mappings():
        with suppress(OSError):
            file = os.open(path, os.O_RDONLY)
            rights, how = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | _FIXED
            map_(start, size, rights, how, file, offset)
            os.close(file)


def _mappings() -> list[tuple[int, int, int, str]]:
    # Return [address, bytes, offset in the file, path] of each shared and writable mapping of a
    # file that has a name.
    found = []
    with suppress(OSError), open("/proc/self/maps", errors="replace") as maps:
        for line in maps:
            addresses, rights, offset, _, inode, *name = line.rstrip("\n").split(maxsplit=5)
            path = "".join(name)
            if not rights.startswith("rw") or rights[3] != "s" or path.startswith(_EXCHANGE):
                continue
            with suppress(OSError):  # it has no name, or no longer
                if os.stat(path).st_ino == int(inode):
                    start, end = (int(each, 16) for each in addresses.split("-"))
                    found.append((start, end - start, int(offset, 16), path))
    return found
