"""What the doctor has found out about one foreign loader, and what a failure mode makes of it.

Each experiment of `dltutor.diagnosis.experiments` answers with one of these records; those that
were not made are None. A failure mode's `fits` reads them and returns a Fit, or None. The records
are plain numbers and texts: they come out of another process as JSON.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeVar

Certainty = Literal["shown", "likely"]
#: How serious it is: the run ends; the data is wrong; memory or files run out; it is slow.
Harm = Literal["ends", "wrong", "memory", "slow"]

_Record = TypeVar("_Record")


@dataclass(frozen=True)
class Fit:
    """Why a failure mode is what a loader has.

    Args:
        harm: How serious it is.
        certainty: "shown" if an experiment would have come out differently without it.
        evidence: What was measured, in one or two sentences.
        where: The file and line, or the attribute path; "" where it cannot be known.
        fix: What to do with this loader, in its own names; "" for the failure mode's own remedy.
    """

    harm: Harm
    certainty: Certainty
    evidence: str
    where: str = ""
    fix: str = ""


@dataclass(frozen=True)
class Parts:
    """What the loader is made of, as far as it can be seen without a sample.

    Args:
        loader: Its class.
        dataset: The class of its dataset.
        where: The file and line of the dataset's `__getitem__` or `__iter__`.
        stream: Whether it is an IterableDataset.
        workers: Their number.
        method: Their start method.
        batch_size: None without batching.
        length: What `len(dataset)` says, or None.
        batches: What `len(loader)` says, or None.
        persistent: Whether the workers stay.
        prefetch: Batches that each worker loads ahead.
        drop_last: Whether an unfinished batch is dropped.
        in_order: Whether batches come in order.
        sampler: The class of the sampler.
        collate: The name of the collate function; "" for torch's own.
        init: The name of the worker_init_fn; "" without one.
        loop: Whether there is a training loop.
        held: What the dataset holds that belongs to one process or one thread: [path, kind], kind
            one of "file", "socket", "connection", "lock", "thread", "executor", "generator",
            "torch generator", "random".
        large: Containers of many Python objects in it: [path, class, length].
        threads: The names of main's other threads.
        hooks: Which of `set_epoch` the dataset and the sampler have: "dataset", "sampler".
    """

    loader: str
    dataset: str
    where: str
    stream: bool
    workers: int
    method: str
    batch_size: int | None
    length: int | None
    batches: int | None
    persistent: bool
    prefetch: int
    drop_last: bool
    in_order: bool
    sampler: str
    collate: str
    init: str
    loop: bool
    held: tuple[tuple[str, str], ...] = ()
    large: tuple[tuple[str, str, int], ...] = ()
    threads: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()

    def path(self, *kinds: str) -> str:
        """The paths of what it holds of these kinds, with commas."""
        return ", ".join(path for path, kind in self.held if kind in kinds)


@dataclass(frozen=True)
class Run:
    """One run of the loader: as it is, or changed in one respect.

    Args:
        end: As in an Observation; "enough" if it was stopped between two batches, when all had
            been seen that there was time for.
        error: Type and text of what arrived in main, the worker's own where it raised; "" without.
        kind: The type that arrived in main.
        raised: The type that the worker raised, or None.
        at: Your own lines in the traceback, innermost first.
        said: All that was said, by exceptions and on stderr.
        named: The failure modes that these words point to, the best first.
        stood: Where each worker stood that was asked, innermost line first.
        codes: The exit code of each worker.
        batches: How many reached the loop.
        samples: How many samples in them.
        seconds: How long it took.
        first: Seconds to the first batch, or None.
        gap: The longest time between two batches, in seconds.
        passes: For each iteration of the loader, what each batch held, as a digest.
        drawn: The same for each sample, where a batch can be taken apart.
        counted: How many samples each iteration delivered.
        finished: Whether each iteration came to its end by itself.
        restarted: How many iterations were begun anew before they had ended.
        resumed: How many of these were asked for more batches afterwards.
        alive: How many workers were alive when the loop had returned, though not to be kept.
        result: What the loop returned, as a digest of its value; "" for nothing to compare.
        returned: The same in words.
        kept: How many batches the loop still had in hand when it had taken others.
        kept_bytes: Their bytes.
        kept_then: How many it still had, each time the number of batches had doubled: [batches,
            kept].
        tensors: How many tensors a batch has, on average.
        batch_bytes: The bytes of the largest batch.
        storage_bytes: The bytes of the storages that came with it.
        private: MB of each worker's own memory, at its first batch and at the end.
        resident: The same with what it shares.
        shared: The most MB of batches in shared memory that were seen at once.
        files: How many more descriptors main had at the end than at the first batch.
        epochs_told: How often the loop called a `set_epoch`.
        orders: The order of the indices in each epoch as the sampler gave it, as digests.
    """

    end: str
    error: str = ""
    kind: str = ""
    raised: str | None = None
    at: tuple[str, ...] = ()
    said: str = ""
    named: tuple[str, ...] = ()
    stood: tuple[tuple[str, ...], ...] = ()
    codes: tuple[int | None, ...] = ()
    batches: int = 0
    samples: int = 0
    seconds: float = 0.0
    first: float | None = None
    gap: float = 0.0
    passes: tuple[tuple[str, ...], ...] = ()
    drawn: tuple[tuple[str, ...], ...] = ()
    counted: tuple[int, ...] = ()
    finished: tuple[bool, ...] = ()
    restarted: int = 0
    resumed: int = 0
    alive: int = 0
    result: str = ""
    returned: str = ""
    kept: int = 0
    kept_bytes: int = 0
    kept_then: tuple[tuple[int, int], ...] = ()
    tensors: float = 0.0
    batch_bytes: int = 0
    storage_bytes: int = 0
    private: tuple[tuple[float, float], ...] = ()
    resident: tuple[tuple[float, float], ...] = ()
    shared: float = 0.0
    files: int = 0
    epochs_told: int = 0
    orders: tuple[str, ...] = ()

    @property
    def well(self) -> bool:
        """Whether nothing ended it before its time."""
        return self.end in ("finished", "enough")

    @property
    def waited(self) -> bool:
        """Whether main waited in vain for a batch: without end, or until the loader's timeout."""
        return self.end == "hung" or "DataLoader timed out" in self.error


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
class Paces:
    """How long the loader took as it is, and changed in one respect, timed in turns.

    Args:
        as_is: Seconds, in each turn.
        changed: The same of the changed one.
    """

    as_is: tuple[float, ...] = ()
    changed: tuple[float, ...] = ()

    @property
    def times(self) -> float:
        """How many times as long it took as it is, in the turn that shows least; 0 without two."""
        turns = [a / max(b, 1e-9) for a, b in zip(self.as_is, self.changed, strict=False)]
        return min(turns) if len(turns) > 1 else 0.0

    @property
    def both(self) -> tuple[float, float]:
        """The middle of the turns of each, in seconds."""
        return _middle(self.as_is), _middle(self.changed)


