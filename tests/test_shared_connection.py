"""One connection for two workers, and a server that is gone when its dataset is."""

from __future__ import annotations

import gc
import socket
from collections.abc import Callable
from typing import Any

import pytest

from dltutor.failures import shared_connection
from dltutor.failures.data.store import Store, start_server
from dltutor.observation import observe


class Owner:
    pass


@pytest.mark.parametrize("workers", [0, 1])
def test_one_process_alone_gets_its_own_answers(workers: int) -> None:
    case = shared_connection.broken(workers=workers)
    finding: Any = observe(case.loader, consume=case.consume).result
    assert finding.value == 0


def test_the_store_answers_each_connection_for_itself() -> None:
    owner = Owner()
    address = start_server(owner)
    one, other = Store(address), Store(address)
    assert one.get(3) == (3.0,) * 16
    assert other.get(4) == (4.0,) * 16


def test_whoever_reads_first_takes_the_answer_to_the_other_question() -> None:
    owner = Owner()
    mine = Store(start_server(owner))
    theirs = Store.__new__(Store)  # as after a fork: another descriptor, the same connection
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
