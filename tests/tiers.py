"""Which tests are thorough: one table, which `conftest.py` applies.

`make test` runs every test that is not marked `thorough`, `make test-thorough` every one that is;
README.md says what is where, and why. Here stand the tests that are thorough for some of their
parameters, and those whose own file is not the place to say it.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:  # it brings torch
    from dltutor.failures import Failure

ANSWERS: Final = 2
"""Wrong answers of each exercise that the default tier runs: the first that are listed."""

UNTOUCHED: Final = ("00-start-here",)
"""Learner's files that the default tier runs."""


def always(**parameters: Any) -> bool:
    """Thorough with all parameters."""
    return True


def spawned(start_method: str, **others: Any) -> bool:
    """By `spawn`: a worker imports torch for 2 s of CPU.

    Those of the tests' fork server are as fresh, and have torch already (`conftest.py` preloads
    it): where another start method than fork is asked for, the default tier takes forkserver.
    """
    return start_method == "spawn"


def not_forked(start_method: str, **others: Any) -> bool:
    """By another start method than fork, in an interpreter that has no fork server yet."""
    return start_method != "fork"


DEAR: Final = ("gc_dirties_pages", "copy_on_read", "plot_in_thread")
"""Failure modes whose proof that the fork server does not show them takes over 2 s of CPU."""


def spawned_or_dear(failure: Failure, start_method: str) -> bool:
    """By `spawn`, or by the fork server where that takes long."""
    return spawned(start_method) or failure.name in DEAR


def again(failure: Failure, start_method: str) -> bool:
    """By another start method than the cheapest under which the failure shows.

    What is isolated runs in a child interpreter, where forkserver is no cheaper than spawn.
    """
    cheapest = failure.start_methods if failure.isolated else ("fork", "forkserver", "spawn")
    return start_method != next(each for each in cheapest if each in failure.start_methods)


def in_the_twin(exercise: str, name: str) -> bool:
    """A right answer that the check runs; each solved twin has one checked, at no other cost."""
    from dltutor.lessons.engine.checking import exercises

    return bool(exercises()[exercise].grader.at_most)


def beyond_the_first(exercise: str, name: str) -> bool:
    """Not among the first wrong answers that are listed for its exercise."""
    from test_answers import WRONG_FIXES

    return name not in list(WRONG_FIXES[exercise])[:ANSWERS]


def beyond_the_first_outcome(exercise: str, name: str) -> bool:
    """Not the first answer with another outcome that is listed for its exercise."""
    from test_answers import OTHER_OUTCOMES

    return name != next(iter(OTHER_OUTCOMES[exercise]))


def three_of_four(name: str, answer: Any) -> bool:
    """Three quarters of the pairs; each exercise, and each odd answer, is among the rest."""
    from test_checking import ODD

    from dltutor.lessons.engine.checking import exercises

    [position] = [place for place, each in enumerate(ODD) if each is answer]
    return (sorted(exercises()).index(name) + position) % 4 != 0


def harm_after_the_first(exercise: str, place: str, harm: str) -> bool:
    """All but one harm, at one place: what ends the process that makes the answer."""
    return (place, harm) != ("when it is made", "ends its process")


def slip_after_the_first(exercise: str, slip: str) -> bool:
    """All but one slip."""
    return slip != "another sample at the last index"


def untouched(path: Path) -> bool:
    """A learner's file that the default tier leaves out: its twin runs the same cells."""
    return path.stem not in UNTOUCHED


def another_kind(kind: str, **others: Any) -> bool:
    """Captions in another kind than the first with Python objects, and the first without."""
    return kind not in ("list", "packed")


def sent(start_method: str, **others: Any) -> bool:
    """Under another start method than fork, where fork shows it."""
    return start_method != "fork"


def not_one_each(method: str, **others: Any) -> bool:
    """Under another start method than fork, or with another signal than SIGKILL."""
    return method != "fork" or others.get("number") not in (None, signal.SIGKILL)


