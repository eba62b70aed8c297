"""Do workers get in each other's way through a file or connection that they share?

Draw from the dataset in main, with one worker, with two workers taking turns, and with two workers
at once. From a stream, draw with each of two workers alone and with both at once. When both draw at
once, slow down their reading and sending, so that they're likely to collide. If samples go wrong
only with two workers at once, the workers share something.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Final

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.experiment import probe
from dltutor.diagnosis.objects.digests import digest
from dltutor.diagnosis.objects.walking import Found, put, walk
from dltutor.diagnosis.probes.handles.descriptors import (
    Listener,
    descriptors,
    drain,
    holders,
    short_paths,
    standing,
)
from dltutor.diagnosis.probes.handles.two_at_once import samples, shares
from dltutor.diagnosis.running import forks
from dltutor.diagnosis.running.side_effects import profiled
from dltutor.diagnosis.running.subject import Subject
from dltutor.observation.foreign import is_a


@dataclass(frozen=True)
class Handles:
    """The files and connections that workers share, and the samples that this sharing spoils.

    Args:
        kind: "file", "socket" (which includes a pipe), or "" if samples use neither.
        paths: The paths of up to three files and connections that workers share.
        looked: How many samples were compared. Only those count that `samples` in two_at_once.py
            or, for a stream, `shares` calls right.
        wrong: How many of these samples were wrong with two workers at once, in slow motion.
        said: The error that a worker raised with two workers at once, "no answer came" if a worker
            hung, or "" if neither happened.
        lazy: The path of a handle that the dataset reopens if it's missing, or of an object that
            holds such a handle, or "" if none was found or no sample was wrong.
    """

    kind: str = ""
    paths: tuple[str, ...] = ()
    looked: int = 0
    wrong: int = 0
    said: str = ""
    lazy: str = ""

    @property
    def disturbed(self) -> bool:
        """Whether at least two samples went wrong, or one raised, with two workers at once."""
        return self.looked > 1 and (self.wrong > 1 or bool(self.said))

    @property
    def seen(self) -> str:
        """What the experiment showed, in two sentences."""
        how = f", one with {self.said}" if self.said else ""
        if self.said.startswith("no answer"):
            how = ", and one never arrived"
        return (
            f"Of {self.looked} samples, {self.wrong} came out wrong with two workers at once, in "
            f"slow motion{how}. With one worker, and with two taking turns, none did."
        )

    def __str__(self) -> str:
        if not self.kind:
            return "They don't seem to use anything that was already open."
        shared = f"They share a {self.kind}" + (f", `{self.paths[0]}`" if self.paths else "")
        return f"{shared}. {self.wrong} of {self.looked} samples came back wrong."


def needed(evidence: Evidence) -> bool:
    """Return whether there are workers, and main didn't die or hang when it drew samples itself."""
    if evidence.parts.workers == 0:
        return False
    return not (evidence.samples and evidence.samples.ended in ("died", "hung", "sampler"))


def ask(subject: Subject) -> Handles:
    """Find the open files and connections that samples use, then let two workers use them."""
    if not subject.stream:
        subject.indices()  # the sampler may open a file that workers inherit
    inherited = descriptors()
    draw = shares if subject.stream else samples
    used = _used(subject, inherited)
    if not used:
        return Handles()
    try:
        right, wrong, said = draw(subject, inherited)
    finally:
        drain(used)
    kind = "socket" if "file" not in used.values() else "file"
    held = holders(subject.dataset, used)
    return Handles(
        kind=kind,
        paths=tuple(short_paths(held)[:3]),
        looked=right,
        wrong=wrong,
        said=said,
        lazy=_lazily_opened(subject, held) if wrong else "",
    )


def _used(subject: Subject, inherited: dict[int, str]) -> dict[int, str]:
    def look() -> set[int]:
        listener = Listener(inherited)
        before = standing(inherited)
        with suppress(Exception), profiled(listener.heard):
            if subject.stream:
                list(islice(subject.dataset, 4))
            else:
                for index in subject.indices()[:4]:
                    subject.dataset[index]
        after = standing(inherited)
        return listener.used | {each for each in inherited if before.get(each) != after.get(each)}

    return {each: inherited[each] for each in forks.attempt(look, 3.0) or ()}


def _lazily_opened(subject: Subject, held: list[Found]) -> str:
    # Return the path of a handle that the dataset reopens if it's missing, or of an object that
    # holds such a handle, or "". Remove each handle in a fork of its own.
    for each in _holders_of(subject.dataset, held):
        if forks.attempt(partial(_opens_again, subject, each), 2.0):
            return each.path
    return ""


def _holders_of(dataset: Any, held: list[Found]) -> list[Found]:
    # Return the handles and every object on the path to a handle.
    known = {each.path: each for each in walk(dataset)}
    return [
        each
        for path, each in known.items()
        if each.holder is not None
        and any(own.path == path or own.path.startswith((f"{path}.", f"{path}[")) for own in held)
    ]


def _opens_again(subject: Subject, found: Found) -> bool:
    index = None if subject.stream else subject.indices()[0]

    def drawn() -> str:
        sample = next(iter(subject.dataset)) if subject.stream else subject.dataset[index]
        return digest(sample)

    wanted = drawn() if not subject.stream else ""
    for forget in (partial(put, found, None), partial(_delete, found)):
        with suppress(Exception):
            forget()
            try:
                if drawn() == wanted or subject.stream:
                    return True
            finally:
                put(found)
    return False


def _delete(found: Found) -> None:
    if is_a(found.holder, (dict, list)):
        del found.holder[found.key]
    else:
        delattr(found.holder, found.key)


EXPERIMENT: Final = probe("handles", 20.0, needed, ask)
