"""Test what failure modes show in settings that test_failures.py doesn't run.

The notebooks show most such settings, and other tests run the notebooks. The settings here are in
no notebook.
"""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
import torch
from own_process import DEADLINE
from small_datasets import MeasuredStream, Numbers, load
from torch.utils.data import DataLoader, Subset

from dltutor.failures import (
    generator_attribute,
    lost_tail,
    misleading_exit,
    nested_persistent,
    none_in_batch,
    plot_in_thread,
    ranks,
    reused_buffer,
    shared_file_offset,
    unpicklable_exception,
)
from dltutor.failures.corrupt_images import shared_images
from dltutor.failures.tools.contract import Case
from dltutor.failures.tools.sign import Finding
from dltutor.observation import observe
from dltutor.observation.texts import said

pytestmark = [
    pytest.mark.usefixtures("nothing_left_behind"),
    # If an image can't be read, broken datasets leave the file open, as many datasets do.
    pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning"),
]


# Settings that finish, and what the case's loop measures in them


def not_persistent() -> Case:
    loader = nested_persistent.broken().loader
    plain = DataLoader(loader.dataset, batch_size=loader.batch_size, num_workers=2)
    return Case(plain, nested_persistent.with_itself)


def noise(make: Callable[..., Case], **options: Any) -> Case:
    def different(loader: DataLoader[Any]) -> Finding:
        rows = {tuple(row.tolist()) for batch in loader for row in batch}
        return Finding(len(rows), "different rows of noise")

    return Case(make(**options).loader, different)


TAIL, FILE = lost_tail, shared_file_offset
MEASURED: dict[str, tuple[Callable[[], Case], int]] = {
    "lost_tail, fixed, 3 workers": (partial(TAIL.fixed, workers=3), 0),
    "nested_persistent, not persistent": (not_persistent, 0),
    "generator_attribute, no workers": (partial(noise, generator_attribute.broken, workers=0), 16),
    "generator_attribute, fork": (partial(noise, generator_attribute.broken), 8),
    "generator_attribute, fixed, fork": (partial(noise, generator_attribute.fixed), 16),
    "ranks, padding": (partial(ranks.broken, kind="padding"), 1),
    "ranks, fixed, padding": (partial(ranks.fixed, kind="padding"), 0),
    "shared_file_offset, fixed, zip": (partial(FILE.fixed, kind="zip"), 0),
    "shared_file_offset, fixed, tar": (partial(FILE.fixed, kind="tar"), 0),
    "shared_file_offset, fixed, by position": (partial(FILE.fixed, positioned=True), 0),
}


@pytest.mark.parametrize("setting", MEASURED)
def test_a_setting_in_which_the_loop_measures_this(setting: str) -> None:
    make, expected = MEASURED[setting]
    case = make()
    seen = observe(case.loader, consume=case.consume, deadline=60)
    assert (seen.end, seen.stderr) == ("finished", ""), seen
    assert isinstance(seen.result, Finding) and seen.result.value == expected, seen.result


# Settings that raise, and what arrives in main


def not_json() -> None:
    json.loads("<html>")


def key_error() -> None:
    raise KeyError("label")


def executor() -> None:
    with ProcessPoolExecutor(1) as pool:
        pool.submit(abs, -1).result(timeout=DEADLINE)


def loader_in_worker() -> None:
    next(iter(load(Numbers())))


def images(*wanted: str) -> DataLoader[Any]:
    skipping = none_in_batch.SkippingImages(shared_images())
    index = {"bad" if skipping[i] == (None, None) else "good": i for i in range(len(skipping))}
    return load(Subset(skipping, [index[each] for each in wanted]))


def unwrapped(make: Callable[[], Case]) -> DataLoader[Any]:
    """Make a loader of the dataset inside a fixed case's dataset, to see the inner exception."""
    dataset: Any = make().loader.dataset
    return load(dataset.dataset)


NO_LEN = "TypeError: TypeError: object of type 'NoneType' has no len()"
NO_CHILDREN = "AssertionError: daemonic processes are not allowed to have children"

