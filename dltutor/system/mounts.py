"""Give a process its own small `/dev/shm`, in a mount namespace (Linux)."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from pathlib import Path
from typing import Final

_NEW_MOUNTS: Final = 0x00020000  # CLONE_NEWNS in linux/sched.h
_NEW_USER: Final = 0x10000000  # CLONE_NEWUSER in linux/sched.h
_NOSUID_NODEV: Final = 2 | 4  # MS_NOSUID and MS_NODEV in linux/mount.h
_REC_PRIVATE: Final = 1 << 14 | 1 << 18  # MS_REC and MS_PRIVATE in linux/mount.h


def own_shm(size: int) -> None:
    """Mount a `/dev/shm` of `size` bytes that only this process and its later children see.

    A process without the right to mount gets that right in a new user namespace, and keeps its user
    and group there. Unless its user is root, the process loses the right again at the next `exec`,
    but keeps the mount, which lasts until all these processes end. Call this function from a
    process with a single thread.

    Raises:
        OSError: The system isn't Linux, has no `/dev/shm`, or doesn't permit the mount.
    """
    if not sys.platform.startswith("linux"):
        raise OSError(f"{sys.platform} has no mount namespaces")
    shm = os.path.realpath("/dev/shm", strict=True)
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.geteuid(), os.getegid()
    if libc.unshare(_NEW_MOUNTS) != 0:
        _check(libc.unshare(_NEW_USER | _NEW_MOUNTS), "unshare")
        _keep_ids(user, group)
    # Make all mounts private, so that the new mount doesn't appear outside. If / isn't a mount
    # point, such as in a chroot, the first call fails with EINVAL. Then it's enough to make the
    # mount at /dev/shm private.
    private = ctypes.c_ulong(_REC_PRIVATE)
    if libc.mount(b"none", b"/", None, private, None) != 0:
        _check(libc.mount(b"none", shm.encode(), None, private, None), "mount")
    options = f"size={size},mode=1777".encode()
    flags = ctypes.c_ulong(_NOSUID_NODEV)
    _check(libc.mount(b"tmpfs", shm.encode(), b"tmpfs", flags, options), "mount")


def _keep_ids(user: int, group: int) -> None:
    # In the new namespace, files belong to `nobody` until we map the ids inside to the ids outside.
    # A process without privileges can map a group only after it has written "deny" to setgroups.
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def _check(result: int, call: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        why = os.strerror(number)
        if call == "unshare" and number == errno.ENOSPC:
            why = "no more user namespaces are allowed"
        if call == "mount" and number == errno.EINVAL:
            why = "neither / nor /dev/shm is a mount point, which can happen in a chroot"
        raise OSError(number, f"{call}: {why}")
