"""Check `confine()` and `cgroups.make` on Linux with cgroup version 2.

On other machines, for users other than root, and where no cgroup can be made, the tests are
skipped. `scripts/cgroup_v2.py` boots a Linux with version 2 and runs this file there.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import confined_cases
import pytest
import unprivileged

from dltutor.observation.confinement.confining import confine
from dltutor.system import cgroup_files, cgroups

MB = 1 << 20
ROOT = Path("/sys/fs/cgroup")
VERSIONS = {version for _, version in cgroup_files.groups("memory")}

pytestmark = [
    pytest.mark.timeout(600, method="thread"),
    pytest.mark.skipif({2} != VERSIONS, reason="the memory controller is not one of version 2"),
    pytest.mark.skipif(os.geteuid() != 0, reason="makes groups beside its own"),
]

GREEDY = f"rows = [bytearray(b'x') * {MB} for _ in range(500)]"
SECONDS = 200  # an emulated machine is slow


@pytest.fixture(autouse=True)
def permitted() -> None:
    try:
        cgroups.make(64 * MB).remove()
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error}")


@pytest.fixture
def greedy() -> Iterator[Path]:
    """Write a script that takes 500 MB, and yield its path. Any user may read the script."""
    with TemporaryDirectory(prefix="c-", dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        script = Path(folder) / "greedy.py"
        script.write_text(GREEDY)
        yield script


@pytest.fixture
def tree() -> Iterator[Path]:
    """Make a cgroup at the root, with another one called "inside", and yield the outer folder."""
    folder = ROOT / f"test-{os.getpid()}"  # tests that run in parallel share the root
    (folder / "inside").mkdir(parents=True)
    yield folder
    for each in (*folder.glob("*/"), folder):
        with suppress(OSError):
            each.rmdir()


def test_a_script_is_killed_at_its_limit_and_nothing_of_it_is_swapped_out(greedy: Path) -> None:
    seen = confine(greedy, memory="100M", deadline=SECONDS)
    print(f"{seen}\n{seen.confinement}")
    assert seen.end == "main died"
    assert str(seen).startswith("Main died: killed by SIGKILL (exit code -9)\n")
    by = seen.confinement
    assert by is not None and not by.stand_in
    assert "with a cgroup (version 2)" in by.limits[0]
    assert by.oom_kills == 1
    if by.peak is not None:  # Linux has memory.peak from 5.19 on
        assert 95 * MB < by.peak <= 100 * MB


def test_a_worker_is_killed_at_the_limit_and_the_kernel_s_line_names_it() -> None:
    seen = confine(confined_cases.growing, memory="400M", deadline=SECONDS)
    print(f"{seen}\n{seen.confinement}")
    assert seen.end == "worker died", seen
    assert (seen.workers[0].name, seen.workers[0].signal) == ("W0", "SIGKILL")
    assert seen.confinement is not None
    assert seen.confinement.oom_kills == 1
    (line,) = seen.confinement.kernel_log or ()
    assert line.startswith("Memory cgroup out of memory: Killed process W0 (pt_data_worker)")


def test_the_group_has_its_limit_and_no_swap() -> None:
    group = cgroups.make(64 * MB)
    try:
        assert group.version == 2
        assert cgroup_files.number(f"{group.folder}/memory.max") == 64 * MB
        if "Swap" in Path("/proc/swaps").read_text():
            assert cgroup_files.number(f"{group.folder}/memory.swap.max") == 0
    finally:
        group.remove()
    assert not group.folder.exists()


def test_in_a_tree_that_was_delegated_to_a_user_the_user_needs_no_root(
    greedy: Path, tree: Path
) -> None:
    (tree / "cgroup.subtree_control").write_text("+memory")
    for name in ("", "cgroup.procs", "cgroup.subtree_control"):
        os.chown(tree / name, unprivileged.NOBODY, unprivileged.NOBODY)
    code = f"""
import json
from dltutor.observation.confinement.confining import confine
seen = confine({str(greedy)!r}, memory="100M", deadline={SECONDS})
print(json.dumps([seen.end, seen.confinement.limits[0], seen.confinement.oom_kills]))
"""
    with TemporaryDirectory() as hidden:  # only root may be allowed to read the interpreter
        as_user = f"unshare --mount sh -euc {shlex.quote(unprivileged.opened_to_all(hidden))}"
        enter = f"echo $$ > {tree}/inside/cgroup.procs"
        script = f'{enter}; exec {as_user} {sys.executable} -B -c "$0"'
        done = subprocess.run(
            ["sh", "-euc", script, code], capture_output=True, text=True, timeout=SECONDS
        )
    assert done.returncode == 0, done.stderr
    end, limit, oom_kills = json.loads(done.stdout)
    assert (end, oom_kills) == ("main died", 1)
    assert "with a cgroup (version 2)" in limit
    assert not list(tree.glob("dltutor-*"))
