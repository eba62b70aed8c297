"""Define an incident and its folder, which a learner reads, runs, and changes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from dltutor.lessons.engine import words
from dltutor.lessons.engine.running import imported

REPOS: Final = Path(__file__).parent / "repos"
_SEED: Final = 3  # the seed for the data that train.log and monitor.txt come from


@dataclass(frozen=True)
class Cause:
    """One cause of an incident, from `exercises.toml`.

    Args:
        names: The cause's names in the catalog. The first one fits best, and all are right.
        places: The functions, classes, and variables that a report may name as the place.
        shortest: The shortest way to find the cause.
    """

    names: list[str]
    places: list[str]
    shortest: str


@dataclass(frozen=True)
class Incident:
    """An incident, whose title, causes, and messages are in `exercises.toml` under its name.

    Args:
        name: The name of the exercise and the folder: "text" for "14.text" and `repos/text`.
        make_data: A function that writes the incident's data to a folder, from a seed.
        not_yours: Files of code that a fix must leave as they are.
    """

    name: str
    make_data: Callable[[Path, int], None]
    not_yours: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The ticket's title, which is the symptom."""
        return str(words.lesson("14")[self.name]["title"])

    @property
    def causes(self) -> tuple[Cause, ...]:
        """One or two causes."""
        return tuple(Cause(**each) for each in words.lesson("14")[self.name]["causes"])

    def lay_out(self, folder: Path) -> None:
        """Make the incident's folder, with the data behind its train.log and monitor.txt.

        Raises:
            FileExistsError: The folder already exists.
        """
        shutil.copytree(REPOS / self.name, folder, ignore=shutil.ignore_patterns("__pycache__"))
        ticket = folder / "TICKET.md"
        ticket.write_text(f"### {self.title}\n\n{ticket.read_text()}")
        self.make_data(folder, _SEED)


@dataclass(frozen=True)
class Scene:
    """A drawn incident, and the folder in which the learner works on it."""

    incident: Incident
    folder: Path

    @property
    def exercise(self) -> str:
        """The name that `check` and `hint` take, such as "14.text"."""
        return f"14.{self.incident.name}"

    def read(self, name: str) -> Any:
        """Return a file from the folder, as Markdown for the notebook.

        Args:
            name: The file's name, such as "train.log".

        Raises:
            ValueError: There's no such file.
        """
        from IPython.display import Markdown  # imported here, because only notebooks need IPython

        path = self.folder / name
        if not path.is_file():
            files = ", ".join(sorted(each.name for each in self.folder.iterdir() if each.is_file()))
            raise ValueError(f"name must be one of {files}, got {name!r}")
        kind = "python" if path.suffix == ".py" else "text"
        return Markdown(f"```{kind}\n{path.read_text().rstrip()}\n```")

    def modules(self) -> list[ModuleType]:
        """Import `data` and `train` from the folder as the files are now, and return both."""
        return imported(self.folder, "data", "train")

    def __repr__(self) -> str:
        return (self.folder / "TICKET.md").read_text()

    _repr_markdown_ = __repr__
