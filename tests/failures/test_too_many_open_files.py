"""Test that main hangs if a batch needs too many descriptors, unless the batch is packed."""

from __future__ import annotations

import pytest
import torch

from dltutor.failures import too_many_open_files
from dltutor.failures.data.sentences import Sentences, as_list, packed
from dltutor.failures.too_many_open_files import LENGTH
from dltutor.observation import confine

LIMIT = 128


@pytest.mark.thorough  # starts an interpreter that imports torch
def test_one_batch_with_more_tensors_than_descriptors_is_lost_and_main_waits_for_ever() -> None:
    seen = confine(too_many_open_files.broken, open_files=LIMIT, deadline=5, batch_size=200)
    assert (seen.end, seen.batches) == ("hung", 0)
    assert "Too many open files" in seen.stderr
    assert all(worker.exitcode is None for worker in seen.workers), "nobody died"


@pytest.mark.thorough  # starts an interpreter that imports torch
def test_the_same_sentences_packed_are_three_tensors() -> None:
    seen = confine(too_many_open_files.fixed, open_files=LIMIT, batch_size=200)
    assert seen.end == "finished"
    assert sum(seen.result) == LENGTH


def test_both_loops_count_the_same_without_workers() -> None:
    broken, fixed = (m(workers=0) for m in (too_many_open_files.broken, too_many_open_files.fixed))
    assert broken.consume(broken.loader) == fixed.consume(fixed.loader)


def test_packed_sentences_can_be_taken_apart_again() -> None:
    samples = [Sentences(9)[index] for index in range(9)]
    sentences, labels = as_list(samples)
    words, offsets, same_labels = packed(samples)
    again = torch.tensor_split(words, offsets[1:])
    assert all(map(torch.equal, again, sentences)) and len(again) == 9
    assert torch.equal(labels, same_labels)
    assert torch.nn.EmbeddingBag(5000, 3)(words, offsets).shape == (9, 3)
