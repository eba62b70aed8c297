"""Check that made-up evidence shows the right broken promise, and similar evidence shows none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from recorded import PARTS

from dltutor.diagnosis.conclusions import findings
from dltutor.diagnosis.difference import same_field
from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.examination import silent
from dltutor.diagnosis.measures import Measures
from dltutor.diagnosis.other_machines import elsewhere
from dltutor.diagnosis.probes.fetched import Fetched
from dltutor.diagnosis.probes.leftovers import Leftover
from dltutor.diagnosis.probes.made_as_rank import MadeAsRank
from dltutor.diagnosis.probes.memory import Memory
from dltutor.diagnosis.probes.new_interpreter import NewInterpreter
from dltutor.diagnosis.probes.order import Order
from dltutor.diagnosis.probes.pinned import Pinned
from dltutor.diagnosis.probes.recomputed import Recomputed
from dltutor.diagnosis.probes.reordered import Reordered
from dltutor.diagnosis.probes.samples import Samples
from dltutor.diagnosis.probes.shares import Shares
from dltutor.diagnosis.probes.travel import Travel
from dltutor.diagnosis.promises import broken
from dltutor.diagnosis.promises.verdicts import verdicts
from dltutor.diagnosis.running.pace import Paces
from dltutor.tables import MB

RUN = Measures("finished", batches=8, passes=(("a", "b"),), drawn=(("1", "2", "3"),), counted=(3,))
RUN = replace(RUN, finished=(True,), pace=0.01, first=0.1)
SPAWN = replace(PARTS, method="spawn")
STREAM = replace(PARTS, stream=True, batches=None, length=None)
STAYS = replace(PARTS, persistent=True, loop=True)
TOLD = replace(PARTS, hooks=("sampler",))
OF_1000 = replace(PARTS, length=1000)
LOOP = replace(PARTS, loop=True)
LEFT = Order(told=2, epochs=2, repeated=1, early=400, follows=True)
LOST_DIGITS = ("[1]", "['account']", "float32", 4210004680, 4210004736, 14, 14)
BY_TWO = replace(STREAM, batch_size=2)


def run(*epochs: Sequence[str], **others: Any) -> Measures:
    """Make the record of a run. Every letter or string in an epoch is a batch of one sample."""
    each = tuple(map(tuple, epochs))
    many = {"passes": each, "drawn": each, "counted": tuple(map(len, each))}
    return replace(RUN, **many | {"finished": (True,) * len(each)} | others)


def padded(second: str) -> Measures:
    """Make the record of two epochs of samples that have an id and a padded text.

    `second` has the second epoch's ids, which are letters. The first epoch's ids are a to h.
    """
    epochs = ("abcdefgh", second)
    fields = [(("['id']", tuple(ids)), ("['text']", tuple("stuvwxyz"))) for ids in epochs]
    return run("01234567", "01234569", padded=("['text']",), fields=tuple(fields))


def begun(epoch: str) -> Measures:
    """Make the record of a run that the doctor stopped in the first epoch, because time was up."""
    return run(epoch, end="enough", finished=(False,))


def ill(as_it_is: Measures = RUN, **found: Any) -> Evidence:
    return Evidence(**{"parts": PARTS, "run": as_it_is, "alone": RUN, "samples": drawn()} | found)


def drawn(**found: Any) -> Samples:
    """Make the record of samples that main draws."""
    return Samples(**{"looked": 32, "typical": 0.004, "bytes": 100} | found)


def hung_after(count: int) -> Samples:
    """Make the record of a sample that never arrived, after `count` others."""
    return Samples(0, ended="hung", at=7, before=count)


def changed(**changes: Any) -> Evidence:
    return ill(replace(RUN, **changes))


def in_two_epochs(**changes: Any) -> Evidence:
    """Make evidence from a run with two epochs of 80 samples each."""
    passes = (("a", "b"), ("a", "b"))
    two = {"passes": passes, "drawn": passes, "counted": (80, 80), "finished": (True, True)}
    return changed(**two | changes)


def returned(*numbers: float) -> Evidence:
    """Make evidence from what the loop returns in five runs.

    The runs are `run`, `alone`, `reseeded`, `seeded`, and `seeded_again`. The last two have workers
    and the seed of `reseeded`. If there are fewer numbers, the other runs return the first one.
    """
    numbers = (*numbers, *numbers[:1] * (5 - len(numbers)))
    runs = [replace(RUN, numbers=(each,), returned=f"{each}") for each in numbers]
    names = ("alone", "reseeded", "seeded", "seeded_again")
    return ill(runs[0], **dict(zip(names, runs[1:], strict=True)))


def returned_with_one_seed(number: float, **changes: Any) -> Evidence:
    """Make evidence from a loop that returns `number` in both runs with workers and one seed.

    Without workers, it returns 5.0 with that seed, and 23.2 with another one.
    """
    seeded = replace(RUN, numbers=(number,), **changes)
    return replace(returned(9.0, 23.2, 5.0), seeded=seeded, seeded_again=seeded)


def in_another_order(found: Evidence, *orders: str) -> Evidence:
    """Return the evidence with unfinished runs, whose samples arrive in these orders.

    The orders are for `run`, `alone`, and `reseeded`.
    """
    runs = {"run": found.run, "alone": found.alone, "reseeded": found.reseeded}
    unfinished = {"finished": (False,), "passes": ((),)}
    changed = {
        name: replace(each, drawn=(tuple(order),), **unfinished)
        for (name, each), order in zip(runs.items(), orders, strict=True)
        if each is not None
    }
    return replace(found, **changed)


def served(as_it_is: float = 0.016, blocked: float = 0.8, workers: int = 2) -> Evidence:
    """Make evidence about workers that wait at one line. By default, main alone is just as fast.

    `as_it_is` has the seconds per batch with workers, and `blocked` has the share of the time that
    the workers wait.
    """
    parts = replace(PARTS, workers=workers)
    paces = Paces((as_it_is,) * 2, (0.016,) * 2, blocked=blocked, line="a.py, line 7")
    return ill(workerless=replace(paces, share=0.6, inside=0.9), parts=parts)


def out_of_turn(as_it_is: float, alone: float, in_turn: float) -> Evidence:
    """Make evidence from a loop's results with workers, without them, and with them in order."""
    first, second, third = (
        replace(run(samples), numbers=(number,), returned=f"{number}")
        for samples, number in (("cab", as_it_is), ("abc", alone), ("abc", in_turn))
    )
    return ill(first, alone=second, in_turn=third, parts=replace(PARTS, in_order=False))


