"""Check what Binder would build from this repository, as repo2docker reports it in advance."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest
from own_process import DEADLINE

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.xdist_group("binder")  # one process, because the tests share a plan


@pytest.fixture(scope="module")
def plan() -> str:
    """Return repo2docker's log and Dockerfile, made for the user jovyan, as on mybinder.org."""
    command = [sys.executable, "-m", "repo2docker", "--no-build", "--debug"]
    command += ["--user-id", "1000", "--user-name", "jovyan", "."]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE)
    assert run.returncode == 0, run.stderr
    return run.stderr + run.stdout


def test_binder_makes_a_conda_environment_with_the_pinned_python(plan: str) -> None:
    pinned = re.findall(r"- python=(3\.\d+)\b", (ROOT / "binder/environment.yml").read_text())
    assert re.findall(r"Building conda environment for python=(\S+)", plan) == pinned
    assert "Python version unspecified" not in plan


def test_binder_reads_its_own_environment_file_and_not_the_one_for_conda_users(plan: str) -> None:
    assert re.findall(r'env update .*--file "(.+?)"', plan) == ["binder/environment.yml"]


def test_a_new_commit_does_not_rebuild_the_environment(plan: str) -> None:
    # The layer of the environment comes before the one with the whole repository.
    assert plan.index("env update") < plan.index("COPY --chown=1000:1000 src/ ${REPO_DIR}/")
    before = plan[: plan.index("env update")]
    assert re.findall(r"COPY \S+ src/(\S*)", before) == ["binder/environment.yml"]


def test_binder_installs_the_package_last(plan: str) -> None:
    assert plan.index("src/ ${REPO_DIR}/") < plan.index("RUN ./binder/postBuild")
    assert "pip install --no-cache-dir --no-deps -e ." in (ROOT / "binder/postBuild").read_text()


def test_post_build_is_a_script_that_can_be_run() -> None:
    script = ROOT / "binder/postBuild"
    assert script.read_text().startswith("#!/usr/bin/env bash\n")
    assert os.access(script, os.X_OK)


def test_the_badge_opens_the_first_lesson() -> None:
    links = re.findall(r"https://mybinder\.org/v2/[^\s)\"]+", (ROOT / "README.md").read_text())
    assert links
    for link in links:
        assert unquote(link).endswith("?urlpath=lab/tree/notebooks/00-start-here.ipynb")
