"""Check that the doctor's rules name the failure mode that made-up evidence shows, and no other.

`scripts/doctor.py` runs the doctor on the real cases. Other tests here check how findings are
worded, what the doctor says about other machines, and that each failure mode has a rule.
"""

from __future__ import annotations

from dataclasses import fields, replace
from importlib import import_module
from inspect import isfunction
from typing import Any

import pytest
from recorded import PARTS

from dltutor.diagnosis.agenda import experiments
from dltutor.diagnosis.conclusions import findings
from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.finding import Finding
from dltutor.diagnosis.measures import Measures
from dltutor.diagnosis.other_machines import elsewhere
from dltutor.diagnosis.probes import state, waits
from dltutor.diagnosis.probes.ahead import Ahead
from dltutor.diagnosis.probes.copies import Copies
from dltutor.diagnosis.probes.culprit import Culprit
from dltutor.diagnosis.probes.culprit.uncollatable import blame
from dltutor.diagnosis.probes.displaced import Displaced
from dltutor.diagnosis.probes.ending import Ending
from dltutor.diagnosis.probes.epochs import Epochs
from dltutor.diagnosis.probes.fetched import Fetched
from dltutor.diagnosis.probes.handles import Handles
from dltutor.diagnosis.probes.imported import Imported
from dltutor.diagnosis.probes.in_workers import InWorkers
from dltutor.diagnosis.probes.leftovers import Leftover
from dltutor.diagnosis.probes.memory import Memory
from dltutor.diagnosis.probes.order import Order
from dltutor.diagnosis.probes.recomputed import Recomputed
from dltutor.diagnosis.probes.reordered import Reordered
from dltutor.diagnosis.probes.repeats import Repeats
from dltutor.diagnosis.probes.samples import Samples
from dltutor.diagnosis.probes.segments import Segments
from dltutor.diagnosis.probes.shares import Shares
from dltutor.diagnosis.probes.state import State
from dltutor.diagnosis.probes.threads import Threads
from dltutor.diagnosis.probes.travel import Travel
from dltutor.diagnosis.probes.twice import Twice
from dltutor.diagnosis.probes.two_ranks import TwoRanks
from dltutor.diagnosis.probes.views import Views
from dltutor.diagnosis.probes.waits import Waits
from dltutor.diagnosis.rules import RULES
from dltutor.diagnosis.running.pace import Paces
from dltutor.failures import CATALOG, FACTS, PROMISES
from dltutor.tables import MB

WELL = Measures("finished", batches=4, counted=(64,), finished=(True,))
HUNG = Measures("hung", batches=2)
RAISED = Measures("raised", "ValueError: 9", "ValueError", "ValueError")
TIMED_OUT = Measures("raised", "RuntimeError: DataLoader timed out after 5 seconds", "RuntimeError")
PATIENT = replace(WELL, longest=7.5)
DIED = Measures("worker died", "RuntimeError: exited", "RuntimeError", codes=(None, -9))
STAINED = Fetched(stained=(60, 64))
SPAWN = replace(PARTS, method="spawn")
SAMPLES = Samples(60)


def of(run: Measures = WELL, **found: Any) -> Evidence:
    """Make evidence about a loader that runs well without workers. Its run with workers is `run`.

    `found` has more fields of the evidence, or replaces `parts`, `samples`, or `alone`.
    """
    return Evidence(**{"parts": PARTS, "run": run, "samples": SAMPLES, "alone": WELL} | found)


# Parts of evidence: runs that raise, and workers that die

SAMPLE = Culprit("sample", "dataset[9]", "ValueError", "9", "scans.py, line 9", "ValueError")
COLLATE = Culprit("collate", "batch 2", "TypeError", "no", arrives="TypeError")
TYPE_ERROR = replace(RAISED, kind="TypeError", raised="TypeError")
WEIGHTED = Culprit("sampler", kind="ValueError", text="number of categories cannot exceed 2^24")
EARLY = Measures("finished", passes=(("a", "b"),), finished=(True,))
SWALLOWED = Measures("finished", codes=(None, -9), passes=(("a",),), finished=(False,))
BY_FORKSERVER = replace(PARTS, method="forkserver")
CRASHED = replace(DIED, codes=(None, -11))
REFILLED = Copies(looked=8, differ=8, steady=True, path="dataset.row")
EXITED = InWorkers("worker died", failed=((9, "SystemExit", "2", ""),))

# Parts of evidence: what workers inherit or receive

HELD = ("dataset.lock",)
NO_PICKLE = Measures("raised", "TypeError: cannot pickle 'socket' object", "TypeError")
SOCKET = Travel((("dataset.net", "socket", "TypeError: cannot pickle 'socket' object"),))
GONE = Travel(gone=(("dataset.rng", "Generator"),))
UNREADABLE = Travel(unreadable=(("dataset", "Wrapper", "RecursionError: too deep"),))
GIVEN = Imported("finished", batches=4, names=("tiles.SCALE",))
DREW = replace(WELL, drawn=(("1", "2"),))
NO_CHILDREN = replace(RAISED, said="daemonic processes are not allowed to have children")
LOST = Measures("worker died", "RuntimeError: exited")
NO_CLASS = replace(LOST, said="Can't get attribute 'Tiles' on <module '__main__' (built-in)>")
FEEDING = '  File "queues.py", line 244, in _feed\n'
NO_SOCKET = "OSError: AF_UNIX path too long"
NO_GUARD = replace(LOST, said="An attempt has been made to start a new process before the current")


def stuck(kind: str, by: str = "tiles.py", freed: bool = True, **found: Any) -> Waits:
    """Make the record of W0 as it waits in `__getitem__` for a lock or another kind of object.

    `by` is the file of the code that waits there. `freed` says whether W0 went on once it got what
    it was waiting for.
    """
    line = "tiles.py, line 12, in __getitem__: with self.lock:"
    return Waits(((0, line, kind, "dataset.lock", by, freed),), **found)


# Parts of evidence: memory and open files

