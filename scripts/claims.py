"""Measure all claims, and write `notebooks/CLAIMS.md`.

`python scripts/claims.py 01 03` measures the claims of these lessons, and leaves the others on the
page unchanged. Without numbers, the script measures all claims. A claim that this machine can't
measure keeps the result that's on the page. With `--check`, the script doesn't write the page, but
lists every claim whose verdict differs from the page.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from string import Formatter
from typing import Any

from measured_claims import CannotMeasure
from portable import ROOT

PAGE = ROOT / "notebooks" / "CLAIMS.md"
ROWS = Path(__file__).parent / "measured_claims"

UNKNOWN = "Not tested here."


@dataclass(frozen=True)
class Measured:
    """The outcome of a measurement.

    Args:
        result: The observation, in numbers that are the same in every run, or that are rounded and
            follow "about".
        verdict: Whether the claim is true, as far as we measured it, such as "False under fork."
    """

    result: str
    verdict: str


@dataclass(frozen=True)
class Claim:
    """A published claim and how to test it, from a row in `measured_claims/lesson_NN.toml`.

    `result`, `verdict`, and `otherwise` have placeholders for facts, which `Words` fills in.

    Args:
        text: The claim, in our words, in one sentence.
        source: Where the claim is from. In TOML, this is the name of a source in `page.toml`, a
            table with `title`, `date`, and `address`, or a list of these.
        how: How we measure the claim, in one or two sentences.
        measure: The name of a function in `measured_claims/lesson_NN.py`. The function runs in its
            own process, measures the claim, and returns facts, or raises `CannotMeasure`.
        result: Words for the observation.
        verdict: Words for the verdict if all facts are as expected.
        otherwise: Words for the verdict if a fact isn't as expected.
        expected: The facts that decide the verdict, by name.
        seconds: The most seconds that the measurement may take (default 60).
    """

    text: str
    source: str
    how: str
    measure: str
    result: str
    verdict: str
    otherwise: str = "Different from what we expected."
    expected: Mapping[str, Any] = field(default_factory=dict)
    seconds: int = 60

    def told(self, facts: Mapping[str, Any]) -> Measured:
        """Fill the facts into the claim's words, and return the result and the verdict."""
        as_expected = all(facts[name] == value for name, value in self.expected.items())
        verdict = self.verdict if as_expected else self.otherwise
        fill = Words().vformat
        return Measured(fill(self.result, (), facts), fill(verdict, (), facts))


class Words(Formatter):
    """A formatter that fills facts into the words of a claim.

    A placeholder's format, after the colon, depends on the fact. For a bool, the format has the
    words for True and for False, as in `{read:it was read|it wasn't}`. For a list or a dict, the
    format is the separator (default a comma). For anything else, the format is Python's own.
    """

    def format_field(self, value: Any, spec: str) -> str:
        """Format one fact for its placeholder."""
        if isinstance(value, bool):
            return spec.split("|")[not value]
        if isinstance(value, dict):
            value = [f"{key}: {each}" for key, each in value.items()]
        if isinstance(value, list):
            return (spec or ", ").join(map(str, value))
        return format(value, spec)


def _source(title: str, date: str = "", address: str = "") -> str:
    title = f"[{title}]({address})" if address else f'"{title}"'
    return f"{title}, {date}" if date else title


def _rows(name: str) -> Any:
    return tomllib.loads((ROWS / f"{name}.toml").read_text(encoding="utf-8"))


@cache
def claims() -> dict[str, tuple[Claim, ...]]:
    """Read all claims, and return them by lesson number."""
    sources = _rows("page")["sources"]

    def claim(row: dict[str, Any]) -> Claim:
        found = row["source"] if isinstance(row["source"], list) else [row["source"]]
        named = (sources[each] if isinstance(each, str) else each for each in found)
        row["source"] = "; ".join(_source(**each) for each in named)
        # Join lines, because the TOML breaks them and the page doesn't.
        words = {key: " ".join(each.split()) for key, each in row.items() if isinstance(each, str)}
        return Claim(**row | words)

    lessons = sorted(path.stem for path in ROWS.glob("lesson_*.toml"))
    return {
        name.removeprefix("lesson_"): tuple(map(claim, _rows(name)["claim"])) for name in lessons
    }


