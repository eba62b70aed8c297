"""Observe hundreds of loaders in one kernel, with four kinds of endings, and count what's left.

    python scripts/soak.py [RUNS]        # default 300, which takes a few minutes

Every tenth run draws the live chart, and every thirtieth runs in `confine`. The exit code is 1 if
there are more processes, descriptors, `/dev/shm` entries, cgroups, mounts, or threads than before,
if a signal handler changed, or if the private memory of the kernel has grown by 10 MB or more.
"""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent

from jupyter_client.manager import start_new_kernel

TESTS = Path(__file__).resolve().parent.parent / "tests"

SETUP = """
    import os, signal, sys, threading, time
    from collections import Counter
    from pathlib import Path

    sys.path.insert(0, {tests!r})
    import confined_cases, datasets, psutil
    import matplotlib.pyplot as plt
    from small_datasets import Numbers, load
    from dltutor import confine, observe
    from IPython.display import clear_output

    this = psutil.Process()
    ENDINGS = {{
        "finished": None, "raised": small_datasets.raise_error, "killed": small_datasets.killed,
        "hung": small_datasets.sleep_on,
    }}

    def belongings():
        groups = [p for p in Path("/sys/fs/cgroup").glob("**/dltutor*") if p.is_dir()]
        return {{
            "processes": len(this.children(recursive=True)),
            "descriptors": this.num_fds(),
            "/dev/shm entries": len(os.listdir("/dev/shm")),
            "cgroups": len(groups),
            "mounts": len(Path("/proc/self/mounts").read_text().splitlines()),
            "threads": threading.active_count(),
            "handlers": str([signal.getsignal(s) for s in (signal.SIGINT, signal.SIGALRM)]),
        }}

    def run(i):
        end = list(ENDINGS)[i % 4]
        if i % 30 == 29:
            seen = confine(confined_cases.modest, memory="1G", deadline=60)
            return f"confine: {{seen.end}}"
        loader = load(Numbers(ENDINGS[end], at=i % 16))
        live = i % 10 == 5
        seen = observe(loader, deadline=0.5 if end == "hung" else 30, live=live)
        if live:
            plt.close("all")
            clear_output()
        return ("live: " if live else "") + f"{{end}}: {{seen.end}}"

    for i in range(40):
        run(i)  # after this, everything that Python, torch, and matplotlib keep forever is there
    before, private = belongings(), this.memory_full_info().uss
"""

SOAK = """
    began = time.perf_counter()
    ends = Counter(run(i) for i in range({runs}))
    after, grown = belongings(), (this.memory_full_info().uss - private) / 2**20
    clear_output()
    for end, count in sorted(ends.items()):
        print(f"{{count:5}} {{end}}")
    for name, count in before.items():
        print(f"{{name}}: {{count}} before, {{after[name]}} after")
    seconds = time.perf_counter() - began
    print(f"private memory of the kernel: {{grown:+.1f}} MB in {{seconds:.0f}} s")
    assert after == before and grown < 10
"""


def main(runs: int) -> int:
    """Run the soak test in a new notebook kernel, print its output, and return the exit code."""
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        for code in (SETUP.format(tests=str(TESTS)), SOAK.format(runs=runs)):
            reply = client.execute_interactive(
                dedent(code), timeout=1800, output_hook=_show, allow_stdin=False
            )
            if reply["content"]["status"] != "ok":
                print("\n".join(reply["content"]["traceback"]), file=sys.stderr)
                return 1
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    return 0


def _show(message: dict[str, dict[str, str]]) -> None:
    if message["content"].get("name") == "stdout":
        print(message["content"]["text"], end="", flush=True)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 300))
