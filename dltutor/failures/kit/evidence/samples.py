"""What the samples are, and which of them fail."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Samples:
    """What the samples are, drawn one after the other in a main process without workers.

    Args:
        looked: How many were drawn.
        failed: Those that raised: [index, type, text, line of yours].
        ended: How drawing ended before its time: "", "died", "hung", "time".
        at: The index that was being drawn then.
        code: The exit code of the process, if it died.
        typical: Seconds that a sample takes, the median.
        slowest: Seconds of the slowest.
        slowest_at: Its index.
        again: How many of those that were drawn twice, under the same seeds, came out differently.
        random: How many came out differently when drawn again without a seed being set.
        joined: Whether the collate function makes different batches of the same samples.
        overwritten: How many changed when the next one was drawn.
        beyond: The index past the end that was answered with something new; -1 for none.
    """

    looked: int
    failed: tuple[tuple[int, str, str, str], ...] = ()
    ended: str = ""
    at: int = -1
    code: int | None = None
    typical: float = 0.0
    slowest: float = 0.0
    slowest_at: int = -1
    again: int = 0
    random: int = 0
    joined: bool = False
    overwritten: int = 0
    beyond: int = -1


@dataclass(frozen=True)
class Culprit:
    """What fails where samples are drawn and made into batches in a main process.

    Args:
        stage: What failed: "sample", "collate" (the batch could not be made), "transport" (it could
            not be pickled), "sampler"; "died" or "hung" if the process did; "" for nothing.
        which: In words: "dataset[9]", "batch 2".
        kind: The type that was raised.
        text: The first line of its text.
        at: The innermost line of yours.
        arrives: The type that torch makes of it in main, if a worker raises it; "" for none.
        unsent: Why the class of what was raised cannot be pickled, or the batch; "" if it can.
        part: The way to the part that cannot be pickled, and its class.
        code: The exit code of the process, if it died.
        decoder: The library that could not decode an image; "" if it was about something else.
        image: The image file that cannot be read, and why.
        mode: The mode of the image file, if it is not that of all others, and the sample can be
            drawn when it is.
        readable: How many other image files could be read.
        blame: Why the batch could not be made: "none" (a sample is None), "ragged" (they differ in
            shape), "" for something else. Without it, a batch of the same size was made.
        told: Which samples these are, in words.
        made: How many batches were made before.
        empty: How many of them were None.
        skipped: Whether the loop comes to its end if it is spared these.
    """

    stage: str
    which: str = ""
    kind: str = ""
    text: str = ""
    at: str = ""
    arrives: str = ""
    unsent: str = ""
    part: str = ""
    code: int | None = None
    decoder: str = ""
    image: str = ""
    mode: str = ""
    readable: int = 0
    blame: str = ""
    told: str = ""
    made: int = 0
    empty: int = 0
    skipped: bool = False

    @property
    def said(self) -> str:
        """What was raised, as the last line of a traceback has it."""
        return f"{self.kind}: {self.text}" if self.text else self.kind


@dataclass(frozen=True)
class InWorkers:
    """What the workers were at, when the loader ran with workers that are forked.

    Args:
        end: As in a Run.
        died: Workers that died: [number, exit code, index that it was drawing or -1].
        failed: What was raised: [index, type, text, line of yours].
    """

    end: str
    died: tuple[tuple[int, int, int], ...] = ()
    failed: tuple[tuple[int, str, str, str], ...] = ()


@dataclass(frozen=True)
class Twice:
    """What becomes of a sample that is drawn twice.

    Args:
        looked: How many were tried.
        own: How many are another the second time, and the first time the same whatever was drawn
            before.
        paths: What of the dataset had changed by then.
        index: One of them.
        counter: The number that decides what a sample is, and that others have changed; put back,
            it gives the first sample again. "" if there is none.
    """

    looked: int = 0
    own: int = 0
    paths: tuple[str, ...] = ()
    index: str = ""
    counter: str = ""


@dataclass(frozen=True)
class Copies:
    """Whether samples arrive as they were drawn: compared with a loader that copies each.

    Args:
        looked: Batches that were compared.
        differ: How many are others where each sample is copied when it is drawn.
        steady: Whether those with copies are the same in two runs.
        path: What the dataset reuses.
    """

    looked: int = 0
    differ: int = 0
    steady: bool = False
    path: str = ""


@dataclass(frozen=True)
class Ending:
    """Where a map-style dataset ends, as its `__getitem__` says.

    Args:
        length: What `__len__` says.
        end: The first index from which on nothing is there.
        limits: What says that this length is wanted: paths of numbers.
        said: What is raised there.
        line: Where.
    """

    length: int
    end: int = -1
    limits: tuple[str, ...] = ()
    said: str = ""
    line: str = ""
