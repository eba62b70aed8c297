"""Run the doctor on the broken and fixed cases of all failure modes, and count right answers.

    python scripts/doctor.py                      # all cases, about 40 minutes
    python scripts/doctor.py --method fork        # one start method, about 12 minutes
    python scripts/doctor.py repeated_stream ...  # only these, with their reports
    python scripts/doctor.py --fixed --names      # only the fixed cases, one line each

The doctor diagnoses each case in its own interpreter, under each start method that its failure mode
claims. If a case needs a limit, the script lowers the limit on open files, or gives the case a
small /dev/shm, which needs root. With --keep, the script replaces the doctor's earlier answers for
the same cases in benchmarks/doctor.json, and rewrites benchmarks/doctor.md from all answers. The
times were measured on two cores (AMD EPYC).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NoReturn

BENCHMARK: Final = Path(__file__).parent.parent / "benchmarks" / "doctor.md"
KEPT: Final = BENCHMARK.with_suffix(".json")
METHODS: Final = ("fork", "spawn", "forkserver")
LONGEST: Final = 150  # the most seconds that the diagnosis of one case may take


def main() -> int:
    """Diagnose the chosen cases, print what the doctor found, and with `--keep`, save it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("names", nargs="*", metavar="NAME", help="failure modes (default: all)")
    parser.add_argument("--broken", action="store_true", help="only the broken cases")
    parser.add_argument("--fixed", action="store_true", help="only the fixed cases")
    parser.add_argument("--method", help="only this start method")
    parser.add_argument("--keep", action="store_true", help="save the answers in benchmarks/")
    parser.add_argument("--names", dest="short", action="store_true", help="print no reports")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        one(*chosen.one)
    from dltutor.failures import CATALOG

    kinds = [kind for kind in ("broken", "fixed") if getattr(chosen, kind)] or ["broken", "fixed"]
    rows = []
    for failure in CATALOG:
        if chosen.names and failure.name not in chosen.names:
            continue
        for method in failure.start_methods:
            if chosen.method in (None, method):
                for kind in kinds:
                    rows.append(row(failure, kind, method))
                    print_row(rows[-1], short=chosen.short or not chosen.names)
    print(summary(rows))
    if chosen.keep:
        keep(rows)
    return 0


def keep(rows: list[dict[str, Any]]) -> None:
    """Replace the saved answers for the cases in these rows, and rewrite benchmarks/doctor.md."""
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    for each in rows:
        key = f"{each['name']} {each['kind']} {each['method']}"
        seconds = round(each.get("took", each["seconds"]))
        kept[key] = {"found": each["found"], "seconds": seconds, "absent": each["absent"]}
    KEPT.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    BENCHMARK.write_text(page(kept), encoding="utf-8")


def page(kept: dict[str, Any]) -> str:
    """Render the page with all saved answers, one line per failure mode."""
    from dltutor.failures import NAMES

    rows = []
    for key, answer in kept.items():
        name, kind, method = key.split()
        rows.append({"name": name, "kind": kind, "method": method, **answer})
    lines = [
        "# The doctor on its own catalog",
        "",
        "Made by `python scripts/doctor.py --keep`, in several calls. For each start method, the "
        "table shows the doctor's first finding in the broken case, and any others. The last "
        "column has its findings in the fixed case. A dash means that the failure mode doesn't "
        "claim this start method.",
        "",
        *figures(rows),
        "",
        "| failure mode | fork | spawn | forkserver | fixed, in any |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name in NAMES:
        cells = [_cell(name, kept.get(f"{name} broken {method}")) for method in METHODS]
        false = {
            found
            for method in METHODS
            for found in kept.get(f"{name} fixed {method}", {"found": ()})["found"]
        }
        cells.append(", ".join(f"**{each}**" for each in sorted(false)) or "nothing")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(name: str, answer: dict[str, Any] | None) -> str:
    if answer is None:
        return "-"
    first, *others = answer["found"] or ["nothing"]
    said = "right" if first == name else f"**{first}**"
    return f"{said}, {answer['seconds']} s" + (f"; also {', '.join(others)}" if others else "")


def row(failure: Any, kind: str, method: str) -> dict[str, Any]:
    """Diagnose one case in a new interpreter.

    Returns:
        The case's `name`, `kind`, and `method`, the `seconds` that everything took, why this
        machine can't show the failure (`absent`, or None), the names that the doctor `found`, its
        `report`, and the seconds that the diagnosis `took`. If the interpreter printed no findings,
        `took` is missing, and `found` says why.
    """
    command = [sys.executable, __file__, "--one", failure.name, kind, method]
    if failure.limits.get("shm"):
        size = failure.limits["shm"]
        mounted = f'mount -t tmpfs -o size={size} tmpfs /dev/shm && exec "$@"'
        command = ["unshare", "--mount", "sh", "-c", mounted, "sh", *command]
    files = failure.limits.get("open_files")
    began = time.monotonic()
    try:
        with TemporaryDirectory(prefix="dlt-") as folder:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                timeout=LONGEST,
                env={**os.environ, "TMPDIR": folder},
                preexec_fn=(
                    (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files)))
                    if files
                    else None
                ),
            )
        said = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        said = {"found": ["(no end)"], "report": ""}
    except (IndexError, json.JSONDecodeError):
        said = {"found": ["(no report)"], "report": done.stdout[-2000:] + done.stderr[-3000:]}
    return {
        "name": failure.name,
        "kind": kind,
        "method": method,
        "seconds": time.monotonic() - began,
        "absent": failure.absent(),
        **said,
    }


