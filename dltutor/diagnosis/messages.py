"""explain(): name the failure modes that may have caused an error message or a log.

The messages to look for are in messages.toml. A log may have "..." instead of some of the words. A
score orders the failure modes:

- Each match of a message scores 1 for the message's first cause, 1/2 for its second, and 1/3 for
  its third. If the message is only a hint, the match scores a tenth as much.
- A failure mode gets the score of its best match, plus a tenth of its other matches' scores.
- If two failure modes have the same score, the one whose words appear later in the log is first,
  because the end of a log says how the run ended.
"""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from dltutor.diagnosis.logs import plain
from dltutor.failures import FACTS, Facts

_HINT: Final = 0.1
_FURTHER: Final = 0.1
_PLACES: Final = 50  # the most matches of one message, counted from the log's end
_BEFORE: Final = 8000  # characters before a match to search for `after`, enough for a traceback
_AROUND: Final = 300  # characters to search on each side of "..."
_SHOWN: Final = 160  # the most characters to show of the words that matched


@dataclass(frozen=True)
class Message:
    """A message to look for, and the failure modes behind it. messages.toml explains the fields."""

    text: str
    source: str
    causes: tuple[str, ...]
    after: str = ""
    tell: str = ""
    hint: bool = False


@dataclass(frozen=True)
class Match:
    """A failure mode, and the words in a log that point to it.

    Args:
        failure: The catalog's facts about the failure mode.
        words: The matching pieces of the log, the most telling first.
        source: Where the most telling of these words come from.
        tell: How to tell this failure mode from others with the same message, or "".
        certain: Whether this failure mode is the likeliest cause of a message that isn't a hint.
    """

    failure: Facts
    words: tuple[str, ...]
    source: str
    tell: str
    certain: bool = True


@dataclass(frozen=True)
class _Found:
    message: Message
    start: int
    end: int
    words: str


def explain(log: str) -> tuple[Match, ...]:
    """Find the failure modes that may have caused an error message or a log.

    Args:
        log: Anything from one line to a whole log, with or without colors and prefixes. Case and
            line breaks don't matter. Only the first 256 kB and last 2 MB of a long log count.

    Returns:
        The matches, best first, or an empty tuple if nothing matches.

    Raises:
        TypeError: `log` isn't a string.
    """
    if not issubclass(type(log), str):  # isinstance would run the object's code
        from dltutor.observation.foreign import kind_of  # not at the top, because it imports torch

        raise TypeError(f"explain() takes the text of a log, got {kind_of(log)}. Use str()")
    facts = {each.name: each for each in FACTS}
    found: dict[str, list[tuple[float, _Found]]] = defaultdict(list)
    for each in _outermost(log):
        for place, cause in enumerate(each.message.causes, start=1):
            found[cause].append(((_HINT if each.message.hint else 1) / place, each))
    matches = []
    for cause, reasons in found.items():
        reasons.sort(key=lambda reason: (reason[0], reason[1].end), reverse=True)
        counts = [count for count, _ in reasons]
        best = reasons[0][1]
        words = dict.fromkeys(each.words for _, each in reasons)
        of = best.message
        match = Match(facts[cause], tuple(words), of.source, of.tell, counts[0] == 1)
        matches.append((counts[0] + _FURTHER * sum(counts[1:]), best.end, match))
    matches.sort(key=lambda each: each[:2], reverse=True)
    return tuple(match for _, _, match in matches)


def advice(log: str, *, unnamed: bool = False) -> str:
    """Return the advice (`tell`) that goes with the last known message in a log, or "".

    Messages without advice don't count, and neither do hints.

    Args:
        log: The log.
        unnamed: Whether only messages count that no failure mode causes (default False).
    """
    found = [each for each in _outermost(log) if each.message.tell and not each.message.hint]
    if unnamed:
        found = [each for each in found if not each.message.causes]
    return max(found, key=lambda each: each.end).message.tell if found else ""


@cache
def messages() -> tuple[Message, ...]:
    """Return all entries in messages.toml."""
    content = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return tuple(
        Message(**{**entry, "causes": tuple(entry["causes"])})
        for entry in tomllib.loads(content)["message"]
    )


