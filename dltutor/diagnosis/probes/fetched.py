"""Do the samples in the loader's batches match `dataset[i]`?

Fetch the first batches the way the loader does, and also build the same batches by hand from the
dataset's own samples, in one process and with the same random numbers. Build batches of one sample,
too, to see which row of a batch belongs to which sample. Also ask the sampler for batches several
times, to see whether the batches repeat.
"""

from __future__ import annotations

import copy
import pickle
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from types import FrameType
from typing import Any, Final

import numpy as np
import torch
from torch.utils.data import DataLoader, default_collate

from dltutor.diagnosis.difference import EXACT
from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.experiment import probe
from dltutor.diagnosis.limits import in_time
from dltutor.diagnosis.objects import columns
from dltutor.diagnosis.objects.digests import digest, leaves, split
from dltutor.diagnosis.running import forks
from dltutor.diagnosis.running.dealing import lost_if_begun_twice
from dltutor.diagnosis.running.random_states import Pins, global_states
from dltutor.diagnosis.running.side_effects import profiled
from dltutor.diagnosis.running.subject import Subject
from dltutor.diagnosis.words import part_of
from dltutor.observation.errors import is_yours
from dltutor.observation.foreign import attribute, attributes_of, is_a

_BATCHES: Final = 4
_FOR: Final = 4.0  # the most seconds to spend on comparing batches
_LONG: Final = 1.0  # seconds per batch; above this, drawing a batch several times takes too long
_MOST: Final = 10_000  # the most batches to take from the sampler in one epoch
_FEW: Final = 4  # the most lost attributes to record
_ROWS: Final = 128  # in a larger batch, don't look for the sample that each row belongs to
_SHUFFLES: Final = (
    *("randperm", "shuffle", "permutation", "permuted", "multinomial", "sample", "choices"),
    *("choice", "randint", "integers", "randrange", "rand", "random"),
)
_GENERATORS: Final = (np.random.Generator, np.random.RandomState)


@dataclass(frozen=True)
class Fetched:
    """A comparison of batches from the loader's own fetcher with `dataset[i]`, in one process.

    Args:
        looked: How many samples were compared, with the same random numbers.
        differ: How many samples belong to batches that the fetcher made differently.
        by: The class whose `__getitems__` made the batches that differ, or "" if there's no such
            method.
        past: The class whose `__getitem__` makes `dataset[i]`, but didn't run for these batches, or
            "" if there's none.
        ragged: What `columns.ragged` finds: fields with fewer rows than their batch has samples.
        dropped: What `columns.dropped` finds: fields that some samples of a batch have, but the
            batch doesn't.
        crossed: What `columns.crossed` finds: fields whose rows are in a different order than
            another field's rows, each as (field, other field).
        narrowed: The first integer field that arrives as other numbers, as `columns.narrowed`
            yields it. Empty if there's none.
        lost: Attributes of the batch's arrays and tensors that don't arrive or arrive with another
            value when a worker sends the batch, each as (path of the array, attribute).
        overwritten: Whether a batch changes when the collate function makes another one.
        stained: How many samples change once the collate function has had them, and how many were
            tried. If a batch's samples also change without that, none of them counts.
        together: Whether samples differ between a batch and batches of one, for example because the
            collate function pads them. True if a batch can't be split into samples.
        reused: Whether the sampler changes a batch of indices after dealing it out.
        dealt_once: Whether the sampler's batches differ the second time, even with the same seed.
        begun: What `lost_if_begun_twice` returns, which shows whether the sampler loses indices if
            an iterator is made and not used.
        seeds: Whether the sampler always sets torch's global generator, from which the loader
            draws the workers' seeds, to the same state.
        stuck: The function or the kind of numpy generator from which the sampler gets its random
            numbers, if the sampler deals out the same batches with each seed and in each epoch.
            Otherwise "".
    """

    looked: int = 0
    differ: int = 0
    by: str = ""
    past: str = ""
    ragged: tuple[tuple[str, int, int], ...] = ()
    dropped: tuple[tuple[str, int, int], ...] = ()
    crossed: tuple[tuple[str, str], ...] = ()
    narrowed: tuple[columns.Narrowed, ...] = ()
    lost: tuple[tuple[str, str], ...] = ()
    overwritten: bool = False
    stained: tuple[int, int] = (0, 0)
    together: bool = False
    reused: bool = False
    dealt_once: bool = False
    begun: tuple[int, int, int] = (0, 0, 0)
    seeds: bool = False
    stuck: str = ""

    def __str__(self) -> str:
        return part_of(self.differ, self.looked, "sample", "don't", "do")


