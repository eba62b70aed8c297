"""Grade "04.transfer": each word has one number, in every process, and main can read it back.

The answer is run on headlines that the lesson does not show, with 0, 2 and 4 workers; and in slow
motion on a few of which no two share a word, so that two workers meet new words at the same moment.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.utils.data import DataLoader

from dltutor.lessons.kit.endings import Ending, ended_well, ending
from dltutor.lessons.kit.exercise import Grader
from dltutor.lessons.kit.forms import a_fixed_class, whole_number
from dltutor.lessons.kit.outcomes import Rejected, Result, correct, not_yet
from dltutor.lessons.kit.running import made, theirs
from dltutor.lessons.lesson_04.copies import refuse_a_loader, where_it_is_kept
from dltutor.lessons.lesson_04.material import Headlines, make_headlines
from dltutor.lessons.lesson_04.slow_motion import SlowMotion
from dltutor.observation import observe

_MAKING: Final = 2  # seconds for making the dataset
_RUN: Final = 7  # seconds for two epochs
_BATCH_SIZE: Final = 4
_HEADLINES: Final = tuple(make_headlines(seed=61))
_NEW_WORDS: Final = tuple(" ".join(f"{word}{n}" for word in "abcd") for n in range(8))
_SETTINGS: Final = (  # where, workers, persistent, slow
    ("with 2 workers that take each step slowly", 2, True, True),
    ("with 2 fresh workers", 2, False, False),
    ("with 2 persistent workers", 2, True, False),
    ("with 4 persistent workers", 4, True, False),
    ("with 0 workers", 0, False, False),
)


@dataclass(frozen=True)
class Run:
    """Two epochs.

    Args:
        where: Under which circumstances.
        headlines: What the dataset was made from.
        workers: How many.
        form: What a batch is that does not hold whole numbers, or "".
        rows: The numbers that came for each headline, epoch after epoch; the second epoch begins
            with the second batch, so that it goes to the other worker.
        vocabulary: What `vocabulary` holds in main at the end; a name of a type if it is no dict.
        end: How it ended.
        kept: A sentence about where the dataset keeps what does not arrive, or "".
    """

    where: str
    headlines: tuple[str, ...]
    workers: int
    form: str
    rows: tuple[tuple[int, ...], ...]
    vocabulary: tuple[tuple[str, int | None], ...] | str
    end: Ending
    kept: str = ""


def look(answer: Any) -> type:
    """The answer, if it is a dataset's class that is no longer the starter."""
    refuse_a_loader(answer)
    return a_fixed_class(answer, Headlines)


def gather(answer: type) -> tuple[Run, ...]:
    """Two epochs under each of the circumstances, up to the first that is not right."""
    runs: list[Run] = []
    for where, workers, persistent, slow in _SETTINGS:
        runs.append(_run(answer, where, workers, persistent=persistent, slow=slow))
        try:
            _judge(runs[-1])
        except Rejected:
            break
    return tuple(runs)


def _run(answer: type, where: str, workers: int, *, persistent: bool, slow: bool) -> Run:
    headlines = _NEW_WORDS if slow else _HEADLINES
    call = f"{answer.__name__}(headlines)"
    dataset = made(answer, list(headlines), call=call, within=_MAKING)
    order = list(range(len(headlines)))
    init: Callable[[int], None] | None = None
    if slow:
        init = SlowMotion(answer, multiprocessing.get_context("fork").Barrier(workers))
    with theirs():
        loader: DataLoader[Any] = DataLoader(
            dataset,
            _BATCH_SIZE,
            sampler=order,
            num_workers=workers,
            persistent_workers=persistent,
            multiprocessing_context="fork" if workers else None,
            worker_init_fn=init,
        )
    came: list[Any] = []

    def train(loader: DataLoader[Any]) -> None:
        for epoch in ([*order], _second_epoch(order)):
            order[:] = epoch
            came.extend(each.clone() if isinstance(each, torch.Tensor) else each for each in loader)

    end = ending(observe(loader, consume=train, deadline=_RUN))
    form = next(filter(None, map(_form, came)), "")
    rows = () if form else tuple(tuple(row) for batch in came for row in batch.tolist())
    with theirs():
        vocabulary = _vocabulary(getattr(dataset, "vocabulary", None))
    kept = where_it_is_kept(answer, dataset)
    return Run(where, headlines, workers, form, rows, vocabulary, end, kept)


def _second_epoch(order: list[int]) -> list[int]:
    return order[_BATCH_SIZE:] + order[:_BATCH_SIZE]


