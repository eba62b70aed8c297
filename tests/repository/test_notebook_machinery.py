"""Check, with tiny notebooks, that the machinery behind the lessons catches mistakes."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import nbformat
import notebook_rules as rules
import notebook_runs
import pytest
from nbformat.v4 import new_markdown_cell, new_output
from notebook_runs import validate
from portable import ROOT, code_cells
from tiny_notebooks import cell_of, code, good_lesson, lesson, save

from notebooks import PYTHON, learner_path, learner_version, main, read, stale

pytestmark = pytest.mark.xdist_group("made notebook")  # the tests share a notebook


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the solved notebook of a good lesson, as `make notebooks` does, and return its path."""
    folder = tmp_path_factory.mktemp("notebooks")
    path = save(good_lesson(), folder)
    assert main(["--folder", str(folder)]) == 0
    return path


@pytest.fixture
def twin(made: Path, tmp_path: Path) -> Path:
    """Copy the solved notebook and the learner's file, and return the path of the solved copy."""
    path = save(read(made), tmp_path)
    learner_path(path).write_bytes(learner_path(made).read_bytes())
    return path


# Notebooks that `make notebooks` makes


def test_a_made_twin_keeps_all_rules(made: Path) -> None:
    notebook = read(made)
    for rule in (
        rules.breaches_of_form,
        rules.breaches_of_output,
        rules.breaches_of_structure,
        rules.breaches_of_voice,
    ):
        assert list(rule(notebook)) == []


def test_a_made_twin_names_nothing_of_this_machine(made: Path) -> None:
    text = made.read_text(encoding="utf-8")
    assert "DLTUTOR_HOME/a.jpg" in text
    assert ".../lib/python" in text
    assert "pid N, " in text
    assert "<object at 0xN>" in text
    assert sys.base_prefix not in text
    assert str(ROOT) not in text


def test_the_learners_file_is_the_twin_without_solutions_and_outputs(made: Path) -> None:
    solved = read(made)
    untouched = read(learner_path(made))
    kept = [cell for cell in solved.cells if cell.id != "solution"]
    assert [(c.id, c.source, c.metadata) for c in untouched.cells] == [
        (c.id, c.source, c.metadata) for c in kept
    ]
    assert all(cell.outputs == [] for cell in code_cells(untouched))
    assert all(cell.execution_count is None for cell in code_cells(untouched))


def test_a_link_leads_to_the_same_file_from_both() -> None:
    links = '![](../figures/a.svg) [next](01-b.ipynb) [web](https://a.b/../c) <img src="../a.png">'
    twin = lesson(new_markdown_cell(links, id="text"))
    assert rules.relative_links(twin.cells[0]) == ["../figures/a.svg", "01-b.ipynb", "../a.png"]
    made = learner_version(twin)
    assert rules.relative_links(made.cells[0]) == ["figures/a.svg", "01-b.ipynb", "a.png"]


def test_making_a_learners_file_twice_gives_the_same_bytes(twin: Path) -> None:
    before = learner_path(twin).read_bytes()
    learner_path(twin).unlink()
    assert main(["--no-execute", "--folder", str(twin.parent.parent)]) == 0
    assert learner_path(twin).read_bytes() == before


def test_what_jupyterlab_adds_to_the_metadata_does_not_reach_the_learners_file(twin: Path) -> None:
    notebook = read(twin)
    notebook.metadata.language_info["version"] = "3.11.7"
    notebook.metadata["widgets"] = {}
    notebook.cells[1].metadata["execution"] = {"iopub.execute_input": "2026-01-01T00:00:00Z"}
    nbformat.write(notebook, twin)
    assert stale(twin.parent.parent) == []


# Mistakes that are named


def test_a_twin_with_a_repeated_cell_id_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = save(lesson(code("one", "1"), code("two", "2")), tmp_path)
    path.write_text(path.read_text().replace('"two"', '"one"'))
    assert main(["--no-execute", "--folder", str(tmp_path)]) == 1
    assert "00-tiny.ipynb: Non-unique cell id 'one'" in capsys.readouterr().err


def test_a_stale_learners_file_is_named(twin: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(twin.parent.parent)
    assert main(["--check", "--folder", folder]) == 0
    notebook = read(twin)
    notebook.cells[0].source = "# Another title"
    nbformat.write(notebook, twin)
    assert main(["--check", "--folder", folder]) == 1
    assert "00-tiny.ipynb is stale" in capsys.readouterr().err


def test_a_missing_learners_file_and_one_without_a_twin_are_named(twin: Path) -> None:
    learner_path(twin).rename(learner_path(twin).with_name("00-old-title.ipynb"))
    assert stale(twin.parent.parent) == [
        "00-tiny.ipynb is missing",
        "00-old-title.ipynb has no twin in solutions/",
    ]


def test_a_twin_that_fails_is_not_saved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = save(lesson(code("fine", "1 + 1"), code("broken", "1 / 0")), tmp_path)
    before = path.read_bytes()
    assert main(["--folder", str(tmp_path)]) == 1
    assert "00-tiny.ipynb: cell broken: " in capsys.readouterr().err
    assert path.read_bytes() == before
    assert not learner_path(path).exists()


def test_a_lesson_that_is_not_there_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["77", "--folder", str(tmp_path)]) == 2
    assert "no solved twin matches 77" in capsys.readouterr().err


