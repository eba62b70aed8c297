"""What main and its workers share, wait for, send each other and lose."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Waits:
    """What the forked workers of a loader wait for when nothing comes.

    Args:
        stuck: Each place at which a worker stood: [worker, line of yours, kind, name, file of the
            code that waits there, freed]. Kind is "lock", "executor", "thread", "answer" for what
            the named thread would bring, or "" for nothing found; freed says whether the worker
            went on once it was given back, made anew or brought.
        held: The names of locks that another thread held already when the worker began.
        threads: The most threads of OpenMP that torch would use in a worker that was stuck.
        alone: How the run ended with each worker kept to one such thread; "" if it was not made.
        alone_batches: How many batches came then.
    """

    stuck: tuple[tuple[int, str, str, str, str, bool], ...] = ()
    held: tuple[str, ...] = ()
    threads: int = 0
    alone: str = ""
    alone_batches: int = 0

    def freed(self, *kinds: str) -> tuple[int, str, str, str, str, bool] | None:
        """The first place where taking away something of these kinds let a worker go on."""
        return next((each for each in self.stuck if each[5] and each[2] in kinds), None)


@dataclass(frozen=True)
class Handles:
    """What workers share that was open before they started, and whether they disturb each other.

    Args:
        kind: What they are: "file" or "socket" (also for a pipe); "" where samples use none.
        paths: Who holds them.
        looked: Samples that were right in main, with one worker, and with two taking turns.
        wrong: How many of these were wrong with two workers at once, in slow motion.
        said: What was raised in place of one; "" where they were silently wrong.
        lazy: The path of a handle that the dataset opens again where it is missing; "" for none.
    """

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
class Leftover:
    """Workers that are alive after the loop has returned, though nothing needs them.

    Args:
        alive: How many workers were alive.
        freed: How many of their iterators the garbage collector freed.
        held: How many of their iterators an exception still held after that.
        kind: The type of an exception that holds one, or held it; "" for none.
    """

    alive: int = 0
    freed: int = 0
    held: int = 0
    kind: str = ""


@dataclass(frozen=True)
class Epochs:
    """Whether what main sets between epochs arrives in persistent workers.

    Args:
        looked: Samples of the later epochs.
        stale: How many of these differ between persistent workers and fresh ones.
        arrived: How many from fresh workers are the same as without workers.
        moved: How many from fresh workers differ from the first epoch.
        first: Whether the first epoch is the same with persistent and with fresh workers.
        by: What was set: "set_epoch", or "the loop".
        paths: What main changed in the dataset.
    """

    looked: int = 0
    stale: int = 0
    arrived: int = 0
    moved: int = 0
    first: bool = False
    by: str = ""
    paths: tuple[str, ...] = ()


@dataclass(frozen=True)
class State:
    """What a training loop has changed when it returns, with workers and without.

    Args:
        steady: Whether two runs of each kind have the same outcome.
        same: Whether the outcome is the same with workers and without.
        content: Whether the batches are the same.
        paths: What changed without workers only: [path, value with workers, value without].
        with_workers: The outcome with workers, in words.
        without: The outcome without, in words.
    """

    steady: bool = False
    same: bool = True
    content: bool = False
    paths: tuple[tuple[str, str, str], ...] = ()
    with_workers: str = ""
    without: str = ""


@dataclass(frozen=True)
class Travel:
    """How the dataset, the collate_fn and the worker_init_fn are packed for a new interpreter.

    Args:
        cannot: Their smallest parts that cannot be pickled: [path, class, error].
        gone: Their smallest parts whose pickle refers to a tensor that is freed before it is
            unpickled: [path, class].
        main: The classes and functions of `__main__` that the pickle refers to by name.
        script: The file of `__main__`; "" where it has none, as in a notebook.
        raised: What drawing samples from a copy, pickled and unpickled here, raised.
        unlike: How many of its samples differed, under the same seeds.
        bytes: Of the pickle, where workers get one.
        seconds: That it takes to make it, and to read it again.
    """

    cannot: tuple[tuple[str, str, str], ...] = ()
    gone: tuple[tuple[str, str], ...] = ()
    main: tuple[str, ...] = ()
    script: str = ""
    raised: str = ""
    unlike: int = 0
    bytes: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Imported:
    """How new interpreters do as workers once they are given main's globals.

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
