"""Test the doctor's probes on loaders that have a problem, and on similar loaders without it.

Probes change the process that they run in, so each probe runs in a fork. Other tests here check
what the probes use, how the doctor finds what hangs, and what it shows while it runs.
"""

from __future__ import annotations

import copy
import importlib
import io
import json
import multiprocessing
import os
import pickle
import queue
import random
import sys
import tempfile
import threading
import time
import types
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import numpy as np
import pytest
import torch
from torch.utils.data import (
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    Sampler,
    Subset,
    default_convert,
    get_worker_info,
)

from dltutor import diagnose
from dltutor.diagnosis import examination as examination_module
from dltutor.diagnosis import limits, progress
from dltutor.diagnosis.agenda import experiments
from dltutor.diagnosis.diagnose import prepare
from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.measures import Measures
from dltutor.diagnosis.objects import containers, digests
from dltutor.diagnosis.objects.walking import Found
from dltutor.diagnosis.probes import (
    copies,
    displaced,
    ending,
    fetched,
    leftovers,
    made_as_rank,
    new_interpreter,
    order,
    parts,
    pinned,
    recomputed,
    reordered,
    repeats,
    samples,
    shares,
    state,
    travel,
    twice,
    waits,
)
from dltutor.diagnosis.probes.culprit import unsendable
from dltutor.diagnosis.probes.leftovers import Leftover
from dltutor.diagnosis.probes.recomputed import Recomputed
from dltutor.diagnosis.probes.reordered import Reordered
from dltutor.diagnosis.probes.samples import Samples
from dltutor.diagnosis.probes.travel.packing import names_of_main
from dltutor.diagnosis.probes.twice import Twice
from dltutor.diagnosis.rules import RULES
from dltutor.diagnosis.running import runner, small_loaders
from dltutor.diagnosis.running.forks import in_fork
from dltutor.diagnosis.running.pace import left_at_once
from dltutor.diagnosis.running.subject import Mark, Subject, Unanswered
from dltutor.diagnosis.running.watch import idle_shares
from dltutor.failures import stale_epoch
from dltutor.observation import torch_internals
from dltutor.observation.record import Frame, Worker
from dltutor.observation.sandbox import Ended

pytestmark = pytest.mark.usefixtures("nothing_left_behind")

PATIENCE = 100.0  # the most seconds for a probe, even on a busy machine
FORK: dict[str, Any] = {"multiprocessing_context": "fork"}


@pytest.fixture(autouse=True)
def probes_have_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lift the limits that a busy machine reaches, and let the probe `twice` try fewer samples."""
    monkeypatch.setattr(limits, "time", SimpleNamespace(monotonic=lambda: 0.0))
    monkeypatch.setattr(twice, "_FORK", PATIENCE / 4)
    monkeypatch.setattr(twice, "_TRIED", 2)  # samples, each in three forks
    monkeypatch.setattr(new_interpreter, "_FOR", PATIENCE / 4)
    monkeypatch.setattr(new_interpreter, "_MADE", PATIENCE / 4)


class Rows(Dataset[Any]):
    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> Any:
        return torch.full((8,), float(index))


class Cached(Rows):
    """A dataset that caches each row under a key that `key` makes from the index."""

    def __init__(self, key: Callable[[int], int]) -> None:
        self.key = key
        self.kept: dict[int, Any] = {}

    def __getitem__(self, index: int) -> Any:
        return self.kept.setdefault(self.key(index), super().__getitem__(index))


class Words(Rows):
    """A dataset of words, as numbers. A word that isn't in `table` gets the next number."""

    def __init__(self, table: dict[str, int]) -> None:
        self.table = table

    def __getitem__(self, index: int) -> Any:
        return self.table.setdefault(f"word {index % 5}", len(self.table))


class Lines(Rows):
    """A dataset whose samples are a row, its label, and one to five letters."""

    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index), torch.tensor(index), torch.arange(1 + -index % 5)


def sorted_apart(drawn: list[Any]) -> Any:
    rows, labels, letters = zip(*drawn, strict=True)
    return torch.stack(rows), torch.stack(labels), _padded(sorted(letters, key=len))


def sorted_together(drawn: list[Any]) -> Any:
    rows, labels, letters = zip(*sorted(drawn, key=lambda each: len(each[2])), strict=True)
    return torch.stack(rows), torch.stack(labels), _padded(letters)


def _padded(letters: Any) -> torch.Tensor:
    return torch.nn.utils.rnn.pad_sequence(list(letters), batch_first=True)


class Optional(Rows):
    """A dataset of dicts, some without a text, or of lists of 2 or 3 rows if `listed` is True."""

    def __init__(self, listed: bool = False) -> None:
        self.listed = listed

    def __getitem__(self, index: int) -> Any:
        row = super().__getitem__(index)
        if self.listed:
            return [row] * (2 + bool(index % 3))
        return {"row": row, "id": index} | ({"text": row[:3]} if index % 3 else {})


def of_the_first(drawn: list[Any]) -> Any:
    return {name: torch.stack([each[name] for each in drawn]) for name in drawn[0] if name != "id"}


def stacked(drawn: list[Any], *names: str) -> Any:
    return {
        name: torch.stack([torch.as_tensor(each[name]) for each in drawn if name in each])
        for name in names
    }


def with_mask(drawn: list[Any]) -> Any:
    mask = torch.tensor(["text" in each for each in drawn])
    return stacked(drawn, "row", "text") | {"mask": mask}


def with_positions(drawn: list[Any]) -> Any:
    at = [position for position, each in enumerate(drawn) if "text" in each]
    return stacked(drawn, "row", "text") | {"at": at}


def with_ids(drawn: list[Any]) -> Any:
    whose = torch.tensor([each["id"] for each in drawn if "text" in each])
    return stacked(drawn, "row", "text", "id") | {"text_id": whose}


def in_all(drawn: list[Any]) -> Any:
    return stacked(drawn, *(name for name in drawn[0] if all(name in each for each in drawn)))


def test_fields_that_only_some_samples_have() -> None:
    found = ask(fetched, Optional(), collate_fn=of_the_first)
    assert (found.ragged, found.dropped) == ((), (("text", 2, 4),))
    found = ask(fetched, Optional(), collate_fn=lambda drawn: stacked(drawn, "row", "text"))
    assert (found.ragged, found.dropped) == ((("text", 2, 4),), ())
    found = ask(fetched, Optional(True), collate_fn=lambda drawn: [*zip(*drawn, strict=False)])
    assert found.dropped == (("[2]", 2, 4),)


@pytest.mark.parametrize(
    "collate",
    [with_mask, with_positions, with_ids, in_all, lambda drawn: stacked(drawn, "row", "id"), list],
)
def test_a_batch_may_lack_a_field_on_purpose_or_say_whose_rows_are_whose(collate: Any) -> None:
    found = ask(fetched, Optional(), collate_fn=collate)
    assert (found.ragged, found.dropped, found.crossed) == ((), (), ())


def rolled(drawn: list[Any]) -> Any:
    rows, labels, _ = zip(*drawn, strict=True)
    return torch.stack(rows), torch.stack(labels), torch.stack(labels).roll(1)


def reversed_labels(drawn: list[Any]) -> Any:
    rows, labels, _ = zip(*drawn, strict=True)
    order = torch.arange(len(drawn)).flip(0)
    return torch.stack(rows), torch.stack(labels)[order], order


@pytest.mark.parametrize("collate", [rolled, reversed_labels], ids=["negatives", "an order"])
def test_a_field_may_be_in_another_order_on_purpose(collate: Any) -> None:
    assert ask(fetched, Lines(), collate_fn=collate).crossed == ()


class Shuffles(Sampler[int]):
    """A sampler that shuffles each epoch differently or, if `anew`, always the same way.

    `seeded` makes a generator with a `shuffle` method from a seed.
    """

    def __init__(self, anew: bool, seeded: Callable[[int], Any] = random.Random) -> None:
        self.anew, self.seeded = anew, seeded
        self.once = seeded(0)

    def __len__(self) -> int:
        return 32

    def __iter__(self) -> Iterator[int]:
        order = [*range(32)]
        generator = self.seeded(0) if self.anew else self.once
        generator.shuffle(order)
        yield from order


class Noisy(Rows):
    """A dataset that adds noise to each row. If `seed` is given, `seed(index)` seeds the noise."""

    def __init__(self, seed: Callable[[int], int] | None) -> None:
        self.seed = seed

    def __getitem__(self, index: int) -> Any:
        if self.seed is not None:
            random.seed(self.seed(index))
        return super().__getitem__(index) + random.random()


class Forgetful:
    """An object that looks up attributes in a dict, even before pickle has restored the dict."""

    def __init__(self) -> None:
        self.known = {"rate": 8000}

    def __getattr__(self, name: str) -> Any:
        return self.known[name]


class Leaves(Rows):
    """A dataset that calls `make` for each row, and never cleans up what `make` leaves behind."""

    def __init__(self, make: Callable[[], object]) -> None:
        self.make = make

    def __getitem__(self, index: int) -> Any:
        self.make()
        return super().__getitem__(index)


