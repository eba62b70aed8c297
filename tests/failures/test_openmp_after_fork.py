"""Test that `absent` recognizes torch's OpenMP, and that cases restore main's number of threads."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from dltutor.failures import openmp_after_fork
from dltutor.failures.openmp_after_fork import absent, openmp_libraries
from dltutor.failures.tools.contract import MakeCase

MAPS = """\
7f61c0000000-7f61c0021000 rw-p 00000000 00:00 0
7f620d600000-7f620d7ff000 r-xp 00000000 08:01 137 /venv/torch/lib/libtorch_cpu.so
7f620d800000-7f620d842000 r-xp 00000000 08:01 138 /venv/torch/lib/{library}
7f620d842000-7f620d843000 rw-p 00042000 08:01 138 /venv/torch/lib/{library}
7f620e000000-7f620e001000 r-xp 00000000 08:01 139 /usr/lib/libompstub.so
"""


@pytest.mark.parametrize(
    "library", ["libgomp-24e2ab19.so.1.0.0", "libgomp.so.1", "libomp.so", "libiomp5.so"]
)
def test_the_library_is_read_from_what_is_in_memory(library: str) -> None:
    assert openmp_libraries(MAPS.format(library=library)) == [library]


def test_another_openmp_is_said_to_be_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openmp_after_fork, "openmp_libraries", lambda maps: ["libomp.so"])
    told = absent()
    assert told is not None and ("libomp.so" in told or "without OpenMP" in told)


def test_a_torch_without_openmp_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    told = "ATen parallel backend: native thread pool\n"
    monkeypatch.setattr("torch.__config__.parallel_info", lambda: told)
    assert absent() == "torch computes without OpenMP here"


@pytest.mark.parametrize("make", [openmp_after_fork.broken, openmp_after_fork.fixed])
def test_main_has_as_many_threads_afterwards_as_before(make: MakeCase) -> None:
    before = torch.get_num_threads()
    make()
    assert torch.get_num_threads() == before


def test_a_system_that_lists_no_libraries_gets_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openmp_after_fork, "_MAPS", Path("/nowhere"))
    assert absent() is not None
