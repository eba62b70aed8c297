"""Write notebooks/CHEATSHEET.md from the catalog. `--check` reports whether the file is stale."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from dltutor.failures import CATALOG, Counts, Failure, Says

ROOT = Path(__file__).resolve().parent.parent
SHEET = ROOT / "notebooks" / "CHEATSHEET.md"

TOP = """\
# Cheat sheet: symptom, cause, fix, lesson

Every failure mode of the course, by what you see first. `dltutor explain "..."` searches them for
an error message. `dltutor show NAME` shows one happen, and then fixed.

This page is made from `dltutor/failures/facts.toml`. To change it, change that file and run
`make notebooks`.
"""

SECTIONS = {
    "raised": "It raises",
    "worker died": "A worker dies",
    "hung": "It hangs",
    "wrong": "No error, or a misleading one: wrong data, wrong counts",
    "costs": "It works, and costs too much memory, time, or file descriptors",
}


def sheet() -> str:
    """Render the whole cheat sheet as Markdown."""
    groups: dict[str, list[Failure]] = {section: [] for section in SECTIONS}
    for failure in CATALOG:
        groups[_section(failure)].append(failure)
    parts = [TOP, *(_table(SECTIONS[name], group) for name, group in groups.items() if group)]
    return "\n".join(parts)


def _section(failure: Failure) -> str:
    if isinstance(failure.sign, Says):
        return failure.sign.end.replace("main died", "worker died")
    return "wrong" if isinstance(failure.sign, Counts) else "costs"


def _table(title: str, failures: Iterable[Failure]) -> str:
    lines = [f"## {title}", "", "| you see | cause | fix | lesson | name |"]
    lines += ["| --- | --- | --- | --- | --- |", *_rows(failures)]
    return "\n".join(lines) + "\n"


def _rows(failures: Iterable[Failure]) -> Iterator[str]:
    for failure in failures:
        lessons = sorted((ROOT / "notebooks").glob(f"{failure.lesson}-*.ipynb"))
        lesson = f"[{failure.lesson}]({lessons[0].name})" if lessons else failure.lesson
        code = f"[`{failure.name}`](../dltutor/failures/{failure.name}.py)"
        seen = "<br>".join(map(_seen, failure.symptoms))
        cells = (seen, _prose(failure.cause), _prose(failure.fix), lesson, code)
        yield f"| {' | '.join(cells)} |"


def _seen(text: str) -> str:
    # An error message appears as code. Other symptoms are prose.
    if re.match(r"\w+(Error|Exception|Warning|Exit|Interrupt)\b", text) and "`" not in text:
        return f"`{text}`".replace("|", "\\|")
    return _prose(text)


def _prose(text: str) -> str:
    # Outside of code, Markdown takes text between < and > for HTML, and * and _ for emphasis.
    parts = text.split("`")
    parts[::2] = [re.sub(r"([*_])", r"\\\1", part).replace("<", "&lt;") for part in parts[::2]]
    return "`".join(parts).replace("|", "\\|")


def main() -> int:
    """Write the cheat sheet, or with `--check`, return 1 if the file is stale."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only report whether it's stale")
    if not parser.parse_args().check:
        SHEET.write_text(sheet())
        return 0
    if SHEET.exists() and SHEET.read_text() == sheet():
        return 0
    print(f"{SHEET.name} is stale: run `make notebooks`", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
