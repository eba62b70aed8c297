"""Objects that raise when they're asked something: nothing fails on them, or stops seeing."""

from __future__ import annotations

import os
import random
import sys
import tempfile
import threading
import time
import types
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import hostile
import pytest
import torch
from datasets import Numbers
from hostile import HOSTILE
from torch.distributed import (
    distributed_c10d,
    get_rank,
    get_world_size,
    is_available,
    is_initialized,
)
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

from dltutor import check, diagnose, explain, how_many_workers, observe
from dltutor.diagnosis.experiment import read
from dltutor.diagnosis.objects import containers, digests, names, walking
from dltutor.diagnosis.objects.walking import Found, walk
from dltutor.diagnosis.probes import two_ranks as experiment
from dltutor.diagnosis.probes.culprit import unsendable
from dltutor.diagnosis.probes.imported import globals_of_main
from dltutor.diagnosis.probes.travel import packing
from dltutor.diagnosis.probes.two_ranks import TwoRanks
from dltutor.diagnosis.probes.waits import causes
from dltutor.diagnosis.report import Diagnosis
from dltutor.diagnosis.running import random_states
from dltutor.diagnosis.running.subject import Subject
from dltutor.lessons.engine.outcomes import Outcome
from dltutor.observation import errors, foreign, sandbox
from dltutor.observation.budget.own_loader import tensor_bytes
from dltutor.observation.collated import length_by_shape
from dltutor.observation.loaders import inner_loaders

Left = Callable[..., None]


class Holder(Dataset[torch.Tensor]):
    """Holds a thing in all its places, and a generator, a lock and a loader behind it."""

    def __init__(self, thing: Any) -> None:
        self.thing = thing
        self.many = [thing]
        self.named = {"thing": thing}
        self.closed_over = lambda: thing
        self.rng = random.Random(1)
        self.lock = threading.Lock()
        self.loader: Any = DataLoader([1, 2])  # type: ignore[arg-type]

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([float(index)])


def parts(held: Holder) -> list[Any]:
    return [held, held.thing, held.many, held.named]


def roots(held: Holder) -> list[Found]:
    return [Found("dataset", held)]


def finds(found: Iterator[Found], wanted: Any) -> bool:
    return any(each.thing is wanted for each in found)


