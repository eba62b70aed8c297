"""Draw four incidents for the incident room, and show the debrief."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Final

from dltutor.failures import FACTS
from dltutor.lessons.engine import saved_outcomes
from dltutor.lessons.engine.checking import hints_given
from dltutor.lessons.engine.outcomes import Outcome
from dltutor.lessons.lesson_14 import images, ranks, table, text, validation, video
from dltutor.lessons.lesson_14.scene import Incident, Scene
from dltutor.tables import Table

INCIDENTS: Final[tuple[Incident, ...]] = (
    images.INCIDENT,
    text.INCIDENT,
    table.INCIDENT,
    video.INCIDENT,
    validation.INCIDENT,
    ranks.INCIDENT,
)
_DRAWN: Final = 4


@dataclass(frozen=True)
class Room:
    """A room with four of the six incidents. `room[0]` is the first."""

    scenes: tuple[Scene, ...]

    def __getitem__(self, number: int) -> Scene:
        return self.scenes[number]

    def __iter__(self) -> Iterator[Scene]:
        return iter(self.scenes)

    def debrief(self) -> Table:
        """Show how many hints you asked for in each incident, and the shortest way to its causes.

        If you haven't solved an incident, the table says so instead.
        """
        outcomes = saved_outcomes.load()

        def way(scene: Scene) -> str:
            if outcomes.get(scene.exercise) is not Outcome.CORRECT:
                return "not solved yet"
            return "\n".join(cause.shortest for cause in scene.incident.causes)

        rows = [(each.incident.title, str(hints_given(each.exercise)), way(each)) for each in self]
        return Table(
            "What came in last night", tuple(rows), ("ticket", "hints", "the shortest way")
        )

    def _table(self) -> Table:
        rows = [
            (f"room[{number}]", each.incident.title, f"{each.folder.name}/")
            for number, each in enumerate(self.scenes)
        ]
        return Table("What came in last night", tuple(rows), ("", "ticket", "folder"))

    def __repr__(self) -> str:
        return str(self._table())

    def _repr_html_(self) -> str:
        return self._table()._repr_html_()


def causes() -> Table:
    """Show the names that a report can give as a cause, by lesson."""
    names: dict[str, list[str]] = {}
    for facts in FACTS:
        names.setdefault(facts.lesson, []).append(facts.name)
    rows = tuple((lesson, fill(", ".join(each), 84)) for lesson, each in sorted(names.items()))
    return Table("Causes that a report can name", rows, ("lesson", "names"))


def enter(seed: int, folder: str | Path | None = None) -> Room:
    """Draw four incidents, and make the folders that don't exist yet.

    Args:
        seed: Any whole number. The same number draws the same four incidents in the same order.
        folder: The folder that holds the incidents' folders. The default is the environment
            variable `DLTUTOR_INCIDENTS`, or `incidents` in the current folder. The incidents'
            folders keep your changes. To start over, delete an incident's folder.
    """
    above = Path(folder or os.environ.get("DLTUTOR_INCIDENTS", "incidents")).absolute()
    drawn = random.Random(seed).sample(INCIDENTS, min(_DRAWN, len(INCIDENTS)))
    for incident in drawn:
        if not (above / incident.name).exists():
            incident.lay_out(above / incident.name)
    return Room(tuple(Scene(incident, above / incident.name) for incident in drawn))
