"""Test what failure modes show in settings that test_failures.py doesn't run.

The module of each failure mode says what happens there.
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

import numpy as np
import pytest
import torch
from datasets import Numbers, Stream, load
from torch.utils.data import DataLoader, Subset

from dltutor.failures import (
    generator_attribute,
    held_lock,
    lazy_but_touched,
    lost_tail,
    lost_thread,
    misleading_exit,
    mutated_in_place,
    nested_persistent,
    none_in_batch,
    plot_in_thread,
    ragged_batch,
    ranks,
    repeated_randomness,
    repeated_stream,
    reused_buffer,
    shared_file_offset,
    stale_epoch,
    unpicklable_exception,
    wrong_length,
)
from dltutor.failures.corrupt_images import shared_images
from dltutor.failures.repeated_randomness import NoisySignals, SeededSignals
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

SOME = pytest.approx(32.5, abs=31.5)
"""From 1 to 64 samples."""


class GlobalNoise(NoisySignals):
    """A dataset of signals with noise from numpy's global generator."""

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.from_numpy(self.signals[index] + np.random.normal(size=4))


def seed_by_number(worker: int) -> None:
    np.random.seed(worker)


def randomness(dataset: NoisySignals, workers: int = 2, **options: Any) -> Case:
    loader = load(dataset, batch_size=8, num_workers=workers, **options)
    return Case(loader, repeated_randomness.train)


