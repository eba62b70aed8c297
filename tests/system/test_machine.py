"""Check that `machine()` agrees with the operating system, and that its story has each figure."""

from __future__ import annotations

import math
import multiprocessing
import os
import resource
import sys
from dataclasses import replace

import psutil
import pytest
import torch
from fresh_interpreter import run_fresh

from dltutor.observation import Machine, machine
from dltutor.system import cgroup_files
from dltutor.tables import size

THIS = Machine(
    cores=2,
    cpu_quota=None,
    memory=24 << 30,
    memory_limit=None,
    shm=64 << 20,
    open_files=1024,
    start_method="fork",
    c_library="glibc 2.36",
    system="Linux",
    python="3.11.7",
    torch="2.13.0",
    root=False,
)


def test_it_agrees_with_the_system() -> None:
    seen = machine()
    assert seen.memory == psutil.virtual_memory().total
    assert seen.open_files == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert 1 <= seen.cores <= (os.cpu_count() or 1)
    assert seen.python == ".".join(map(str, sys.version_info[:3]))
    assert torch.__version__.startswith(seen.torch)
    assert seen.root == (os.geteuid() == 0)
    assert seen.memory_limit is None or 0 < seen.memory_limit < seen.memory
    assert seen.start_method in multiprocessing.get_all_start_methods()
    if os.path.isdir("/dev/shm"):
        status = os.statvfs("/dev/shm")
        assert seen.shm == status.f_blocks * status.f_frsize


def test_it_sees_changes_fixes_no_start_method_and_needs_no_torch() -> None:
    done = run_fresh(
        """
        import multiprocessing, os, resource, sys
        from dltutor.system.this_machine import machine
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, most))
        assert (machine().cores, machine().open_files) == (1, 200)
        assert multiprocessing.get_start_method(allow_none=True) is None
        multiprocessing.set_start_method("spawn")
        assert machine().start_method == "spawn"
        print(machine().torch, "torch" in sys.modules)
        """
    )
    assert done.stdout == f"{torch.__version__.partition('+')[0]} False\n"


def test_limits_of_the_cgroup_are_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup_files, "cpu_quota", lambda: 1.5)
    monkeypatch.setattr(cgroup_files, "memory", lambda: ("", 1 << 20))
    assert (machine().cpu_quota, machine().memory_limit) == (1.5, 1 << 20)
    monkeypatch.setattr(cgroup_files, "memory", lambda: ("", 1 << 60))
    assert machine().memory_limit is None
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    monkeypatch.setattr(resource, "getrlimit", lambda which: unlimited)
    assert machine().open_files is None


def test_the_story_names_every_figure_and_is_the_same_in_text_and_html() -> None:
    assert str(THIS) == repr(THIS)
    for figure in ("2", "24 GB", "64 MB", "1024", "fork", "glibc 2.36", "2.13.0"):
        assert figure in str(THIS) and figure in THIS._repr_html_()
    rows = dict(THIS.story().rows)
    bound = dict(replace(THIS, cpu_quota=0.5, memory_limit=2 << 30).story().rows)
    assert bound["cores"].startswith("2") and "0.5" in bound["cores"] and rows["cores"] == "2"
    assert bound["memory"].startswith("24 GB") and "2 GB" in bound["memory"]
    bare = dict(replace(THIS, shm=None, c_library="", open_files=None).story().rows)
    assert (bare["/dev/shm"], bare["system"]) == ("none", "Linux")
    assert "no limit" in bare["open files"]


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 kB"),
        (1536, "1.5 kB"),
        (64 << 20, "64 MB"),
        (int(1.5 * (1 << 30)), "1.5 GB"),
        (25_333_112_832, "24 GB"),
        (5 << 40, "5120 GB"),
        (math.inf, "unlimited"),
    ],
)
def test_sizes_are_written_as_people_do(count: float, text: str) -> None:
    assert size(count) == text
