"""Check that saved progress can be loaded again, even after a broken file or a failed write."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import platformdirs
import pytest

from dltutor.lessons.engine import saved_outcomes
from dltutor.lessons.engine.outcomes import Outcome


def test_at_first_there_is_none(own_home: Path) -> None:
    assert saved_outcomes.load() == {}
    assert not own_home.exists()


def test_what_is_saved_is_there_for_the_next_kernel(own_home: Path) -> None:
    saved_outcomes.save("01.fix", Outcome.NOT_YET)
    saved_outcomes.save("01.predict", Outcome.CORRECT)
    assert saved_outcomes.load() == {"01.fix": Outcome.NOT_YET, "01.predict": Outcome.CORRECT}
    assert json.loads((own_home / "progress.json").read_text()) == {
        "01.fix": "Not yet",
        "01.predict": "Correct",
    }
    assert os.listdir(own_home) == ["progress.json"]


def test_what_was_correct_stays_correct() -> None:
    for outcome in (Outcome.NOT_YET, Outcome.CORRECT, Outcome.ERROR):
        saved_outcomes.save("01.fix", outcome)
    assert saved_outcomes.load() == {"01.fix": Outcome.CORRECT}


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "3", '{"01.fix": "Splendid"}', '{"01.fix": ["Correct"]}', "\x00\xff"],
)
def test_a_file_that_cannot_be_read_counts_as_none_and_is_replaced(
    own_home: Path, text: str
) -> None:
    own_home.mkdir()
    (own_home / "progress.json").write_bytes(text.encode("latin-1"))
    assert saved_outcomes.load() == {}
    saved_outcomes.save("01.fix", Outcome.CORRECT)
    assert saved_outcomes.load() == {"01.fix": Outcome.CORRECT}


def test_a_label_that_is_not_known_costs_only_its_own_exercise(own_home: Path) -> None:
    own_home.mkdir()
    text = '{"01.fix": "Correct", "99.new": "Splendid"}'
    (own_home / "progress.json").write_text(text)
    assert saved_outcomes.load() == {"01.fix": Outcome.CORRECT}


def test_a_folder_that_cannot_be_written_is_an_error_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("DLTUTOR_HOME", str(tmp_path / "file" / "home"))
    with pytest.raises(OSError, match="file"):
        saved_outcomes.save("01.fix", Outcome.CORRECT)
    assert saved_outcomes.load() == {}


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved_outcomes.save("01.fix", Outcome.CORRECT)

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        saved_outcomes.save("01.transfer", Outcome.CORRECT)
    monkeypatch.undo()
    monkeypatch.setenv("DLTUTOR_HOME", str(own_home))
    assert saved_outcomes.load() == {"01.fix": Outcome.CORRECT}
    assert os.listdir(own_home) == ["progress.json"]


def test_without_a_home_of_its_own_it_uses_the_users_data_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("DLTUTOR_HOME")
    assert saved_outcomes.home() == Path(platformdirs.user_data_dir("dltutor"))
    monkeypatch.setenv("DLTUTOR_HOME", "")
    assert saved_outcomes.home() == Path(platformdirs.user_data_dir("dltutor"))


def test_the_file_belongs_to_the_learner_alone(own_home: Path) -> None:
    saved_outcomes.save("01.fix", Outcome.CORRECT)
    assert stat.S_IMODE((own_home / "progress.json").stat().st_mode) == 0o600
