"""Grade "01.fix" and "01.transfer", which ask for usable files and reasons why the rest are bad.

The check uses two folders, to catch a class that keeps data from one dataset for the next dataset.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from pathlib import Path, PurePath
from typing import Any, Final

import torch
from PIL import Image, ImageFile

from dltutor.lessons.engine.endings import Ending, arrivals, check_ending, where
from dltutor.lessons.engine.exercise import Grader, by_runs
from dltutor.lessons.engine.forms import a_fixed_class
from dltutor.lessons.engine.outcomes import (
    Fault,
    Rejected,
    Result,
    correct,
    error_in_your_code,
    fault,
    not_yet,
    reject,
)
from dltutor.lessons.engine.running import changed, contents, in_words, made, theirs
from dltutor.lessons.lesson_01.helpers import HEALTHY, Folder, Identified
from dltutor.observation.time_limits import deadline

_SECONDS: Final = 6


@dataclass(frozen=True)
class Evidence:
    """A record of what an answer did with a folder.

    Args:
        folder: The folder of usable and bad files.
        quarantined: The dataset's `quarantined` as strings, with "root" for the folder's path. If
            the dataset has no such dict, this field is empty.
        samples: What `Folder.identify` returned for each `dataset[i]`. If `dataset[i]` raised an
            exception, the entry is a tuple of a string such as "OSError raised", and None.
        error: The first exception from `dataset[i]` and where it was raised, or "".
        runs: By number of workers, how the run ended, and whether each epoch delivered `samples`.
        changed: The files that the answer removed, changed, or created at a listed path.
        dtypes: The number of samples for each floating-point dtype.
        later: The mistake in a sample that arrives although its file has gone bad, or None.
    """

    folder: Folder
    quarantined: dict[str, str]
    samples: Sequence[Identified]
    error: str
    runs: dict[int, tuple[Ending, bool]]
    changed: Sequence[str]
    dtypes: dict[str, int] = field(default_factory=dict)
    later: Fault | None = None


def grader(fresh: Callable[[Path, int], Folder], starter: type) -> Grader[Any]:
    """Return a grader that runs an answer's class on two folders.

    Args:
        fresh: A function that fills a folder with files that depend on a seed.
        starter: The notebook's broken class, which the grader rejects without running it.
    """
    return by_runs(
        partial(run, fresh=fresh),
        judge,
        result=result,
        look=partial(a_fixed_class, starter=starter),
        at_most=8 * _SECONDS + 2,
    )


def run(answer: type, fresh: Callable[[Path, int], Folder]) -> Iterator[Evidence]:
    """Make a dataset for each of two folders, and yield the evidence of how it delivers samples.

    The check runs each dataset in loaders and reads its samples in main. Then the check spoils some
    files, and reads the samples of these files again.
    """
    for seed, workers in ((52, 2), (53, 4)):
        yield _delivered(answer, fresh(Path(tempfile.mkdtemp()), seed), workers)


def _delivered(answer: type, folder: Folder, workers: int) -> Evidence:
    before = contents(folder.root)
    dataset = made(answer, folder.root, call=f"{answer.__name__}(root)", within=_SECONDS)
    quarantined = _quarantined(dataset, folder)
    # The workers run first, because otherwise they'd inherit whatever main had read.
    how: dict[str, Any] = {"within": _SECONDS, "batch_size": 4}
    forked, came = arrivals(dataset, folder.identify, workers=workers, **how)
    samples: list[Identified] = []
    error, dtypes = "", Counter[str]()
    with theirs(), deadline(_SECONDS):
        for index in range(len(dataset)):
            try:
                sample = dataset[index]
            except Exception as raised:
                error = error or in_words(raised)
                samples.append((f"{type(raised).__name__} raised", None))
            else:
                samples.append(folder.identify(sample))
                if samples[-1][1] is not None:
                    dtypes[str(torch.as_tensor(sample[0]).dtype)] += 1
    runs = {workers: (forked, came == (tuple(samples),))}
    if forked.end == "finished":
        here, came = arrivals(dataset, folder.identify, workers=0, epochs=2, **how)
        runs[0] = here, came == (tuple(samples),) * 2
    spoiled = [p for p in changed(before, folder.root) if p in before or p in folder.listed]
    with theirs(), deadline(_SECONDS):
        later = _later(dataset, folder, samples)
    return Evidence(folder, quarantined, samples, error, runs, spoiled, dtypes, later)


def _later(dataset: Any, folder: Folder, samples: Sequence[Identified]) -> Fault | None:
    for index, how in enumerate(("deleted", "cut in half", "emptied") * 2):
        with suppress(Exception):
            folder.spoil(path := samples[index][0], how)
            found, number = folder.identify(dataset[index])
            if found in folder.kinds and found != path:
                odd = folder.kinds[found].odd
                return fault("later-another-file", index=index, how=how, path=found, odd=odd)
            if number is None:
                return fault("later-wrong-kind", index=index, how=how, kind=found)
            if found != path:
                return fault("later-other-values", index=index, how=how, values=found)
    return None


def _quarantined(dataset: Any, folder: Folder) -> dict[str, str]:
    def text(thing: object) -> str:
        return str(thing).replace(str(folder.root), "root").strip()

    with theirs():
        kept = getattr(dataset, "quarantined", None)
        pairs = kept.items() if isinstance(kept, dict) else ()
        return {text(path): text(why or "") for path, why in pairs}


def judge(evidence: Evidence) -> None:
    """Raise `Rejected` unless exactly the usable files arrived and `quarantined` is right.

    The answer must also leave the files as they are, use the right class numbers and a single
    dtype, and not replace a sample whose file goes bad after the dataset was made.
    """
    try:
        _judge_folder(evidence)
    except Rejected as rejected:
        if 4 not in evidence.runs:  # only the run on the second folder has four workers
            raise
        raise Rejected(rejected.result.under("second-folder")) from None


def result(found: Sequence[Evidence]) -> Result:
    """Return the result for an answer that's right on both folders."""
    listed = sum(len(evidence.folder.listed) for evidence in found)
    bad = sum(len(evidence.quarantined) for evidence in found)
    return correct(usable=listed - bad, listed=listed, bad=bad)


