"""Test that users of one connection mix up answers, and that the server ends with its owner."""

from __future__ import annotations

import gc
import socket
from collections.abc import Callable

import pytest

from dltutor.failures.data.store import Store, start_server


class Owner:
    pass


def test_whoever_reads_first_takes_the_answer_to_the_other_question() -> None:
    owner = Owner()
    mine = Store(start_server(owner))
    theirs = Store.__new__(Store)  # like a fork's store: a new descriptor for the same connection
    theirs.connection = mine.connection.dup()
    mine.connection.sendall((1).to_bytes(8, "little"))
    assert theirs.get(2) == (1.0,) * 16


def test_the_server_ends_with_its_owner(nothing_left_behind: Callable[..., None]) -> None:
    owner = Owner()
    address = start_server(owner)
    assert Store(address).get(1)
    del owner
    gc.collect()
    nothing_left_behind()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)