MANY = replace(PARTS, length=800, batches=100)
FULL = replace(WELL, batches=100, batch_bytes=MB)
MAPPED = Travel(mapped=(("dataset.images", 80 * MB),), bytes=80 * MB)
NAMES = ("dataset.names", "list", 300_000, 0.0, 0.9)
READ = Memory(copied=30, copied_frozen=29, read=(NAMES,))
COLLECTED = Memory(copied=48, copied_frozen=2, collections=4)
CACHE = Memory(
    samples=32,
    late_samples=16,
    peak_as_it_is=13,
    peak_collected=13,
    peak_returned=12,
    peak_repeated=2,
    late_as_it_is=6,
    late_collected=6,
    late_returned=6,
    late_repeated=0,
    grown=(("dataset.cache", "dict", 1.0, None),),
)
CYCLE = replace(CACHE, peak_as_it_is=19, peak_collected=0, peak_returned=16, late_collected=0)
HEAP = replace(
    CACHE,
    peak_as_it_is=62,
    peak_collected=62,
    peak_returned=0.3,
    late_as_it_is=33,
    late_collected=33,
    late_returned=0,
    late_repeated=33,
    grown=(),
)
KEPT = replace(FULL, kept=97, kept_bytes=97 * MB, kept_then=((32, 29), (64, 61)))
NO_SHM = Measures("raised", error="RuntimeError: no space", named=("shm_exhausted",))
NO_FILES = Measures(
    "raised", error="RuntimeError: too many", named=("too_many_open_files",), batches=90
)

# Parts of evidence: wrong data

FILE = Handles(kind="file", paths=("dataset.scans",), looked=24, wrong=20)
LAZY = replace(FILE, lazy="dataset.scans")
SHARED = replace(FILE, kind="socket")
MASKED = Repeats((("all", 12, 0, 24, 0, 24), ("collate_fn", 12, 24, 24, 24, 24)))
RANDOM = Repeats(sources=(("own", 12, 24, 24, 24, 24),), own=("dataset.rng",))
TWICE = Twice(looked=4, own=4, paths=("dataset.scans",), index="3")
EPOCHS = Epochs(looked=60, stale=60, arrived=60, moved=60, first=True, paths=("dataset.epoch",))
STREAM = Shares(whole=64, ended=True, shares=(64, 64), complete=True, same=48, compared=48)
STREAM = replace(STREAM, distinct=48)
DEALT = replace(STREAM, shares=(32, 32), same=0)
ONCE = replace(WELL, drawn=(("a", "b"),), counted=(2,), finished=(True,), passes=(("a", "b"),))
COUNTED = Twice(looked=4, counter="dataset.step")
COUNT = State(steady=True, same=False, content=True, paths=(("dataset.bad", "0", "8"),))
QUARTERS = replace(DEALT, shares=(16, 16), totals=((1, 64), (3, 21)))
STREAMED = replace(PARTS, stream=True)
LOOPED = replace(STREAMED, loop=True)
SPAWN_STREAM = replace(STREAMED, method="spawn")
EACH_ONCE = replace(WELL, drawn=(tuple("abcdefgh"),))
ALL_TWICE = replace(WELL, drawn=(tuple("bbddgghh"),))
ONE_TWICE = replace(WELL, drawn=(tuple("acceffha"),))
FIRST_TWICE = replace(WELL, drawn=(tuple("adbbecce"),))
ONCE_EACH_TIME = replace(WELL, drawn=EACH_ONCE.drawn * 2, finished=(True, True))
LATER_TWICE = replace(WELL, drawn=(*EACH_ONCE.drawn, *ONE_TWICE.drawn), finished=(True, True))
NEARLY = Displaced(looked=2048, found=2048, moved=16.1, falling=12, shuffles=True)
REPLACED = ((17, 18, "OSError", "truncated", "scans.py, line 9"),)
FETCHED = Fetched(looked=16, differ=16, by="Scans", past="Normalized")
ORDER = Order(epochs=3, repeated=2, moves=True, ranks=2, shuffles=True)

DROPS = replace(PARTS, stream=True, drop_last=True)
FEWER = replace(WELL, counted=(48,))
READS = replace(PARTS, stream=True)
EMPTY = Measures("finished", passes=((),), counted=(0,), finished=(True,))

# Parts of evidence: slow loaders, two ranks, and loops that resume

SOUNDS = replace(
    PARTS, batch_size=16, length=9000, batches=563, persistent=True, collate="keep", init="start"
)
# As rank 0, the loop got a ninth batch, and waited in vain for rank 1, which got 8
WAITED = TwoRanks(
    drawn=32,
    different=32,
    batches=((9,), (8,)),
    finished=((False,), (True,)),
    errors=("RuntimeError: timed out", ""),
    after=(3.1, 0.1),
)
BEGUN = Measures(
    "finished", batches=6, tensors=96, passes=(("a",),) * 6, counted=(16,) * 6, finished=(False,)
)
DRAWN = Samples(looked=32, typical=0.004, bytes=100)
READ_AGAIN = replace(DRAWN, read=30 * MB, of_files=MB)
SLOWEST = Samples(looked=200, typical=0.0005, slowest=1.5, slowest_at=7)


def slow(**found: Any) -> Evidence:
    return Evidence(**{"parts": SOUNDS, "run": BEGUN, "samples": SLOWEST} | found)


def paces(as_is: float, changed: float, turns: int = 3) -> Paces:
    return Paces((as_is,) * turns, (changed,) * turns)


def threads(alone: tuple[int, ...], *turns: tuple[float, float], cores: int = 4) -> Evidence:
    return slow(threads=Threads(cores, (4, 4), alone, turns))


def nested(counted: tuple[int, ...], own: tuple[int, ...], resumed: int = 1) -> Evidence:
    run = replace(BEGUN, counted=counted, finished=(True, True), resumed=resumed)
    return slow(run=run, not_kept=replace(run, counted=own))


def resumed(
    ours: str, theirs: str, again: str = "", end: str = "finished", **found: Any
) -> Evidence:
    """Make evidence about a loop that stops and resumes.

    Args:
        ours: How many samples each iteration has with workers, such as "24- 8". A minus means that
            the loop left the iteration early.
        theirs: The same without workers.
        again: The same with workers and a fixed seed (default: as in `ours`).
        end: How the run that `ours` describes ended.
        found: More fields of the evidence.
    """
    run, alone, seeded = (_iterations(each) for each in (ours, theirs, again or ours))
    runs = {"alone": alone, "seeded": seeded, "reseeded": alone}
    return of(replace(run, end=end), **runs | found)


