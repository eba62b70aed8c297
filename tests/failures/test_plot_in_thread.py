"""Test that drawing after the fork does no harm, and that the module doesn't import matplotlib."""

from __future__ import annotations

from multiprocessing import get_context
from typing import Any

import pytest
from torch.utils.data import DataLoader

from dltutor.failures import plot_in_thread
from dltutor.failures.plot_in_thread import Chart
from dltutor.observation import observe


@pytest.fixture(autouse=True)
def there() -> None:
    if reason := plot_in_thread.absent():
        pytest.skip(reason)


def test_the_module_is_imported_without_matplotlib() -> None:
    # The fork server preloads the modules of all failures, as conftest.py asks.
    script = "import sys; sys.exit('matplotlib' in sys.modules)"
    child = get_context("forkserver").Process(target=exec, args=(script,))
    child.start()
    child.join()
    assert child.exitcode == 0


def test_a_thread_that_draws_after_the_fork_does_no_harm() -> None:
    def epoch(loader: DataLoader[Any]) -> None:
        batches = iter(loader)
        for _ in batches:
            Chart().draw()

    observation = observe(plot_in_thread.broken().loader, consume=epoch, deadline=20)
    assert observation.end == "finished", observation
