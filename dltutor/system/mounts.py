"""A small `/dev/shm` of one's own, in a mount namespace. Linux only."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from pathlib import Path
from typing import Final

_NEW_MOUNTS: Final = 0x00020000  # CLONE_NEWNS and CLONE_NEWUSER of linux/sched.h
_NEW_USER: Final = 0x10000000
_NOSUID_NODEV: Final = 2 | 4  # MS_* of linux/mount.h
_REC_PRIVATE: Final = 1 << 14 | 1 << 18


def own_shm(size: int) -> None:
    """Mount a `/dev/shm` that this process and its children alone see, and that ends with them.

    A user namespace gives a process the right to mount if it lacks that. In it, the process keeps
    its user and group, and nothing outside sees a difference. Call this in a process with a single
    thread, before `exec`, which takes the right away again.

    Args:
        size: Bytes.

    Raises:
        OSError: The system does not permit it, or has no `/dev/shm`.
    """
    if not sys.platform.startswith("linux"):
        raise OSError(f"{sys.platform} has no mount namespaces")
    shm = os.path.realpath("/dev/shm", strict=True)
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.geteuid(), os.getegid()
    if libc.unshare(_NEW_MOUNTS) != 0:
        _check(libc.unshare(_NEW_USER | _NEW_MOUNTS), "unshare")
        _keep_ids(user, group)
    # What is mounted here must not appear outside. In a chroot, / may not be a mount, and the call
    # fails with EINVAL. Then it's enough to do it for the mount that will be covered.
    private = ctypes.c_ulong(_REC_PRIVATE)
    if libc.mount(b"none", b"/", None, private, None) != 0:
        _check(libc.mount(b"none", shm.encode(), None, private, None), "mount")
    options = f"size={size},mode=1777".encode()
    flags = ctypes.c_ulong(_NOSUID_NODEV)
    _check(libc.mount(b"tmpfs", shm.encode(), b"tmpfs", flags, options), "mount")


def _keep_ids(user: int, group: int) -> None:
    # In the new namespace, files belong to `nobody` until ids are mapped to those outside. Without
    # privileges, a group can be mapped only after the first line.
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
            why = "neither / nor /dev/shm is a mount of its own, as it happens in a chroot"
        raise OSError(number, f"{call}: {why}")
