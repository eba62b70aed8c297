"""Run the subject's loader once, and return what arrived and how it ended."""

from __future__ import annotations

import copy
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain, islice
from multiprocessing.process import BaseProcess
from statistics import fmean
from typing import Any, Final

import numpy as np

from dltutor.diagnosis.measures import Measures
from dltutor.diagnosis.messages import explain
from dltutor.diagnosis.objects.digests import digest, leaves
from dltutor.diagnosis.running import forks
from dltutor.diagnosis.running.subject import Subject, Unanswered
from dltutor.diagnosis.running.watch import Enough, Watch, cores_of, idle_shares
from dltutor.observation.counting import counting
from dltutor.observation.errors import is_yours
from dltutor.observation.foreign import has, module_of
from dltutor.observation.foreign import text as shown
from dltutor.observation.observing import observe
from dltutor.observation.report import Observation
from dltutor.observation.texts import said, tidy

PATIENCE: Final = 6.0  # seconds that a run may take past its time before it counts as hung
STARTING: Final = 14.0  # the same limit for workers that import torch first
_NUMBERS: Final = 4096  # how many numbers from a loop's result to keep
_LOADS: Final = 16  # the most copies of the sampler to keep, including the one from the start
_LEFT: Final = 100_000  # with this many samples left in a sampler, don't compare its states
_COUNTING: Final = 1.0  # seconds to count how many samples the copies have left


def run(
    subject: Subject,
    *,
    seconds: float = 4.0,
    patience: float | None = None,
    content: bool = True,
    epochs: int | None = None,
    own_loop: bool = False,
    copies: bool = False,
    seed: int | None = None,
    set_epochs: bool = False,
) -> Measures:
    """Run a subject's loader, and return the measurements.

    Args:
        subject: The loader, with its training loop.
        seconds: After how many seconds the run ends, at the next batch (default 4), but not sooner
            than half as long after the first batch. If the subject has less time, the run is
            shorter.
        patience: How many seconds past `seconds` to wait for a batch before the run counts as hung,
            or more if samples are slow. If None (the default), the start method decides.
        content: Whether to take digests of what arrives (default True).
        epochs: How many epochs to run. If None (the default), run `subject.epochs`.
        own_loop: Whether to use a plain loop even if there's a training loop (default False).
        copies: Whether to give the loop a copy of each batch (default False).
        seed: The seed for `Subject.seed`. If None (the default), nothing is seeded.
        set_epochs: Whether a plain loop tells the dataset and sampler the epoch (default False).

    Raises:
        Unanswered: A batch takes too long, or workers in new interpreters didn't start in time.
    """
    if seed is not None:
        subject.seed(seed)
    if patience is None:
        patience = PATIENCE
        if subject.method not in ("", "fork"):
            patience = max(STARTING, subject.seconds / 2)  # wait longer with a longer deadline
    patience = _patience(subject, patience)
    seconds = max(min(seconds, subject.seconds - 1.5 - patience), min(seconds, 0.5))
    watch = Watch(subject, seconds, content, copies)
    loop = subject.loop
    state: dict[str, Any] = {
        "result": None,
        "enough": False,
        "epochs_told": 0,
        "asked": False,
        "after": 0.0,
    }
    loads = _Loads(subject, watch)

    def prepare() -> None:
        watch.prepare()
        loads.look()

    def told() -> None:
        state["epochs_told"] += 1

    def plainly(loader: Any, epoch: int) -> None:
        if set_epochs:
            subject.tell(epoch)
        for _ in loader:
            pass

    def whole(loader: Any) -> None:
        with (
            counting(loader, watch.begin, prepare),
            _noted(subject.told, "set_epoch", told),
            _noted(loads.sampler, "load_state_dict", loads.note),
            _exit_code_reads_noted(state),
        ):
            try:
                for epoch in range(epochs or subject.epochs):
                    if epoch and time.monotonic() > watch.until:
                        raise Enough  # don't start new workers once time is up
                    if loop is None or own_loop:
                        plainly(loader, epoch)
                    else:
                        state["result"] = loop(loader)
            except Enough:
                state["enough"] = True
            finally:
                state["after"] = watch.since()

    began = time.process_time()
    seen = observe(subject.loader, consume=whole, deadline=seconds + patience)
    state["computed"] = time.process_time() - began
    if seen.end == "hung" and not watch.passes and subject.method not in ("", "fork"):
        raise Unanswered(
            f"after {seconds + patience:.0f} s the workers hadn't all started. Each gets a pickle "
            "of the dataset, and imports what it needs. A longer deadline would tell"
        )
    state["loaded"] = loads.left()
    return _measures(seen, watch, state)


