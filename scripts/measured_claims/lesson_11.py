"""Lesson 11: shared memory and descriptors."""

from __future__ import annotations

import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import textwrap
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import torch.multiprocessing
from torch.utils.data import Dataset

from dltutor import confine, observe
from dltutor.failures import orphaned_segments, shm_exhausted, too_many_open_files
from dltutor.failures.tools.contract import load
from dltutor.failures.tools.sign import Finding
from dltutor.observation import CannotConfine, Observation
from measured_claims import DEEP_DIVE, EXITING, NOT_STARTING, CannotMeasure, Claim, Measured, Source

_ISSUE: Final = "https://github.com/pytorch/pytorch/issues/5040"
_TRACKER: Final = "https://github.com/python/cpython/issues/82300"


def _confined(target: Any, **options: Any) -> Observation:
    try:
        return confine(target, **options)
    except CannotConfine as reason:
        raise CannotMeasure(f"This machine permits no such limit of one's own: {reason}") from None


def sentences() -> Any:
    """The other loader of lesson 11, for `confine`, and a loop that keeps nothing."""
    return too_many_open_files.broken().loader


def _larger() -> Measured:
    ends = {}
    for size in ("24M", "256M"):
        seen = _confined(shm_exhausted.broken, shm=size, deadline=20)
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


_SWITCH: Final = "m.set_sharing_strategy({0}file_descriptor{1})"
_ASK: Final = "print(m.get_sharing_strategy())"


def _commands() -> Measured:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as files:
        for _ in range(100):
            files.enter_context(open(os.devnull))
        shown = subprocess.run(
            "ulimit -n; ls /proc/self/fd | wc -l", shell=True, capture_output=True, text=True
        )
    limit, counted = shown.stdout.split()
    same = limit == ("unlimited" if soft == resource.RLIM_INFINITY else str(soft))
    try:
        compile(_SWITCH.format("\u2018", "\u2019"), "sample", "exec")
        printed = "no error"
    except SyntaxError:
        printed = "a SyntaxError"
    plain = _SWITCH.format("'", "'")
    run = _python(f"import torch.multiprocessing as m\n{_ASK}\n{plain}\n{_ASK}")
    before, after = run.stdout.split()
    return Measured(
        f"The strategy is `{before}`; the line that sets it gives {printed}, with plain quotes the "
        f"strategy is then `{after}`. `ulimit -n` and Python's `resource` "
        f"{'agree' if same else 'differ'}. Started by a process with 100 files open, "
        f"`ls /proc/self/fd | wc -l` counts {counted}.",
        "holds for what shows the strategy and the limit. Refuted for the switch: its quotes are "
        "typographic, and it sets the default. Refuted for the count, which is that of `ls`: put a "
        "process id in place of `self`."
        if same and printed != "no error" and before == after and int(counted) < 100
        else "other than expected.",
    )


_ARTICLES: Final = """
import pickle, sys
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset
from multiprocessing import shared_memory

class Rows(Dataset):
    def __init__(self, name, shape):
        self.block = shared_memory.SharedMemory(name)
        self.rows = np.ndarray(shape, buffer=self.block.buf)
    def __len__(self):
        return len(self.rows)
    def __getitem__(self, index):
        return torch.tensor(self.rows[index])

if __name__ == "__main__":
    block = shared_memory.SharedMemory(create=True, size=8 << 20)
    rows = np.ndarray((1 << 14, 64), buffer=block.buf)
    rows[:] = 1
    dataset = Rows(block.name, rows.shape)
    print("large" if len(pickle.dumps(dataset)) > rows.nbytes else "small")
    for method in ("fork", "spawn"):
        rows[:] = 1
        loader = DataLoader(
            dataset, 1024, num_workers=1, persistent_workers=True, multiprocessing_context=method
        )
        first = sum(batch.sum().item() for batch in loader)
        rows[:] = 2
        print("sees" if sum(batch.sum().item() for batch in loader) == 2 * first else "misses")
        del loader
    block.close()
    block.unlink()
    print("closed", flush=True)
    print(rows[0, 0])
"""


def _python(script: str) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sample.py"
        path.write_text(script)
        return subprocess.run(
            [sys.executable, str(path)], capture_output=True, text=True, timeout=90, check=False
        )


