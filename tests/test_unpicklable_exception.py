"""An exception of a class inside a function never arrives; from module level it does."""

from __future__ import annotations

import pytest

from dltutor.failures import unpicklable_exception
from dltutor.observation import observe
from dltutor.observation.texts import said

pytestmark = pytest.mark.usefixtures("nothing_left_behind")


def test_without_workers_it_is_raised() -> None:
    [(kind, _), *_] = observe(unpicklable_exception.broken(workers=0).loader).chain
    assert kind == "Unreadable"


def test_the_worker_that_raised_it_lives_and_waits_for_more_work() -> None:
    observation = observe(unpicklable_exception.broken().loader, deadline=2)
    assert observation.end == "hung"
    assert [worker.exitcode for worker in observation.workers] == [None, None]
    for worker in observation.workers:
        assert worker.stack and "index_queue.get" in " ".join(map(str, worker.stack))


def test_from_module_level_it_arrives_with_its_type_and_names_the_file() -> None:
    observation = observe(unpicklable_exception.fixed(arrives=True).loader)
    [(kind, message)] = observation.chain
    assert (observation.end, kind) == ("raised", "UnreadableReading")
    assert "UnreadableReading: 009.json: not a reading" in said(kind, message)
