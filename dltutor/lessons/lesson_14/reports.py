"""Grade an incident report by its fix, its cause, and its place."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

from dltutor.failures import FACTS, NAMES
from dltutor.lessons.engine.exercise import Grader
from dltutor.lessons.engine.forms import blank, shown
from dltutor.lessons.engine.outcomes import (
    Rejected,
    Result,
    error_in_your_code,
    not_attempted,
    not_yet,
)
from dltutor.lessons.engine.running import changed, contents, imported, made, theirs
from dltutor.lessons.lesson_14.scene import REPOS, Incident, Scene

_MOST: Final = 2  # the most causes that an incident can have
_JOB: Final = 60  # time limit in seconds for the training script
_SEED: Final = 1402  # the seed for a check's data. The learner's data has a different seed.


@dataclass(frozen=True)
class Report:
    """A report that you hand in for an incident.

    Args:
        scene: The incident, such as `room[0]`. The report includes the incident's folder as it is
            when you call `check`.
        cause: The cause, by its name in `dltutor list`. If you found two, give a list of names.
        where: The name of the function, class, or variable that has the fault, or a list of names.
    """

    scene: Scene
    cause: Any = ...
    where: Any = ...


@dataclass(frozen=True)
class HandedIn:
    """A report in the form in which a grader judges it.

    Args:
        folder: A copy of the learner's code, without the data.
        causes: The causes that the report names.
        places: The words in the report's `where`, without punctuation.
        untouched: Whether the learner has left the code unchanged.
    """

    folder: Path
    causes: tuple[str, ...]
    places: frozenset[str]
    untouched: bool


def _handed_in(incident: Incident, report: Any) -> HandedIn:
    if blank(report):
        not_attempted("no-report")
    if not isinstance(report, Report) or not isinstance(report.scene, Scene):
        error_in_your_code("not-a-report", answer=shown(report))
    if (reported := report.scene.incident.name) != incident.name:
        error_in_your_code("other-incident", reported=reported, incident=incident.name)
    if blank(report.cause) or blank(report.where):
        not_attempted("empty-report")
    folder = Path(tempfile.mkdtemp()) / "handed-in"
    for path in report.scene.folder.rglob("*.py"):
        (folder / path.parent.relative_to(report.scene.folder)).mkdir(parents=True, exist_ok=True)
        shutil.copy(path, folder / path.relative_to(report.scene.folder))
    came, now = _sources(REPOS / incident.name), _sources(folder)
    for name in ("data.py", "train.py"):
        if name not in now:
            error_in_your_code("no-file", file=name)
    for name in incident.not_yours:
        if now.get(name) != came[name]:
            not_yet("not-yours", file=name)
    words = re.findall(r"\w+", " ".join(_texts(report.where, "where")))
    if not (causes := _causes(report.cause)):
        not_attempted("empty-report")
    return HandedIn(folder, causes, frozenset(words), now == came)


def _sources(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.py")}


def _texts(answer: Any, name: str) -> list[str]:
    texts = [answer] if isinstance(answer, str) else answer
    if not isinstance(texts, (list, tuple, set)) or not all(
        isinstance(each, str) for each in texts
    ):
        error_in_your_code("not-text", name=name, answer=shown(answer))
    return list(texts)


def _causes(answer: Any) -> tuple[str, ...]:
    found = []
    for text in _texts(answer, "cause"):
        for each in re.split(r"[,;&+]|\band\b", text):
            if name := "_".join(re.findall(r"\w+", each.lower())):
                found.append(name)
    for name in found:
        if name not in NAMES:
            if near := get_close_matches(name, NAMES, n=2):
                not_yet("misspelled-cause", name=name, near=" or ".join(f"`{n}`" for n in near))
            not_yet("no-such-cause", name=name)
    return tuple(dict.fromkeys(found))


#: A report, and the result of running its fix, which the learner sees if the report is right, too.
#: If the code is unchanged, there's None instead of a result.
Evidence: TypeAlias = tuple[HandedIn, Result | None]


def grader(
    incident: Incident,
    run: Callable[[Path, Any, Any], Result],
    *,
    at_most: int,
    job: bool = True,
) -> Grader[Evidence]:
    """Return a grader that first runs the fixed code, and then judges the report.

    Args:
        incident: The incident that the report is about.
        run: A function that takes a folder with new data, and the learner's `data` and `train`
            imported from that folder. The function rejects a wrong fix, and returns the result for
            a right one.
        at_most: The time limit for `run`, in seconds.
        job: Whether `train.train(folder)` also has to run.
    """

    def gather(report: HandedIn) -> Evidence:
        if report.untouched:
            return report, None
        folder = Path(tempfile.mkdtemp()) / "fresh"
        shutil.copytree(report.folder, folder)
        incident.make_data(folder, _SEED)
        before = contents(folder)
        with theirs():
            data, train = imported(folder, "data", "train")
        fixed = run(folder, data, train)
        if job:
            made(train.train, folder, call="train.train(folder)", within=_JOB)
        touched = [each for each in changed(before, folder) if "__pycache__" not in each]
        if touched:
            not_yet("files-changed", files=", ".join(touched[:3]))
        return report, fixed

    def judge(evidence: Evidence) -> Result:
        handed_in, fixed = evidence
        try:
            _judge_report(incident, handed_in)
        except Rejected as rejected:
            if not fixed:
                raise
            raise Rejected(rejected.result.under("fixed")) from None
        return fixed or not_yet("only-said")

    return Grader(gather, judge, partial(_handed_in, incident), at_most + _JOB * job)


def started_once(count: int, workers: int, where: str) -> None:
    """Reject an answer that didn't start each worker once.

    Args:
        count: The number of processes that the answer started.
        workers: The number of workers that the check asked for.
        where: The run's settings, such as "with 2 workers under fork".
    """
    if count != workers:
        code = "many-processes" if count > workers else "few-processes"
        not_yet(code, where=where, started=count)


def _judge_report(incident: Incident, handed_in: HandedIn) -> None:
    right = [set(cause.names) & set(handed_in.causes) for cause in incident.causes]
    named = len(set(handed_in.causes).difference(*right)) + sum(map(bool, right))
    if named > _MOST:
        not_yet("too-many-causes", named=named)
    for name in handed_in.causes:
        if not any(name in names for names in right):
            facts = next(each for each in FACTS if each.name == name)
            not_yet("other-cause", cause=name, symptoms=" / ".join(facts.symptoms))
    if not all(right):
        not_yet("one-cause-of-two", cause=handed_in.causes[0])
    for cause in incident.causes:
        if not handed_in.places & set(cause.places):
            said = next(name for name in cause.names if name in handed_in.causes)
            not_yet("other-place", cause=said)
