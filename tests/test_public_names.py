"""`import dltutor` is quick, and every public name is there when it is asked for."""

from __future__ import annotations

import inspect

import pytest
from fresh_interpreter import run_fresh

import dltutor

HEAVY = {"torch", "numpy", "matplotlib", "anywidget", "ipywidgets", "IPython", "PIL", "psutil"}


def test_importing_it_imports_nothing_heavy() -> None:
    done = run_fresh(
        """
        import sys
        sys.path[:] = sys.path[1:]  # only the package, not the tests
        import dltutor
        assert set(dltutor.__all__) <= set(dir(dltutor)), "they are listed for whoever presses Tab"
        dltutor.__version__, repr(dltutor)
        print(*{name.partition(".")[0] for name in sys.modules})
        """
    )
    assert "dltutor" in done.stdout.split()
    assert not HEAVY & set(done.stdout.split())


def test_the_proof_above_can_fail() -> None:
    done = run_fresh(
        """
        import sys
        import dltutor
        dltutor.observe
        print(*{name.partition(".")[0] for name in sys.modules})
        """
    )
    assert {"torch", "numpy"} <= HEAVY & set(done.stdout.split())


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
        assert thing.__module__.startswith("dltutor.")
        assert inspect.getdoc(thing)


def test_all_of_them_can_be_imported_at_once() -> None:
    names: dict[str, object] = {}
    exec("from dltutor import *", names)
    assert set(dltutor.__all__) <= names.keys()


@pytest.mark.parametrize("name", ["obsreve", "torch", "_nothing"])
def test_a_name_that_is_not_there_is_an_attribute_error(name: str) -> None:
    with pytest.raises(AttributeError, match=f"module 'dltutor' has no attribute '{name}'"):
        getattr(dltutor, name)
    assert not hasattr(dltutor, name)


def test_a_submodule_can_be_imported_by_its_name() -> None:
    run_fresh("import dltutor.observation.report, dltutor; dltutor.observation.report")


def test_the_names_for_type_checkers_are_those_that_are_looked_up() -> None:
    source = inspect.getsource(dltutor)
    declared = {
        line.split(" as ")[1]
        for line in source.splitlines()
        if line.startswith("    from dltutor.")
    }
    assert declared == set(dltutor._HOMES)
