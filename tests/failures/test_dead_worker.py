"""Test that `VerifiedFrames` leaves out the frame whose decoding ends the process."""

from __future__ import annotations

import pytest

from dltutor.failures.dead_worker import How, VerifiedFrames, film_paths

pytestmark = pytest.mark.usefixtures("nothing_left_behind")


@pytest.mark.parametrize(("how", "cause"), [("segfault", "SIGSEGV"), ("exit", "exit code 3")])
def test_tried_alone_the_bad_frame_is_found(how: How, cause: str) -> None:
    dataset = VerifiedFrames(film_paths(), how)
    assert dataset.quarantined == {"09.frame": cause}
    assert len(dataset) == 15