def _iterations(counts: str) -> Measures:
    each = counts.split()
    counted = tuple(int(count.strip("-")) for count in each)
    finished = tuple(not count.endswith("-") for count in each)
    return replace(WELL, counted=counted, finished=finished, passes=(("a",),) * len(each))


def called(ours: str, theirs: str, run: str = "", fields: bool = False) -> Evidence:
    """Make evidence about a loop that's called several times, with workers and without.

    Args:
        ours: The samples of the calls with workers, a letter each, such as "abcd- gh". A minus
            means that the loop left the epoch early.
        theirs: The same without workers.
        run: The samples of a run with workers, without a fixed seed (default: the first call's).
        fields: Whether the letters are only one field of the samples, and the rest is random.
    """
    both = [_calls(each, fields) for each in (ours, theirs)]
    as_it_is = _calls(run or ours.split()[0], fields)
    return of(as_it_is, called_again=both[0], called_alone=both[1])


def _calls(samples: str, fields: bool) -> Measures:
    each = samples.replace("nothing", "").split(" ")
    finished = tuple(not one.endswith("-") for one in each)
    drawn = tuple(tuple(one.strip("-")) for one in each)
    counted = tuple(map(len, drawn))
    run = replace(WELL, counted=counted, finished=finished, passes=drawn, drawn=drawn)
    if not fields:
        return run
    digests = tuple(tuple(f"{id(drawn)} {at}" for at in range(count)) for count in counted)
    parts = tuple(
        (("['x']", other), ("['id']", own)) for other, own in zip(digests, drawn, strict=True)
    )
    return replace(run, drawn=digests, fields=parts[:2])


NAMED: Any = called("abcd- ghi", "abcd- efgh-", fields=True)  # a field names random samples