def _form(batch: Any) -> str:
    if not isinstance(batch, torch.Tensor):
        return f"a {type(batch).__name__}"
    if batch.dim() == 2 and not batch.is_floating_point():
        return ""
    return f"a tensor of {batch.dtype}, shape {tuple(batch.shape)}"


def _vocabulary(found: Any) -> tuple[tuple[str, int | None], ...] | str:
    if not isinstance(found, dict):
        return type(found).__name__
    return tuple((str(word), whole_number(number)) for word, number in found.items())


def judge(runs: tuple[Run, ...]) -> Result:
    """Correct if in every run each word has one number of its own, and main knows it."""
    for run in runs:
        _judge(run)
    words = {word for headline in _HEADLINES for word in headline.split()}
    return correct(
        f"Each of {len(words)} words has one number, with 0, 2 and 4 workers and in every epoch; "
        "no two have the same, and main reads all of them back with `vocabulary`. (From a sorted "
        "list they are the same in the next run, too. The order of a `set` differs from run to "
        "run, and a model that was saved would not know the words again.)"
    )


def _judge(run: Run) -> None:
    if isinstance(run.vocabulary, str):
        not_yet(
            f"`vocabulary` is a {run.vocabulary}, and has to be a dict. A dict that a server "
            "process lends to all costs a round trip for each word, and looking up and adding are "
            "two steps. When could each word get its number before any worker starts?"
        )
    ended_well(run.end, run.where)
    if run.form:
        not_yet(
            f"a batch is {run.form}. A headline of four words is a tensor of four whole numbers."
        )
    order = list(range(len(run.headlines)))
    words = [run.headlines[index].split() for index in order + _second_epoch(order)]
    if [len(row) for row in run.rows] != [len(each) for each in words]:
        came = len(run.rows) // 2
        not_yet(f"{came} of {len(order)} headlines came, or not with all their words.")
    met = _meetings(run, words)
    _one_number_for_each_word(run, met)
    _one_word_for_each_number(run, met)
    _read_back(dict(run.vocabulary), met)


def _meetings(run: Run, words: list[list[str]]) -> dict[str, dict[int, str]]:
    # For each word the numbers under which it came, and from whom first.
    met: dict[str, dict[int, str]] = {}
    batches_in_epoch = len(run.headlines) // _BATCH_SIZE
    for place, row in enumerate(run.rows):
        batch = place // _BATCH_SIZE % batches_in_epoch
        who = f"W{batch % run.workers}" if run.workers else "main"
        for word, number in zip(words[place], row, strict=True):
            met.setdefault(word, {}).setdefault(number, who)
    return met


def _one_number_for_each_word(run: Run, met: dict[str, dict[int, str]]) -> None:
    torn = {word: numbers for word, numbers in met.items() if len(numbers) > 1}
    for word, numbers in torn.items():
        (one, who), (other, whom) = list(numbers.items())[:2]
        not_yet(
            f"{run.where}, {len(torn)} of {len(met)} words came under more than one number: "
            f"`{word}` was {one} from {who} and {other} from {whom}.{run.kept} How many "
            "vocabularies are there while the loader runs, and who fills each?"
        )


def _one_word_for_each_number(run: Run, met: dict[str, dict[int, str]]) -> None:
    words: dict[int, list[str]] = {}
    for word, numbers in met.items():
        for number in numbers:
            words.setdefault(number, []).append(word)
    number, sharing = max(words.items(), key=lambda item: len(item[1]))
    if len(sharing) > 1:
        slow = run.headlines == _NEW_WORDS and len(sharing) == run.workers
        moment = " Two workers met new words at the same moment." if slow else ""
        not_yet(
            f"{run.where}, {len(sharing)} words share the number {number}: "
            f"{', '.join(sharing[:3])}.{moment} Each word of the headlines needs one of its own."
        )


def _read_back(vocabulary: dict[str, int | None], met: dict[str, dict[int, str]]) -> None:
    unknown = [word for word, numbers in met.items() if vocabulary.get(word) not in numbers]
    if unknown:
        not_yet(
            f"each word has one number. But main's `vocabulary` does not know {len(unknown)} of "
            f"{len(met)} words, such as `{unknown[0]}`: nobody can read the numbers back. Who has "
            "to fill it, and when?"
        )
    given = {*vocabulary.values()}
    if given != {*range(len(vocabulary))}:
        numbers = sorted(number for number in given if number is not None)
        not_yet(
            f"the numbers run from {numbers[0]} to {numbers[-1]}, and `vocabulary` has "
            f"{len(vocabulary)} words. An embedding of as many rows has no row for some of them."
        )


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=look,
    runs="two epochs under each of five circumstances, with 2, 4 and 0 workers",
    at_most=len(_SETTINGS) * (_RUN + _MAKING) + 2,
)