def _the_articles_sample() -> Measured:
    bare = _python("import torch\nimport multiprocessing as mp\nmp.shared_memory.SharedMemory")
    run = _python(_ARTICLES)
    told = run.stdout.split()
    after = f"dies of signal {-run.returncode}" if run.returncode < 0 else "can be read"
    return Measured(
        f"Its `mp.shared_memory`: {bare.stderr.strip().splitlines()[-1]}. With that import: the "
        f"dataset's pickle is {told[0]}, for it has every row; a forked worker {told[1]} what main "
        f"writes while it is alive, a spawned one {told[2]} it. After `close()`, main's array "
        f"{after}.",
        "refuted as printed; with the import it holds under fork. A spawned worker gets a copy of "
        "all rows, and the block serves nobody."
        if told[:3] == ["large", "sees", "misses"] and bare.returncode
        else "holds.",
    )


_ATTACHES: Final = """
import sys
from multiprocessing.shared_memory import SharedMemory
SharedMemory(sys.argv[1]{option}).close()
"""


def _removed_by_another(option: str) -> bool:
    # In a process of its own, whose resource tracker may complain.
    script = textwrap.dedent(
        f"""
        import os, subprocess, sys, time
        from multiprocessing.shared_memory import SharedMemory
        block = SharedMemory(create=True, size=100)
        subprocess.run([sys.executable, "-c", {_ATTACHES.format(option=option)!r}, block.name])
        until = time.monotonic() + 2
        while os.path.exists("/dev/shm/" + block.name) and time.monotonic() < until:
            time.sleep(0.05)
        there = os.path.exists("/dev/shm/" + block.name)
        print("there" if there else "gone")
        block.close()
        if there:
            block.unlink()
        """
    )
    return _python(script).stdout.split() == ["gone"]


def _other_interpreters() -> Measured:
    gone = _removed_by_another("")
    newer = sys.version_info >= (3, 13)
    option = (
        f"With `track=False` it is {'gone' if _removed_by_another(', track=False') else 'there'}."
        if newer
        else "`track=False` came with Python 3.13."
    )
    return Measured(
        f"After another interpreter has attached to the block, closed it, and ended, it is "
        f"{'gone' if gone else 'there'}. {option}",
        "refuted for an interpreter that has a resource tracker of its own; workers of a "
        "DataLoader have main's."
        if gone
        else "holds.",
    )