# Each row has the name of a failure mode, and evidence that fits it and no other failure mode.
FITS: list[tuple[str, Evidence]] = [
    ("corrupt_images", of(RAISED, culprit=replace(SAMPLE, decoder="PIL"))),
    ("none_in_batch", of(RAISED, culprit=replace(COLLATE, blame="none"))),
    ("ragged_batch", of(TYPE_ERROR, culprit=replace(COLLATE, blame="ragged"))),
    ("lost_exception_type", of(replace(RAISED, kind="RuntimeError"), culprit=SAMPLE)),
    ("unpicklable_exception", of(HUNG, culprit=replace(SAMPLE, unsent="PicklingError: no"))),
    (
        "unpicklable_batch",
        of(HUNG, culprit=Culprit("transport", "batch 0", unsent="TypeError: no", part="batch[1]")),
    ),
    (
        "unpicklable_batch",
        of(replace(HUNG, stderr=FEEDING + "TypeError: can't pickle"), culprit=Culprit("")),
    ),
    ("silent_stop", of(EARLY, culprit=replace(SAMPLE, kind="StopIteration"))),
    ("dead_worker", of(DIED, samples=Samples(0, ended="died", at=9, code=-11))),
    ("dead_worker", of(SWALLOWED)),
    ("dead_worker", of(CRASHED)),
    ("lost_cause", of(SWALLOWED, parts=BY_FORKSERVER)),
    ("misleading_exit", of(DIED, in_workers=EXITED)),
    ("leftover_iterator", of(leftover=Leftover(alive=2, freed=1, kind="ValueError"))),
    # What workers inherit or receive
    ("held_lock", of(HUNG, waits=stuck("lock", held=HELD))),
    ("plot_in_thread", of(HUNG, waits=stuck("lock", "/x/matplotlib/figure.py", held=HELD))),
    ("lost_thread", of(HUNG, waits=stuck("executor"))),
    ("openmp_after_fork", of(HUNG, waits=stuck("", freed=False, threads=2), one_thread=WELL)),
    ("short_timeout", of(TIMED_OUT, untimed=PATIENT)),
    ("short_timeout", of(TIMED_OUT, untimed=PATIENT, waits=stuck("", freed=False))),
    ("children_of_workers", of(NO_CHILDREN)),
    ("unpicklable_handle", of(NO_PICKLE, parts=SPAWN, travel=SOCKET)),
    ("main_only_class", of(NO_CLASS, parts=SPAWN, travel=Travel(main=("Tiles",)))),
    ("missing_main_guard", of(NO_GUARD, parts=SPAWN, travel=Travel())),
    ("generator_attribute", of(LOST, parts=SPAWN, travel=GONE)),
    ("unloadable", of(LOST, parts=SPAWN, travel=UNREADABLE)),
    ("too_many_weights", of(replace(RAISED, raised=None), culprit=WEIGHTED)),
    ("global_only_in_parent", of(RAISED, parts=SPAWN, forked=WELL, imported=GIVEN)),
    # Memory and open files
    ("copy_on_read", of(memory=READ)),
    ("gc_dirties_pages", of(memory=COLLECTED)),
    ("growing_cache", of(parts=MANY, memory=CACHE)),
    ("reference_cycle", of(memory=CYCLE)),
    ("heap_growth", of(memory=HEAP)),
    ("kept_batches", of(KEPT)),
    ("kept_batches", of(called_again=replace(KEPT, passes=(("a",) * 40,) * 2))),
    ("view_of_a_giant", of(views=Views(6, 9.5, 0.1))),
    ("memmap_copied", of(parts=SPAWN, travel=MAPPED)),
    ("prefetch_budget", of(FULL, ahead=Ahead(30, 4, 0.01, 0.01, 0.02, 0.02))),
    ("shm_exhausted", of(NO_SHM, arrays=WELL)),
    ("too_many_open_files", of(NO_FILES, nothing_kept=WELL)),
    ("orphaned_segments", of(segments=Segments(4, 5, "file_system", "file_descriptor"))),
    ("orphaned_segments", of(segments=Segments(4, 4, "file_descriptor", "file_system"))),
    # Wrong data
    ("shared_file_offset", of(handles=FILE)),
    ("lazy_but_touched", of(handles=LAZY)),
    ("shared_connection", of(handles=SHARED)),
    ("repeated_randomness", of(repeats=RANDOM)),
    ("repeated_randomness", of(repeats=MASKED, parts=replace(PARTS, collate="mask"))),
    ("mutated_in_place", of(twice=TWICE)),
    ("mutated_in_place", of(twice=replace(TWICE, paths=(), files=("rows.npy",)))),
    ("mutated_in_place", of(parts=replace(PARTS, collate="shift"), fetched=STAINED)),
    ("mutated_in_place", of(twice=TWICE, copies=REFILLED)),
    ("stale_epoch", of(epochs=EPOCHS)),
    ("reused_buffer", of(copies=REFILLED)),
    ("reused_buffer", of(CRASHED, copies=REFILLED)),
    ("repeated_stream", of(shares=STREAM)),
    ("repeated_stream", of(shares=STREAM, alone=ONCE, forked=replace(ONCE, finished=(False,)))),
    (
        "repeated_stream",
        of(shares=STREAM, alone=ONCE, forked=replace(ONCE, drawn=(("a", "b") * 2,))),
    ),
    ("lost_tail", of(FEWER, parts=DROPS, shares=DEALT)),
    ("no_batch", of(EMPTY, alone=EMPTY, parts=replace(PARTS, length=6, drop_last=True))),
    ("no_batch", of(replace(EMPTY, end="raised", kind="ZeroDivisionError"), alone=None)),
    ("no_batch", of(EMPTY, alone=EMPTY, parts=DROPS)),
    ("wrong_length", of(ending=Ending(60, 64))),
    ("wrong_length", of(ending=Ending(60, 58, said="IndexError: list index out of range"))),
    ("global_state", of(state=COUNT)),
    ("global_state", of(twice=COUNTED, repeats=RANDOM, alone=replace(WELL, passes=(("a",),)))),
    ("batched_fetch", of(fetched=FETCHED)),
    ("batched_fetch", of(fetched=replace(FETCHED, past=""))),
    ("sharded_twice", of(shares=QUARTERS)),
    ("own_order_in_worker", of(ONE_TWICE, parts=STREAMED, alone=EACH_ONCE)),
    ("own_order_in_worker", of(ALL_TWICE, parts=STREAMED, alone=EACH_ONCE)),
    ("own_order_in_worker", of(FIRST_TWICE, parts=STREAMED, alone=EACH_ONCE)),
    ("own_order_in_worker", of(LATER_TWICE, parts=STREAMED, alone=ONCE_EACH_TIME)),
    ("poor_shuffle", of(displaced=NEARLY)),
    ("poor_shuffle", of(displaced=replace(NEARLY, looked=192), run=replace(WELL, counted=(2048,)))),
    ("swallowed_error", of(samples=replace(SAMPLES, replaced=REPLACED))),
    ("lost_column", of(fetched=Fetched(ragged=(("caption", 5, 8),)))),
    ("lost_column", of(fetched=Fetched(dropped=(("caption", 5, 8),)))),
    ("lost_column", of(fetched=Fetched(crossed=(("[1]", "[0]"),)))),
    ("resume_repeats", resumed("24- 8", "24- 40")),
    ("resume_repeats", resumed("24- 8 32-", "24- 40-")),  # the loop stops after a number of steps
    ("resume_repeats", resumed("24- 64", "24- 40", parts=READS, shares=DEALT)),
    ("resume_repeats", resumed("24-", "24- 40", again="24- 8", end="enough")),
    ("resume_repeats", resumed("24- 24-", "24- 24- 16")),  # with workers, it iterates only twice
    ("resume_repeats", called("abcd- ghij-", "abcd- efgh-")),
    ("resume_repeats", called("acbd- acbd-", "abcd- efgh-")),
    ("resume_repeats", called("acbd- acbd-", "abcd- ef")),  # the epoch ends in the second call
    # With workers, the second call gets what's left of the epoch, or nothing, or the next epoch.
    ("resume_repeats", called("abcd- ghi each-", "abcd- efgh- i")),
    ("resume_repeats", called("abcd- nothing", "abcd- ef each-")),
    ("resume_repeats", called("abcd- each-", "abcd- ef each-")),
    ("resume_repeats", called("abcd- klmn-", "abcd- efgh- ijkl- mnop-")),  # workers load far ahead
    ("resume_repeats", NAMED),
    ("sampler_with_state", of(fetched=Fetched(begun=(32, 32, 0)))),
    ("sampler_with_state", of(fetched=Fetched(begun=(40, 64, 40)))),
    ("same_on_all_ranks", of(two_ranks=TwoRanks(seeded=("numpy", "torch")))),
    ("uneven_ranks", of(replace(RAISED, raised=None), two_ranks=WAITED)),
    (
        # Rank 1's ninth batch goes with the first batch of rank 0's second epoch, so both ranks go
        # on, and time out only later.
        "uneven_ranks",
        of(
            two_ranks=replace(
                WAITED,
                batches=((8, 8), (9, 8)),
                finished=((True, True), (True, False)),
                errors=("RuntimeError: timed out", "RuntimeError: timed out"),
                after=(3.2, 3.1),
            )
        ),
    ),
    ("ranks", of(order=ORDER)),
    ("ranks", of(order=Order(epochs=1, moves=False, ranks=2, twice=1))),
    # Speed
    ("tiny_tensors", slow(sending=paces(0.05, 0.005))),
    ("cheap_samples", slow(workerless=paces(0.003, 0.0005))),
    ("loader_per_step", slow(one_iterator=paces(0.12, 0.002, turns=2))),
    ("idle_workers", of(shares=replace(DEALT, shares=(64, 0)), parts=READS)),
    ("head_of_line", slow(any_order=paces(1.6, 0.1, turns=2))),
    ("oversubscribed", threads((1, 1), (1.9, 1.1), (1.0, 1.0))),
    ("one_core", slow(run=replace(WELL, cores=(1, 2)))),
    ("one_core", slow(run=replace(WELL, cores=(2, 8)), parts=replace(PARTS, workers=4))),
    ("wrong_chunks", of(samples=READ_AGAIN)),
    ("wrong_chunks", of(reordered=Reordered(100, seconds=1.0, ascending=0.3))),
    ("wrong_chunks", of(recomputed=Recomputed(12, 4, "a.py, line 3", 0.8, MB))),
    ("nested_persistent", nested((16, 64), (64, 64))),
]

