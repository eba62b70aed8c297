"""Every listed file accounted for: what arrived, held against what the files hold."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from itertools import combinations
from pathlib import PurePath
from typing import Final

from dltutor.lessons.kit.endings import ended_well
from dltutor.lessons.kit.outcomes import (
    Outcome,
    Rejected,
    Result,
    correct,
    error_in_your_code,
    not_yet,
)
from dltutor.lessons.lesson_01.deliveries import Delivery, Evidence
from dltutor.lessons.lesson_01.material import Files

#: Where to look when a file raises what the answer does not expect.
LOAD_BY_HAND: Final = (
    "What does such a file raise when you load it by hand, and which of that does your class "
    "expect?"
)

Look = Callable[[Collection[str]], str]


def account(evidence: Evidence, look: Look) -> Result:
    """Judge what an answer delivered.

    Args:
        evidence: What it delivered, and of which files.
        look: Odd kinds that end the epoch -> where to look.

    Raises:
        Rejected: Something is wrong; the first thing is told.
    """
    files = evidence.files
    good: list[str] = []
    for delivery in evidence.deliveries:
        try:
            _all_is_right(evidence, delivery, look)
        except Rejected as rejected:
            if not good or rejected.result.outcome is not Outcome.NOT_YET:
                raise
            text = rejected.result.text
            begin = text[:1] if text[1:2].isdigit() else text[:1].lower()  # W0 stays W0
            not_yet(
                f"with {_and(good)} workers all is well. With {delivery.workers}: {begin}{text[1:]}"
            )
        good.append(str(delivery.workers))
    return correct(
        f"{len(files.listed) - len(files.causes)} of {len(files.listed)} files can be used, and "
        f"each arrives once, with {_and(good)} workers. The other {len(files.causes)} are in "
        "`quarantined`, each with its reason."
    )


def _and(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _all_is_right(evidence: Evidence, delivery: Delivery, look: Look) -> None:
    files = evidence.files
    _folder_is_as_it_was(delivery)
    _it_ended(files, delivery, look)
    if delivery.form:
        not_yet(delivery.form)
    _values_are_real(files, delivery, evidence.loads_truncated)
    _each_came_once(files, delivery)
    named = _the_rest_is_named(files, delivery)
    _reasons_tell(files, named)


def _folder_is_as_it_was(delivery: Delivery) -> None:
    if not delivery.changed:
        return
    more = f", nor are {len(delivery.changed) - 1} more" if len(delivery.changed) > 1 else ""
    not_yet(
        f"`{delivery.changed[0]}` in the folder is no longer as it was{more}. A dataset reads: who "
        "wants to know later what was wrong with a file needs the file."
    )


def _it_ended(files: Files, delivery: Delivery, look: Look) -> None:
    if delivery.nones:
        not_yet(
            f"{delivery.nones} samples are None, and no batch can be made of them: "
            f"`{delivery.run.message if delivery.run else ''}`. The loop never gets to skip any. "
            "Who joins samples into a batch, and in which process?"
        )
    if delivery.ends:
        _blame_the_files(files, delivery, look)
    if delivery.run is None:
        error_in_your_code(delivery.unmade)
    ended_well(delivery.run)


def _blame_the_files(files: Files, delivery: Delivery, look: Look) -> None:
    failed = f"the dataset cannot be made: {delivery.unmade}"
    if delivery.run:
        failed = f"an epoch still ends: {delivery.run.error}"
    kinds = [f"{files.odd[path]} ({error})" for path, error in delivery.ends.items()]
    where, aside = look({files.odd[path] for path in delivery.ends}), ""
    if delivery.quarantined and isinstance(delivery.quarantined, dict):
        aside = f" Your class set {len(delivery.quarantined)} aside."
        if set(delivery.ends.values()) == {"IndexError"}:
            where = "Which samples does `__len__` count?"
    not_yet(
        f"{failed} Tried with one odd file at a time, {len(kinds)} of {len(files.odd)} "
        f"{'ends' if len(kinds) == 1 else 'end'} it: {'; '.join(kinds)}.{aside} {where}"
    )


def _values_are_real(files: Files, delivery: Delivery, loads_truncated: bool) -> None:
    samples, noun, named = delivery.samples, files.noun, delivery.quarantined
    if not samples:
        said = Counter(named.values() if isinstance(named, dict) else ()).most_common(1)
        quoted = [f" For {times} of them the reason is `{why:.80}`." for why, times in said]
        not_yet(
            f"no {noun} arrives, and the folder lists {len(files.listed)} of them: "
            f"{len(named)} are in `quarantined`.{''.join(quoted)} How many can be used?"
        )
    if delivery.other_epoch:
        not_yet(
            f"the second epoch brings other {noun}s than the first, and nothing was shuffled. "
            "Which file does an index stand for?"
        )
    if blank := sum(sample.blank for sample in samples):
        not_yet(
            f"{blank} of {len(samples)} {noun}s are blank, and no file holds a blank one. Each "
            "stands for a file that could not be used. What will training learn from it?"
        )
    strays = [sample for sample in samples if not sample.file]
    if strays and all(sample.rows_at_end > 3 for sample in strays):
        not_yet(
            f"{len(strays)} {noun}s end in rows of one color that are in no file, "
            f"{_and([str(sample.rows_at_end) for sample in strays])} of them. "
            + (
                "`ImageFile.LOAD_TRUNCATED_IMAGES` is on: what does it put where a file ends? It "
                "holds for the whole process: if a cell of yours turned it on, turn it off there."
                if loads_truncated
                else "Where do those rows come from?"
            )
        )
    absent = _usable(files) - {sample.file for sample in samples}
    changed = sorted(files.odd[path] for path in absent if path in files.odd)
    if strays and len(changed) == len(strays):
        not_yet(
            f"{_and(changed)} should be among the {noun}s that arrive, and none of these has its "
            "values. Compare what your class returns with what the file holds."
        )
    if strays:
        not_yet(
            f"{len(strays)} of {len(samples)} {noun}s are in no file. Compare what your class "
            "returns with what the file holds."
        )


def _usable(files: Files) -> set[str]:
    return {path for path, _ in files.listed} - files.causes.keys()


def _each_came_once(files: Files, delivery: Delivery) -> None:
    samples, noun = delivery.samples, files.noun
    count = Counter(sample.file for sample in samples)
    ((path, times),) = count.most_common(1)
    if times > 1:
        not_yet(
            f"{len(samples)} {noun}s arrive, and only {len(count)} different ones: `{path}` came "
            f"{times} times. Whose place did it take, and what does training see too often?"
        )
    class_of = dict(files.listed)
    classes = sorted(set(class_of.values()))
    misnamed = sum(classes.index(class_of[sample.file]) != sample.number for sample in samples)
    if misnamed:
        not_yet(
            f"{misnamed} of {len(samples)} {noun}s arrive with another class number than "
            "`labels.csv` gives them. Numbers follow the sorted names of the classes."
        )


def _the_rest_is_named(files: Files, delivery: Delivery) -> dict[str, str]:
    arrived, listed = len(delivery.samples), {path for path, _ in files.listed}
    named = delivery.quarantined
    if delivery.promised != arrived:
        not_yet(
            f"`len()` says {delivery.promised}, and {arrived} {files.noun}s arrive, without an "
            "error. A loader takes StopIteration for the end of an epoch."
        )
    if not isinstance(named, dict):
        there = "the dataset has no `quarantined`"
        if named != "NoneType":
            there = f"`quarantined` is a {named}"
        not_yet(
            f"{arrived} of {len(listed)} arrive, and {there}. The rest has to be in a dict of that "
            "name, from each path to the reason."
        )
    if long := [key for key in named if key not in listed and key.removeprefix("root/") in listed]:
        not_yet(
            f"`quarantined` has a path that begins with that of the folder, `{long[0]}`. As "
            f"`labels.csv` lists it, it is `{long[0].removeprefix('root/')}`: right wherever the "
            "folder lies."
        )
    if good := sorted(named.keys() & _usable(files)):
        not_yet(
            "`quarantined` holds what can be used: "
            f"{', '.join(sorted(files.odd.get(path, f'`{path}`') for path in good))}. The reason "
            f"that it gives is `{named[good[0]]:.80}`, and loading raises nothing. What is missing "
            "for a fit with the others?"
        )
    if lost := listed - {sample.file for sample in delivery.samples} - named.keys():
        not_yet(
            f"the folder lists {len(listed)} {files.noun}s, {arrived} arrive, and `quarantined` "
            f"names {len(named.keys() & listed)}: {len(lost)} vanish without a word. "
            + (
                "In which process was `quarantined` filled?"
                if delivery.workers
                else "Where does your class let go of them, and what does it know of them there?"
            )
        )
    if unknown := named.keys() - listed:
        not_yet(f"`quarantined` names {len(unknown)} files that `labels.csv` does not list.")
    return named


def _reasons_tell(files: Files, said: dict[str, str]) -> None:
    bare = {path: _bare(said[path], path) for path in said}
    ask = "Whoever reads it wants to know what to do about each. What did loading it say?"
    if empty := [path for path in said if not bare[path]]:
        not_yet(
            f"{len(said)} files are in `quarantined`, and not each has a reason: for `{empty[0]}` "
            f"it is {said[empty[0]][:80]!r}. {ask}"
        )
    if len(set(bare.values())) == 1 < len(set(files.causes.values())):
        not_yet(
            f"{len(said)} files are in `quarantined`, and the reason is always "
            f"`{min(said.values()):.80}`. {ask}"
        )
    for one, other in combinations(said, 2):
        causes = files.causes[one], files.causes[other]
        if bare[one] == bare[other] and all(causes) and causes[0] != causes[1]:
            not_yet(
                f"`{one}` is {causes[0]} and `{other}` is {causes[1]}, and `quarantined` says the "
                f"same of both: `{said[one]:.80}`. {ask}"
            )


def _bare(reason: str, path: str) -> str:
    # Without the file's own name and without numbers, which say nothing of what is wrong.
    for part in (f"root/{path}", path, *PurePath(path).parts, PurePath(path).stem):
        reason = reason.replace(part, " ")
    return " ".join(re.sub(r"[\d\W_]+", " ", reason.lower()).split())
