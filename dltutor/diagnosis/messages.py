"""explain(): name the failure modes that an error message or a log may come from.

The texts stand in messages.toml; "..." in a log stands for words of one that were left out. How
the failure modes are ordered:

- A text counts 1 for its first cause, 1/2 for its second, 1/3 for its third; a hint a tenth.
- A failure mode has the count of its best text, and a tenth of what its other texts count.
- Between equals the one whose words come later in the log is first: the end says how it ended.
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
_PLACES: Final = 50  # of one text in one log, the last ones
_BEFORE: Final = 8000  # characters in which the `after` of a text has to stand: a traceback
_AROUND: Final = 300  # characters at each side of "..." in which a text has to stand
_SHOWN: Final = 160  # characters of the words that were found


@dataclass(frozen=True)
class Message:
    """A text that a failure mode leaves in a log, as messages.toml has it."""

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
        failure: The facts of the failure mode.
        words: What was found, the longest piece first.
        source: Where the most telling of these words are raised.
        tell: How to tell it from other failures that say the same; "" where there are none.
        certain: Whether these words point to it before all others, and are no mere hint.
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
    """Find the failure modes whose texts stand in an error message or a log.

    Args:
        log: Anything from one line to a whole log, with or without colors and prefixes; case and
            line breaks do not matter. Of a long one the first 256 kB and the last 2 MB are read.

    Returns:
        What matches, best first; empty where nothing does.

    Raises:
        TypeError: It is not a string.
    """
    if not issubclass(type(log), str):  # isinstance would ask the object
        from dltutor.observation.foreign import kind_of  # with torch: not for an answer

        raise TypeError(f"explain() takes the text of a log, got {kind_of(log)}: use str()")
    facts = {each.name: each for each in FACTS}
    found: dict[str, list[tuple[float, _Found]]] = defaultdict(list)
    for each in _outermost(_search(plain(log))):
        for place, cause in enumerate(each.message.causes, start=1):
            found[cause].append(((_HINT if each.message.hint else 1) / place, each))
    matches = []
    for cause, reasons in found.items():
        reasons.sort(key=lambda reason: (reason[0], reason[1].end), reverse=True)
        counts = [count for count, _ in reasons]
        best = reasons[0][1]
        words = sorted({each.words for _, each in reasons}, key=len, reverse=True)
        of = best.message
        match = Match(facts[cause], tuple(words), of.source, of.tell, counts[0] == 1)
        matches.append((counts[0] + _FURTHER * sum(counts[1:]), best.end, match))
    matches.sort(key=lambda each: each[:2], reverse=True)
    return tuple(match for _, _, match in matches)


@cache
def messages() -> tuple[Message, ...]:
    """All texts of messages.toml."""
    content = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return tuple(
        Message(**{**entry, "causes": tuple(entry["causes"])})
        for entry in tomllib.loads(content)["message"]
    )


def _search(log: str) -> Iterator[_Found]:
    lowered = log.lower()
    if len(lowered) != len(log):  # a few letters become two
        log = lowered
    dots = [hit.start() for hit in deque(re.finditer(r"\.{3}", lowered), maxlen=_PLACES)]
    near = "\n".join(lowered[max(at - _AROUND, 0) : at + _AROUND] for at in dots)
    for message in messages():
        # A hundred times quicker than to compile and to search what is not there.
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
    # Both sides are in lower case: searching without regard to case is ten times slower.
    return re.compile(re.sub(r"\\.|[A-Z]+", _lower, text))


# What spaces part, outside of classes and groups.
_WORD: Final = re.compile(
    r"(?:\\.|\[[^\]]+\]|\((?:\\.|\((?:\\.|[^()\\])*\)|[^()\\])*\)| [?+]|[^\\\[( ])+"
)
_GAP: Final = r" ?\S{0,20} ?\.{3}\S{0,5} "  # with what is left of a word, as in "(pid(s) ...) "


def _with_a_gap(words: list[str]) -> str:
    # Up to some word, and on from some other one. Three at least have to be left.
    first, *middle, last = words
    prefix, suffix = "", ""
    for word in reversed(middle[1:]):
        prefix = f"(?: {word}{prefix})?"
    for word in middle[:-1]:
        suffix = f"(?:{suffix}{word} )?"
    two_before = f"{first} {middle[0]}{prefix}{_GAP}(?:{suffix}{middle[-1]} )?{last}"
    return f"(?:{two_before}|{first}{_GAP}{suffix}{middle[-1]} {last})"


def _lower(part: re.Match[str]) -> str:
    return part[0] if part[0].startswith("\\") else part[0].lower()  # \S is not \s


# Where a run of plain letters ends: at a class, a sign or a group, and before what may be missing.
_NOT_PLAIN: Final = re.compile(
    r"(?:\n|\\.|\.)(?:[?*+]|\{[^}]*\})?\??|(?:\0..\0|.)(?:[?*]|\{[^}]*\})\??|[+^$]"
)


@cache
def anchor(text: str) -> str:
    """The longest piece that whatever a text matches contains, in lower case."""
    flat = re.sub(r"\\[.()\[\]{}|*+?$^]", lambda sign: f"\0{ord(sign[0][1]):02x}\0", text)
    while flat != (flat := re.sub(r"\[[^\]]*\]|\([^()]*\)", "\n", flat)):
        pass  # from the inner groups outwards
    pieces = re.split(_NOT_PLAIN, flat)
    whole = [re.sub(r"\0(..)\0", lambda sign: chr(int(sign[1], 16)), each) for each in pieces]
    return "" if "|" in flat else max(whole, key=len).lower()


def _shortened(words: str) -> str:
    if len(words) <= _SHOWN:
        return words.strip()
    return f"{words[: _SHOWN // 3].strip()} ... {words[-_SHOWN * 2 // 3 :].strip()}"


def _outermost(found: Iterator[_Found]) -> Iterator[_Found]:
    # What begins or ends where a longer one does is a part of what that one says; of two in the
    # same place the one that says what stands before it knows more, and a hint less.
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
