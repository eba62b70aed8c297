"""Check real cgroups, if this machine permits any, and made-up files of versions 1 and 2.

`scripts/cgroup_v2.py` runs this file on a Linux with version 2.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from own_process import DEADLINE

from dltutor.system import cgroup_files, cgroups

MB = 1 << 20


@pytest.fixture
def group() -> Iterator[cgroups.Group]:
    """Make a real group with a limit of 64 MB."""
    cgroups.remove_abandoned()
    try:
        made = cgroups.make(64 * MB)
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error}")
    yield made
    made.remove()


def command(folder: Path, code: str) -> list[str]:
    """Return a command that runs Python code in a group."""
    enter = f"open({str(folder / 'cgroup.procs')!r}, 'w').write('0')\n"
    return [sys.executable, "-c", enter + code]


# --- on this machine


@pytest.mark.parametrize(("takes", "ends", "kills"), [(200 * MB, -9, 1), (16 * MB, 0, 0)])
def test_a_process_that_takes_more_than_its_group_may_is_killed_and_counted(
    takes: int, ends: int, kills: int, group: cgroups.Group
) -> None:
    done = subprocess.run(command(group.folder, f"bytearray(b'x') * {takes}"), timeout=DEADLINE)
    assert (done.returncode, group.kills) == (ends, kills)
    assert min(takes, 60 * MB) < group.peak <= 64 * MB


def test_removing_a_group_kills_what_is_in_it_and_in_groups_within(group: cgroups.Group) -> None:
    within = group.folder / "within"
    within.mkdir()
    code = "import time; print('in', flush=True); time.sleep(60)"
    with subprocess.Popen(command(within, code), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"in\n"
        group.remove()
        assert process.wait(10) == -9
    assert not group.folder.exists()


def test_a_group_whose_owner_is_gone_is_removed_and_one_whose_owner_lives_is_not(
    group: cgroups.Group,
) -> None:
    owner = subprocess.Popen([sys.executable, "-c", "pass"])
    owner.wait(30)
    abandoned = group.folder.with_name(f"dltutor-{owner.pid}")
    kept = group.folder.with_name(f"dltutor-{os.getppid()}")
    abandoned.mkdir()
    kept.mkdir()
    try:
        cgroups.remove_abandoned()
        assert not abandoned.exists()
        assert kept.exists()
    finally:
        kept.rmdir()


# --- making groups, on files that look like Linux's own


def tree(root: Path, *, mounts: str, own: str, files: dict[str, str]) -> Path:
    """Write the files that tell a process about its cgroups, and return the `proc` folder."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/mountinfo").write_text(mounts.replace("/sys/fs", f"{root}/sys/fs"))
    (root / "proc/self/cgroup").write_text(own)
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root / "proc"


UNIFIED = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
APPS = "sys/fs/cgroup/user.slice/user@1000.service/app.slice"


V1_MEMORY = "35 31 0:32 {} /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
EMPTY_V2 = "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"


@pytest.mark.parametrize(
    ("mounts", "own", "files", "version", "folder"),
    [
        # With version 2, a new group goes into the nearest group that delegates the memory
        # controller.
        (
            UNIFIED,
            "0::/user.slice/user@1000.service/app.slice/jupyter.scope\n",
            {
                f"{APPS}/cgroup.subtree_control": "cpu memory pids\n",
                f"{APPS}/jupyter.scope/cgroup.subtree_control": "\n",
            },
            2,
            APPS,
        ),
        # Version 1 has the memory controller. Version 2 is mounted, too, but has no controllers.
        (
            V1_MEMORY.format("/") + EMPTY_V2,
            "4:memory:/session\n0::/\n",
            {
                "sys/fs/cgroup/memory/session/cgroup.procs": "",
                "sys/fs/cgroup/unified/cgroup.subtree_control": "",
            },
            1,
            "sys/fs/cgroup/memory/session",
        ),
        # In a container, the mount point is the container's own group.
        (
            V1_MEMORY.format("/docker/abc"),
            "4:memory:/docker/abc\n",
            {"sys/fs/cgroup/memory/cgroup.procs": ""},
            1,
            "sys/fs/cgroup/memory",
        ),
    ],
)
def test_a_group_is_made_where_it_may_have_a_limit(
    mounts: str, own: str, files: dict[str, str], version: int, folder: str, tmp_path: Path
) -> None:
    proc = tree(tmp_path, mounts=mounts, own=own, files=files)
    group = cgroups.make(300 * MB, proc=str(proc))
    assert group.version == version
    assert group.folder == tmp_path / folder / f"dltutor-{os.getpid()}"
    file = {1: "memory.limit_in_bytes", 2: "memory.max"}[version]
    assert (group.folder / file).read_text() == str(300 * MB)


def test_where_none_may_be_made_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no memory cgroup"):
        cgroups.make(300 * MB, proc=str(tmp_path))
    files = {"sys/fs/cgroup/cgroup.subtree_control": "cpu\n"}
    proc = tree(tmp_path, mounts=UNIFIED, own="0::/\n", files=files)
    with pytest.raises(OSError, match="delegates its memory controller"):
        cgroups.make(300 * MB, proc=str(proc))
    assert not list(tmp_path.rglob("dltutor-*"))


def test_version_2_counts_the_kills_of_its_own_events(tmp_path: Path) -> None:
    events = "low 0\nhigh 0\nmax 37\noom 2\noom_kill 2\noom_group_kill 0\n"
    (tmp_path / "memory.events").write_text(events)
    (tmp_path / "memory.peak").write_text("314572800\n")
    group = cgroups.Group(tmp_path, 2)
    assert group.kills == 2
    assert group.peak == 300 * MB


