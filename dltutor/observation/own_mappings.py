"""Give a fork its own view of mapped files, so that what it writes doesn't reach the files.

A fork shares each writable mapping of a file with its parent. So if a dataset changes the samples
of a `np.memmap(mode="r+")` in place, a run in a fork would spoil the file for its owner and for all
later runs. Shared memory (`/dev/shm`, or a file without a name) stays shared, because processes use
it to exchange data.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import stat
import time
from contextlib import suppress
from typing import Any, Final, Self

_EXCHANGE: Final = ("/dev/", "/memfd:")
_NO_RESERVE: Final = 0x4000  # MAP_NORESERVE (x86, ARM), because a file may be larger than memory
_IN_PLACE_OF: Final = 3  # MREMAP_MAYMOVE | MREMAP_FIXED in linux/mman.h


def make_private() -> None:
    """Replace this fork's shared writable mappings of files with private mappings.

    The addresses stay the same, so arrays stay valid. From now on, what this process and its
    children write there stays in their own memory. A file that can't be opened and mapped again
    keeps its shared mapping.
    """
    mappings = _mappings()
    if not mappings:
        return
    libc = ctypes.CDLL(None)
    address, size_t, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    libc.mmap.argtypes = [address, size_t, number, number, number, ctypes.c_long]
    libc.mremap.argtypes = [address, size_t, size_t, number, address]
    libc.mmap.restype = libc.mremap.restype = ctypes.c_ssize_t
    rights, how = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | _NO_RESERVE
    for start, size, offset, path in mappings:
        with suppress(OSError):
            file = os.open(path, os.O_RDONLY)
            # Map the file elsewhere first. If that fails, the shared mapping is still in place.
            private = libc.mmap(None, size, rights, how, file, offset)
            os.close(file)
            if private != -1:
                libc.mremap(private, size, size, _IN_PLACE_OF, start)


def keep_private() -> None:
    """Have Python code in this fork and its children map files privately from now on.

    This affects only shared writable mappings of files that were last changed before this call,
    because code that makes a file has to see what it writes. C code, and a new interpreter such as
    a spawned worker, still make shared mappings.
    """
    since = time.time()

    class Private(mmap.mmap):
        def __new__(cls, fileno: int, length: int, *given: Any, **options: Any) -> Self:
            if not given and _is_older(fileno, since):
                if options.get("access") == mmap.ACCESS_WRITE:
                    options["access"] = mmap.ACCESS_COPY
                elif not options.get("access") and options.get("prot", mmap.PROT_WRITE) != (
                    mmap.PROT_READ
                ):
                    options["flags"] = mmap.MAP_PRIVATE
            return super().__new__(cls, fileno, length, *given, **options)

    mmap.mmap = Private  # type: ignore[misc]


def _is_older(descriptor: int, since: float) -> bool:
    with suppress(OSError):
        found = os.fstat(descriptor)
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        named = stat.S_ISREG(found.st_mode) and found.st_nlink > 0
        return named and not path.startswith(_EXCHANGE) and found.st_mtime < since
    return False


def _mappings() -> list[tuple[int, int, int, str]]:
    # Return the address, the size in bytes, the offset in the file, and the path of each shared and
    # writable mapping of a file that has a name.
    found = []
    with suppress(OSError), open("/proc/self/maps", errors="replace") as maps:
        for line in maps:
            addresses, rights, offset, _, inode, *name = line.rstrip("\n").split(maxsplit=5)
            path = "".join(name)
            if not rights.startswith("rw") or rights[3] != "s" or path.startswith(_EXCHANGE):
                continue
            with suppress(OSError):  # the file has no name, or has lost its name
                if os.stat(path).st_ino == int(inode):
                    start, end = (int(each, 16) for each in addresses.split("-"))
                    found.append((start, end - start, int(offset, 16), path))
    return found
