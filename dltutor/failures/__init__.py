"""Define the catalog of failure modes. Each has its own module, with a broken and a fixed case."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from dltutor.failures.tools import (
    PROMISES,
    START_METHODS,
    Case,
    Consume,
    Costs,
    Counts,
    Facts,
    Failure,
    Finding,
    Promise,
    Says,
    Sign,
    read_facts,
)

#: The modules of the failure modes, in the order of the lessons that teach them.
NAMES: Final[tuple[str, ...]] = (
    # Lesson 01: Corrupt images
    "corrupt_images",
    "none_in_batch",
    # Lesson 02: Transforms that raise
    "lost_exception_type",
    "unpicklable_exception",
    "unpicklable_batch",
    "silent_stop",
    "ragged_batch",
    # Lesson 03: "exited unexpectedly"
    "dead_worker",
    "misleading_exit",
    "leftover_iterator",
    "lost_cause",
    # Lesson 04: Global state
    "global_state",
    "stale_epoch",
    "mutated_in_place",
    "reused_buffer",
    # Lesson 05: Inherited handles
    "shared_file_offset",
    "shared_connection",
    "lazy_but_touched",
    # Lesson 06: Unpicklable handles and start methods
    "unpicklable_handle",
    "main_only_class",
    "missing_main_guard",
    "global_only_in_parent",
    "generator_attribute",
    "children_of_workers",
    # Lesson 07: The loop that never starts
    "held_lock",
    "lost_thread",
    "openmp_after_fork",
    "plot_in_thread",
    # Lesson 08: Seeing memory
    "prefetch_budget",
    "view_of_a_giant",
    # Lesson 09: Copy-on-read
    "copy_on_read",
    "gc_dirties_pages",
    # Lesson 10: Leaking loaders
    "growing_cache",
    "kept_batches",
    "reference_cycle",
    "heap_growth",
    # Lesson 11: Shared memory and open files run out
    "shm_exhausted",
    "too_many_open_files",
    "orphaned_segments",
    # Lesson 12: Silently the same
    "repeated_randomness",
    "repeated_stream",
    "lost_tail",
    "wrong_length",
    "ranks",
    # Lesson 13: How many workers?
    "tiny_tensors",
    "cheap_samples",
    "loader_per_step",
    "head_of_line",
    "oversubscribed",
    "nested_persistent",
)

if TYPE_CHECKING:
    from dltutor.failures.data.images import make_images as make_images

    #: The static facts about each failure mode, read without importing torch, in lesson order.
    FACTS: tuple[Facts, ...]
    #: Every failure mode, ready to run, in lesson order.
    CATALOG: tuple[Failure, ...]

__all__ = [
    "CATALOG",
    "FACTS",
    "PROMISES",
    "START_METHODS",
    "Case",
    "Consume",
    "Costs",
    "Counts",
    "Facts",
    "Failure",
    "Finding",
    "Promise",
    "Says",
    "Sign",
    "make_images",
]


# Load each name on first use, because CATALOG imports torch, and FACTS parses fifty files.
def __getattr__(name: str) -> Any:
    value: Any
    if name == "FACTS":
        value = tuple(read_facts(each) for each in NAMES)
    elif name == "CATALOG":
        value = tuple(import_module(f"dltutor.failures.{each}").FAILURE for each in NAMES)
    elif name == "make_images":
        value = import_module("dltutor.failures.data.images").make_images
    else:
        raise AttributeError(f"module 'dltutor.failures' has no attribute {name!r}")
    globals()[name] = value
    return value