def machine() -> str:
    """Describe this machine for the page, by its system and the versions of Python and torch."""
    kind = f"{platform.system()} {platform.machine()}"
    return f"{kind}, Python {platform.python_version()}, torch {version('torch').partition('+')[0]}"


def measured(lesson: str, number: int, claim: Claim) -> Measured:
    """Measure a claim in its own process, so that claims can't disturb each other.

    Exit if the measurement fails or takes longer than the claim's `seconds`.
    """
    try:
        run = subprocess.run(
            [sys.executable, __file__, "--one", lesson, str(number)],
            capture_output=True,
            text=True,
            timeout=claim.seconds,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        sys.exit(f"{lesson}: {claim.text!r} took longer than {claim.seconds} s")
    if run.returncode:
        sys.exit(f"{lesson}: measuring {claim.text!r} failed:\n{run.stderr}")
    return Measured(**json.loads(run.stdout.splitlines()[-1]))


def _one(lesson: str, number: int) -> None:
    claim = claims()[lesson][number]
    try:
        measure = getattr(import_module(f"measured_claims.lesson_{lesson}"), claim.measure)
        found = claim.told(measure())
    except CannotMeasure as reason:
        found = Measured(str(reason), UNKNOWN)
    print(json.dumps({"result": found.result, "verdict": found.verdict}))


def entry(claim: Claim, found: Measured) -> str:
    """Render a claim and its measured outcome as Markdown."""
    return (
        f"### {claim.text}\n\n"
        f"- **Source**: {claim.source}.\n"
        f"- **Measured**: {claim.how}\n"
        f"- **Result**: {found.result}\n"
        f"- **Verdict**: {found.verdict}\n"
    )


def on_page() -> dict[str, Measured]:
    """Return the results and verdicts that are on the page, by the claim's text."""
    found: dict[str, Measured] = {}
    text = PAGE.read_text() if PAGE.exists() else ""
    for block in text.split("\n### ")[1:]:
        title, *lines = block.splitlines()
        said = dict(line[4:].split("**: ", 1) for line in lines if line.startswith("- **"))
        found[title] = Measured(said["Result"], said["Verdict"])
    return found


def page(results: dict[str, Measured]) -> str:
    """Render the whole page with these results, whose keys are the claims' texts."""
    words = _rows("page")
    sources = {name: _source(**source) for name, source in words["sources"].items()}

    def parts() -> Iterator[str]:
        yield words["head"].format(machine=machine())
        for lesson, tried in claims().items():
            yield f"## Lesson {lesson}\n"
            yield from (entry(claim, results[claim.text]) for claim in tried)
        yield words["not_measured"].format(**sources)

    return "\n".join(parts())


def main() -> None:
    """Measure the claims of the chosen lessons, and write the page or compare it.

    Also measure every claim that isn't on the page yet.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("lessons", nargs="*", help="lesson numbers, such as 01 (default: all)")
    parser.add_argument("--check", action="store_true", help="compare verdicts and write nothing")
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
            found = measured(lesson, number, claim)
            if found.verdict == UNKNOWN:
                found = before.get(claim.text, found)
            results[claim.text] = found
            print(f"{lesson}  {claim.text}\n    {found.result}\n    {found.verdict}", flush=True)
            if claim.text in before and found.verdict != before[claim.text].verdict:
                differ.append(f"{claim.text!r}: {before[claim.text].verdict!r} on the page")
    if chosen.check:
        sys.exit("\n".join(["Verdicts that differ from the page:", *differ]) if differ else 0)
    PAGE.write_text(page(results))


if __name__ == "__main__":
    main()