# For each failure mode, similar evidence that doesn't fit it, by the reason. Evidence under "" fits
# no failure mode at all.
NEAR: dict[str, dict[str, Evidence]] = {
    "": {
        "nothing was found out": of(),
        "a lock that is given back and changes nothing": of(
            HUNG, waits=stuck("lock", freed=False, held=HELD)
        ),
        "a lock that the same thread takes twice, in main too": of(
            HUNG, waits=stuck("lock"), alone=HUNG
        ),
        "a lock that is held, and that no worker waits for": of(while_held=Waits(held=HELD)),
        "a worker that hangs with one thread too": of(
            HUNG, waits=stuck("", freed=False, threads=2), one_thread=HUNG
        ),
        "a worker that computes with one thread anyway": of(
            HUNG, waits=stuck("", freed=False, threads=1), one_thread=WELL
        ),
        "a socket in a dataset of forked workers": of(travel=SOCKET),
        "a generator that never travels": of(travel=GONE),
        "what can't be unpickled never travels": of(travel=UNREADABLE),
        "only main can't unpickle it": of(parts=SPAWN, travel=UNREADABLE),
        "a class of main's that is found": of(parts=SPAWN, travel=Travel(main=("T",))),
        "a file is used by all, and a lock keeps them apart": of(handles=replace(FILE, wrong=0)),
        "a connection is used by one at a time": of(handles=replace(SHARED, wrong=0)),
        "each worker has numbers of its own": of(repeats=Repeats((("own", 12, 0, 24, 0, 24),))),
        "each worker masks with numbers of its own": of(
            repeats=Repeats((("all", 12, 0, 24, 0, 24), ("collate_fn", 12, 0, 24, 0, 24)))
        ),
        "one or two samples vary: too few": of(repeats=Repeats((("own", 2, 4, 4, 4, 4),))),
        "all workers must shuffle a stream alike to deal it out": of(
            repeats=Repeats((("all", 48, 48, 48, 0, 48),), order=True), shares=DEALT
        ),
        "a sample counts its visits elsewhere": of(twice=replace(TWICE, paths=())),
        "the epoch is in shared memory": of(epochs=replace(EPOCHS, stale=0)),
        "the epoch changes nothing for anybody": of(epochs=replace(EPOCHS, moved=0)),
        "a buffer is copied by the collate function": of(copies=Copies(8, 0, steady=True)),
        "batches are others in every run": of(copies=Copies(8, 8, steady=False)),
        "a stream is dealt out": of(shares=DEALT),
        "all samples of a stream are equal": of(shares=replace(STREAM, distinct=1)),
        "nothing is left to drop": of(parts=DROPS, shares=DEALT),
        "the length is a limit": of(ending=Ending(60, 64, limits=("dataset.limit",))),
        "the dataset ends nowhere": of(ending=Ending(60)),
        "a count decides, and is the same for all": of(twice=COUNTED),
        "a count is in shared memory": of(state=replace(COUNT, same=True)),
        "the loop says how long it took": of(state=replace(COUNT, steady=False)),
        "one worker gets half, too": of(shares=replace(QUARTERS, totals=((1, 32), (3, 21)))),
        "three workers get as much as two": of(shares=replace(QUARTERS, totals=((1, 64), (3, 32)))),
        "two workers get most": of(
            shares=replace(QUARTERS, shares=(22, 22), totals=((1, 64), (3, 21)))
        ),
        "a short stream": of(
            shares=replace(QUARTERS, whole=8, shares=(2, 2), totals=((1, 8), (3, 3)))
        ),
        "a map-style dataset": of(ONE_TWICE, alone=EACH_ONCE),
        "a file is read by all": of(ONE_TWICE, parts=SPAWN_STREAM, alone=EACH_ONCE, handles=FILE),
        "samples without workers repeat, too": of(
            ONE_TWICE, parts=STREAMED, alone=replace(WELL, drawn=(tuple("abcdefga"),))
        ),
        "both workers draw the first half": of(
            replace(WELL, drawn=(tuple("aabbccdd"),)), parts=STREAMED, alone=EACH_ONCE
        ),
        "workers draw other samples": of(
            replace(WELL, drawn=(tuple("accexxhy"),)), parts=STREAMED, alone=EACH_ONCE
        ),
        "a batch is fetched, and the same": of(fetched=replace(FETCHED, differ=0)),
        "a batch is made otherwise by no method": of(fetched=replace(FETCHED, by="")),
        "the epoch is told": of(order=replace(ORDER, told=3, repeated=0)),
        "one epoch has no other to repeat": of(order=replace(ORDER, epochs=1, repeated=0)),
    },
    "short_timeout": {
        "it hangs without a timeout, too": of(TIMED_OUT, untimed=replace(HUNG, longest=7.5)),
        "it gets no further": of(replace(TIMED_OUT, batches=4), untimed=PATIENT),
        "this time, no batch took long": of(TIMED_OUT, untimed=WELL),
        "something else raised": of(RAISED, untimed=PATIENT),
        "nothing was tried without a timeout": of(TIMED_OUT),
    },
    "poor_shuffle": {
        "it doesn't shuffle": of(displaced=replace(NEARLY, moved=0.0, falling=1)),
        "it leaves out random samples": of(displaced=replace(NEARLY, found=1900, falling=1)),
        "it mixes sources that are in order": of(displaced=replace(NEARLY, moved=57, falling=16)),
        "it shuffles well": of(displaced=replace(NEARLY, moved=690, falling=89)),
        "the buffer has room for an eighth": of(displaced=replace(NEARLY, moved=230, falling=40)),
        "threads change the order": of(displaced=replace(NEARLY, shuffles=False)),
        "most samples are others": of(displaced=replace(NEARLY, found=1500)),
        "a short epoch": of(displaced=replace(NEARLY, looked=64, found=64, moved=3.0, falling=5)),
        "each worker reads the whole stream": of(displaced=NEARLY, shares=STREAM),
    },
    "repeated_stream": {"forked workers deliver all": of(shares=STREAM, alone=ONCE, forked=ONCE)},
    "corrupt_images": {
        "it's no image": of(RAISED, culprit=replace(SAMPLE, image="a.png: no", readable=0))
    },
    "none_in_batch": {"samples can be joined without any": of(RAISED, culprit=COLLATE)},
    "ragged_batch": {"samples can be joined without any": of(TYPE_ERROR, culprit=COLLATE)},
    "lost_exception_type": {"the type arrived": of(RAISED, culprit=SAMPLE)},
    "unpicklable_exception": {"it can be sent": of(HUNG, culprit=SAMPLE)},
    "unpicklable_batch": {
        "it can be sent": of(HUNG, culprit=Culprit("")),
        "the system refused": of(replace(HUNG, stderr=FEEDING + NO_SOCKET), culprit=Culprit("")),
    },
    "silent_stop": {"it's another exception": of(EARLY, culprit=SAMPLE)},
    "dead_worker": {
        "it exited": of(DIED, culprit=replace(SAMPLE, kind="SystemExit")),
        "forkserver hides how": of(SWALLOWED, parts=BY_FORKSERVER),
        "it crashed as it refilled a buffer": of(CRASHED, copies=REFILLED),
        "torch ends workers after a break": of(replace(SWALLOWED, codes=(None, -15))),
    },
    "lost_cause": {"fork says how": of(SWALLOWED)},
    "misleading_exit": {
        "it raised": of(
            DIED, in_workers=InWorkers("worker died", failed=((9, "ValueError", "2", ""),))
        )
    },
    "leftover_iterator": {"nothing was freed": of(leftover=Leftover(alive=2))},
    "too_many_weights": {
        "the sampler raises something else": of(
            replace(RAISED, raised=None), culprit=replace(WEIGHTED, text="invalid multinomial")
        ),
        "a sample raises it": of(RAISED, culprit=replace(WEIGHTED, stage="sample")),
        "something else ended the run": of(TYPE_ERROR, culprit=WEIGHTED),
    },
    "unloadable": {
        "a name is missing": of(NO_CLASS, parts=SPAWN, travel=UNREADABLE),
        "workers ran the script again": of(NO_GUARD, parts=SPAWN, travel=UNREADABLE),
        "a batch had arrived": of(replace(LOST, batches=1), parts=SPAWN, travel=UNREADABLE),
    },
    "global_only_in_parent": {
        "new interpreters fail with main's globals as well": of(
            RAISED, parts=SPAWN, forked=WELL, imported=replace(GIVEN, end="raised", batches=0)
        ),
        "forked workers differ from main as well": of(
            parts=SPAWN, alone=DREW, forked=replace(DREW, drawn=(("1", "3"),)), imported=GIVEN
        ),
        "forked workers lose samples as well": of(
            parts=SPAWN, alone=DREW, forked=replace(DREW, drawn=(("1",),)), imported=GIVEN
        ),
        "forked workers repeat samples as well": of(
            parts=SPAWN, alone=DREW, forked=replace(DREW, drawn=(("1", "2") * 2,)), imported=GIVEN
        ),
    },
    "copy_on_read": {"little is read": of(memory=replace(READ, read=((*NAMES[:4], 0.01),)))},
    "gc_dirties_pages": {"the loop did it": of(memory=replace(COLLECTED, copied_in_loop=2))},
    "growing_cache": {
        "the cache has a bound": of(
            parts=MANY, memory=replace(CACHE, grown=(("dataset.cache", "dict", 1.0, 0),))
        )
    },
    "reference_cycle": {"a collection frees nothing": of(memory=CACHE)},
    "heap_growth": {"it levels off": of(memory=replace(HEAP, late_as_it_is=12, late_samples=60))},
    "kept_batches": {
        "as many as before": of(replace(KEPT, kept=8, kept_then=((32, 8), (64, 8)))),
        "no more than an epoch's": of(called_again=replace(KEPT, passes=(("a",) * 97,) * 2)),
    },
    "memmap_copied": {
        "workers are forked": of(travel=MAPPED),
        "the file is small": of(
            parts=SPAWN, travel=Travel(mapped=(("dataset.images", 20 * MB),), bytes=20 * MB)
        ),
        "the dataset leaves it out": of(parts=SPAWN, travel=replace(MAPPED, bytes=900)),
    },
    "view_of_a_giant": {"copies are as large": of(views=Views(6, 9.5, 9.0))},
    "prefetch_budget": {"two are slower": of(FULL, ahead=Ahead(30, 4, 0.01, 0.01, 0.02, 0.03))},
    "shm_exhausted": {"arrays don't fit either": of(NO_SHM, arrays=RAISED)},
    "too_many_open_files": {
        "nothing is kept": of(NO_FILES, nothing_kept=RAISED, more_files=RAISED)
    },
    "no_batch": {
        "the loop left the epoch early": of(replace(EMPTY, finished=(False,)), alone=EMPTY),
        "the loop didn't ask": of(Measures("finished"), alone=None),
        "without workers, there are some": of(EMPTY, parts=DROPS),
        "the sampler raised": of(replace(RAISED, raised=None), alone=None),
        "the second epoch has some": of(replace(WELL, batches=1, counted=(0, 8)), alone=None),
        "a sample stops the epoch": of(
            EMPTY, alone=EMPTY, culprit=replace(SAMPLE, kind="StopIteration")
        ),
    },
    "orphaned_segments": {
        "none is left": of(segments=Segments(4, 0, "file_descriptor", "file_descriptor")),
        "one that was caught in its making": of(
            segments=Segments(4, 1, "file_descriptor", "file_descriptor")
        ),
    },
    "tiny_tensors": {
        "sending is a small part": slow(sending=paces(0.05, 0.04)),
        "one turn shows nothing": slow(sending=paces(0.05, 0.005, turns=1)),
        "a turn is otherwise": slow(sending=Paces((0.05, 0.05), (0.005, 0.05))),
    },
    "cheap_samples": {
        "workers don't help": slow(workerless=paces(0.001, 0.0009)),
        "sending is slow": slow(workerless=paces(0.06, 0.005), sending=paces(0.05, 0.005)),
        "starting is slow": slow(workerless=paces(0.06, 0.005), one_iterator=paces(0.1, 0.001)),
    },
    "loader_per_step": {
        "starting is a small part": slow(one_iterator=paces(0.5, 0.4, turns=2)),
        "an iterator costs little": slow(one_iterator=paces(0.004, 0.001)),
    },
    "head_of_line": {
        "the order changes little": slow(any_order=paces(1.6, 1.4, turns=2)),
        "the slow one isn't slow": slow(any_order=paces(0.1, 0.01, turns=2)),
    },
    "idle_workers": {
        "one has less to do": of(shares=replace(DEALT, shares=(62, 2)), parts=READS),
        "there's too little to deal out": of(
            shares=replace(DEALT, whole=20, shares=(20, 0)), parts=READS
        ),
        "there are too many workers for the samples": of(
            shares=replace(DEALT, whole=30, shares=(1,) * 30 + (0, 0)),
            parts=replace(READS, workers=32),
        ),
        "nothing was counted": of(shares=replace(DEALT, shares=()), parts=READS),
    },
    "oversubscribed": {
        "a core for each": threads((1, 1), (1.0, 1.0), (1.0, 1.0), cores=8),
        "they are needed": threads((1, 1), (0.5, 1.0), (0.5, 1.0)),
        "alone, too": threads((4, 4), (1.0, 1.0), (1.0, 1.0)),
    },
    "one_core": {
        "a core for each": of(replace(WELL, cores=(2, 2))),
        "main has one core, too": of(replace(WELL, cores=(1, 1))),
        "there's only one worker": of(replace(WELL, cores=(1, 2)), parts=replace(PARTS, workers=1)),
        "nothing was counted": of(replace(WELL, cores=(0, 2))),
    },
    "wrong_chunks": {
        "the files are read twice": of(samples=replace(READ_AGAIN, read=2 * MB)),
        "samples are that large": of(samples=replace(READ_AGAIN, bytes=MB)),
        "reading is fast": of(samples=replace(READ_AGAIN, typical=0.0002)),
        "the order matters little": of(reordered=Reordered(100, seconds=1.0, ascending=0.6)),
        "samples are fast in any order": of(reordered=Reordered(100, seconds=0.03, ascending=0.01)),
        "a call always returns the same": of(recomputed=Recomputed(12, 1, "a.py, line 3", 0.8, MB)),
        "no call repeats": of(recomputed=Recomputed(12)),
    },
    "same_on_all_ranks": {
        "each rank draws its own numbers": of(two_ranks=replace(WAITED, errors=("", ""))),
        "it's the only rank": of(),
    },
    "uneven_ranks": {
        "the loop makes no collective calls": of(
            two_ranks=replace(WAITED, finished=((True,), (True,)), errors=("", ""))
        ),
        "the other rank is late": of(two_ranks=replace(WAITED, finished=((False,), (False,)))),
        "both ranks get as many": of(two_ranks=replace(WAITED, batches=((8,), (8,)))),
        "it raises at once": of(two_ranks=replace(WAITED, after=(0.1, 0.1))),
        "a worker raises": of(two_ranks=replace(WAITED, errors=("", ""))),
        "there's no loop": of(two_ranks=TwoRanks(32, 0, 32)),
    },
    "resume_repeats": {
        "it goes on with the next sample": resumed("24- 40", "24- 40"),
        "the loop stops sooner, and leaves its last epoch too": resumed("24- 24-", "24- 24- 24-"),
        "the next call goes on with the next sample": called("abcd- efgh-", "abcd- efgh-"),
        "the next call goes on, and ends the epoch": called("abcd- ef abcd-", "abcd- ef abcd-"),
        "each call begins again": called("abcd- abcd-", "abcd- abcd-"),
        "each call begins again, and the doctor stops the second": called(
            "abcd- ab-", "abcd- abcd-"
        ),
        "only the first call leaves its epoch": called("abcd- fbdeca", "abcd- cdefab"),
        "workers share the stream out": called("acbd- egfh-", "abcd- efgh-"),
        "each call gets other random samples": called("abcd- efgh-", "ijkl- mnop-"),
        "each call shuffles again": called("abcd- kieg-", "abcd- efgh-"),
        "the sampler draws random numbers as it goes": called(
            "abcd- ghij-", "abcd- efgh-", run="klmn-"
        ),
        "the sampler draws with replacement": called("abca- caeb-", "abca- dbca- eb"),
        "the loop doesn't leave its epoch": called("abcd ghij", "abcd efgh"),
        "a field has few values": called("abab- abba-", "abab- baab-", fields=True),
        "the second call's batches have no such field": replace(
            NAMED,
            called_again=replace(NAMED.called_again, fields=(NAMED.called_again.fields[0], ())),
        ),
        "random samples go on with the next one": called("abcd- efgh-", "abcd- efgh-", fields=True),
        "every epoch has another length": resumed("64 56", "64 60"),
        "the loop stops when time is up": resumed("24- 64 16-", "24- 48-"),
        "the loop is longer with one seed": resumed("24- 8", "24- 40", again="24- 48"),
        "epochs without workers vary": resumed(
            "24- 8", "24- 40", reseeded=_iterations("24- 50"), seeded=_iterations("24- 9")
        ),
        "the runs with one seed failed": resumed("24- 8", "24- 40", seeded=HUNG),
        "there's no loop": resumed("24- 8", "24- 40", parts=replace(PARTS, loop=False)),
        "the stream loses a part of each epoch": resumed(
            "24- 56", "24- 64", parts=READS, shares=replace(DEALT, shares=(28, 28))
        ),
    },
    "sampler_with_state": {
        "it makes no difference": of(fetched=Fetched(dealt_once=True)),
        "there are no workers": of(
            fetched=Fetched(begun=(32, 32, 0)), parts=replace(PARTS, workers=0)
        ),
    },
    "nested_persistent": {
        "left for the next one": nested((16, 64), (16, 64)),
        "it isn't resumed": nested((16, 64), (64, 64), resumed=0),
    },
}


