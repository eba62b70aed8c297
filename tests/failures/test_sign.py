"""Test that a sign tells a broken run from a fixed one, and says what it saw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from dltutor.failures import Costs, Counts, Finding, Says, Sign


@dataclass(frozen=True)
class Run:
    """A stand-in for an Observation, with the fields that a sign reads."""

    end: str = "finished"
    chain: tuple[tuple[str, str], ...] = ()
    stderr: str = ""
    workers: tuple[Any, ...] = ()
    result: object = None


@dataclass(frozen=True)
class Worker:
    """A stand-in for a worker, with its fate and its stack."""

    fate: str = "W0 still running"
    stack: tuple[str, ...] | None = None

    def __str__(self) -> str:
        return self.fate


FINE = Run()
LABEL = (("KeyError", "'label'"),)


def found(value: float) -> Run:
    return Run(result=Finding(value, "of 64 samples wrong"))


@pytest.mark.parametrize(
    ("sign", "broken", "fixed", "shown"),
    [
        # A message may be in the exceptions, on stderr, in a stack, or in a worker's fate.
        (Says("hung", ("no", "KeyError: 'label'")), Run("hung", LABEL), FINE, True),
        (Says("hung", ("pickle 'lock'",)), Run("hung", stderr="pickle\n  'lock'"), FINE, True),
        (Says("hung", ("lock:",)), Run("hung", workers=(Worker(stack=("lock:",)),)), FINE, True),
        (Says("hung", ("lock:",)), Run("hung", workers=(Worker(),)), FINE, False),
        (Says("hung", ("SIGKILL",)), Run("hung", workers=(Worker("SIGKILL"),)), FINE, True),
        # The end and the message must both be right, and the fixed run must finish.
        (Says("raised", ("KeyError",)), Run("hung", LABEL), FINE, False),
        (Says("raised", ("ValueError",)), Run("raised", LABEL), FINE, False),
        (Says("raised", ("KeyError",)), Run("raised", LABEL), Run("raised", LABEL), False),
        # A count is shown if enough samples are wrong in the broken run, and none are wrong in the
        # fixed run.
        (Counts(8), found(8), found(0), True),
        (Counts(8), found(7), found(0), False),
        (Counts(8), found(57), found(1), False),
        # With `Costs(3)`, a cost is shown if it's at least three times the fixed run's cost.
        (Costs(3), found(30), found(10), True),
        (Costs(3), found(29), found(10), False),
        # A run without a Finding shows nothing.
        (Counts(), FINE, found(0), False),
        (Counts(), found(9), FINE, False),
        (Costs(3), FINE, found(0), False),
        (Costs(3), found(9), FINE, False),
    ],
)
def test_a_sign_is_shown(sign: Sign, broken: Run, fixed: Run, shown: bool) -> None:
    assert sign.shown(broken, fixed) is shown


@pytest.mark.parametrize(
    ("sign", "seen", "told"),
    [
        (Counts(), found(57), "57 of 64 samples wrong"),
        (Costs(3), found(0.1234), "0.123 of 64 samples wrong"),
        (Costs(3), found(101.44), "101 of 64 samples wrong"),
        (Counts(), Run("hung"), "hung"),
        (
            Says("raised", ("no", "KeyError: 'label'")),
            Run("raised", LABEL),
            "raised: KeyError: 'label'",
        ),
        (Says("raised", ("no",)), FINE, "finished"),
    ],
)
def test_what_is_told_is_one_line(sign: Sign, seen: Run, told: str) -> None:
    assert sign.told(seen) == told