def many_out_of_turn(different: int) -> Evidence:
    """Make evidence from a loop that returns 300 numbers, `different` of them in another order."""
    found = out_of_turn(1.0, 2.0, 2.0)
    alone = tuple(map(float, range(300)))
    moved = (*alone[: 300 - different], *reversed(alone[300 - different :]))
    runs = (found.run, moved), (found.alone, alone), (found.in_turn, alone)
    first, second, third = (replace(each, numbers=numbers) for each, numbers in runs if each)
    return replace(found, run=first, alone=second, in_turn=third)


def stream(as_it_is: Measures, alone: Measures, **found: Any) -> Evidence:
    return ill(as_it_is, alone=alone, parts=STREAM, **found)


def mapped(size: int, method: str) -> Evidence:
    """Make evidence about an array that maps `size` MB of a file, which a pickle would copy."""
    travel = Travel(mapped=(("dataset.images", size * MB),), bytes=size * MB)
    return ill(parts=replace(PARTS, method=method), travel=travel)


def called(*epochs: str) -> Measures:
    """Make the record of a loop that's called once per epoch. Each letter is a sample."""
    drawn = tuple(map(tuple, epochs))
    return replace(RUN, passes=drawn, finished=(True,) * len(epochs), drawn=drawn)


def computed(seconds: float) -> Measures:
    return run("1" * 40, computed=seconds)


def stayed(anew: float, once: float) -> Evidence:
    """Make evidence from the CPU seconds of two epochs, with new and with persistent workers."""
    found = in_two_epochs(computed=anew)
    return replace(found, stayed=replace(found.run, computed=once))


def forgotten(typical: float, redrawn: float, anew: float) -> Evidence:
    """Make evidence about two epochs of 40 samples.

    Args:
        typical: The seconds that main needs for a sample.
        redrawn: The same for a sample that's drawn again.
        anew: The CPU seconds of the second epoch's new workers.
    """
    found = in_two_epochs(computed=2 * anew, anew=anew, counted=(40, 40))
    return replace(found, samples=drawn(typical=typical, redrawn=redrawn))


def on_two_ranks(**found: Any) -> Evidence:
    """Make evidence about two ranks that divide 400 samples. 100 go to both, and 100 to neither."""
    dealt = {"length": 400, "dealt": (200, 200), "both": 100, "neither": 100, "batch": 8}
    return ill(made_as_rank=MadeAsRank(**dealt | found))


NO_INDICES = Samples(0, ended="sampler")
SIXTY = tuple(map(str, range(60)))
WHOLE = run(SIXTY)


def counted(length: int, as_it_is: Measures) -> Evidence:
    """Make evidence about a stream of 60 samples that claims this length."""
    return Evidence(replace(STREAM, length=length), as_it_is, alone=WHOLE)


# W0 draws with the seed `epoch`, and W1 with `epoch + 1`, in batches of two. So in the second
# epoch, W0 repeats what W1 drew in the first.
COLLIDE = tuple(
    tuple(
        f"{epoch + worker}: {2 * batch + row}"
        for batch in range(8)
        for worker in (0, 1)
        for row in (0, 1)
    )
    for epoch in (0, 1)
)
APART = tuple(tuple(f"{epoch} {row}" for row in range(32)) for epoch in (0, 1))
ALIKE = replace(RUN, passes=2 * RUN.passes, finished=(True, True), drawn=2 * (tuple("abcd"),))
RANDOM = drawn(random=24)
SLOW_ONE = drawn(slowest=1.0)
GROWS = Memory(late_as_it_is=90.0, late_collected=88.0, late_returned=91.0, samples=40)
SLOWLY = replace(GROWS, late_as_it_is=20.0, late_collected=21.0, late_returned=22.0)
SLOWLY = replace(SLOWLY, late_repeated=40.0, later_epochs=66.0)

