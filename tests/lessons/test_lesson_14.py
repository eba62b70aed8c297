"""Check lesson 14's room, the six incidents, and the verdicts on reports about them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import torch
from answers.lesson_14 import report, unfixed
from cells import to_copy

from dltutor.failures import NAMES
from dltutor.lessons.engine import checking, saved_outcomes
from dltutor.lessons.engine.checking import check, exercises, hint
from dltutor.lessons.engine.outcomes import Outcome
from dltutor.lessons.lesson_14 import causes, enter, text
from dltutor.lessons.lesson_14.helpers import INCIDENTS
from dltutor.lessons.lesson_14.scene import REPOS, Incident
from notebooks import NOTEBOOKS, read

LEARNERS_FILE = NOTEBOOKS / "14-incident-room.ipynb"

each_incident = pytest.mark.parametrize("incident", INCIDENTS, ids=lambda each: each.name)


def test_a_room_has_four_of_six_and_the_same_four_again(tmp_path: Path) -> None:
    drawn = [scene.incident.name for scene in enter(1, tmp_path)]
    assert len(set(drawn)) == 4
    assert [scene.incident.name for scene in enter(1, tmp_path)] == drawn


def test_whatever_is_drawn_one_incident_ended_loudly(tmp_path: Path) -> None:
    quiet = {
        each.name
        for each in INCIDENTS
        if (REPOS / each.name / "train.log").read_text().endswith("(exit code 0)\n")
    }
    assert len(quiet) <= 3  # four incidents are drawn, so at least one is loud
    for seed in range(20):
        assert {scene.incident.name for scene in enter(seed, tmp_path)} - quiet


def test_a_few_seeds_draw_every_incident(tmp_path: Path) -> None:
    drawn = {scene.incident.name for seed in range(6) for scene in enter(seed, tmp_path)}
    assert drawn == {each.name for each in INCIDENTS}


def test_what_was_changed_in_a_folder_stays(tmp_path: Path) -> None:
    scene = enter(1, tmp_path)[0]
    (scene.folder / "data.py").write_text("mine = True\n")
    (scene.folder / "train.py").write_text("")
    again = enter(1, tmp_path)[0]
    data, _ = again.modules()
    assert data.mine


def test_the_files_are_imported_as_they_are_now(tmp_path: Path) -> None:
    scene = enter(1, tmp_path)[0]
    for value in (1, 2):
        (scene.folder / "data.py").write_text(f"value = {value}\n")
        (scene.folder / "train.py").write_text("import data\n")
        assert scene.modules()[0].value == value


@each_incident
def test_a_folder_has_its_ticket_its_records_and_a_job(incident: Incident, tmp_path: Path) -> None:
    folder = tmp_path / incident.name
    incident.lay_out(folder)
    files = {path.name for path in folder.iterdir()}
    assert {"TICKET.md", "data.py", "train.py", "train.log", "monitor.txt"} <= files
    assert (folder / "TICKET.md").read_text().startswith(f"### {incident.title}\n")
    text = "".join(path.read_text() for path in folder.glob("*.[tm]*"))
    names = {name for cause in incident.causes for name in cause.names}
    assert not any(name in text for name in names - {"ranks"}), "the ticket gives it away"


@each_incident
def test_its_causes_are_of_the_catalog_and_its_places_in_its_files(
    incident: Incident, tmp_path: Path
) -> None:
    incident.lay_out(tmp_path / "it")
    source = "".join(path.read_text() for path in (tmp_path / "it").glob("*.py"))
    for cause in incident.causes:
        assert set(cause.names) <= set(NAMES)
        assert all(place in source for place in cause.places)


def test_a_report_that_says_nothing_is_not_attempted() -> None:
    result = check("14.text", report(text.INCIDENT, ..., ...)())
    assert (result.outcome, result.code) == (Outcome.NOT_ATTEMPTED, "empty-report")


@pytest.mark.parametrize("name", ["database.py", "codec.py"])
def test_a_file_that_is_not_the_learners_is_left_alone(name: str) -> None:
    incident = next(each for each in INCIDENTS if name in each.not_yours)
    made = unfixed(incident)()
    (made.scene.folder / name).write_text("# better\n")
    assert check(f"14.{incident.name}", made).code == "not-yours"


@each_incident
def test_a_repository_is_small_and_its_records_are_short(incident: Incident) -> None:
    folder = REPOS / incident.name
    lines = [len(path.read_text().splitlines()) for path in folder.glob("*.py")]
    assert len(lines) >= 4 and sum(lines) <= 240
    for name in ("train.log", "monitor.txt"):
        assert len((folder / name).read_text().splitlines()) <= 40


def test_the_four_lines_that_count_show_blocks_that_arrive_twice(tmp_path: Path) -> None:
    lines = to_copy("counting", read(LEARNERS_FILE))[0]
    scene = next(each for each in enter(4, tmp_path) if each.incident.name == "text")
    data, _ = scene.modules()
    for workers, seen in ((0, {1}), (2, {1, 2})):
        names = {"Counter": Counter, "loader": data.make_loader(scene.folder, workers)}
        torch.manual_seed(1)
        exec(lines, names)
        assert set(names["times"].values()) == seen


def test_the_list_of_causes_has_the_whole_catalog() -> None:
    listed = " ".join(names for _, names in causes().rows).replace("\n", " ")
    assert set(listed.replace(",", " ").split()) == set(NAMES)


def test_a_file_that_is_not_there_is_told_with_those_that_are(tmp_path: Path) -> None:
    scene = enter(1, tmp_path)[0]
    with pytest.raises(ValueError, match=r"name must be one of TICKET.md, .*, got 'log'"):
        scene.read("log")


def test_the_debrief_counts_hints_and_tells_the_way_of_what_is_solved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DLTUTOR_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(checking, "_hints_given", type(checking._hints_given)())
    room = enter(4, tmp_path)
    scene = next(each for each in room if each.incident.name == "text")
    hint(scene.exercise)
    rows = {ticket: (hints, way) for ticket, hints, way in room.debrief().rows}
    assert rows[scene.incident.title] == ("1", "not solved yet")
    saved_outcomes.save(scene.exercise, Outcome.CORRECT)
    rows = {ticket: (hints, way) for ticket, hints, way in room.debrief().rows}
    assert rows[scene.incident.title][1] == "\n".join(
        each.shortest for each in scene.incident.causes
    )


def test_each_exercise_is_an_incident_with_a_shortest_way_to_each_cause() -> None:
    names = [name for name, each in exercises().items() if each.lesson == "14"]
    assert names == [f"14.{each.name}" for each in INCIDENTS]
    assert all(each.causes for each in INCIDENTS)
