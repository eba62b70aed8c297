"""An incident: its folder, what a learner says of it, and whether that is so."""

from __future__ import annotations

import importlib
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Generic, TypeVar

from dltutor.failures import FACTS, NAMES
from dltutor.lessons.kit.exercise import Grader
from dltutor.lessons.kit.forms import blank, shown
from dltutor.lessons.kit.outcomes import (
    Result,
    correct,
    error_in_your_code,
    not_attempted,
    not_yet,
)
from dltutor.lessons.kit.running import made, theirs

REPOS: Final = Path(__file__).parent / "repos"
_CODE: Final = ("data.py", "train.py")
_MOST: Final = 2  # causes of an incident

_JOB: Final = 40  # seconds for the training script
_SEED: Final = 1402  # of the data that a check makes; a learner's has another

R = TypeVar("R")
_on_path: set[str] = set()


@dataclass(frozen=True)
class Cause:
    """One thing that is wrong in an incident.

    Args:
        names: What the catalogue calls it; the first one fits best, the others are right too.
        places: Functions, classes and variables by which its place may be named.
        shortest: The instrument that would have shown it soonest, as a sentence.
    """

    names: tuple[str, ...]
    places: tuple[str, ...]
    shortest: str


@dataclass(frozen=True)
class Incident:
    """What happened.

    Args:
        name: Of its exercise and its folder: "text" for "14.text" and `repos/text`.
        title: The title of its ticket: the symptom.
        causes: One or two.
        make_data: Writes the incident's data to a folder, from a seed.
    """

    name: str
    title: str
    causes: tuple[Cause, ...]
    make_data: Callable[[Path, int], None]

    def lay_out(self, folder: Path, seed: int) -> None:
        """Make its folder, with data from this seed."""
        shutil.copytree(REPOS / self.name, folder, ignore=shutil.ignore_patterns("__pycache__"))
        self.make_data(folder, seed)


@dataclass(frozen=True)
class Scene:
    """An incident with its folder, which a learner reads, runs and changes.

    Args:
        incident: What happened there.
        folder: Its files.
    """

    incident: Incident
    folder: Path

    @property
    def exercise(self) -> str:
        """The name that `check` and `hint` take, such as "14.text"."""
        return f"14.{self.incident.name}"

    def read(self, name: str) -> Any:
        """A file of the folder, as a notebook shows it.

        Args:
            name: Its name, such as "train.log".

        Raises:
            ValueError: There is no such file.
        """
        from IPython.display import Markdown  # no check needs it

        path = self.folder / name
        if not path.is_file():
            files = ", ".join(sorted(each.name for each in self.folder.iterdir() if each.is_file()))
            raise ValueError(f"name must be one of {files}, got {name!r}")
        kind = "python" if path.suffix == ".py" else "text"
        return Markdown(f"```{kind}\n{path.read_text().rstrip()}\n```")

    def modules(self) -> tuple[ModuleType, ModuleType]:
        """`data` and `train`, imported from the folder as the files are now."""
        return imported(self.folder)

    def __repr__(self) -> str:
        return (self.folder / "TICKET.md").read_text()

    _repr_markdown_ = __repr__


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


def imported(folder: Path) -> tuple[ModuleType, ModuleType]:
    """Import `data` and `train` of a folder as they are now, and forget what came from others."""
    for name, module in [*sys.modules.items()]:
        if str(Path(getattr(module, "__file__", None) or "").parent) in _on_path:
            del sys.modules[name]
    sys.path[:] = [path for path in sys.path if path not in _on_path]
    sys.path.insert(0, str(folder))
    _on_path.add(str(folder))
    shutil.rmtree(folder / "__pycache__", ignore_errors=True)  # of how it was a second ago
    importlib.invalidate_caches()
    return importlib.import_module("data"), importlib.import_module("train")


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
    for name in _CODE:
        if not (folder / name).is_file():
            error_in_your_code(f"there is no {name} in the folder of the incident.")
    untouched = all(
        (folder / name).read_text() == (REPOS / incident.name / name).read_text() for name in _CODE
    )
    words = re.findall(r"\w+", " ".join(_texts(report.where, "where")))
    return HandedIn(folder, _causes(report.cause), frozenset(words), untouched)


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
    if len(set(found)) > _MOST:
        not_yet(f"you name {len(set(found))} causes. An incident has one, or two.")
    return tuple(dict.fromkeys(found))


@dataclass(frozen=True)
class Evidence(Generic[R]):
    """What is known of a report.

    Args:
        handed_in: What was handed in.
        ran: What the learner's code did on other data; None where it is as it came.
    """

    handed_in: HandedIn
    ran: R | None = None


def grader(
    incident: Incident,
    *,
    run: Callable[[Path, Any, Any], R],
    judge_run: Callable[[R], str],
    runs: str,
    at_most: int,
    died: str = "Which of your lines, or what they call, ends a process?",
    job: bool = True,
) -> Grader[Evidence[R]]:
    """How a report of an incident is graded: what the fix does first, then what is said of it.

    Args:
        incident: The incident.
        run: Takes a folder with other data, and the learner's `data` and `train` imported from it;
            returns what is known of them.
        judge_run: Says in a sentence what is right about it; rejects what is not.
        runs: As a Grader takes it.
        at_most: Likewise.
        died: Likewise.
        job: Does `train.train(folder)` have to run, too?
    """

    def gather(report: HandedIn) -> Evidence[R]:
        if report.untouched:
            return Evidence(report)
        folder = Path(tempfile.mkdtemp()) / "fresh"
        shutil.copytree(report.folder, folder)
        incident.make_data(folder, _SEED)
        with theirs():
            data, train = imported(folder)
        ran = run(folder, data, train)
        judge_run(ran)  # ends here where it is not right
        if job:
            made(train.train, folder, call="train.train(folder)", within=_JOB)
        return Evidence(report, ran)

    def judge(evidence: Evidence[R]) -> Result:
        if evidence.ran is None:
            _judge_report(incident, evidence.handed_in, "")
            not_yet(
                "that is what happened, and where. `data.py` and `train.py` are as they came: fix "
                "it, save the file, and check again."
            )
        right = judge_run(evidence.ran)
        _judge_report(incident, evidence.handed_in, "your fix runs right. But ")
        return correct(right)

    return Grader(gather, judge, partial(_handed_in, incident), runs, at_most + _JOB * job, died)


def _judge_report(incident: Incident, handed_in: HandedIn, ran: str) -> None:
    right = [set(cause.names) & set(handed_in.causes) for cause in incident.causes]
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
