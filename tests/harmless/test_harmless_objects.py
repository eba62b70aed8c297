"""Test that objects that raise when used neither break an instrument nor hide other objects.

Other tests here check what the doctor says about a stream on two ranks.
"""

from __future__ import annotations

import os
import sys
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hostile
import pytest
import small_datasets
import torch
from hostile import HOSTILE
from small_datasets import Numbers
from torch.distributed import (
    distributed_c10d,
    get_rank,
    get_world_size,
    is_available,
    is_initialized,
)
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

from dltutor import check, diagnose, explain, how_many_workers, observe
from dltutor.diagnosis.report import Diagnosis
from dltutor.lessons.engine.outcomes import Outcome
from dltutor.observation import foreign
from dltutor.observation.budget.own_loader import tensor_bytes
from dltutor.observation.foreign import length_by_shape
from dltutor.observation.loaders import inner_loaders

Left = Callable[..., None]


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_is_beside_a_hostile_object_is_found_and_counted(kind: str) -> None:
    thing, loader = HOSTILE[kind](), DataLoader(Numbers())
    holder = types.SimpleNamespace(thing=thing, many=[thing], named={"thing": thing}, loader=loader)
    assert list(inner_loaders(holder).values()) == [loader]
    assert tensor_bytes([thing, [thing], {"thing": thing}, torch.ones(1)]) >= 4
    assert length_by_shape([thing, torch.ones(3)]) in (2, 3, None)


@pytest.mark.parametrize("kind", HOSTILE)
def test_the_safe_questions_never_raise(kind: str) -> None:
    for thing in (made := HOSTILE[kind]()), type(made):
        assert not foreign.is_a(thing, (complex, Dataset))
        assert foreign.attribute(thing, "no such name") is None or isinstance(made, object)
        assert object in foreign.lineage(type(thing))
        assert all(type(name) is str for name in foreign.attributes_of(thing))
        assert foreign.module_of(type(thing)) != "torch.utils.data"
        assert foreign.file_of(thing) == ""
        assert len(list(foreign.elements(thing))) >= (foreign.length(thing) or 0)
        assert foreign.text(thing) and foreign.kind_of(thing)
        assert foreign.number(thing) in (None, 1, 3)


def test_the_safe_questions_are_answered_as_ever_where_nothing_raises() -> None:
    ordered = {"one": 1, "two": 2}
    assert foreign.is_a(ordered, dict) and not foreign.is_a(ordered, (list, str))
    assert list(foreign.elements(ordered)) == list(ordered.items())
    assert list(foreign.elements(types.MappingProxyType(ordered))) == list(ordered.items())
    assert list(foreign.elements((5, 6))) == [(0, 5), (1, 6)] and foreign.length((5, 6)) == 2
    assert foreign.attribute(ordered, "keys")() == ordered.keys()
    assert foreign.attributes_of(types.SimpleNamespace(a=1)) == {"a": 1}
    assert "Numbers" in foreign.attributes_of(sys.modules[Numbers.__module__])
    assert (
        foreign.module_of(Numbers) == Numbers.__module__ == foreign.module_of(small_datasets.load)
    )
    assert foreign.file_of(sys.modules[__name__]) == __file__
    assert (foreign.number(5), foreign.number(0.5), foreign.number("5")) == (5, 0.5, None)
    assert foreign.text([1]) == "[1]" and foreign.said(ValueError("no")) == "ValueError: no"


# The doctor and `observe` on loaders that hold hostile objects


