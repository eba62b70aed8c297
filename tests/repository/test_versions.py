"""Check that all files that name a version of Python or a package name the same one."""

from __future__ import annotations

import platform
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

import dltutor

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CONDA_FILES = ["environment.yml", "binder/environment.yml"]


def pins(lines: list[str]) -> dict[str, str]:
    """Return the version in each `name==version` line, by name."""
    found: dict[str, str] = {}
    for line in lines:
        if "==" in line:
            name, _, version = line.partition("==")
            found[canonicalize_name(name.strip())] = str(Version(version))
    return found


PINNED, *PINNED_FOR_EXTRAS = (ROOT / "constraints.txt").read_text().split("# What dltutor[")
CONSTRAINTS = pins(PINNED.splitlines())
EXTRAS = {part.partition("]")[0]: pins(part.splitlines()) for part in PINNED_FOR_EXTRAS}
ALL_CONSTRAINTS = {
    name: pin for part in (CONSTRAINTS, *EXTRAS.values()) for name, pin in part.items()
}


def required(*extras: str) -> list[Requirement]:
    """Return the requirements in pyproject.toml, including those of these extras."""
    lines = list(PROJECT["project"]["dependencies"])
    for extra in extras:
        lines += PROJECT["project"]["optional-dependencies"][extra]
    return [Requirement(line) for line in lines]


def conda(file: str) -> tuple[list[str], list[str]]:
    """Return the conda part and the pip part of an environment file."""
    entries = yaml.safe_load((ROOT / file).read_text())["dependencies"]
    (pip,) = [entry["pip"] for entry in entries if isinstance(entry, dict)]
    return [entry for entry in entries if isinstance(entry, str)], pip


def brought_by(name: str, *extras: str, leaf: str = "") -> set[str]:
    """Return the names of a package and of all packages that it requires on this machine.

    The package's `extras` count as required. If `leaf` is among the packages, leave out what only
    `leaf` requires.
    """
    found: set[tuple[str, frozenset[str]]] = set()

    def follow(requirement: Requirement) -> None:
        key = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if key in found:
            return
        found.add(key)
        if key[0] == leaf:
            return
        for line in metadata.requires(requirement.name) or []:
            inner = Requirement(line)
            if inner.marker is None or any(
                inner.marker.evaluate({"extra": extra}) for extra in ("", *requirement.extras)
            ):
                follow(inner)

    follow(Requirement(f"{name}[{','.join(extras)}]"))
    return {key[0] for key in found}


def test_every_requirement_is_pinned_once_to_a_version_that_it_admits_in_every_build() -> None:
    assert EXTRAS.keys() == {"bench", "wrappers"}
    assert len(ALL_CONSTRAINTS) == len(CONSTRAINTS) + sum(map(len, EXTRAS.values()))
    for requirement in required("dev", *EXTRAS):
        pinned = ALL_CONSTRAINTS.get(canonicalize_name(requirement.name))
        assert pinned, f"constraints.txt does not pin {requirement.name}"
        assert pinned in requirement.specifier, f"constraints.txt has {pinned}, not {requirement}"
    assert not [name for name, version in ALL_CONSTRAINTS.items() if "+" in version]
    assert Version(f"{CONSTRAINTS['torch']}+cpu") in SpecifierSet(f"=={CONSTRAINTS['torch']}")
    for requirement in required():
        assert [each.operator for each in requirement.specifier] == [">="], str(requirement)


def test_binder_installs_the_needs_of_the_course_as_pinned() -> None:
    _, pip = conda("binder/environment.yml")
    names = {canonicalize_name(requirement.name) for requirement in required()}
    assert pins(pip) == {name: CONSTRAINTS.get(name) for name in names}


def test_conda_installs_the_course_with_the_constraints() -> None:
    _, pip = conda("environment.yml")
    assert "-c constraints.txt" in pip
    assert "-e .[dev]" in pip
    assert pins(pip).items() <= CONSTRAINTS.items()


def test_everything_agrees_on_the_oldest_python_that_the_course_admits() -> None:
    oldest = PROJECT["project"]["requires-python"].removeprefix(">=")
    for file in CONDA_FILES:
        pythons = [entry for entry in conda(file)[0] if entry.startswith("python")]
        assert pythons == [f"python={oldest}"], file
    assert PROJECT["tool"]["mypy"]["python_version"] == oldest
    assert PROJECT["tool"]["ruff"]["target-version"] == "py" + oldest.replace(".", "")
    assert f"({oldest.replace('.', ', ')})" in (ROOT / "Makefile").read_text()
    classifiers = "\n".join(PROJECT["project"]["classifiers"])
    named = [int(minor) for minor in re.findall(r"Python :: 3\.(\d+)", classifiers)]
    assert named == [*range(int(oldest.removeprefix("3.")), named[-1] + 1)]
    assert sys.version_info.minor <= named[-1], "not named, and the tests run on it"


def test_torch_comes_from_one_index_everywhere() -> None:
    index = re.compile(r"https://download\.pytorch\.org/\S+")
    found = {
        file: set(index.findall((ROOT / file).read_text())) for file in ["Makefile", *CONDA_FILES]
    }
    assert set.union(*found.values()) == {"https://download.pytorch.org/whl/cpu"}, found
    assert all(found.values()), found


def test_no_text_names_a_version_that_is_not_the_pinned_one() -> None:
    for file in [*ROOT.glob("*.md"), *ROOT.glob("notebooks/*.md")]:
        text = file.read_text()
        for name, version in re.findall(r"([A-Za-z][\w.-]*)==(\d[\w.]*\w)", text):
            assert version == CONSTRAINTS.get(canonicalize_name(name)), (file.name, name)
        for named in re.findall(r"Python (3\.\d+) or (?:newer|later)", text):
            assert PROJECT["project"]["requires-python"] == f">={named}", file.name


def test_the_changelog_begins_with_the_version_of_the_package() -> None:
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest
    assert newest[1] == dltutor.__version__ == metadata.version("dltutor")


@pytest.mark.skipif(
    platform.system() != "Linux" or sys.version_info[:2] != (3, 11),
    reason="constraints.txt is the set for Python 3.11 on Linux",
)
def test_the_tests_run_on_the_pinned_set_and_no_other() -> None:
    everything = brought_by("dltutor", "dev") - {"dltutor"}
    assert set(CONSTRAINTS) <= everything, "pinned, and nobody needs it"
    # torch's CUDA build requires more packages, which torch itself pins.
    assert brought_by("dltutor", "dev", leaf="torch") - {"dltutor"} <= set(CONSTRAINTS)
    installed = {name: Version(metadata.version(name)).public for name in CONSTRAINTS}
    assert installed == CONSTRAINTS


@pytest.mark.parametrize("extra", ["bench", "wrappers"])
def test_an_extra_runs_on_its_pinned_set_and_no_other(extra: str) -> None:
    asked = [Requirement(each) for each in PROJECT["project"]["optional-dependencies"][extra]]
    here = {canonicalize_name(each.name) for each in metadata.distributions()}
    if not {canonicalize_name(each.name) for each in asked} <= here:
        pytest.skip(f"dltutor[{extra}] is not installed here")
    brought = set[str]().union(*(brought_by(each.name, *each.extras) for each in asked))
    brought -= brought_by("dltutor", "dev")
    assert brought == set(EXTRAS[extra])
    installed = {name: Version(metadata.version(name)).public for name in EXTRAS[extra]}
    assert installed == EXTRAS[extra]