def needed(evidence: Evidence) -> bool:
    """Return whether a batch's samples, and the sampler's indices, each take less than a second."""
    if evidence.parts.stream:
        return False
    samples = evidence.samples
    if samples is None or not samples.looked:
        return False
    return max(samples.typical * (evidence.parts.batch_size or 1), samples.dealing) < _LONG


def ask(subject: Subject) -> Fetched:
    """Compare batches from the loader's fetcher with batches made by hand, and test the sampler."""
    pins = Pins(subject.dataset)
    begun = lost_if_begun_twice(subject)
    (batches, reused), (again, _) = _dealt(subject), _dealt(subject)
    once = batches != again
    seeds, stuck = _reseeded(subject) if subject.inner.batch_sampler is not None else (False, "")
    looked = differ = 0
    whose = ("", "")
    ragged: dict[str, tuple[str, int, int]] = {}
    dropped: dict[str, tuple[str, int, int]] = {}
    crossed: dict[str, str] = {}
    narrowed: tuple[columns.Narrowed, ...] = ()
    lost: dict[tuple[str, str], None] = {}
    together = overwritten = False
    stained = tried = 0
    for keys in in_time(batches, _FOR):
        with suppress(Exception):  # other experiments look for samples that fail
            stained += _stained(subject, pins, keys)
            tried += len(keys)
        with suppress(Exception):  # other experiments look for samples that fail
            first = digest(_by_hand(subject, pins, keys)[1])
            samples, held = _by_hand(subject, pins, keys)
            batch = copy.deepcopy(held)
            for found in columns.ragged(samples, batch):
                ragged.setdefault(found[0], found)
            for found in columns.dropped(samples, batch, subject.inner.collate_fn):
                dropped.setdefault(found[0], found)
            lost |= dict.fromkeys(_lost(held))
            # Make another batch, to see whether `held` changes. Use as many samples as before,
            # because a buffer may depend on the batch size, but not the same ones in another order,
            # because the collate function may sort them.
            with suppress(Exception):  # a batch of copies may be impossible
                subject.inner.collate_fn(samples[:1] * len(samples))
            overwritten = overwritten or digest(held) != digest(batch)
            with suppress(Exception):  # a batch of one sample may be impossible
                if len(keys) <= _ROWS:
                    alone = [copy.deepcopy(subject.inner.collate_fn([each])) for each in samples]
                    crossed |= columns.crossed(alone, batch)
                    together = together or _together(alone, batch)
            with suppress(Exception):  # the collate function may not take the changed numbers
                remake = partial(_remade, subject, pins, keys)
                changed = columns.narrowed(samples, batch, remake)
                narrowed = narrowed or (*islice(changed, 1),)
            if digest(batch) == first:
                alike, called = _fetched(subject, pins, keys, batch, samples)
                looked += len(keys) * (alike is not None)
                if alike is False:
                    differ, whose = differ + len(keys), called
    return Fetched(
        looked=looked,
        differ=differ,
        by=whose[0],
        past=whose[1],
        ragged=tuple(ragged.values()),
        dropped=tuple(dropped.values()),
        crossed=tuple(crossed.items()),
        narrowed=narrowed,
        lost=tuple(lost)[:_FEW],
        overwritten=overwritten,
        stained=(stained, tried),
        together=together,
        reused=reused,
        dealt_once=once,
        begun=begun,
        seeds=seeds,
        stuck="" if once else stuck,
    )