SEEDED = run("abc", state="the same")


def in_new_interpreters(forked: str) -> Evidence:
    """Make evidence about spawned workers whose epochs differ. Forked workers deliver `forked`."""
    parts = replace(SPAWN, persistent=True)
    spawned, alone = run("efgh", "ijkl"), run("abcd", "abcd")
    return ill(spawned, alone=alone, reseeded=run("abcd"), forked=run(forked), parts=parts)


def reseeds(**loader: Any) -> Evidence:
    """Make evidence about random samples, and a sampler that seeds torch's global generator."""
    return ill(
        run("abcd", "efgh"),
        alone=run("ijkl", "mnop"),
        samples=RANDOM,
        fetched=Fetched(seeds=True),
        parts=replace(PARTS, **loader),
    )


def kept(again: str = "vwxy", **others: Any) -> Evidence:
    """Make evidence about persistent workers that deliver four samples again in the next epoch.

    With another seed, the samples are different. `again` is a second run with that seed.
    """
    runs = {"reseeded": run("vwxy"), "repeated": run(again), "alone": run("ijklmn", "ijklmn")}
    apart = {"parts": replace(PARTS, persistent=True), "fetched": Fetched(looked=16)}
    return ill(run("abcdef", "abcdgh"), **apart | runs | others)


def identified(epoch: str, plain: str = "abcdef", again: str = "fedcba") -> Evidence:
    """Make evidence about random samples with ids, which are letters.

    Args:
        epoch: The ids in an epoch with workers.
        plain: The ids in an epoch without workers.
        again: The ids in an epoch without workers, with another seed.
    """
    epochs = (("1234567", epoch), ("890xyzu", plain), ("vwopqrs", again))
    ours, alone, other = (
        run(each[: len(ids)], fields=((("['id']", tuple(ids)),),)) for each, ids in epochs
    )
    return ill(ours, alone=alone, reseeded=other, samples=drawn(random=9))


def seeded_twice(with_workers: str, **loader: Any) -> Evidence:
    """Make evidence about random samples in runs with one seed, two with workers and two without.

    The first run with workers delivers "mnop", and the second delivers `with_workers`.
    """
    return ill(
        run("abcd"),
        alone=run("efgh"),
        reseeded=run("ijkl"),
        repeated=run("ijkl"),
        seeded=run("mnop"),
        seeded_again=run(with_workers),
        samples=RANDOM,
        parts=replace(PARTS, generator=True, **loader),
    )


def restarted(*epochs: str, **others: Any) -> Evidence:
    """Make evidence about a stream whose samples depend on the seed, in persistent workers."""
    parts, alone = replace(STREAM, persistent=True), run("ijkl", "ijkl")
    given = {"parts": parts, "alone": alone, "reseeded": run("mnop")} | others
    return ill(run(*epochs), **given)


SPREAD = tuple(range(500))


def packed(ngrams: Sequence[int]) -> Evidence:
    """Make evidence about a stream whose samples with workers are all different from those without.

    `ngrams` has the counts of n-grams with workers. Without workers, they're SPREAD.
    """
    alone = run("efgh", ngrams=SPREAD)
    return ill(run("abcd", ngrams=tuple(ngrams)), alone=alone, reseeded=alone, parts=STREAM)