RAISING: dict[str, tuple[Callable[[], DataLoader[Any]], str]] = {
    # If an exception's type needs more than a message, a RuntimeError arrives instead.
    "json": (lambda: load(Numbers(not_json)), "RuntimeError: json.decoder.JSONDecodeError: "),
    # A type that needs only a message, and is at the top level of a module, stays the same.
    "a KeyError": (lambda: load(Numbers(key_error)), "KeyError: KeyError: 'label'"),
    "unpicklable_exception, fixed": (
        lambda: unwrapped(unpicklable_exception.fixed),
        "UnreadableReading: 009.json: not a reading",
    ),
    "misleading_exit, fixed": (
        lambda: unwrapped(misleading_exit.fixed),
        "UnreadableReading: sample 9: 009.json: Expecting",
    ),
    "children_of_workers, an executor": (lambda: load(Numbers(executor)), NO_CHILDREN),
    "children_of_workers, a loader": (lambda: load(Numbers(loader_in_worker)), NO_CHILDREN),
    # What torch says depends on where the None is.
    "none_in_batch, first": (lambda: images("bad", "good"), "found <class 'NoneType'>"),
    "none_in_batch, a whole sample": (lambda: load([(torch.ones(3), 1), None]), NO_LEN),
}


@pytest.mark.parametrize("setting", RAISING)
def test_a_setting_in_which_this_arrives_in_main(setting: str) -> None:
    make, told = RAISING[setting]
    seen = observe(make(), deadline=20)
    assert seen.end == "raised", seen
    [(kind, message)] = seen.chain
    assert told in f"{kind}: {said(kind, message)}"


# Settings in which nothing goes wrong


def program() -> None:
    subprocess.run([sys.executable, "-S", "-c", ""], check=True, timeout=DEADLINE)


def thread() -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(abs, -1).result(timeout=DEADLINE)


def drawn_after_the_fork() -> Case:
    if reason := plot_in_thread.absent():
        pytest.skip(reason)

    def epoch(loader: DataLoader[Any]) -> None:
        batches = iter(loader)
        for _ in batches:
            plot_in_thread.Chart().draw()

    return Case(plot_in_thread.broken().loader, epoch)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Case(load(Numbers(program))),
        lambda: Case(load(Numbers(thread))),
        drawn_after_the_fork,
    ],
    ids=["a program", "a thread", "drawn after the fork"],
)
def test_a_setting_in_which_nothing_goes_wrong(make: Callable[[], Case]) -> None:
    case = make()
    seen = observe(case.loader, consume=case.consume, deadline=20)
    assert seen.end == "finished", seen


# Other claims in the failure modes' docstrings


def test_a_batch_of_a_reused_buffer_is_its_last_content_again_and_again_with_no_workers() -> None:
    batches = DataLoader(reused_buffer.Frames(reused_buffer.shared_records()), batch_size=8)
    assert [batch[:, 0].tolist() for batch in batches] == [[last] * 8 for last in range(7, 64, 8)]


def test_an_unfinished_batch_at_the_end_of_a_stream_is_dropped_once() -> None:
    batches = list(TAIL.BatchedStream(TAIL.LENGTH + TAIL.BATCH - 1))
    assert torch.cat(batches).tolist() == list(range(TAIL.LENGTH))


@pytest.mark.parametrize(
    ("told", "options", "warned"),
    [
        (4, {"num_workers": 0}, True),
        (100, {"num_workers": 0}, False),
        (8, {"num_workers": 2}, True),  # two workers yield 16 batches, more than 8
        (8, {"num_workers": 2, "batch_size": 2}, False),  # two workers yield 8 batches
    ],
)
def test_torch_warns_only_of_a_stream_that_yields_more_batches_than_its_length(
    told: int, options: dict[str, Any], warned: bool
) -> None:
    loader = load(MeasuredStream(8, told), **{"batch_size": 1, **options})
    assert len(loader) == told // (loader.batch_size or 1)  # torch warns only after len()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        samples = sum(len(batch) for batch in loader)
    assert samples == 8 * max(1, loader.num_workers)
    assert any("Length of IterableDataset" in str(each.message) for each in caught) == warned