QUESTIONS: dict[str, Callable[[Holder], object]] = {
    "walk": lambda held: finds(walk(held), held.rng),
    "near": lambda held: finds(names.near(roots(held)), held.rng),
    "reached": lambda held: finds(containers.reached(roots(held)), held.rng),
    # Globals of other tests are reached, too.
    "large": lambda held: (
        not any(path.startswith("dataset") for path, *_ in containers.large(roots(held)))
    ),
    "size": lambda held: [(containers.size(e), containers.bound(e)) for e in parts(held)],
    "globals": lambda held: globals_of_main.packed(Subject(DataLoader(held), None, 1, 5.0)) or True,
    "pack": lambda held: packing.refused("dataset", held),  # a lambda cannot be pickled
    "fleeting": lambda held: packing.fleeting("dataset", held) == [],
    "unsendable": lambda held: [unsendable.culprit_in(each, "batch") for each in parts(held)],
    "digest": lambda held: [digests.digest(each) for each in parts(held)],
    "shape": lambda held: [digests.shape(each) for each in parts(held)],
    "split": lambda held: [digests.split(each, 1) for each in parts(held)],
    "loaders": lambda held: list(inner_loaders(held).values()) == [held.loader],
    "locks": lambda held: any(each is held.lock for each in causes.locks_in(roots(held))),
    "held": lambda held: causes.held_in(roots(held)) == [],
    "pins": lambda held: any(each is held.rng for _, each in random_states.Pins(held).own),
    "named": lambda held: names.named(roots(held), held.lock) == "dataset.lock",
    "tensors": lambda held: [tensor_bytes([each, torch.ones(1)]) for each in parts(held)],
    "samples": lambda held: [length_by_shape([each]) for each in parts(held)],
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_no_walk_fails_on_a_hostile_object_and_each_finds_what_is_beside_it(kind: str) -> None:
    held = Holder(HOSTILE[kind]())
    wrong: dict[str, object] = {}
    for question, ask in QUESTIONS.items():
        try:
            if not (answer := ask(held)):
                wrong[question] = answer
        except Exception as error:
            wrong[question] = type(error)
    assert wrong == {}


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
    assert "walk" in foreign.attributes_of(sys.modules[walk.__module__])
    assert foreign.module_of(Holder) == Holder.__module__ == foreign.module_of(roots)
    assert foreign.file_of(sys.modules[__name__]) == __file__
    assert (foreign.number(5), foreign.number(0.5), foreign.number("5")) == (5, 0.5, None)
    assert foreign.text([1]) == "[1]" and foreign.said(ValueError("no")) == "ValueError: no"


def test_modules_that_raise_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, module in hostile.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    held = Holder(hostile.lazy())
    subject = Subject(DataLoader(held), None, 1, 5.0)
    assert names.named(names.roots_of(subject), held.lock) == "dataset.lock"


def test_walks_end_by_the_clock_where_each_thing_takes_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(walking, "_LONGEST", 0.3)
    found = 0
    for _ in walk(list(range(24))):
        found += 1
        time.sleep(0.1)
    assert 1 <= found <= 4


def test_what_is_too_deep_or_too_much_for_a_digest_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "_LEAVES", 1000)
    monkeypatch.setattr(digests, "_PICKLED", 1000)
    wide = [[[0.0] * 50 for _ in range(50)] for _ in range(50)]
    fed: list[Any] = []
    own = digests._Content._feed

    def counted(self: Any, thing: Any, depth: int) -> None:
        fed.append(thing)
        own(self, thing, depth)

    monkeypatch.setattr(digests._Content, "_feed", counted)
    digest = digests.digest(wide)
    assert len(fed) == 1000
    assert digest == digests.digest(wide) != digests.digest(wide[0])
    large = types.SimpleNamespace(words=tuple(range(100_000)))
    assert len(digests._pickled(large)) < 1000 + (1 << 17)
    assert digests.digest(large) == digests.digest(large)


# The doctor


SOURCE = """
import hostile
import torch
from torch.utils.data import DataLoader, Dataset

KEPT = {kept}
globals().update((f"KEPT_{{at}}", each) for at, each in enumerate({kept}[:100]))


class Rows(Dataset):
    def __init__(self, bad):
        self.bad = bad
        self.kept = {kept}
        self.known = dict(enumerate(self.kept[::-1]))
        self.__dict__.update((f"kept_{{at}}", each) for at, each in enumerate({kept}[:100]))
        self.transform = self.closed_over({kept})

    def closed_over(self, kept):
        return lambda row: row if kept else None

    def __len__(self):
        return 32

    def __getitem__(self, index):
        if index == self.bad:
            raise KeyError(f"no row {{index}}")
        return self.transform(torch.full((4,), float(index)))


def loader(bad=-1):
    return DataLoader(Rows(bad), batch_size=4, num_workers=2, multiprocessing_context="fork")


def loop(kept):
    def consume(loader):
        for batch in loader:
            assert kept
        return len(kept)
    return consume
"""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Makes a module of a learner's, with a dataset that holds what is named."""

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
# One of each way to be hostile.
ALONE = (
    *("dead_proxy", "__class___raises", "__getattribute___recurses", "__eq___raises"),
    *("__dict___raises", "__reduce_ex___raises", "list", "dict", "int", "tensor", "mock"),
    *("object of such a class", "lazy module", "deep", "chain", "itself"),
)


def test_a_healthy_loader_that_holds_every_hostile_object_is_healthy(
    source: Callable[[str], Any], nothing_left_behind: Left
) -> None:
    module = source(EVERY)
    diagnosis = diagnose(module.loader(), consume=module.loop(hostile.every()), deadline=60)
    assert failed(diagnosis) == []
    assert diagnosis.findings == () and diagnosis.untried == ()


def test_a_broken_one_gets_the_finding_that_it_gets_without_them(
    source: Callable[[str], Any], nothing_left_behind: Left
) -> None:
    module = source(EVERY)
    diagnosis = diagnose(module.loader(bad=9), deadline=60)
    assert failed(diagnosis) == []
    assert [each.name for each in diagnosis.findings] == ["raises"]