@dataclass(frozen=True)
class Threads:
    """With how many threads the workers compute.

    Args:
        cores: That this process may use.
        computing: For each worker, how many of its threads computed a good part of the time.
        alone: The same where each was kept to one thread.
        paces: Seconds for a batch, as it is and kept to one thread: [as is, kept], in turns.
    """

    cores: int
    computing: tuple[int, ...] = ()
    alone: tuple[int, ...] = ()
    paces: tuple[tuple[float, float], ...] = ()

    @property
    def too_many(self) -> bool:
        """Whether more threads compute than there are cores, some worker having several."""
        return sum(self.computing) > self.cores and max(self.computing, default=0) > 1


@dataclass(frozen=True)
class Waits:
    """What the forked workers of a loader wait for when nothing comes.

    Args:
        end: How the run ended, while a witness in each worker took away what it found.
        batches: How many batches came.
        stuck: Each place at which a worker stood: [worker, line of yours, kind, name, file of the
            code that waits there, freed]. Kind is "lock", "executor", "thread", "answer" for what
            the named thread would bring, or "" for nothing found; freed says whether the worker
            went on once it was given back, made anew or brought.
        held: The names of locks that were held already when the worker began.
        threads: The most threads of OpenMP that torch would use in a worker that was stuck.
        alone: How the run ended with each worker kept to one such thread; "" if it was not made.
        alone_batches: How many batches came then.
        gone: The names of the threads that main had and the workers do not.
    """

    end: str
    batches: int = 0
    stuck: tuple[tuple[int, str, str, str, str, bool], ...] = ()
    held: tuple[str, ...] = ()
    threads: int = 0
    alone: str = ""
    alone_batches: int = 0
    gone: tuple[str, ...] = ()

    def freed(self, *kinds: str) -> tuple[int, str, str, str, str, bool] | None:
        """The first place where taking away something of these kinds let a worker go on."""
        return next((each for each in self.stuck if each[5] and each[2] in kinds), None)


