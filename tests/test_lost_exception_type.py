"""An exception of two arguments loses its type on the way; one of one argument keeps it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import pytest
from datasets import Numbers, load

from dltutor.failures import lost_exception_type
from dltutor.failures.data.tolerant import Missing, collate_tolerant
from dltutor.failures.lost_exception_type import DescribedBadReading
from dltutor.observation import observe

pytestmark = pytest.mark.usefixtures("nothing_left_behind")


def not_json() -> None:
    json.loads("<html>")


def not_text() -> None:
    b"\xff".decode()


def no_program() -> None:
    raise subprocess.CalledProcessError(1, "decode")


def key_error() -> None:
    raise KeyError("label")


def test_without_workers_the_loop_catches_it() -> None:
    case = lost_exception_type.broken(workers=0)
    observation = observe(case.loader, consume=case.consume)
    assert observation.result == "ended early: 009.json has no label"


def test_with_workers_it_passes_the_loop_as_a_runtime_error_that_tells_all() -> None:
    case = lost_exception_type.broken()
    observation = observe(case.loader, consume=case.consume)
    [(kind, message)] = observation.chain
    assert (kind, observation.raised_in_worker) == ("RuntimeError", "BadReading")
    assert message.rstrip().endswith("BadReading: 009.json has no label")


def test_a_message_of_the_class_loses_the_text_as_well() -> None:
    case = lost_exception_type.broken(error=DescribedBadReading)
    [(kind, message)] = observe(case.loader, consume=case.consume).chain
    assert kind == "TypeError"
    assert message.endswith("__init__() got an unexpected keyword argument 'message'")
    assert "009.json" not in message


@pytest.mark.parametrize("workers", [0, 2])
def test_with_one_argument_the_loop_catches_it_with_any_number_of_workers(workers: int) -> None:
    case = lost_exception_type.fixed(workers=workers, arrives=True)
    observation = observe(case.loader, consume=case.consume)
    assert str(observation.result).startswith("ended early: ")
    assert "sample 9: 009.json has no label" in str(observation.result)
    assert observation.batches == 2


@pytest.mark.parametrize(
    ("trouble", "arrives"),
    [
        (not_json, "RuntimeError"),
        (not_text, "RuntimeError"),
        (no_program, "RuntimeError"),
        (key_error, "KeyError"),
    ],
)
def test_exceptions_of_the_standard_library_lose_their_type_too(
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
