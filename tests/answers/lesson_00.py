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
        "none at all": (lambda: "a", "the first one fails"),
        "all of them": (lambda: "c", "could not be made"),
        "by chance": (lambda: "d", "the same on every run"),
        "the number instead of the letter": (lambda: 8, "none of the options"),
    },
    "00.read": {
        "the worker": (lambda: 0, "name of the worker"),
        "the batches": (lambda: 8, "An index counts samples. How many"),
        "the failing batch, from 1": (lambda: 9, "The ninth batch"),
        "the last that came": (lambda: 15, "Sample 15 arrived"),
        "the place in the list": (lambda: 17, "`index + 1`"),
        "another number": (lambda: 7, "7 is not it"),
        "no number": (lambda: "W0", "is one whole number, such as 3, not 'W0'."),
    },
    "00.fix": {
        "an object instead of the class": (lambda: Pairs([1, 2]), "not an object of it"),
        "round in a circle": (lambda: RoundInACircle, "As sample 16 came (47, 52), which is"),
        "the last level twice": (lambda: LastLevelTwice, "As sample 16 came (47, 47)"),
        "zeros for what is not there": (lambda: ZerosForTheLast, "As sample 16 came (0, 0)"),
        "None for what is not there": (
            lambda: NoneForTheLast,
            "a sample was None. `__len__` promises 17",
        ),
        "the last pair twice": (lambda: LastPairTwice, "(49, 47) came once too often"),
        "the epoch ended by hand": (lambda: EndsTheEpoch, "StopIteration"),
        "one level cut off": (lambda: CutsTheLevels, "12 of 16 pairs came from 17 levels in batch"),
        "two less": (lambda: PromisesTooFew, "(49, 47) did not"),
        "16 written down": (lambda: PromisesSixteen, "With 0 workers, 16 of 39 pairs"),
        "one level for a sample": (
            lambda: OneLevelOnly,
            "As sample 0 came 52, which is not two numbers",
        ),
        "from the end": (lambda: Backwards, "in another order"),
        "right in a worker only": (lambda: OnlyInAWorker, "With 0 workers, 0 of 39 pairs"),
        "right in two workers only": (lambda: OnlyForTwoWorkers, "With 4 workers, 23 of 39 pairs"),
        "the next of each level": (lambda: NextOfEachLevel, "With 0 workers, "),
        "the first place of each level": (lambda: FindsTheLevel, "With 0 workers, "),
        "an iterator, used up": (lambda: UsedUp, "in epoch 2, 0 of 39 pairs"),
        "the list emptied": (lambda: TakesTheList, "`levels[0]` was 52 and is missing"),
        "an exit in a worker": (lambda: Exits, "ended with exit code 3"),
        "a kill in a worker": (lambda: KillsItsWorker, "killed by SIGKILL"),
        "a sleep": (lambda: Sleeps, "did not end within 6 s"),
        "takes nothing": (lambda: NeedsNoLevels, "takes 1 positional argument"),
        "half a length": (lambda: NoLength, "'float' object cannot be interpreted as an integer"),
        "a slip": (lambda: Misspelt, "has no attribute 'level'"),
        "the hour before": (lambda: LooksBack, "As sample 0 came (47, 52)"),
        "numbers of 8 bits": (lambda: Narrow, "With 0 workers, "),
        "rounded numbers": (lambda: Rounded, "With 0 workers, "),
        "no zeros": (lambda: OnlyIfTrue, "With 0 workers, "),
        "no signs": (lambda: WithoutASign, "With 0 workers, "),
        "the first twenty": (lambda: TheFirstTwenty, "With 0 workers, 19 of 39 pairs"),
        "worn out in the third epoch": (lambda: WearsOut, "in epoch 3, 0 of 1 pairs"),
        "shorter each time it is asked": (lambda: ShrinksByAsking, "0 of 1 pairs came from 2"),
        "emptied at its end": (lambda: EmptiesAtItsEnd, "`levels[0]` was 52 and is missing"),
        "floats in the list": (lambda: MakesFloats, "`levels[0]` was 52 and is 52.0"),
        "sorted in place": (lambda: SortsInPlace, "`levels[0]` was 52 and is 47"),
        "the later one first": (lambda: LaterFirst, "As sample 0 came (55, 52)"),
        "no return": (lambda: ReturnsNothing, "a sample was None. `__len__` promises 16"),
        "no length": (lambda: ForgetsItsLength, "has no len()"),
        "the levels in a class attribute": (lambda: InAClass, "As sample 0 came (31, 33), which"),
        "the levels in a global": (lambda: InAGlobal, "As sample 0 came (31, 33), which is not"),
        "one slice too short": (lambda: OneSlice, "As sample 16 came [47], which is not two num"),
        "the index as well": (lambda: WithItsIndex, "As sample 0 came (0, 52, 55), which is not"),
        "text": (lambda: AsText, "As sample 0 came ('52', '55'), which is not two numbers."),
        "a dict": (lambda: AsADict, "As sample 0 came {'level': 52, 'later': 55}, which is not"),
        "a stream without a length": (lambda: StreamsWithoutALength, "has no len()"),
        "a stream of more than it says": (
            lambda: StreamsMoreThanItSays,
            "16 of 16 pairs came from 17 levels. But `__len__` promises 15 samples.",
        ),
        "each pair once": (lambda: EachPairOnce, "(33, 33) came 1 of 2 times: the same two"),
        "a stream that ends early": (lambda: StreamsTooFew, "(49, 47) did not. No error says so."),
        "a stream in each worker": (lambda: StreamsInEachWorker, "Where is the second from?"),
        "a stream that goes too far": (lambda: StreamsTooFar, "in batches of 4, then `IndexError"),
        "a stream in twos": (lambda: StreamsInTwos, "in another order"),
    },
}
