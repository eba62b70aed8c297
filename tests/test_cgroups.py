"""The memory cgroup: version 1 on the real kernel where it permits, version 2 by its files."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dltutor.system import cgroups

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
    """A root folder with what a process reads of its cgroups."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/mountinfo").write_text(mounts)
    (root / "proc/self/cgroup").write_text(own)
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


UNIFIED = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
APPS = "sys/fs/cgroup/user.slice/user@1000.service/app.slice"


def test_version_2_makes_its_group_where_the_memory_controller_is_handed_down(
    tmp_path: Path,
) -> None:
    root = tree(
        tmp_path,
        mounts=UNIFIED,
        own="0::/user.slice/user@1000.service/app.slice/jupyter.scope\n",
        files={
            f"{APPS}/cgroup.subtree_control": "cpu memory pids\n",
            f"{APPS}/jupyter.scope/cgroup.subtree_control": "\n",
        },
    )
    group = cgroups.make(300 * MB, root=str(root))
    assert group.version == 2
    assert group.folder == root / APPS / f"dltutor-{os.getpid()}"
    assert (group.folder / "memory.max").read_text() == str(300 * MB)


def test_version_2_counts_the_kills_of_its_own_events(tmp_path: Path) -> None:
    events = "low 0\nhigh 0\nmax 37\noom 2\noom_kill 2\noom_group_kill 0\n"
    (tmp_path / "memory.events").write_text(events)
    (tmp_path / "memory.peak").write_text("314572800\n")
    group = cgroups.Group(tmp_path, 2)
    assert group.kills == 2
    assert group.peak == 300 * MB


def test_version_2_that_hands_no_memory_controller_down_permits_no_group(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        mounts=UNIFIED,
        own="0::/\n",
        files={"sys/fs/cgroup/cgroup.subtree_control": "cpu\n"},
    )
    with pytest.raises(OSError, match="no memory cgroup"):
        cgroups.make(300 * MB, root=str(root))
    assert not list(root.rglob("dltutor-*"))


def test_a_memory_controller_of_version_1_is_used_beside_an_empty_version_2(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        mounts="35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
        own="4:memory:/session\n0::/\n",
        files={
            "sys/fs/cgroup/memory/session/cgroup.procs": "",
            "sys/fs/cgroup/unified/cgroup.subtree_control": "",
        },
    )
    group = cgroups.make(300 * MB, root=str(root))
    assert group.version == 1
    assert group.folder == root / f"sys/fs/cgroup/memory/session/dltutor-{os.getpid()}"
    assert (group.folder / "memory.limit_in_bytes").read_text() == str(300 * MB)


def test_a_container_finds_its_own_group_where_the_mount_begins(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        mounts="35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
        own="4:memory:/docker/abc\n",
        files={"sys/fs/cgroup/memory/cgroup.procs": ""},
    )
    group = cgroups.make(300 * MB, root=str(root))
    assert group.folder == root / f"sys/fs/cgroup/memory/dltutor-{os.getpid()}"


def test_a_machine_without_cgroups_says_so(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no memory cgroup"):
        cgroups.make(300 * MB, root=str(tmp_path))