@dataclass(frozen=True)
class Handles:
    """What workers share that was open before they started, and whether they disturb each other.

    Args:
        used: Kinds of the inherited descriptors that drawing a sample uses: "file", "socket",
            "pipe".
        kind: Which of them is to blame: "file" or "socket" (also for a pipe).
        paths: Who holds them.
        looked: Samples that were right in main, with one worker, and with two taking turns.
        wrong: How many of these were not with two workers at once, in slow motion.
        said: What was raised instead of one of them; "" where they were silently wrong.
        lazy: The path whose handle is opened again where it is missing; "" if none is.
    """

    used: tuple[str, ...] = ()
    kind: str = ""
    paths: tuple[str, ...] = ()
    looked: int = 0
    wrong: int = 0
    said: str = ""
    lazy: str = ""

    @property
    def disturbed(self) -> bool:
        """Whether two workers at once went wrong where nothing else did."""
        return self.looked > 1 and (self.wrong > 1 or bool(self.said))

    @property
    def seen(self) -> str:
        """What was seen, in two sentences."""
        how = f", one with {self.said}" if self.said else ""
        if self.said.startswith("no answer"):
            how = ", and one never came"
        return (
            f"Of {self.looked} samples, {self.wrong} came out wrong with two workers at once, in "
            f"slow motion{how}. With one worker, and with two taking turns, none did."
        )


@dataclass(frozen=True)
class Repeats:
    """What of the random numbers comes again: in another worker, in the next epoch.

    Args:
        sources: One for each source of random numbers that samples draw from: [name, draws that
            vary within a worker, of these the same in the other worker, compared, the same in the
            next epoch, compared]. The name is "all", or a source of `pins` that alone was free.
        own: The paths of the dataset's own generators.
        order: Whether, of a stream, only the order varies.
    """

    sources: tuple[tuple[str, int, int, int, int, int], ...] = ()
    own: tuple[str, ...] = ()
    order: bool = False


@dataclass(frozen=True)
class Shares:
    """Who delivers what of a stream.

    Args:
        whole: How many samples one pass has in main.
        ended: Whether it came to its end.
        shares: How many each worker drew, all of them, none dropped.
        complete: Whether each worker came to its end.
        same: Of how many samples the content was the same in W0 and W1, in the same order.
        compared: How many were compared.
        distinct: How many of these are different from each other.
        natural: Whether they are the same too when no random generator is held.
        random: Whether two passes in one process differ only by random numbers.
    """

    whole: int = 0
    ended: bool = False
    shares: tuple[int, ...] = ()
    complete: bool = False
    same: int = 0
    compared: int = 0
    distinct: int = 0
    natural: bool = False
    random: bool = False


@dataclass(frozen=True)
class Epochs:
    """Whether what main sets between epochs arrives in persistent workers.

    Args:
        looked: Samples of the later epochs.
        stale: How many of these are another with persistent workers than with fresh ones.
        arrived: How many of the fresh workers' are those that there are without workers.
        moved: How many of the fresh workers' are other than in the first epoch.
        first: Whether the first epoch is the same in all of them.
        by: What was set: "set_epoch", or "the loop".
        paths: What of the dataset main changed.
    """

    looked: int = 0
    stale: int = 0
    arrived: int = 0
    moved: int = 0
    first: bool = False
    by: str = ""
    paths: tuple[str, ...] = ()


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


