"""Check that imports between packages run one way, and that lessons have one shape."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from portable import code_cells

from dltutor.lessons.engine.checking import exercises
from notebooks import learner_path, read, twins

PACKAGE = Path(__file__).parents[2] / "dltutor"

# For each package, our packages that it may import besides itself and `tables`, which imports none.
MAY_IMPORT = {
    "system": set(),
    "failures": {"system"},
    "observation": {"system"},
    "display": {"system", "observation"},
    "diagnosis": {"system", "failures", "observation", "display"},
    "lessons": {"system", "failures", "observation", "display"},
    "lab": set(),
}

MODULES = sorted(PACKAGE.rglob("*.py"))
LESSONS = sorted(PACKAGE.glob("lessons/lesson_*"))


def imported(path: Path) -> Iterator[str]:
    """Yield the full names of a module's absolute imports, even of those inside functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield from (f"{node.module}.{each.name}" for each in node.names)
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_arrows_run_one_way(package: str) -> None:
    allowed = MAY_IMPORT[package] | {package, "tables", "__version__", "DltutorError"}
    breaches = [
        f"{path.relative_to(PACKAGE)} imports {name}"
        for path in MODULES
        if path.is_relative_to(PACKAGE / package)
        for name in imported(path)
        if name.startswith("dltutor.") and name.split(".")[1] not in allowed
    ]
    assert breaches == []


def test_the_tables_are_a_leaf() -> None:
    assert [name for name in imported(PACKAGE / "tables.py") if name.startswith("dltutor")] == []


def test_failures_are_one_mode_each_and_all_else_is_in_tools_or_data() -> None:
    from dltutor.failures import NAMES

    modules = {path.stem for path in (PACKAGE / "failures").glob("*.py")} - {"__init__"}
    assert modules == set(NAMES)


@pytest.mark.parametrize("name", sorted(exercises()))
def test_the_grader_of_an_exercise_is_found_by_its_name(name: str) -> None:
    lesson, _, word = name.partition(".")
    folder = PACKAGE / "lessons" / f"lesson_{lesson}"
    assert (folder / "__init__.py").is_file() and (folder / "exercises.toml").is_file()
    if exercises()[name].runs and exercises()[name].grader.gather.__module__ != (
        f"dltutor.lessons.lesson_{lesson}.exercises"
    ):
        module = import_module(f"dltutor.lessons.lesson_{lesson}.{word}")
        assert module.GRADER is exercises()[name].grader


@pytest.mark.parametrize("folder", LESSONS, ids=lambda path: path.name)
def test_a_lesson_has_at_most_six_modules(folder: Path) -> None:
    named = {"__init__", "exercises", "helpers", *(name.partition(".")[2] for name in exercises())}
    modules = {path.stem for path in folder.glob("*.py")}
    last = folder.name == "lesson_14"  # its incidents share `scene` and `reports`
    assert len(modules - named) <= 1 + last, "one that the modules of the exercises share"
    assert len(modules) <= 6 or last


@pytest.mark.parametrize("twin", twins(), ids=lambda path: path.stem)
def test_a_notebook_imports_from_the_package_and_from_its_lesson_and_nothing_else(
    twin: Path,
) -> None:
    allowed = {"dltutor", f"dltutor.lessons.lesson_{twin.name[:2]}"}
    for path in (twin, learner_path(twin)):
        code = "\n".join(cell.source for cell in code_cells(read(path)))
        code = code.replace("from dltutor.lessons import ", "import dltutor.lessons.")
        names = re.findall(r"\bfrom (dltutor[\w.]*) import|\bimport (dltutor[\w.]*)", code)
        assert {one or other for one, other in names} <= allowed
