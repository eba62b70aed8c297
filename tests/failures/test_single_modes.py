"""Test what the fixes, helpers, and data of single failure modes do beyond test_failures.py."""

from __future__ import annotations

import gc
import os
import pickle
import socket
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from small_datasets import load

from dltutor.failures import (
    global_state,
    loader_per_step,
    lost_exception_type,
    ranks,
    silent_stop,
    too_many_open_files,
    uneven_ranks,
    unloadable,
)
from dltutor.failures.data.readings import SPOILED
from dltutor.failures.data.records import open_slowly, shared_records
from dltutor.failures.data.sentences import Sentences, as_list, packed
from dltutor.failures.data.store import Store, start_server
from dltutor.failures.data.tolerant import Missing, collate_tolerant
from dltutor.failures.global_state import MISSING, ReadingsWithValue
from dltutor.failures.loader_per_step import endless
from dltutor.failures.ragged_batch import collate_clips
from dltutor.failures.shm_exhausted import ByteSlices, Slices, as_arrays, shared_scan
from dltutor.failures.tools.gauge import Gauge, no_proc
from dltutor.failures.tools.handles import PerProcess
from dltutor.failures.tools.two_ranks import on_two_ranks
from dltutor.observation import observe
from dltutor.tables import MB


def test_silent_stop_a_sample_itself_raises_and_the_fix_leaves_it_out() -> None:
    broken: Any = silent_stop.broken(workers=0).loader.dataset
    fixed: Any = silent_stop.fixed(workers=0).loader.dataset
    with pytest.raises(StopIteration):
        broken[SPOILED]
    assert [path.name for path in fixed.unlabeled] == ["009.json"]
    assert len(fixed) == len(broken) - 1


def test_lost_exception_type_the_fix_costs_one_sample_and_gives_the_reason() -> None:
    batches = list(lost_exception_type.fixed(workers=0).loader)
    assert sum(len(labels) for (_, labels), _ in batches) == 15
    assert [reason for _, reasons in batches for reason in reasons] == [
        "sample 9: BadReading: 009.json has no label"
    ]
    assert collate_tolerant([Missing("sample 0: gone")]) == (None, ["sample 0: gone"])


def test_ragged_batch_lengths_tell_padding_from_sound() -> None:
    batch = collate_clips([(torch.ones(3), 0), (torch.ones(2), 1)])
    assert batch["sounds"].tolist() == [[1, 1, 1], [1, 1, 0]]
    assert batch["lengths"].tolist() == [3, 2]
    assert batch["speakers"].tolist() == [0, 1]


def test_unloadable_an_exception_with_other_arguments_than_its_init_can_only_be_pickled() -> None:
    pickled = pickle.dumps(unloadable.broken(kind="exception").loader.dataset)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        pickle.loads(pickled)
    copy = pickle.loads(pickle.dumps(unloadable.fixed(kind="exception").loader.dataset))
    assert [str(each) for each in copy.unreadable] == ["3.dcm: no pixels"]


def test_global_state_each_process_counts_in_its_own_slot() -> None:
    case = global_state.fixed(workers=3)
    assert case.consume(case.loader).value == 0
    # In each batch of eight, one value is missing.
    assert case.loader.dataset.replaced.tolist() == [3, 3, 2]


def test_global_state_a_value_must_come_from_the_context_of_the_start_method() -> None:
    ours, forked = ReadingsWithValue("forkserver"), ReadingsWithValue("fork")
    assert observe(load(ours, "forkserver", batch_size=8)).end == "finished"
    assert ours.replaced.value == MISSING
    [(kind, message)] = observe(load(forked, "forkserver", num_workers=1)).chain
    assert kind == "RuntimeError" and "created in a fork context" in message


def test_shared_file_offset_a_handle_of_each_process_is_opened_once_and_never_pickled(
    tmp_path: Path,
) -> None:
    opened = PerProcess(tmp_path.stat)
    assert opened.get() is opened.get()
    again = pickle.loads(pickle.dumps(opened))
    assert again.get() is again.get() is not opened.get()


