"""Read rows from the customer database."""

import os
import threading
from functools import lru_cache

import numpy as np
from config import RECENT
from database import Connection

_lock = threading.Lock()  # lets one thread ask at a time
_own = threading.local()


def connection(folder):
    """Return this thread's own connection to a database, because threads can't share one."""
    connections = vars(_own)
    folder = os.path.abspath(folder)
    if folder not in connections:
        connections[folder] = Connection(folder)
    return connections[folder]


@lru_cache(maxsize=RECENT)
def read(folder, customer):
    """Return a customer's numbers from the database, not scaled."""
    with _lock:
        return np.array(connection(folder).row(customer))
