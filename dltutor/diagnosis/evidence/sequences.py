"""Which samples come where, and what repeats: in epochs, workers and ranks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Repeats:
    """Which random numbers repeat, in another worker or in the next epoch.

    Args:
        sources: One for each source of random numbers that samples draw from: [name, draws that
            vary within a worker, how many of these were the same in the other worker, of how many
            compared, the same in the next epoch, of how many]. The name is "all", or the one source
            that was free while all others were held.
        own: The paths of the dataset's own generators that samples draw from.
        order: Whether only the order of a stream varies.
    """

    sources: tuple[tuple[str, int, int, int, int, int], ...] = ()
    own: tuple[str, ...] = ()
    order: bool = False


@dataclass(frozen=True)
class Shares:
    """Which worker delivers what of a stream.

    Args:
        whole: How many samples one pass has in main.
        ended: Whether it came to its end.
        shares: How many each worker drew, all of them, none dropped.
        complete: Whether each worker came to its end.
        same: How many samples were the same in W0 and W1, place by place, with all random
            generators held.
        compared: How many were compared.
        distinct: How many different ones were among these.
        natural: Whether they are the same with no random generator held, too.
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
    """

    told: int = 0
    epochs: int = 0
    repeated: int = 0
    moves: bool = False
    ranks: int = 0
    twice: int = 0
    shuffles: bool = False


@dataclass(frozen=True)
class TwoRanks:
    """A stream, drawn as rank 0 and as rank 1 of two.

    Args:
        drawn: Samples that were compared.
        alike: How many of them were the same, in the same place.
        different: How many different ones rank 0 had.
        made_for: Paths of attributes that hold a rank or a world size.
        failed: What it raised when it was told its rank; "" for nothing.
    """

    drawn: int = 0
    alike: int = 0
    different: int = 0
    made_for: tuple[str, ...] = ()
    failed: str = ""
