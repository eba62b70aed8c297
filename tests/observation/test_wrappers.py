"""Check that `observe` accepts wrappers around DataLoaders, from other libraries or your own.

`dltutor[wrappers]` installs the libraries. Without a library, its tests are skipped.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import small_datasets
from small_datasets import Numbers, load
from torch.utils.data import DataLoader, IterableDataset

from dltutor.observation import Observation, observe
from dltutor.observation.loaders import inner_loaders, title_of

pytestmark = [
    pytest.mark.usefixtures("nothing_left_behind"),
    pytest.mark.filterwarnings("ignore"),  # warnings from the libraries
]


def webloader(dataset: Any) -> Any:
    wds = pytest.importorskip("webdataset")
    return wds.WebLoader(dataset, batch_size=2, num_workers=2, multiprocessing_context="fork")


def stateful(dataset: Any) -> Any:
    module = pytest.importorskip("torchdata.stateful_dataloader")
    return module.StatefulDataLoader(
        dataset, batch_size=2, num_workers=2, multiprocessing_context="fork"
    )


def prepared(dataset: Any) -> Any:
    accelerate = pytest.importorskip("accelerate")
    return accelerate.Accelerator(cpu=True).prepare_data_loader(load(dataset))


def combined(dataset: Any) -> Any:
    module = pytest.importorskip("lightning.pytorch.utilities.combined_loader")
    return module.CombinedLoader([load(dataset)])


class Lazy:
    """A wrapper that makes a new loader for each epoch."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __iter__(self) -> Iterator[Any]:
        yield from load(self.dataset)


WRAPPERS = [
    webloader,
    stateful,
    prepared,
    pytest.param(combined, marks=pytest.mark.thorough),  # importing Lightning takes seconds
    Lazy,
]


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_batches_are_counted_and_workers_named_in_every_epoch(wrap: Callable[[Any], Any]) -> None:
    seen = observe(wrap(Numbers()), epochs=2)
    assert seen.ok, seen
    assert (seen.batches, seen.samples) == (16, 32)
    assert [worker.name for worker in seen.workers] == ["W0", "W1"]


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_an_error_in_a_worker_is_told_and_the_loader_can_be_used_again(
    wrap: Callable[[Any], Any],
) -> None:
    dataset = Numbers(small_datasets.raise_error)
    loader = wrap(dataset)
    seen = observe(loader)
    assert seen.story().title == "Raised: ValueError in W0"
    assert not seen.ok
    dataset.trouble = None
    assert sum(1 for _ in loader) == 8


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_a_killed_worker_is_told(wrap: Callable[[Any], Any]) -> None:
    seen = observe(wrap(Numbers(small_datasets.killed)))
    assert seen.end == "worker died", seen
    assert [worker.signal for worker in seen.workers].count("SIGKILL") == 1


def two_loaders(**troubles: Callable[[], object]) -> Any:
    module = pytest.importorskip("lightning.pytorch.utilities.combined_loader")
    loaders = {name: load(Numbers(troubles.get(name))) for name in ("images", "texts")}
    return module.CombinedLoader(loaders, "max_size_cycle")


@pytest.mark.thorough
def test_the_workers_of_several_loaders_say_whose_they_are() -> None:
    seen = observe(two_loaders())
    names = ["W0 of images", "W1 of images", "W0 of texts", "W1 of texts"]
    assert [worker.name for worker in seen.workers] == names
    assert seen.timeline.workers == tuple(names)
    assert seen.batches == 8


@pytest.mark.thorough
def test_of_several_loaders_the_one_that_raised_is_told() -> None:
    seen = observe(two_loaders(texts=small_datasets.raise_error))
    assert seen.story().title == "Raised: ValueError in W0 of texts"


@pytest.mark.parametrize("wrap", [stateful, prepared])
def test_torch_s_own_kind_of_loader_gives_its_loop_the_very_loader(
    wrap: Callable[[Any], Any],
) -> None:
    loader = wrap(Numbers())
    seen = observe(loader, consume=lambda given: (given is loader, sum(1 for _ in given)))
    assert seen.result == (True, 8)
    assert seen.batches == 8


class Pairs:
    """A wrapper around several loaders, such as a learner may write."""

    def __init__(self, **loaders: DataLoader[Any]) -> None:
        self.loaders = loaders

    def __iter__(self) -> Iterator[Any]:
        return iter(list(zip(*self.loaders.values(), strict=True)))


def pairs(**troubles: Callable[[], object]) -> Pairs:
    return Pairs(**{name: load(Numbers(troubles.get(name))) for name in ("left", "right")})


def test_a_wrapper_of_ones_own_is_taken_and_each_worker_says_its_loader() -> None:
    seen = observe(pairs(right=small_datasets.raise_error))
    assert seen.story().title == "Raised: ValueError in W0 of right"
    names = ["W0 of left", "W1 of left", "W0 of right", "W1 of right"]
    assert [worker.name for worker in seen.workers] == names


def test_the_workers_are_those_of_the_last_epoch_of_each_loader() -> None:
    seen: Observation = observe(pairs(), epochs=2)
    assert seen.batches == 16
    assert len(seen.workers) == 4


def test_a_title_tells_what_runs() -> None:
    assert title_of(load(Numbers())) == "Numbers, 2 workers"
    assert title_of(pairs()) == "Pairs, 4 workers"
    assert list(inner_loaders(load(Numbers()))) == [""]
    assert list(inner_loaders([load(Numbers()), load(Numbers())])) == ["loader 1", "loader 2"]


def test_the_class_of_a_wrapper_iterates_as_ever_afterwards() -> None:
    before = (Pairs.__iter__, DataLoader.__iter__, DataLoader._get_iterator)
    observe(pairs())
    observe(load(Numbers()))
    assert (Pairs.__iter__, DataLoader.__iter__, DataLoader._get_iterator) == before


class Nested(IterableDataset[Any]):
    """A dataset that iterates a loader with workers, so `observe` accepts it like a loader."""

    def __init__(self) -> None:
        self.loader = load(Numbers())

    def __iter__(self) -> Iterator[Any]:
        return iter(self.loader)


def test_a_dataset_that_has_a_loader_inside_is_a_loader_and_another_is_not() -> None:
    assert observe(Nested()).batches == 8
    with pytest.raises(TypeError, match=r"got Stream \(a Dataset\): wrap it"):
        observe(small_datasets.Stream(3))


def test_a_loader_that_a_thread_iterates_is_named_too() -> None:
    class Prefetching:
        def __init__(self) -> None:
            self.loader = load(Numbers())

        def __iter__(self) -> Iterator[Any]:
            batches: list[Any] = []
            thread = threading.Thread(target=lambda: batches.extend(self.loader))
            thread.start()
            thread.join()
            return iter(batches)

    seen = observe(Prefetching())
    assert (seen.end, seen.batches) == ("finished", 8), seen
    assert [worker.name for worker in seen.workers] == ["W0", "W1"]
