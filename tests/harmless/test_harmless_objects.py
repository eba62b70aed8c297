"""Test that objects that raise when used neither break an instrument nor hide other objects.

Other tests here check what the doctor says about a stream or a loop on two ranks.
"""

from __future__ import annotations

import os
import sys
import time
import types
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import hostile
import pytest
import small_datasets
import torch
from hostile import HOSTILE
from small_datasets import Numbers
from torch.distributed import is_initialized
from torch.utils.data import DataLoader, Dataset, DistributedSampler, IterableDataset

from dltutor import diagnose, observe
from dltutor.diagnosis.report import Diagnosis
from dltutor.observation import foreign
from dltutor.observation.budget.own_loader import tensor_bytes
from dltutor.observation.foreign import length_by_shape
from dltutor.observation.loaders import inner_loaders


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
def source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nothing_left_behind: Callable[..., None]
) -> Callable[[str], Any]:
    """Return a function that makes a module whose dataset holds what the code `kept` makes."""

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
    source: Callable[[str], Any],
) -> None:
    module = source(EVERY)
    diagnosis = diagnose(module.loader(), consume=module.loop(hostile.every()), deadline=100)
    assert failed(diagnosis) == []
    assert diagnosis.findings == () and diagnosis.untried == ()


@pytest.mark.thorough  # a second diagnosis with all hostile objects
def test_a_broken_one_gets_the_finding_that_it_gets_without_them(
    source: Callable[[str], Any], tmp_path: Path
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


@pytest.mark.usefixtures("nothing_left_behind")
def test_they_may_be_the_samples() -> None:
    diagnosis = diagnose(DataLoader(Samples(), batch_size=4, collate_fn=list), deadline=100)
    assert failed(diagnosis) == []
    assert diagnosis.findings == () and diagnosis.untried == (), diagnosis


def test_a_run_that_has_them_in_its_loader_is_observed(source: Callable[[str], Any]) -> None:
    module = source(EVERY)
    seen = observe(module.loader(), consume=module.loop(hostile.every()), deadline=30)
    assert (seen.end, seen.batches, seen.samples) == ("finished", 8, 32)
    assert len(seen.result) == len(HOSTILE)


@pytest.mark.thorough  # the objects take up about 2 GB
def test_ten_million_objects_stay_within_the_visit(
    source: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hostile, "CROWD", hostile.crowd(), raising=False)
    module = source("hostile.CROWD")
    began = time.monotonic()
    diagnosis = diagnose(module.loader(), deadline=60)
    assert time.monotonic() - began < 60 + 10
    assert failed(diagnosis) == []
    assert diagnosis.findings == ()


# What the doctor says about a stream or a loop on two ranks


def by_environment() -> tuple[int, int]:
    return int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))


def by_group() -> tuple[int, int]:
    if not is_initialized():
        return 0, 1
    told = torch.tensor([torch.distributed.get_rank()])
    torch.distributed.all_reduce(told)  # waits for the other rank
    assert int(told) == 1
    group: Any = torch.distributed.group.WORLD
    return group.rank(), group.size()


def by_accelerate() -> tuple[int, int]:
    try:
        from accelerate import PartialState
    except ImportError:
        return by_group()
    state = PartialState()
    return state.process_index, state.num_processes


ASKED = (by_environment, by_group, by_accelerate)


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
    """A stream of a rank's share of samples. `ask` returns the rank and the number of ranks."""

    def __init__(self, ask: Callable[[], tuple[int, int]], length: int = 256) -> None:
        self.ask, self.length = ask, length

    def __iter__(self) -> Iterator[torch.Tensor]:
        place, count = self.ask()
        return (torch.tensor([float(each)]) for each in range(place, self.length, count))


def on_two_ranks(stream: Shared) -> str:
    """Return what the doctor says about a stream on two ranks, or "" if it says nothing."""
    loader = DataLoader(stream, batch_size=4)
    diagnosis = diagnose(loader, deadline=60)
    assert diagnosis.findings == () and failed(diagnosis) == []
    return " ".join(each for each in diagnosis.elsewhere if "On two ranks" in each)


@pytest.mark.parametrize(
    ("ask", "said"), [(in_every_way, ""), (unasked, "same"), (raising, "Refused")]
)
@pytest.mark.usefixtures("nothing_left_behind")
def test_what_a_stream_does_on_two_ranks_is_told_unless_it_takes_its_share(
    ask: Callable[[], tuple[int, int]], said: str
) -> None:
    told = on_two_ranks(Shared(ask))
    assert said in told and bool(said) == bool(told)
    assert not is_initialized() and "RANK" not in os.environ