# --- reading limits, on files that look like Linux's own


V1 = (
    "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "36 31 0:33 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
)
INNER, OUTER = "outer/inner", "outer"


def memory_tree(root: Path, version: int, limits: dict[str, str], stat: str = "") -> str:
    """Write the files of groups that use 500 bytes each and have these limits.

    Return the `proc` folder of a process in the inner group.
    """
    used, most = cgroup_files._MEMORY[version]
    base = "sys/fs/cgroup/memory" if version == 1 else "sys/fs/cgroup"
    files = {}
    for group, limit in limits.items():
        files |= {f"{base}/{group}/{used}": "500\n", f"{base}/{group}/{most}": f"{limit}\n"}
        files[f"{base}/{group}/memory.stat"] = stat
    own = f"4:memory:/{INNER}\n0::/\n" if version == 1 else f"0::/{INNER}\n"
    return str(tree(root, mounts=V1 if version == 1 else UNIFIED, own=own, files=files))


@pytest.mark.parametrize(("version", "unlimited"), [(1, "9223372036854771712"), (2, "max")])
def test_the_lowest_limit_of_the_groups_around_is_the_one_that_counts(
    tmp_path: Path, version: int, unlimited: str
) -> None:
    used = cgroup_files._MEMORY[version][0]
    for outer, inner, limit, of in [
        ("1000", "2000", 1000, OUTER),
        (unlimited, "2000", 2000, INNER),
        (unlimited, unlimited, None, INNER),
    ]:
        root = tmp_path / f"{outer}-{inner}"
        proc = memory_tree(root, version, {OUTER: outer, INNER: inner})
        file, found = cgroup_files.memory(proc=proc)
        assert found == limit
        assert file.endswith(f"/{of}/{used}")
        assert cgroup_files.memory_left(proc=proc) == (limit - 500 if limit else None)


@pytest.mark.parametrize(
    ("version", "stat"),
    [
        (2, "anon 5\ninactive_file 200\n"),
        (1, "inactive_file 7\ntotal_inactive_file 200\n"),
    ],
)
def test_cached_files_make_room(tmp_path: Path, version: int, stat: str) -> None:
    proc = memory_tree(tmp_path / "a", version, {OUTER: "1000"}, stat)
    assert cgroup_files.memory_left(proc=proc) == 700
    proc = memory_tree(tmp_path / "b", version, {OUTER: "400"}, "")
    assert cgroup_files.memory_left(proc=proc) == 0


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({"cpu.max": "150000 100000"}, 1.5),
        ({"cpu.max": "max 100000"}, None),
        ({"outer/inner/cpu.max": "200000 100000", "outer/cpu.max": "50000 100000"}, 0.5),
        ({"outer/inner/cpu.max": "50000 100000", "outer/cpu.max": "max 100000"}, 0.5),
        ({}, None),
        # With version 1, this process is in the group at the mount point.
        ({"cpu,cpuacct/cpu.cfs_quota_us": "50000", "cpu,cpuacct/cpu.cfs_period_us": "100000"}, 0.5),
        ({"cpu,cpuacct/cpu.cfs_quota_us": "-1", "cpu,cpuacct/cpu.cfs_period_us": "100000"}, None),
    ],
)
def test_the_quota_is_the_lowest_of_the_groups_around(
    tmp_path: Path, files: dict[str, str], quota: float | None
) -> None:
    first = "cpu,cpuacct/cpu.cfs_quota_us" in files
    proc = tree(
        tmp_path,
        mounts=V1 if first else UNIFIED,
        own="3:cpu,cpuacct:/\n0::/\n" if first else f"0::/{INNER}\n",
        files={f"sys/fs/cgroup/{name}": f"{text}\n" for name, text in files.items()},
    )
    assert cgroup_files.cpu_quota(proc=str(proc)) == quota


def test_what_cannot_be_read_bounds_nothing(tmp_path: Path) -> None:
    assert cgroup_files.groups("memory", proc=str(tmp_path)) == []
    assert cgroup_files.memory(proc=str(tmp_path)) == ("", None)
    assert cgroup_files.memory_left(proc=str(tmp_path)) is None
    assert cgroup_files.cpu_quota(proc=str(tmp_path)) is None
    assert cgroup_files.number(str(tmp_path)) is None
    assert cgroup_files.counts(str(tmp_path / "gone")) == {}
    (tmp_path / "odd").write_text("low\noom_kill many\nmax 3\n")
    assert cgroup_files.counts(str(tmp_path / "odd")) == {"max": 3}


@pytest.mark.parametrize(
    ("point", "own"),
    [
        ("my groups", "0::/"),  # a space is written as \040
        ("cgroup", "0::/docker/abc"),  # a container doesn't see this path
        ("cgroup", "0::/../../init.scope"),
    ],
)
def test_a_group_is_found_where_its_mount_begins(point: str, own: str, tmp_path: Path) -> None:
    mounts = f"29 23 0:26 / {tmp_path}/{point} rw - cgroup2 cgroup2 rw\n"
    files = {f"{point}/memory.current": "1"}
    proc = tree(tmp_path, mounts=mounts.replace("my ", "my\\040"), own=f"{own}\n", files=files)
    assert cgroup_files.groups("memory", proc=str(proc)) == [(f"{tmp_path}/{point}", 2)]
