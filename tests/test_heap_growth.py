"""The heap grows with an old glibc and not where it is told, or has nothing to take."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Literal

import pytest
import torch

from dltutor.failures import heap_growth
from dltutor.failures.heap_growth import c_library, reuses_memory


@pytest.mark.parametrize("kind", ["mallopt", "buffer"])
@pytest.mark.parametrize(
    "start_method",
    ["fork", pytest.param("forkserver", marks=pytest.mark.thorough)],  # four runs
)
def test_both_ways_to_fix_it_stay_flat(
    kind: Literal["mallopt", "buffer"], start_method: str
) -> None:
    case = heap_growth.fixed(kind=kind, start_method=start_method)
    assert case.consume is not None
    assert case.consume(case.loader).value < 20  # MB; the broken one grows by about 70


def test_both_ways_to_fix_it_deliver_the_same_samples() -> None:
    plain = heap_growth.fixed(workers=0).loader
    # Two workers: a batch of the first must not change when the first computes its next one.
    buffered = heap_growth.fixed(kind="buffer").loader
    assert all(map(torch.equal, plain, list(buffered)))


@pytest.mark.parametrize(
    ("library", "told"),
    [
        (lambda name: "glibc 2.36", None),
        (lambda name: "glibc 2.37.9000", None),
        (lambda name: "glibc 2.38", "glibc 2.38 reuses"),
        (lambda name: "glibc 3.0", "glibc 3.0 reuses"),
        (lambda name: None, "not glibc"),
        (lambda name: os.confstr_names["no such name"], "not glibc"),
    ],
)
def test_the_version_of_the_c_library_decides(
    monkeypatch: pytest.MonkeyPatch, library: Callable[[str], str | None], told: str | None
) -> None:
    def confstr(name: str) -> str | None:
        try:
            return library(name)
        except KeyError as error:
            raise ValueError("unrecognized configuration name") from error

    for setting in ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES"):
        monkeypatch.delenv(setting, raising=False)
    monkeypatch.setattr(os, "confstr", confstr)
    reason = reuses_memory()
    assert reason is None if told is None else told in str(reason)


def test_a_threshold_set_in_the_environment_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "confstr", lambda name: "glibc 2.36")
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", "65536")
    assert reuses_memory() == "MALLOC_MMAP_THRESHOLD_ is set"


def test_the_c_library_of_this_machine_has_a_name() -> None:
    assert c_library()
