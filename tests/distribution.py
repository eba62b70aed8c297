"""A pytest plugin: which tests stay together in one process under `-n`, and what begins first.

`--dist loadfile` gives each file to one process, those with the most tests first. Here what takes
longest comes first, and two long files are cut up: all would wait for one that begins last.
"""

from __future__ import annotations

import re
from typing import Any, Final

import pytest

LONGEST: Final = (
    "test_notebooks.py",
    "test_failures.py",
    "test_browser.py",
    "test_answers.py",
    "test_harmless_state.py",
    "test_confine.py",
    "test_budget.py",
)
"""Files in the order in which they begin; the others follow as they come."""


def share(nodeid: str) -> str:
    """The tests that stay together: a file, a failure mode, or every other lesson's notebooks.

    Two notebooks at once are as many as two cores can run as they run for a learner.
    """
    file, _, test = nodeid.partition("::")
    file = file.rpartition("/")[2]
    if file == "test_failures.py" and (mode := re.search(r"\[(?:broken-|fixed-)?(\w+)", test)):
        return f"{file} {mode[1]}"
    if file == "test_notebooks.py" and (lesson := re.search(r"[\[-](\d\d)-", test)):
        return f"{file} {int(lesson[1]) % 2}"
    return file


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(
        key=lambda item: (
            LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST)
        )
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class InShares(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return share(nodeid)

    config.option.loadscopereorder = False
    return InShares(config, log)
