"""Lesson 10: leaking loaders. What its notebook imports."""

from dltutor.failures import growing_cache, heap_growth, kept_batches, reference_cycle
from dltutor.failures.growing_cache import Recordings
from dltutor.failures.heap_growth import c_library, reuses_memory
from dltutor.failures.kit.gauge import Gauge
from dltutor.lessons.lesson_10.jobs import Collecting, JobA, make_job
from dltutor.lessons.lesson_10.runs import draw_fixed, draw_runs, train
from dltutor.lessons.lesson_10.validation import make_model, scans_loader
from dltutor.tables import Table

__all__ = [
    "Collecting",
    "Gauge",
    "JobA",
    "Recordings",
    "Table",
    "c_library",
    "draw_fixed",
    "draw_runs",
    "growing_cache",
    "heap_growth",
    "kept_batches",
    "make_job",
    "make_model",
    "reference_cycle",
    "reuses_memory",
    "scans_loader",
    "train",
]
