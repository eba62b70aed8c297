"""A figure drawn by a thread at the moment of the fork."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from dltutor.failures import plot_in_thread
from dltutor.failures.plot_in_thread import Chart, draw_in_thread
from dltutor.observation import observe

FONTS = "/matplotlib/mpl-data/fonts/"


@pytest.fixture(autouse=True)
def there() -> None:
    if reason := plot_in_thread.absent():
        pytest.skip(reason)


def test_the_module_is_imported_without_matplotlib() -> None:
    code = "import sys, dltutor.failures.plot_in_thread; print('matplotlib' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert told.stdout == "False\n", told.stderr


def test_without_workers_both_are_drawn() -> None:
    case = plot_in_thread.broken(workers=0)
    observation = observe(case.loader, consume=draw_in_thread, deadline=20)
    assert (observation.end, observation.samples) == ("finished", 8)


def test_a_thread_that_draws_after_the_fork_does_no_harm() -> None:
    def epoch(loader: torch.utils.data.DataLoader[torch.Tensor]) -> None:
        batches = iter(loader)
        for _ in batches:
            Chart().draw()

    observation = observe(plot_in_thread.broken().loader, consume=epoch, deadline=20)
    assert observation.end == "finished", observation


def test_each_picture_shows_its_own_curve() -> None:
    dataset = plot_in_thread.broken(workers=0).loader.dataset
    images = {bytes(dataset[index].tolist()) for index in range(8)}
    assert len(images) == 8


def test_no_font_is_left_open() -> None:
    before = fonts_held()  # by a figure of another test
    case = plot_in_thread.fixed(workers=0)
    observe(case.loader, consume=case.consume, deadline=20)
    assert fonts_held() == before


def fonts_held() -> list[str]:
    held = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
    return sorted(path for path in held if FONTS in path)
