"""Test the other kind of `unloadable`, an exception, without starting a worker."""

from __future__ import annotations

import pickle

import pytest

from dltutor.failures.unloadable import broken, fixed


def test_an_exception_with_other_arguments_than_its_init_can_only_be_pickled() -> None:
    pickled = pickle.dumps(broken(kind="exception").loader.dataset)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        pickle.loads(pickled)
    copy = pickle.loads(pickle.dumps(fixed(kind="exception").loader.dataset))
    assert [str(each) for each in copy.unreadable] == ["3.dcm: no pixels"]
