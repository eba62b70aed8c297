"""Check that every lesson's two notebooks follow the rules and run as promised."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import notebook_rules as rules
import pytest
from nbformat import NotebookNode
from notebook_runs import DEADLINE, LEFTOVER_GRACE, validate
from portable import code_cells
from tag_promises import tags

from notebooks import NOTEBOOKS, learner_path, read, stale, twins

TWINS = twins()
LEARNERS = [learner_path(twin) for twin in TWINS]


def one_by_one(paths: list[Path], *marks: pytest.MarkDecorator) -> list[Any]:
    """Return notebooks as test parameters, in three groups that each run one notebook at a time.

    A notebook waits for about half of its time, so two cores can run three at once.
    """
    return [
        pytest.param(
            path, marks=[pytest.mark.xdist_group(f"notebooks {int(path.name[:2]) % 3}"), *marks]
        )
        for path in paths
    ]


every_twin = pytest.mark.parametrize("path", TWINS, ids=lambda path: path.stem)
every_learners_file = pytest.mark.parametrize("path", LEARNERS, ids=lambda path: path.stem)
every_run_of_a_twin = pytest.mark.parametrize("path", one_by_one(TWINS), ids=lambda path: path.stem)
every_notebook = pytest.mark.parametrize(
    "path",
    TWINS + LEARNERS,
    ids=lambda path: f"{'solutions-' if path in TWINS else ''}{path.stem}",
)
runs_a_notebook = pytest.mark.timeout(DEADLINE + LEFTOVER_GRACE + 45)


def test_there_are_lessons() -> None:
    assert TWINS, f"no solved twins in {NOTEBOOKS / 'solutions'}"


def test_lessons_have_a_number_of_their_own_and_a_title() -> None:
    names = [re.fullmatch(r"(\d\d)(?:-[a-z0-9]+)+", path.stem) for path in TWINS]
    assert all(names), [path.name for path in TWINS]
    assert len({name[1] for name in names if name}) == len(TWINS)


def test_the_learners_files_are_current() -> None:
    assert stale() == [], "run `make notebooks`"


@every_notebook
@pytest.mark.parametrize(
    "rule",
    [rules.breaches_of_form, rules.breaches_of_voice, rules.breaches_of_links],
    ids=lambda rule: rule.__name__,
)
def test_a_notebook_keeps_the_rules(
    path: Path, rule: Callable[[NotebookNode], Iterator[str]]
) -> None:
    assert list(rule(read(path))) == []


@every_notebook
def test_a_relative_link_leads_somewhere(path: Path) -> None:
    links = [link for cell in read(path).cells for link in rules.relative_links(cell)]
    assert [link for link in links if not (path.parent / link).exists()] == []


@every_twin
@pytest.mark.parametrize(
    "rule", [rules.breaches_of_output, rules.breaches_of_structure], ids=lambda rule: rule.__name__
)
def test_a_solved_twin_keeps_the_rules(
    path: Path, rule: Callable[[NotebookNode], Iterator[str]]
) -> None:
    assert list(rule(read(path))) == []


@every_twin
def test_a_lesson_can_be_read_in_its_time(path: Path) -> None:
    assert list(rules.breaches_of_budget(read(learner_path(path)))) == []


@every_twin
def test_a_solved_twin_is_small(path: Path) -> None:
    assert path.stat().st_size < rules.FILE_BYTES


@every_learners_file
def test_a_learners_file_has_no_solution_and_no_output(path: Path) -> None:
    notebook = read(path)
    assert not [cell.id for cell in notebook.cells if "solution" in tags(cell)]
    assert not [cell.id for cell in code_cells(notebook) if cell.outputs or cell.execution_count]


@runs_a_notebook
@every_run_of_a_twin
def test_a_solved_twin_shows_again_what_it_shows(path: Path) -> None:
    if problems := validate(path, solved=True):
        pytest.fail("\n".join(problems), pytrace=False)


@pytest.mark.thorough  # the same run, but slower: on one core, with memory measured
@runs_a_notebook
@every_run_of_a_twin
def test_a_solved_twin_keeps_within_what_binder_gives(path: Path) -> None:
    if problems := validate(path, solved=True, limited=True):
        pytest.fail("\n".join(problems), pytrace=False)


@runs_a_notebook
@pytest.mark.parametrize(
    "path",
    [
        *one_by_one(LEARNERS[:1]),
        *one_by_one(LEARNERS[1:], pytest.mark.thorough),  # their twins run the same cells
    ],
    ids=lambda path: path.stem,
)
def test_an_untouched_learners_file_runs_and_solves_nothing(path: Path) -> None:
    if problems := validate(path, solved=False):
        pytest.fail("\n".join(problems), pytrace=False)
