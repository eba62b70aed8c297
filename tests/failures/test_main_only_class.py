"""Test that main can pickle and unpickle a dataset whose class exists only in main's `__main__`."""

from __future__ import annotations

import pickle
import sys
from typing import Any

import pytest

from dltutor.failures import main_only_class
from dltutor.failures.main_only_class import Squares


@pytest.fixture(autouse=True)
def own_main(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore `Squares` in `__main__` after the test."""
    monkeypatch.setattr(sys.modules["__main__"], "Squares", None, raising=False)


def test_main_pickles_and_unpickles_it_without_complaint() -> None:
    dataset: Any = main_only_class.broken(workers=0).loader.dataset
    assert type(dataset).__module__ == "__main__"
    assert type(dataset) is not Squares
    assert pickle.loads(pickle.dumps(dataset))[3] == 9
