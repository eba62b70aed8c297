"""Collect the names that notebook 10 (leaking loaders) imports."""

from dltutor.display.figure import draw_growth
from dltutor.failures import growing_cache, heap_growth, kept_batches, reference_cycle
from dltutor.failures.growing_cache import Recordings
from dltutor.lessons.engine.sources import show_source
from dltutor.lessons.lesson_10.helpers import (
    Collecting,
    freeze,
    make_jobs,
    observe_memory,
    what_grew,
    what_stopped,
)
from dltutor.lessons.lesson_10.transfer import make_model, scans_loader

__all__ = [
    "Collecting",
    "Recordings",
    "draw_growth",
    "freeze",
    "growing_cache",
    "heap_growth",
    "kept_batches",
    "make_jobs",
    "make_model",
    "observe_memory",
    "reference_cycle",
    "scans_loader",
    "show_source",
    "what_grew",
    "what_stopped",
]
