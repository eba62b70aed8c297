"""Give a fork its own view of mapped files, so that what it writes doesn't reach the files.

A fork inherits its parent's shared mappings, and what it writes there reaches the files. So if a
dataset changes the samples of a `np.memmap(mode="r+")` in place, a run in a fork would spoil the
file for its owner and for all later runs. Shared memory (`/dev/shm`, or a file without a name)
stays shared, because processes use it to exchange data.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import stat
import time
from contextlib import suppress
from typing import Any, Final

_EXCHANGE: Final = ("/dev/", "/memfd:")
_NO_RESERVE: Final = 0x4000  # MAP_NORESERVE (x86, ARM), because a file may be larger than memory
_IN_PLACE_OF: Final = 3  # MREMAP_MAYMOVE | MREMAP_FIXED in linux/mman.h
_FILES_CLOCK: Final = 5  # CLOCK_REALTIME_COARSE, with which Linux dates files; up to 4 ms late
_MOST: Final = 8  # the most mappings to keep, because each of them keeps a descriptor open
#: Matches a private mapping in /proc/self/smaps: its path, and how much of it has been written.
_ENTRY: Final = re.compile(
    r"^\S+ ...p \S+ \S+ \d+ +(/.*)\n(?:\w+:.*\n)*?Anonymous: +(\d+) kB", re.MULTILINE
)

_private: set[str] = set()  # the paths of the files that this module has mapped privately


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
                _private.add(path)


def keep_private() -> None:
    """Have Python code in this fork and its children map files privately from now on.

    This affects only shared writable mappings of files that were last changed before this call,
    because what code writes to a new file must reach the file. C code still makes shared mappings,
    and so does a new interpreter until it calls this function. An observed worker calls it if main
    has (see `is_kept_private`).

    If np.memmap maps a file a second time with mode="r+", it gets the first mapping, in which it
    finds what it wrote, as it would in the file. Other code gets a new mapping each time, because a
    mapping has a read position.
    """
    if is_kept_private():
        return
    since = time.clock_gettime(_FILES_CLOCK)
    mapped: dict[tuple[Any, ...], Private] = {}

    class Private(mmap.mmap):
        kept = False

        def __new__(cls, fileno: int, length: int, *given: Any, **options: Any) -> Any:
            path = "" if given else _older(fileno, since)
            if not path:
                return super().__new__(cls, fileno, length, *given, **options)
            _private.add(path)
            numpys = options.keys() == {"access", "offset"}  # np.memmap passes these two
            if options.get("access") == mmap.ACCESS_WRITE:
                options["access"] = mmap.ACCESS_COPY
                if numpys:
                    return cls._same(path, fileno, length, options)
            elif not options.get("access") and options.get("prot", mmap.PROT_WRITE) != (
                mmap.PROT_READ
            ):
                options["flags"] = mmap.MAP_PRIVATE
            return super().__new__(cls, fileno, length, **options)

        @classmethod
        def _same(cls, path: str, fileno: int, length: int, options: dict[str, Any]) -> Any:
            key = (path, os.fstat(fileno).st_ino, length, *options.items())
            found = mapped.pop(key, None)
            if found is None:
                found = super().__new__(cls, fileno, length, **options)
                found.kept = True
            mapped[key] = found
            if len(mapped) > _MOST:
                del mapped[next(iter(mapped))]
            return found

        def close(self) -> None:
            if not self.kept:
                super().close()

        def __exit__(self, *_: object) -> None:
            self.close()

    mmap.mmap = Private  # type: ignore[misc]


def is_kept_private() -> bool:
    """Return whether this process, or a process that it was forked from, called `keep_private`."""
    return hasattr(mmap.mmap, "kept")  # an attribute of `Private`


def written() -> list[str]:
    """Return the paths of files that this process would have changed through shared mappings.

    Only mappings count that `make_private` or `keep_private` has made private.
    """
    if not _private:
        return []
    with suppress(OSError), open("/proc/self/smaps", errors="replace") as maps:
        found = {path for path, anonymous in _ENTRY.findall(maps.read()) if int(anonymous)}
        return sorted(found & _private)
    return []


def _older(descriptor: int, since: float) -> str:
    # Return the path of a file that was last changed before `since`, or "" for any other file.
    with suppress(OSError):
        found = os.fstat(descriptor)
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        named = stat.S_ISREG(found.st_mode) and found.st_nlink > 0
        if named and not path.startswith(_EXCHANGE) and found.st_mtime < since:
            return path
    return ""


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
