"""Two workers ask over one connection, and each gets answers that belong to the other.

Symptom: wrong samples, silently, from a database, a cache or an HTTP service. If answers differ in
length, you get protocol errors such as `http.client.BadStatusLine`, or a hang.

Mechanism: a connection that main made before the workers started is one connection of the operating
system, however many processes hold a descriptor for it. W0 sends a question, W1 sends another, the
server answers both in turn, and whichever worker reads first takes the first answer. The bytes are
intact, but they answer another question.

A file can't be pickled, so `spawn` stops a dataset that holds one. A plain socket can be pickled,
because multiprocessing hands its descriptor on. So under every start method, workers share a client
that keeps only a socket. A client that holds a lock, a buffered file, or TLS raises a `TypeError`.

Fix: keep the address in the dataset, and connect in the process that asks. Leave the connection
out of the pickle. Some clients (redis-py) check the pid themselves, so find out whether your client
does. This fix costs one connection for each worker, so mind the server's limit.

Seen in: redis-py#790 ("Request A's response returning as Request B's response"), phpredis#1642,
QuickAnnotator#130 (PostgreSQL, in DataLoader workers).
"""

from __future__ import annotations

from functools import partial

import torch
from torch.utils.data import Dataset

from dltutor.failures.data.records import count_wrong
from dltutor.failures.data.store import Store, start_server
from dltutor.failures.tools import Case, Counts, Failure, PerProcess, facts_of, load

LENGTH = 64


class Embeddings(Dataset[torch.Tensor]):
    """A dataset of embeddings, which it fetches one by one from a server."""

    def __init__(self) -> None:
        self.store = Store(start_server(owner=self))

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(self.store.get(index))


class OwnConnectionEmbeddings(Embeddings):
    """A dataset of embeddings, with a connection to the server for each process."""

    def __init__(self) -> None:
        self.connected = PerProcess(partial(Store, start_server(owner=self)))

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(self.connected.get().get(index))


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose dataset connects to the server once, for all workers."""
    return Case(load(Embeddings(), workers, start_method, batch_size=2), count_wrong)


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose dataset opens its own connection in each process."""
    return Case(load(OwnConnectionEmbeddings(), workers, start_method, batch_size=2), count_wrong)


FAILURE = Failure(**facts_of(__name__), broken=broken, fixed=fixed, sign=Counts(LENGTH // 16))