@dataclass(frozen=True)
class State:
    """What a training loop finds changed after it, with workers and without.

    Args:
        steady: Whether two runs of each kind have the same outcome.
        same: Whether the outcome is the same with workers and without.
        content: Whether the batches are.
        paths: What has changed without workers and has not with them: [path, value, value].
        with_workers: The outcome in words.
        without: The same.
    """

    steady: bool = False
    same: bool = True
    content: bool = False
    paths: tuple[tuple[str, str, str], ...] = ()
    with_workers: str = ""
    without: str = ""


@dataclass(frozen=True)
class Order:
    """What the sampler of one rank of several deals out.

    Args:
        told: How often the loop called its `set_epoch`.
        epochs: How many epochs the loop ran.
        repeated: How many of them had the order of another.
        moves: Whether `set_epoch(1)` changes the order, and asking again does not.
        ranks: How many ranks there are; 0 where that is not known.
        twice: Samples that all ranks together get more than once in one epoch.
        shuffles: Whether it shuffles.
        learns: Whether gradients were on while the loop ran.
    """

    told: int = 0
    epochs: int = 0
    repeated: int = 0
    moves: bool = False
    ranks: int = 0
    twice: int = 0
    shuffles: bool = False
    learns: bool = False


@dataclass(frozen=True)
class Memory:
    """What became of the memory of forked workers, measured in them between two batches, in MB.

    The figures of the worker that had most; -1 for a run that was not made. "peak" is what a worker
    took beside what it had before its first sample, "late" what it took after a third of its
    samples. The runs are compared after the same number of samples.

    Args:
        copied: Pages of main that were copied; -1 where no worker could be measured.
        copied_frozen: The same where the collector did not know main's objects.
        copied_in_loop: The same as at first, with the training loop.
        collections: Full collections in one worker.
        collected_at: The line that made the last of them.
        read: Large containers of Python objects: [path, class, length, and the part of its
            elements' pages that a worker had of its own, before its first sample and at last].
        samples: How many samples the worker had made where the runs are compared.
        late_samples: How many of them came after a third.
        peak_as_it_is: Growth with nothing changed.
        peak_collected: With a collection after each batch.
        peak_returned: With large blocks returned to the system.
        peak_repeated: With the same samples again and again.
        late_as_it_is: The same, after a third of the samples.
        late_collected: The same, after a third of the samples.
        late_returned: The same, after a third of the samples.
        late_repeated: The same, after a third of the samples.
        grown: Containers that grew with new samples: [path, class, elements for each sample,
            bound: None for none, 0 for one that was not known until it was full].
    """

    copied: float = -1.0
    copied_frozen: float = -1.0
    copied_in_loop: float = -1.0
    collections: int = 0
    collected_at: str = ""
    read: tuple[tuple[str, str, int, float, float], ...] = ()
    samples: int = 0
    late_samples: int = 1
    peak_as_it_is: float = -1.0
    peak_collected: float = -1.0
    peak_returned: float = -1.0
    peak_repeated: float = -1.0
    late_as_it_is: float = -1.0
    late_collected: float = -1.0
    late_returned: float = -1.0
    late_repeated: float = -1.0
    grown: tuple[tuple[str, str, float, int | None], ...] = ()


