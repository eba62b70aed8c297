"""Run every benchmark, one after another, with `make bench` or `python benchmarks/run.py`.

`--quick` takes about a minute, shows that all benchmarks work, and leaves README.md alone.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from measure import machine, write

HERE = Path(__file__).parent
SCRIPTS = ("throughput", "others", "cost", "agreement", "start")


def main(arguments: list[str]) -> None:
    """Run all benchmarks, and describe the machine in README.md (not with `--quick`).

    Args:
        arguments: The command-line arguments for each benchmark.
    """
    began = time.monotonic()
    print(machine(), flush=True)
    for name in SCRIPTS:
        print(f"\n## {name}\n", flush=True)
        subprocess.run([sys.executable, str(HERE / f"{name}.py"), *arguments], check=True)
    if "--quick" not in arguments:
        write("machine", machine())
    print(f"\nAll of it took {time.monotonic() - began:.0f} s.")


if __name__ == "__main__":
    main(sys.argv[1:])
