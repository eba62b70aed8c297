"""Lesson 04: what a worker changes stays in the worker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from torch.utils.data import DataLoader

from dltutor.failures import global_state
from dltutor.lessons.kit.exercise import Exercise, choice
from dltutor.lessons.kit.outcome import Result, correct, not_attempted, not_yet
from dltutor.lessons.lesson_04 import clips_task, headlines_task
from dltutor.lessons.lesson_04.witness import Witness, counters
from dltutor.observation import observe

_SET_BY_MAIN: Final = 100
_PROCESSES: Final = ("main", "W0", "W1")

_Held = tuple[int, ...]


def _measure(*, persistent: bool) -> _Held:
    # The experiment of the question: two epochs, and main sets the global between them.
    def train(loader: DataLoader[Any]) -> dict[str, int]:
        counters(loader)
        global_state.replaced = _SET_BY_MAIN
        return counters(loader)

    kept = global_state.replaced
    global_state.replaced = 0
    try:
        loader = DataLoader(
            Witness(),
            batch_size=8,
            num_workers=2,
            persistent_workers=persistent,
            multiprocessing_context="fork",
        )
        held: Any = observe(loader, consume=train, deadline=10).result
    finally:
        global_state.replaced = kept
    return tuple(held[process] for process in _PROCESSES)


def _diagnose(answer: Any) -> Result:
    if not isinstance(answer, Mapping):
        if answer is None or answer is ...:
            return not_attempted("set `held` to the numbers that you expect.")
        return not_yet(f"`held` has to stay a dict of two entries, got {answer!r:.60}.")
    given: dict[str, Any] = {kind: answer.get(kind) for kind in ("fresh", "persistent")}
    if any(value is None or value is ... for value in given.values()) or any(
        ... in value for value in given.values() if isinstance(value, (tuple, list))
    ):
        return not_attempted(
            "each entry of `held` gets three numbers: what main, W0 and W1 hold after epoch 1."
        )
    for kind, value in given.items():
        if (
            not isinstance(value, (tuple, list))
            or len(value) != len(_PROCESSES)
            or not all(isinstance(each, int) for each in value)
        ):
            return not_yet(f"`{kind}` has to be three whole numbers, got {value!r:.60}.")
    measured = {kind: _measure(persistent=kind == "persistent") for kind in given}
    for kind, held in measured.items():
        if tuple(given[kind]) != held:
            return not_yet(_feedback(kind, tuple(given[kind]), held))
    fresh, persistent = measured["fresh"], measured["persistent"]
    return correct(
        f"Measured: main, W0 and W1 hold {fresh} with fresh workers and {persistent} with "
        "persistent ones. A worker has what main had when it started, and what it did itself "
        "since. Nothing else goes either way."
    )


def _feedback(kind: str, given: _Held, held: _Held) -> str:
    said = f"`{kind}`: {given} is not what the three hold."
    if given[0] != held[0]:
        return (
            f"{said} Begin with main. It set its variable to {_SET_BY_MAIN} and drew no reading "
            "since. Did any worker ever change main's number?"
        )
    if given[1] != given[2]:
        return f"{said} Both workers started at the same moment and meet as many missing readings."
    if kind == "fresh" and given[1] < _SET_BY_MAIN:
        return (
            f"{said} Fresh workers of epoch 1 are forked when epoch 1 begins, after main had set "
            "its variable. What do they find?"
        )
    if kind == "persistent" and given[1] >= _SET_BY_MAIN:
        return (
            f"{said} Persistent workers had started before main set its variable. Who would have "
            "told them?"
        )
    if kind == "persistent" and given[1] == held[1] // 2:
        return f"{said} These workers live on: what they counted in epoch 0 is still there."
    return f"{said} How many readings does each worker replace in an epoch? The table has it."


EXERCISES: Final = (
    Exercise(
        name="04.predict",
        title="What does main's counter say?",
        grade=choice(
            "b",
            {
                "a": "`a`: the workers replaced 8 readings, that is right. But look at what main "
                "printed. Main replaced none, and it is main's variable that main prints.",
                "b": "`b`: 0, on every run. The variable that main prints is one that no worker "
                "can reach.",
                "c": "`c`: run the cell again, as often as you like: it is 0 each time. To get "
                "in each other's way, counts would need one variable that all of them write to.",
                "d": "`d`: half of them would mean that one worker's number came back, and not the "
                "other's. None came back.",
            },
        ),
        hints=(
            "You need no certainty here: choose, run the next cells, and read what comes back.",
            "Each worker is a process. Ask which process runs `__getitem__`, and which one prints.",
            "The printed number is main's own variable. Main never ran `__getitem__`.",
        ),
    ),
    Exercise(
        name="04.diagnose",
        title="When does a worker get its copy?",
        grade=_diagnose,
        runs="two epochs with fresh and two with persistent workers",
        at_most=20,
        hints=(
            "Take the table of three epochs, and ask for each row at which moment that worker was "
            "started.",
            "A forked worker starts with what main's variable is at that moment, and adds its own "
            "4 in each epoch that it lives through. Main's variable is changed by main only.",
            "Fresh workers of epoch 1 are forked after main's 100: they end with 104. Persistent "
            "ones are as old as epoch 0: they never hear of it.",
        ),
    ),
    Exercise(
        name="04.fix",
        title="The epoch goes in, the count comes out",
        grade=clips_task.grade,
        runs="your class with persistent and fresh workers, in slow motion, and under spawn",
        at_most=clips_task.AT_MOST,
        hints=(
            "Two numbers have to be seen by all: one that main writes and the workers read, one "
            "that the workers write and main reads. Section 6 has memory for both.",
            "`epoch` has one writer: a shared tensor that is changed in place will do. `count` has "
            "several: it needs a lock around reading and writing back, and that lock must be one "
            "that any worker can be given.",
            "`self.epoch = torch.tensor(0).share_memory_()` and `self.epoch.fill_(epoch)`; "
            '`self.count = get_context("spawn").Value("q", 0)` and '
            "`with self.count.get_lock(): self.count.value += 1`.",
        ),
    ),
    Exercise(
        name="04.transfer",
        title="One number for each word",
        grade=headlines_task.grade,
        runs="two epochs with fresh and two with persistent workers",
        at_most=headlines_task.AT_MOST,
        hints=(
            "Take one word that occurs in many headlines, and look at the numbers it comes under.",
            "Each worker fills its own `vocabulary`, in the order in which it meets the words. "
            "Which moment is before all copies are made?",
            "In `__init__`: `words = sorted({word for headline in headlines for word in "
            "headline.split()})`, and number them with `enumerate`. `__getitem__` only reads.",
        ),
    ),
)