def _search(log: str) -> Iterator[_Found]:
    lowered = log.lower()
    if len(lowered) != len(log):  # lower() turned a letter into two, so positions differ
        log = lowered
    dots = [hit.start() for hit in deque(re.finditer(r"\.{3}", lowered), maxlen=_PLACES)]
    near = "\n".join(lowered[max(at - _AROUND, 0) : at + _AROUND] for at in dots)
    for message in messages():
        # Look for the anchor first, because that's a hundred times faster than compiling a pattern.
        patterns = [message.text] if anchor(message.text) in lowered else []
        words = _WORD.findall(message.text) if near else []
        if len(words) > 2 and all(anchor(word) in near for word in (words[0], words[-1])):
            patterns.append(_with_a_gap(words))
        hits = (hit for each in patterns for hit in _pattern(each).finditer(lowered))
        for start, end in (hit.span() for hit in deque(hits, maxlen=_PLACES)):
            before = lowered[max(start - _BEFORE, 0) : start]
            if not message.after or _pattern(message.after).search(before):
                yield _Found(message, start, end, _shortened(log[start:end]))


@cache
def _pattern(text: str) -> re.Pattern[str]:
    # The pattern and log are in lower case, because a case-insensitive search is ten times slower.
    return re.compile(re.sub(r"\\.|[A-Z]+", _lower, text))


# Match a pattern's words, which are separated by spaces outside of classes and groups.
_WORD: Final = re.compile(
    r"(?:\\.|\[[^\]]+\]|\((?:\\.|\((?:\\.|[^()\\])*\)|[^()\\])*\)| [?+]|[^\\\[( ])+"
)
_GAP: Final = r" ?\S{0,20} ?\.{3}\S{0,5} "  # parts of words may touch the dots: "(pid(s) ...) "


def _with_a_gap(words: list[str]) -> str:
    # Return a pattern for a message that was shortened with "...": some of its first words, the
    # dots, and some of its last words, at least three words in all.
    first, *middle, last = words
    prefix, suffix = "", ""
    for word in reversed(middle[1:]):
        prefix = f"(?: {word}{prefix})?"
    for word in middle[:-1]:
        suffix = f"(?:{suffix}{word} )?"
    two_before = f"{first} {middle[0]}{prefix}{_GAP}(?:{suffix}{middle[-1]} )?{last}"
    return f"(?:{two_before}|{first}{_GAP}{suffix}{middle[-1]} {last})"


def _lower(part: re.Match[str]) -> str:
    return part[0] if part[0].startswith("\\") else part[0].lower()  # so that \S doesn't become \s


# Match what ends a run of literal characters: a character class, a special character such as `+`,
# a group, or an optional character.
_NOT_PLAIN: Final = re.compile(
    r"(?:\n|\\.|\.)(?:[?*+]|\{[^}]*\})?\??|(?:\0..\0|.)(?:[?*]|\{[^}]*\})\??|[+^$]"
)


@cache
def anchor(text: str) -> str:
    """Return the longest plain, lowercase piece that every match of a pattern contains, or ""."""
    flat = re.sub(r"\\(.)", lambda it: "\n" if it[1].isalnum() else f"\0{ord(it[1]):02x}\0", text)
    while flat != (flat := re.sub(r"\[[^\]]*\]|\([^()]*\)", "\n", flat)):
        pass  # each step removes the innermost groups
    pieces = re.split(_NOT_PLAIN, flat)
    whole = [re.sub(r"\0(..)\0", lambda sign: chr(int(sign[1], 16)), each) for each in pieces]
    return "" if "|" in flat else max(whole, key=len).lower()


def _shortened(words: str) -> str:
    if len(words) <= _SHOWN:
        return words.strip()
    return f"{words[: _SHOWN // 3].strip()} ... {words[-_SHOWN * 2 // 3 :].strip()}"


def _outermost(log: str) -> Iterator[_Found]:
    # Find the messages in a log, but drop a match that begins or ends where a longer one does,
    # because it's a part of the longer one. If several matches begin and end in the same places,
    # keep one with an `after` or, if none has one, a match that isn't a hint.
    found = _search(plain(log))
    everything = sorted(found, key=lambda each: (not each.message.after, each.message.hint))
    ends: dict[int, int] = {}
    starts: dict[int, int] = {}
    for each in everything:
        ends[each.start] = max(ends.get(each.start, 0), each.end)
        starts[each.end] = min(starts.get(each.end, each.start), each.start)
    seen = set()
    for each in everything:
        span = (each.start, each.end)
        if ends[each.start] == each.end and starts[each.end] == each.start and span not in seen:
            seen.add(span)
            yield each