class _Strategies(Dataset[int]):
    """Says of each sample whether its process shares by name."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> int:
        return int(torch.multiprocessing.get_sharing_strategy() == "file_system")


def _reaches_workers() -> Measured:
    before = torch.multiprocessing.get_sharing_strategy()
    torch.multiprocessing.set_sharing_strategy("file_system")
    try:
        reached = {
            method: all(_of_workers(method)) for method in multiprocessing.get_all_start_methods()
        }
    finally:
        torch.multiprocessing.set_sharing_strategy(before)
    told = ", ".join(f"{method} {'yes' if yes else 'no'}" for method, yes in reached.items())
    return Measured(
        f"Has a worker the strategy that main has set? {told}.",
        "holds under fork; by the other start methods each worker has to set it."
        if reached.pop("fork") and not any(reached.values())
        else "other than expected.",
    )


def _of_workers(method: str) -> list[int]:
    def take(loader: Any) -> list[int]:
        return [number for batch in loader for number in batch.tolist()]

    seen: Any = observe(load(_Strategies(), 2, method), deadline=60, consume=take).result
    return list(seen)


def _bus_error() -> Measured:
    runs = {
        collate: _confined(shm_exhausted.broken, shm="24M", deadline=5, collate=collate)
        for collate in ("default", "list")
    }
    raised, hung = runs.values()
    short = raised.chain[0][1].rpartition(": ")[2].strip() if raised.chain else raised.end
    dead = [worker for worker in raised.workers if worker.exitcode is not None]
    return Measured(
        f"The batch made by `default_collate`: {raised.end}, `{short}`, {len(dead)} workers dead. "
        f"By `collate_fn=list`: {hung.end}.",
        "outdated: since torch 2.10 an error that names the reason, or a hang with a collate "
        "function of one's own."
        if "No space left" in short and hung.end == "hung" and not dead
        else "holds.",
    )


def _not_the_loop() -> Measured:
    ends = [
        _confined(target, deadline=20, **options).end
        for target, options in (
            (shm_exhausted.broken, {"shm": "24M"}),
            (shm_exhausted.broken, {"shm": "24M", "collate": "numpy"}),
            (too_many_open_files.broken, {"open_files": 128}),
            (sentences, {"open_files": 128}),
        )
    ]
    return Measured(
        f"One dataset in a `/dev/shm` of 24 MB, `default_collate`: {ends[0]}, a `collate_fn` that "
        f"makes arrays: {ends[1]}. Another dataset with 128 descriptors, a loop that keeps its "
        f"batches: {ends[2]}, one that does not: {ends[3]}.",
        "refuted: an option of the loader, or a line of the loop, decides."
        if ends == ["raised", "finished"] * 2
        else "holds.",
    )


def _no_gpu() -> Measured:
    batch = next(iter(shm_exhausted.broken(workers=1).loader))
    cases = (shm_exhausted.broken, shm_exhausted.fixed)
    ends = [_confined(case, shm="24M", deadline=20).end for case in cases]
    return Measured(
        f"Batches come in memory of the device `{batch.device}`. With a `/dev/shm` of 24 MB, "
        f"batches of 16 MB: {ends[0]}, of 4 MB: {ends[1]}.",
        "holds for the GPU; refuted for the size of a batch: what waits needs room in `/dev/shm`."
        if batch.device.type == "cpu" and ends == ["raised", "finished"]
        else "holds.",
    )


def _drop_in() -> Measured:
    missing = set(multiprocessing.__all__) - set(dir(torch.multiprocessing))
    return Measured(
        f"Names of `multiprocessing` that `torch.multiprocessing` lacks: {len(missing)}.",
        "holds for the names." if not missing else "refuted.",
    )


CLAIMS: Final = (
    Claim(
        "Where `/dev/shm` fills up, remount it with a larger size.",
        DEEP_DIVE,
        "The same loader in a child interpreter with a `/dev/shm` of its own, small and larger; "
        "the machine's own is not remounted.",
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
        "`get_sharing_strategy()`, `set_sharing_strategy`, `ulimit -n` and "
        "`ls /proc/self/fd | wc -l` show and set what your machine uses and allows.",
        DEEP_DIVE,
        "Each as the article prints it, in a Python process or in a shell that one starts.",
        _commands,
    ),
    Claim(
        "A bus error in a worker means that `/dev/shm` is too small.",
        Source("pytorch#5040, and most answers since", "", _ISSUE),
        "The loader of lesson 11 with a `/dev/shm` of 24 MB, with `default_collate` and with "
        "`collate_fn=list`.",
        _bus_error,
        120,
    ),
    Claim(
        "Set the sharing strategy to `file_system` at the beginning of your code.",
        Source("torch's own message, `Too many open files`"),
        "Main sets it; each sample tells the strategy of its worker, by each start method.",
        _reaches_workers,
        180,
    ),
    Claim(
        "With `multiprocessing.shared_memory`, workers read one copy of the data.",
        NOT_STARTING,
        "A class like the article's, written anew; then with the import that it lacks: main writes "
        "into the block while a worker is alive, and reads its array after `close()`.",
        _the_articles_sample,
        120,
    ),
    Claim(
        "A block of shared memory lives until somebody unlinks it.",
        Source("cpython#82300, on the resource tracker", "", _TRACKER),
        "A second interpreter attaches to a block, closes it and ends, without unlinking.",
        _other_interpreters,
    ),
    Claim(
        "Workers exit because of the code that loads the data, not because of the training loop or "
        "the loader's configuration.",
        EXITING,
        "Two datasets under a limit, each with one thing changed that is not in the dataset: "
        "`collate_fn`, and a loop that keeps the labels.",
        _not_the_loop,
        240,
    ),
    Claim(
        "What is prefetched takes no memory of the GPU, so the batch size need not shrink.",
        DEEP_DIVE,
        "The device of a batch; the loader of lesson 11 in a small `/dev/shm`.",
        _no_gpu,
        120,
    ),
    Claim(
        "`torch.multiprocessing` takes the place of `multiprocessing`, with the same operations.",
        DEEP_DIVE,
        "The public names of both are compared.",
        _drop_in,
    ),
)