# For each promise, evidence that breaks it, and similar evidence that breaks no promise.
BREAKS: dict[str, dict[str, tuple[Evidence, *tuple[Evidence, ...]]]] = {
    "ends": {
        "a worker died": (changed(end="worker died", codes=(None, -9)), ill()),
        "many more batches than the loader says, and no end": (
            ill(begun("a" * 24), parts=replace(STREAM, batches=8)),
            ill(begun("a" * 10), parts=replace(STREAM, batches=8)),
            ill(begun("a" * 24), parts=STREAM),
        ),
        "a late end, not without workers": (
            changed(ending=5.1),
            changed(ending=0.4),
            ill(replace(RUN, ending=5.1), alone=replace(RUN, ending=5.0)),
            ill(replace(RUN, ending=5.8, first=14.0), parts=SPAWN),
        ),
        "a sampler that loops forever": (
            ill(Measures("hung", batches=8), alone=None, samples=NO_INDICES),
            ill(Measures("hung"), alone=None, samples=NO_INDICES),
        ),
        "a sample that never comes, after others have": (
            ill(Measures("hung"), alone=None, samples=hung_after(3)),
            ill(Measures("hung"), alone=None, samples=hung_after(0)),
        ),
        "a sample that never comes, and a hang when no sample is being drawn": (
            ill(Measures("hung"), alone=None, samples=hung_after(3)),
            ill(Measures("hung"), alone=None, samples=replace(hung_after(3), at=-1)),
        ),
    },
    "complete": {
        "ranks that divide their own orders": (
            on_two_ranks(),
            on_two_ranks(both=8, neither=8),  # shares of equal length may overlap
            on_two_ranks(dealt=(400, 400), both=400, neither=0),  # both get all samples
            on_two_ranks(dealt=(40, 40), both=4, neither=324),  # each gets only 40
            on_two_ranks(repeated=60),  # drawn with replacement
            on_two_ranks(dealt=()),
        ),
        "some are missing": (
            ill(run("ab"), alone=run("abc")),
            ill(run("ab", finished=(False,)), alone=run("abc")),
        ),
        "workers deliver nothing": (
            ill(run("", batches=0), alone=run("abc", batches=3)),
            ill(run("", batches=0, finished=(False,)), alone=run("abc", batches=3)),
        ),
        "some come twice": (ill(run("abcc"), alone=run("abc")), ill(run("cba"), alone=run("abc"))),
        "len() of a stream is too small": (
            counted(48, WHOLE),
            counted(60, WHOLE),
            counted(48, replace(WHOLE, finished=(False,))),
            counted(48, run(SIXTY, SIXTY[:40])),  # the stream's length is random
            Evidence(replace(STREAM, length=61, drop_last=True), WHOLE, alone=WHOLE),
        ),
        "used up": (Evidence(PARTS, run("ab", "")), Evidence(PARTS, run("ab", "ab"))),
        "the sampler counts differently": (
            ill(samples=drawn(dealt=((8, 8), (8, 9)))),
            ill(samples=drawn(dealt=((8, 8), (5, 5)))),
        ),
        "the sampler leaves out what it counts": (
            ill(samples=drawn(dealt=((9, 8), (9, 8)), left_out=(7, 5, 4))),
            ill(samples=drawn(dealt=((8, 8), (8, 8)), left_out=(3, 2, 4))),
        ),
        "an epoch leaves some out": (
            Evidence(STREAM, run("abcdefgh", "abcdefgi")),
            Evidence(STREAM, run("abcdefgh", "ijklmnop")),
            Evidence(STREAM, padded("abcdefgh")),
        ),
        "an epoch of padded samples leaves some out": (
            Evidence(STREAM, padded("abcdefgi")),
            Evidence(STREAM, padded("hgfedcba")),
            Evidence(STREAM, replace(padded("abcdefgi"), fields=((), ()))),
        ),
        "fewer than without workers": (
            stream(run("abcd", "efgh"), run("ijklqr", "mnopst")),
            stream(run("abcd", "efgh"), run("ijkl", "mnop")),
            stream(run("abcd", "efgh"), run("ijkl", "mnop"), forked=run("qrstuv")),
        ),
        "other counts each time": (
            stream(run("abcde", "fghi"), run("ijkl", "mnop")),
            stream(run("abcde", "fghi"), run("ijkl", "mnopq")),
        ),
        "ids come twice, and others never": (
            identified("affbdd"),
            identified("fbadce"),
            identified("abcabc"),  # every id repeats, as if each worker counted its own samples
            identified("acacac"),  # the same, but each worker counts in steps of two
            identified("affbxd"),  # "x" never arrives without workers
            identified("affbdd", plain="abcdee"),
            identified("affbdd", again="abcdeg"),
        ),
        "one batch again": (ill(fetched=Fetched(reused=True)), ill(fetched=Fetched())),
        "a sampler that drops the rest of each bucket": (
            ill(samples=drawn(left_out=(30, 24, 20)), parts=OF_1000),
            ill(samples=drawn(left_out=(30, 30, 20)), parts=OF_1000),
            ill(samples=drawn(left_out=(30, 18, 20)), parts=OF_1000),
            ill(samples=drawn(left_out=(300, 240, 20)), parts=OF_1000),
            ill(samples=drawn(left_out=(30, 24, 20)), parts=replace(OF_1000, drop_last=True)),
        ),
        "a sampler that drops an index after each batch": (
            ill(samples=drawn(dealt=((31, 31), (30, 30)), left_out=(30, 30, 20)), parts=OF_1000),
            ill(samples=drawn(dealt=((40, 40), (40, 40)), left_out=(30, 30, 20)), parts=OF_1000),
            ill(samples=drawn(dealt=((30, 30), (30, 30)), left_out=(30, 30, 20)), parts=OF_1000),
            ill(samples=drawn(dealt=((29, 29), (30, 30)), left_out=(30, 30, 20)), parts=OF_1000),
        ),
    },
    "same": {
        "many results where batches arrive as they're ready": (
            many_out_of_turn(200),
            many_out_of_turn(0),
        ),
        "another sample": (
            ill(run("abd"), alone=run("abc")),
            ill(run("abc"), alone=run("abc")),
            ill(run("abd"), alone=run("abc"), samples=drawn(random=3)),
        ),
        "another sample, while the random ones are held": (
            ill(run("abd"), alone=run("abc"), samples=drawn(random=3), reseeded=run("abc")),
            ill(run("abd"), alone=run("abc"), samples=drawn(random=3), reseeded=run("efg")),
        ),
        "another sample, while the loop sets the seed": (
            ill(run("abd"), alone=SEEDED, reseeded=SEEDED),
            ill(run("abd"), alone=SEEDED, reseeded=SEEDED, samples=drawn(random=3)),
        ),
        "another result where batches arrive as they're ready": (
            out_of_turn(1.0, 2.0, 2.0),
            out_of_turn(1.0, 2.0, 1.0),
            out_of_turn(2.0, 2.0, 2.0),
        ),
        "another sample with the same seed": (seeded_twice("mnoq"), seeded_twice("mnop")),
        "other samples of a stream": (
            packed(SPREAD[::-1]),
            packed(SPREAD),  # the same values, cut differently
            replace(packed(SPREAD), alone=replace(packed(SPREAD).run, ngrams=())),
        ),
        "another beginning": (
            ill(begun("abd"), alone=begun("abc"), fetched=Fetched()),
            ill(begun("abd"), alone=begun("abc"), fetched=Fetched(dealt_once=True)),
            ill(begun("abd"), alone=begun("abc")),  # the order isn't known
        ),
        "the second epoch differs": (
            ill(run("abcd", "efgh"), alone=run("abcd", "ijkl"), fetched=Fetched()),
            ill(run("abcd", "efgh"), alone=run("abcd", "hgfe"), fetched=Fetched()),
        ),
        "workers that stay learn nothing": (
            Evidence(STAYS, run("abcd", "abcd"), alone=run("abcd", "dcba")),
            Evidence(STAYS, run("abcd", "abcd"), alone=run("abcd", "abcd")),
        ),
        "the same again, in new workers": (
            Evidence(STREAM, run("abcd", "abcd"), alone=run("abcd", "dcba")),
            Evidence(STREAM, run("abcd", "abcd"), alone=run("abcd", "abcd")),
            Evidence(replace(STAYS, loop=False), run("ab", "ab"), alone=run("ab", "ba")),
        ),
        "another order": (ill(reordered=Reordered(32, 4, "3", "23")), ill(reordered=Reordered(32))),
        "the loop returns something else": (
            returned(0.46, 23.2, 23.2),
            returned(23.3, 23.2, 23.2),
            returned(0.46, 23.2, 23.5, 23.4),  # the result is random
            returned(0.46, 0.0, 0.0),  # the loop measures its workers
            returned(0.26, 0.02, 0.02, 0.21),  # the loop measures memory
            returned(0.26, 0.02, 0.02, 0.26, 0.21),  # and two runs agree by chance
            replace(returned(0.46, 23.2, 23.2), seeded=None),
            in_another_order(returned(0.46, 23.2, 23.2), "321", "123", "123"),
            in_another_order(returned(0.46, 23.2, 23.2), "124", "123", "321"),
        ),
        "the loop returns something else, and not because of the order": (
            in_another_order(returned(0.46, 23.2, 23.2), "321", "123", "213"),
            in_another_order(returned(23.3, 23.2, 23.2), "321", "123", "213"),
        ),
        "the loop returns something else with one seed": (
            returned_with_one_seed(23.2),
            returned_with_one_seed(5.0),
            returned_with_one_seed(23.2, drawn=(("a", "b"),)),
            in_another_order(returned_with_one_seed(23.2, drawn=((),)), "", "", ""),  # no samples
            replace(returned_with_one_seed(23.2), seeded_again=replace(RUN, numbers=(23.9,))),
        ),
        "a stream has another sample": (
            stream(run("abcax"), run("abcbc"), reseeded=run("abcbc")),
            # the stream repeats its data
            stream(run("abcab"), run("abcbc"), reseeded=run("abcbc")),
        ),
        "the loop changes batches in place": (
            ill(copied=run("124")),
            ill(copied=RUN),
            ill(copied=run("124", end="hung")),
        ),
        "an attribute is lost on the way": (
            ill(fetched=Fetched(lost=(("[0]", "scale"),))),
            ill(fetched=Fetched()),
            ill(fetched=Fetched(lost=(("[0]", "scale"),)), parts=replace(PARTS, workers=0)),
        ),
        "integers arrive as what float32 makes of them": (
            ill(fetched=Fetched(narrowed=(LOST_DIGITS,))),
            ill(fetched=Fetched()),
        ),
        "only in new interpreters, and new in each epoch": (
            in_new_interpreters(forked="abcd"),
            in_new_interpreters(forked="ijkl"),  # forked workers' samples differ from main's, too
        ),
    },
    "independent": {
        "shuffled alike": (
            ill(fetched=Fetched(stuck="randperm")),
            ill(fetched=Fetched(stuck="randperm"), parts=TOLD),
        ),
        "left early, and begun alike": (
            ill(order=LEFT, parts=OF_1000),
            ill(order=replace(LEFT, repeated=0), parts=OF_1000),
            ill(order=replace(LEFT, told=0), parts=OF_1000),  # the loop's caller may count epochs
            ill(order=replace(LEFT, follows=False), parts=OF_1000),  # set_epoch changes nothing
        ),
        "seeded alike": (ill(samples=drawn(seeded=("numpy",))), ill()),
        "seeded by the index": (ill(samples=drawn(seeded_each=("torch",))), ill()),
        "random epochs repeated": (
            ill(ALIKE, samples=RANDOM),
            ill(replace(ALIKE, drawn=(tuple("abcd"), tuple("efgh"))), samples=RANDOM),
            ill(ALIKE),
        ),
        "the loop seeds each time": (
            ill(called_again=ALIKE, samples=RANDOM),
            ill(called_again=replace(ALIKE, drawn=(("a",) * 4, ("b",) * 4)), samples=RANDOM),
            ill(called_again=ALIKE),
        ),
        "the loop seeds after each epoch": (
            ill(called_again=called("abcd", "dbca", "dbca"), parts=LOOP),
            ill(called_again=called("abcd", "dbca", "cbda"), parts=LOOP),
            ill(called_again=called("abcd", "abcd", "abcd"), parts=LOOP),  # the order never changes
            ill(called_again=called("abcd", "efgh", "efgh"), parts=LOOP),  # the samples differ
        ),
        "the sampler seeds what the workers' seeds come from": (
            reseeds(),
            replace(reseeds(), samples=drawn()),
            reseeds(persistent=True),  # persistent workers aren't seeded again
            reseeds(hooks=("sampler",)),  # the sampler may seed by the epoch that set_epoch gave it
        ),
        "random, and kept": (
            kept(),
            kept("vwxz"),  # the samples differ even with the same seed, as if a pid were in them
            kept(parts=PARTS),
            kept(fetched=Fetched(looked=16, together=True)),
            kept(reseeded=run("ijkl"), repeated=run("ijkl")),
        ),
        "one field of one worker an epoch later": (
            ill(
                replace(
                    ALIKE, drawn=APART, fields=((("[1]", COLLIDE[0]),), (("[1]", COLLIDE[1]),))
                ),
                parts=BY_TWO,
            ),
            ill(replace(ALIKE, drawn=APART, fields=((("[1]", COLLIDE[0]),),) * 2), parts=BY_TWO),
            ill(replace(ALIKE, drawn=APART), parts=BY_TWO),
        ),
        "one worker an epoch later": (
            ill(replace(ALIKE, drawn=COLLIDE), parts=BY_TWO),
            ill(replace(ALIKE, drawn=(COLLIDE[0],) * 2), parts=BY_TWO),
            ill(replace(ALIKE, drawn=(COLLIDE[0], tuple(range(32)))), parts=BY_TWO),
            Evidence(BY_TWO, replace(ALIKE, drawn=COLLIDE, counted=(32, 31))),  # epoch 1 is shorter
        ),
        "one worker an epoch later, with another number of batches": (
            ill(replace(ALIKE, drawn=tuple(each[:26] for each in COLLIDE)), parts=BY_TWO),
            ill(replace(ALIKE, drawn=(COLLIDE[0][:26],) * 2), parts=BY_TWO),
        ),
        "a stream begins again in workers that stay": (
            restarted("abcd", "abcd"),
            restarted("abcd", "efgh"),
            restarted("abcd", "abcd", parts=STREAM),
        ),
        "workers draw the same": (
            ill(run("abcdabcd"), alone=run("ijklmnop"), samples=RANDOM),
            ill(run("abcdabcd"), alone=run("ijklijkl"), samples=RANDOM),
            ill(run("abcdefga"), alone=run("ijklmnop"), samples=RANDOM),
        ),
        "a sample depends on the salt of a hash": (
            ill(new_interpreter=NewInterpreter(16, unlike=16, salted=16)),
            ill(new_interpreter=NewInterpreter(16, unlike=16, names=("a.RATE",))),
            ill(new_interpreter=NewInterpreter(16)),
        ),
    },
    "bounded": {
        "main keeps descriptors": (
            changed(batches=100, files=99),
            changed(batches=1000, files=99),
            changed(batches=100, files=99, tensors=50.0),  # batches wait for their turn
        ),
        "main keeps descriptors from one call of the loop to the next": (
            ill(called_again=replace(RUN, batches=180, files=179), parts=LOOP),
            ill(called_again=replace(RUN, batches=180, files=60), parts=LOOP),
        ),
        "a worker keeps descriptors": (
            in_two_epochs(opened=40),
            in_two_epochs(opened=30),
            in_two_epochs(opened=40, finished=(True, False)),
        ),
        "main grows on the GPU": (
            changed(gpu=tuple(range(0, 400 * MB, 20 * MB))),
            changed(gpu=tuple(range(0, 200 * MB, 20 * MB))),  # too few batches
            changed(gpu=(0, *(200 * MB,) * 20)),
            changed(gpu=(100 * MB, 150 * MB) * 10),
            changed(gpu=tuple(range(0, 4000, 200))),
        ),
        "it grows": (ill(memory=GROWS), ill(memory=replace(GROWS, late_collected=3.0))),
        "it grows slowly, but in each epoch": (
            ill(memory=SLOWLY, parts=STAYS),
            ill(memory=SLOWLY),
            ill(memory=replace(SLOWLY, later_epochs=5.0), parts=STAYS),
            ill(memory=replace(SLOWLY, late_returned=3.0), parts=STAYS),
        ),
    },
    "clean": {
        "left by samples": (ill(samples=drawn(left=(("threads", 90, 90),))), ill()),
        "more workers left each time": (
            ill(leftover=Leftover(alive=2, again=4)),
            ill(leftover=Leftover(alive=2, again=2)),  # the loop keeps its iterator
        ),
        "more loaders left each time": (
            ill(replace(RUN, others=2), leftover=Leftover(alive=2, again=4)),
            ill(replace(RUN, others=2), leftover=Leftover()),  # the loop keeps the other loader
        ),
        "more threads each time, in workers that stay": (
            ill(leftover=Leftover(threads=(8, 10, 12, 14))),
            ill(leftover=Leftover(threads=(8, 10, 10, 10))),  # the thread pool is full
        ),
        "processes left": (changed(left=2), changed(left=0)),
        "folders left": (changed(temporary=(3, 5)), changed(temporary=(3, 3))),
        "folders left by each call of a loop of one epoch": (
            ill(replace(RUN, temporary=(3,)), called_again=replace(RUN, temporary=(3, 5))),
            ill(replace(RUN, temporary=(3,)), called_again=replace(RUN, temporary=(3, 3))),
            ill(replace(RUN, temporary=(3,))),
        ),
    },
    "quick": {
        "tensors that aren't pinned": (
            ill(pinned=Pinned(3, 2, 5 * MB, "Clips")),
            ill(pinned=Pinned(3, 0, 0, "")),
            ill(pinned=Pinned(3, 2, 80, "Clips")),
        ),
        "one at a time, and no faster": (served(), served(blocked=0.1), served(as_it_is=0.009)),
        "one at a time, and hardly faster, though there are four": (
            served(as_it_is=0.012, blocked=0.95, workers=4),
            served(as_it_is=0.012, blocked=0.95),
            served(as_it_is=0.012, workers=4),
            served(as_it_is=0.01, blocked=0.95, workers=4),
        ),
        "slower than without workers": (
            ill(workerless=Paces((2.0, 2.0, 2.0), (1.0, 1.0, 1.0))),
            ill(workerless=Paces((2.0, 1.0, 2.0), (1.0, 1.0, 1.0))),
        ),
        "work that each epoch's new workers do again": (
            stayed(4.0, 1.6),
            stayed(4.0, 3.6),
            ill(),
        ),
        "work whose result is lost with each epoch's workers": (
            forgotten(0.03, 0.0001, 1.0),
            forgotten(0.03, 0.0001, 0.1),  # the workers share what they keep
            forgotten(0.03, 0.02, 1.0),  # main keeps nothing either
            replace(forgotten(0.03, 0.0001, 1.0), parts=SPAWN),  # the workers import torch
            forgotten(0.003, 0.0001, 0.1),  # it's little work
        ),
        "a late start, not without workers": (
            changed(first=3.0),
            changed(first=0.9),
            ill(replace(RUN, first=3.0), alone=replace(RUN, first=3.0)),
            ill(replace(RUN, first=3.0), seeded=replace(RUN, first=0.3)),  # late by chance
        ),
        "it reads all that comes before": (
            ill(reordered=Reordered(100, depths=(0.0002, 0.004, 0.008))),
            ill(reordered=Reordered(100, depths=(0.0002, 0.0004, 0.0009))),
            ill(reordered=Reordered(100, depths=(0.002, 0.004, 0.008))),
            ill(reordered=Reordered(100, depths=(0.0002, 0.0002, 0.008))),
            ill(reordered=Reordered(100, depths=(0.0002, 0.008, 0.008))),
        ),
        "a sampler works long": (
            ill(samples=drawn(dealing=4.0)),
            ill(samples=drawn(dealing=4.0, typical=1.0)),
        ),
        "a sampler works between batches": (
            ill(samples=drawn(dealing_each=0.006)),
            ill(samples=drawn(dealing_each=0.001)),
        ),
        "a sampler draws": (
            ill(samples=drawn(drawn_by_sampler=32, dealing=0.2)),
            ill(samples=drawn(drawn_by_sampler=32, dealing=0.01)),
        ),
        "one worker does it all, and not in a single batch": (
            changed(waited_for=2.0, idle=((0.9, 0.8), (0.0, 0.1))),
            changed(waited_for=2.0, idle=((0.4, 0.3), (0.1, 0.1))),
            changed(waited_for=2.0, idle=((0.9, 0.1), (0.0, 0.1))),
            changed(waited_for=2.0, idle=((0.9, 0.8), (0.9, 0.8))),  # main keeps both waiting
            changed(waited_for=0.1, idle=((0.9, 0.8), (0.0, 0.1))),
            ill(replace(RUN, waited_for=2.0, idle=((0.9, 0.8), (0.0, 0.1))), samples=SLOW_ONE),
        ),
        "the same work for each sample": (
            ill(recomputed=Recomputed(12, 1, "a.py, line 3", 0.8, MB)),
            ill(recomputed=Recomputed(12)),
            ill(recomputed=Recomputed(12, 4, "a.py, line 3", 0.8, MB)),
        ),
        "work done twice": (
            stream(computed(0.4), computed(0.1)),
            stream(computed(0.4), computed(0.3)),
            replace(
                stream(computed(0.4), computed(0.1)),
                parts=replace(STREAM, method="spawn"),
            ),
        ),
        "each batch carries the same arrays": (
            ill(replace(RUN, carried=("batch.graph.x", 8_000_000), batch_bytes=800_000)),
            ill(replace(RUN, carried=("batch.graph.x", 80_000), batch_bytes=800)),
            ill(replace(RUN, carried=("batch.grid", 8_000_000), batch_bytes=80_000_000)),
            Evidence(replace(PARTS, workers=0), replace(RUN, carried=("batch.graph.x", 8_000_000))),
        ),
        "work done twice for samples with an index": (
            ill(replace(RUN, later=0.004, counted=(80,)), alone=replace(RUN, later=0.002)),
            ill(replace(RUN, later=0.003, counted=(80,)), alone=replace(RUN, later=0.002)),
            ill(replace(RUN, later=0.0004, counted=(80,)), alone=replace(RUN, later=0.0002)),
            ill(replace(RUN, later=0.004, counted=(80,)), alone=RUN),
        ),
        "a large pickle": (
            ill(travel=Travel(bytes=10**7, seconds=3.0), parts=SPAWN),
            ill(travel=Travel(bytes=10**7, seconds=3.0)),
        ),
    },
}


