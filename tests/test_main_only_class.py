"""A class from a cell, which no new interpreter has."""

from __future__ import annotations

import pickle
import sys
from typing import Any

import pytest

from dltutor.failures import main_only_class
from dltutor.failures.main_only_class import Squares
from dltutor.observation import observe


@pytest.fixture(autouse=True)
def own_main(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is put into `__main__` goes with the test."""
    monkeypatch.setattr(sys.modules["__main__"], "Squares", None, raising=False)


def test_main_pickles_and_unpickles_it_without_complaint() -> None:
    dataset: Any = main_only_class.broken(workers=0).loader.dataset
    assert type(dataset).__module__ == "__main__"
    assert type(dataset) is not Squares
    assert pickle.loads(pickle.dumps(dataset))[3] == 9


def test_the_reason_is_on_stderr_and_not_in_main() -> None:
    observation = observe(main_only_class.broken(workers=1, start_method="spawn").loader)
    assert observation.end == "worker died"
    assert [worker.exitcode for worker in observation.workers] == [1]
    older = "AttributeError: Can't get attribute 'Squares' on <module '__main__'"
    newer = "AttributeError: module '__main__' has no attribute 'Squares'"  # Python 3.14
    assert older in observation.stderr or newer in observation.stderr
    assert "Squares" not in str(observation.chain)