def one(name: str, kind: str, method: str) -> NoReturn:
    """Diagnose one case in this interpreter, print the findings as JSON, and exit."""
    from dltutor.diagnosis.diagnose import diagnose
    from dltutor.failures import CATALOG

    failure = next(each for each in CATALOG if each.name == name)
    make = partial(getattr(failure, kind), workers=2, start_method=method)
    case, deadline = make(), 30 if method == "fork" else 60
    began = time.monotonic()
    diagnosis = diagnose(case.loader, consume=case.consume, deadline=deadline)
    if any("a function that makes the loader" in each.why for each in diagnosis.untried):
        diagnosis = diagnose(lambda: make().loader, consume=case.consume, deadline=deadline)
    seconds = time.monotonic() - began
    found = [each.name for each in diagnosis.findings]
    said = json.dumps({"found": found, "took": seconds, "report": str(diagnosis)})
    print(f"\n{said}", flush=True)
    os._exit(0)  # because a broken case may leave threads that would keep Python from exiting


def print_row(each: dict[str, Any], *, short: bool) -> None:
    """Print one line about a row, and its report.

    If `short`, print the report only if the interpreter ended without printing any findings.
    """
    right = _right(each)
    sign = "ok " if right else "---"
    took = f"{each.get('took', each['seconds']):.1f} s"
    print(f"{sign} {each['name']} {each['kind']} {each['method']}, {took}: {each['found']}")
    if not short or (not right and "(no report)" in each["found"]):
        print(each["report"], "\n")
    sys.stdout.flush()


def summary(rows: list[dict[str, Any]]) -> str:
    """Return the scores, and one line for each wrong diagnosis."""
    lines = figures(rows)
    for each in rows:
        if not _right(each):
            found = ", ".join(each["found"]) or "nothing"
            lines.append(f"  {each['name']}, {each['kind']}, {each['method']}: {found}")
    return "\n".join(lines)


def figures(rows: list[dict[str, Any]]) -> list[str]:
    """Return how often the doctor was right, as one line each for broken and fixed cases."""
    lines = []
    for kind in ("broken", "fixed"):
        of = [each for each in rows if each["kind"] == kind]
        if not of:
            continue
        names = {each["name"] for each in of}
        wholly = {n for n in names if all(_right(each) for each in of if each["name"] == n)}
        what = "right name first" if kind == "broken" else "no finding"
        lines.append(
            f"- {kind}: {what} in {sum(map(_right, of))} of {len(of)} runs, and in every run of "
            f"{len(wholly)} of {len(names)} failure modes"
        )
    return lines


def _right(each: dict[str, Any]) -> bool:
    named: bool = each["found"][:1] == [each["name"]]
    if each["kind"] == "fixed":
        return not each["found"]
    return named or (bool(each["absent"]) and not each["found"])


if __name__ == "__main__":
    sys.exit(main())