def test_a_run_that_has_them_in_its_loader_is_observed(
    source: Callable[[str], Any], nothing_left_behind: Left
) -> None:
    module = source(EVERY)
    seen = observe(module.loader(), consume=module.loop(hostile.every()), deadline=30)
    assert (seen.end, seen.batches, seen.samples) == ("finished", 8, 32)
    assert seen.result == len(HOSTILE)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ALONE)
def test_a_healthy_loader_that_holds_one_of_them_is_healthy(
    source: Callable[[str], Any], kind: str, nothing_left_behind: Left
) -> None:
    module = source(f"[hostile.HOSTILE[{kind!r}]()]")
    diagnosis = diagnose(module.loader(), consume=module.loop([HOSTILE[kind]()]), deadline=60)
    assert failed(diagnosis) == []
    assert diagnosis.findings == ()


@pytest.mark.thorough
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


# Two ranks


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
    torch.distributed.all_reduce(told)  # needs the other one
    assert int(told) == 1
    group: Any = torch.distributed.group.WORLD
    return group.rank(), group.size()


def by_accelerate() -> tuple[int, int]:
    state = pytest.importorskip("accelerate").PartialState()
    return state.process_index, state.num_processes


def unasked() -> tuple[int, int]:
    return 0, 1


def raising() -> tuple[int, int]:
    if "RANK" in os.environ:
        raise hostile.Refused("made for one rank")
    return 0, 1


class Shared(IterableDataset[torch.Tensor]):
    """A stream of which each rank takes every other sample, and each worker its share of these."""

    def __init__(self, ask: Callable[[], tuple[int, int]]) -> None:
        self.ask = ask

    def __iter__(self) -> Iterator[torch.Tensor]:
        place, count = self.ask()
        if (info := get_worker_info()) is not None:
            place, count = place * info.num_workers + info.id, count * info.num_workers
        return (torch.tensor([float(each)]) for each in range(place, 256, count))


ASKED = (by_name, by_module, by_inner_module, by_environment, by_group, by_accelerate)


def two_ranks(stream: Any) -> TwoRanks:
    """What the experiment says, in a fork: as in a visit, it may change what it likes."""
    subject = Subject(DataLoader(stream, batch_size=4), None, 1, 5.0)

    def work(begin: Callable[[], None]) -> dict[str, Any]:
        begin()
        return asdict(experiment.ask(subject))

    ended = sandbox.run(work, at_most=10, own_folder=False)
    assert ended.result is not None, ended
    return read(TwoRanks, ended.result)


