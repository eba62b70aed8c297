"""The usual wrong answers to the exercises of lesson 00."""

from __future__ import annotations

import itertools
import os
import sys
import time
from typing import Any

import numpy as np
import torch
from torch.utils.data import IterableDataset, get_worker_info

from answers import RightAnswers, WrongFixes
from dltutor.lessons.lesson_00.fix import Pairs


class RoundInACircle(Pairs):
    def __getitem__(self, index: int) -> Any:
        return self.levels[index], self.levels[(index + 1) % len(self.levels)]


class LastLevelTwice(Pairs):
    def __getitem__(self, index: int) -> Any:
        return self.levels[index], self.levels[min(index + 1, len(self.levels) - 1)]


class ZerosForTheLast(Pairs):
    def __getitem__(self, index: int) -> Any:
        try:
            return super().__getitem__(index)
        except IndexError:
            return 0, 0


class NoneForTheLast(Pairs):
    def __getitem__(self, index: int) -> Any:
        try:
            return super().__getitem__(index)
        except IndexError:
            return None


class LastPairTwice(Pairs):
    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(min(index, len(self.levels) - 2))


class EndsTheEpoch(Pairs):
    def __getitem__(self, index: int) -> Any:
        if index + 1 == len(self.levels):
            raise StopIteration
        return super().__getitem__(index)


class CutsTheLevels(Pairs):
    def __init__(self, levels: Any) -> None:
        super().__init__(levels[:-1])


class PromisesTooFew(Pairs):
    def __len__(self) -> int:
        return len(self.levels) - 2


class PromisesSixteen(Pairs):
    def __len__(self) -> int:
        return 16


class OneLevelOnly(Pairs):
    def __getitem__(self, index: int) -> Any:
        return self.levels[index]


class Backwards(Pairs):
    def __len__(self) -> int:
        return len(self.levels) - 1

    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(len(self) - 1 - index)


class LooksBack(Pairs):
    def __getitem__(self, index: int) -> Any:
        return self.levels[index - 1], self.levels[index]


class Fixed(Pairs):
    def __len__(self) -> int:
        return len(self.levels) - 1


class BuiltBefore:
    """Not even a Dataset: anything with these three methods will do."""

    def __init__(self, levels: Any) -> None:
        self.pairs = list(itertools.pairwise(levels))

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> Any:
        return self.pairs[index]


class NumpyPairs(Pairs):
    def __len__(self) -> int:
        return max(0, len(self.levels) - 1)

    def __getitem__(self, index: int) -> Any:
        return [np.int64(self.levels[index]), np.int64(self.levels[index + 1])]


class TensorPairs:
    def __init__(self, levels: Any) -> None:
        self.pairs = torch.tensor(levels).unfold(0, 2, 1)

    def __len__(self) -> int:
        return self.pairs.shape[0]

    def __getitem__(self, index: int) -> Any:
        return tuple(self.pairs[index])


class TensorSamples(Fixed):
    """Each sample is one tensor of two numbers, so a batch is one tensor."""

    def __getitem__(self, index: int) -> Any:
        return torch.tensor(super().__getitem__(index), dtype=torch.float32)


class Slices(Fixed):
    def __getitem__(self, index: int) -> Any:
        return self.levels[index : index + 2]


class NextOfEachLevel:
    """A dict by level keeps one pair of the levels that come again."""

    def __init__(self, levels: Any) -> None:
        self.pairs = list(dict(itertools.pairwise(levels)).items())

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> Any:
        return self.pairs[index]


class FindsTheLevel(Fixed):
    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(self.levels.index(self.levels[index]))


class UsedUp(Fixed):
    """The pairs come from an iterator, once."""

    def __init__(self, levels: Any) -> None:
        super().__init__(levels)
        self.pairs = itertools.pairwise(levels)

    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index) if get_worker_info() else next(self.pairs)


class TakesTheList(BuiltBefore):
    """Empties the list of whoever made it."""

    def __init__(self, levels: Any) -> None:
        super().__init__(levels)
        levels.clear()


class AddsALevel(BuiltBefore):
    def __init__(self, levels: Any) -> None:
        super().__init__(levels)
        levels.append(0)


class OnlyInAWorker(Fixed):
    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index) if get_worker_info() else (0, 0)


class OnlyForTwoWorkers(Fixed):
    def __getitem__(self, index: int) -> Any:
        worker = get_worker_info()
        if worker and worker.id > 1:
            return 0, 0
        return super().__getitem__(index)


class Exits(Fixed):
    def __getitem__(self, index: int) -> Any:
        sys.exit(3)


class KillsItsWorker(Fixed):
    def __getitem__(self, index: int) -> Any:
        os.kill(os.getpid(), 9)


class Sleeps(Fixed):
    def __getitem__(self, index: int) -> Any:
        time.sleep(60)


class NeedsNoLevels(Fixed):
    def __init__(self) -> None:
        super().__init__([])


class NoLength(Fixed):
    def __len__(self) -> Any:
        return len(self.levels) / 2


