"""A report of an incident: what it says, and whether that and the fix are right."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, Final

from dltutor.failures import FACTS, NAMES
from dltutor.lessons.engine.exercise import Grader
from dltutor.lessons.engine.forms import blank, shown
from dltutor.lessons.engine.outcomes import (
    Result,
    correct,
    error_in_your_code,
    not_attempted,
    not_yet,
)
from dltutor.lessons.engine.running import changed, contents, made, theirs
from dltutor.lessons.lesson_14.scene import REPOS, Incident, Scene, imported

_MOST: Final = 2  # causes of an incident
_JOB: Final = 60  # seconds for the training script
_SEED: Final = 1402  # of the data that a check makes; a learner's has another


@dataclass(frozen=True)
class Report:
    """What you hand in for an incident.

    Args:
        scene: The incident, such as `room[0]`. Its folder is handed in as it is then.
        cause: Its name, as `dltutor list` has it; a list of names where you found two.
        where: The function, class or variable that has the fault; a list likewise.
    """

    scene: Scene
    cause: Any = ...
    where: Any = ...


@dataclass(frozen=True)
class HandedIn:
    """A report that can be judged.

    Args:
        folder: A copy of the learner's code, with no data.
        causes: What was named.
        places: The words of what was named, without what is around them.
        untouched: Is the code as it came?
    """

    folder: Path
    causes: tuple[str, ...]
    places: frozenset[str]
    untouched: bool


def _handed_in(incident: Incident, report: Any) -> HandedIn:
    if blank(report):
        not_attempted("hand in a `Report`.")
    if not isinstance(report, Report) or not isinstance(report.scene, Scene):
        error_in_your_code(
            f"the check takes `Report(room[0], cause=..., where=...)`, got {shown(report)}."
        )
    if report.scene.incident.name != incident.name:
        error_in_your_code(
            f"this report is of the incident {report.scene.incident.name!r}, and the check of "
            f"{incident.name!r}."
        )
    if blank(report.cause) or blank(report.where):
        not_attempted("say what it is and where: `cause` and `where`.")
    folder = Path(tempfile.mkdtemp()) / "handed-in"
    for path in report.scene.folder.rglob("*.py"):
        (folder / path.parent.relative_to(report.scene.folder)).mkdir(parents=True, exist_ok=True)
        shutil.copy(path, folder / path.relative_to(report.scene.folder))
    came, now = _sources(REPOS / incident.name), _sources(folder)
    for name in ("data.py", "train.py"):
        if name not in now:
            error_in_your_code(f"there is no {name} in the folder of the incident.")
    for name in incident.not_yours:
        if now.get(name) != came[name]:
            not_yet(f"`{name}` is not yours, and has changed. What can you do in your own files?")
    words = re.findall(r"\w+", " ".join(_texts(report.where, "where")))
    return HandedIn(folder, _causes(report.cause), frozenset(words), now == came)


def _sources(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.py")}


def _texts(answer: Any, name: str) -> list[str]:
    texts = [answer] if isinstance(answer, str) else answer
    if not isinstance(texts, (list, tuple, set)) or not all(
        isinstance(each, str) for each in texts
    ):
        error_in_your_code(f"`{name}` is a text, or a list of texts; got {shown(answer)}.")
    return list(texts)


def _causes(answer: Any) -> tuple[str, ...]:
    found = []
    for text in _texts(answer, "cause"):
        for each in re.split(r"[,;&+]|\band\b", text):
            if name := "_".join(re.findall(r"\w+", each.lower())):
                found.append(name)
    for name in found:
        if name not in NAMES:
            near = get_close_matches(name, NAMES, n=2)
            meant = f" Is it {' or '.join(map(repr, near))}?" if near else ""
            not_yet(f"no failure mode is called {name!r}: `dltutor list` has their names.{meant}")
    return tuple(dict.fromkeys(found))


@dataclass(frozen=True)
class Evidence:
    """What is known of a report.

    Args:
        handed_in: What was handed in.
        right: What the learner's code does right, in a sentence; "" where it is as it came.
    """

    handed_in: HandedIn
    right: str = ""


def grader(
    incident: Incident,
    run: Callable[[Path, Any, Any], str],
    *,
    runs: str,
    at_most: int,
    died: str = "Which of your lines, or what they call, ends a process?",
    job: bool = True,
) -> Grader[Evidence]:
    """How a report of an incident is graded: what the fix does first, then what is said of it.

    Args:
        incident: The incident.
        run: Takes a folder with other data, and the learner's `data` and `train` imported from it.
            Rejects what they do wrong, and says in a sentence what they do right.
        runs: As a Grader takes it.
        at_most: Likewise.
        died: Likewise.
        job: Does `train.train(folder)` have to run, too?
    """

    def gather(report: HandedIn) -> Evidence:
        if report.untouched:
            return Evidence(report)
        folder = Path(tempfile.mkdtemp()) / "fresh"
        shutil.copytree(report.folder, folder)
        incident.make_data(folder, _SEED)
        before = contents(folder)
        with theirs():
            data, train = imported(folder)
        right = run(folder, data, train)
        if job:
            made(train.train, folder, call="train.train(folder)", within=_JOB)
        touched = [each for each in changed(before, folder) if "__pycache__" not in each]
        if touched:
            not_yet(f"files of the folder are new, gone or changed: {', '.join(touched[:3])}.")
        return Evidence(report, right)

    def judge(evidence: Evidence) -> Result:
        if not evidence.right:
            _judge_report(incident, evidence.handed_in, "")
            not_yet(
                "that is what happened, and where. The code is as it came: fix it, save the file, "
                "and check again."
            )
        _judge_report(incident, evidence.handed_in, "your fix runs right. But ")
        return correct(evidence.right)

    return Grader(gather, judge, partial(_handed_in, incident), runs, at_most + _JOB * job, died)


def _judge_report(incident: Incident, handed_in: HandedIn, ran: str) -> None:
    right = [set(cause.names) & set(handed_in.causes) for cause in incident.causes]
    named = len(set(handed_in.causes).difference(*right)) + sum(map(bool, right))
    if named > _MOST:
        not_yet(f"{ran}you name {named} causes. An incident has one, or two.")
    for name in handed_in.causes:
        if not any(name in names for names in right):
            facts = next(each for each in FACTS if each.name == name)
            not_yet(
                f"{ran}`{name}` is not what happened here. It looks like this: "
                f"{' / '.join(facts.symptoms)}. Which of your runs, or of the records, showed that?"
            )
    if not all(right):
        not_yet(
            f"{ran}`{handed_in.causes[0]}` is so, and does not explain all that the ticket tells: "
            "something else is wrong, too. What is left when you take the first away?"
        )
    for cause in incident.causes:
        if not handed_in.places & set(cause.places):
            said = next(name for name in cause.names if name in handed_in.causes)
            not_yet(
                f"{ran}`{said}` is so, and `where` does not name its place. In which function or "
                "class of the folder is it? Give the name that stands after `def` or `class`, or "
                "the variable's."
            )
