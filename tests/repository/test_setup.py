"""Check that `make .venv` installs the course, and that `make lab` opens it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jupyter_server
import pytest
from own_process import DEADLINE

ROOT = Path(__file__).parents[2]
LESSON = "notebooks/00-start-here.ipynb"


# Drop the variables that `make test` passes on, so that each make here runs on its own.
ENVIRONMENT = {name: value for name, value in os.environ.items() if "MAKE" not in name}


def make(*arguments: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", *arguments],
        cwd=folder,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )


def test_make_alone_lists_every_target_with_what_it_does() -> None:
    listed = dict(re.findall(r"^  make (\S+) +(\S.+)$", make().stdout, re.MULTILINE))
    phony = re.search(r"^\.PHONY: help (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony
    assert set(listed) == set(phony[1].split())


# ---- make .venv, with stand-ins for pip and Python that install nothing


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for name in ["Makefile", "pyproject.toml", "constraints.txt"]:
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "python").write_text('#!/bin/sh\n[ "$1" != -m ] || mkdir -p .venv\n')
    (tmp_path / "python").chmod(0o755)
    return tmp_path


def make_venv(folder: Path, *, index_answers: bool = True, rest_installs: bool = True) -> int:
    (folder / "pip").write_text(
        f"""#!/bin/sh
echo "$@" >> asked
case "$*" in
    *--index-url*) {str(index_answers).lower()} ;;
    *) {str(rest_installs).lower()} ;;
esac
"""
    )
    (folder / "pip").chmod(0o755)
    (folder / "asked").unlink(missing_ok=True)
    return make(".venv", "PYTHON=./python", "PIP=./pip", folder=folder).returncode


def asked(folder: Path) -> list[str]:
    return (folder / "asked").read_text().splitlines() if (folder / "asked").exists() else []


def is_made(folder: Path) -> bool:
    return make("--question", ".venv", folder=folder).returncode == 0


def test_a_new_environment_asks_the_cpu_index_for_torch_alone_and_then_for_the_rest(
    copy: Path,
) -> None:
    assert make_venv(copy) == 0
    torch, rest = asked(copy)
    assert re.search(r"--no-deps --retries 0 .*/whl/cpu torch==[\d.]+$", torch)
    assert re.search(r"--constraint constraints.txt --editable \.\[dev\]$", rest)
    assert is_made(copy)


def test_an_index_that_does_not_answer_leaves_torch_to_the_default_index(copy: Path) -> None:
    assert make_venv(copy, index_answers=False) == 0
    assert len(asked(copy)) == 2
    assert is_made(copy)


def test_a_half_made_environment_does_not_count_as_made(copy: Path) -> None:
    assert make_venv(copy, rest_installs=False) != 0
    assert (copy / ".venv").is_dir()
    assert not is_made(copy)


@pytest.mark.parametrize("changed", ["pyproject.toml", "constraints.txt"])
def test_a_made_environment_is_made_again_only_when_its_pins_change(
    copy: Path, changed: str
) -> None:
    make_venv(copy)
    make_venv(copy)
    assert not asked(copy)
    later = time.time() + 10
    os.utime(copy / changed, (later, later))
    assert not is_made(copy)
    # After an update fails, the environment must not count as made, even with the old pins.
    assert make_venv(copy, rest_installs=False) != 0
    os.utime(copy / changed, (0, 0))
    assert not is_made(copy)


def test_a_python_that_is_too_old_is_refused_before_anything_is_installed(copy: Path) -> None:
    pretend = "import sys; sys.version_info = (3, 10); exec(sys.argv[1])"
    (copy / "python").write_text(f'#!/bin/sh\nexec {sys.executable} -c "{pretend}" "$2"\n')
    made = make(".venv", "PYTHON=./python", folder=copy)
    assert made.returncode != 0
    assert "dltutor needs Python 3.11 or newer" in made.stderr
    assert not (copy / ".venv").exists()


# ---- make lab


one_lab = pytest.mark.xdist_group("make lab")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Run `make lab` with the Python of these tests, and yield the server's address and token."""
    command = ["make", f"PY={sys.executable}", "-o", ".venv/made", "lab", "LAB_ARGS=--no-browser"]
    state = tmp_path_factory.mktemp("jupyter")
    with jupyter_server.server(
        command, folder=ROOT, environment=ENVIRONMENT, state=state
    ) as account:
        yield account


@one_lab
def test_make_lab_serves_the_first_lesson(lab: dict[str, Any]) -> None:
    answer = json.loads(jupyter_server.fetch(lab, f"api/contents/{LESSON}")[1])["content"]["cells"]
    written = json.loads((ROOT / LESSON).read_text())["cells"]
    assert [cell["id"] for cell in answer] == [cell["id"] for cell in written]


@one_lab
def test_make_lab_opens_at_the_first_lesson(lab: dict[str, Any]) -> None:
    # Jupyter prints and opens the server's root, which redirects to the first lesson.
    address, _ = jupyter_server.fetch(lab, "")
    assert address.endswith(f"/lab/tree/{LESSON}")


@one_lab
def test_make_lab_is_for_this_machine_and_wants_its_token(lab: dict[str, Any]) -> None:
    assert lab["hostname"] == "127.0.0.1"
    with pytest.raises(urllib.error.HTTPError, match="403") as refused:
        jupyter_server.fetch(lab | {"token": "guessed"}, f"api/contents/{LESSON}")
    refused.value.close()