def spectra(workers: int, method: str, *, as_numpy: bool) -> Case:
    dataset = mutated_in_place.Spectra(as_numpy=as_numpy)
    loader = load(dataset, method, batch_size=4, num_workers=workers)
    return Case(loader, mutated_in_place.train)


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
MEASURED: dict[str, tuple[Callable[[], Case], Any]] = {
    # How much of a stream is lost with `drop_last` depends on the number of workers.
    "lost_tail, 1 worker": (partial(TAIL.broken, workers=1), 0),
    "lost_tail, 3 workers": (partial(TAIL.broken, workers=3), 0),
    "lost_tail, 4 workers": (partial(TAIL.broken, workers=4), TAIL.LENGTH),
    **{
        f"lost_tail, fixed, workers={workers}": (partial(TAIL.fixed, workers=workers), 0)
        for workers in (1, 3, 4)
    },
    # Fresh workers hide an in-place change, unless main and its workers share a tensor. A tensor
    # that's sent to a worker is moved to shared memory, not copied.
    "mutated_in_place, fork, numpy": (partial(spectra, 2, "fork", as_numpy=True), 0),
    "mutated_in_place, fork, torch": (partial(spectra, 2, "fork", as_numpy=False), 0),
    "mutated_in_place, sent, numpy": (partial(spectra, 1, "forkserver", as_numpy=True), 0),
    "mutated_in_place, sent, torch": (
        partial(spectra, 1, "forkserver", as_numpy=False),
        mutated_in_place.LENGTH,
    ),
    "nested_persistent, not persistent": (not_persistent, 0),
    "stale_epoch, not persistent": (partial(stale_epoch.broken, persistent=False), 0),
    "stale_epoch, fixed, not persistent": (partial(stale_epoch.fixed, persistent=False), 0),
    "lazy_but_touched, untouched": (partial(lazy_but_touched.broken, touched=False), 0),
    # With one worker, the second epoch repeats the first. The other worker repeats it, too, and
    # if the workers are persistent, only that one.
    "repeated_randomness, 1 worker": (partial(randomness, NoisySignals(), 1), 32),
    "repeated_randomness, 2 workers": (partial(randomness, NoisySignals(), 2), 48),
    "repeated_randomness, persistent": (
        partial(randomness, NoisySignals(), persistent_workers=True),
        32,
    ),
    "repeated_randomness, fixed, 1 worker": (partial(randomness, SeededSignals(), 1), 0),
    "repeated_randomness, fixed, persistent": (
        partial(randomness, SeededSignals(), persistent_workers=True),
        0,
    ),
    "repeated_randomness, numpy's generator": (partial(randomness, GlobalNoise()), 0),
    "repeated_randomness, numpy's generator seeded by a worker's number": (
        partial(randomness, GlobalNoise(), worker_init_fn=seed_by_number),
        repeated_randomness.LENGTH,  # the second epoch repeats the first
    ),
    "generator_attribute, no workers": (partial(noise, generator_attribute.broken, workers=0), 16),
    "generator_attribute, fork": (partial(noise, generator_attribute.broken), 8),
    "generator_attribute, fixed, fork": (partial(noise, generator_attribute.fixed), 16),
    "ranks, padding": (partial(ranks.broken, kind="padding"), 1),
    "ranks, fixed, padding": (partial(ranks.fixed, kind="padding"), 0),
    "repeated_stream, 3 workers": (
        partial(repeated_stream.broken, workers=3),
        2 * repeated_stream.LENGTH,
    ),
    "repeated_stream, fixed, 3 workers": (partial(repeated_stream.fixed, workers=3), 0),
    "reused_buffer, 1 worker": (partial(reused_buffer.broken, workers=1), SOME),
    "shared_file_offset, file, 1 worker": (partial(FILE.broken, workers=1), 0),
    "shared_file_offset, zip, 1 worker": (partial(FILE.broken, workers=1, kind="zip"), 0),
    "shared_file_offset, tar, 1 worker": (partial(FILE.broken, workers=1, kind="tar"), 0),
    "shared_file_offset, tar, 2 workers": (partial(FILE.broken, kind="tar"), SOME),
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


def not_text() -> None:
    b"\xff".decode()


def no_program() -> None:
    raise subprocess.CalledProcessError(1, "decode")


class Described(Exception):
    """An exception with an attribute `message`, but without such an argument."""

    message = "a reading cannot be used"


def described() -> None:
    raise Described


def key_error() -> None:
    raise KeyError("label")


def executor() -> None:
    with ProcessPoolExecutor(1) as pool:
        pool.submit(abs, -1).result(timeout=20)


def loader_in_worker() -> None:
    next(iter(load(Numbers())))


def images(*wanted: str, workers: int) -> DataLoader[Any]:
    skipping = none_in_batch.SkippingImages(shared_images())
    index = {"bad" if skipping[i] == (None, None) else "good": i for i in range(len(skipping))}
    return load(Subset(skipping, [index[each] for each in wanted]), num_workers=workers)


def a_whole_none(*, workers: int) -> DataLoader[Any]:
    return load([(torch.ones(3), 1), None], num_workers=workers)


def clips(*, longest_first: bool, workers: int) -> DataLoader[Any]:
    dataset: Any = ragged_batch.broken().loader.dataset
    paths = dataset.paths if longest_first else dataset.paths[::-1]
    return load(ragged_batch.Clips(paths), batch_size=4, num_workers=workers)


def unwrapped(make: Callable[[], Case]) -> DataLoader[Any]:
    """Load the dataset that a fixed case wraps, so that its own exception arrives."""
    dataset: Any = make().loader.dataset
    return load(dataset.dataset)


STACK = "RuntimeError: stack expects each tensor to be equal size"
NO_NUMEL = "AttributeError: 'NoneType' object has no attribute 'numel'"
EXPECTED_TENSOR = "TypeError: expected Tensor as element 1 in argument 0, but got NoneType"
NO_LEN = "TypeError: TypeError: object of type 'NoneType' has no len()"
NO_CHILDREN = "AssertionError: daemonic processes are not allowed to have children"

RAISING: dict[str, tuple[Callable[[], DataLoader[Any]], str]] = {
    # An exception whose type needs more than a message becomes another one.
    "json": (lambda: load(Numbers(not_json)), "RuntimeError: json.decoder.JSONDecodeError: "),
    "decode": (lambda: load(Numbers(not_text)), "RuntimeError: UnicodeDecodeError: "),
    "subprocess": (
        lambda: load(Numbers(no_program)),
        "RuntimeError: subprocess.CalledProcessError: ",
    ),
    "a KeyError": (lambda: load(Numbers(key_error)), "KeyError: KeyError: 'label'"),
    "an attribute `message`": (lambda: load(Numbers(described)), "TypeError: "),
    # Unless the dataset raises one with a message only, from the top level of a module.
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
    # What torch says depends on where the None is, and on the workers.
    "none_in_batch, last": (lambda: images("good", "bad", workers=2), NO_NUMEL),
    "none_in_batch, last, no workers": (
        lambda: images("good", "bad", workers=0),
        EXPECTED_TENSOR,
    ),
    "none_in_batch, first": (lambda: images("bad", "good", workers=2), "found <class 'NoneType'>"),
    "none_in_batch, first, no workers": (
        lambda: images("bad", "good", workers=0),
        "found <class 'NoneType'>",
    ),
    "none_in_batch, a whole sample": (lambda: a_whole_none(workers=2), NO_LEN),
    "none_in_batch, a whole sample, no workers": (lambda: a_whole_none(workers=0), NO_LEN),
    "ragged_batch, longest first": (
        lambda: clips(longest_first=True, workers=2),
        "RuntimeError: Trying to resize storage that is not resizable",
    ),
    "ragged_batch, shortest first": (lambda: clips(longest_first=False, workers=2), STACK),
    "ragged_batch, no workers": (lambda: clips(longest_first=True, workers=0), STACK),
    "shared_file_offset, zip": (lambda: FILE.broken(kind="zip").loader, "zipfile.BadZipFile: "),
}


@pytest.mark.parametrize("setting", RAISING)
def test_a_setting_in_which_this_arrives_in_main(setting: str) -> None:
    make, told = RAISING[setting]
    seen = observe(make(), deadline=20)
    assert seen.end == "raised", seen
    [(kind, message)] = seen.chain
    assert told in f"{kind}: {said(kind, message)}"


class TooManyWindows(wrong_length.Windows):
    """A dataset whose length counts windows that start too late to fit."""

    def __len__(self) -> int:
        return len(self.recording) // wrong_length.STRIDE


def test_too_large_a_length_fails_in_the_last_batch() -> None:
    seen = observe(load(TooManyWindows(wrong_length.recording()), batch_size=8))
    assert (seen.end, seen.raised_in_worker) == ("raised", "IndexError")
    assert seen.samples == wrong_length.WINDOWS  # all existing windows arrived first


# Settings in which nothing goes wrong


def program() -> None:
    subprocess.run([sys.executable, "-S", "-c", ""], check=True, timeout=20)


def thread() -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(abs, -1).result(timeout=20)


def an_unused_executor() -> Case:
    loader = lost_thread.broken().loader
    dataset: Any = loader.dataset
    dataset.thread = ThreadPoolExecutor(max_workers=1)
    return Case(loader)


def a_lock_that_nobody_holds() -> Case:
    held_lock.CACHE.get("before the fork", lambda key: [len(key)])
    return Case(held_lock.broken().loader)


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
        an_unused_executor,
        a_lock_that_nobody_holds,
        drawn_after_the_fork,
    ],
)
def test_a_setting_in_which_nothing_goes_wrong(make: Callable[[], Case]) -> None:
    case = make()
    seen = observe(case.loader, consume=case.consume, deadline=20)
    assert seen.end == "finished", seen


