"""`import dltutor` is quick, and every public name is there when it is asked for."""

from __future__ import annotations

import inspect

import pytest
from fresh_interpreter import run_fresh

import dltutor
from dltutor.diagnosis.errors import CannotRun
from dltutor.lessons.engine.checking import CheckFailed
from dltutor.observation.throughput import CannotMeasure

HEAVY = {"torch", "numpy", "matplotlib", "anywidget", "ipywidgets", "IPython", "PIL", "psutil"}


# The second proves that the first can fail.
@pytest.mark.parametrize(("use", "heavy"), [("repr(dltutor)", set()), ("dltutor.observe", HEAVY)])
def test_only_the_use_of_it_imports_what_is_heavy(use: str, heavy: set[str]) -> None:
    done = run_fresh(
        f"""
        import sys
        sys.path[:] = sys.path[1:]  # only the package, not the tests
        import dltutor
        assert set(dltutor.__all__) <= set(dir(dltutor)), "they are listed for whoever presses Tab"
        dltutor.__version__, {use}
        print(*{{name.partition(".")[0] for name in sys.modules}})
        """
    )
    assert bool(heavy) == ({"torch", "numpy"} <= {*done.stdout.split()})
    assert HEAVY & {*done.stdout.split()} <= heavy


def test_observing_needs_no_picture() -> None:
    done = run_fresh(
        """
        import sys
        from datasets import Numbers, load
        from dltutor import check, machine, observe
        observe(load(Numbers())), machine(), check("01.predict", "b")
        print(*{name.partition(".")[0] for name in sys.modules})
        """
    )
    assert not {"matplotlib", "anywidget", "ipywidgets"} & set(done.stdout.split())


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
