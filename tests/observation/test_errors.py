"""Check that `errors.read` finds an exception's chain, notes, worker, and the learner's lines.

Other tests here check `errors.lost_contact`, what `errors.forget` frees, and which files
`errors.is_yours` accepts.
"""

from __future__ import annotations

import gc
import os
import pickle
import shutil
import weakref
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Client
from pathlib import Path

import pytest
import small_datasets
from small_datasets import Numbers, load

from dltutor.failures import corrupt_images
from dltutor.observation import errors
from dltutor.observation.texts import said


def caught(action: Callable[[], object]) -> BaseException:
    try:
        action()
    except BaseException as error:
        return error
    pytest.fail("nothing was raised")


def from_a_worker(trouble: Callable[[], object]) -> Exception:
    """Return the exception that torch raises in main when a worker raises one."""
    iterator = iter(load(Numbers(trouble, at=0), num_workers=1))
    try:
        next(iterator)
    except Exception as error:
        return error
    finally:
        iterator._shutdown_workers()
    pytest.fail("nothing was raised")


def with_a_cause() -> None:
    try:
        raise KeyError("label")
    except KeyError as error:
        raise ValueError("no label") from error


def with_a_context() -> None:
    try:
        raise KeyError("label")
    except KeyError:
        raise ValueError("no label")  # noqa: B904


def with_a_hidden_context() -> None:
    try:
        raise KeyError("label")
    except KeyError:
        raise ValueError("no label") from None


@pytest.mark.parametrize(
    ("action", "kinds"),
    [
        (with_a_cause, ["ValueError", "KeyError"]),
        (with_a_context, ["ValueError", "KeyError"]),
        (with_a_hidden_context, ["ValueError"]),
    ],
)
def test_the_chain_goes_from_what_arrived_to_its_cause(
    action: Callable[[], object], kinds: list[str]
) -> None:
    assert [kind for kind, _ in errors.read(caught(action)).chain] == kinds


def test_a_chain_that_bites_its_tail_ends() -> None:
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    assert list(errors.chain(one)) == [one, other]


def with_notes() -> None:
    error = pickle.PicklingError("cannot pickle 'Handle' instances")
    # Python 3.14 adds such notes, innermost first.
    error.add_note("when serializing dict item 'handle'")
    error.add_note("when serializing train.Clips state")
    raise error


def with_a_note_of_ones_own() -> None:
    error = ValueError("no label")
    error.add_note("file 9.json")
    raise error


def with_notes_on_the_cause() -> None:
    try:
        with_notes()
    except pickle.PicklingError as error:
        raise ValueError("no label") from error


PICKLES_NOTES = ("when serializing dict item 'handle'", "when serializing train.Clips state")


@pytest.mark.parametrize(
    ("trouble", "kind", "told", "notes"),
    [
        (small_datasets.raise_error, "ValueError", "ValueError: nine is bad", ()),
        (
            small_datasets.raise_two_parts,
            "TwoParts",
            "small_datasets.TwoParts: a wheel of a cart",
            (),
        ),
        (with_a_cause, "ValueError", "ValueError: no label", ()),  # the message has two tracebacks
        # Your own note can't be told apart from the message, but pickle's notes can.
        (with_a_note_of_ones_own, "ValueError", "ValueError: no label\nfile 9.json", ()),
        (
            with_notes,
            "PicklingError",
            "_pickle.PicklingError: cannot pickle 'Handle' instances",
            PICKLES_NOTES,
        ),
    ],
)
def test_what_a_worker_raised_is_told_with_its_type_number_and_lines(
    trouble: Callable[[], object], kind: str, told: str, notes: tuple[str, ...]
) -> None:
    error = from_a_worker(trouble)
    failed = errors.read(error)
    assert (failed.raised_in_worker, failed.failed_worker, failed.notes) == (kind, 0, notes)
    assert said(*failed.chain[0]) == told
    functions = [frame.function for frame in failed.traceback]
    assert functions == ["__getitem__", trouble.__name__]  # type: ignore[attr-defined]
    assert failed.traceback[-1].code.startswith("raise ")
    assert not errors.lost_contact(error) and not failed.by_torch


