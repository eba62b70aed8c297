"""Define Finding, the record of one problem with a loader."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from dltutor.failures import PROMISES, Promise

Certainty = Literal["shown", "likely"]

_SERIOUS: Final[dict[Promise, int]] = {
    "complete": 1,
    "same": 1,
    "independent": 1,
    "bounded": 2,
    "clean": 2,
    "quick": 3,
}


@dataclass(frozen=True)
class Finding:
    """One problem with a loader, as the report tells it.

    A failure mode's rule leaves out the name, promise, and lesson, and often the cause and the fix,
    because the catalog of failure modes has them. A function in `promises` leaves out the name,
    because no failure mode explains its finding.

    Args:
        evidence: What the doctor measured.
        where: Where to look, such as your file and line, an attribute's path, or a setting, or ""
            if that isn't known.
        fix: What to do, using this loader's own names if they're known.
        cause: Why the problem occurs.
        promise: Which of the seven promises the problem breaks.
        name: The failure mode's name as in `dltutor list`, or "raises" for an ordinary exception in
            your code, or the promise's name if no failure mode explains why the promise is broken.
        lesson: The number of the lesson that teaches the failure mode, or "" if none does.
        certainty: "shown" (the default) if an experiment came out in a way that it wouldn't for a
            healthy loader, or "likely" if something else could also explain the outcome.
        ends: Whether the problem ended the run (default: whether it breaks the promise "ends").
    """

    evidence: str
    where: str = ""
    fix: str = ""
    cause: str = ""
    promise: Promise = "ends"
    name: str = ""
    lesson: str = ""
    certainty: Certainty = "shown"
    ends: bool | None = None

    @property
    def ended(self) -> bool:
        return self.promise == "ends" if self.ends is None else self.ends

    @property
    def shown(self) -> bool:
        return self.certainty == "shown"

    @property
    def rank(self) -> tuple[int, bool]:
        """A key for sorting findings, the most serious first and "shown" before "likely".

        What ends a run is first, then wrong data, then memory and leftovers, then speed.
        """
        return 0 if self.ended else _SERIOUS.get(self.promise, 1), not self.shown

    @property
    def title(self) -> str:
        """The failure mode, "raises", or the broken promise, and how certain the finding is."""
        named = self.name != self.promise
        return f"{self.name if named else PROMISES[self.promise]} ({self.certainty})"

    def rows(self) -> tuple[tuple[str, str], ...]:
        """Return the finding's rows in the report, as (label, text) pairs, without empty ones."""
        lesson = f"lesson {self.lesson}; `dltutor show {self.name}`" if self.lesson else ""
        said = (
            ("evidence", self.evidence),
            ("where", self.where),
            ("why", self.cause),
            ("what to do", self.fix),
            ("learn more", lesson),
        )
        return tuple((label, text) for label, text in said if text)

    def to_dict(self) -> dict[str, str]:
        """Return the fields for a report, as a dict that can be written as JSON."""
        names = ("name", "promise", "certainty", "evidence", "where", "cause", "fix", "lesson")
        return {name: getattr(self, name) for name in names}
