"""What the samples are, and which of them fail."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Samples:
    """What the samples are like, drawn one by one in main, without workers.

    Args:
        looked: How many were drawn.
        failed: Those that raised: [index, type, text, line of your code].
        ended: What cut the drawing short: "died", "hung", "time"; "" for nothing.
        at: The index that was being drawn then.
        code: The exit code of the process, if it died.
        typical: Seconds that a sample takes: the median.
        slowest: Seconds that the slowest takes.
        slowest_at: Its index.
        again: How many came out differently when drawn twice under the same seeds.
        random: How many came out differently when drawn twice without seeds.
        joined: Whether the collate function makes different batches of the same samples.
        overwritten: How many changed when the next one was drawn.
        beyond: An index past the end that gave a new sample; -1 for none.
        bytes: Of a sample: the median.
        read: Bytes that were read from files while they were drawn.
        of_files: Bytes of all these files together; 0 where they aren't known.
        opened: Descriptors that had been opened, and not closed, by the time that they were drawn.
        left: What drawing some of them again left behind: [what, how many, after how many draws];
            None if none was drawn again.
        seeded: The global generators that each sample sets to the same state: their names.
        busiest: The line of your code where more than half of their time goes; "" for none.
        drawn_by_sampler: Samples that the sampler itself drew from the dataset meanwhile.
        dealing: Seconds that the sampler took for their indices.
        dealing_each: Seconds that it took for each batch after the first.
        dealt: For an epoch and the next one: [batches that `len()` says right before, batches that
            the sampler deals]; -1 where there is no `len()`, none if they weren't counted.
        replaced: Samples that are those of another index, and drew an exception that your code
            caught: [index, that other index, type, text, line that raised it].
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
    bytes: int = 0
    read: int = 0
    of_files: int = 0
    opened: int = 0
    left: tuple[tuple[str, int, int], ...] | None = None
    seeded: tuple[str, ...] = ()
    busiest: str = ""
    drawn_by_sampler: int = 0
    dealing: float = 0.0
    dealing_each: float = 0.0
    dealt: tuple[tuple[int, int], ...] = ()
    replaced: tuple[tuple[int, int, str, str, str], ...] = ()


@dataclass(frozen=True)
class Fetched:
    """Batches from the loader's own fetcher, beside what `dataset[i]` gives, in one process.

    Args:
        looked: Samples that were compared, under the same random numbers.
        differ: How many of them belong to batches that came out differently.
        by: The class whose `__getitems__` made the batches; "" where the dataset has none.
        ragged: Fields of a batch with fewer rows than it has samples, since the others have none:
            [field, rows, samples].
        dropped: Fields that some samples of a batch have, and the batch doesn't: [field, how many
            have it, samples].
        crossed: Fields of a batch whose rows are in another order than those of the first field:
            [field, that field].
        overwritten: Whether a batch changes when the collate function makes another one.
        together: Whether a sample in a batch isn't what it is in a batch of one: padded, for one.
        reused: Whether the sampler changes a batch of indices that it has dealt out already.
        dealt_once: Whether the sampler deals other batches when it is asked a second time, with
            the same random numbers.
        seeds: Whether the sampler sets torch's global generator, always to the same state.
        stuck: What the sampler calls for random numbers, though it deals the same batches whatever
            the seed, and again in the next epoch; "" if it doesn't.
    """

    looked: int = 0
    differ: int = 0
    by: str = ""
    ragged: tuple[tuple[str, int, int], ...] = ()
    dropped: tuple[tuple[str, int, int], ...] = ()
    crossed: tuple[tuple[str, str], ...] = ()
    overwritten: bool = False
    together: bool = False
    reused: bool = False
    dealt_once: bool = False
    seeds: bool = False
    stuck: str = ""


@dataclass(frozen=True)
class Reordered:
    """Samples drawn in the order of the sampler, and from the last to the first.

    Args:
        looked: Samples that were compared, each drawn once in each order; 0 if they are not the
            same in two runs of one order either.
        differ: How many of them differ.
        index: One of them, as its repr.
        other: The index whose sample it is in one of the orders; "" if it is none's.
        paths: Numbers and containers of the dataset that drawing them changed.
        seconds: How long drawing them took in the order of the sampler, the second time.
        ascending: How long it took in ascending order; 0 if that is the sampler's, too.
    """

    looked: int = 0
    differ: int = 0
    index: str = ""
    other: str = ""
    paths: tuple[str, ...] = ()
    seconds: float = 0.0
    ascending: float = 0.0

    @property
    def times(self) -> float:
        """How many times as long as in ascending order; 0 where that isn't known."""
        return self.seconds / self.ascending if self.ascending else 0.0


@dataclass(frozen=True)
class Culprit:
    """What fails where samples are drawn and made into batches in a main process.

    Args:
        stage: What failed: "sample", "collate" (the batch could not be made), "transport" (it could
            not be pickled), "sampler"; "died" or "hung" if the process did; "" for nothing.
        which: In words: "dataset[9]", "batch 2".
        kind: The type that was raised.
        text: The first line of its text.
        at: The innermost line of your code.
        arrives: The type that torch makes of it in main, if a worker raises it; "" for none.
        unsent: Why the exception's class or the batch cannot be pickled; "" if it can.
        part: The path of the part that cannot be pickled, and its class.
        code: The exit code of the process, if it died.
        decoder: The library that could not decode an image; "" for any other failure.
        image: The image file that cannot be read, and why.
        mode: The mode of the image file, if the others have another one and the sample can be
            drawn with that.
        readable: How many other image files could be read.
        blame: Why the batch could not be made: "none" (a sample is None), "ragged" (they differ in
            shape), "" for something else. Without these samples a batch can be made.
        told: Which samples these are, in words.
        made: How many batches were made before.
        empty: How many of them were None.
        skipped: Whether the loop gets to its end when these are left out.
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
    """What forked workers were doing when they died or raised.

    Args:
        end: As in a Run.
        died: Workers that died: [number, exit code, index that it was drawing or -1].
        failed: What was raised: [index, type, text, line of your code].
    """

    end: str
    died: tuple[tuple[int, int, int], ...] = ()
    failed: tuple[tuple[int, str, str, str], ...] = ()


@dataclass(frozen=True)
class Twice:
    """What becomes of a sample that is drawn twice.

    Args:
        looked: How many were tried.
        own: How many came out differently the second time, though the first time does not depend on
            what was drawn before.
        paths: What had changed in the dataset by then.
        index: One of them, as its repr.
        counter: The path of a number that drawing other samples changes, and that brings the first
            sample back when it is put back; "" if there is none.
    """

    looked: int = 0
    own: int = 0
    paths: tuple[str, ...] = ()
    index: str = ""
    counter: str = ""


@dataclass(frozen=True)
class Copies:
    """Whether batches arrive as they were made, compared with a loader that copies everything.

    Args:
        looked: Batches that were compared.
        differ: How many come out differently when each sample is copied as it's drawn, and each
            batch as it's made.
        steady: Whether two runs with copies are alike.
        path: The buffer that the dataset or the collate function reuses; "" if it wasn't found.
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
        end: The first index from which on there are no samples; -1 if it was not found.
        limits: Paths of numbers in the dataset that say this length is wanted.
        said: What is raised there.
        line: The line of your code that raises it.
    """

    length: int
    end: int = -1
    limits: tuple[str, ...] = ()
    said: str = ""
    line: str = ""
