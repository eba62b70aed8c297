"""Put back what a fork writes into the files that this process maps for writing.

A fork shares such a mapping with its parent, so a dataset that changes the samples of a
`np.memmap(mode="r+")` in place also changes the file. An experiment would then spoil the file for
its user and for all later experiments.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from dltutor.tables import MB

_MOST: Final = 64 * MB  # the most bytes to remember, all files together
_NO_FILES: Final = ("/dev/", "/memfd:")  # shared memory, which processes use to exchange data

#: File and offset -> the content that is mapped there.
Contents = dict[tuple[str, int], bytes]


def contents() -> Contents:
    """Return what the files hold that this process maps for writing, up to 64 MB."""
    found: Contents = {}
    left = _MOST
    for path, offset, size in _mappings():
        if size <= left and (content := _read(path, offset, size)):
            found[path, offset] = content
            left -= size
    return found


def put_back(before: Mapping[tuple[str, int], bytes]) -> None:
    """Write the contents that `contents` returned into their files again, if they've changed."""
    for (path, offset), content in before.items():
        if _read(path, offset, len(content)) not in (content, b""):
            with suppress(OSError):
                file = os.open(path, os.O_WRONLY)
                try:
                    os.pwrite(file, content, offset)
                finally:
                    os.close(file)


def _mappings() -> list[tuple[str, int, int]]:
    # Return [file, offset, bytes] of each shared and writable mapping of a file with a name.
    found = []
    with suppress(OSError), open("/proc/self/maps", errors="replace") as maps:
        for line in maps:
            addresses, rights, offset, _, inode, *name = line.rstrip("\n").split(maxsplit=5)
            path = "".join(name)
            if rights[1] != "w" or rights[3] != "s" or inode == "0" or path.startswith(_NO_FILES):
                continue
            with suppress(OSError):  # the file was deleted, or the name can't be read
                if os.stat(path).st_ino == int(inode):
                    start, _, end = addresses.partition("-")
                    found.append((path, int(offset, 16), int(end, 16) - int(start, 16)))
    return found


def _read(path: str, offset: int, size: int) -> bytes:
    with suppress(OSError):
        file = os.open(path, os.O_RDONLY)
        try:
            return os.pread(file, size, offset)
        finally:
            os.close(file)
    return b""