@pytest.mark.parametrize("ask", ASKED)
def test_a_stream_that_takes_its_share_by_rank_is_right_however_it_asks(
    ask: Callable[[], tuple[int, int]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    nothing_left_behind: Left,
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    if ask is by_accelerate:
        pytest.importorskip("accelerate.state")  # at the top of the stream's module
    ranks = two_ranks(Shared(ask))
    assert (ranks.drawn, ranks.alike, ranks.failed) == (32, 0, "")
    assert not is_initialized() and "RANK" not in os.environ
    assert list(tmp_path.iterdir()) == []


def test_what_accelerate_remembers_of_main_is_not_what_a_rank_gets() -> None:
    state = pytest.importorskip("accelerate").PartialState
    assert state(cpu=True).num_processes == 1
    try:
        ranks = two_ranks(Shared(by_accelerate))
        assert (ranks.drawn, ranks.alike, ranks.failed) == (32, 0, "")
    finally:
        state._reset_state()


def test_a_stream_that_knows_no_ranks_gives_both_the_same(nothing_left_behind: Left) -> None:
    ranks = two_ranks(Shared(unasked))
    assert (ranks.drawn, ranks.alike, ranks.different) == (32, 32, 32)


def test_a_stream_that_raises_as_a_rank_is_told_with_what_it_raised() -> None:
    assert two_ranks(Shared(raising)).failed == "Refused: made for one rank"


def test_where_no_process_group_can_be_made_nothing_is_said(
    monkeypatch: pytest.MonkeyPatch, nothing_left_behind: Left
) -> None:
    def refuse(*args: Any, **options: Any) -> None:
        raise RuntimeError("no gloo here")

    monkeypatch.setattr(torch.distributed, "init_process_group", refuse)
    assert two_ranks(Shared(unasked)) == TwoRanks()


def test_in_a_process_group_of_main_s_own_nothing_is_said(nothing_left_behind: Left) -> None:
    store: Any = vars(torch.distributed)["HashStore"]()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        assert two_ranks(Shared(unasked)) == TwoRanks()
    finally:
        torch.distributed.destroy_process_group()


def test_a_rank_that_was_asked_for_earlier_is_told_as_such() -> None:
    stream: Any = Shared(unasked)
    stream.rank = 0
    assert two_ranks(stream).made_for == ("dataset.rank",)


@pytest.mark.parametrize(("ask", "said"), [(by_name, False), (unasked, True)])
def test_diagnose_says_it_of_the_stream_that_knows_no_ranks_only(
    ask: Callable[[], tuple[int, int]], said: bool, nothing_left_behind: Left
) -> None:
    loader: Any = DataLoader(
        Shared(ask), batch_size=4, num_workers=2, multiprocessing_context="fork"
    )
    diagnosis = diagnose(loader, deadline=60)
    assert diagnosis.findings == () and failed(diagnosis) == []
    assert any("On two ranks" in each for each in diagnosis.elsewhere) == said


# What is raised, what is handed in


ODD_ERRORS = sorted(hostile.ERRORS)


@pytest.mark.parametrize("kind", ODD_ERRORS)
def test_an_exception_that_raises_when_it_is_asked_is_told_as_raised(kind: str) -> None:
    def trouble() -> None:
        raise hostile.ERRORS[kind]("bad row")

    seen = observe(DataLoader(Numbers(trouble), batch_size=2), deadline=30)
    assert (seen.end, seen.chain[0][0], seen.batches) == ("raised", f"Odd_{kind}", 4)
    assert seen.traceback and "trouble" in str(seen.traceback[-1])
    assert str(seen)


def test_an_exception_is_told_as_python_tells_it_where_it_can_be_asked() -> None:
    try:
        try:
            raise KeyError("first")
        except KeyError as cause:
            raise ValueError("second") from cause
    except ValueError as error:
        read = errors.read(error)
        assert read.chain == (("ValueError", "second"), ("KeyError", "'first'"))
        assert read.raw.splitlines()[-1] == "ValueError: second"
        try:
            raise TypeError("third") from None
        except TypeError as third:
            assert [kind for kind, _ in errors.read(third).chain] == ["TypeError"]


ARGUMENTS: dict[str, Callable[[Any], object]] = {
    "loader of observe": lambda thing: observe(thing, deadline=5),
    "loader of diagnose": lambda thing: diagnose(thing, deadline=5),
    "loader of how_many_workers": lambda thing: how_many_workers(thing, deadline=5),
    "deadline": lambda thing: observe(rows(), deadline=thing),
    "epochs": lambda thing: observe(rows(), epochs=thing, deadline=5),
    "consume": lambda thing: observe(rows(), consume=thing, deadline=5),
    "text of explain": explain,
}
# A number whose `<` raises is a number all the same; those that can be called or iterated are run.
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


def test_a_loop_may_return_any_of_them(nothing_left_behind: Left) -> None:
    made = hostile.every()
    loop: Any = lambda loader: [list(loader), made][1]  # noqa: E731
    assert observe(rows(), consume=loop, deadline=30).result is made
    loader = DataLoader(Numbers(), batch_size=2, num_workers=2, multiprocessing_context="fork")
    diagnosis = diagnose(loader, consume=loop, deadline=60)
    assert failed(diagnosis) == [] and diagnosis.findings == ()


@pytest.mark.parametrize("exercise", ["00.fix", "03.transfer", "11.diagnose"])
@pytest.mark.parametrize("kind", ["dead_proxy", "__class___raises", "dict", "lazy module"])
def test_a_hostile_answer_is_no_mistake_of_ours(exercise: str, kind: str) -> None:
    result = check(exercise, HOSTILE[kind]())
    assert result.outcome not in (Outcome.CORRECT, Outcome.COULD_NOT_CHECK), result
