"""Test that padding counts a sample twice, and that `on_two_ranks` ends rank 1 if rank 0 fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dltutor.failures import ranks
from dltutor.failures.ranks import Share, same_order
from dltutor.failures.tools.contract import Case
from dltutor.observation import observe


def finding(case: Case) -> Any:
    return observe(case.loader, consume=case.consume).result


def test_padding_counts_a_sample_twice_and_dealing_out_does_not(
    nothing_left_behind: Callable[..., None],
) -> None:
    assert str(finding(ranks.broken(kind="padding"))) == "1 of 63 samples counted twice"
    assert str(finding(ranks.fixed(kind="padding"))) == "0 of 63 samples counted twice"


def test_the_second_rank_is_ended_when_the_first_one_fails(
    nothing_left_behind: Callable[..., None],
) -> None:
    def fail(loader: object) -> Any:
        raise ValueError("the first rank has had enough")

    case = ranks.broken(workers=0)
    with pytest.raises(ValueError, match="had enough"):
        ranks.on_two_ranks(case.loader, fail, same_order, Share(1))
    nothing_left_behind()