@dataclass(frozen=True)
class Culprit:
    """What fails where samples are drawn and made into batches in a main process.

    Args:
        stage: What failed: "sample", "collate" (the batch could not be made), "transport" (it could
            not be pickled), "sampler"; "died" or "hung" if the process did; "" for nothing.
        which: In words: "dataset[9]", "batch 2".
        batch: The number of the batch.
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
    batch: int = -1
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
class Leftover:
    """Workers that are alive though the loop has returned, and nothing wants them.

    Args:
        ended: How the loop ended: "", or what it raised.
        alive: How many workers were alive.
        freed: How many of their iterators the garbage collector freed.
        held: How many of them an exception held that was not freed.
        kind: The type of an exception that holds one, or held it.
    """

    ended: str = ""
    alive: int = 0
    freed: int = 0
    held: int = 0
    kind: str = ""


@dataclass(frozen=True)
class Views:
    """The same batches kept: as they come, and as copies of what they show.

    Args:
        batches: How many were kept.
        as_they_come: MB of shared memory that they take.
        as_copies: The same, where each tensor had been copied before it was sent.
    """

    batches: int
    as_they_come: float
    as_copies: float


@dataclass(frozen=True)
class Ahead:
    """What lies ahead of a loop that has stopped after its first batch, and what it is good for.

    Args:
        held: MB of shared memory with the prefetch that was chosen.
        held_by_two: The same with two batches for each worker.
        seconds: For a batch, with the prefetch that was chosen.
        seconds_by_two: The same with two.
        steady: Seconds for a batch in a loop that rests as long as a batch takes.
        steady_by_two: The same with two.
    """

    held: float
    held_by_two: float
    seconds: float
    seconds_by_two: float
    steady: float
    steady_by_two: float


@dataclass(frozen=True)
class Limits:
    """A run that ran out of shared memory or of descriptors, with fewer of them needed.

    Args:
        room: MB that /dev/shm has in all.
        files: How many descriptors a process may have.
        lighter: How a run of one worker ends that loads one batch ahead; "" if it was not made.
        lighter_batches: How many batches came.
        batch_bytes: The bytes of the largest of them.
        arrays: How a run ends whose tensors are sent as arrays, without shared memory.
        arrays_batches: How many batches came.
        nothing_kept: How a run ends whose loop keeps nothing.
        nothing_kept_batches: How many batches came.
        more: How many descriptors a process may have in the next run.
        with_more: How that run ends, with the training loop.
        with_more_batches: How many batches came.
    """

    room: float
    files: int
    lighter: str = ""
    lighter_batches: int = 0
    batch_bytes: int = 0
    arrays: str = ""
    arrays_batches: int = 0
    nothing_kept: str = ""
    nothing_kept_batches: int = 0
    more: int = 0
    with_more: str = ""
    with_more_batches: int = 0


@dataclass(frozen=True)
class Segments:
    """What a run leaves in /dev/shm whose processes are killed all at once.

    Args:
        batches: How many batches it had in hand.
        named: How many segments of its own had a name while it ran.
        left: How many were left; they have been removed.
        in_workers: The sharing strategy of the workers.
        in_main: That of main.
    """

    batches: int
    named: int
    left: int
    in_workers: str
    in_main: str


@dataclass(frozen=True)
class Travel:
    """How the dataset, the collate_fn and the worker_init_fn are packed for a new interpreter.

    Args:
        cannot: Their smallest parts that cannot be pickled: [path, class, error].
        gone: Their smallest parts whose pickle refers to a tensor that is freed before it is
            unpickled: [path, class].
        main: The classes and functions of `__main__` that the pickle has by name.
        script: The file of `__main__`; "" where it has none, as in a notebook.
        raised: What drawing samples from a copy, pickled and unpickled here, raised.
        unlike: How many of its samples differed, under the same seeds.
    """

    cannot: tuple[tuple[str, str, str], ...] = ()
    gone: tuple[tuple[str, str], ...] = ()
    main: tuple[str, ...] = ()
    script: str = ""
    raised: str = ""
    unlike: int = 0


@dataclass(frozen=True)
class Imported:
    """Workers that are new interpreters, given main's globals, where they fared worse than main.

    Args:
        forked: How a run with forked workers ended.
        forked_unlike: How many of its samples differed from those without workers.
        new: How a run ended with new workers that were given main's globals; "" if none was made.
        new_unlike: How many of its samples differed.
        new_batches: How many batches came.
        names: The globals and class attributes that were different in the worker.
    """

    forked: str
    forked_unlike: int = 0
    new: str = ""
    new_unlike: int = 0
    new_batches: int = 0
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class TwoRanks:
    """A stream, drawn as rank 0 and as rank 1 of two.

    Args:
        drawn: Samples that were compared.
        alike: How many of them were the same, in the same place.
        different: How many different ones rank 0 had.
        made_for: Attributes that a stream for one rank has.
        failed: What it raised when it was told its rank.
    """

    drawn: int = 0
    alike: int = 0
    different: int = 0
    made_for: tuple[str, ...] = ()
    failed: str = ""


@dataclass(frozen=True)
class Evidence:
    """All that was found out. What was not asked, or not answered, is None.

    Args:
        parts: What the loader is made of.
        run: The loader as it is.
        samples: Its samples, drawn without workers.
        alone: The loader without workers.
        culprit: What fails in a main process.
        in_workers: What the workers were at.
        leftover: The workers that are left when the loop has returned.
        not_kept: The loader without persistent workers.
        sending: A batch sent tensor by tensor, and in one message: seconds for a batch.
        workerless: With its workers and without any: seconds for a batch.
        one_iterator: Each step from a new iterator, and all from one: seconds for a step.
        any_order: In order and in any order: seconds until half of the batches had come.
        threads: What its workers compute with.
        waits: What its workers wait for, where it hangs.
        travel: What becomes of it on the way to a new interpreter.
        imported: New workers, given main's globals.
        two_ranks: A stream on two ranks.
        while_held: The same where it does not, forked while a thread of main's held a lock.
        handles: Whether workers disturb each other.
        repeats: What of the random numbers comes again.
        shares: Who delivers what of a stream.
        epochs: Whether what is set between epochs arrives.
        twice: A sample that is drawn twice.
        copies: Whether samples arrive as they were drawn.
        ending: Where the dataset ends.
        state: What workers change and main does not see.
        order: What a sampler of several ranks deals out.
        memory: What became of the workers' own memory.
        views: Batches kept as they come, and as copies.
        ahead: What lies ahead of the loop.
        limits: A run that ran out of something, with less needed.
        segments: What is left of a run that is killed.
    """

    parts: Parts
    run: Run
    samples: Samples | None = None
    alone: Run | None = None
    culprit: Culprit | None = None
    in_workers: InWorkers | None = None
    leftover: Leftover | None = None
    not_kept: Run | None = None
    sending: Paces | None = None
    workerless: Paces | None = None
    one_iterator: Paces | None = None
    any_order: Paces | None = None
    threads: Threads | None = None
    waits: Waits | None = None
    while_held: Waits | None = None
    travel: Travel | None = None
    imported: Imported | None = None
    two_ranks: TwoRanks | None = None
    handles: Handles | None = None
    repeats: Repeats | None = None
    shares: Shares | None = None
    epochs: Epochs | None = None
    twice: Twice | None = None
    copies: Copies | None = None
    ending: Ending | None = None
    state: State | None = None
    order: Order | None = None

    @property
    def same_stream(self) -> bool:
        """Whether the workers of a stream all read the same."""
        shares = self.shares
        if shares is None or len(shares.shares) < 2 or shares.distinct < 2:
            return False
        alike = shares.same == shares.compared
        if shares.ended and shares.complete:
            whole = all(count == shares.whole for count in shares.shares)
            return whole and shares.whole > 1 and (alike or self._times_workers)
        return alike and shares.natural and shares.distinct > 2

    @property
    def _times_workers(self) -> bool:
        # Each in an order of its own: then what came is compared.
        drawn, alone = self.run.drawn[:1], self.alone.drawn[:1] if self.alone else ()
        if not (drawn and alone and drawn[0] and alone[0]):
            return False
        workers, once = self.parts.workers, Counter(alone[0])
        return Counter(drawn[0]) == Counter({each: workers * once[each] for each in once})

    memory: Memory | None = None
    views: Views | None = None
    ahead: Ahead | None = None
    limits: Limits | None = None
    segments: Segments | None = None


def read(record: type[_Record], answer: dict[str, Any]) -> _Record:
    """Make a record of what JSON has: lists become tuples."""
    known = {field.name for field in fields(record)}  # type: ignore[arg-type]  # dataclasses only
    return record(**{name: _frozen(value) for name, value in answer.items() if name in known})


def _middle(seconds: tuple[float, ...]) -> float:
    return sorted(seconds)[len(seconds) // 2] if seconds else 0.0


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