def _patience(subject: Subject, patience: float) -> float:
    # If samples take a long time, a long wait for a batch doesn't mean that the loader hangs.
    samples = subject.known.samples if subject.known is not None else None
    if subject.known is None or samples is None or not samples.looked:
        return patience
    count = subject.known.parts.batch_size or 1
    expected = samples.typical * count
    if expected + samples.slowest > max(subject.seconds - 2.0, patience):
        raise Unanswered(
            f"a batch of {count} takes about {expected:.0f} s, which is more time than there is "
            "for this. A longer deadline gives it more"
        )
    return max(patience, min(2.5 * expected + samples.slowest, subject.seconds - 2.0))


@contextmanager
def _noted(thing: Any, name: str, note: Callable[[], None]) -> Iterator[None]:
    # Call `note` after each call of one method of one object. Replace the method in the class, so
    # that the object, and copies and pickles of it, stay as they are.
    cls = type(thing)
    if not callable(own := getattr(cls, name, None)):
        yield
        return

    def method(self: Any, *args: Any, **options: Any) -> Any:
        returned = own(self, *args, **options)
        if self is thing:
            note()
        return returned

    had_it = name in vars(cls)
    setattr(cls, name, method)
    try:
        yield
    finally:
        if had_it:
            setattr(cls, name, own)
        else:
            delattr(cls, name)


class _Loads:
    """A record of the states that the loop loads into its sampler.

    Args:
        subject: The loader. If no sampler of it has a `load_state_dict`, nothing is recorded.
        watch: What has arrived so far.
    """

    def __init__(self, subject: Subject, watch: Watch) -> None:
        self.sampler = subject.sampler_with("load_state_dict")
        self._subject, self._watch = subject, watch
        self._new = self.sampler is not None
        self._copies: list[tuple[int, Any]] = []

    def note(self) -> None:
        """Note that the loop has loaded a state. It may still correct that state."""
        self._new = True

    def look(self) -> None:
        """Copy the sampler before an iteration, if it's the first one or has a new state."""
        if self._new and len(self._copies) < _LOADS:
            with suppress(Exception):  # the sampler is the user's
                self._copies.append((sum(self._watch.counted), copy.copy(self.sampler)))
        self._new = False

    def left(self) -> tuple[tuple[int, int], ...]:
        """Return `Measures.loaded`, or () if the loop loaded nothing or counting takes too long."""
        if len(self._copies) < 2:
            return ()
        return forks.attempt(self._count, _COUNTING) or ()

    def _count(self) -> tuple[tuple[int, int], ...]:
        # Count in the copies after the run, because the loop shouldn't wait for that.
        deals_batches = type(self.sampler) is type(self._subject.dealer)
        found = []
        for arrived, sampler in self._copies:
            each = self._subject.indices_in if deals_batches else _alone
            indices = chain.from_iterable(map(each, iter(sampler)))
            found.append((arrived, sum(1 for _ in islice(indices, _LEFT))))
        return () if any(left == _LEFT for _, left in found) else tuple(found)


def _alone(index: Any) -> list[Any]:
    return [index]


@contextmanager
def _exit_code_reads_noted(state: dict[str, Any]) -> Iterator[None]:
    own: Any = vars(BaseProcess)["exitcode"]

    def exitcode(self: Any) -> int | None:
        code: int | None = own.fget(self)
        state["asked"] |= bool(code) and is_yours(sys._getframe(1).f_code.co_filename)
        return code

    # mypy takes the class's property for an attribute of an instance.
    BaseProcess.exitcode = property(exitcode)  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        BaseProcess.exitcode = own  # type: ignore[method-assign]