def _dealt(subject: Subject, seed: int = 0) -> tuple[list[list[Any]], bool]:
    # Return the first batches of indices, and whether the sampler changes a batch afterward.
    subject.seed(seed)
    held = [(keys, [*keys]) for keys in islice(_batches(subject), _BATCHES)]
    return [before for _, before in held], any([*keys] != before for keys, before in held)


def _batches(subject: Subject) -> Iterable[Any]:
    # Don't test the batch sampler's truth value, because that calls its `__len__`, which raises if
    # the sampler inside has no length.
    batches = subject.inner.batch_sampler
    return () if batches is None else batches


def _reseeded(subject: Subject) -> tuple[bool, str]:
    # Return whether the sampler itself seeds torch's global generator and, if the sampler gets the
    # same random numbers each time, where it gets them from (or "").
    called: set[str] = set()

    def note(frame: FrameType, event: str, given: Any) -> None:
        name = attribute(given, "__name__", "") if event == "c_call" else frame.f_code.co_name
        if name in _SHUFFLES:
            called.add(name)
        # Python doesn't report calls of numpy's generators, so look for a generator itself.
        if event == "return" and is_yours(frame.f_code.co_filename):
            held = (each for each in frame.f_locals.values() if is_a(each, _GENERATORS))
            called.update(f"numpy.random.{type(each).__name__}" for each in held)

    with profiled(note):
        first, _ = _dealt(subject, seed=1)
    state = global_states()["torch"]
    second, _ = _dealt(subject, seed=2)
    # A loader that has its own generator doesn't draw the workers' seeds from the global one, so
    # for this loader, it makes no difference that the sampler seeds the global one.
    seeds = state == global_states()["torch"] and subject.inner.generator is None
    if not called or len(first) < 2 or first != second:
        return seeds, ""
    after = forks.attempt(partial(_after_an_epoch, subject, first), _FOR + 2.0)
    return seeds, min(called) if after else ""


def _after_an_epoch(subject: Subject, first: list[list[Any]]) -> bool:
    # Return whether the sampler still deals out the same batches after an epoch. Some samplers
    # shuffle again only then, and a loader with its own `__iter__` may tell its sampler the epoch.
    batches = _batches(subject)
    if type(subject.loader).__iter__ is not DataLoader.__iter__:
        subject.change(num_workers=0)
        batches = subject.loader
    until = time.monotonic() + _FOR
    for _ in islice(batches, _MOST):
        if time.monotonic() > until:
            return False  # the epoch takes too long to tell
    return first == _dealt(subject, seed=3)[0]


def _stained(subject: Subject, pins: Pins, keys: list[Any]) -> int:
    # Return how many samples the collate function changes in memory that the dataset keeps.
    def drawn() -> list[Any]:
        with pins.held():
            return [subject.dataset[key] for key in keys]

    before = [digest(each) for each in drawn()]
    samples = drawn()
    if before != [digest(each) for each in samples]:
        return 0
    with pins.held():
        subject.inner.collate_fn(samples)
    return sum(old != digest(new) for old, new in zip(before, drawn(), strict=True))


def _by_hand(subject: Subject, pins: Pins, keys: list[Any]) -> tuple[list[Any], Any]:
    with pins.held():
        samples = [subject.dataset[key] for key in keys]
        return samples, subject.inner.collate_fn(list(samples))


def _remade(subject: Subject, pins: Pins, keys: list[Any], change: Callable[[Any], Any]) -> Any:
    with pins.held():
        samples = [subject.dataset[key] for key in keys]
        return subject.inner.collate_fn([change(each) for each in samples])


def _fetched(
    subject: Subject, pins: Pins, keys: list[Any], batch: Any, samples: list[Any]
) -> tuple[bool | None, tuple[str, str]]:
    # Return whether the loader's batch matches the one made by hand, or None if that isn't known.
    # If the batches don't match, also return the class whose `__getitems__` made the loader's, and
    # the class whose `__getitem__` makes `dataset[i]`, but didn't run for the loader's.
    with pins.held():
        fetched, called = _calls(partial(_fetch, subject, keys))
    if _alike(fetched, batch, samples):
        return True, ("", "")
    # `__getitems__` may draw its random numbers in another order than `__getitem__` does.
    if digest(_fetch(subject, keys)) != digest(_fetch(subject, keys)):
        return None, ("", "")
    ran = {each for each, _ in called}
    _, by_hand = _calls(lambda: [subject.dataset[key] for key in keys])
    by = [each for each, name in called if name == "__getitems__"]
    past = [each for each, _ in by_hand if each not in ran]
    return False, (by[-1] if by else "", past[0] if by and past else "")


