"""Test that importing `plot_in_thread` doesn't import matplotlib."""

from __future__ import annotations

from multiprocessing import get_context


def test_the_module_is_imported_without_matplotlib() -> None:
    # The child has imported `plot_in_thread`, because conftest.py has the fork server preload the
    # modules of all failure modes.
    script = "import sys; sys.exit('matplotlib' in sys.modules)"
    child = get_context("forkserver").Process(target=exec, args=(script,))
    child.start()
    child.join()
    assert child.exitcode == 0
