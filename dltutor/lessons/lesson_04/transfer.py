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
# No two share a word: in slow motion, all workers meet new words at the same moment.
_NEW: Final = [" ".join(f"{word}{n}" for word in "abcd") for n in range(8)]
_RUN: Final = 12  # seconds for two epochs
PLANS: Final = {  # where -> workers, whether they live on, headlines
    "with 2 fresh workers": (2, False, _HEADLINES),
    "with 4 workers in slow motion": (4, True, _NEW),
    "with 2 persistent workers": (2, True, _HEADLINES),
    "with 0 workers": (0, False, _HEADLINES),
}


@dataclass(frozen=True)
class Run:
    """The batches of two epochs, and what main's `vocabulary` holds then; None if it is no dict."""

    where: str
    came: tuple[Any, ...]
    vocabulary: dict[str, int | None] | None
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
    slow = headlines is _NEW
    dataset = made(answer, [*headlines], call=f"{answer.__name__}(headlines)", within=2)
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
        persistent_workers=persistent,
        worker_init_fn=SlowMotion(workers) if slow else None,
    )
    vocabulary = None
    found: Any = getattr(dataset, "vocabulary", None)
    with theirs():
        if hasattr(found, "items"):  # also of a Manager
            vocabulary = {str(word): whole_number(number) for word, number in found.items()}
    return Run(where, tuple(came), vocabulary, end)


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
    ended_well(run.end, run.where)
    for batch in run.came:
        if not isinstance(batch, torch.Tensor) or batch.is_floating_point() or batch.dim() != 2:
            form = batch.dtype if isinstance(batch, torch.Tensor) else type(batch).__name__
            not_yet(f"a batch is a {form}. Each headline should come as four whole numbers.")
    headlines = 2 * [headline.split() for headline in PLANS[run.where][2]]
    rows = [row for batch in run.came for row in batch.tolist()]
    if [len(row) for row in rows] != [len(words) for words in headlines]:
        text = f"{len(rows)} headlines came in two epochs, of {len(headlines)}"
        not_yet(f"{run.where}, {text}, or not with all their words.")
    numbers: dict[str, set[int]] = {}
    words: dict[int, set[str]] = {}
    for row, headline in zip(rows, headlines, strict=True):
        for number, word in zip(row, headline, strict=True):
            numbers.setdefault(word, set()).add(number)
            words.setdefault(number, set()).add(word)
    _one_to_one(run.where, numbers, words)
    _read_back(run.vocabulary, numbers)


def _one_to_one(where: str, numbers: dict[str, set[int]], words: dict[int, set[str]]) -> None:
    torn = sorted(word for word, told in numbers.items() if len(told) > 1)
    if torn:
        one, other, *_ = sorted(numbers[torn[0]])
        not_yet(
            f"{where}, {len(torn)} of {len(numbers)} words came under more than one number: "
            f"`{torn[0]}` was {one} and {other}. How many vocabularies are there while the loader "
            "runs, and who fills each?"
        )
    for number, sharing in words.items():
        if len(sharing) > 1:
            not_yet(
                f"{where}, {len(sharing)} words share the number {number}, such as "
                f"{' and '.join(sorted(sharing)[:2])}. At which moment does a word get its "
                "number, and who else may be giving one away just then?"
            )


def _read_back(vocabulary: dict[str, int | None] | None, numbers: dict[str, set[int]]) -> None:
    vocabulary = {} if vocabulary is None else vocabulary
    unknown = [word for word, told in numbers.items() if vocabulary.get(word) not in told]
    if unknown:
        not_yet(
            f"each word has one number. But main's `vocabulary` does not know {len(unknown)} of "
            f"{len(numbers)} words, such as `{unknown[0]}`: nobody can read the numbers back. Who "
            "has to fill it, and when?"
        )
    if {*vocabulary.values()} != {*range(len(vocabulary))}:
        largest = max(number for number in vocabulary.values() if number is not None)
        not_yet(
            f"the numbers run up to {largest}, and `vocabulary` has {len(vocabulary)} words. They "
            "have to run from 0 without gaps: an embedding has as many rows as there are words."
        )


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=look,
    runs="two epochs with 4, 2 and 0 workers",
    at_most=len(PLANS) * (_RUN + 2) + 2,
)
