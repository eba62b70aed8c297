"""Lesson 11: shared memory and descriptors."""

from __future__ import annotations

import resource
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Final

from dltutor import confine, observe
from dltutor.failures import orphaned_segments, shm_exhausted, too_many_open_files
from dltutor.failures.kit.sign import Finding
from dltutor.observation import CannotConfine
from measured_claims import DEEP_DIVE, CannotMeasure, Claim, Measured


def _larger() -> Measured:
    ends = {}
    for size in ("24M", "256M"):
        try:
            seen = confine(shm_exhausted.broken, shm=size, deadline=20)
        except CannotConfine as reason:
            raise CannotMeasure(
                f"This machine permits no /dev/shm of one's own: {reason}"
            ) from None
        ends[size] = seen.chain[0][1].rstrip().splitlines()[-1] if seen.chain else seen.end
    short = ends["24M"].rpartition(": ")[2]
    return Measured(
        f"Batches of 16 MB, four prefetched. With a `/dev/shm` of 24 MB: `{short}`. "
        f"With 256 MB: {ends['256M']}.",
        "holds for a machine of your own; in a container it is `--shm-size`, and smaller batches "
        "need neither."
        if "No space left" in short and ends["256M"] == "finished"
        else "other than expected.",
    )


def _left_behind(strategy: str) -> tuple[int, int]:
    """Segments that a run leaves: ended in order, and killed with its manager."""
    case = orphaned_segments.broken() if strategy == "file_system" else orphaned_segments.fixed()
    before = set(Path("/dev/shm").glob("torch_*"))
    script = textwrap.dedent(
        f"""
        import torch
        from dltutor.failures.orphaned_segments import make_loader, share_by_name
        if __name__ == "__main__":
            init = share_by_name if {strategy!r} == "file_system" else None
            if init:
                init(0)
            batches = list(make_loader(2, "fork", init))
        """
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
    until = time.monotonic() + 10  # the manager notices that the run is over, a moment later
    while (in_order := set(Path("/dev/shm").glob("torch_*")) - before) and time.monotonic() < until:
        time.sleep(0.1)
    found = observe(case.loader, consume=case.consume, deadline=40).result
    assert isinstance(found, Finding)
    return len(in_order), int(found.value)


def _strategies() -> Measured:
    left = {each: _left_behind(each) for each in ("file_system", "file_descriptor")}
    seen = confine(too_many_open_files.broken, open_files=128, deadline=20)
    ran_out = any("Too many open files" in text for _, text in seen.chain)
    told = "; ".join(
        f"`{each}` leaves {ended} segments when it ends and {killed} of 5 when it is killed whole"
        for each, (ended, killed) in left.items()
    )
    return Measured(
        f"{told}. With 128 descriptors, a loop that keeps its batches under `file_descriptor` ends "
        f"with {'`Too many open files`' if ran_out else seen.end}.",
        "holds in part: `file_system` leaves segments only where its manager is killed as well, "
        "and `file_descriptor` can run out of descriptors instead."
        if left == {"file_system": (0, 5), "file_descriptor": (0, 0)} and ran_out
        else "other than expected.",
    )


def _limits() -> Measured:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    script = "import torch.multiprocessing as m; print(m.get_sharing_strategy())"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    shown = subprocess.run(["bash", "-c", "ulimit -n"], capture_output=True, text=True, check=True)
    same = shown.stdout.strip() == ("unlimited" if soft == resource.RLIM_INFINITY else str(soft))
    return Measured(
        f"`get_sharing_strategy()` says `{run.stdout.strip()}`; `ulimit -n` and Python's "
        f"`resource` {'agree' if same else 'differ'} on the limit.",
        "holds; it is the limit of each process, and a child of your shell inherits the shell's."
        if same and hard
        else "other than expected.",
    )


CLAIMS: Final = (
    Claim(
        "Where `/dev/shm` fills up, remount it with a larger size.",
        DEEP_DIVE,
        "The same loader in a child interpreter with a `/dev/shm` of its own, small and larger.",
        _larger,
        120,
    ),
    Claim(
        "The sharing strategy `file_system` is prone to leak shared memory; prefer "
        "`file_descriptor`.",
        DEEP_DIVE,
        "A run under each strategy ends in order, and one has all its processes killed; then the "
        "files in `/dev/shm` are counted. A loop that keeps its batches runs with 128 descriptors.",
        _strategies,
        240,
    ),
    Claim(
        "`torch.multiprocessing.get_sharing_strategy()` and `ulimit -n` show what your machine "
        "uses and allows.",
        DEEP_DIVE,
        "Both are asked, and the limit is compared with what a Python process has.",
        _limits,
    ),
)