THOROUGH: Final[dict[str, Callable[..., bool]]] = {
    "test_failures.py::test_broken_it_shows_its_sign_and_fixed_it_does_not": again,
    "test_failures.py::test_fixed_it_delivers_what_it_does_without_workers": always,
    "test_failures.py::test_what_a_spawned_worker_died_of_is_on_its_stderr_and_not_in_main": always,
    "test_failures.py::"
    "test_under_another_start_method_the_broken_case_does_not_show_its_sign": spawned_or_dear,
    "test_harmless.py::test_whatever_somebody_else_started_meanwhile_lives_on": not_one_each,
    "test_harmless_state.py::test_observe_changes_nothing_but_what_the_loop_trains": not_forked,
    "test_harmless.py::test_nothing_is_left_of_a_run_whose_process_is_killed": not_one_each,
    "test_worker_names.py::test_torch_names_its_workers_under_every_start_method": spawned,
    "test_gauge.py::test_what_workers_keep_is_read_under_every_start_method": spawned,
    "test_confine.py::test_workers_of_a_fork_server_do_not_outlive_a_killed_caller": always,
    "test_budget.py::"
    "test_a_forked_worker_adds_little_and_a_spawned_one_an_interpreter_with_torch": always,
    "test_faults.py::test_two_notebooks_at_once_leave_each_other_alone": always,
    "test_orphaned_segments.py::test_managers_that_live_on_remove_the_segments": always,
    "test_shm_exhausted.py::"
    "test_a_list_of_tensors_is_lost_in_the_queue_and_main_waits_for_ever": always,
    "test_shm_exhausted.py::test_numpy_arrays_need_no_shared_memory": always,
    "test_too_many_open_files.py::"
    "test_one_batch_with_more_tensors_than_descriptors_is_lost_and_main_waits_for_ever": always,
    "test_too_many_open_files.py::test_the_same_sentences_packed_are_three_tensors": always,
    "test_confine.py::test_without_limits_it_is_a_child_interpreter_that_prints_nothing": always,
    "test_head_of_line.py::test_in_order_the_slow_batch_comes_in_its_turn": always,
    "test_head_of_line.py::test_out_of_order_more_than_half_of_the_others_come_before_it": always,
    "test_missing_main_guard.py::test_the_script_itself_says_the_same": always,
    "test_missing_main_guard.py::test_the_script_with_a_guard_gives_its_four_batches": always,
    "test_gc_dirties_pages.py::test_broken_and_fixed_deliver_the_same_samples": always,
    "test_lesson_10.py::test_the_heap_levels_off_after_128_tensors_of_each_worker": always,
    "test_answers.py::test_a_wrong_fix_gets_the_code_of_what_is_wrong": beyond_the_first,
    "test_answers.py::test_a_right_answer_is_correct": in_the_twin,
    "test_answers.py::test_an_answer_with_another_outcome_gets_that": beyond_the_first_outcome,
    "test_checking.py::"
    "test_whatever_is_handed_in_is_told_something_and_is_no_mistake_of_ours": three_of_four,
    "test_harm.py::test_no_answer_to_any_exercise_harms_the_kernel": harm_after_the_first,
    "test_slips.py::test_a_right_dataset_with_a_slip_is_not_correct": slip_after_the_first,
    "test_notebooks.py::test_a_solved_twin_keeps_within_what_binder_gives": always,
    "test_notebooks.py::test_an_untouched_learners_file_runs_and_solves_nothing": untouched,
    "test_notebook_machinery.py::test_a_starter_that_is_already_solved_is_caught": always,
    "test_notebook_machinery.py::test_a_kernel_that_dies_is_reported_at_its_cell": always,
    "test_notebook_machinery.py::test_a_notebook_that_hangs_is_ended_with_its_processes": always,
    "test_notebook_machinery.py::test_what_a_lesson_leaves_behind_is_named_and_ended": always,
    "test_copy_on_read.py::test_reading_python_objects_copies_them": always,
    "test_copy_on_read.py::test_reading_bytes_copies_nothing": always,
    "test_chart.py::test_a_live_notebook_is_the_same_in_every_run": always,
    "test_browser.py::test_in_notebook_7_the_chart_moves_while_the_cell_is_busy": always,
}
"""The test's file and name, and whether it is thorough with these parameters."""


def mark(items: list[pytest.Item]) -> None:
    """Mark what the table calls thorough."""
    for item in items:
        if not isinstance(item, pytest.Function):
            continue
        rule = THOROUGH.get(f"{item.path.name}::{item.originalname}")
        callspec = getattr(item, "callspec", None)
        if rule and rule(**(callspec.params if callspec else {})):
            item.add_marker(pytest.mark.thorough)