def test_a_rule_is_broken_by_its_name() -> None:
    long = code("long", "\n".join("x = 1" for _ in range(26)), "solutions")
    long.execution_count = 2
    long.outputs = [new_output("error", ename="E", evalue="pid 4711 at 0x7f00aa00", traceback=[])]
    notebook = lesson(
        long,
        code("short", "# NBVAL_SKIP\ncheck('00.x', 1)"),
        code("early", "answer = 2", "solution"),
        new_markdown_cell("Simply run it! `x!`", id="text"),
    )
    form = "\n".join(rules.breaches_of_form(notebook))
    assert "unknown tags: solutions" in form
    assert "26 lines" in form
    assert "NBVAL_SKIP" in form
    assert "a call of check() and the tag check go together" in form
    output = "\n".join(rules.breaches_of_output(notebook))
    assert "[2, None, None]" in output
    assert "raised, and is not tagged raises-exception" in output
    assert "a pid: pid 4711" in output
    assert "an address: 0x7f00aa00" in output
    structure = "\n".join(rules.breaches_of_structure(notebook))
    assert "early is a solution with no starter" in structure
    assert "ends with a solution cell" in structure
    voice = list(rules.breaches_of_voice(notebook))
    assert voice == ["cell text says 'Simply'", "cell text says '!'"]


def test_a_lesson_that_is_too_long_is_named_with_its_counts() -> None:
    setup = code(
        "setup", "\n".join(f"import {name}" for name in ("os", "re", "io", "ast", "abc", "dis"))
    )
    cells = [setup, *(code(f"c{number}", "x = (\n\n    # why\n    1\n)") for number in range(49))]
    long = lesson(*cells, new_markdown_cell("[two words](a/b.ipynb) " * 751, id="text"))
    *budgets, last = rules.breaches_of_budget(long)
    assert [re.findall(r"\d+", each) for each in budgets] == [
        ["1502", "1500"],  # words
        ["153", "140"],  # lines of code
        ["51", "50"],  # cells
        ["6", "5"],  # imports
    ]
    assert "On call" in last
    short = lesson(new_markdown_cell("# Title", id="a"), new_markdown_cell("## On call", id="b"))
    assert list(rules.breaches_of_budget(short)) == []


# Runs of notebooks


@pytest.mark.skipif(sys.version_info[:2] != PYTHON, reason="the outputs are another Python's")
def test_the_strict_run_fails_where_the_twin_no_longer_holds(twin: Path) -> None:
    notebook = read(twin)
    cell_of(notebook, "fails").source = "pass"
    cell_of(notebook, "solution").source = "answer = 3"
    silent = code("silent", "pass", "raises-exception", "nbval-ignore-output")
    silent.execution_count = 9
    changed = code("changed", "print('3 of 64 samples')")
    changed.execution_count = 10
    changed.outputs = [new_output("stream", name="stdout", text="2 of 64 samples\n")]
    notebook.cells += [silent, changed]
    nbformat.write(notebook, twin)
    said = "\n".join(validate(twin, solved=True))
    # The run reports a wrong solution, a changed number, and a cell that should fail but doesn't,
    # whether or not nbval compares the cell's output.
    assert re.search(r"Missing output fields .*(ename|evalue)", said)
    assert "cell silent: it is tagged raises-exception and did not raise" in said
    assert re.search(r"- Not yet\s+\+ Correct", said)
    assert "3 of 64 samples" in said
    assert "4 failed, 6 passed" in said


@pytest.mark.thorough  # a notebook's process and nbval take seconds
def test_a_starter_that_is_already_solved_is_caught(twin: Path) -> None:
    path = learner_path(twin)
    notebook = read(path)
    cell_of(notebook, "starter").source = "answer = 2"
    cell_of(notebook, "fails").source = "pass"
    nbformat.write(notebook, path)
    said = "\n".join(validate(path, solved=False))
    assert "cell check: its untouched starter must be Not yet or Not attempted: Correct" in said
    assert "cell fails: it is tagged raises-exception and did not raise" in said


@pytest.mark.thorough  # a notebook's process and nbval take seconds
def test_a_kernel_that_dies_is_reported_at_its_cell(tmp_path: Path) -> None:
    path = save(lesson(code("fine", "1"), code("fatal", "import os; os._exit(3)")), tmp_path)
    said = "\n".join(validate(path, solved=False))
    assert "Cell 0 PASSED" in said
    assert "the kernel died" in said


@pytest.mark.thorough  # a notebook's process and nbval take seconds
def test_a_notebook_that_hangs_is_ended_with_its_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs = (
        "import multiprocessing, time\n"
        "multiprocessing.Process(target=time.sleep, args=(300,)).start()\n"
        "time.sleep(300)"
    )
    path = save(lesson(code("fine", "1"), code("hangs", hangs)), tmp_path)
    monkeypatch.setattr(notebook_runs, "DEADLINE", 6)
    ended, _ = validate(path, solved=False)
    assert ended == "it took longer than 6 s and was ended"


@pytest.mark.thorough  # a notebook's process and nbval take seconds
def test_what_a_lesson_leaves_behind_is_named_and_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notebook_runs, "LEFTOVER_GRACE", 1)
    leave = (
        "import subprocess, sys\n"
        "open('left.txt', 'w').close()\n"
        "orphan = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(300)'],\n"
        "                          start_new_session=True)"
    )
    path = save(lesson(code("leaves", leave)), tmp_path)
    problems = validate(path, solved=False)
    assert any("it left a process: " in problem for problem in problems)
    assert "it left left.txt in solutions/" in problems