def fits(evidence: Evidence) -> dict[str, Finding]:
    """Return the findings of the failure modes that fit the evidence, by name."""
    found = {each.name: RULES[each.name](evidence) for each in CATALOG}
    return {name: finding for name, finding in found.items() if finding}


@pytest.mark.parametrize(("name", "evidence"), FITS)
def test_evidence_of_a_failure_fits_it_and_no_other(name: str, evidence: Evidence) -> None:
    assert list(fits(evidence)) == [name]


@pytest.mark.parametrize(("name", "why"), [(name, why) for name in NEAR for why in NEAR[name]])
def test_what_only_looks_like_it_does_not_fit(name: str, why: str) -> None:
    """Check that the named failure mode doesn't fit, or that none fits if there's no name."""
    found = fits(NEAR[name][why])
    assert name not in found if name else not found


def test_every_failure_mode_has_evidence_that_fits() -> None:
    assert {name for name, _ in FITS} == {each.name for each in CATALOG}


def test_a_finding_is_in_words_of_the_loader() -> None:
    told = {name: fits(evidence)[name] for name, evidence in FITS}
    assert "`dataset.lock`" in told["held_lock"].where
    assert "keep" in told["tiny_tensors"].fix
    assert "dataset[7]" in told["head_of_line"].evidence
    assert told["oversubscribed"].where == "worker_init_fn=start"
    assert fits(slow(run=replace(WELL, cores=(1, 2))))["one_core"].where == "worker_init_fn=start"