def wait_in_a_thread() -> None:
    threading.Thread(target=time.sleep, args=(PATIENCE,), daemon=True).start()


def ask(probe: Any, dataset: Any, **options: Any) -> Any:
    def asked() -> Any:
        torch.set_num_threads(1)  # as the doctor does, because a fork has no OpenMP threads
        loader = DataLoader(dataset, **{"batch_size": 4, **options})
        return probe.ask(Subject(loader, None, 1, PATIENCE / 2))

    return in_fork(asked, PATIENCE)


@pytest.mark.parametrize(
    ("ill", "healthy"),
    [
        (lambda: Cached(lambda index: index % 20), lambda: Cached(lambda index: index)),
        (lambda: Words({}), lambda: Words({f"word {at}": at for at in range(5)})),
    ],
    ids=["a key for two rows", "numbers as they come"],
)
def test_a_sample_that_depends_on_those_before_it(
    ill: Callable[[], Any], healthy: Callable[[], Any]
) -> None:
    found = ask(reordered, ill())
    assert found.looked == 32 and found.differ > 10
    assert found.other and found.paths
    assert ask(reordered, healthy()) == Reordered(looked=32)


class Endless(Sampler[int]):
    """A sampler without a length or an end."""

    def __iter__(self) -> Iterator[int]:
        while True:
            yield random.randrange(32)


def test_a_sampler_may_have_no_length() -> None:
    found = ask(fetched, Rows(), sampler=Endless())
    assert found.looked > 0 and not (found.differ or found.overwritten)


def test_rows_of_a_batch_that_belong_to_different_samples() -> None:
    assert ask(fetched, Lines(), collate_fn=sorted_apart).crossed == (("[2]", "[0]"),)
    assert ask(fetched, Lines(), collate_fn=sorted_together).crossed == ()


class Numbers(Rows):
    """A dataset of samples with two numbers. `number` makes the second one from the index."""

    def __init__(self, number: Callable[[int], Any], kind: Any = lambda *fields: fields) -> None:
        self.number = number
        self.kind = kind

    def __getitem__(self, index: int) -> Any:
        return self.kind(index / 3, self.number(index))


class Payment(NamedTuple):
    share: float
    account: int


@dataclass
class Booking:
    share: float
    account: int


ACCOUNTS = Numbers(lambda index: 4_210_000_001 + 37 * index)
SIZES = Numbers(lambda index: 4_210_000_001 + 500 * index)
SECONDS = Numbers(lambda index: 1_700_000_001 + index)
POSTS = Numbers(lambda index: 2**60 + 1 + index)
STEPS = Numbers(lambda index: 3_001 + 2 * index)


def integers(drawn: list[Any], kind: Any = torch.int64) -> Any:
    return torch.tensor([number for _, number in drawn]).to(kind)


def of_one_tensor(drawn: list[Any], kind: Any = torch.float32) -> Any:
    return torch.tensor([*map(tuple, drawn)], dtype=kind)[:, 1].long()


def padded_and_sorted(drawn: list[Any]) -> Any:
    padded = torch.zeros(len(drawn), 5)
    for row, (_, number) in zip(padded, drawn[::-1], strict=True):
        row[:2] = torch.as_tensor(number)
    return padded.long()


@pytest.mark.parametrize(
    ("dataset", "collate", "kind"),
    [
        (ACCOUNTS, of_one_tensor, "float32"),
        (ACCOUNTS, lambda drawn: (of_one_tensor(drawn), random.random()), "float32"),
        (Numbers(ACCOUNTS.number, Payment), of_one_tensor, "float32"),
        (
            Numbers(ACCOUNTS.number, Booking),
            lambda drawn: of_one_tensor([(each.share, each.account) for each in drawn]),
            "float32",
        ),
        (
            Numbers(lambda index: torch.tensor([ACCOUNTS.number(index), 7])),
            padded_and_sorted,
            "float32",
        ),
        (POSTS, lambda drawn: np.array(drawn)[:, 1].astype(np.int64), "float64"),
        (STEPS, lambda drawn: of_one_tensor(drawn, torch.float16), "float16"),
        (STEPS, lambda drawn: of_one_tensor(drawn, torch.bfloat16), "bfloat16"),
    ],
)
def test_integers_that_arrive_as_other_numbers(dataset: Any, collate: Any, kind: str) -> None:
    (found,) = ask(fetched, dataset, collate_fn=collate).narrowed
    assert found[2] == kind
    assert found[3] != found[4]


