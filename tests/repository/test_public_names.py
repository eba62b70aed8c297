"""Check that `import dltutor` imports nothing heavy, and that every public name is there."""

from __future__ import annotations

import inspect

import pytest
from fresh_interpreter import run_fresh

import dltutor
from dltutor.diagnosis.errors import CannotRun
from dltutor.lessons.engine.checking import CheckFailed
from dltutor.observation.throughput import CannotMeasure

HEAVY = {"torch", "numpy", "matplotlib", "anywidget", "ipywidgets", "IPython", "PIL", "psutil"}


def test_a_name_imports_what_it_needs_and_nothing_before_it_is_asked_for() -> None:
    done = run_fresh(
        """
        import sys
        tests = sys.path.pop(0)  # only the package, not the tests
        loaded = lambda: print(*{name.partition(".")[0] for name in sys.modules})
        import dltutor
        assert set(dltutor.__all__) <= set(dir(dltutor)), "they are listed for whoever presses Tab"
        dltutor.__version__, repr(dltutor)
        loaded()
        import dltutor.observation.report
        dltutor.observation.report, dltutor.observe
        sys.path.insert(0, tests)
        from small_datasets import Numbers, load
        from dltutor import check, machine, observe
        observe(load(Numbers())), machine(), check("01.predict", "b")
        loaded()
        """
    )
    lines = done.stdout.splitlines()
    imported, used = set(lines[0].split()), set(lines[-1].split())
    assert "dltutor" in imported and not HEAVY & imported
    assert {"torch", "numpy"} <= HEAVY & used, "the proof above can fail"
    assert not {"matplotlib", "anywidget", "ipywidgets"} & used, "observing needs no picture"


@pytest.mark.parametrize("name", dltutor.__all__)
def test_every_public_name_is_there_and_says_what_it_is(name: str) -> None:
    thing = getattr(dltutor, name)
    if callable(thing):
        assert thing.__module__.partition(".")[0] == "dltutor"
        assert inspect.getdoc(thing)


@pytest.mark.parametrize("error", [dltutor.CannotConfine, CannotMeasure, CannotRun, CheckFailed])
def test_each_exception_of_ours_has_one_root(error: type[Exception]) -> None:
    assert issubclass(error, dltutor.DltutorError)


@pytest.mark.parametrize("name", ["obsreve", "torch", "_nothing"])
def test_a_name_that_is_not_there_is_an_attribute_error(name: str) -> None:
    with pytest.raises(AttributeError, match=f"module 'dltutor' has no attribute '{name}'"):
        getattr(dltutor, name)
    assert not hasattr(dltutor, name)


def test_the_names_for_type_checkers_are_those_that_are_looked_up() -> None:
    source = inspect.getsource(dltutor)
    declared = {
        line.split(" as ")[1]
        for line in source.splitlines()
        if line.startswith("    from dltutor.")
    }
    assert declared == set(dltutor._HOMES)
