"""Grade "06.diagnose", which asks for the dataset's attribute that can't be pickled."""

from __future__ import annotations

import pickle
from typing import Any, Final

from dltutor.lessons.engine.exercise import Grader
from dltutor.lessons.engine.forms import blank, shown
from dltutor.lessons.engine.outcomes import Result, correct, not_attempted, not_yet
from dltutor.lessons.lesson_06.helpers import Tiles
from dltutor.lessons.lesson_06.travel import problem_with

_CULPRIT: Final = "reader.cache.turn"


def _path_of(answer: Any) -> str:
    bare = "".join(answer.split()).strip("'\"`.,") if isinstance(answer, str) else answer
    if blank(bare) or bare == "":
        not_attempted("no-culprit")
    if not isinstance(bare, str):
        not_yet("not-a-string", answer=shown(answer))
    return bare.removeprefix("tiles.").removeprefix("self.")


def _judge(path: str) -> Result:
    thing: Any = Tiles()
    problem = problem_with(thing)
    if path in ("_thread.lock", "thread.lock", "lock"):
        not_yet("a-type", path=path)
    for step, name in enumerate(path.split("."), start=1):
        if not hasattr(thing, name):
            not_yet("no-attribute", path=path, kind=type(thing).__name__, name=name)
        thing = getattr(thing, name)
        if not problem_with(thing):
            parts = path.split(".")[:step]
            not_yet("can-be-pickled", path=".".join(parts), size=len(pickle.dumps(thing)))
    if path != _CULPRIT:
        not_yet("beyond" if path.startswith(_CULPRIT) else "not-to-the-end", path=path)
    return correct(path=path, problem=problem)


GRADER: Final = Grader(_path_of, _judge)
