"""What people say about DataLoaders, each statement with the measurement that tries it.

One module for each lesson holds its `CLAIMS`; `scripts/claims.py` measures them and writes the page
`notebooks/CLAIMS.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Source:
    """Where a claim is from.

    Args:
        title: The title of the article, thread or page.
        date: When it was published, such as "2025-01-30"; empty where it is not known.
        address: Its address, where it has one.
    """

    title: str
    date: str = ""
    address: str = ""

    def __str__(self) -> str:
        title = f"[{self.title}]({self.address})" if self.address else f'"{self.title}"'
        return f"{title}, {self.date}" if self.date else title


EXITING: Final = Source("Why are DataLoader workers exiting unexpectedly?", "2025-01-30")
NOT_STARTING: Final = Source(
    "Why does the training loop fail to initiate when using multiple DataLoader workers?",
    "2024-12-23",
)
DEEP_DIVE: Final = Source(
    "ML Engineering 101: A Thorough Explanation of the Error "
    '"DataLoader worker (pid(s) xxx) exited unexpectedly"',
    "2024-06-03",
    "https://towardsdatascience.com/ml-engineering-101-a-thorough-explanation-of-the-error-"
    "dataloader-worker-pid-s-xxx-exited-f3a6a983911e",
)


@dataclass(frozen=True)
class Measured:
    """What a measurement found.

    Args:
        result: What was observed, in numbers that do not change from one run to the next, or in
            rounded ones that say so ("about").
        verdict: What follows for the claim, and no more: "refuted under fork; holds under spawn".
    """

    result: str
    verdict: str


@dataclass(frozen=True)
class Claim:
    """A statement of somebody else's, and how to try it.

    Args:
        text: The claim, in our words, one sentence.
        source: Where it is from.
        how: How it is measured, one or two sentences.
        measure: Measures it. It runs in a process of its own, is stopped after `seconds`, and may
            raise `CannotMeasure`.
        seconds: What the measurement takes at most.
    """

    text: str
    source: Source
    how: str
    measure: Callable[[], Measured]
    seconds: int = 60


class CannotMeasure(Exception):
    """This machine does not permit the measurement; the message says why, as a sentence."""


#: What is not measured, and why: the last section of the page.
NOT_MEASURED: Final = f"""\
- A cause is the one "often", "usually", "almost always" (all three articles): how often takes the
  failures of many jobs. What is tried is whether it can be the cause, and what else can.
- Fork has trouble with CUDA tensors and OpenCV ({DEEP_DIVE}): there is no GPU here, and the course
  does not install OpenCV. Lesson 07 tries threads and locks.
- Keep file names in a CSV file or frame for HuggingFace's `load_dataset` (the same): the course
  does not install `datasets`. Lesson 09 tries arrays and pandas.
- Other systems than Ubuntu 20.04 have other commands (the same): this page is of one machine.
- Debugging in child processes may hide the issue ({NOT_STARTING}): it names no issue. Lesson 07
  shows that `breakpoint()` in a worker raises an error of its own.
- What to read: PyTorch's documentation, guides to `multiprocessing` and to handling errors,
  "Programming in Lua", "Operating System Concepts", and lists of references (all three): advice to
  read cannot be measured.
"""
