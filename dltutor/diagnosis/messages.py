"""explain(): name the failure modes that an error message or a log may come from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from dltutor.failures import CATALOGUE, Failure


@dataclass(frozen=True)
class Match:
    """A failure mode, and the words in a log that point to it.

    Args:
        failure: The entry of the catalogue.
        words: What was found, the longest piece first.
    """

    failure: Failure
    words: tuple[str, ...]


def explain(log: str) -> tuple[Match, ...]:
    """Find the failure modes whose texts stand in an error message or a log.

    A text that few failure modes share says more than one that many share, and a long one more
    than a short one.

    Args:
        log: Anything from one line to a whole log; case and line breaks do not matter.

    Returns:
        What matches, best first; empty where nothing does.
    """
    text = re.sub(r"\s+", " ", log)
    found = {
        failure.name: {
            pattern.pattern: match.group()
            for pattern in _patterns(failure)
            if (match := pattern.search(text))
        }
        for failure in CATALOGUE
    }
    shared = [pattern for matched in found.values() for pattern in matched]
    matches: list[tuple[float, Match]] = []
    for failure in CATALOGUE:
        matched = found[failure.name]
        weight = sum(len(words) / shared.count(pattern) for pattern, words in matched.items())
        if matched:
            words = tuple(sorted(set(matched.values()), key=len, reverse=True))
            matches.append((weight, Match(failure, words)))
    matches.sort(key=lambda each: -each[0])  # the order of the lessons where it is equal
    return tuple(match for _, match in matches)


@cache
def _patterns(failure: Failure) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(text, re.IGNORECASE) for text in failure.texts)