def _judge_folder(evidence: Evidence) -> None:
    folder, samples, named = evidence.folder, evidence.samples, evidence.quarantined
    for path in evidence.changed:
        if path in folder.kinds:
            not_yet("changed-odd-file", path=path, odd=folder.kinds[path].odd)
        not_yet("changed", path=path)
    _judge_kinds(evidence)
    if good := named.keys() & folder.contents.keys():
        path = max(good, key=lambda path: (folder.kinds[path].odd, path))
        reason, odd = f"{named[path]:.90}", folder.kinds[path].odd
        counts = {"good": len(good), "named": len(named)}
        not_yet("usable-set-aside", **counts, path=path, odd=odd, reason=reason)
    count = Counter(file for file, _ in samples)
    lost = folder.listed.keys() - count.keys() - named.keys()
    for path, times in count.most_common():
        if times > 1 and path in folder.listed:
            counts = {"samples": len(samples), "different": len(count), "times": times}
            not_yet("copies", **counts, path=path, odd=folder.kinds[path].odd)
    if strays := [file for file, _ in samples if file not in folder.listed]:
        kinds = ", ".join(sorted({folder.kinds[path].odd for path in lost} - {HEALTHY}))
        code = "strays-for-files" if kinds else "strays"
        if ImageFile.LOAD_TRUNCATED_IMAGES:  # the answer's cell or class turned this on
            code = "strays-truncated"
        counts = {"strays": len(strays), "samples": len(samples)}
        not_yet(code, **counts, values=strays[0], kinds=kinds)
    classes = sorted(set(folder.listed.values()))
    if wrong := sum(classes.index(folder.listed[file]) != number for file, number in samples):
        not_yet("class-numbers", wrong=wrong, samples=len(samples))
    if unknown := sorted(named.keys() - folder.listed.keys()):
        not_yet("unknown-keys", unknown=len(unknown), key=unknown[0])
    if lost:
        odd = folder.kinds[min(lost)].odd
        not_yet("lost", lost=len(lost), listed=len(folder.listed), odd=odd)
    for path, why in named.items():
        if not why:
            not_yet("no-reason", path=path)
        if not _words(path, why):
            not_yet("reason-without-words", path=path, reason=repr(why[:80]))
    _judge_reasons(evidence)
    for workers, (run, same) in sorted(evidence.runs.items()):
        check_ending(run, where(workers))
        if not same:
            not_yet("other-samples", where=where(workers))
    if len(evidence.dtypes) > 1:
        not_yet("mixed-dtypes", dtypes=_listed(evidence.dtypes))
    if later := evidence.later:
        reject(later)


def _judge_kinds(evidence: Evidence) -> None:
    right, samples, error = evidence.folder.right, evidence.samples, evidence.error
    kinds = Counter(right if number is not None else kind for kind, number in samples)
    if not kinds.keys() - {right}:
        return
    if error and len(kinds) == 1:
        error_in_your_code("all-raise", right=right, samples=len(samples), error=error)
    if error:
        not_yet("some-raise", right=right, kinds=_listed(kinds), error=error)
    not_yet("wrong-kind", right=right, kinds=_listed(kinds))


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{times} x {what}" for what, times in Counter(counts).most_common())


def _judge_reasons(evidence: Evidence) -> None:
    """Raise `Rejected` if the reasons use the same words for two different causes.

    The cause "other" may have the same words as any cause.
    """
    kinds, limit = evidence.folder.kinds, Image.MAX_IMAGE_PIXELS  # an answer may change this limit
    code = "reasons-alike" if limit == 1024**3 // 12 else "reasons-alike-limit"
    for (path, why), (like, other_why) in combinations(evidence.quarantined.items(), 2):
        one, other = kinds[path], kinds[like]
        differ = one.cause != other.cause and "other" not in (one.cause, other.cause)
        if differ and _words(path, why) == _words(like, other_why):
            not_yet(
                code,
                odd=one.odd,
                reason=f"{why:.80}",
                other=other.odd,
                other_reason=f"{other_why:.80}",
                cause=one.cause,
                other_cause=other.cause,
                limit=limit,
            )


def _words(path: str, why: str) -> set[str]:
    for name in (f"root/{path}", path, PurePath(path).name):
        why = why.replace(name, " ")
    return {word for word in re.split(r"[\W_]+", why.lower()) if re.fullmatch(r"\D+", word)}
