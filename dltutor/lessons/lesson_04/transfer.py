"""Grade "04.transfer": each word has one number, in every process, and main can read it back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import torch

from dltutor.lessons.kit.endings import Ending, ended_well, run_loader
from dltutor.lessons.kit.exercise import Grader
from dltutor.lessons.kit.forms import a_fixed_class, whole_number
from dltutor.lessons.kit.outcomes import Rejected, Result, correct, not_yet
from dltutor.lessons.kit.running import made, theirs
from dltutor.lessons.lesson_04.material import Headlines, SlowMotion, make_headlines

_HEADLINES: Final = make_headlines(seed=61)
# In slow motion four workers meet new words at the same moment: each word two of them, or all.
_NEW: Final = 4 * ["Bridge bridge bridge. bridges", "bridge. bridges Bridge bridge"]
_RUN: Final = 12  # seconds for two epochs
PLANS: Final = {  # where -> workers, whether they live on, headlines
    # Words that no later run has: a global variable of main would know them there.
    "with 0 workers": (0, False, [headline.swapcase() for headline in _HEADLINES + _NEW]),
    "with 2 fresh workers": (2, False, _HEADLINES),
    "with 4 workers in slow motion": (4, True, _NEW),
    "with 2 persistent workers": (2, True, _HEADLINES),
}
_WITH_WORKERS: Final = (
    "With 0 workers it was right. Who gives a word its number, and what does another process "
    "know of it at that moment?"
)


@dataclass(frozen=True)
class Run:
    """The length, the batches of two epochs, and what main's `vocabulary` holds after them."""

    where: str
    length: int | None
    came: tuple[Any, ...]
    vocabulary: dict[str, int | None] | str  # the name of its type, if it is no dict
    untouched: bool  # the list that the class was given
    end: Ending


def look(answer: Any) -> type:
    """The answer, if it is a dataset's class that is no longer the starter."""
    return a_fixed_class(answer, Headlines)


def gather(answer: type) -> tuple[Run, ...]:
    """Two epochs by each plan, up to the first run in which something is not right."""
    runs: list[Run] = []
    for where in PLANS:
        runs.append(_run(answer, where))
        try:
            _judge(runs[-1])
        except Rejected:
            break
    return tuple(runs)


def _run(answer: type, where: str) -> Run:
    workers, persistent, headlines = PLANS[where]
    slow, given = headlines is _NEW, [*headlines]
    dataset = made(answer, given, call=f"{answer.__name__}(headlines)", within=2)
    with theirs():
        length = whole_number(len(dataset))
    came: list[Any] = []
    end = run_loader(
        dataset,
        lambda loader: came.extend(
            each.clone() if isinstance(each, torch.Tensor) else each for each in loader
        ),
        workers=workers,
        within=_RUN,
        epochs=2,
        batch_size=1 if slow else 4,
        sampler=range(len(headlines))[::-1],
        persistent_workers=persistent,
        worker_init_fn=SlowMotion(workers) if slow else None,
    )
    with theirs():
        for _ in range(2):  # it may be read more than once
            found: Any = getattr(dataset, "vocabulary", None)
            vocabulary: Any = type(found).__name__
            if hasattr(found, "items"):  # also of a Manager
                vocabulary = {str(word): whole_number(number) for word, number in found.items()}
    return Run(where, length, tuple(came), vocabulary, given == headlines, end)


def judge(runs: tuple[Run, ...]) -> Result:
    """Correct if in every run each word has one number of its own, and main knows it."""
    for run in runs:
        _judge(run)
    words = {word for headline in _HEADLINES for word in headline.split()}
    return correct(
        f"Each of {len(words)} words has one number, with 0, 2 and 4 workers and in every epoch; "
        "no two have the same, and main reads all of them back with `vocabulary`. (From a sorted "
        "list they are the same in the next run, too. The order of a `set` differs from run to "
        "run, and a saved model would not know the words again.)"
    )