def test_a_batch_of_a_reused_buffer_is_its_last_content_again_and_again_with_no_workers() -> None:
    batches = DataLoader(reused_buffer.Frames(reused_buffer.shared_records()), batch_size=8)
    assert [batch[:, 0].tolist() for batch in batches] == [[last] * 8 for last in range(7, 64, 8)]


def test_an_unfinished_batch_at_the_end_of_a_stream_is_dropped_once() -> None:
    batches = list(TAIL.BatchedStream(TAIL.LENGTH + TAIL.BATCH - 1))
    assert torch.cat(batches).tolist() == list(range(TAIL.LENGTH))


class MeasuredStream(Stream):
    """A stream with a length, which may be wrong."""

    def __init__(self, length: int, told: int) -> None:
        super().__init__(length)
        self.told = told

    def __len__(self) -> int:
        return self.told


@pytest.mark.parametrize(
    ("told", "options", "warned"),
    [
        (4, {"num_workers": 0}, True),
        (100, {"num_workers": 0}, False),
        (8, {"num_workers": 2}, True),  # torch warns that each worker yields the whole stream,
        (8, {"num_workers": 2, "batch_size": 2}, False),  # but not in batches
    ],
)
def test_torch_warns_only_of_a_stream_that_yields_more_batches_than_its_length(
    told: int, options: dict[str, Any], warned: bool
) -> None:
    loader = load(MeasuredStream(8, told), **{"batch_size": 1, **options})
    assert len(loader) == told // (loader.batch_size or 1)  # torch compares with what len() gave
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        samples = sum(len(batch) for batch in loader)
    assert samples == 8 * max(1, loader.num_workers)
    assert any("Length of IterableDataset" in str(each.message) for each in caught) == warned
