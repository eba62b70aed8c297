"""Collect the names that notebook 05 (inherited handles) imports."""

from dltutor.failures.data.records import LENGTH, SIZE, decode, open_slowly, shared_records
from dltutor.lessons.lesson_05.helpers import handles, recording, start_server, told

__all__ = [
    "LENGTH",
    "SIZE",
    "decode",
    "handles",
    "open_slowly",
    "recording",
    "shared_records",
    "start_server",
    "told",
]
