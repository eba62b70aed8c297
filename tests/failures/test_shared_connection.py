"""Test that the server from `start_server` ends once its owner is garbage."""

from __future__ import annotations

import gc
import socket
from collections.abc import Callable

import pytest

from dltutor.failures.data.store import Store, start_server


class Owner:
    pass


def test_the_server_ends_with_its_owner(nothing_left_behind: Callable[..., None]) -> None:
    owner = Owner()
    address = start_server(owner)
    assert Store(address).get(1)
    del owner
    gc.collect()
    nothing_left_behind()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)