def _judge(run: Run) -> None:
    workers, _, given = PLANS[run.where]
    if run.length != len(given):
        not_yet(f"`len()` says {run.length}, of {len(given)} headlines, some of which are alike.")
    ended_well(run.end, run.where)
    if not run.untouched:
        not_yet("the list of headlines that your class was given is another one afterwards.")
    for batch in run.came:
        if getattr(batch, "dtype", None) != torch.int64 or batch.dim() != 2:
            form = batch.dtype if isinstance(batch, torch.Tensor) else type(batch).__name__
            not_yet(f"a batch is a {form}. Each headline should come as four numbers, int64.")
    headlines = 2 * [headline.split() for headline in given[::-1]]
    rows = [row for batch in run.came for row in batch.tolist()]
    if [len(row) for row in rows] != [len(words) for words in headlines]:
        text = f"{len(rows)} headlines came in two epochs, of {len(headlines)}"
        not_yet(f"{run.where}, {text}, or not with all their words.")
    if isinstance(run.vocabulary, str):
        not_yet(f"main's `vocabulary` is a {run.vocabulary}, and has to be a dict.")
    numbers: dict[str, set[int]] = {}
    words: dict[int, set[str]] = {}
    for row, headline in zip(rows, headlines, strict=True):
        for number, word in zip(row, headline, strict=True):
            numbers.setdefault(word, set()).add(number)
            words.setdefault(number, set()).add(word)
    known = [[run.vocabulary.get(word) for word in headline] for headline in headlines]
    if not workers and rows != known and _in_any_order(rows) == _in_any_order(known):
        not_yet(f"{run.where}, the words or the headlines come in another order than they had.")
    _one_to_one(run.where, numbers, words, _WITH_WORKERS if workers else "")
    _read_back(run.vocabulary, numbers, _WITH_WORKERS if workers else "")


def _in_any_order(rows: list[Any]) -> list[list[str]]:
    return sorted(sorted(map(str, row)) for row in rows)


def _one_to_one(
    where: str, numbers: dict[str, set[int]], words: dict[int, set[str]], why: str
) -> None:
    torn = sorted(word for word, told in numbers.items() if len(told) > 1)
    if torn:
        one, other, *_ = sorted(numbers[torn[0]])
        not_yet(
            f"{where}, {len(torn)} of {len(numbers)} words came under more than one number: "
            f"`{torn[0]}` was {one} and {other}. {why or 'Which is it?'}"
        )
    for number, sharing in words.items():
        if len(sharing) > 1:
            not_yet(
                f"{where}, {len(sharing)} words share the number {number}, such as "
                f"`{'` and `'.join(sorted(sharing)[:2])}`. "
                f"{why or 'Main alone gives the numbers here: when are two words the same to it?'}"
            )


def _read_back(vocabulary: dict[str, int | None], numbers: dict[str, set[int]], why: str) -> None:
    if unknown := [word for word in numbers if word not in vocabulary]:
        not_yet(
            f"each word has one number. But main's `vocabulary` does not know {len(unknown)} of "
            f"{len(numbers)} words, such as `{unknown[0]}`: nobody can read the numbers back. Who "
            "has to fill it, and when?"
        )
    for word, told in numbers.items():
        if vocabulary[word] not in told:
            text = f"says {vocabulary[word]} for `{word}`, and the samples say {told.pop()}."
            not_yet(f"each word has one number. But main's `vocabulary` {text}")
    if {*vocabulary.values()} != {*range(len(vocabulary))}:
        not_yet(
            f"`vocabulary` has {len(vocabulary)} words, and their numbers are not 0 to "
            f"{len(vocabulary) - 1} without gaps: an embedding has as many rows as there are "
            f"words. {why}"
        )


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=look,
    runs="two epochs with 4, 2 and 0 workers",
    at_most=len(PLANS) * (_RUN + 2) + 2,
)
