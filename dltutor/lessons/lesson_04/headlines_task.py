"""Grade "04.transfer": each word has one number, in every process, and main can read it back."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch.utils.data import DataLoader

from dltutor.lessons.kit.answers import a_mended_class, made, wrong
from dltutor.lessons.kit.outcome import Result, correct
from dltutor.lessons.lesson_04.copies import (
    BUILDING,
    PATIENCE,
    refuse_a_loader,
    run,
    where_it_is_kept,
)
from dltutor.lessons.lesson_04.headlines import Headlines, make_headlines

#: Seconds that a check takes at most: the dataset made twice, and two runs.
AT_MOST: Final = 2 * (BUILDING + PATIENCE)

_SEED: Final = 61
_BATCH_SIZE: Final = 4
_WORKERS: Final = 2

_Heard = list[list[Any]]  # for each epoch, the batches


def grade(answer: Any) -> Result:
    """Grade a class that turns headlines into numbers.

    Args:
        answer: The learner's class, made as `answer(headlines)`.

    Raises:
        Unfit: The answer is wrong or cannot be graded; its result says why.
        Exception: What the answer raises when it is made.
    """
    refuse_a_loader(answer)
    answer = a_mended_class(answer, Headlines)
    headlines = make_headlines(seed=_SEED)
    for persistent in (False, True):
        _run_and_compare(answer, headlines, persistent=persistent)
    words = {word for headline in headlines for word in headline.split()}
    return correct(
        f"Each of {len(words)} words has one number in both workers and in every epoch, no two "
        "have the same, and main reads all of them back with `vocabulary`. (From a sorted list "
        "they are the same in the next run, too. The order of a `set` is another in each run, "
        "and a model that was saved would not know them again.)"
    )


def _run_and_compare(answer: type, headlines: list[str], *, persistent: bool) -> None:
    kind = "persistent" if persistent else "fresh"
    dataset = made(answer, list(headlines), "headlines", within=BUILDING)
    vocabulary = getattr(dataset, "vocabulary", None)
    if not isinstance(vocabulary, dict):
        wrong(
            f"`vocabulary` is a {type(vocabulary).__name__}, and has to be a dict. A dict that a "
            "server process lends to all costs a round trip for each word, and looking up and "
            "adding are two steps. When could each word get its number before any worker starts?"
        )
    loader: DataLoader[Any] = DataLoader(
        dataset,
        batch_size=_BATCH_SIZE,
        num_workers=_WORKERS,
        persistent_workers=persistent,
        multiprocessing_context="fork",
    )
    heard: _Heard = run(loader, _two_epochs, f"with {_WORKERS} {kind} workers")
    met = _meetings(headlines, heard)
    _one_number_for_each_word(answer, dataset, met)
    _one_word_for_each_number(met)
    _read_back(dataset.vocabulary, met)


def _two_epochs(loader: DataLoader[Any]) -> _Heard:
    return [
        [batch.clone() if isinstance(batch, torch.Tensor) else batch for batch in loader]
        for _ in range(2)
    ]


def _meetings(headlines: list[str], heard: _Heard) -> dict[str, dict[int, str]]:
    # For each word the numbers under which it came, and from whom first.
    met: dict[str, dict[int, str]] = {}
    for batches in heard:
        for batch in batches:
            if not isinstance(batch, torch.Tensor) or batch.dim() != 2 or batch.is_floating_point():
                wrong(
                    f"a batch is {_form(batch)}. A headline of four words is a tensor of four "
                    "whole numbers."
                )
        rows = torch.cat(batches).tolist() if batches else []
        if [len(row) for row in rows] != [len(headline.split()) for headline in headlines]:
            wrong(f"{len(rows)} of {len(headlines)} headlines came, or not with all their words.")
        for row, (headline, numbers) in enumerate(zip(headlines, rows, strict=True)):
            worker = f"W{row // _BATCH_SIZE % _WORKERS}"
            for word, number in zip(headline.split(), numbers, strict=True):
                met.setdefault(word, {}).setdefault(number, worker)
    return met


def _form(batch: Any) -> str:
    if isinstance(batch, torch.Tensor):
        return f"a tensor of {batch.dtype}, shape {tuple(batch.shape)}"
    return f"a {type(batch).__name__}"


def _one_number_for_each_word(answer: type, dataset: Any, met: dict[str, dict[int, str]]) -> None:
    torn = {word: numbers for word, numbers in met.items() if len(numbers) > 1}
    if not torn:
        return
    word, numbers = next(iter(torn.items()))
    (one, who), (other, whom) = list(numbers.items())[:2]
    wrong(
        f"{len(torn)} of {len(met)} words came under more than one number: `{word}` was {one} from "
        f"{who} and {other} from {whom}.{where_it_is_kept(answer, dataset)} How many "
        "vocabularies are there while the loader runs, and who fills each?"
    )


def _one_word_for_each_number(met: dict[str, dict[int, str]]) -> None:
    words: dict[int, list[str]] = {}
    for word, numbers in met.items():
        for number in numbers:
            words.setdefault(number, []).append(word)
    crowded = {number: sharing for number, sharing in words.items() if len(sharing) > 1}
    if crowded:
        number, sharing = max(crowded.items(), key=lambda item: len(item[1]))
        wrong(
            f"{len(sharing)} words share the number {number}: {', '.join(sharing[:3])}. Each "
            "word of the headlines needs one of its own."
        )


def _read_back(vocabulary: dict[Any, Any], met: dict[str, dict[int, str]]) -> None:
    unknown = [word for word, numbers in met.items() if vocabulary.get(word) not in numbers]
    if unknown:
        wrong(
            f"each word has one number. But main's `vocabulary` does not know {len(unknown)} of "
            f"{len(met)} words, such as `{unknown[0]}`: nobody can read the numbers back. Who has "
            "to fill it, and when?"
        )
    highest = max(max(numbers) for numbers in met.values())
    lowest = min(min(numbers) for numbers in met.values())
    if lowest < 0 or highest >= len(vocabulary):
        wrong(
            f"the numbers run from {lowest} to {highest}, and `vocabulary` has {len(vocabulary)} "
            "words. An embedding of as many rows has no such row."
        )
