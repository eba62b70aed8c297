"""Every failure mode of the catalogue, under every start method that it claims."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch

from dltutor.failures import CATALOGUE, Case, Failure
from dltutor.observation import Observation, observe
from dltutor.observation.record import said

every_failure = pytest.mark.parametrize("failure", CATALOGUE, ids=lambda failure: failure.name)
every_failure_and_start_method = pytest.mark.parametrize(
    ("failure", "start_method"),
    [
        pytest.param(failure, method, id=f"{failure.name}-{method}")
        for failure in CATALOGUE
        for method in failure.start_methods
    ],
)


def symptoms(failure: Failure) -> tuple[str, ...]:
    return tuple(failure.symptom.split(" / "))


def deliver(case: Case) -> tuple[list[Any], Observation]:
    batches: list[Any] = []
    return batches, observe(case.loader, consume=batches.extend, deadline=60)


def same(one: Any, other: Any) -> bool:
    """Whether two batches hold the same values in the same places."""
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and torch.equal(one, other)
    if isinstance(one, np.ndarray):
        return isinstance(other, np.ndarray) and np.array_equal(one, other)
    if isinstance(one, (list, tuple)):
        pairs = zip(one, other, strict=True)
        return type(one) is type(other) and all(same(a, b) for a, b in pairs)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(one == other)


@every_failure_and_start_method
def test_the_broken_case_shows_its_symptom(
    failure: Failure, start_method: str, nothing_left_behind: Callable[..., None]
) -> None:
    case = failure.broken(workers=2, start_method=start_method)
    observation = observe(case.loader, consume=case.consume, deadline=60)
    assert observation.end == "raised"
    assert said(*observation.chain[0]).startswith(symptoms(failure)[0]), observation
    assert observation.failed_worker is not None


@every_failure_and_start_method
def test_the_fixed_case_delivers_what_it_does_without_workers_and_leaves_nothing(
    failure: Failure, start_method: str, nothing_left_behind: Callable[..., None]
) -> None:
    batches, observation = deliver(failure.fixed(workers=2, start_method=start_method))
    assert observation.end == "finished", observation
    assert not observation.chain and not observation.stderr
    assert [worker.exitcode for worker in observation.workers] == [0, 0]
    alone, _ = deliver(failure.fixed(workers=0))
    assert len(batches) == observation.batches > 0
    assert same(batches, alone)
    batches.clear()  # each holds descriptors


@every_failure
def test_the_broken_case_goes_wrong_at_the_same_batch_every_time(failure: Failure) -> None:
    runs = [observe(failure.broken().loader) for _ in range(3)]
    assert len({run.batches for run in runs}) == 1
    assert len({str(run) for run in runs}) == 1


@every_failure
def test_every_field_of_a_failure_is_filled(failure: Failure) -> None:
    for field in ("name", "lesson", "symptom", "cause", "remedy"):
        text = getattr(failure, field)
        assert text and text == text.strip(), field
    assert failure.name.isidentifier()
    assert failure.lesson.isdigit() and len(failure.lesson) == 2
    assert set(failure.start_methods) <= {"fork", "spawn", "forkserver"} and failure.start_methods
    assert all(field.endswith(".") for field in (failure.cause, failure.remedy))


@every_failure
def test_the_module_of_a_failure_tells_symptom_and_remedy(failure: Failure) -> None:
    module = import_module(failure.broken.__module__)
    assert module.FAILURE is failure
    assert module.__name__.endswith(f".{failure.name}")
    told = " ".join(module.__doc__.split())
    for word in ("Symptom: ", "Remedy: ", "Seen in: "):
        assert word in told
    assert all(text.partition(": ")[0] in told for text in symptoms(failure))


@every_failure
@pytest.mark.parametrize("make", ["broken", "fixed"])
def test_a_case_takes_workers_and_start_method(failure: Failure, make: str) -> None:
    case = getattr(failure, make)(workers=3, start_method="spawn")
    assert case.loader.num_workers == 3
    assert case.loader.multiprocessing_context.get_start_method() == "spawn"
    assert getattr(failure, make)().loader.num_workers == 2
    assert getattr(failure, make)(workers=0).loader.num_workers == 0


def test_names_are_unique_and_in_the_order_of_the_lessons() -> None:
    assert len({failure.name for failure in CATALOGUE}) == len(CATALOGUE)
    assert [f.lesson for f in CATALOGUE] == sorted(f.lesson for f in CATALOGUE)


def test_the_comparison_of_samples_sees_a_difference() -> None:
    batch = [torch.ones(2), ("a", {"b": np.zeros(2)})]
    assert same(batch, [torch.ones(2), ("a", {"b": np.zeros(2)})])
    assert not same(batch, [torch.ones(2), ("a", {"b": np.ones(2)})])
    assert not same(batch, [torch.zeros(2), ("a", {"b": np.zeros(2)})])
    assert not same(batch, (torch.ones(2), ("a", {"b": np.zeros(2)})))