def test_a_run_that_ends_through_a_shared_file_is_told_as_that_first() -> None:
    raised = Measures("raised", kind="BadZipFile", raised="BadZipFile")
    finding = fits(of(raised, handles=FILE))["shared_file_offset"]
    assert finding.promise == "ends"
    assert "20" in finding.evidence and "dataset.scans" in finding.fix


def test_an_exception_without_a_name_is_told_with_its_sample_and_line() -> None:
    (found,) = findings(of(RAISED, culprit=SAMPLE))
    assert (found.name, found.where) == ("raises", SAMPLE.at)
    assert "dataset[9]" in found.evidence
    (found,) = findings(of(RAISED, culprit=replace(COLLATE, blame="none")))
    assert found.name == "none_in_batch"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA", "spawn"),
        ("cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned", "pin_memory"),
        ("ValueError: 9", ""),
    ],
)
def test_an_exception_that_only_workers_or_the_loader_raise_comes_with_what_is_known_of_it(
    said: str, told: str
) -> None:
    (found,) = findings(of(Measures("raised", said, "RuntimeError", said=said)))
    assert found.name == "raises"
    assert (told in found.fix) if told else (found.fix == "")


def test_a_batch_that_the_system_lets_no_worker_send_comes_with_what_is_known_of_it() -> None:
    hung = replace(HUNG, said=FEEDING + NO_SOCKET, stderr=FEEDING + NO_SOCKET)
    (found,) = findings(of(hung, culprit=Culprit(""), samples=Samples(4)))
    assert (found.name, found.promise) == ("ends", "ends")
    assert "TMPDIR" in found.fix


