"""Test that `on_two_ranks` ends rank 1 if rank 0 fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dltutor.failures import ranks
from dltutor.failures.ranks import Share, same_order


def test_the_second_rank_is_ended_when_the_first_one_fails(
    nothing_left_behind: Callable[..., None],
) -> None:
    def fail(loader: object) -> Any:
        raise ValueError("the first rank has had enough")

    case = ranks.broken(workers=0)
    with pytest.raises(ValueError, match="had enough"):
        ranks.on_two_ranks(case.loader, fail, same_order, Share(1))
    nothing_left_behind()
