"""Read the facts of the failure modes from `facts.toml`, without importing torch."""

from __future__ import annotations

import tomllib
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

Promise = Literal["ends", "complete", "same", "independent", "bounded", "clean", "quick"]

#: The promises of a healthy loader, worst to break first -> what happens if one is broken.
PROMISES: Final[dict[Promise, str]] = {
    "ends": "an epoch doesn't reach its end",
    "complete": "samples are missing or arrive more than once",
    "same": "samples arrive that differ from `dataset[i]`",
    "independent": "something repeats that should be new each time",
    "bounded": "memory or open files pile up",
    "clean": "something gets left behind",
    "quick": "it takes longer than it has to",
}

_FILE: Final = Path(__file__).resolve().parent.parent / "facts.toml"


@dataclass(frozen=True)
class Facts:
    """A failure mode: its name, what it looks like, why it happens, and what to do.

    Args:
        name: The name of the failure mode and its module, such as `corrupt_images`.
        lesson: The number of the lesson about the failure mode or others like it, such as "01".
        promise: The promise that the failure mode breaks.
        symptoms: What you see, with each symptom in the words you'd type into a search engine.
        cause: Why the failure happens, in one or two sentences.
        fix: What to do at work, in one or two sentences.
    """

    name: str
    lesson: str
    promise: Promise
    symptoms: tuple[str, ...]
    cause: str
    fix: str


@cache
def all_facts() -> dict[str, Facts]:
    """Return the facts of every failure mode, by name, in the order of the lessons."""
    rows = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    return {name: Facts(name, **_row(**row)) for name, row in rows.items()}


def facts_of(module: str) -> dict[str, Any]:
    """Return the facts of the failure mode with this module name, as arguments for `Failure`."""
    return asdict(all_facts()[module.rpartition(".")[2]])


def _row(symptoms: list[str], cause: str, fix: str, **plain: Any) -> dict[str, Any]:
    # Join the lines of a cause or a fix, because the TOML file breaks them.
    told = {"cause": " ".join(cause.split()), "fix": " ".join(fix.split())}
    return {**plain, "symptoms": tuple(symptoms), **told}
