"""Test that `reuses_memory` knows which C libraries and settings keep the heap from growing."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from dltutor.failures.heap_growth import reuses_memory


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
