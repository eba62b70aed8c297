"""Check that `dltutor.system` doesn't import torch, NumPy, psutil, or `dltutor.observation`."""

from __future__ import annotations

from pathlib import Path

from fresh_interpreter import run_fresh

import dltutor.system

MODULES = sorted(path.stem for path in Path(dltutor.system.__path__[0]).glob("*.py"))
ABOVE = {"torch", "numpy", "psutil", "dltutor.observation"}
PROGRAM = """
    import importlib, sys
    sys.path[:] = sys.path[1:]  # only the package, not the tests
    for name in {names!r}:
        importlib.import_module(name)
    print(*(name for name in {above!r} if name in sys.modules))
    """


def imported(*names: str) -> set[str]:
    return set(run_fresh(PROGRAM.format(names=names, above=sorted(ABOVE))).stdout.split())


def test_its_modules_import_nothing_from_above() -> None:
    assert imported(*(f"dltutor.system.{name}" for name in MODULES)) == set()


def test_using_them_imports_nothing_from_above() -> None:
    calls = """
        import sys
        from dltutor.system import cgroups, processes, process_memory, this_machine
        this_machine.machine(), process_memory.pss(1), processes.end_descendants()
        cgroups.remove_abandoned()
        print(*({"torch", "numpy", "psutil"} & sys.modules.keys()))
        """
    assert run_fresh(calls).stdout.split() == []


def test_the_proofs_above_can_fail() -> None:
    assert imported("psutil") == {"psutil"}
