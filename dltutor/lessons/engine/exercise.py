"""Define exercises, and the graders for their answers.

A grader's result has a code, such as "wrong-A". `words.py` finds the message for a code.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, Generic, TypeVar

from dltutor.lessons.engine import words
from dltutor.lessons.engine.forms import a_whole_number, blank, letter, letters, shown
from dltutor.lessons.engine.outcomes import Rejected, Result, correct, not_attempted, not_yet

E = TypeVar("E")


def unchanged(answer: Any) -> Any:
    """Return the answer as it is. As a grader's `look`, this function rejects no answer."""
    return answer


@dataclass(frozen=True)
class Grader(Generic[E]):
    """Three steps that grade an answer, in a sandbox: a process that ends with the check.

    Each step may raise `Rejected` to end the grading with the result in that exception.

    Args:
        gather: The step that runs the answer and returns the evidence, which is plain data.
        judge: The step that judges the evidence without running the learner's code.
        look: The step that takes the answer and returns the argument for `gather`. It may reject
            an untouched starter or a value of the wrong type, without running the learner's code.
        at_most: Time limit in seconds for everything after `look`. If it's 0, check() doesn't
            announce a run, and all three steps together may take 20 s.
    """

    gather: Callable[[Any], E]
    judge: Callable[[E], Result]
    look: Callable[[Any], Any] = unchanged
    at_most: int = 0


@dataclass(frozen=True)
class Exercise:
    """An exercise of a lesson, with what check(), hint(), and progress() need to know about it.

    The title, `runs`, `usually`, and the hints come from the lesson's `exercises.toml`.

    Args:
        name: The lesson's number, a dot, and a word, such as "01.fix".
        grader: The steps that grade an answer to the exercise.
    """

    name: str
    grader: Grader[Any]

    @property
    def lesson(self) -> str:
        """The lesson's number."""
        return self.name.partition(".")[0]

    @property
    def title(self) -> str:
        """The exercise's task in a few words, for progress()."""
        return str(self._words["title"])

    @property
    def runs(self) -> str:
        """The words that check() prints after "Checking 01.fix:", or "" if it announces no run."""
        return str(self._words.get("runs", ""))

    @property
    def usually(self) -> int:
        """Seconds that a right answer's check takes on two cores, or 0 if it announces no run."""
        return int(self._words.get("usually", 0))

    @property
    def hints(self) -> tuple[str, ...]:
        """Three hints: where to look, which mechanism is at work, and almost the line to write."""
        return tuple(self._words["hints"])

    @property
    def _words(self) -> dict[str, Any]:
        table: dict[str, Any] = words.lesson(self.lesson)[self.name.partition(".")[2]]
        return table


def by_runs(
    run: Callable[[Any], Iterator[E]],
    judge: Callable[[E], None],
    *,
    at_most: int,
    look: Callable[[Any], Any] = unchanged,
    result: Callable[[tuple[E, ...]], Result] = lambda runs: correct(),
) -> Grader[tuple[E, ...]]:
    """Return a grader that runs an answer several times, up to the first run that `judge` rejects.

    Args:
        run: A function that runs the answer several times, and yields the evidence from each run.
        judge: A function that rejects the answer if the evidence from one run shows a mistake.
        at_most: Time limit in seconds for everything after `look`.
        look: The Grader's `look`. The default rejects no answer.
        result: A function that makes the result from all runs' evidence, if `judge` rejects none.
            The default result is "Correct".
    """

    def judge_all(runs: tuple[E, ...]) -> Result:
        for each in runs:
            judge(each)
        return result(runs)

    def gather(answer: Any) -> tuple[E, ...]:
        runs: list[E] = []
        for each in run(answer):
            runs.append(each)
            try:
                judge(each)
            except Rejected:
                break
        return tuple(runs)

    return Grader(gather, judge_all, look, at_most)


def choice(right: str, options: Iterable[str]) -> Grader[str]:
    """Return a grader for a choice between letters. A valid letter is also the result's code.

    Args:
        right: The letter that the grader accepts.
        options: All letters to choose from, in lowercase.
    """
    known = [*options]
    listed = ", ".join(map(repr, known))

    def gather(answer: Any) -> str:
        if blank(answer):
            not_attempted("no-letter", options=listed)
        chosen = letter(answer) or ""
        if chosen not in known:
            not_yet("no-option", answer=shown(answer), options=listed)
        return chosen

    def judge(chosen: str) -> Result:
        if chosen != right:
            not_yet(chosen)
        return correct(chosen)

    return Grader(gather, judge)


