"""A sign tells a broken run from a fixed one, and says what it saw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from dltutor.failures import Costs, Counts, Finding, Says


@dataclass(frozen=True)
class Run:
    """As much of an Observation as a sign reads."""

    end: str = "finished"
    chain: tuple[tuple[str, str], ...] = ()
    stderr: str = ""
    workers: tuple[Any, ...] = ()
    result: object = None


@dataclass(frozen=True)
class StuckWorker:
    """A worker, and where it stood."""

    stack: tuple[str, ...] | None

    def __str__(self) -> str:
        return "W0 still running"


FINE = Run()


def found(value: float) -> Run:
    return Run(result=Finding(value, "of 64 samples wrong"))


def test_a_message_is_looked_for_in_all_that_was_said() -> None:
    sign = Says("hung", ("line of the lock", "KeyError: 'label'", "cannot pickle"))
    assert sign.shown(Run("hung", chain=(("KeyError", "'label'"),)), FINE)
    assert sign.shown(Run("hung", stderr="TypeError: cannot\n  pickle 'generator'"), FINE)
    assert sign.shown(Run("hung", workers=(StuckWorker(("line of the lock",)),)), FINE)
    assert not sign.shown(Run("hung", workers=(StuckWorker(None),)), FINE)


def test_a_run_that_ends_otherwise_does_not_show_it_whatever_it_says() -> None:
    sign = Says("raised", ("KeyError",))
    broken = Run("raised", chain=(("KeyError", "1"),))
    assert sign.shown(broken, FINE)
    assert not sign.shown(Run("hung", chain=broken.chain), FINE)
    assert not sign.shown(Run("raised", chain=(("ValueError", "1"),)), FINE)
    assert not sign.shown(broken, broken)


def test_a_fate_of_a_worker_is_said_too() -> None:
    @dataclass(frozen=True)
    class Dead:
        stack: None = None

        def __str__(self) -> str:
            return "W0 killed by SIGKILL"

    assert Says("worker died", ("SIGKILL",)).shown(Run("worker died", workers=(Dead(),)), FINE)


@pytest.mark.parametrize(
    ("broken", "fixed", "shown"),
    [(57, 0, True), (8, 0, True), (7, 0, False), (0, 0, False), (57, 1, False)],
)
def test_a_count_needs_enough_that_is_wrong_and_nothing_wrong_when_mended(
    broken: float, fixed: float, shown: bool
) -> None:
    assert Counts(8).shown(found(broken), found(fixed)) is shown


@pytest.mark.parametrize(
    ("broken", "fixed", "shown"), [(30, 10, True), (29, 10, False), (5, 10, False)]
)
def test_a_cost_is_a_multiple(broken: float, fixed: float, shown: bool) -> None:
    assert Costs(times=3).shown(found(broken), found(fixed)) is shown


@pytest.mark.parametrize("sign", [Counts(), Costs(3)])
def test_a_run_that_found_nothing_out_shows_nothing(sign: Counts | Costs) -> None:
    assert not sign.shown(FINE, found(0))
    assert not sign.shown(found(9), FINE)
    assert sign.told(Run("hung")) == "hung"


def test_what_is_told_is_one_line() -> None:
    assert Counts().told(found(57)) == "57 of 64 samples wrong"
    assert str(Finding(0.1234, "s")) == "0.123 s"
    assert str(Finding(101.44, "MB")) == "101 MB"
    broken = Run("raised", chain=(("KeyError", "'label'"),))
    assert Says("raised", ("no", "KeyError: 'label'")).told(broken) == "raised: KeyError: 'label'"
    assert Says("raised", ("no",)).told(FINE) == "finished"
