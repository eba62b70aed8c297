"""Check that the README's links, address, lessons, and make targets are right."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
ADDRESS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Repository"]


def test_the_public_address_is_the_one_in_pyproject() -> None:
    owner_and_name = ADDRESS.removeprefix("https://github.com/")
    named = re.findall(r"(?:github\.com|mybinder\.org/v2/gh)/([\w.-]+/[\w.-]+)", README)
    assert len(named) >= 2
    assert set(named) == {owner_and_name}, "pyproject.toml has the address; README.md differs"


def test_every_link_to_a_file_leads_to_one() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_every_lesson_that_exists_is_linked_and_has_its_minutes() -> None:
    lessons = sorted(path.name for path in (ROOT / "notebooks").glob("[0-9]*.ipynb"))
    linked = re.findall(r"^\| \[\d\d\]\(notebooks/(\S+)\) \|.*\| \d+ \|$", README, re.MULTILINE)
    assert linked == lessons


def test_the_targets_it_names_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    named = set(re.findall(r"`?make ([a-z]+)", README))
    assert {"lab", "test", "notebooks"} <= named
    assert [target for target in named if not re.search(rf"^{target}:", makefile, re.M)] == []
