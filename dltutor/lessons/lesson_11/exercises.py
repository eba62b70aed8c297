"""Lesson 11, in words: bytes and descriptors, and who gives them back."""

from __future__ import annotations

import re
from typing import Any, Final

from dltutor.lessons.engine.exercise import Exercise, Grader
from dltutor.lessons.engine.forms import blank, choice, letter, shown
from dltutor.lessons.engine.outcomes import Result, correct, not_attempted, not_yet
from dltutor.lessons.lesson_11 import fix, transfer

#: Ways to keep the labels of a batch, in "11.diagnose": what is true of each.
_KEEPS: Final = {
    "a": "`labels[0]` is a view: one number, and the storage of all of them.",
    "c": "`labels.numpy()` is an array in the tensor's own memory.",
    "e": "the labels are `int64` already, so `labels.long()` is the same tensor.",
    "g": "on a CPU, neither `detach()` nor `cpu()` copies anything.",
}
_FREES: Final = {
    "b": "`labels.tolist()` makes Python numbers, which refer to no tensor.",
    "d": "`labels.clone()` is a copy in main's own memory.",
    "f": "`labels.float()` has another type than `int64`, so it has to be a copy.",
}


def _letters(answer: Any) -> set[str]:
    """The letters that were meant: "aceg", "A, C", ["a", "c"] and {"a"} are taken."""
    if blank(answer):
        not_attempted('set the variable to the letters that keep a descriptor, such as "ab".')
    text = answer
    if isinstance(answer, (list, tuple, set, frozenset)):
        text = " ".join(each if isinstance(each, str) else "?" for each in answer)
    if not isinstance(text, str):
        not_yet(f'{shown(answer)} is no text with letters, such as "ab".')
    words = re.findall(r"[^\s,;.'\"`()\[\]{}&+/-]+", text.lower())
    letters = {each for word in words if word != "and" for each in word}
    if unknown := sorted(letters - _KEEPS.keys() - _FREES.keys()):
        not_yet(f"{shown(answer)} has {unknown[0]!r}, which is none of the letters a to g.")
    if not letters and letter(answer) is None:
        not_yet("no letter is named, and some of the seven keep a descriptor. Measure one.")
    return letters


def _told(letters: set[str]) -> Result:
    wrong = sorted(letters & _FREES.keys())
    missing = sorted(_KEEPS.keys() - letters)
    right = 7 - len(wrong) - len(missing)
    if wrong:
        not_yet(f"{right} of 7 are judged right. Not `{wrong[0]}`: {_FREES[wrong[0]]}")
    if missing:
        not_yet(
            f"what you named is right, and {len(missing)} more of the seven keep one. "
            "Which of the others gives you the same memory under another name? `held()` tells."
        )
    return correct(
        "`a`, `c`, `e` and `g` are the batch's memory under another name. `b`, `d` and `f` are "
        "copies, so the descriptor is closed when the batch goes."
    )


EXERCISES: Final = (
    Exercise(
        name="11.predict",
        title="The same batches, as a list",
        grader=choice(
            "c",
            {
                "a": "`a`: look at where the second run stood. Nothing was raised in main. Which "
                "thread of the worker had the error?",
                "b": "`b`: look at how the second run ended. A list needs shared memory too: its "
                "tensors are sent, one by one.",
                "c": "`c`: a list is moved to shared memory later, by the thread that sends it. "
                "Its error goes to stderr, its batch is lost, and main waits.",
            },
        ),
        hints=(
            "Choose, and run the next cells.",
            "`default_collate` stacks the slices in shared memory, in the worker's own thread. "
            "With `list`, somebody else has to move the tensors there. Who, and when?",
            "A thread of the worker sends batches. Nobody waits for what it raises.",
        ),
    ),
    Exercise(
        name="11.diagnose",
        title="Seven ways to keep labels",
        grader=Grader(_letters, _told),
        hints=(
            "Keep one of them for each batch of the cell's loader, and look at `held()`.",
            "A view, an array, or the same tensor under another name keeps the memory, and with it "
            "the descriptor. A copy does not.",
            "Four of them keep one. `long()`, `detach()`, and `cpu()` return what they were given, "
            "if there is nothing to do.",
        ),
    ),
    Exercise(
        name="11.fix",
        title="Three thousand sentences, 128 descriptors",
        grader=fix.GRADER,
        hints=(
            "There are two faults: what one batch costs to send, and what is kept of each.",
            "A batch of 100 sentences is 101 tensors. One tensor with all their words, and their "
            "lengths in another, are two. `torch.split(words, lengths)` takes them apart in main.",
            "What `split` gives are views: keep `each.clone()` of each, and `labels.tolist()`.",
        ),
    ),
    Exercise(
        name="11.transfer",
        title="A block that everybody sees and nobody leaves",
        grader=transfer.GRADER,
        hints=(
            "Three things: what a row is, what `pickle` sends to a spawned worker, and what "
            "`close` leaves.",
            "`torch.tensor(...)` copies, `from_numpy` does not. An array is pickled with all its "
            "rows, a `SharedMemory` with its name. `unlink()` removes the name, and once is "
            "enough.",
            "Keep the block, the shape, and the dtype, and make the array for each use: then a "
            "pickle has no rows. In `close`: if there is a block, `close()` and `unlink()` it, and "
            "set it to None.",
        ),
    ),
)
