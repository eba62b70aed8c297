"""Check the README's address, lessons, and make targets, and the links on all pages."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
PAGES = [ROOT / "README.md", CONTRIBUTING, *sorted(ROOT.glob("notebooks/*.md"))]
ADDRESS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Repository"]


def test_the_public_address_is_the_one_in_pyproject() -> None:
    owner_and_name = ADDRESS.removeprefix("https://github.com/")
    named = re.findall(r"(?:github\.com|mybinder\.org/v2/gh)/([\w.-]+/[\w.-]+)", README)
    assert len(named) >= 2
    assert set(named) == {owner_and_name}, "pyproject.toml has the address; README.md differs"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_a_file_leads_to_one(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_lesson_that_exists_is_linked_and_has_its_minutes() -> None:
    lessons = sorted(path.name for path in (ROOT / "notebooks").glob("[0-9]*.ipynb"))
    linked = re.findall(r"^\| \[\d\d\]\(notebooks/(\S+)\) \|.*\| \d+ \|$", README, re.MULTILINE)
    assert linked == lessons


def test_the_targets_it_names_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    named = set(re.findall(r"`?make ([a-z]+)", README + CONTRIBUTING.read_text()))
    assert {"lab", "test", "notebooks"} <= named
    assert [target for target in named if not re.search(rf"^{target}:", makefile, re.M)] == []