def reduced(count: float, how: Any = torch.distributed.ReduceOp.SUM) -> int:
    """Return the sum of all ranks' counts, or the result of another operation, such as MIN."""
    told = torch.tensor(count)
    if is_initialized():
        torch.distributed.all_reduce(told, how)
    return int(told)


def training(loader: Any) -> None:
    for batch in loader:
        reduced(float(batch.mean()))


def evaluating(loader: Any) -> int:
    return reduced(sum(len(batch) for batch in loader))


def agreeing(loader: Any) -> None:
    steps = reduced(sum(1 for _ in loader), torch.distributed.ReduceOp.MIN)
    for _, batch in zip(range(steps), loader, strict=False):
        reduced(float(batch.mean()))


@pytest.mark.parametrize(
    ("loop", "length", "named"),
    [
        (training, 41, ["uneven_ranks"]),  # rank 0 gets 6 batches, and rank 1 gets 5
        # Each rank gets 5 batches, although rank 1 gets one sample less.
        pytest.param(training, 39, [], marks=pytest.mark.thorough),
        (evaluating, 41, []),
        pytest.param(agreeing, 41, [], marks=pytest.mark.thorough),
    ],
)
@pytest.mark.usefixtures("nothing_left_behind")
def test_ranks_with_unequal_numbers_of_batches_are_told_only_if_the_loop_waits_for_all_of_them(
    loop: Callable[[Any], Any], length: int, named: list[str]
) -> None:
    stream = Shared(by_environment, length)
    diagnosis = diagnose(DataLoader(stream, batch_size=4), consume=loop, deadline=60)
    assert [each.name for each in diagnosis.findings] == named and failed(diagnosis) == []


class Noisy(Dataset[torch.Tensor]):
    """A dataset of noise from the global generator."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.rand(8) + index


def two_epochs(loader: Any, seed: int) -> None:
    torch.manual_seed(seed)
    for epoch in range(2):
        if isinstance(loader.sampler, DistributedSampler):
            loader.sampler.set_epoch(epoch)
        for _ in loader:
            pass


def seeded_by_its_rank(loader: Any) -> None:
    two_epochs(loader, 42 + by_environment()[0])


def seeded_by_the_rank_of_main() -> Callable[[Any], None]:
    rank = 0  # a program reads its rank once, before it calls the doctor

    def loop(loader: Any) -> None:
        two_epochs(loader, 42 + rank)

    return loop


@pytest.mark.parametrize(
    ("loop", "ranks", "named"),
    [
        pytest.param(partial(two_epochs, seed=42), 2, ["same_on_all_ranks"], id="alike"),
        pytest.param(partial(two_epochs, seed=42), 0, [], id="one rank"),
        (seeded_by_its_rank, 2, []),
        pytest.param(seeded_by_the_rank_of_main(), 2, [], marks=pytest.mark.thorough),
    ],
)
@pytest.mark.usefixtures("nothing_left_behind")
def test_a_loop_that_sets_a_seed_is_told_only_if_ranks_share_the_samples_and_the_seed(
    loop: Callable[[Any], Any], ranks: int, named: list[str]
) -> None:
    noisy = Noisy()
    sampler = DistributedSampler(noisy, ranks, 0) if ranks else None
    loader = DataLoader(noisy, batch_size=8, sampler=sampler, shuffle=not ranks)
    diagnosis = diagnose(loader, consume=loop, deadline=60)
    assert [each.name for each in diagnosis.findings] == named and failed(diagnosis) == []


def test_what_accelerate_remembers_of_main_is_not_what_a_rank_gets() -> None:
    state = pytest.importorskip("accelerate").PartialState
    assert state(cpu=True).num_processes == 1
    try:
        assert on_two_ranks(Shared(by_accelerate)) == ""
    finally:
        state._reset_state()


def test_a_rank_that_was_asked_for_earlier_is_told_as_such() -> None:
    stream: Any = Shared(unasked)
    stream.rank = 0
    assert "dataset.rank" in on_two_ranks(stream)


@pytest.mark.usefixtures("nothing_left_behind")
def test_where_no_process_group_can_be_made_nothing_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*args: Any, **options: Any) -> None:
        raise RuntimeError("no gloo here")

    monkeypatch.setattr(torch.distributed, "init_process_group", refuse)
    assert on_two_ranks(Shared(unasked)) == ""


@pytest.mark.usefixtures("nothing_left_behind")
def test_in_a_process_group_of_main_s_own_nothing_is_said() -> None:
    store: Any = vars(torch.distributed)["HashStore"]()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        assert on_two_ranks(Shared(unasked)) == ""
    finally:
        torch.distributed.destroy_process_group()