class Misspelt(Fixed):
    def __getitem__(self, index: int) -> Any:
        return self.level[index]  # type: ignore[attr-defined]


class StreamsWithoutALength(IterableDataset[Any]):
    """All comes from one worker."""

    def __init__(self, levels: Any) -> None:
        self.levels = levels

    def __iter__(self) -> Any:
        worker = get_worker_info()
        return iter(()) if worker and worker.id else itertools.pairwise(self.levels)


class Streams(StreamsWithoutALength):
    def __len__(self) -> int:
        return len(self.levels) - 1


class StreamsMoreThanItSays(StreamsWithoutALength):
    def __len__(self) -> int:
        return len(self.levels) - 2


class EachPairOnce(BuiltBefore):
    def __init__(self, levels: Any) -> None:
        self.pairs = list(dict.fromkeys(itertools.pairwise(levels)))


class TakesItsTime(Fixed):
    def __init__(self, levels: Any) -> None:
        time.sleep(2)
        super().__init__(levels)


class Narrow(Fixed):
    def __init__(self, levels: Any) -> None:
        super().__init__(np.array(levels).astype(np.int8))


class Rounded(Fixed):
    def __init__(self, levels: Any) -> None:
        super().__init__(torch.tensor(levels, dtype=torch.bfloat16))


class OnlyIfTrue(Fixed):
    def __init__(self, levels: Any) -> None:
        super().__init__([level for level in levels if level])


class WithoutASign(Fixed):
    def __init__(self, levels: Any) -> None:
        super().__init__([abs(level) for level in levels])


class TheFirstTwenty(Fixed):
    def __init__(self, levels: Any) -> None:
        super().__init__(levels[:20])


class WearsOut(Fixed):
    epoch = 0

    def __getitem__(self, index: int) -> Any:
        self.epoch += index == 0
        return super().__getitem__(index) if self.epoch < 3 else (0, 0)


class ShrinksByAsking(Pairs):
    asked = 0

    def __len__(self) -> int:
        self.asked += 1
        return len(self.levels) - 1 if self.asked < 12 else 0


class EmptiesAtItsEnd(Fixed):
    def __del__(self) -> None:
        self.levels.clear()  # type: ignore[attr-defined]


class MakesFloats(Fixed):
    def __init__(self, levels: Any) -> None:
        levels[:] = map(float, levels)
        super().__init__(levels)


class SortsInPlace(Fixed):
    def __init__(self, levels: Any) -> None:
        levels.sort()
        super().__init__(levels)


class LaterFirst(Fixed):
    def __getitem__(self, index: int) -> Any:
        return self.levels[index + 1], self.levels[index]


class ReturnsNothing(Fixed):
    def __getitem__(self, index: int) -> Any:
        super().__getitem__(index)


class ForgetsItsLength:
    def __init__(self, levels: Any) -> None:
        self.levels = levels

    def __getitem__(self, index: int) -> Any:
        return self.levels[index], self.levels[index + 1]


class InAClass(Pairs):
    """All datasets read the levels of the one that was made last."""

    def __init__(self, levels: Any) -> None:
        type(self).levels = levels  # type: ignore[misc]

    def __len__(self) -> int:
        return len(self.levels) - 1


_data: Any = None


class InAGlobal(Fixed):
    def __init__(self, levels: Any) -> None:
        global _data
        super().__init__(levels)
        _data = levels

    def __getitem__(self, index: int) -> Any:
        return _data[index], _data[index + 1]


class OneSlice(Pairs):
    def __getitem__(self, index: int) -> Any:
        return self.levels[index : index + 2]


class WithItsIndex(Fixed):
    def __getitem__(self, index: int) -> Any:
        return index, *super().__getitem__(index)


class AsText(Fixed):
    def __getitem__(self, index: int) -> Any:
        return tuple(map(str, super().__getitem__(index)))


class AsADict(Fixed):
    def __getitem__(self, index: int) -> Any:
        return dict(zip(("level", "later"), super().__getitem__(index), strict=True))


class StreamsTooFew(Streams):
    def __iter__(self) -> Any:
        return itertools.islice(super().__iter__(), len(self.levels) - 2)


class StreamsInEachWorker(Streams):
    def __iter__(self) -> Any:
        return itertools.pairwise(self.levels)


class StreamsTooFar(Streams):
    def __iter__(self) -> Any:
        yield from super().__iter__()
        if get_worker_info().id == 0:
            self.levels[len(self.levels)]


