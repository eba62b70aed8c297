"""Check that runs survive a full disk, a missing `/dev/shm`, and another run at the same time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

TESTS = Path(__file__).parents[1]

pytestmark = [
    pytest.mark.timeout(120, method="thread"),
    pytest.mark.usefixtures("nothing_left_behind"),
]


def start(script: str, mounts: str = "true", **names: object) -> subprocess.Popen[str]:
    """Start a script in a new interpreter, after mounts that only the script sees."""
    code = f"import sys; sys.path.insert(0, {str(TESTS)!r})\n" + dedent(script)
    shell = f'{mounts} && exec "$0" -c "$1"'
    alone = ["unshare", "--mount"] if mounts != "true" else []
    return subprocess.Popen(
        [*alone, "sh", "-c", shell, sys.executable, code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def printed(process: subprocess.Popen[str]) -> str:
    out, errors = process.communicate(timeout=100)
    assert process.returncode == 0, errors
    assert errors == ""
    return out


@pytest.fixture
def may_mount() -> None:
    command = ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    tried = subprocess.run(command, capture_output=True, text=True)
    if tried.returncode:
        pytest.skip(f"nothing can be mounted here: {tried.stderr.strip()}")


@pytest.fixture
def small_disk(may_mount: None, tmp_path: Path) -> str:
    """Return a command that mounts 64 kB of memory at a folder and makes the folder TMPDIR."""
    return f"mount -t tmpfs -o size=64k tmpfs {tmp_path} && export TMPDIR={tmp_path}"


NOISY = """
    import os, sys
    from datasets import Numbers, load
    from dltutor import observe

    def speak(*_):
        for _ in range(100):
            print("x" * 1023, file=sys.stderr)
"""


def test_where_the_disk_fills_up_the_workers_words_are_lost_and_the_run_is_not(
    small_disk: str,
) -> None:
    out = printed(
        start(
            NOISY
            + """
    seen = observe(load(Numbers(speak)))
    print(seen.end, seen.batches, 0 < len(seen.stderr) <= 65536, os.listdir(os.environ["TMPDIR"]))
    """,
            small_disk,
        )
    )
    assert out == "finished 8 True []\n"


def test_without_dev_shm_the_timeline_has_no_figure_and_the_machine_says_so(
    may_mount: None,
) -> None:
    # /mnt, mounted at /dev, hides /dev/shm.
    out = printed(
        start(
            """
    import math, os
    from datasets import Numbers, load
    from dltutor import machine, observe

    assert not os.path.exists("/dev/shm")
    seen = observe(load(Numbers(), num_workers=0))
    print(seen.end, all(math.isnan(each) for each in seen.timeline.shm), machine().shm)
    """,
            "mount -t tmpfs -o size=1m tmpfs /mnt && for each in null zero random urandom; do "
            "touch /mnt/$each && mount --bind /dev/$each /mnt/$each; done && "
            "mount --rbind /mnt /dev",
        )
    )
    assert out == "finished True None\n"


@pytest.mark.thorough  # two interpreters, twelve runs each
def test_two_notebooks_at_once_leave_each_other_alone() -> None:
    script = """
        import os
        import datasets, psutil
        from datasets import Numbers, load
        from dltutor import observe

        this = psutil.Process()
        observe(load(Numbers()))
        before = this.num_fds()
        troubles = [None, datasets.raise_error, datasets.killed, datasets.sleep_on]
        for i in range(12):
            seen = observe(load(Numbers(troubles[i % 4])), deadline=1 if i % 4 == 3 else 30)
            print(seen.end)
        mine = [name for name in os.listdir("/dev/shm") if f"_{os.getpid()}_" in name]
        print(len(this.children(recursive=True)), this.num_fds() - before, mine)
        """
    both = [start(script), start(script)]
    told = "finished\nraised\nworker died\nhung\n" * 3 + "0 0 []\n"
    assert [printed(each) for each in both] == [told, told]


def test_what_is_printed_is_checked(capfd: pytest.CaptureFixture[str]) -> None:
    failing: Callable[[], str] = lambda: printed(start("raise SystemExit('no')"))  # noqa: E731
    with pytest.raises(AssertionError, match="no"):
        failing()
