"""Two ranks that agree by seed and epoch, and share what does not divide by two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from torch import distributed
from torch.utils.data import DistributedSampler

from dltutor.failures import ranks
from dltutor.failures.ranks import LENGTH, Numbers, Share, counted_twice, same_order
from dltutor.failures.tools.contract import Case
from dltutor.observation import observe


def finding(case: Case) -> Any:
    return observe(case.loader, consume=case.consume).result


def test_padding_counts_a_sample_twice_and_dealing_out_does_not(
    nothing_left_behind: Callable[..., None],
) -> None:
    assert str(finding(ranks.broken(kind="padding"))) == "1 of 63 samples counted twice"
    assert str(finding(ranks.fixed(kind="padding"))) == "0 of 63 samples counted twice"
    assert not distributed.is_initialized()


def test_the_order_is_the_samplers_doing_and_not_that_of_workers() -> None:
    assert finding(ranks.broken(workers=0)).value == 1
    assert finding(ranks.fixed(workers=0)).value == 0


def test_padding_repeats_the_first_indices() -> None:
    padded = [list(DistributedSampler(Numbers(), 2, rank, shuffle=False)) for rank in range(2)]
    assert sum(map(len, padded)) == LENGTH + 1
    assert padded[1][-1] == 0


def test_shares_without_padding_are_all_samples_once() -> None:
    shares = [list(Share(rank)) for rank in range(2)]
    assert sorted(shares[0] + shares[1]) == list(range(LENGTH))
    assert [len(Share(rank)) for rank in range(2)] == [32, 31]


def test_the_judges_tell_same_from_different() -> None:
    assert same_order([[[0, 1], [0, 1]], [[2], [2]]]).value == 1
    assert same_order([[[0, 1], [1, 0]], [[2], [2]]]).value == 0
    assert counted_twice([[[0, 2]], [[1, 0]]]).value == 1


def test_the_second_rank_is_ended_when_the_first_one_fails(
    nothing_left_behind: Callable[..., None],
) -> None:
    def fail(loader: object) -> Any:
        raise ValueError("the first rank has had enough")

    case = ranks.broken(workers=0)
    with pytest.raises(ValueError, match="had enough"):
        ranks.on_two_ranks(case.loader, fail, same_order, Share(1))
    nothing_left_behind()
