"""The memory cgroup: on the real kernel where it permits, both versions by their files.

`scripts/cgroup_v2.py` runs it on a kernel with version 2.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dltutor.system import cgroup_files, cgroups

MB = 1 << 20


@pytest.fixture
def group() -> Iterator[cgroups.Group]:
    """A real group of 64 MB."""
    cgroups.remove_abandoned()
    try:
        made = cgroups.make(64 * MB)
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error}")
    yield made
    made.remove()


def command(folder: Path, code: str) -> list[str]:
    """Run Python code in a group."""
    enter = f"open({str(folder / 'cgroup.procs')!r}, 'w').write('0')\n"
    return [sys.executable, "-c", enter + code]


# --- on the real kernel


def test_a_process_that_takes_more_than_its_group_may_is_killed_and_counted(
    group: cgroups.Group,
) -> None:
    done = subprocess.run(command(group.folder, f"bytearray(b'x') * {200 * MB}"), timeout=30)
    assert done.returncode == -9
    assert group.kills == 1
    assert 60 * MB < group.peak <= 64 * MB


def test_a_process_that_takes_less_lives(group: cgroups.Group) -> None:
    done = subprocess.run(command(group.folder, f"bytearray(b'x') * {16 * MB}"), timeout=30)
    assert done.returncode == 0
    assert group.kills == 0
    assert 16 * MB < group.peak < 64 * MB


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


# --- on files that look like a kernel's


def tree(root: Path, *, mounts: str, own: str, files: dict[str, str]) -> Path:
    """A folder with what a process reads of its cgroups; returns its /proc."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/mountinfo").write_text(mounts.replace("/sys/fs", f"{root}/sys/fs"))
    (root / "proc/self/cgroup").write_text(own)
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root / "proc"


UNIFIED = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
APPS = "sys/fs/cgroup/user.slice/user@1000.service/app.slice"


def test_version_2_makes_its_group_where_the_memory_controller_is_handed_down(
    tmp_path: Path,
) -> None:
    proc = tree(
        tmp_path,
        mounts=UNIFIED,
        own="0::/user.slice/user@1000.service/app.slice/jupyter.scope\n",
        files={
            f"{APPS}/cgroup.subtree_control": "cpu memory pids\n",
            f"{APPS}/jupyter.scope/cgroup.subtree_control": "\n",
        },
    )
    group = cgroups.make(300 * MB, proc=str(proc))
    assert group.version == 2
    assert group.folder == tmp_path / APPS / f"dltutor-{os.getpid()}"
    assert (group.folder / "memory.max").read_text() == str(300 * MB)


def test_version_2_counts_the_kills_of_its_own_events(tmp_path: Path) -> None:
    events = "low 0\nhigh 0\nmax 37\noom 2\noom_kill 2\noom_group_kill 0\n"
    (tmp_path / "memory.events").write_text(events)
    (tmp_path / "memory.peak").write_text("314572800\n")
    group = cgroups.Group(tmp_path, 2)
    assert group.kills == 2
    assert group.peak == 300 * MB


def test_version_2_that_hands_no_memory_controller_down_permits_no_group(tmp_path: Path) -> None:
    proc = tree(
        tmp_path,
        mounts=UNIFIED,
        own="0::/\n",
        files={"sys/fs/cgroup/cgroup.subtree_control": "cpu\n"},
    )
    with pytest.raises(OSError, match="hands its memory controller down"):
        cgroups.make(300 * MB, proc=str(proc))
    assert not list(tmp_path.rglob("dltutor-*"))


def test_a_memory_controller_of_version_1_is_used_beside_an_empty_version_2(tmp_path: Path) -> None:
    proc = tree(
        tmp_path,
        mounts="35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
        own="4:memory:/session\n0::/\n",
        files={
            "sys/fs/cgroup/memory/session/cgroup.procs": "",
            "sys/fs/cgroup/unified/cgroup.subtree_control": "",
        },
    )
    group = cgroups.make(300 * MB, proc=str(proc))
    assert group.version == 1
    assert group.folder == tmp_path / f"sys/fs/cgroup/memory/session/dltutor-{os.getpid()}"
    assert (group.folder / "memory.limit_in_bytes").read_text() == str(300 * MB)


def test_a_container_finds_its_own_group_where_the_mount_begins(tmp_path: Path) -> None:
    proc = tree(
        tmp_path,
        mounts="35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
        own="4:memory:/docker/abc\n",
        files={"sys/fs/cgroup/memory/cgroup.procs": ""},
    )
    group = cgroups.make(300 * MB, proc=str(proc))
    assert group.folder == tmp_path / f"sys/fs/cgroup/memory/dltutor-{os.getpid()}"


def test_a_machine_without_cgroups_says_so(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no memory cgroup"):
        cgroups.make(300 * MB, proc=str(tmp_path))


# --- what the files say


V1 = (
    "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "36 31 0:33 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
)
INNER, OUTER = "outer/inner", "outer"


def memory_tree(root: Path, version: int, limits: dict[str, str], stat: str = "") -> str:
    """Groups in which 500 bytes are charged, with these limits, and a process in the inner one."""
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
    ],
)
def test_the_quota_of_version_2_is_the_lowest_of_the_groups_around(
    tmp_path: Path, files: dict[str, str], quota: float | None
) -> None:
    given = {f"sys/fs/cgroup/{name}": f"{text}\n" for name, text in files.items()}
    proc = tree(tmp_path, mounts=UNIFIED, own=f"0::/{INNER}\n", files=given)
    assert cgroup_files.cpu_quota(proc=str(proc)) == quota


@pytest.mark.parametrize(("text", "quota"), [("50000", 0.5), ("-1", None)])
def test_the_quota_of_version_1_is_found_where_it_is_mounted(
    tmp_path: Path, text: str, quota: float | None
) -> None:
    folder = "sys/fs/cgroup/cpu,cpuacct"
    files = {f"{folder}/cpu.cfs_quota_us": text, f"{folder}/cpu.cfs_period_us": "100000"}
    proc = tree(tmp_path, mounts=V1, own="3:cpu,cpuacct:/\n0::/\n", files=files)
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


def test_a_mount_point_with_a_space_in_its_name_is_found(tmp_path: Path) -> None:
    mounts = f"29 23 0:26 / {tmp_path}/my\\040groups rw - cgroup2 cgroup2 rw\n"
    proc = tree(tmp_path, mounts=mounts, own="0::/\n", files={"my groups/memory.current": "1"})
    assert cgroup_files.groups("memory", proc=str(proc)) == [(f"{tmp_path}/my groups", 2)]


def test_a_group_that_is_not_seen_from_a_container_is_where_the_mount_begins(
    tmp_path: Path,
) -> None:
    for own in ("0::/docker/abc\n", "0::/../../init.scope\n"):
        root = tmp_path / own.strip().replace("/", "-")
        files = {"sys/fs/cgroup/memory.current": "1"}
        proc = tree(root, mounts=UNIFIED, own=own, files=files)
        assert cgroup_files.groups("memory", proc=str(proc)) == [(f"{root}/sys/fs/cgroup", 2)]