def test_what_samples_cannot_be_joined_for_is_found_by_leaving_it_out() -> None:
    def join(samples: list[Any]) -> Any:
        assert len({len(each) for each in samples}) == 1
        return samples

    assert blame(join, ["ab", None, "cd"], [4, 5, 6], None) == ("none", "dataset[5] is None")
    kind, told = blame(join, [[1, 2], [1, 2, 3]], [4, 5], None)
    assert (kind, told) == ("ragged", "dataset[4] is of length 2, dataset[5] is of length 3")
    assert blame(lambda samples: 1 / 0, [[1], [2]], [0, 1], None) == ("", "")


# Problems that the loader would have on other machines


def test_what_cannot_travel_is_said_of_forked_workers_only() -> None:
    [said] = elsewhere(of(travel=SOCKET))
    assert "`dataset.net`" in said
    assert not elsewhere(of(NO_PICKLE, parts=SPAWN, travel=SOCKET))


def test_batches_larger_than_the_shared_memory_of_a_container_are_counted() -> None:
    assert not elsewhere(of(replace(WELL, batch_bytes=12 << 20)))
    assert elsewhere(of(replace(WELL, batch_bytes=20 << 20)))


def test_a_stream_that_takes_no_share_by_rank_is_named() -> None:
    assert elsewhere(of(two_ranks=TwoRanks(32, 32, 32)))
    assert not elsewhere(of(two_ranks=TwoRanks(32, 0, 32)))
    assert not elsewhere(of(two_ranks=TwoRanks(32, 32, 1)))


# Whether each failure mode has a rule, and each field of the evidence an experiment. Then one more
# problem on other machines, and when the probes `state` and `waits` are needed.


def test_every_failure_mode_has_a_rule_and_breaks_a_promise() -> None:
    assert [*RULES] == [each.name for each in FACTS]
    assert {each.promise for each in FACTS} == {*PROMISES}
    assert all(rule.__doc__ for rule in RULES.values())


@pytest.mark.parametrize("promise", PROMISES)
def test_every_rule_has_a_failure_mode(promise: str) -> None:
    module = import_module(f"dltutor.diagnosis.rules.{promise}")
    rules = {
        name
        for name, each in vars(module).items()
        if isfunction(each) and each.__module__ == module.__name__ and not name.startswith("_")
    }
    assert rules == {each.name for each in FACTS if each.promise == promise}


def test_each_experiment_asks_another_question() -> None:
    found = experiments()
    assert len({each.question for each in found}) == len(found)
    assert all(each.question.endswith("?") for each in found)


def test_each_experiment_fills_a_field_of_the_evidence() -> None:
    # Python doesn't evaluate the annotations in evidence.py, so each type is a string.
    types = {each.name: str(each.type).split(" | ") for each in fields(Evidence)}
    assert {each.field for each in experiments()} == {*types}
    for each in experiments():
        assert each.record.__name__ in types[each.field], each.field


def test_what_can_be_pickled_but_not_unpickled_is_told_where_workers_are_not_forked() -> None:
    [said] = elsewhere(of(travel=UNREADABLE))
    assert "Wrapper" in said and "RecursionError" in said
    assert not elsewhere(of(NO_PICKLE, parts=SPAWN, travel=UNREADABLE))


def test_results_of_a_stream_are_compared_only_if_the_samples_are_the_same() -> None:
    whole = replace(EACH_ONCE, result="8 samples")
    assert state.needed(of(whole, parts=LOOPED, alone=replace(whole, result="9 samples")))
    lossy = replace(whole, drawn=(tuple("abcd"),), result="4 samples")
    assert not state.needed(of(lossy, parts=LOOPED, alone=whole))


def test_an_exception_after_a_long_wait_may_be_that_of_a_wait_with_a_limit() -> None:
    raised = Measures("raised", "TimeoutError", "TimeoutError", raised="TimeoutError", after=10.0)
    assert waits.needed(of(raised))
    assert not waits.needed(of(replace(raised, after=0.1)))
    assert not waits.needed(of(replace(raised, raised=None)))  # main raised it
    assert not waits.needed(of(raised, parts=replace(PARTS, method="spawn")))
