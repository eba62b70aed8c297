"""Check that runs survive a full disk, a missing `/dev/shm`, and another run at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import mounting
import pytest
from fresh_interpreter import run_fresh

pytestmark = pytest.mark.usefixtures("nothing_left_behind")


def printed(script: str, mounts: str = "") -> str:
    """Run a script, after mounts that only the script sees, and return what it prints."""
    alone = ["unshare", "--mount", "sh", "-c", f'{mounts} && exec "$0" "$@"'] if mounts else []
    done = run_fresh(script, before=alone)
    assert done.stderr == ""
    return done.stdout


may_mount = pytest.mark.skipif(bool(mounting.why_not()), reason=mounting.why_not())


@may_mount
def test_where_the_disk_fills_up_the_workers_words_are_lost_and_the_run_is_not(
    tmp_path: Path,
) -> None:
    script = """
        import os, sys
        from small_datasets import Numbers, load
        from dltutor import observe

        def speak(*_):
            for _ in range(100):
                print("x" * 1023, file=sys.stderr)

        seen = observe(load(Numbers(speak)))
        print(seen.end, seen.batches, 0 < len(seen.stderr) <= 65536)
        print(os.listdir(os.environ["TMPDIR"]))
        """
    mounts = f"mount -t tmpfs -o size=64k tmpfs {tmp_path} && export TMPDIR={tmp_path}"
    assert printed(script, mounts) == "finished 8 True\n[]\n"


@may_mount
def test_without_dev_shm_the_timeline_has_no_figure_and_the_machine_says_so() -> None:
    script = """
        import math, os
        from small_datasets import Numbers, load
        from dltutor import machine, observe

        assert not os.path.exists("/dev/shm")
        seen = observe(load(Numbers(), num_workers=0))
        print(seen.end, all(math.isnan(each) for each in seen.timeline.shm), machine().shm)
        """
    # /mnt, mounted at /dev, hides /dev/shm.
    mounts = "mount -t tmpfs -o size=1m tmpfs /mnt && for each in null zero random urandom; do "
    mounts += "touch /mnt/$each && mount --bind /dev/$each /mnt/$each; done && "
    mounts += "mount --rbind /mnt /dev"
    assert printed(script, mounts) == "finished True None\n"


@pytest.mark.thorough  # it starts two interpreters, each with 13 runs
def test_two_notebooks_at_once_leave_each_other_alone() -> None:
    script = """
        import os
        import psutil
        from small_datasets import Numbers, killed, load, raise_error, sleep_on
        from dltutor import observe

        this = psutil.Process()
        observe(load(Numbers()))
        before = this.num_fds()
        troubles = [None, raise_error, killed, sleep_on]
        for i in range(12):
            seen = observe(load(Numbers(troubles[i % 4])), deadline=1 if i % 4 == 3 else 30)
            print(seen.end)
        mine = [name for name in os.listdir("/dev/shm") if f"_{os.getpid()}_" in name]
        print(len(this.children(recursive=True)), this.num_fds() - before, mine)
        """
    told = "finished\nraised\nworker died\nhung\n" * 3 + "0 0 []\n"
    with ThreadPoolExecutor(2) as both:
        assert list(both.map(printed, [script, script])) == [told, told]
