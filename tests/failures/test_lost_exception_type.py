"""Test which exceptions lose their type on the way to main, and that the fix keeps the reason."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import pytest
from datasets import Numbers, load

from dltutor.failures import lost_exception_type
from dltutor.failures.data.tolerant import Missing, collate_tolerant
from dltutor.observation import observe

pytestmark = pytest.mark.usefixtures("nothing_left_behind")


def not_json() -> None:
    json.loads("<html>")


def not_text() -> None:
    b"\xff".decode()


def no_program() -> None:
    raise subprocess.CalledProcessError(1, "decode")


class Described(Exception):
    """An exception with an attribute `message`, but without such an argument."""

    message = "a reading cannot be used"


def described() -> None:
    raise Described


def key_error() -> None:
    raise KeyError("label")


@pytest.mark.parametrize(
    ("trouble", "arrives"),
    [
        (not_json, "RuntimeError"),
        (not_text, "RuntimeError"),
        (no_program, "RuntimeError"),
        (key_error, "KeyError"),
        (described, "TypeError"),
    ],
)
def test_exceptions_that_a_text_does_not_make_lose_their_type(
    trouble: Callable[[], None], arrives: str
) -> None:
    [(kind, _)] = observe(load(Numbers(trouble))).chain
    assert kind == arrives


def test_caught_in_the_worker_it_costs_one_sample_and_gives_the_reason() -> None:
    batches = list(lost_exception_type.fixed(workers=0).loader)
    assert sum(len(labels) for (_, labels), _ in batches) == 15
    assert [reason for _, reasons in batches for reason in reasons] == [
        "sample 9: BadReading: 009.json has no label"
    ]


def test_a_batch_with_nothing_in_it_is_none_with_its_reasons() -> None:
    assert collate_tolerant([Missing("sample 0: gone")]) == (None, ["sample 0: gone"])