@pytest.mark.parametrize(
    ("dataset", "collate"),
    [
        (ACCOUNTS, integers),
        (ACCOUNTS, lambda drawn: integers(drawn, torch.float64)),
        (ACCOUNTS, lambda drawn: integers(drawn) % 4096),  # a bucket for an embedding
        (ACCOUNTS, lambda drawn: integers(drawn, torch.uint8)),  # also a bucket: the lowest 8 bits
        (SECONDS, lambda drawn: integers(drawn, torch.float32)),  # a feature
        (SIZES, lambda drawn: integers(drawn, torch.float32)),  # a feature, a little rounded
        (SECONDS, lambda drawn: integers(drawn) // 60 * 60),
        (  # each sample's time after the first one's is exact
            SECONDS,
            lambda drawn: [integers(drawn, torch.float32), integers(drawn) - integers(drawn)[0]],
        ),
        (STEPS, of_one_tensor),
        (STEPS, lambda drawn: torch.arange(5_000)),  # without the field
        (STEPS, lambda drawn: 2 * (integers(drawn) // 2 + torch.arange(-3, 4)[:, None])),
        (  # -1, for what doesn't count, arrives as 255, which is no class
            Numbers(lambda index: (3, 20, 90, -1)[index % 4]),
            lambda drawn: integers(drawn, torch.uint8),
        ),
    ],
)
def test_integers_may_change_on_purpose(dataset: Any, collate: Any) -> None:
    assert ask(fetched, dataset, collate_fn=collate).narrowed == ()


class Keeps(Rows):
    """A dataset that keeps 32 rows, and calls `change` with a row or, if `copies`, with a copy."""

    def __init__(self, rows: Any, change: Callable[[Any], Any], copies: bool) -> None:
        self.rows = rows
        self.change = change
        self.copies = copies

    def __getitem__(self, index: int) -> Any:
        row = self.rows[index]
        return self.change(deepcopy(row) if self.copies else row)


def negates(copies: bool) -> Keeps:
    rows = [torch.arange(8.0) + 8 * index for index in range(32)]
    return Keeps(rows, lambda row: row.neg_() if random.random() < 0.5 else row, copies)


def masks(copies: bool) -> Keeps:
    return Keeps(torch.ones(32, 16), lambda row: row.masked_fill_(torch.rand(16) < 0.2, 0), copies)


def flips(copies: bool) -> Keeps:
    def flip(boxes: Any) -> Any:
        if torch.rand(()) < 0.5:
            boxes *= -1
        return boxes.copy()

    return Keeps([np.full(4, index + 1.0) for index in range(32)], flip, copies)


def test_a_batch_that_a_worker_can_send_and_main_cannot_read() -> None:
    assert unsendable.why_not([Forgetful()]) == ""
    kind, _, at = unsendable.unread([Forgetful()])
    assert kind == "RecursionError" and "__getattr__" in at
    assert unsendable.unread([torch.ones(3), {"rate": 8000}]) == ("", "", "")
    found = diagnose(DataLoader(Rows(), collate_fn=lambda _: Forgetful(), num_workers=2, **FORK))
    assert [each.name for each in found.findings] == ["raises"], found
    assert "__getattr__" in found.findings[0].where and "batch 0" in found.findings[0].evidence


def test_what_only_some_random_numbers_do_is_seen_too() -> None:
    assert ask(samples, negates(copies=False)).again > 4
    assert ask(samples, negates(copies=True)).again == 0


class Extends(Rows):
    """A dataset that makes a list for each index, and appends to it or, if `copies`, to a copy."""

    def __init__(self, copies: bool) -> None:
        self.lists: dict[int, list[int]] = {}
        self.copies = copies

    def __getitem__(self, index: int) -> Any:
        made = self.lists.setdefault(index, [index])
        made = [*made] if self.copies else made
        made.append(2)
        return made


@pytest.mark.parametrize(
    ("make", "least", "path"),
    [(flips, 1, "dataset.rows"), (masks, 2, "dataset.rows"), (Extends, 2, "dataset.lists")],
    ids=["what the next draw leaves alone", "at random", "what is made on first use"],
)
def test_what_a_sample_changes_has_a_name(
    make: Callable[[bool], Any], least: int, path: str
) -> None:
    found = ask(twice, make(False))
    assert (found.looked, found.own >= least, found.paths[0]) == (2, True, path)


@pytest.mark.parametrize("make", [masks, Extends])
def test_a_sample_that_changes_a_copy_is_the_same_again(make: Callable[[bool], Any]) -> None:
    assert ask(twice, make(True)) == Twice(looked=2)


def test_a_random_change_of_the_data_itself_is_seen_though_its_repetition_changes_nothing() -> None:
    found = ask(samples, masks(copies=False))
    assert found.again and found.random
    found = ask(samples, masks(copies=True))
    assert not found.again and found.random


class OneEpoch(Sampler[list[int]]):
    """A batch sampler whose 8 batches come from one iterator, so a second epoch gets none."""

    def __init__(self) -> None:
        self.batches = iter([[*range(first, first + 4)] for first in range(0, 32, 4)])

    def __len__(self) -> int:
        return 8

    def __iter__(self) -> Iterator[list[int]]:
        return self.batches


def test_a_sampler_that_uses_itself_up_is_counted_from_its_first_epoch() -> None:
    found = ask(samples, Rows(), batch_size=1, batch_sampler=OneEpoch())
    assert found.dealt == ((8, 8), (8, 0)) and found.looked == 32
    found = ask(samples, Rows(), batch_size=1, batch_sampler=[*OneEpoch()])
    assert found.dealt == ((8, 8), (8, 8))


class Blocks(Rows):
    """A dataset in blocks of 8 rows, with a clock of its own.

    On that clock, a row takes 0.1 ms, and a row in a new block takes 10 ms more.
    """

    clock = 0.0
    block = -1

    def __getitem__(self, index: int) -> Any:
        Blocks.clock += 0.0001
        if self.block != index // 8:
            Blocks.clock += 0.01
            self.block = index // 8
        return super().__getitem__(index)


def test_samples_that_cost_more_in_another_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "perf_counter", lambda: Blocks.clock)
    halves = [*range(0, 32, 2), *range(1, 32, 2)]  # so that each block comes up twice
    assert 1.5 < ask(reordered, Blocks(), sampler=halves).times < 2.5
    scattered = [at + 8 * block for at in range(8) for block in range(4)]
    assert ask(reordered, Blocks(), sampler=scattered).times > 5
    assert ask(reordered, Blocks()).times == 0


class CountsLines(Rows):
    """A dataset that takes longer for later samples, as if it counted the lines before each.

    If `grow`, later samples are also larger. From index `end` on, the dataset raises ValueError.
    """

    def __init__(self, *, grow: bool = False, end: int = 64) -> None:
        super().__init__()
        self.grow, self.end = grow, end

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> Any:
        if index >= self.end:
            raise ValueError(index)
        for line in range(200 * (1 + index)):
            line % 7
        return np.full(64 * (1 + index * self.grow), index)


def test_samples_that_cost_more_the_later_they_are() -> None:
    first, middle, last = ask(reordered, CountsLines()).depths
    assert first < middle < last
    assert ask(reordered, CountsLines(grow=True)).depths == ()
    assert ask(reordered, CountsLines(end=60), sampler=range(40)) == Reordered(40)
    assert ask(reordered, Rows()).depths == ()


class Unpacks(Rows):
    """A dataset of rows from packed tables. If not `once`, each row unpacks its table again."""

    def __init__(self, once: bool, tables: int = 1) -> None:
        floats = np.arange(500_000.0)
        self.packed = [zlib.compress((floats + at).tobytes(), 1) for at in range(tables)]
        self.once = once
        self.kept: dict[int, Any] = {}

    def unpacked(self, number: int) -> Any:
        return np.frombuffer(zlib.decompress(self.packed[number])).reshape(-1, 500)

    def __getitem__(self, index: int) -> Any:
        number = index % len(self.packed)
        if self.once and number not in self.kept:
            self.kept[number] = self.unpacked(number)
        if self.once:
            return copied(self.kept[number], index)
        return copied(self.unpacked(number), index)


def copied(table: Any, index: int) -> Any:
    return table[index].copy()


def test_work_that_each_sample_repeats() -> None:
    found = ask(recomputed, Unpacks(once=False))
    assert found.share > 0.5 and found.bytes == 4_000_000 and "test_probes.py" in found.line
    assert (found.samples, found.values) == (12, 1)
    assert ask(recomputed, Unpacks(once=True)) == Recomputed(12)
    assert ask(recomputed, Unpacks(once=False, tables=4)).values == 4
    assert ask(recomputed, Unpacks(once=False, tables=12)) == Recomputed(12)


class Pools(Sampler[list[int]]):
    """A batch sampler that shuffles 32 indices and cuts each half into batches of 5.

    The last batch of each half has only one index. Unless `whole`, the sampler drops that batch.
    """

    def __init__(self, whole: bool) -> None:
        self.whole = whole
        self.order = random.Random(0)

    def __iter__(self) -> Iterator[list[int]]:
        shuffled = self.order.sample(range(32), 32)
        for pool in (shuffled[:16], shuffled[16:]):
            batches = [pool[at : at + 5] for at in range(0, 16, 5)]
            yield from (batch for batch in batches if self.whole or len(batch) == 5)


def test_indices_that_a_sampler_leaves_out() -> None:
    found = ask(samples, Rows(), batch_size=1, batch_sampler=Pools(whole=False))
    assert found.left_out == (2, 2, 5)
    assert ask(samples, Rows(), batch_size=1, batch_sampler=Pools(whole=True)).left_out == ()


class ReadsAhead(IterableDataset[int]):
    """A stream that reads ahead in a thread.

    If `ends` is True, the stream stops the thread at the end of each iteration. Otherwise, the
    thread waits until something takes its numbers.
    """

    def __init__(self, ends: bool, length: int = 1000) -> None:
        self.ends = ends
        self.length = length

    def __iter__(self) -> Iterator[int]:
        ahead: queue.Queue[int] = queue.Queue(maxsize=2)
        over = threading.Event()
        thread = threading.Thread(target=self.read, args=(ahead, over), daemon=True)
        thread.start()
        try:
            for _ in range(self.length):
                yield ahead.get()
        finally:
            if self.ends:
                over.set()
                thread.join()

    def read(self, ahead: queue.Queue[int], over: threading.Event) -> None:
        for number in range(1000):
            while not over.is_set():
                with suppress(queue.Full):
                    ahead.put(number, timeout=0.02)
                    break


class Fallback(Rows):
    """A dataset that calls `otherwise` for every index below 6, after it catches an error."""

    def __init__(self, otherwise: Callable[[int], Any]) -> None:
        self.otherwise = otherwise

    def __getitem__(self, index: int) -> Any:
        try:
            return super().__getitem__({at: at for at in range(6, 32)}[index])
        except KeyError:
            return self.otherwise(index)


def test_a_sample_that_stands_in_for_others() -> None:
    found = ask(samples, Fallback(lambda index: torch.full((8,), 9.0))).replaced
    assert [each[:3] for each in found] == [(index, 9, "KeyError") for index in range(6)]


@pytest.mark.parametrize(
    "otherwise",
    [
        lambda index: torch.full((8,), float(index)),
        lambda index: torch.full((8,), index // 2 - 9.0),
        lambda index: torch.zeros(8),
    ],
    ids=["made in another way", "pairs that are alike", "a placeholder"],
)
def test_a_sample_that_stands_in_for_no_other(otherwise: Callable[[int], Any]) -> None:
    assert ask(samples, Fallback(otherwise)).replaced == ()


def test_a_sampler_may_deal_an_index_again_or_deal_arrays() -> None:
    again = ask(samples, Rows(), sampler=[3, 3, 4, 5])
    assert (again.looked, again.replaced) == (4, ())
    arrays: dict[str, Any] = {"batch_size": None, "sampler": [*np.arange(32).reshape(8, 4)]}
    found = ask(samples, Tables(), **arrays)
    assert (found.looked, found.failed) == (8, ())
    assert ask(recomputed, Tables(), **arrays) == Recomputed(8)


class Tables(Rows):
    """A dataset that takes an array of indices and returns a batch."""

    def __getitem__(self, index: Any) -> Any:
        return torch.as_tensor(np.asarray(index)).float()


def leave_early(loader: Any) -> None:
    next(iter(loader))


@pytest.mark.parametrize(("loop", "length"), [(leave_early, 1000), (None, 8)])
def test_threads_that_pile_up_in_workers_that_stay(loop: Any, length: int) -> None:
    def asked(ends: bool) -> Leftover:
        stay: dict[str, Any] = {"num_workers": 2, "persistent_workers": True}
        loader = DataLoader(ReadsAhead(ends, length), **FORK, **stay)
        return leftovers.ask(Subject(loader, loop, 1, PATIENCE))

    _, *counts = in_fork(lambda: asked(ends=False), PATIENCE).threads
    assert len(counts) == 3 and counts == sorted(counts) and counts[-1] > counts[0]
    _, *counts = in_fork(lambda: asked(ends=True), PATIENCE).threads
    assert len(counts) == 3 and len(set(counts)) == 1


def test_workers_that_have_nothing_left_to_do() -> None:
    def asked() -> list[set[int]]:
        iterator: Any = iter(DataLoader(Rows(), batch_size=4, num_workers=2, **FORK))
        begun = torch_internals.idle_workers(iterator)
        list(iterator)
        return [begun, torch_internals.idle_workers(iterator)]

    assert in_fork(asked, PATIENCE) == [set(), {0, 1}]
    one_of_them = SimpleNamespace(_workers=[None] * 2, _task_info={3: (1,), 4: (0, "a batch")})
    assert torch_internals.idle_workers(one_of_them) == {0}


def test_the_share_of_the_waiting_that_each_worker_idles() -> None:
    waits = [(3.0, {0}), (1.0, set()), (0.0, {0, 1}), (1.0, {0, 1}), (3.0, {1})]
    assert idle_shares(waits, 2) == ((0.75, 0.25), (0.0, 1.0))
    assert idle_shares([], 2) == ((0.0, 0.0), (0.0, 0.0))


class Weighs(Sampler[int]):
    """A sampler that yields the indices in order. If `draws`, it first gets all samples."""

    def __init__(self, rows: Rows, draws: bool) -> None:
        self.rows, self.draws = rows, draws

    def __len__(self) -> int:
        return 32

    def __iter__(self) -> Iterator[int]:
        for index in range(32 if self.draws else 0):
            assert self.rows[index] is not None
        return iter(range(32))


def test_a_sampler_that_draws_samples() -> None:
    rows = Rows()
    assert ask(samples, rows, sampler=Weighs(rows, draws=True)).drawn_by_sampler == 32
    assert ask(samples, rows, sampler=Weighs(rows, draws=False)).drawn_by_sampler == 0


def test_a_sample_that_is_another_one_among_others() -> None:
    assert ask(fetched, Lines(), collate_fn=sorted_together).together
    assert not ask(fetched, Rows()).together


class Batches:
    """A batch sampler that fills one array for all batches. It yields the array or a copy of it.

    Args:
        again: Whether to yield the array itself, so that a later batch overwrites it.
    """

    def __init__(self, again: bool) -> None:
        self.again = again

    def __len__(self) -> int:
        return 8

    def __iter__(self) -> Iterator[Any]:
        batch = np.zeros(4, dtype=int)
        for number in range(8):
            batch[:] = range(4 * number, 4 * number + 4)
            yield batch if self.again else batch.copy()


class AtOnce:
    """A batch sampler that draws an epoch's order as soon as its `__iter__` is called.

    Args:
        order: A function that takes the number of earlier calls and returns the epoch's indices.
    """

    def __init__(self, order: Callable[[int], Any]) -> None:
        self.order = order
        self.begun = 0

    def __iter__(self) -> Iterator[Any]:
        self.begun += 1
        order = list(self.order(self.begun - 1))
        return iter([order[at : at + 4] for at in range(0, len(order), 4)])


def shuffled(seed: int) -> list[int]:
    return random.Random(seed).sample(range(32), 32)


@pytest.mark.parametrize(
    ("order", "begun"),
    [
        (lambda epoch: range(epoch % 2 * 16, epoch % 2 * 16 + 16), (16, 16, 0)),
        (lambda epoch: shuffled(0)[12 * epoch : 12 * epoch + 12], (12, 12, 0)),  # lasts 3 epochs
        (lambda epoch: range(0 if epoch else 12, 32), (20, 32, 20)),
        (shuffled, (0, 0, 0)),
        (lambda epoch: shuffled(epoch)[:16], (0, 0, 0)),
        (lambda epoch: shuffled(epoch)[:29], (0, 0, 0)),
        (lambda epoch: range(0 if epoch else 4, 32), (0, 0, 0)),  # epochs differ by one batch only
        (lambda epoch: () if epoch else range(32), (0, 0, 0)),
    ],
)
def test_what_a_sampler_loses_to_an_iterator_that_nothing_uses(
    order: Callable[[int], Any], begun: tuple[int, int, int]
) -> None:
    found = ask(fetched, Rows(), batch_sampler=AtOnce(order), batch_size=1)
    assert found.begun == begun


class Unmeasured(Dataset[int]):
    """A dataset without a length."""

    def __getitem__(self, index: int) -> int:
        return index


def test_what_a_sampler_loses_is_counted_even_if_the_dataset_has_no_length() -> None:
    longer = AtOnce(lambda epoch: range(0 if epoch else 12, 32))
    assert ask(fetched, Unmeasured(), batch_sampler=longer, batch_size=1).begun == (20, 32, 20)


def test_every_class_of_main_in_a_pickle_is_named() -> None:
    main = types.ModuleType("__main__")
    for name in ("First", "Second", "Third"):
        setattr(main, name, type(name, (), {"__module__": "__main__"}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "__main__", main)
        packed = pickle.dumps([main.First(), main.Second, len, main.Third()])
    assert names_of_main(packed) == ["First", "Second", "Third"]


MAKERS: Final = (lambda: DataLoader(Rows()),)


def test_a_lambda_that_makes_a_loader_is_not_imported_again() -> None:
    assert made_as_rank._anew(MAKERS[0], ()) is MAKERS[0]


class Ends(Rows):
    """A dataset that raises what `error` is at the end, and also at an index before it."""

    def __init__(self, error: type[Exception]) -> None:
        self.error = error

    def __getitem__(self, index: int) -> Any:
        if index == 30 or index >= 32:
            raise self.error(index)
        return super().__getitem__(index)


@pytest.mark.parametrize("error", [IndexError, ValueError])
def test_a_dataset_that_raises_before_its_end_has_an_ordinary_end(error: type[Exception]) -> None:
    assert ask(ending, Ends(error)).end == -1


def test_a_sampler_that_fills_one_batch_again() -> None:
    options: dict[str, Any] = {"batch_size": 1}
    assert ask(fetched, Rows(), batch_sampler=Batches(again=True), **options).reused
    found = ask(fetched, Rows(), batch_sampler=Batches(again=False), **options)
    assert (found.reused, found.looked, found.differ) == (False, 16, 0)
    assert ask(samples, Rows(), batch_sampler=Batches(again=True), **options).looked == 32


class Stacks:
    """A collate function that fills the same tensor each time, and returns a view of it.

    If `copies`, the function returns a copy instead.
    """

    def __init__(self, copies: bool, fits: bool = False) -> None:
        self.copies = copies
        self.fits = fits  # whether to make a new tensor when the batch size changes
        self.staging = torch.empty(4, 8)

    def __call__(self, drawn: list[Any]) -> Any:
        if self.fits and len(drawn) != len(self.staging):
            self.staging = torch.empty(len(drawn), 8)
        batch = torch.stack(drawn, out=self.staging[: len(drawn)])
        return batch.clone() if self.copies else batch


def test_a_collate_function_that_fills_one_batch_again() -> None:
    options: dict[str, Any] = {"batch_size": 4, "num_workers": 2}
    again = {**options, "collate_fn": Stacks(copies=False)}
    assert ask(fetched, Rows(), **again).overwritten
    found = ask(copies, Rows(), **again)
    assert found.differ > 0 and found.steady and found.path == "collate_fn.staging"
    assert ask(fetched, Rows(), **options, collate_fn=Stacks(False, fits=True)).overwritten
    once = {**options, "collate_fn": Stacks(copies=True)}
    assert not ask(fetched, Rows(), **once).overwritten
    assert ask(copies, Rows(), **once).differ == 0


class Reseeds(Shuffles):
    def __iter__(self) -> Iterator[int]:
        torch.manual_seed(3)
        return super().__iter__()


def test_a_sampler_that_sets_the_global_generator() -> None:
    assert ask(fetched, Rows(), sampler=Reseeds(anew=True)).seeds
    assert not ask(fetched, Rows(), sampler=Shuffles(anew=True)).seeds
    assert not ask(fetched, Rows(), shuffle=True).seeds
    own = torch.Generator()  # this generator, not the global one, seeds the workers
    assert not ask(fetched, Rows(), sampler=Reseeds(anew=True), generator=own).seeds


class Scaled(np.ndarray[Any, Any]):
    """An array with a scale, which it loses when it's pickled. `Kept` keeps the scale."""

    scale = 1.0

    def __array_finalize__(self, other: Any) -> None:
        self.scale = getattr(other, "scale", 1.0)


class Kept(Scaled):
    def __reduce__(self) -> Any:
        return scaled, (np.asarray(self), self.scale, Kept)


def scaled(numbers: Any, scale: float, kind: Any) -> Any:
    array = np.asarray(numbers).view(kind)
    array.scale = scale
    return array


class Scales(Rows):
    """A dataset of arrays of class `kind`, or of tensors if `kind` is None. All have a scale."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind

    def __getitem__(self, index: int) -> Any:
        if self.kind:
            return scaled([index], 0.5, self.kind)
        row: Any = torch.tensor([index])
        row.scale = 0.5
        return row


def test_attributes_that_get_lost_on_the_way_to_main() -> None:
    assert ask(fetched, Scales(Scaled), collate_fn=as_it_is).lost[:1] == (("[0]", "scale"),)
    assert ask(fetched, Scales(None), collate_fn=as_it_is).lost[:1] == (("[0]", "scale"),)
    assert ask(fetched, Scales(Kept), collate_fn=as_it_is).lost == ()
    assert ask(fetched, Scales(None)).lost == ()  # the batch is a new tensor, without a scale


class Standing(Rows):
    """A dataset whose samples are views of one tensor in shared memory."""

    def __init__(self) -> None:
        self.all = torch.arange(64.0).reshape(32, 2).share_memory_()

    def __getitem__(self, index: int) -> Any:
        return self.all[index]


def adds_one(loader: Any) -> None:
    for _ in range(2):
        for row in loader:
            row += 1


def test_a_loop_that_changes_batches_in_place_and_one_that_gets_copies() -> None:
    def asked(copies: bool) -> list[bool]:
        loader = DataLoader(Standing(), batch_size=None, num_workers=2, **FORK)
        found = runner.run(
            Subject(loader, adds_one, 1, PATIENCE), seconds=PATIENCE, copies=copies, epochs=1
        )
        return [found.finished == (True, True), found.passes[0] == found.passes[1]]

    assert in_fork(lambda: asked(copies=True), PATIENCE) == [True, True]
    assert in_fork(lambda: asked(copies=False), PATIENCE) == [True, False]


def test_the_first_batch_is_timed_from_when_the_loop_asks_for_it() -> None:
    def asked() -> list[float]:
        waited = []

        def prepares_first(loader: Any) -> None:
            time.sleep(0.5)
            began = time.monotonic()
            next(iter(loader))
            waited.append(time.monotonic() - began)

        subject = Subject(DataLoader(Rows(), num_workers=2, **FORK), prepares_first, 1, PATIENCE)
        return [runner.run(subject, seconds=PATIENCE).first, *waited]

    first, waited = in_fork(asked, PATIENCE)
    assert 0 < first <= waited


class SlowOnce(Rows):
    """A dataset with one sample that takes half a second."""

    def __getitem__(self, index: int) -> Any:
        time.sleep(0.5 * (index == 8))
        return super().__getitem__(index)


def test_the_longest_wait_is_for_the_slowest_batch_and_not_for_the_loop() -> None:
    def asked() -> float:
        def steps(loader: Any) -> None:
            for _ in loader:
                time.sleep(0.5)

        subject = Subject(DataLoader(SlowOnce(), batch_size=8), steps, 1, PATIENCE)
        return runner.run(subject, seconds=PATIENCE).longest

    assert 0.5 <= in_fork(asked, PATIENCE) < 1


def test_a_worker_that_is_not_forked_copies_all_but_shared_memory() -> None:
    def prepared() -> tuple[bool, bool]:
        dataset = stale_epoch.SharedEpochClips()
        clips, epoch = dataset.clips, dataset.epoch
        loader = DataLoader(dataset, multiprocessing_context="spawn", num_workers=1)
        small_loaders.prepared(Subject(loader, None, 1, PATIENCE), lambda worker: None)(0)
        return dataset.clips.data_ptr() == clips.data_ptr(), dataset.epoch is epoch

    assert in_fork(prepared, PATIENCE) == (False, True)


class Opens(Rows):
    """A dataset that keeps a file open, either for each draw or for each index."""

    def __init__(self, by_draw: bool) -> None:
        self.by_draw = by_draw
        self.files: dict[int, Any] = {}

    def __getitem__(self, index: int) -> Any:
        key = len(self.files) if self.by_draw else index
        if key not in self.files:
            self.files[key] = open(__file__)  # noqa: SIM115 - to be left open
        return super().__getitem__(index)


@pytest.mark.parametrize(
    ("by_draw", "stays", "gained"), [(True, True, 16), (False, True, 0), (True, False, 0)]
)
def test_descriptors_that_a_worker_gains_in_the_second_epoch(
    by_draw: bool, stays: bool, gained: int
) -> None:
    def asked() -> int:
        loader = DataLoader(Opens(by_draw), num_workers=2, persistent_workers=stays, **FORK)
        return runner.run(Subject(loader, None, 1, PATIENCE), seconds=PATIENCE, epochs=2).opened

    assert in_fork(asked, PATIENCE) == gained


class Jittered(Rows):
    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index) + torch.rand(8)


class Masks:
    """A collate function that draws a mask, from a generator of its own or from torch's."""

    def __init__(self, generator: torch.Generator | None) -> None:
        self.generator = generator

    def __call__(self, drawn: list[Any]) -> Any:
        return torch.stack(drawn), torch.rand(8, generator=self.generator)


def test_a_collate_function_that_repeats_its_numbers_while_samples_do_not() -> None:
    def repeated(collate: Any) -> tuple[bool, ...]:
        found = ask(repeats, Jittered(), num_workers=2, collate_fn=collate)
        (_, _, same, compared, again, later) = found.sources[-1]
        assert [each[0] for each in found.sources[::5]] == ["all", repeats.COLLATE]
        return same == compared > 2, again == later > 2

    assert repeated(Masks(torch.Generator().manual_seed(0))) == (True, True)
    assert repeated(Masks(None)) == repeated(None) == (False, False)


class Tallies(Rows):
    """A dataset that counts the samples it was asked for."""

    def __init__(self) -> None:
        self.drawn = 0

    def __getitem__(self, index: int) -> Any:
        self.drawn += 1
        return super().__getitem__(index)


@pytest.mark.parametrize("pause", [0.0, 0.5])
def test_a_loop_that_was_stopped_is_not_compared_with_itself_without_workers(
    pause: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = Tallies()
    if not pause:
        monkeypatch.setattr(state, "_RUN", PATIENCE)  # so that a busy machine doesn't stop the loop

    def loop(loader: Any) -> int:
        for _ in loader:
            time.sleep(pause)
        return dataset.drawn

    def asked() -> Any:
        loader = DataLoader(dataset, batch_size=4, num_workers=2, **FORK)
        return state.ask(Subject(loader, loop, 1, PATIENCE))

    if pause:
        with pytest.raises(Unanswered):
            in_fork(asked, PATIENCE)
    else:
        assert in_fork(asked, PATIENCE).paths == (("dataset.drawn", "0", "32"),)


class Onward(Sampler[int]):
    """A sampler that begins at index `at`, and moves `at` past each index that it deals out."""

    at = 0

    def __iter__(self) -> Iterator[int]:
        for index in range(self.at, 32):
            self.at = index + 1
            yield index


class Named(Rows):
    """A dataset whose samples have a name, and a row that may be random."""

    def __init__(self, noisy: bool) -> None:
        self.noisy = noisy

    def __getitem__(self, index: int) -> Any:
        return {"row": torch.rand(8) if self.noisy else super().__getitem__(index), "id": index}


@pytest.mark.parametrize("noisy", [False, True], ids=["plain", "noisy"])
@pytest.mark.parametrize("counts", [False, True], ids=["sampler counts", "loop counts"])
def test_a_loop_that_is_called_again_goes_on_after_what_it_got(counts: bool, noisy: bool) -> None:
    def loop(loader: Any) -> None:
        start = loader.sampler.at
        for step, _ in enumerate(loader, start=1):
            if step == 7:
                break
        if counts:
            loader.sampler.at = start + 2 * step

    def asked(name: str) -> Any:
        experiment = next(each for each in experiments() if each.field == name)
        loader = DataLoader(Named(noisy), 2, sampler=Onward(), num_workers=2, **FORK)
        assert evidence is None or experiment.needed(evidence)
        return in_fork(lambda: experiment.ask(Subject(loader, loop, 1, PATIENCE)), PATIENCE)

    evidence = None
    evidence = Evidence(asked("parts"), asked("run"))
    for name in ("called_again", "called_alone"):
        evidence = replace(evidence, **{name: asked(name)})
    assert bool(RULES["resume_repeats"](evidence)) is not counts


class Restored(Sampler[int]):
    """A shuffling sampler whose position can be saved and loaded."""

    at = 0

    def __iter__(self) -> Iterator[int]:
        if not self.at:
            self.order = torch.randperm(32).tolist()
        while self.at < 32:
            self.at += 1
            yield self.order[self.at - 1]
        self.at = 0

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.at, self.order = state["at"], state["order"]


class RestoredBatches(Restored):
    """A batch sampler like Restored, with a single index in each batch."""

    def __iter__(self) -> Iterator[Any]:
        yield from ([each] for each in super().__iter__())


@pytest.mark.parametrize("batches", [False, True], ids=["sampler", "batch sampler"])
@pytest.mark.parametrize("counts", [False, True], ids=["sampler counts", "loop counts"])
def test_a_loop_that_loads_its_sampler_from_a_file_goes_on_after_what_it_got(
    counts: bool, batches: bool, tmp_path: Path
) -> None:
    # Each call goes on where the last one stopped, even if that was in another run.
    saved = tmp_path / "saved.json"
    sampler = RestoredBatches() if batches else Restored()

    def loop(loader: Any) -> None:
        if saved.exists():
            sampler.load_state_dict(json.loads(saved.read_text()))
        start = sampler.at
        for step, _ in enumerate(loader, start=1):
            if step == 7:
                break
        at = start + step if counts else sampler.at
        saved.write_text(json.dumps({"at": at % 32, "order": sampler.order}))

    def asked(name: str) -> Any:
        experiment = next(each for each in experiments() if each.field == name)
        made = {"batch_sampler": sampler} if batches else {"sampler": sampler}
        loader = DataLoader(Rows(), num_workers=2, **made, **FORK)
        return in_fork(lambda: experiment.ask(Subject(loader, loop, 1, PATIENCE)), PATIENCE)

    evidence = Evidence(asked("parts"), asked("run"))
    for name in ("called_again", "called_alone"):
        evidence = replace(evidence, **{name: asked(name)})
    assert bool(RULES["resume_repeats"](evidence)) is not counts


class Lazy(Rows):
    """A dataset that makes its generator when it draws the first sample."""

    rng: Any = None

    def __getitem__(self, index: int) -> Any:
        self.rng = self.rng or np.random.default_rng(3)
        return super().__getitem__(index) + self.rng.random()


def test_a_generator_that_the_first_sample_makes_is_held_like_any_other() -> None:
    assert ask(reordered, Lazy()).differ == 0


class Whole(Rows):
    """A dataset that makes whole batches, in which it adds `shift` to every index."""

    def __init__(self, shift: int = 0) -> None:
        self.shift = shift

    def __getitem__(self, index: int) -> Any:
        return {"row": torch.tensor([index])}

    def __getitems__(self, indices: list[int]) -> Any:
        return {"row": torch.tensor(indices) + self.shift}


def as_it_is(batch: Any) -> Any:
    return batch


def test_a_batch_may_be_made_as_a_whole() -> None:
    found = ask(fetched, Whole(), collate_fn=as_it_is)
    assert found.looked and not found.differ
    assert ask(fetched, Whole(shift=1), collate_fn=as_it_is).differ


class Stacked(Whole):
    """A dataset that makes whole batches, and single samples without the dimension of a batch."""

    def __getitem__(self, index: int) -> Any:
        return {"row": torch.tensor(index)}


@pytest.mark.parametrize("collate", [default_convert, as_it_is])
def test_a_batch_may_be_made_at_once_without_collate(collate: Callable[[Any], Any]) -> None:
    found = ask(fetched, Stacked(), collate_fn=collate)
    assert found.looked and not found.differ
    assert ask(fetched, Stacked(shift=1), collate_fn=collate).differ


class Fetches(Rows):
    """A dataset whose `__getitems__` makes rows with `make`, which takes all indices at once."""

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self.make = make

    def __getitem__(self, index: int) -> Any:
        return self.make(torch.tensor([index]))[0]

    def __getitems__(self, indices: list[int]) -> Any:
        return list(self.make(torch.tensor(indices)))


class Doubled(Fetches):
    """A dataset whose `__getitem__` doubles rows, but whose inherited `__getitems__` doesn't."""

    def __getitem__(self, index: int) -> Any:
        return 2 * super().__getitem__(index)


def plain(indices: Any) -> Any:
    return indices[:, None] + torch.arange(8.0)


def test_samples_that_are_fetched_past_a_getitem() -> None:
    for dataset in (Doubled(plain), Subset(Doubled(plain), range(32))):
        found = ask(fetched, dataset)
        assert found.looked == found.differ == 16
        assert (found.by, found.past) == ("Fetches", "Doubled")
    assert not ask(fetched, Fetches(plain)).differ


@pytest.mark.parametrize(
    "make",
    [
        lambda indices: plain(indices) + torch.randn(len(indices), 8),
        lambda indices: plain(indices.sort().values),
        lambda indices: plain(indices) * (1 + 1e-7 * (len(indices) > 1)),
    ],
    ids=["noise that is drawn at once", "sorted indices", "the last digit"],
)
def test_a_batch_that_is_fetched_at_once_may_differ_a_little(make: Callable[[Any], Any]) -> None:
    assert not ask(fetched, Fetches(make), shuffle=True).differ


def test_a_field_is_compared_by_itself_if_batches_can_be_taken_apart() -> None:
    batch = {"row": torch.arange(3), "noise": torch.rand(3, 2)}
    fields = digests.split_fields(batch, 3)
    assert {*fields} == {"['row']", "['noise']"} and len(set(fields["['row']"])) == 3
    assert digests.joined(fields) == digests.split(batch, 3)
    assert digests.split_fields({**batch, "name": "a"}, 3) == {}
    assert len(set(digests.split_fields({**batch, "name": ["a", "b", "a"]}, 3)["['name']"])) == 2
    assert digests.split_fields(batch, 2) == {}


class Slotted:
    """A sample whose attributes are in `__slots__`, one of them unset."""

    __slots__ = ("name", "rows", "unset")

    def __init__(self, rows: torch.Tensor) -> None:
        self.name, self.rows = "a", rows


@dataclass(slots=True)
class SlottedData:
    rows: torch.Tensor


@pytest.mark.parametrize("kind", [Slotted, SlottedData])
def test_objects_with_slots_are_compared_by_content(kind: Any) -> None:
    one, same, other = (kind(torch.full((4,), value)) for value in (1.0, 1.0, 2.0))
    assert digests.digest(one) == digests.digest(same) != digests.digest(other)
    assert [path for path, _ in digests.leaves(one)][-1] == "['rows']"


def test_a_sampler_that_shuffles_alike_each_time() -> None:
    for seeded, name in [
        (random.Random, "shuffle"),
        (np.random.default_rng, "numpy.random.Generator"),
        (np.random.RandomState, "numpy.random.RandomState"),
    ]:
        assert ask(fetched, Rows(), sampler=Shuffles(True, seeded)).stuck == name
        assert ask(fetched, Rows(), sampler=Shuffles(False, seeded)).stuck == ""
    assert ask(fetched, Rows(), shuffle=True).stuck == ""


class Cursor(Sampler[int]):
    """A sampler whose order depends on the epoch, which its loader counts."""

    epoch = 0

    def __iter__(self) -> Iterator[int]:
        order = [*range(32)]
        random.Random(self.epoch).shuffle(order)
        return iter(order)

    def __len__(self) -> int:
        return 32


class Counting(DataLoader[Any]):
    """A loader that tells its sampler when an epoch has ended."""

    def __iter__(self) -> Any:
        yield from super().__iter__()
        self.sampler.epoch += 1


def test_a_loader_may_be_what_tells_its_sampler_the_epoch() -> None:
    def asked(kind: Any) -> str:
        loader = kind(Rows(), batch_size=4, sampler=Cursor(), num_workers=2)
        return fetched.ask(Subject(loader, None, 1, PATIENCE)).stuck

    assert in_fork(lambda: asked(Counting), PATIENCE) == ""
    assert in_fork(lambda: asked(DataLoader), PATIENCE) == "shuffle"


class Caching(Rows):
    """A dataset that keeps each row, and returns the row itself or a copy."""

    def __init__(self, copies: bool) -> None:
        self.copies = copies
        self.known: dict[int, Any] = {}

    def __getitem__(self, index: int) -> Any:
        row = self.known.setdefault(index, super().__getitem__(index))
        return row.clone() if self.copies else row


def shift(rows: list[torch.Tensor]) -> torch.Tensor:
    for place, row in enumerate(rows):
        row += place
    return torch.stack(rows)


def test_a_collate_function_that_changes_what_the_dataset_keeps() -> None:
    assert ask(fetched, Caching(copies=False), collate_fn=shift).stained == (12, 16)
    assert ask(fetched, Caching(copies=True), collate_fn=shift).stained == (0, 16)
    assert ask(fetched, Caching(copies=False)).stained == (0, 16)


@dataclass
class Clips:
    """A batch whose tensors torch doesn't pin, because torch doesn't look into a dataclass."""

    rows: torch.Tensor
    names: list[str]


class PinnedClips(Clips):
    """A batch that pins its tensors itself."""

    def pin_memory(self) -> PinnedClips:
        return PinnedClips(self.rows.pin_memory(), self.names)


@pytest.mark.parametrize(
    ("wrap", "missed", "inside"),
    [
        (lambda rows: {"clips": Clips(rows, []), "count": torch.tensor(4)}, 1, "Clips"),
        (lambda rows: {"clips": PinnedClips(rows, []), "count": torch.tensor(4)}, 0, ""),
        (lambda rows: [(rows, {"count": torch.tensor(4)})], 0, ""),
    ],
    ids=["a class", "with a method", "collections"],
)
def test_tensors_in_a_batch_that_are_not_pinned(
    wrap: Callable[[Any], Any], missed: int, inside: str
) -> None:
    found = ask(pinned, Rows(), pin_memory=True, collate_fn=lambda rows: wrap(torch.stack(rows)))
    assert (found.tensors, found.missed, found.inside) == (2, missed, inside)


class ByEpoch(Sampler[list[int]]):
    """A batch sampler whose only batch depends on the epoch that `set_epoch` sets."""

    epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[list[int]]:
        return iter([[self.epoch, self.epoch + 1]])


def test_a_sampler_of_your_own_that_deals_out_batches_is_told_the_epoch() -> None:
    batches = ByEpoch()
    subject = Subject(DataLoader(Rows(), batch_sampler=batches), None, 1, PATIENCE)
    assert subject.sampler is subject.told is batches
    assert ask(order, Rows(), batch_size=1, batch_sampler=batches).follows


def test_a_watched_sampler_can_be_pickled_and_copied() -> None:
    def loop(loader: Any) -> None:
        state = {"at": 8, "order": list(range(32))}
        pickle.dumps(loader.sampler)
        copy.deepcopy(loader.sampler).load_state_dict(state)
        assert not loader.sampler.at
        loader.sampler.load_state_dict(state)
        assert sum(map(len, loader)) == 24

    loader = DataLoader(Rows(), 4, sampler=Restored())
    found = in_fork(lambda: runner.run(Subject(loader, loop, 2, PATIENCE)), 2 * PATIENCE)
    assert found.end == "finished", found.said
    assert found.loaded == ((0, 24), (24, 24))
    assert vars(Restored)["load_state_dict"].__module__ == __name__


@pytest.mark.parametrize(
    ("most", "dealt", "finished"),
    [
        (8, ((8, 8), (8, 8)), True),
        (7, ((8, 8), (8, 8)), False),
        (8, ((8, 8), (8, 9)), False),  # `len(loader)` isn't the number of batches
        (8, (), False),  # the sampler may never end
    ],
)
def test_a_loop_that_counts_its_batches_gets_to_the_end_of_an_epoch(
    most: int, dealt: Any, finished: bool
) -> None:
    def loop(loader: Any) -> None:
        batches = iter(loader)
        for _ in range(most):
            next(batches)

    loader = DataLoader(Rows(), 4, num_workers=2, **FORK)
    subject = Subject(loader, loop, 1, PATIENCE)
    known = Evidence(parts.ask(subject), Measures("finished"), samples=Samples(32, dealt=dealt))
    found = in_fork(lambda: runner.run(replace(subject, known=known)), 2 * PATIENCE)
    assert (found.finished, found.stopped, found.counted) == ((finished,), 0, (4 * most,))


class Sorted(Sampler[list[int]]):
    """A batch sampler that gets its indices from another sampler."""

    def __init__(self, base: Sampler[int]) -> None:
        self.base = base

    def __iter__(self) -> Iterator[list[int]]:
        return iter([sorted(self.base)])


class Shuffled(Sorted):
    """A batch sampler that shuffles what the other sampler deals out."""

    def __iter__(self) -> Iterator[list[int]]:
        indices = [*self.base]
        return iter([indices[at] for at in torch.randperm(16).tolist()] for _ in range(1))


@pytest.mark.parametrize(("make", "repeated"), [(Sorted, 1), (Shuffled, 0)])
def test_the_batches_say_whether_an_order_repeats(make: Any, repeated: int) -> None:
    def asked() -> Any:
        shared = DistributedSampler(Rows(), num_replicas=2, rank=0)
        loader = DataLoader(Rows(), batch_sampler=make(shared), num_workers=2, **FORK)
        return order.ask(Subject(loader, lambda loader: [*loader, *loader], 1, PATIENCE))

    assert in_fork(asked, 2 * PATIENCE).repeated == repeated


def test_a_sampler_inside_a_batch_sampler_of_your_own_is_told_the_epoch() -> None:
    shared = DistributedSampler(Rows(), num_replicas=2, rank=0)
    loader = DataLoader(Rows(), batch_sampler=Sorted(shared))
    assert Subject(loader, None, 1, PATIENCE).told is shared


class Slow(Rows):
    """A dataset whose samples take 20 ms of CPU time, but only once if it keeps them."""

    def __init__(self, keep: bool) -> None:
        self.keep = keep
        self.kept: dict[int, Any] = {}

    def __getitem__(self, index: int) -> Any:
        if index not in self.kept:
            until = time.process_time() + 0.02
            while time.process_time() < until:
                pass
            if self.keep:
                self.kept[index] = super().__getitem__(index)
        return self.kept.get(index, super().__getitem__(index))


def test_what_drawing_a_sample_again_takes() -> None:
    kept, not_kept = (ask(samples, Slow(keep)) for keep in (True, False))
    assert kept.redrawn < kept.typical / 5
    assert not_kept.redrawn > not_kept.typical / 5


@pytest.mark.parametrize("persistent", [False, True])
def test_what_the_second_epochs_new_workers_compute(persistent: bool) -> None:
    options = {"num_workers": 2, "persistent_workers": persistent} | FORK
    loader = DataLoader(Slow(False), 4, **options)
    found = in_fork(lambda: runner.run(Subject(loader, None, 2, PATIENCE), seconds=20), 30)
    assert len(found.counted) == 2
    assert (found.anew > 0.2) is not persistent


def test_samples_that_seed_a_global_generator() -> None:
    found = [ask(samples, Noisy(seed)) for seed in (lambda index: 7, lambda index: index, None)]
    assert [each.seeded for each in found] == [("random",), (), ()]
    assert [each.seeded_each for each in found] == [(), ("random",), ()]


@pytest.mark.parametrize(
    ("make", "what"),
    [(wait_in_a_thread, "threads"), (tempfile.mkdtemp, "temporary files")],
    ids=["threads", "folders"],
)
def test_what_samples_leave_behind(
    make: Callable[[], object], what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    [(left, count, draws)] = ask(samples, Leaves(make)).left
    assert left == what and count == draws > 20
    assert ask(samples, Leaves(lambda: None)).left == ()


class Fails(Rows):
    def __getitem__(self, index: int) -> Any:
        if index == 9:
            raise IndexError("row 9")
        return super().__getitem__(index)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_that_raises_while_it_is_timed_is_no_mistake_of_the_doctors(workers: int) -> None:
    for error in (Unanswered, ValueError):
        with pytest.raises(error), left_at_once(DataLoader(Fails(), num_workers=workers)) as rows:
            if error is ValueError:
                raise ValueError  # only errors from the loader become Unanswered
            list(rows)


OWN_ROWS = """
MANAGERS = []  # a Manager ends when nothing refers to it
MODE = "plain"


class Rows:
    def __init__(self, words):
        self.numbers = {word: at for at, word in enumerate(words)}

    def __len__(self):
        return len(self.numbers)

    def __getitem__(self, index):
        return MODE, sorted(self.numbers.keys())[index], self.numbers[f"word {index}"]


def ordered():
    return loader([f"word {at}" for at in range(40)])


def unordered():
    return loader({f"word {at}" for at in range(40)})


def configured():
    global MODE
    MODE = "train"
    return ordered()


def hashed():
    return loader([f"word {at}" for at in range(40)], lambda rows: [hash(row[1]) for row in rows])


def shares(key):
    from torch.utils.data import DataLoader, IterableDataset, get_worker_info

    class Shares(IterableDataset):
        def __iter__(self):
            info = get_worker_info()
            first = 0 if info is None else key(str(info.num_workers)) + info.id
            yield from range(first, first + 40)

    return DataLoader(Shares(), batch_size=4, num_workers=2)


def shared_by_hash():
    return shares(hash)


def shared_by_number():
    return shares(int)


def managed():
    from multiprocessing import Manager

    made = ordered()
    MANAGERS.append(Manager())
    made.dataset.numbers = MANAGERS[-1].dict(made.dataset.numbers)
    return made


def loader(words, collate=list):
    from torch.utils.data import DataLoader

    return DataLoader(Rows(words), batch_size=4, collate_fn=collate)
"""


@pytest.mark.parametrize(
    ("made", "unlike", "salted", "names"),
    [
        ("unordered", 0, True, ()),
        pytest.param("configured", 16, False, ("own_rows.MODE",), marks=pytest.mark.thorough),
        pytest.param("hashed", 16, True, (), marks=pytest.mark.thorough),
        pytest.param("ordered", 0, False, (), marks=pytest.mark.thorough),
        pytest.param("managed", 0, False, (), marks=pytest.mark.thorough),
        pytest.param("shared_by_hash", 16, True, (), marks=pytest.mark.thorough),
        pytest.param("shared_by_number", 0, False, (), marks=pytest.mark.thorough),
    ],
)  # the default tier runs only one, because each starts an interpreter that imports torch
def test_samples_in_a_new_interpreter(
    made: str,
    unlike: int,
    salted: bool,
    names: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "own_rows.py").write_text(OWN_ROWS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys.modules["__main__"], "__file__", None, raising=False)

    def asked() -> Any:
        make = getattr(importlib.import_module("own_rows"), made)
        return new_interpreter.ask(Subject(make(), None, 1, PATIENCE / 2, make=make))

    found = in_fork(asked, PATIENCE)
    assert (found.looked, found.raised, found.unlike) == (16, "", unlike)
    assert (found.salted > 0, found.names, found.collated) == (salted, names, made == "hashed")


class Numbered(IterableDataset[int]):
    """A stream of 40 numbers. Each worker cuts them down to its share, `times` times in a row."""

    def __init__(self, times: int) -> None:
        self.times = times

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        numbers = range(40)
        for _ in range(self.times if info else 0):
            numbers = numbers[info.id :: info.num_workers]
        yield from numbers


def test_whether_workers_draw_what_main_draws() -> None:
    for times, alike, totals in [(0, False, ()), (1, True, ()), (2, False, ((1, 40), (3, 13)))]:
        found = ask(shares, Numbered(times), num_workers=2, **FORK)
        assert (found.alike, found.totals) == (alike, totals)


class Ordered(IterableDataset[int]):
    """A stream of 480 numbers in the order that `order` returns for them and the epoch."""

    def __init__(self, order: Callable[[list[int], int], list[int]]) -> None:
        self.order = order
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        return iter(self.order(list(range(480)), self.epoch))


class Threaded(Ordered):
    """A stream that gets its numbers from threads."""

    def __iter__(self) -> Iterator[int]:
        with ThreadPoolExecutor(2) as pool:
            yield from pool.map(int, super().__iter__())


def nearby(draw: Callable[[], float]) -> Callable[[list[int], int], list[int]]:
    return lambda numbers, _: sorted(numbers, key=lambda number: number + 16 * draw())


def nearby_by_epoch(numbers: list[int], epoch: int) -> list[int]:
    return nearby(random.Random(epoch).random)(numbers, epoch)


def two_sources(numbers: list[int], epoch: int) -> list[int]:
    first = set(random.sample(range(480), 240))
    sources = iter(numbers[:240]), iter(numbers[240:])
    return [next(sources[at not in first]) for at in range(480)]


@pytest.mark.parametrize(
    ("stream", "near", "falling", "shuffles"),
    [
        (Ordered(nearby(random.random)), True, True, True),
        (Threaded(nearby(random.random)), True, True, True),
        (Ordered(nearby_by_epoch), True, True, True),
        (Ordered(nearby(random.SystemRandom().random)), True, True, True),
        (Threaded(nearby(random.SystemRandom().random)), True, True, False),
        (Ordered(two_sources), True, False, True),
        (Ordered(lambda numbers, _: random.sample(numbers, 480)), False, True, True),
        (Ordered(lambda numbers, _: numbers), True, False, True),
    ],
    ids=[
        "small buffer",
        "small buffer and threads",
        "seeded by epoch",
        "seeded by the system",
        "threads, in the order of arrival",
        "two sources",
        "large buffer",
        "in order",
    ],
)
def test_how_far_a_stream_moves_its_samples(
    stream: Any, near: bool, falling: bool, shuffles: bool
) -> None:
    random.seed(0)  # with other numbers, two sources may drift apart by 24 positions
    found = ask(displaced, stream)
    assert (found.looked, found.found, found.shuffles) == (480, 480, shuffles)
    assert (found.moved < 24, found.falling > 2) == (near, falling)


def test_a_sampler_that_never_deals_is_told_from_a_sample_that_never_arrives() -> None:
    def cut(stopped: str, code: int | None, *numbers: int) -> Samples:
        mark = Mark()
        for number in (samples.DEALING, *numbers):
            mark.set(number)
        return samples.cut_short(stopped, code, mark)

    assert cut("limit", None).ended == "sampler"
    first, third = cut("limit", None, 7), cut("limit", None, 7, 5, 3)
    assert (first.ended, first.at, first.before) == ("hung", 7, 0)
    assert (third.ended, third.at, third.before) == ("hung", 3, 2)
    assert cut("", -9).ended == "died"
    assert [str(each).partition(" didn't")[0] for each in (third, cut("limit", None, 7, -1))] == [
        "Drawing sample 3",
        "Examining samples",
    ]


class EndsTheProcess(IterableDataset[int]):
    """A stream that ends its process instead of giving its third sample."""

    def __iter__(self) -> Iterator[int]:
        yield from range(2)
        os._exit(3)


def test_the_samples_of_a_stream_are_counted_as_those_of_a_map_are() -> None:
    subject = Subject(DataLoader(EndsTheProcess()), None, 1, PATIENCE)
    child = os.fork()
    if not child:
        samples.EXPERIMENT.ask(subject)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    found = samples.cut_short("", 3, subject.mark)
    assert (found.ended, found.at, found.before) == ("died", 2, 2)


def test_only_a_first_sample_that_hangs_may_hang_because_of_the_fork() -> None:
    # A shuffling sampler may deal out any index first, so the first sample here has index 17.
    examination = prepare(lambda: DataLoader(Rows()), consume=None, epochs=1, deadline=5)
    for written, again in (
        ((samples.DEALING,), False),
        ((samples.DEALING, 17), True),
        ((samples.DEALING, 17, 0), False),
    ):
        mark = Mark()
        for number in written:
            mark.set(number)
        with pytest.raises(examination_module._InAFork) if again else nullcontext():
            hung = Ended(stopped="limit")
            assert examination._proves_nothing(samples.EXPERIMENT, hung, mark) == ""


class Blocked(Rows):
    """A dataset with a lock that's already held, and a `worker_init_fn` that waits for the lock."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()
        self.lock.acquire()

    def start(self, worker: int) -> None:
        with self.lock:
            pass


def test_a_worker_that_waits_for_a_lock_while_it_starts_is_freed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # `diagnose` would remove the files that the probe writes, but `ask` doesn't.
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    dataset = Blocked()
    options = {"num_workers": 1, "multiprocessing_context": "fork"}
    found = ask(waits, dataset, worker_init_fn=dataset.start, **options)
    freed = found.freed("lock")
    assert freed is not None and freed[1].endswith("with self.lock:") and "lock" in freed[3]


def test_where_a_run_is_stuck_is_a_line_of_yours_if_a_worker_is_in_your_code() -> None:
    idle = Frame("torch/utils/data/_utils/worker.py", 334, "_worker_loop")
    yours = Frame("project/data.py", 7, "__iter__")
    for stacks, line in (((idle, yours), "W1: project/data.py, line 7"), ((idle, idle), "W0: ")):
        workers = [Worker(at, None, (each,)) for at, each in enumerate(stacks)]
        seen: Any = SimpleNamespace(end="hung", workers=workers)
        assert runner._where_stuck(seen).startswith(line)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_the_question_of_the_moment_and_a_file_nothing() -> None:
    for stream, count in ((Terminal(), 2), (io.StringIO(), 0)):
        with progress.shown(stream) as asked:
            asked("Where does it end?", 4.0)
        assert stream.getvalue().count("\r") == count
        assert ("Where does it end? (4 s at most)" in stream.getvalue()) == bool(count)
        assert not stream.getvalue() or stream.getvalue().endswith("\x1b[K")


class Locked(Rows):
    """A dataset with a lock, so that only one worker at a time makes a row."""

    def __init__(self) -> None:
        self.lock = multiprocessing.get_context("fork").Lock()

    def __getitem__(self, index: int) -> Any:
        with self.lock:
            time.sleep(0.003)
            return super().__getitem__(index)


def test_a_lock_that_workers_share_is_free_afterwards() -> None:
    dataset = Locked()
    loader = DataLoader(dataset, batch_size=2, num_workers=2, multiprocessing_context="fork")
    found = diagnose(loader)
    assert not [each.name for each in found.findings if each.promise == "ends"], found
    assert dataset.lock.acquire(timeout=5)
    dataset.lock.release()


class Wrapper(Rows):
    """A dataset that forwards attributes to `inner`, even before unpickling has set `inner`."""

    def __init__(self) -> None:
        self.inner = Rows()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class Guarded(Wrapper):
    def __getattr__(self, name: str) -> Any:
        if name == "inner":
            raise AttributeError(name)
        return super().__getattr__(name)


class Holds(Rows):
    """A dataset that holds another object, such as a queue."""

    def __init__(self, part: Any) -> None:
        self.part = part


def test_the_smallest_part_that_cannot_be_unpickled_is_named() -> None:
    for dataset, expected in ((Wrapper(), "dataset"), (Holds(Wrapper()), "dataset.part")):
        [(path, kind, error)] = ask(travel, dataset).unreadable
        assert (path, kind) == (expected, "Wrapper") and error.startswith("RecursionError")
    assert ask(travel, Guarded()).unreadable == ()
    queue_of_main = multiprocessing.get_context("fork").Queue()
    try:
        assert ask(travel, Holds(queue_of_main)).unreadable == ()
    finally:
        queue_of_main.close()


@pytest.mark.parametrize(
    ("histories", "found"),
    [
        ({listener: [(listener, track) for track in range(40)] for listener in range(100)}, 4000),
        ({listener: [(listener, track) for track in range(10)] for listener in range(100)}, None),
        ([[[0]] * 5000, [[1]] * 10], None),  # only the inner list of 5000 is found
    ],
    ids=["many together", "few", "many in one of them"],
)
def test_the_elements_of_containers_inside_a_container_count_together(
    histories: Any, found: int | None
) -> None:
    large = {path: count for path, _, count, _ in containers.large([Found("histories", histories)])}
    assert large.get("histories") == found
    assert found or large == ({} if isinstance(histories, dict) else {"histories[0]": 5000})