@pytest.mark.parametrize(
    ("action", "notes"),
    [
        (with_notes, PICKLES_NOTES),
        (with_notes_on_the_cause, PICKLES_NOTES),
        (with_a_note_of_ones_own, ("file 9.json",)),
        (with_a_cause, ()),
    ],
)
def test_notes_are_kept_beside_the_exceptions_own_text(
    action: Callable[[], object], notes: tuple[str, ...]
) -> None:
    failed = errors.read(caught(action))
    assert failed.notes == notes
    assert not any("when serializing" in message for _, message in failed.chain)
    assert all(note in failed.raw for note in notes)


def test_an_odd_exception_is_read() -> None:
    assert errors.read(ValueError()).chain == (("ValueError", ""),)
    assert errors.read(ValueError(3, None)).chain == (("ValueError", "(3, None)"),)
    assert errors.read(small_datasets.Unsayable()).chain == (("Unsayable", ""),)
    assert errors.read(ValueError(small_datasets.Unsayable())).chain == (("ValueError", ""),)
    like_torchs = errors.read(ValueError("Caught KeyError in DataLoader worker process 3."))
    assert (like_torchs.raised_in_worker, like_torchs.failed_worker) == ("KeyError", 3)
    assert like_torchs.traceback == ()
    for notes in ("nothing", None, [3, None]):
        error = ValueError("\x1b[1;35mnine\x1b[0m is \x1b[Kbad")
        vars(error)["__notes__"] = notes
        assert errors.read(error).notes == ()
    del vars(error)["__notes__"]
    assert errors.read(error).raw == "ValueError: nine is bad"


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("DataLoader worker (pid 12) is killed by signal: Killed. ", "worker died"),
        ("DataLoader worker (pid(s) 12, 13) exited unexpectedly", "worker died"),
        ("DataLoader timed out after 5 seconds", "timed out"),
        ("CUDA out of memory", ""),
    ],
)
def test_what_torch_itself_noticed_is_recognised(message: str, told: str) -> None:
    assert errors.read(RuntimeError(message)).by_torch == told
    assert errors.read(ValueError(message)).by_torch == ""
    wrapper = ValueError("the epoch failed")
    wrapper.__cause__ = RuntimeError(message)
    assert errors.read(wrapper).by_torch == told


def test_a_batch_that_could_not_be_fetched_is_lost_contact_and_other_files_not(
    tmp_path: Path,
) -> None:
    lost = caught(lambda: Client(str(tmp_path / "socket")))
    assert isinstance(lost, FileNotFoundError)
    assert errors.lost_contact(lost)
    wrapper = RuntimeError("the epoch failed")
    wrapper.__cause__ = lost
    assert errors.lost_contact(wrapper)
    for read in (os.stat, Path.read_text, shutil.rmtree):
        assert not errors.lost_contact(caught(partial(read, tmp_path / "missing")))
    assert not errors.lost_contact(caught(lambda: pickle.loads(b"nonsense")))


def test_forgetting_an_error_frees_what_its_frames_held() -> None:
    class Held:
        pass

    seen: list[weakref.ref[Held]] = []

    def hold() -> None:
        held = Held()
        seen.append(weakref.ref(held))
        with_a_cause()

    error = caught(hold)
    gc.disable()
    try:
        assert seen[0]() is not None
        errors.forget(error)
        assert seen[0]() is None
    finally:
        gc.enable()
    assert all(each.__traceback__ is None for each in errors.chain(error))


@pytest.mark.parametrize(
    ("file", "yours"),
    [
        ("/home/me/train.py", True),
        ("/tmp/ipykernel_12/34.py", True),
        ("/home/me/dltutor-course/notebooks/own.py", True),
        ("/home/me/dltutor/notebooks/own.py", True),
        (corrupt_images.__file__, True),  # a broken dataset, wherever the package is
        ("/x/.venv/lib/python3.11/site-packages/torch/utils/data/_utils/fetch.py", False),
        ("/usr/lib/python3/dist-packages/PIL/Image.py", False),
        ("/usr/lib/python3.11/threading.py", False),
        (errors.__file__, False),
        ("<frozen importlib._bootstrap>", False),
        ("<string>", False),
    ],
)
def test_whose_line_it_is_is_told_by_the_file(file: str, yours: bool) -> None:
    assert errors.is_yours(file) is yours


def test_the_broken_datasets_are_yours_in_a_folder_named_like_the_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(errors, "_PACKAGE", "/home/me/dltutor/dltutor/")  # as after `git clone`
    assert errors.is_yours("/home/me/dltutor/dltutor/failures/corrupt_images.py")
    assert not errors.is_yours("/home/me/dltutor/dltutor/observation/errors.py")
