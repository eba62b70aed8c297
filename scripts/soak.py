"""Observe hundreds of loaders in one kernel, with four kinds of endings, and count what's left.

    python scripts/soak.py [RUNS]        # default 300, which takes a few minutes

Every tenth run draws the live chart, and every thirtieth runs in `confine`. The exit code is 1 if
the number of processes, descriptors, `/dev/shm` entries, cgroups, mounts, or threads has changed,
if a signal handler has, or if the private memory of the kernel has grown by 10 MB or more.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import psutil
from IPython.display import clear_output
from jupyter_client.manager import start_new_kernel

SCRIPTS = Path(__file__).resolve().parent
sys.path.insert(0, str(SCRIPTS.parent / "tests"))

import confined_cases  # noqa: E402 - in tests/
from small_datasets import Numbers, killed, load, raise_error, sleep_on  # noqa: E402 - in tests/

from dltutor import confine, observe  # noqa: E402

ENDINGS: dict[str, Any] = {
    "finished": None,
    "raised": raise_error,
    "killed": killed,
    "hung": sleep_on,
}


def soak(runs: int) -> None:
    """Observe `runs` loaders here, print how they ended, and assert that nothing is left."""
    for i in range(40):
        run(i)  # after this, everything that Python, torch, and matplotlib keep forever is there
    before, private = belongings(), psutil.Process().memory_full_info().uss
    began = time.perf_counter()
    ends = Counter(run(i) for i in range(runs))
    after, grown = belongings(), (psutil.Process().memory_full_info().uss - private) / 2**20
    clear_output()
    for end, count in sorted(ends.items()):
        print(f"{count:5} {end}")
    for name, count in before.items():
        print(f"{name}: {count} before, {after[name]} after")
    seconds = time.perf_counter() - began
    print(f"private memory of the kernel: {grown:+.1f} MB in {seconds:.0f} s")
    assert after == before and grown < 10


def run(i: int) -> str:
    """Run loader number `i`, and return its expected and actual end, such as "hung: hung"."""
    if i % 30 == 29:
        return f"confine: {confine(confined_cases.modest, memory='1G', deadline=60).end}"
    end = list(ENDINGS)[i % 4]
    live = i % 10 == 5
    loader = load(Numbers(ENDINGS[end], at=i % 16))
    seen = observe(loader, deadline=0.5 if end == "hung" else 30, live=live)
    if live:
        plt.close("all")
        clear_output()
    return f"{'live: ' if live else ''}{end}: {seen.end}"


def belongings() -> dict[str, Any]:
    """Count what a run may leave behind in this process or on this machine, by kind.

    The signal handlers aren't counted, but listed.
    """
    groups = [path for path in Path("/sys/fs/cgroup").glob("**/dltutor*") if path.is_dir()]
    return {
        "processes": len(psutil.Process().children(recursive=True)),
        "descriptors": psutil.Process().num_fds(),
        "/dev/shm entries": len(os.listdir("/dev/shm")),
        "cgroups": len(groups),
        "mounts": len(Path("/proc/self/mounts").read_text().splitlines()),
        "threads": threading.active_count(),
        "handlers": str([signal.getsignal(each) for each in (signal.SIGINT, signal.SIGALRM)]),
    }


def main(runs: int) -> int:
    """Run the soak test in a new notebook kernel, print its output, and return the exit code."""
    manager, client = start_new_kernel(kernel_name="python3", cwd=str(SCRIPTS))
    try:
        reply = client.execute_interactive(
            f"import soak\nsoak.soak({runs})", timeout=3600, output_hook=_show, allow_stdin=False
        )
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    print("\n".join(reply["content"].get("traceback", ())), file=sys.stderr)
    return 0 if reply["content"]["status"] == "ok" else 1


def _show(message: dict[str, dict[str, str]]) -> None:
    if message["content"].get("name") == "stdout":
        print(message["content"]["text"], end="", flush=True)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 300))
