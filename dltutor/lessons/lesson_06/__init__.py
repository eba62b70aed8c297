"""Lesson 06: unpicklable handles and start methods."""

from __future__ import annotations

import pickle
from typing import Any, Final

from dltutor.lessons.kit.exercise import Exercise, choice
from dltutor.lessons.kit.outcome import Result, correct, not_attempted, not_yet
from dltutor.lessons.lesson_06 import clips_task, records_task
from dltutor.lessons.lesson_06.tiles import Tiles
from dltutor.lessons.lesson_06.travel import AT_MOST, packed, without_pickle

_CULPRIT: Final = "reader.cache.turn"


def _diagnose(answer: Any) -> Result:
    if answer is None or answer is ...:
        return not_attempted('set `culprit` to the way to it, such as "reader.side".')
    tiles = Tiles()
    reason = packed(tiles)[1]
    if not isinstance(answer, str):
        return not_yet(
            f"`culprit` is a text, the way from `tiles` to the attribute, such as 'reader.side'; "
            f"got {type(answer).__name__}."
        )
    way = answer.strip().removeprefix("tiles.").removeprefix("self.")
    if way in reason or way in ("lock", "thread.lock"):
        return not_yet(
            f"{answer!r} is what the message calls it: its type. Many objects hold one of those. "
            "Which attribute of this dataset is it?"
        )
    thing: Any = tiles
    for name in way.split("."):
        if not hasattr(thing, name):
            return not_yet(
                f"There is no `tiles.{way}`: `{type(thing).__name__}` has no `{name}`. Write the "
                "whole way, from an attribute of `tiles` on, one dot for each step."
            )
        thing = getattr(thing, name)
    if way == _CULPRIT:
        return correct(
            f"`{way}`: `{reason}`. The random generator in `rng` holds a lock as well, and "
            "travels: its class says what its pickle is, as yours can."
        )
    if not packed(thing)[1]:
        return not_yet(
            f"`{way}` travels: its pickle has {len(pickle.dumps(thing))} bytes. Which of its "
            "neighbours does not?"
        )
    inside = [name for name in without_pickle(thing)] if hasattr(thing, "__dict__") else []
    return not_yet(
        f"`{way}` does not travel, because of something inside it: {len(inside)} of its "
        f"{len(vars(thing))} attributes has no pickle. Go one step further."
    )


EXERCISES: Final = (
    Exercise(
        name="06.predict",
        title="The same loader under spawn: what will you see?",
        grade=choice(
            "a",
            {
                "a": "`a`: a `TypeError` in main. Look at what the Observation lacks: a row for "
                "the workers. The first was not started, since its pickle could not be made.",
                "b": "`b`: no worker died. The Observation has no row for workers at all: not one "
                "was started. Dying comes later in this lesson, with other causes.",
                "c": "`c`: `__init__` runs once, in main. What the worker gets is the finished "
                "object, packed as a pickle, and the pickle is what failed.",
                "d": "`d`: no batch came, wrong or right. Sharing one open file is what fork does.",
            },
        ),
        hints=(
            "You need no certainty here: choose, run the next cells, and read what comes back.",
            "A spawned worker is a new interpreter. How could the dataset, which main has made, "
            "get into it?",
            "It travels as a pickle, and main makes the pickle before it starts the worker.",
        ),
    ),
    Exercise(
        name="06.diagnose",
        title="Which attribute has no pickle?",
        grade=_diagnose,
        hints=(
            "`without_pickle(tiles)` names the attributes of the dataset that have none.",
            "An attribute may be an object with attributes of its own. Ask again, one level down: "
            "`without_pickle(tiles.reader)`.",
            "Go on until there is nothing further down. Then write the names you went through, "
            "with dots: three of them.",
        ),
    ),
    Exercise(
        name="06.fix",
        title="Make the open file travel",
        grade=records_task.grade,
        runs="reads a fresh file with your class, under fork with 2 workers and under spawn with 1",
        at_most=AT_MOST,
        hints=(
            "What is in the dataset travels. What does a new process need in order to open the "
            "file, and what can it do without?",
            "Open the file when a sample is first asked for, and keep it. Then see to it that an "
            "open file is left out when the dataset is pickled: `__getstate__` decides.",
            "`__getstate__` returns a changed copy: `{**vars(self), 'handle': None}`. And "
            "`__getitem__` opens the file if `self.handle` is None.",
        ),
    ),
    Exercise(
        name="06.transfer",
        title="Make the noise travel",
        grade=clips_task.grade,
        runs="makes your class on fresh clips, under spawn with 1 worker and under fork with 2",
        at_most=AT_MOST,
        hints=(
            "Read the two messages one after the other: one is raised in main, the other is in "
            "`stderr`, and each is about another attribute.",
            "A function that can be imported by its name has a pickle: define it at the top level "
            "of the file, or as a method. For the noise keep the seed, a number.",
            "In `__getitem__`: `torch.Generator().manual_seed(...)`, from the seed and the index, "
            "so that no two samples share it.",
        ),
    ),
)