def _measures(seen: Observation, watch: Watch, state: dict[str, Any]) -> Measures:
    words = "\n".join([*(f"{kind}: {text}" for kind, text in seen.chain), seen.stderr, *seen.notes])
    kind, text = seen.chain[0] if seen.chain else ("", "")
    error = tidy(said(kind, text)).strip() if seen.chain else ""
    return Measures(
        end="enough" if state["enough"] and seen.end == "finished" else seen.end,
        error=error.partition("\n")[0][:300],
        kind=kind,
        raised=seen.raised_in_worker,
        at=tuple(map(str, reversed(seen.traceback))),
        said=tidy(words)[-4000:],
        stderr=tidy(seen.stderr)[-4000:],
        named=tuple(match.failure.name for match in explain(words)),
        codes=tuple(each.exitcode for each in seen.workers),
        batches=watch.batches,
        passes=tuple(map(tuple, watch.passes)),
        drawn=tuple(map(tuple, watch.drawn)),
        fields=tuple(
            tuple((path, tuple(parts)) for path, parts in each.items()) for each in watch.fields[:2]
        ),
        padded=tuple(path for path, shapes in watch.shapes.items() if len(shapes) > 1),
        ngrams=() if watch.ngrams is None else tuple(watch.ngrams.tolist()),
        counted=tuple(watch.counted),
        finished=tuple(watch.finished),
        stopped=watch.stopped,
        resumed=watch.resumed,
        result=digest(state["result"]) if _comparable(state["result"]) else "",
        returned=" ".join(shown(state["result"]).split())[:80]
        if _comparable(state["result"])
        else "",
        numbers=_numbers(state["result"]),
        kept=watch.kept,
        kept_bytes=watch.kept_bytes,
        kept_then=tuple(watch.kept_then),
        tensors=watch.tensors / max(watch.batches, 1),
        batch_bytes=watch.batch_bytes,
        storage_bytes=watch.storage_bytes,
        private=tuple((each[0], max(each)) for each in watch.memory.values() if len(each) > 1),
        files=watch.files[-1] - watch.files[0] if watch.files else 0,
        epochs_told=state["epochs_told"],
        loaded=state["loaded"],
        asked=state["asked"],
        gpu=tuple(watch.gpu),
        first=watch.first,
        pace=fmean(watch.pauses) if watch.pauses else 0.0,
        longest=watch.longest,
        stood=_where_stuck(seen),
        left=seen.left,
        others=seen.others,
        computed=sum(watch.computed.values()) or state["computed"],
        anew=watch.anew,
        later=watch.later,
        carried=watch.carried,
        temporary=tuple(watch.temporary),
        opened=_gained(*watch.opened) if len(watch.opened) > 1 else 0,
        ending=watch.ending,
        after=state["after"],
        state=watch.state,
        waited_for=sum(seconds for seconds, _ in watch.waits),
        idle=idle_shares(watch.waits, watch.subject.inner.num_workers),
        cores=(len(watch.cores), len(cores_of(0))),
    )


def _gained(before: dict[int, int], after: dict[int, int]) -> int:
    return max((count - before.get(pid, count) for pid, count in after.items()), default=0)


def _where_stuck(seen: Observation) -> str:
    # If the run hung, return a worker's name and your innermost line there. If no worker is in your
    # code, return a line in torch's `_worker_loop`, where workers wait for indices.
    stuck = [(each.name, each.stack[0]) for each in seen.workers if each.stack]
    stuck.sort(key=lambda each: each[1].function == "_worker_loop")
    return f"{stuck[0][0]}: {stuck[0][1]}" if stuck and seen.end == "hung" else ""


def _comparable(result: object) -> bool:
    plain = module_of(type(result)) in ("builtins", "numpy", "torch")
    return result is not None and (plain or has(type(result), "__dataclass_fields__"))


def _numbers(result: object) -> tuple[float, ...]:
    found: list[float] = []
    for _, leaf in leaves(result):
        with suppress(Exception):  # not every leaf is a number
            found += np.asarray(leaf, dtype=float).ravel()[:_NUMBERS].tolist()
    return tuple(found[:_NUMBERS])
