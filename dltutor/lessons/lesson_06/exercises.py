"""Lesson 06, in words: handles that cannot be pickled, and start methods."""

from __future__ import annotations

import pickle
from typing import Any, Final

from dltutor.lessons.engine.exercise import Exercise, Grader
from dltutor.lessons.engine.forms import blank, shown
from dltutor.lessons.engine.outcomes import Result, correct, not_attempted, not_yet
from dltutor.lessons.lesson_06 import fix, transfer
from dltutor.lessons.lesson_06.material import Tiles
from dltutor.lessons.lesson_06.travel import problem_with

_CULPRIT: Final = "reader.cache.turn"


def _way(answer: Any) -> str:
    bare = "".join(answer.split()).strip("'\"`.,") if isinstance(answer, str) else answer
    if blank(bare) or bare == "":
        not_attempted('set `culprit` to the way to it, such as "reader.side".')
    if not isinstance(bare, str):
        not_yet(f"`culprit` is a text, such as 'reader.side'; got {shown(answer)}.")
    return bare.removeprefix("tiles.").removeprefix("self.")


def _diagnose(way: str) -> Result:
    thing: Any = Tiles()
    problem = problem_with(thing)
    if way in ("_thread.lock", "thread.lock", "lock"):
        not_yet(f"{way!r} is the type that the message names. Which attribute has one of those?")
    for step, name in enumerate(way.split("."), start=1):
        if not hasattr(thing, name):
            not_yet(
                f"There is no `tiles.{way}`: `{type(thing).__name__}` has no `{name}`. Write the "
                "whole way, from an attribute of `tiles` on."
            )
        thing = getattr(thing, name)
        if not problem_with(thing):
            not_yet(
                f"`{'.'.join(way.split('.')[:step])}` can be pickled, whatever it holds, in "
                f"{len(pickle.dumps(thing))} bytes. Which of its neighbors cannot?"
            )
    if way != _CULPRIT:
        not_yet(
            f"`{way}` cannot be pickled because of something that it holds. Go one step "
            f"{'back' if way.startswith(_CULPRIT) else 'further'}: which attribute is it?"
        )
    return correct(
        f"`{way}`: `{problem}`. The random generator in `rng` holds a lock too, and can be "
        "pickled: its class says what goes into the pickle, as yours can."
    )


EXERCISES: Final = (
    Exercise(
        name="06.diagnose",
        title="Which attribute cannot be pickled?",
        grader=Grader(_way, _diagnose),
        hints=(
            "`unpicklable(tiles)` names the attributes of the dataset that cannot be pickled.",
            "An attribute may be an object with attributes of its own. Ask again, one level down: "
            "`unpicklable(tiles.reader)`.",
            "Go on until there is nothing further down. Then write the names you went through, "
            "with dots: three of them.",
        ),
    ),
    Exercise(
        name="06.fix",
        title="A dataset with an open file, for every start method",
        grader=fix.GRADER,
        hints=(
            "What does a new process need in order to open the file? That is what the pickle "
            "should hold, and no more.",
            "Open the file where a sample is read, and keep it under `os.getpid()`. A process that "
            "finds nothing under its own id opens its own. `__getstate__` leaves the files out.",
            "`self.opened = {}` in `__init__`. In `__getitem__`: `if os.getpid() not in "
            'self.opened: self.opened[os.getpid()] = open(self.path, "rb")`. In `__getstate__`: '
            "`return {**vars(self), 'opened': {}}`.",
        ),
    ),
    Exercise(
        name="06.transfer",
        title="The same noise in every worker",
        grader=transfer.GRADER,
        hints=(
            "There are two messages, one after the other, and each is about another attribute: the "
            "first is raised in main, the second is on stderr.",
            "A function that can be imported by its name can be pickled: put it at the top level "
            "of the file, or make it a method. For the noise, keep the seed: a number.",
            "The two lines of the task go into `__getitem__`, with `self.seed`. Then `clip = "
            "clip + noise` (`+=` would change `self.clips`), and `return clip / clip.abs().max()`.",
        ),
    ),
)
