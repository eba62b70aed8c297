"""Lesson 06, in words: handles that cannot be pickled, and start methods."""

from __future__ import annotations

import pickle
from typing import Any, Final

from dltutor.lessons.kit.exercise import Exercise, Grader
from dltutor.lessons.kit.forms import blank, choice, shown
from dltutor.lessons.kit.outcomes import Result, correct, not_attempted, not_yet
from dltutor.lessons.lesson_06 import fix, transfer
from dltutor.lessons.lesson_06.material import Tiles
from dltutor.lessons.lesson_06.travel import packed, without_pickle

_CULPRIT: Final = "reader.cache.turn"


def _way(answer: Any) -> str:
    if blank(answer):
        not_attempted('set `culprit` to the way to it, such as "reader.side".')
    if not isinstance(answer, str):
        not_yet(
            "`culprit` is a text, the way from `tiles` to the attribute, such as 'reader.side'; "
            f"got {shown(answer)}."
        )
    bare = "".join(answer.split()).strip("'\"`.,")
    return bare.removeprefix("tiles.").removeprefix("self.")


def _diagnose(way: str) -> Result:
    tiles = Tiles()
    if not way or way in packed(tiles)[1] or way in ("lock", "thread.lock"):
        not_yet(
            f"{way!r} is what the message calls it: its type. Many objects hold one of those. "
            "Which attribute of this dataset is it?"
        )
    thing: Any = tiles
    for name in way.split("."):
        if not hasattr(thing, name):
            not_yet(
                f"There is no `tiles.{way}`: `{type(thing).__name__}` has no `{name}`. Write the "
                "whole way, from an attribute of `tiles` on, one dot for each step."
            )
        thing = getattr(thing, name)
    if way == _CULPRIT:
        return correct(
            f"`{way}`: `{packed(tiles)[1]}`. The random generator in `rng` holds a lock as well, "
            "and travels: its class says what its pickle is, as yours can."
        )
    if not packed(thing)[1]:
        not_yet(
            f"`{way}` travels: its pickle has {len(pickle.dumps(thing))} bytes. Which of its "
            "neighbors does not?"
        )
    inside = without_pickle(thing) if hasattr(thing, "__dict__") else []
    if not inside:
        not_yet(f"`{way}` cannot be pickled, and is a part of every object. Which attribute is it?")
    not_yet(
        f"`{way}` does not travel, because of something inside it: {len(inside)} of its "
        f"{len(vars(thing))} attributes cannot be pickled. Go one step further."
    )


EXERCISES: Final = (
    Exercise(
        name="06.predict",
        title="The same loader under spawn: what will you see?",
        grader=choice(
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
        title="Which attribute cannot be pickled?",
        grader=Grader(_way, _diagnose),
        hints=(
            "`without_pickle(tiles)` names the attributes of the dataset that cannot be pickled.",
            "An attribute may be an object with attributes of its own. Ask again, one level down: "
            "`without_pickle(tiles.reader)`.",
            "Go on until there is nothing further down. Then write the names you went through, "
            "with dots: three of them.",
        ),
    ),
    Exercise(
        name="06.fix",
        title="Make the open file travel",
        grader=fix.GRADER,
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
        grader=transfer.GRADER,
        hints=(
            "Read the two messages one after the other: one is raised in main, the other is in "
            "`stderr`, and each is about another attribute.",
            "A function that can be imported by its name can be pickled: define it at the top "
            "level of the file, or as a method. For the noise keep the seed, a number.",
            "In `__getitem__`: `torch.Generator().manual_seed(...)`, from the seed and the index, "
            "so that no two samples share it.",
        ),
    ),
)