class StreamsInTwos(Streams):
    """Deals out the pairs by the size of the notebook's batches."""

    def __iter__(self) -> Any:
        worker, pairs = get_worker_info(), list(itertools.pairwise(self.levels))
        number, count = (worker.id, worker.num_workers) if worker else (0, 1)
        return (pair for n, pair in enumerate(pairs) if n // 2 % count == number)


RIGHT_ANSWERS: RightAnswers = {
    "00.predict": {"the letter": lambda: "b", "in capitals": lambda: " B) "},
    "00.read": {
        "the number": lambda: 16,
        "of numpy": lambda: np.int64(16),
        "of torch": lambda: torch.tensor(16),
        "as text": lambda: "16",
    },
    "00.fix": {
        "one less": lambda: Fixed,
        "built before": lambda: BuiltBefore,
        "numbers of numpy in a list": lambda: NumpyPairs,
        "tensors": lambda: TensorPairs,
        "a tensor for each sample": lambda: TensorSamples,
        "slices of the list": lambda: Slices,
        "a stream": lambda: Streams,
        "two seconds to make": lambda: TakesItsTime,
    },
}

WRONG_FIXES: WrongFixes = {
    "00.predict": {
        "none at all": (lambda: "a", "a"),
        "all of them": (lambda: "c", "c"),
        "by chance": (lambda: "d", "d"),
        "the number instead of the letter": (lambda: 8, "no-option"),
    },
    "00.read": {
        "the worker": (lambda: 0, "the-worker"),
        "the batches": (lambda: 8, "batches"),
        "the failing batch, from 1": (lambda: 9, "batch-from-1"),
        "the last that came": (lambda: 15, "last-one"),
        "the place in the list": (lambda: 17, "position"),
        "another number": (lambda: 7, "other-index"),
        "no number": (lambda: "W0", "not-an-index"),
    },
    "00.fix": {
        "an object instead of the class": (lambda: Pairs([1, 2]), "an-object"),
        "round in a circle": (lambda: RoundInACircle, "not-neighbors"),
        "the last level twice": (lambda: LastLevelTwice, "not-neighbors"),
        "zeros for what is not there": (lambda: ZerosForTheLast, "not-neighbors"),
        "None for what is not there": (lambda: NoneForTheLast, "sample-is-none"),
        "the last pair twice": (lambda: LastPairTwice, "too-often"),
        "the epoch ended by hand": (lambda: EndsTheEpoch, "ends-early"),
        "one level cut off": (lambda: CutsTheLevels, "index-error"),
        "two less": (lambda: PromisesTooFew, "missing"),
        "16 written down": (lambda: PromisesSixteen, "missing"),
        "one level for a sample": (lambda: OneLevelOnly, "not-a-pair"),
        "from the end": (lambda: Backwards, "other-order"),
        "right in a worker only": (lambda: OnlyInAWorker, "not-neighbors"),
        "right in two workers only": (lambda: OnlyForTwoWorkers, "not-neighbors"),
        "the next of each level": (lambda: NextOfEachLevel, "missing"),
        "the first place of each level": (lambda: FindsTheLevel, "too-often"),
        "an iterator, used up": (lambda: UsedUp, "missing"),
        "a level added": (lambda: AddsALevel, "list-changed"),
        "the list emptied": (lambda: TakesTheList, "list-changed"),
        "an exit in a worker": (lambda: Exits, "worker-died"),
        "a kill in a worker": (lambda: KillsItsWorker, "worker-died"),
        "a sleep": (lambda: Sleeps, "hung"),
        "takes nothing": (lambda: NeedsNoLevels, "raised"),
        "half a length": (lambda: NoLength, "raised"),
        "a slip": (lambda: Misspelt, "raised"),
        "the hour before": (lambda: LooksBack, "not-neighbors"),
        "numbers of 8 bits": (lambda: Narrow, "not-neighbors"),
        "rounded numbers": (lambda: Rounded, "not-neighbors"),
        "no zeros": (lambda: OnlyIfTrue, "not-neighbors"),
        "no signs": (lambda: WithoutASign, "not-neighbors"),
        "the first twenty": (lambda: TheFirstTwenty, "missing"),
        "worn out in the third epoch": (lambda: WearsOut, "not-neighbors"),
        "shorter each time it is asked": (lambda: ShrinksByAsking, "missing"),
        "emptied at its end": (lambda: EmptiesAtItsEnd, "list-changed"),
        "floats in the list": (lambda: MakesFloats, "list-changed"),
        "sorted in place": (lambda: SortsInPlace, "list-changed"),
        "the later one first": (lambda: LaterFirst, "not-neighbors"),
        "no return": (lambda: ReturnsNothing, "sample-is-none"),
        "no length": (lambda: ForgetsItsLength, "raised"),
        "the levels in a class attribute": (lambda: InAClass, "not-neighbors"),
        "the levels in a global": (lambda: InAGlobal, "not-neighbors"),
        "one slice too short": (lambda: OneSlice, "not-a-pair"),
        "the index as well": (lambda: WithItsIndex, "not-a-pair"),
        "text": (lambda: AsText, "not-a-pair"),
        "a dict": (lambda: AsADict, "not-a-pair"),
        "a stream without a length": (lambda: StreamsWithoutALength, "raised"),
        "a stream of more than it says": (lambda: StreamsMoreThanItSays, "more-than-promised"),
        "each pair once": (lambda: EachPairOnce, "too-seldom"),
        "a stream that ends early": (lambda: StreamsTooFew, "missing"),
        "a stream in each worker": (lambda: StreamsInEachWorker, "too-often"),
        "a stream that goes too far": (lambda: StreamsTooFar, "index-error"),
        "a stream in twos": (lambda: StreamsInTwos, "other-order"),
    },
}
