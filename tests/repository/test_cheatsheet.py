"""Check that the cheat sheet is current, and has every failure mode."""

from __future__ import annotations

import re

import cheatsheet
import pytest

from dltutor.failures import CATALOG


def test_the_cheat_sheet_is_current() -> None:
    assert cheatsheet.SHEET.read_text() == cheatsheet.sheet(), "run `make notebooks`"


def test_every_failure_mode_has_one_row_of_five_cells() -> None:
    rows = [line for line in cheatsheet.sheet().splitlines() if line.startswith("| ")]
    rows = [row for row in rows if not row.startswith(("| you see", "| ---"))]
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 6 for row in rows)
    names = [re.search(r"\[`(\w+)`\]", row.rpartition(" | ")[2]) for row in rows]
    assert sorted(name[1] for name in names if name) == sorted(f.name for f in CATALOG)


def test_a_stale_sheet_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object, capsys: pytest.CaptureFixture[str]
) -> None:
    stale = cheatsheet.Path(str(tmp_path)) / "CHEATSHEET.md"
    monkeypatch.setattr(cheatsheet, "SHEET", stale)
    monkeypatch.setattr("sys.argv", ["cheatsheet.py", "--check"])
    assert cheatsheet.main() == 1
    assert "stale" in capsys.readouterr().err
    monkeypatch.setattr("sys.argv", ["cheatsheet.py"])
    assert cheatsheet.main() == 0
    monkeypatch.setattr("sys.argv", ["cheatsheet.py", "--check"])
    assert cheatsheet.main() == 0
