"""Hold what an answer to "04.fix" heard and counted against what there was."""

from __future__ import annotations

from typing import Any, Final

import torch

from dltutor.lessons.kit.answers import wrong
from dltutor.lessons.lesson_04.clips import CROP, stretches
from dltutor.lessons.lesson_04.copies import shared, where_it_is_kept

#: The epochs that main sets, as a resumed run does: nobody can count them for themselves.
EPOCHS: Final = (0, 3, 1)

#: For each epoch the batches, and what `silent()` says after it.
Heard = list[tuple[Any, Any]]


def compare_stretches(
    answer: type, dataset: Any, clips: torch.Tensor, heard: Heard, where: str
) -> None:
    """Compare the stretches that came with those of the epoch.

    Raises:
        Unfit: They differ.
    """
    for place, epoch in enumerate(EPOCHS):
        came = _joined(heard[place][0], len(clips))
        right = _equal(came, stretches(clips, epoch))
        if right == len(clips):
            continue
        text = f"{where}, {len(clips) - right} of {len(clips)} stretches of epoch {epoch} are wrong"
        others = [
            other for other in range(8) if _equal(came, stretches(clips, other)) == len(clips)
        ]
        if not others:
            wrong(f"{text}. Which stretch does `start` have to be in epoch {epoch}?")
        if place and others[0] == EPOCHS[0]:
            wrong(
                f"{text}: they are those of epoch {others[0]}. `set_epoch({epoch})` was called in "
                "main, after the workers had started."
                f"{where_it_is_kept(answer, dataset) or ' Which memory do both sides see?'}"
            )
        wrong(
            f"{text}: they are those of epoch {others[0]}. Who counts the epochs in your class? "
            f"Main says `set_epoch({epoch})` and means it, and a resumed run begins with another "
            "epoch than 0."
        )


def _joined(batches: list[Any], number: int) -> torch.Tensor:
    for batch in batches:
        if not isinstance(batch, torch.Tensor) or batch.dim() != 2 or batch.shape[1] != CROP:
            shape = tuple(batch.shape) if isinstance(batch, torch.Tensor) else type(batch).__name__
            wrong(
                f"a sample is no longer a stretch of {CROP} numbers: a batch is {shape}. The "
                "exercise leaves the samples as they are."
            )
    came = torch.cat(batches) if batches else torch.empty((0, CROP))
    if len(came) != number:
        wrong(f"{len(came)} of {number} stretches came. What does `__len__` say?")
    return came


def _equal(came: torch.Tensor, wanted: torch.Tensor) -> int:
    return int((came == wanted).all(dim=1).sum())


def compare_counts(
    answer: type, dataset: Any, clips: torch.Tensor, heard: Heard, where: str
) -> None:
    """Compare what `silent()` said with the silent stretches that there were.

    Raises:
        Unfit: They differ.
    """
    silent = 0
    for place, epoch in enumerate(EPOCHS):
        silent += _silent(clips, epoch)
        counted = number_in(heard[place][1])
        if counted == silent:
            continue
        text = f"{where}, {silent} stretches were silent up to the end of epoch {epoch}, and"
        if counted == 0:
            wrong(
                f"each epoch hears its own stretches. But {text} `silent()` says 0 in main. Who "
                f"changed which copy?{where_it_is_kept(answer, dataset)}"
            )
        wrong(
            f"{text} `silent()` says {counted}. It counts all of them since the dataset was made, "
            "each once."
        )


def some_are_lost(clips: torch.Tensor, heard: Heard) -> bool:
    """Whether fewer were counted than there were: not none, and not those of one epoch alone."""
    silent = 0
    for epoch, (_, said) in zip(EPOCHS, heard, strict=True):
        silent += _silent(clips, epoch)
        counted = number_in(said)
        if counted < silent and counted not in (0, _silent(clips, epoch)):
            return True
    return False


def _silent(clips: torch.Tensor, epoch: int) -> int:
    return int((~stretches(clips, epoch).any(dim=1)).sum())


def number_in(said: Any) -> int:
    """What `silent()` said, as a whole number.

    Raises:
        Unfit: It is none.
    """
    try:
        return int(said)
    except (TypeError, ValueError):
        wrong(
            f"`silent()` returned a {type(said).__name__}, and has to return a whole number. A "
            "`Value` holds its number in `.value`."
        )


def single_numbers(dataset: Any) -> dict[str, Any]:
    """The shared tensors of one number that a dataset holds, as they are now."""
    return {
        name: value.item()
        for name, value in vars(dataset).items()
        if isinstance(value, torch.Tensor) and value.numel() == 1 and shared(value)
    }
