"""StopIteration ends the epoch, and a dict in place of next() does not raise it."""

from __future__ import annotations

import pytest
from torch.utils.data import DataLoader

from dltutor.failures import silent_stop
from dltutor.failures.data.readings import SPOILT
from dltutor.failures.silent_stop import LabeledReadings, VerifiedReadings
from dltutor.observation import observe

pytestmark = pytest.mark.usefixtures("nothing_left_behind")


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_the_epoch_ends_before_the_batch_without_an_error(workers: int) -> None:
    case = silent_stop.broken(workers=workers)
    observation = observe(case.loader, consume=case.consume)
    assert (observation.end, observation.batches, observation.samples) == ("finished", 4, 8)
    assert str(observation.result) == "8 of 16 samples never delivered"


def test_the_sample_itself_raises_stop_iteration() -> None:
    dataset = silent_stop.broken().loader.dataset
    assert isinstance(dataset, LabeledReadings)
    with pytest.raises(StopIteration):
        dataset[SPOILT]


def test_what_has_no_label_is_known_before_the_epoch() -> None:
    loader: DataLoader[silent_stop.Sample] = silent_stop.fixed(workers=0).loader
    dataset = loader.dataset
    assert isinstance(dataset, VerifiedReadings)
    assert [path.name for path in dataset.unlabeled] == ["009.json"]
    assert sum(len(labels) for _, labels in loader) == len(dataset) == 15
