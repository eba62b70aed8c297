"""Measure all claims, and write `notebooks/CLAIMS.md`.

`python scripts/claims.py 01 03` measures those of these lessons and leaves the others as they are
on the page; without numbers all. With `--check` it writes nothing: it measures, and names every
claim whose verdict on the page is another. One that cannot be measured here has none.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from measured_claims import NOT_MEASURED, CannotMeasure, Claim, Measured
from portable import ROOT

PAGE = ROOT / "notebooks" / "CLAIMS.md"
MODULES = Path(__file__).parent / "measured_claims"

_UNKNOWN = "not measured here."

_HEAD = """# Claims on trial

What articles, forum answers and error messages say about a `DataLoader` with workers, and what a
measurement says. Each claim is in our words. `make claims` measures all of them again, on your
machine, and writes this page anew. A verdict says what was measured and no more.

Measured on {machine}.
"""


def claims() -> dict[str, tuple[Claim, ...]]:
    """All claims, by the number of their lesson."""
    modules = sorted(path.stem for path in MODULES.glob("lesson_*.py"))
    return {
        name.removeprefix("lesson_"): import_module(f"measured_claims.{name}").CLAIMS
        for name in modules
    }


def machine() -> str:
    """This machine and its versions, as the page names them."""
    kind = f"{platform.system()} {platform.machine()}"
    return f"{kind}, Python {platform.python_version()}, torch {version('torch').partition('+')[0]}"


def measured(lesson: str, number: int, claim: Claim) -> Measured:
    """Measure a claim in a process of its own, so that none can disturb another."""
    try:
        run = subprocess.run(
            [sys.executable, __file__, "--one", lesson, str(number)],
            capture_output=True,
            text=True,
            timeout=claim.seconds,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        sys.exit(f"{lesson}: {claim.text!r} took more than its {claim.seconds} s")
    if run.returncode:
        sys.exit(f"{lesson}: {claim.text!r} could not be measured:\n{run.stderr}")
    return Measured(**json.loads(run.stdout.splitlines()[-1]))


def entry(claim: Claim, found: Measured) -> str:
    """A claim, as the page shows it."""
    return (
        f"### {claim.text}\n\n"
        f"- **Source**: {claim.source}.\n"
        f"- **Measured**: {claim.how}\n"
        f"- **Result**: {found.result}\n"
        f"- **Verdict**: {found.verdict}\n"
    )


def on_page() -> dict[str, Measured]:
    """What the page says, by the text of the claim."""
    found: dict[str, Measured] = {}
    text = PAGE.read_text() if PAGE.exists() else ""
    for block in text.split("\n### ")[1:]:
        title, *lines = block.splitlines()
        said = dict(line[4:].split("**: ", 1) for line in lines if line.startswith("- **"))
        found[title] = Measured(said["Result"], said["Verdict"])
    return found


def page(results: dict[str, Measured]) -> str:
    """The whole page, with these results by the text of the claim."""

    def parts() -> Iterator[str]:
        yield _HEAD.format(machine=machine())
        for lesson, tried in claims().items():
            yield f"## Lesson {lesson}\n"
            yield from (entry(claim, results[claim.text]) for claim in tried)
        yield f"## Not measured\n\n{NOT_MEASURED}"

    return "\n".join(parts())


def _one(lesson: str, number: int) -> None:
    claim = claims()[lesson][number]
    try:
        found = claim.measure()
    except CannotMeasure as reason:
        found = Measured(str(reason), _UNKNOWN)
    print(json.dumps({"result": found.result, "verdict": found.verdict}))


def main() -> None:
    """Read the command line, measure, and write or compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("lessons", nargs="*", help="numbers of lessons; all without")
    parser.add_argument("--check", action="store_true", help="compare verdicts, write nothing")
    parser.add_argument("--one", nargs=2, metavar=("LESSON", "NUMBER"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        _one(chosen.one[0], int(chosen.one[1]))
        return
    before, results = on_page(), on_page()
    differ = []
    for lesson, tried in claims().items():
        for number, claim in enumerate(tried):
            if chosen.lessons and lesson not in chosen.lessons and claim.text in before:
                continue
            results[claim.text] = found = measured(lesson, number, claim)
            print(f"{lesson}  {claim.text}\n    {found.result}\n    {found.verdict}", flush=True)
            if claim.text in before and found.verdict not in (_UNKNOWN, before[claim.text].verdict):
                differ.append(f"{claim.text!r}: {before[claim.text].verdict!r} on the page")
    if chosen.check:
        sys.exit("\n".join(["Other verdicts than the page's:", *differ]) if differ else 0)
    PAGE.write_text(page(results))


if __name__ == "__main__":
    main()
