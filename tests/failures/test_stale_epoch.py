"""Test that workers that aren't persistent never have a stale epoch."""

from __future__ import annotations

from dltutor.failures import stale_epoch
from dltutor.failures.tools.contract import Case


def wrong(case: Case) -> float:
    return case.consume(case.loader).value


def test_fresh_workers_hide_it() -> None:
    assert wrong(stale_epoch.broken(persistent=False)) == 0
    assert wrong(stale_epoch.fixed(persistent=False)) == 0
