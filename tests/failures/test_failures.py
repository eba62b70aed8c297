"""Test each failure mode in the catalog: its cases under each start method, and its description."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch
from delivered import Delivered
from torch.utils.data import DataLoader

from dltutor.diagnosis.objects.digests import digest
from dltutor.diagnosis.reproduction import reproduce
from dltutor.failures import CATALOG, NAMES, START_METHODS, Costs, Failure
from dltutor.observation import Observation, observe

every_failure = pytest.mark.parametrize("failure", CATALOG, ids=lambda failure: failure.name)


def under(shows: bool) -> pytest.MarkDecorator:
    """Parametrize a test by each failure with the start methods that show it.

    If `shows` is False, use the start methods that don't show the failure.
    """
    return pytest.mark.parametrize(
        ("failure", "start_method"),
        [
            pytest.param(
                failure,
                method,
                id=f"{failure.name}-{method}",
                marks=pytest.mark.thorough if is_thorough(failure, method) else (),
            )
            for failure in CATALOG
            for method in START_METHODS
            if (method in failure.start_methods) == shows
        ],
    )


DEAR = ("gc_dirties_pages", "copy_on_read", "plot_in_thread")
"""Failure modes that cost seconds of CPU even under a start method that doesn't show them."""

SHOWN_BY_THEIR_NOTEBOOK = ("orphaned_segments", "heap_growth")
"""Failure modes whose notebook runs both cases, too, so the notebook's own test covers them."""


def is_thorough(failure: Failure, start_method: str) -> bool:
    """Return whether only the thorough tier tests a failure under this start method.

    The default tier tests each failure under the cheapest start method that shows it, because each
    spawned worker imports torch, which takes seconds of CPU. For an isolated failure, that's the
    first of `failure.start_methods`, because in its own interpreter, forkserver is no cheaper than
    spawn. If the start method doesn't show the failure, the default tier leaves out spawn and the
    failures in DEAR. It also leaves out the failures in SHOWN_BY_THEIR_NOTEBOOK, because it runs
    the notebooks.
    """
    if failure.name in SHOWN_BY_THEIR_NOTEBOOK:
        return True
    if start_method not in failure.start_methods:
        return start_method == "spawn" or failure.name in DEAR
    cheapest = failure.start_methods if failure.isolated else ("fork", "forkserver", "spawn")
    return start_method != next(each for each in cheapest if each in failure.start_methods)


@cache
def delivered_alone(failure: Failure) -> list[Any]:
    delivered = Delivered(failure.ordered)
    alone = observe(failure.fixed(workers=0).loader, consume=delivered, deadline=60)
    assert alone.end == "finished", alone
    return delivered.all()


@under(shows=True)
def test_broken_it_shows_its_sign_and_fixed_it_does_not(
    failure: Failure, start_method: str, nothing_left_behind: Callable[..., None]
) -> None:
    if reason := failure.absent():
        assert_fixed_it_delivers(failure)
        pytest.skip(f"broken was not run: {reason}")
    delivered = Delivered(failure.ordered)
    broken = reproduce(failure, start_method=start_method)
    fixed = run_fixed(failure, start_method, delivered)
    told = f"{broken}\n{broken.result}\n{fixed}\n{fixed.result}"
    assert failure.sign.shown(broken, fixed), told
    assert fixed.end == "finished" and not fixed.chain, fixed
    assert not fixed.stderr
    if delivered.complete:
        assert delivered.all() == delivered_alone(failure) != []
    elif is_written_down(failure):
        assert_fixed_it_delivers(failure)


@pytest.mark.thorough  # the test above compares most failures' batches, too
@every_failure
def test_fixed_it_delivers_what_it_does_without_workers(
    failure: Failure, nothing_left_behind: Callable[..., None]
) -> None:
    assert_fixed_it_delivers(failure)


def assert_fixed_it_delivers(failure: Failure) -> None:
    delivered = Delivered(failure.ordered)
    case = failure.fixed(workers=2, start_method=failure.start_methods[0])
    fixed = observe(case.loader, consume=delivered, deadline=60)
    assert fixed.end == "finished", fixed
    assert not fixed.stderr
    living = {None} if case.loader.persistent_workers else {0}
    assert {worker.exitcode for worker in fixed.workers} <= living
    assert delivered.all() == delivered_alone(failure) != []


def is_written_down(failure: Failure) -> bool:
    return not (failure.limits or failure.isolated or isinstance(failure.sign, Costs))


def run_fixed(failure: Failure, start_method: str, delivered: Delivered) -> Observation:
    """Run the fixed case, and record in `delivered` the batches that the case's loop gets.

    Record nothing if the case runs in another interpreter, or if recording would change the cost
    that the case measures.
    """
    if not is_written_down(failure):
        return reproduce(failure, fixed=True, start_method=start_method)
    case = failure.fixed(workers=2, start_method=start_method)
    loop = case.consume

    def consume(loader: DataLoader[Any]) -> object:
        if loop is None:
            return delivered(loader)
        delivered.listen(loader)
        return loop(loader)

    return observe(case.loader, consume=consume, deadline=60)


@under(shows=False)
def test_under_another_start_method_the_broken_case_does_not_show_its_sign(
    failure: Failure, start_method: str, nothing_left_behind: Callable[..., None]
) -> None:
    broken = reproduce(failure, start_method=start_method)
    fixed = reproduce(failure, fixed=True, start_method=start_method)
    assert not failure.sign.shown(broken, fixed), broken
    assert not fixed.chain, fixed  # `fixed.end` may be "hung" on a busy machine


