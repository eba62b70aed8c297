"""Check that of the kills in a Linux kernel log, `kills` returns only those in our own cgroup."""

from __future__ import annotations

from dltutor.system.kernel_log import KernelLog, kills

# Records from /dev/kmsg (Linux 6.18), shortened.
KMSG = """\
4,812,9;pt_data_worker invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=500
6,813,9;memory: usage 307200kB, limit 307200kB, failcnt 0
6,814,9;Memory cgroup stats for /session/dltutor-12:
6,815,9;oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/session/dltutor-12,task=pt_data_worker,pid=77
3,816,9;Memory cgroup out of memory: Killed process 77 (pt_data_worker) total-vm:861kB, anon-rss:2kB
 SUBSYSTEM=memory
6,817,9;oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/session/somebody-else,task=java,pid=78
3,818,9;Memory cgroup out of memory: Killed process 78 (java) total-vm:861180kB, anon-rss:216240kB
3,819,9;Out of memory: Killed process 79 (chromium) total-vm:861180kB, anon-rss:216240kB
"""


def test_only_the_kills_in_our_own_group_are_ours() -> None:
    (line,) = kills(KMSG, "dltutor-12")
    assert line.startswith("Memory cgroup out of memory: Killed process 77 (pt_data_worker) total-")


def test_a_group_whose_name_begins_alike_is_another() -> None:
    assert kills(KMSG, "dltutor-1") == []
    assert kills(KMSG, "dltutor-123") == []


def test_nothing_is_found_where_nothing_was_killed() -> None:
    assert KernelLog().kills("dltutor-0") in ([], None)  # None if we may not read the log