def number(right: int, options: Iterable[str]) -> Grader[int]:
    """Return a grader for a whole number.

    The result's code is the number, or "other-number" for a wrong one that isn't in `options`.

    Args:
        right: The number that the grader accepts.
        options: The numbers that have their own message, as strings.
    """
    known = [*options]

    def judge(found: int) -> Result:
        if found != right:
            not_yet(str(found) if str(found) in known else "other-number", number=found)
        return correct(str(found))

    return Grader(a_whole_number, judge)


def several(right: Iterable[str], known: str, codes: Container[str]) -> Grader[frozenset[str]]:
    """Return a grader for a set of letters, such as {"A", "C"} or "ac".

    If A is the first letter that's wrong, or the first one missing if none is wrong, the code is
    "wrong-A". If `codes` lacks "wrong-A", the code is "missing" instead.

    Args:
        right: The letters that the grader accepts.
        known: All letters to choose from.
        codes: The codes that have a message.
    """
    wanted = frozenset(right)

    def judge(chosen: frozenset[str]) -> Result:
        wrong = sorted(chosen - wanted) + sorted(wanted - chosen)
        if not wrong:
            return correct()
        code = f"wrong-{wrong[0]}"
        counts = {"found": len(chosen), "right": len(known) - len(wrong)}
        not_yet(code if code in codes else "missing", **counts)

    return Grader(partial(letters, known=known), judge)


def matched(right: dict[str, str]) -> Grader[dict[str, str]]:
    """Return a grader for a dict that maps each job's letter to a word, such as {"A": "cache"}.

    "Cache" and "'cache'" are the same word. The codes are "no-words" if the answer or a job's word
    is None or `...`, "other-keys" if the answer isn't a dict of these jobs, "no-word" for an
    unknown word, "wrong-A" if A is the first job with a wrong word, and "correct".

    Args:
        right: Each job's letter in uppercase -> the right word in lowercase.
    """
    words = [*right.values()]

    def gather(answer: Any) -> dict[str, str]:
        if blank(answer):
            not_attempted("no-words")
        given = answer if isinstance(answer, dict) else {}
        named = {(letter(job) or "").upper(): word for job, word in given.items()}
        if named.keys() != right.keys() or len(given) != len(right):
            not_yet("other-keys", keys=", ".join(right))
        if any(map(blank, named.values())):
            not_attempted("no-words")
        meant = {job: str(word).strip(" \"'.`").lower() for job, word in named.items()}
        for job, word in meant.items():
            if word not in words:
                not_yet("no-word", answer=shown(named[job]), words=", ".join(words))
        return meant

    def judge(meant: dict[str, str]) -> Result:
        wrong = [job for job, word in right.items() if meant[job] != word]
        if wrong:
            first = wrong[0]
            not_yet(f"wrong-{first}", right=len(right) - len(wrong), word=meant[first])
        return correct()

    return Grader(gather, judge)


def exercises_of(lesson: str) -> tuple[Exercise, ...]:
    """Return a lesson's exercises, in the order in which its `exercises.toml` lists them.

    If an exercise has an `answer` there, its grader compares the learner's answer with it.
    Otherwise, the grader is the `GRADER` in the lesson's module with the exercise's name.

    Args:
        lesson: The lesson's number, such as "10".

    Raises:
        FileNotFoundError: No lesson has this number.
        ImportError: An exercise has no `answer`, and no module of its own.
    """
    found = []
    for name, table in words.lesson(lesson).items():
        if name == "says":
            continue
        grader: Grader[Any]
        right = table.get("answer")
        if isinstance(right, dict):
            grader = matched(right)
        elif isinstance(right, list):
            grader = several(right, table["letters"], table["says"])
        elif isinstance(right, int):
            grader = number(right, table["options"])
        elif isinstance(right, str):
            grader = choice(right, table["options"])
        else:
            grader = import_module(f"dltutor.lessons.lesson_{lesson}.{name}").GRADER
        found.append(Exercise(f"{lesson}.{name}", grader))
    return tuple(found)