#: Failure modes that show even without workers.
SHOWN_ALONE = (
    "corrupt_images",
    "silent_stop",
    "ragged_batch",
    "mutated_in_place",
    "wrong_length",
    "no_batch",
    "ranks",
    "same_on_all_ranks",
    "uneven_ranks",
    "swallowed_error",
    "batched_fetch",
    "lost_column",
    "too_many_weights",
    "poor_shuffle",
)
#: Failure modes whose broken case ends the process that loads samples. Without workers, that would
#: end the tests.
LOSE_A_WORKER = ("dead_worker", "lost_cause")


@pytest.mark.parametrize(
    "failure",
    [
        failure
        for failure in CATALOG
        if is_written_down(failure) and failure.name not in LOSE_A_WORKER
    ],
    ids=lambda failure: failure.name,
)
# If an image can't be read, broken datasets leave the file open, as many datasets do.
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_without_workers_most_do_not_show(failure: Failure) -> None:
    broken = reproduce(failure, workers=0)
    fixed = reproduce(failure, workers=0, fixed=True)
    assert failure.sign.shown(broken, fixed) == (failure.name in SHOWN_ALONE), broken
    assert fixed.end == "finished", fixed


@pytest.mark.parametrize(
    "name",
    [
        "reused_buffer",
        "shared_file_offset",
        "shared_connection",
        "lazy_but_touched",
        "unpicklable_handle",
        "main_only_class",
        "global_only_in_parent",
        "children_of_workers",
        "lost_thread",
        "view_of_a_giant",
        "growing_cache",
        "reference_cycle",
        "cheap_samples",
    ],
)
def test_without_workers_the_broken_dataset_gives_the_same_samples_as_the_fixed_one(
    name: str,
) -> None:
    failure = CATALOG[NAMES.index(name)]
    delivered = Delivered(failure.ordered)
    delivered(failure.broken(workers=0).loader)
    assert delivered.all() == delivered_alone(failure)


#: Patterns for the error that ends a spawned worker. For main_only_class, Python 3.14 has the
#: second message, and older versions have the first.
DIED_OF = {
    "main_only_class": "Can't get attribute 'Squares' on|has no attribute 'Squares'",
    "missing_main_guard": "An attempt has been made to start a new process before",
    "generator_attribute": "unable to resize file <filename not specified>",
}


@pytest.mark.thorough  # spawned workers import torch
@pytest.mark.parametrize("name", DIED_OF)
def test_what_a_spawned_worker_died_of_is_on_its_stderr_and_not_in_main(name: str) -> None:
    reason = DIED_OF[name]
    case = CATALOG[NAMES.index(name)].broken(workers=1, start_method="spawn")
    seen = observe(case.loader, consume=case.consume)
    assert (seen.end, [worker.exitcode for worker in seen.workers]) == ("worker died", [1])
    assert re.search(reason, " ".join(seen.stderr.split()))
    assert not re.search(reason, str(seen.chain))


@every_failure
def test_every_field_of_a_failure_is_filled(failure: Failure) -> None:
    texts = [failure.name, failure.lesson, failure.cause, failure.fix, *failure.symptoms]
    assert all(text and text == text.strip() for text in texts) and failure.symptoms
    assert failure.name.isidentifier()
    assert failure.lesson.isdigit() and len(failure.lesson) == 2
    assert set(failure.start_methods) <= set(START_METHODS) and failure.start_methods
    assert all(field.endswith(".") for field in (failure.cause, failure.fix))


@every_failure
def test_the_module_of_a_failure_is_its_reference_page(failure: Failure) -> None:
    module = import_module(f"dltutor.failures.{failure.name}")
    assert module.FAILURE is failure
    told = " ".join(module.__doc__.replace("`", "").split())
    for word in ("Symptom: ", "Fix: ", "Seen in: "):
        assert word in told
    for text in failure.symptoms:
        assert text.replace("`", "").partition(": ")[0] in told


@every_failure
@pytest.mark.parametrize("make", ["broken", "fixed"])
def test_a_case_takes_workers_and_start_method(failure: Failure, make: str) -> None:
    makes = getattr(failure, make)
    assert makes.__kwdefaults__.items() >= {("workers", 2), ("start_method", "fork")}
    loader = makes(workers=3, start_method="spawn").loader
    if loader.num_workers == 0:  # the fix is to have no workers
        assert make == "fixed"
        return
    assert loader.num_workers == 3
    assert loader.multiprocessing_context.get_start_method() == "spawn"


def test_names_are_unique_and_in_the_order_of_the_lessons() -> None:
    assert tuple(failure.name for failure in CATALOG) == NAMES
    assert len(set(NAMES)) == len(NAMES)
    assert [f.lesson for f in CATALOG] == sorted(f.lesson for f in CATALOG)


def test_the_digest_of_a_batch_sees_a_difference() -> None:
    batch = [torch.ones(2), ("a", {"b": np.zeros(2)})]
    assert digest(batch) == digest([torch.ones(2), ("a", {"b": np.zeros(2)})])
    assert digest(batch) != digest([torch.ones(2), ("a", {"b": np.ones(2)})])
    assert digest(batch) != digest([torch.zeros(2), ("a", {"b": np.zeros(2)})])
    assert digest(batch) != digest((torch.ones(2), ("a", {"b": np.zeros(2)})))
    assert digest(torch.zeros(2)) != digest(torch.zeros(2, 1)) != digest(np.zeros((2, 1)))