@pytest.mark.parametrize(
    ("promise", "what"), [(promise, what) for promise, rows in BREAKS.items() for what in rows]
)
def test_what_breaks_a_promise_and_what_is_near(promise: str, what: str) -> None:
    found, *near = BREAKS[promise][what]
    assert [each.promise for each in broken(found, ())] == [promise]
    for each in near:
        assert broken(each, ()) == ()


def test_batches_are_compared_where_they_cannot_be_taken_apart() -> None:
    whole = replace(RUN, drawn=((),))
    [found] = broken(ill(whole, alone=replace(whole, passes=(("a", "c"),))), ())
    assert found.promise == "same" and "batch" in found.evidence


def test_files_that_samples_leave_are_not_blamed_on_the_end_of_a_worker() -> None:
    left = (("temporary files", 90, 90),)
    (found,) = broken(ill(replace(RUN, temporary=(3, 5)), samples=drawn(left=left)), set())
    assert "main process" in found.evidence
    (found,) = broken(ill(replace(RUN, temporary=(3, 5))), set())
    assert "new workers" in found.evidence


def test_a_mapped_file_that_would_be_copied_is_said_of_forked_workers() -> None:
    assert elsewhere(mapped(80, "fork")) and not elsewhere(mapped(80, "spawn"))


def test_what_differs_in_a_new_interpreter_is_said_of_forked_workers() -> None:
    for each in ({"raised": "KeyError: 'train'"}, {"unlike": 3}, {"unlike": 3, "names": ("a.B",)}):
        assert elsewhere(ill(new_interpreter=NewInterpreter(16, **each)))
    assert not elsewhere(ill(new_interpreter=NewInterpreter(16)))
    # If a sample depends on the salt of a hash, the doctor reports that as a finding instead.
    assert not elsewhere(ill(new_interpreter=NewInterpreter(16, unlike=3, salted=3)))


