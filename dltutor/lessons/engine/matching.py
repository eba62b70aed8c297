"""Grade exercises whose answer is a dict with a word for each job."""

from __future__ import annotations

from typing import Any

from dltutor.lessons.engine.exercise import Grader
from dltutor.lessons.engine.forms import blank, letter, shown
from dltutor.lessons.engine.outcomes import Result, correct, not_attempted, not_yet


def matched(right: dict[str, str], what: str) -> Grader[dict[str, str]]:
    """Return a grader for a dict that maps each job's letter to a word, such as {"A": "cache"}.

    "Cache" and "'cache'" are the same word. If the words are causes, the codes are "no-causes" for
    the starter, "dots" if a job still has `...`, "other-keys" for other jobs, "no-cause" for an
    unknown word, and "wrong-A" if A is the first job with a wrong word.

    Args:
        right: The right word for each letter, in upper case.
        what: What the words are, in the singular, such as "cause".
    """
    words = [*right.values()]

    def gather(answer: Any) -> dict[str, str]:
        if blank(answer):
            not_attempted(f"no-{what}s")
        given = answer if isinstance(answer, dict) else {}
        named = {(letter(job) or "").upper(): word for job, word in given.items()}
        if named.keys() != right.keys() or len(given) != len(right):
            not_yet("other-keys")
        if any(map(blank, named.values())):
            not_attempted("dots")
        meant = {job: str(word).strip(" \"'.`").lower() for job, word in named.items()}
        for job, word in meant.items():
            if word not in words:
                not_yet(f"no-{what}", answer=shown(named[job]), **{f"{what}s": ", ".join(words)})
        return meant

    def judge(meant: dict[str, str]) -> Result:
        wrong = [job for job, word in right.items() if meant[job] != word]
        if wrong:
            first = wrong[0]
            not_yet(f"wrong-{first}", right=len(right) - len(wrong), **{what: meant[first]})
        return correct()

    return Grader(gather, judge)