def test_shared_file_offset_the_slow_disk_reads_what_the_file_holds() -> None:
    path = shared_records("zip")
    with open_slowly(path) as file:
        assert file.read() == path.read_bytes()


class Owner:
    """The owner of a server. The server ends when Python frees its owner."""


def test_shared_connection_the_server_ends_with_its_owner(
    nothing_left_behind: Callable[..., None],
) -> None:
    owner = Owner()
    address = start_server(owner)
    assert Store(address).get(1)
    del owner
    gc.collect()
    nothing_left_behind()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)


def test_shm_exhausted_bytes_and_numbers_hold_the_same_picture() -> None:
    numbers, gray = Slices(shared_scan())[7], ByteSlices(shared_scan())[7]
    assert torch.equal(numbers, gray.float() / 255)
    assert numbers.nbytes == 4 * gray.nbytes == 1 << 20
    assert np.array_equal(as_arrays([gray, gray])[1], gray.numpy())


def test_too_many_open_files_both_loops_count_the_same_without_workers() -> None:
    broken, fixed = (m(workers=0) for m in (too_many_open_files.broken, too_many_open_files.fixed))
    assert broken.consume(broken.loader) == fixed.consume(fixed.loader)


def test_too_many_open_files_packed_sentences_can_be_taken_apart_again() -> None:
    samples = [Sentences(9)[index] for index in range(9)]
    sentences, labels = as_list(samples)
    words, offsets, same_labels = packed(samples)
    again = torch.tensor_split(words, offsets[1:])
    assert all(map(torch.equal, again, sentences)) and len(again) == 9
    assert torch.equal(labels, same_labels)
    assert torch.nn.EmbeddingBag(5000, 3)(words, offsets).shape == (9, 3)


@pytest.mark.skipif(no_proc() is not None, reason=str(no_proc()))
@pytest.mark.parametrize(("start_method", "tensors"), [("fork", 2), ("forkserver", 1)])
def test_view_of_a_giant_moves_it_to_shared_memory_once_for_each_forked_worker(
    start_method: str, tensors: int
) -> None:
    gauge = Gauge()
    rows = list(load(torch.zeros(16, 62_500), start_method, batch_size=None))
    assert sum(row.nbytes for row in rows) == 4_000_000
    assert gauge.shared() == pytest.approx(tensors * 4e6 / MB, rel=0.01)


def test_ranks_the_second_rank_is_ended_when_the_first_one_fails(
    nothing_left_behind: Callable[..., None],
) -> None:
    def fail(loader: object) -> Any:
        raise ValueError("the first rank has had enough")

    case = ranks.broken(workers=0)
    with pytest.raises(ValueError, match="had enough"):
        ranks.judge_two_ranks(case.loader, fail, ranks.same_order, ranks.Share(1))
    nothing_left_behind()


def test_uneven_ranks_the_second_rank_is_ended_when_the_first_one_fails(
    nothing_left_behind: Callable[..., None],
) -> None:
    case = uneven_ranks.fixed(workers=0)

    def fail(loader: object) -> None:
        assert dist.get_world_size() == 2
        raise ValueError("the first rank has had enough")

    with pytest.raises(ValueError, match="had enough"):
        on_two_ranks(case.loader, fail, partial(iter, ()))
    assert not dist.is_initialized() and "GLOO_SOCKET_IFNAME" not in os.environ
    nothing_left_behind()


def test_loader_per_step_an_endless_loop_gets_every_sample_before_any_comes_again() -> None:
    loader = loader_per_step.fixed(workers=0).loader
    batches = endless(loader)
    for _ in range(2):
        epoch = torch.cat([batch for [batch] in islice(batches, len(loader))])
        assert epoch.sort().values.tolist() == list(range(512))