def _fetch(subject: Subject, keys: list[Any]) -> Any:
    loader: DataLoader[Any] = DataLoader(
        subject.dataset,
        batch_sampler=[keys],
        collate_fn=subject.inner.collate_fn,
        generator=torch.Generator(),  # so that the iterator doesn't use the global generator
    )
    return next(iter(loader))


def _calls(make: Callable[[], Any]) -> tuple[Any, list[tuple[str, str]]]:
    # Return what `make` returns, and which methods ran that draw samples from something that has
    # `__getitems__`, each as (class that defines the method, method).
    called: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, given: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_name in ("__getitem__", "__getitems__"):
            drawn_from = frame.f_locals.get(code.co_varnames[0]) if code.co_varnames else None
            if callable(attribute(drawn_from, "__getitems__")):
                *_, cls, name = ("", *code.co_qualname.split("."))
                called.append((cls, name))

    with profiled(note):
        return make(), called


def _alike(fetched: Any, batch: Any, samples: list[Any]) -> bool:
    if digest(fetched) == digest(batch) or _close(fetched, batch):
        return True
    # Also compare row by row, in any order, because `__getitems__` may sort the indices, or return
    # a finished batch of many samples where `__getitem__` returns a sample or a batch of one.
    rows = sorted(split(fetched, len(samples)) or ())
    others = [split(batch, len(samples)) or (), _split_alone(samples)]
    with suppress(Exception):  # not all samples can be stacked
        others.append(split(default_collate(samples), len(samples)) or ())
    return bool(rows) and any(rows == sorted(each) for each in others)


def _close(fetched: Any, batch: Any) -> bool:
    # Numbers that are computed for a whole batch may differ in their last digits.
    ours, theirs = (list(leaves(each)) for each in (fetched, batch))
    pairs = zip(ours, theirs, strict=False)
    return len(ours) == len(theirs) and all(
        path == other and (digest(one) == digest(two) or _close_numbers(one, two))
        for (path, one), (other, two) in pairs
    )


def _close_numbers(one: Any, two: Any) -> bool:
    with suppress(Exception):  # not every tensor can become a numpy array
        ours, theirs = (np.asarray(each) for each in (one, two))
        if ours.dtype == theirs.dtype and ours.dtype.kind in "fc" and ours.shape == theirs.shape:
            most = EXACT * np.abs(theirs).max(initial=0.0)
            return bool(np.allclose(ours, theirs, rtol=0.0, atol=most))
    return False


def _lost(batch: Any) -> Iterator[tuple[str, str]]:
    # torch sends tensors without their attributes. numpy pickles an array of a subclass without its
    # attributes, unless the subclass takes care of that.
    for path, leaf in leaves(batch):
        sent: dict[str, Any] = {}
        if is_a(leaf, np.ndarray) and type(leaf) is not np.ndarray:
            with suppress(Exception):  # other experiments look for batches that can't be pickled
                sent = attributes_of(pickle.loads(pickle.dumps(leaf)))
        elif type(leaf) is not torch.Tensor:
            continue
        for name, value in attributes_of(leaf).items():
            if not name.startswith("_") and digest(sent.get(name)) != digest(value):
                yield path, name


def _together(alone: list[Any], batch: Any) -> bool:
    parts = split(batch, len(alone))
    return parts is None or sorted(parts) != sorted(_split_alone(alone))


def _split_alone(batches: list[Any]) -> list[str]:
    return [part for each in batches for part in split(each, 1) or ()]


EXPERIMENT: Final = probe("fetched", 9.0, needed, ask)