SOURCE = """
import hostile
import io
import time
import torch
from torch.utils.data import DataLoader, Dataset

KEPT = {kept}
globals().update((f"KEPT_{{at}}", each) for at, each in enumerate({kept}[:100]))


class Rows(Dataset):
    def __init__(self, shared):
        self.shared = shared
        self.kept = {kept}
        self.known = dict(enumerate(self.kept[::-1]))
        self.__dict__.update((f"kept_{{at}}", each) for at, each in enumerate({kept}[:100]))
        self.transform = self.closed_over({kept})

    def closed_over(self, kept):
        return lambda row: row if kept else None

    def __len__(self):
        return 32

    def __getitem__(self, index):
        self.shared.seek(index)
        time.sleep(0.001)
        return self.transform(torch.full((4,), float(self.shared.read(1)[0])))


def loader(shared=None):
    rows = Rows(shared or io.BytesIO(bytes(range(32))))
    return DataLoader(rows, batch_size=4, num_workers=2, multiprocessing_context="fork")


def loop(kept):
    def consume(loader):
        for batch in loader:
            assert kept
        return kept
    return consume
"""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Return a function that makes a module with a dataset that holds what `kept` evaluates to."""

    def made(kept: str) -> Any:
        (tmp_path / "hostile_rows.py").write_text(SOURCE.format(kept=kept))
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.delitem(sys.modules, "hostile_rows", raising=False)
        for name, module in hostile.modules().items():
            monkeypatch.setitem(sys.modules, name, module)
        module = __import__("hostile_rows")
        monkeypatch.setitem(sys.modules, "hostile_rows", module)
        return module

    return made


def failed(diagnosis: Diagnosis) -> list[str]:
    return [str(each) for each in diagnosis.untried if "failed" in each.why]


EVERY = "hostile.every()"


def test_a_healthy_loader_that_holds_every_hostile_object_is_healthy(
    source: Callable[[str], Any], nothing_left_behind: Left
) -> None:
    module = source(EVERY)
    diagnosis = diagnose(module.loader(), consume=module.loop(hostile.every()), deadline=100)
    assert failed(diagnosis) == []
    assert diagnosis.findings == () and diagnosis.untried == ()


def test_a_broken_one_gets_the_finding_that_it_gets_without_them(
    source: Callable[[str], Any], tmp_path: Path, nothing_left_behind: Left
) -> None:
    path = tmp_path / "rows"
    path.write_bytes(bytes(range(32)))
    with path.open("rb", buffering=0) as file:
        diagnosis = diagnose(source(EVERY).loader(file), deadline=60)
    assert failed(diagnosis) == []
    assert [each.name for each in diagnosis.findings] == ["shared_file_offset"]
    assert "dataset.shared" in diagnosis.findings[0].where


class Samples(Dataset[Any]):
    """A dataset of hostile objects."""

    def __init__(self) -> None:
        # Leave out the tensor, because it refuses the functions that the doctor's runs call on it.
        self.kept = [make() for kind, make in HOSTILE.items() if kind != "tensor"]

    def __len__(self) -> int:
        return len(self.kept)

    def __getitem__(self, index: int) -> Any:
        return self.kept[index]


def test_they_may_be_the_samples(nothing_left_behind: Left) -> None:
    diagnosis = diagnose(DataLoader(Samples(), batch_size=4, collate_fn=list), deadline=100)
    assert failed(diagnosis) == []
    assert diagnosis.findings == () and diagnosis.untried == (), diagnosis


def test_a_run_that_has_them_in_its_loader_is_observed(
    source: Callable[[str], Any], nothing_left_behind: Left
) -> None:
    module = source(EVERY)
    seen = observe(module.loader(), consume=module.loop(hostile.every()), deadline=30)
    assert (seen.end, seen.batches, seen.samples) == ("finished", 8, 32)
    assert len(seen.result) == len(HOSTILE)


@pytest.mark.thorough  # the objects take up about 2 GB
def test_ten_million_objects_stay_within_the_visit(
    source: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, nothing_left_behind: Left
) -> None:
    monkeypatch.setattr(hostile, "CROWD", hostile.crowd(), raising=False)
    module = source("hostile.CROWD")
    began = time.monotonic()
    diagnosis = diagnose(module.loader(), deadline=60)
    assert time.monotonic() - began < 60 + 10
    assert failed(diagnosis) == []
    assert diagnosis.findings == ()


# What the doctor says about a stream on two ranks


def by_name() -> tuple[int, int]:
    if not (is_available() and is_initialized()):
        return 0, 1
    return get_rank(), get_world_size()


def by_module() -> tuple[int, int]:
    if not torch.distributed.is_initialized():
        return 0, 1
    return torch.distributed.get_rank(), torch.distributed.get_world_size()


def by_inner_module() -> tuple[int, int]:
    if not distributed_c10d.is_initialized():
        return 0, 1
    return distributed_c10d.get_rank(), distributed_c10d.get_world_size()


def by_environment() -> tuple[int, int]:
    return int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))


def by_group() -> tuple[int, int]:
    if not is_initialized():
        return 0, 1
    told = torch.tensor([get_rank()])
    torch.distributed.all_reduce(told)  # waits for the other rank
    assert int(told) == 1
    group: Any = torch.distributed.group.WORLD
    return group.rank(), group.size()


def by_accelerate() -> tuple[int, int]:
    try:
        from accelerate import PartialState
    except ImportError:
        return by_name()
    state = PartialState()
    return state.process_index, state.num_processes


ASKED = (by_name, by_module, by_inner_module, by_environment, by_group, by_accelerate)


def in_every_way() -> tuple[int, int]:
    """Return the rank and the number of ranks, or (0, 1) if the ways to ask disagree."""
    told = {ask() for ask in ASKED}
    return told.pop() if len(told) == 1 else (0, 1)


def unasked() -> tuple[int, int]:
    return 0, 1


def raising() -> tuple[int, int]:
    if "RANK" in os.environ:
        raise hostile.Refused("made for one rank")
    return 0, 1


class Shared(IterableDataset[torch.Tensor]):
    """A stream in which each rank takes its share of samples, and divides it among its workers."""

    def __init__(self, ask: Callable[[], tuple[int, int]]) -> None:
        self.ask = ask

    def __iter__(self) -> Iterator[torch.Tensor]:
        place, count = self.ask()
        if (info := get_worker_info()) is not None:
            place, count = place * info.num_workers + info.id, count * info.num_workers
        return (torch.tensor([float(each)]) for each in range(place, 256, count))


def on_two_ranks(stream: Shared, workers: int = 0) -> str:
    """Return what the doctor says about a stream on two ranks, or "" if it says nothing."""
    loader: Any = DataLoader(
        stream,
        batch_size=4,
        num_workers=workers,
        multiprocessing_context="fork" if workers else None,
    )
    diagnosis = diagnose(loader, deadline=60)
    assert diagnosis.findings == () and failed(diagnosis) == []
    return " ".join(each for each in diagnosis.elsewhere if "On two ranks" in each)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stream_that_takes_its_share_by_rank_is_right_however_it_asks(
    workers: int, nothing_left_behind: Left
) -> None:
    assert on_two_ranks(Shared(in_every_way), workers) == ""
    assert not is_initialized() and "RANK" not in os.environ


def test_what_accelerate_remembers_of_main_is_not_what_a_rank_gets() -> None:
    state = pytest.importorskip("accelerate").PartialState
    assert state(cpu=True).num_processes == 1
    try:
        assert on_two_ranks(Shared(by_accelerate)) == ""
    finally:
        state._reset_state()


@pytest.mark.parametrize(("ask", "said"), [(unasked, "same"), (raising, "Refused")])
def test_what_a_stream_does_that_takes_no_share_is_told(
    ask: Callable[[], tuple[int, int]], said: str, nothing_left_behind: Left
) -> None:
    assert said in on_two_ranks(Shared(ask))


def test_a_rank_that_was_asked_for_earlier_is_told_as_such() -> None:
    stream: Any = Shared(unasked)
    stream.rank = 0
    assert "dataset.rank" in on_two_ranks(stream)


def test_where_no_process_group_can_be_made_nothing_is_said(
    monkeypatch: pytest.MonkeyPatch, nothing_left_behind: Left
) -> None:
    def refuse(*args: Any, **options: Any) -> None:
        raise RuntimeError("no gloo here")

    monkeypatch.setattr(torch.distributed, "init_process_group", refuse)
    assert on_two_ranks(Shared(unasked)) == ""


def test_in_a_process_group_of_main_s_own_nothing_is_said(nothing_left_behind: Left) -> None:
    store: Any = vars(torch.distributed)["HashStore"]()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        assert on_two_ranks(Shared(unasked)) == ""
    finally:
        torch.distributed.destroy_process_group()


# Hostile exceptions and hostile arguments


ODD_ERRORS = sorted(hostile.ERRORS)


@pytest.mark.parametrize("kind", ODD_ERRORS)
def test_an_exception_that_raises_when_it_is_asked_is_told_as_raised(kind: str) -> None:
    def trouble() -> None:
        raise hostile.ERRORS[kind]("bad row")

    seen = observe(DataLoader(Numbers(trouble), batch_size=2), deadline=30)
    assert (seen.end, seen.chain[0][0], seen.batches) == ("raised", f"Odd_{kind}", 4)
    assert seen.traceback and "trouble" in str(seen.traceback[-1])
    assert str(seen)


ARGUMENTS: dict[str, Callable[[Any], object]] = {
    "loader of observe": lambda thing: observe(thing, deadline=5),
    "loader of diagnose": lambda thing: diagnose(thing, deadline=5),
    "loader of how_many_workers": lambda thing: how_many_workers(thing, deadline=5),
    "deadline": lambda thing: observe(rows(), deadline=thing),
    "epochs": lambda thing: observe(rows(), epochs=thing, deadline=5),
    "consume": lambda thing: observe(rows(), consume=thing, deadline=5),
    "text of explain": explain,
}
# Some arguments accept objects of these kinds, which are numbers or strings, or can be called or
# iterated.
TAKEN = (
    *("int", "__iter___raises", "__iter___recurses", "mock", "magic mock", "enum", "str"),
    "class with a metaclass",
)


def rows() -> DataLoader[Any]:
    return DataLoader(Numbers(), batch_size=2)


@pytest.mark.parametrize("argument", ARGUMENTS)
def test_a_hostile_argument_is_refused_in_a_sentence_of_ours(argument: str) -> None:
    for kind, make in HOSTILE.items():
        if kind not in TAKEN:
            with pytest.raises((TypeError, ValueError), match=r"must be|takes|got"):
                ARGUMENTS[argument](make())


@pytest.mark.parametrize("exercise", ["00.fix", "03.transfer", "11.diagnose"])
@pytest.mark.parametrize("kind", ["dead_proxy", "__class___raises", "dict", "lazy module"])
def test_a_hostile_answer_is_no_mistake_of_ours(exercise: str, kind: str) -> None:
    result = check(exercise, HOSTILE[kind]())
    assert result.outcome not in (Outcome.CORRECT, Outcome.COULD_NOT_CHECK), result
