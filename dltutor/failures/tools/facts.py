"""Read the facts of a failure mode without running it or importing torch.

The facts are in one place, the `FAILURE = Failure(...)` at the end of the failure's module, and we
read them from the source. Importing fifty modules, and torch with them, would take seconds, but
`dltutor list` and `dltutor explain` should answer at once.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, Literal, get_args

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

_FOLDER: Final = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Facts:
    """A failure mode: its name, what it looks like, why it happens, and what to do.

    Args:
        name: The name of the failure mode and its module, such as `corrupt_images`.
        lesson: The number of the lesson that teaches the failure mode, such as "01".
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


def read_facts(name: str) -> Facts:
    """Read the facts of one failure mode from the source of its module.

    Args:
        name: The name of the failure mode and its module, such as `corrupt_images`.

    Raises:
        ValueError: The module doesn't end with `FAILURE = Failure(...)`, a fact isn't written out
            as a literal, or the promise isn't in PROMISES.
    """
    path = _FOLDER / f"{name}.py"
    source = path.read_text(encoding="utf-8")
    # Parse only the end, which is a tenth of the module, because there are fifty modules.
    end = source.rfind("\nFAILURE")
    statement = ast.parse(source[end:]).body[0] if end >= 0 else None
    call = statement.value if isinstance(statement, ast.Assign | ast.AnnAssign) else None
    if not isinstance(call, ast.Call):
        raise ValueError(f"{path} must end with `FAILURE = Failure(...)`")
    written = {keyword.arg: keyword.value for keyword in call.keywords}
    facts: dict[str, Any] = {}
    for field in fields(Facts):
        try:
            facts[field.name] = ast.literal_eval(written[field.name])
        except (KeyError, ValueError):
            raise ValueError(
                f"{path}: {field.name} of FAILURE must be written out as a literal keyword"
            ) from None
    if facts["promise"] not in get_args(Promise):
        raise ValueError(f"{path}: promise must be one of {', '.join(PROMISES)}")
    return Facts(**facts)