def test_batches_may_differ_if_the_workers_draw_the_samples_that_main_draws() -> None:
    differs = stream(run("abd"), run("abc"), reseeded=run("abc"))
    assert [each.promise for each in broken(differs, ())] == ["same"]
    shares = Shares(whole=3, ended=True, shares=(2, 1), complete=True, alike=True)
    alike = replace(differs, shares=shares)
    assert broken(alike, ()) == ()
    said = {each.promise: each.state for each in verdicts(alike, (), ())}
    assert said["complete"] == said["same"] == "kept"


def test_a_loop_that_leaves_the_loader_alone_shows_nothing() -> None:
    assert silent(Evidence(PARTS, Measures("finished")))
    assert not silent(Evidence(replace(PARTS, loop=False), Measures("finished")))
    assert not silent(ill())


def test_words_that_are_known_are_used() -> None:
    words = "Terminating: fork() called from a process already using GNU OpenMP, this is unsafe."
    [finding] = findings(ill(Measures("worker died", said=words, codes=(-6, None))))
    assert (finding.name, finding.certainty) == ("openmp_after_fork", "likely")


def test_what_was_not_tested_is_never_kept() -> None:
    nothing = verdicts(Evidence(PARTS, Measures("not run")), (), ("no time was left",))
    assert {each.state for each in nothing} == {"not tested"}
    assert [each.said for each in nothing if each.promise == "ends"] == ["no time was left"]


def test_ids_that_arrive_once_if_workers_are_forked() -> None:
    found = identified("affbdd")
    assert not same_field(found.run, found.alone, "['id']")
    assert same_field(found.reseeded, found.alone, "['id']")  # in another order
    assert not same_field(None, found.alone, "['id']")
    assert not same_field(found.reseeded, found.alone, "['name']")
    (by_fork,) = findings(replace(found, forked=found.reseeded))
    (anyhow,) = findings(replace(found, forked=found.run))
    assert by_fork.promise == anyhow.promise == "complete" and by_fork.cause != anyhow.cause
