"""Every failure mode of the catalogue, under every start method."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch
from digests import Delivered, digest
from torch.utils.data import DataLoader

from dltutor.diagnosis.reproduction import reproduce
from dltutor.failures import CATALOGUE, NAMES, START_METHODS, Costs, Failure, Says
from dltutor.observation import Observation, observe

every_failure = pytest.mark.parametrize("failure", CATALOGUE, ids=lambda failure: failure.name)


def under(shows: bool) -> pytest.MarkDecorator:
    """Every failure with each start method under which it shows (or does not)."""
    return pytest.mark.parametrize(
        ("failure", "start_method"),
        [
            pytest.param(failure, method, id=f"{failure.name}-{method}")
            for failure in CATALOGUE
            for method in START_METHODS
            if (method in failure.start_methods) == shows
        ],
    )


@cache
def delivered_alone(failure: Failure) -> list[Any]:
    delivered = Delivered(failure.ordered)
    alone = observe(failure.fixed(workers=0).loader, consume=delivered, deadline=60)
    assert alone.end == "finished", alone
    return delivered.all()


@under(shows=True)
def test_broken_it_shows_its_sign_and_fixed_it_delivers_what_it_does_without_workers(
    failure: Failure, start_method: str, nothing_left_behind: Callable[..., None]
) -> None:
    delivered = Delivered(failure.ordered)
    reason = failure.absent()
    if reason is None:
        broken = reproduce(failure, start_method=start_method)
        fixed = run_fixed(failure, start_method, delivered)
        told = f"{broken}\n{broken.result}\n{fixed}\n{fixed.result}"
        assert failure.sign.shown(broken, fixed), told
        assert fixed.end == "finished" and not fixed.chain, fixed
    if not delivered.complete:
        delivered = Delivered(failure.ordered)
        case = failure.fixed(workers=2, start_method=start_method)
        fixed = observe(case.loader, consume=delivered, deadline=60)
        assert fixed.end == "finished", fixed
        living = {None} if case.loader.persistent_workers else {0}
        assert {worker.exitcode for worker in fixed.workers} <= living
    assert not fixed.stderr
    assert delivered.all() == delivered_alone(failure) != []
    if reason is not None:
        pytest.skip(f"broken was not run: {reason}")


def run_fixed(failure: Failure, start_method: str, delivered: Delivered) -> Observation:
    """The fixed case, with what its own loop gets written down on the way where that is possible:
    not in a child interpreter, and not where it would cost the time that is measured.
    """
    if failure.limits is not None or isinstance(failure.sign, Costs):
        return reproduce(failure, fixed=True, start_method=start_method)
    case = failure.fixed(workers=2, start_method=start_method)
    loop = case.consume

    def consume(loader: DataLoader[Any]) -> object:
        return delivered(loader) if loop is None else loop(delivered.tap(loader))

    return observe(case.loader, consume=consume, deadline=60)


@under(shows=False)
def test_under_another_start_method_the_broken_case_does_not_show_its_sign(
    failure: Failure, start_method: str, nothing_left_behind: Callable[..., None]
) -> None:
    broken = reproduce(failure, start_method=start_method)
    fixed = reproduce(failure, fixed=True, start_method=start_method)
    assert not failure.sign.shown(broken, fixed), broken


@every_failure
def test_every_field_of_a_failure_is_filled(failure: Failure) -> None:
    for field in ("name", "lesson", "symptom", "cause", "remedy"):
        text = getattr(failure, field)
        assert text and text == text.strip(), field
    assert failure.name.isidentifier()
    assert failure.lesson.isdigit() and len(failure.lesson) == 2
    assert set(failure.start_methods) <= set(START_METHODS) and failure.start_methods
    assert all(field.endswith(".") for field in (failure.cause, failure.remedy))
    if isinstance(failure.sign, Says):
        assert failure.texts, "what it says must be found by `explain`"


@every_failure
def test_the_texts_of_a_failure_are_patterns_that_match_something(failure: Failure) -> None:
    for text in failure.texts:
        assert not re.search(text, ""), text


@every_failure
def test_the_module_of_a_failure_is_its_reference_page(failure: Failure) -> None:
    module = import_module(f"dltutor.failures.{failure.name}")
    assert module.FAILURE is failure
    told = " ".join(module.__doc__.replace("`", "").split())
    for word in ("Symptom: ", "Remedy: ", "Seen in: "):
        assert word in told
    for text in failure.symptom.split(" / "):
        assert text.replace("`", "").partition(": ")[0] in told


@every_failure
@pytest.mark.parametrize("make", ["broken", "fixed"])
def test_a_case_takes_workers_and_start_method(failure: Failure, make: str) -> None:
    case = getattr(failure, make)(workers=3, start_method="spawn")
    if case.loader.num_workers == 0:  # where the remedy is not to have workers
        assert make == "fixed"
        return
    assert case.loader.num_workers == 3
    assert case.loader.multiprocessing_context.get_start_method() == "spawn"
    assert getattr(failure, make)().loader.num_workers == 2
    assert getattr(failure, make)(workers=0).loader.num_workers == 0


def test_names_are_unique_and_in_the_order_of_the_lessons() -> None:
    assert tuple(failure.name for failure in CATALOGUE) == NAMES
    assert len(set(NAMES)) == len(NAMES)
    assert [f.lesson for f in CATALOGUE] == sorted(f.lesson for f in CATALOGUE)


def test_the_digest_of_a_batch_sees_a_difference() -> None:
    batch = [torch.ones(2), ("a", {"b": np.zeros(2)})]
    assert digest(batch) == digest([torch.ones(2), ("a", {"b": np.zeros(2)})])
    assert digest(batch) != digest([torch.ones(2), ("a", {"b": np.ones(2)})])
    assert digest(batch) != digest([torch.zeros(2), ("a", {"b": np.zeros(2)})])
    assert digest(batch) != digest((torch.ones(2), ("a", {"b": np.zeros(2)})))
    assert digest(torch.zeros(2)) != digest(torch.zeros(2, 1)) != digest(np.zeros((2, 1)))
