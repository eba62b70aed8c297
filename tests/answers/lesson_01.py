"""The usual wrong answers to the exercises of lesson 01."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageFile, UnidentifiedImageError
from torch.utils.data import DataLoader

from answers import WrongFixes
from dltutor.failures.corrupt_images import Pictures, VerifiedPictures
from dltutor.lessons.lesson_01.readings import AXES, STEPS, Readings


class Converting(Pictures):
    """Three channels for every picture that loads; the rest raises. A base for what follows."""

    quarantined: dict[str, str]

    def load(self, path: str) -> torch.Tensor:
        with Image.open(self.root / path) as image:
            small = image.convert("RGB").resize((64, 64))
        return torch.from_numpy(np.array(small)).permute(2, 0, 1) / 255

    def __getitem__(self, index: int) -> Any:
        path, label = self.listed[index]
        return self.load(path), self.classes.index(label)

    def set_aside(self, *errors: type[BaseException]) -> None:
        """Keep only what loads."""
        self.quarantined = {}
        for path, _ in self.listed:
            try:
                self.load(path)
            except errors as error:
                self.quarantined[path] = f"{type(error).__name__}: {error}"
        self.listed = [entry for entry in self.listed if entry[0] not in self.quarantined]


class ReturnsNone(Converting):
    def __getitem__(self, index: int) -> Any:
        try:
            return super().__getitem__(index)
        except Exception:
            return None, None


class ReturnsZeros(Converting):
    def __getitem__(self, index: int) -> Any:
        try:
            return super().__getitem__(index)
        except Exception:
            return torch.zeros(3, 64, 64), 0


class ReturnsNoise(Converting):
    def __getitem__(self, index: int) -> Any:
        try:
            return super().__getitem__(index)
        except Exception:
            generator = torch.Generator().manual_seed(index)
            return torch.rand(3, 64, 64, generator=generator), 0


class ReturnsTheNext(Converting):
    def __getitem__(self, index: int) -> Any:
        try:
            return super().__getitem__(index)
        except Exception:
            return self[(index + 1) % len(self)]


class ReturnsTheFirst(Converting):
    def __getitem__(self, index: int) -> Any:
        try:
            return super().__getitem__(index)
        except Exception:
            return super().__getitem__(0)


class ReturnsARandomOne(Converting):
    def __getitem__(self, index: int) -> Any:
        try:
            return super().__getitem__(index)
        except Exception:
            return self[random.randrange(len(self))]


class LoadsTruncated(Converting):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        ImageFile.LOAD_TRUNCATED_IMAGES = True
        self.set_aside(OSError, Image.DecompressionBombError)


class DropsWithoutAWord(VerifiedPictures):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.quarantined = {}


class KeepsNoQuarantine(VerifiedPictures):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        del self.quarantined


class KeepsAListOfPaths(VerifiedPictures):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.quarantined = sorted(self.quarantined)  # type: ignore[assignment]


class SaysBadOfAll(VerifiedPictures):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.quarantined = dict.fromkeys(self.quarantined, "bad")


class SaysNothing(VerifiedPictures):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.quarantined = dict.fromkeys(self.quarantined, "")


class SetsAsideWhatIsNotRGB(VerifiedPictures):
    def load(self, path: str) -> torch.Tensor:
        with Image.open(self.root / path) as image:
            if image.mode != "RGB":
                raise OSError(f"mode {image.mode}")
        return super().load(path)


class ConvertsNothing(VerifiedPictures):
    def load(self, path: str) -> torch.Tensor:
        with Image.open(self.root / path) as image:
            small = np.array(image.resize((64, 64)))
        return torch.from_numpy(np.atleast_3d(small)).permute(2, 0, 1) / 255


class CatchesOSError(Converting):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.set_aside(OSError)


class CatchesUnidentified(Converting):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.set_aside(UnidentifiedImageError)


class OnlyOpens(Converting):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.quarantined = {}
        for path, _ in self.listed:
            try:
                Image.open(self.root / path).close()
            except Exception as error:
                self.quarantined[path] = str(error)
        self.listed = [entry for entry in self.listed if entry[0] not in self.quarantined]


class OnlyVerifies(Converting):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.quarantined = {}
        for path, _ in self.listed:
            try:
                with Image.open(self.root / path) as image:
                    image.verify()
            except Exception as error:
                self.quarantined[path] = str(error)
        self.listed = [entry for entry in self.listed if entry[0] not in self.quarantined]


class FillsItInTheWorker(VerifiedPictures):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.found, self.quarantined = self.quarantined, {}

    def __getitem__(self, index: int) -> Any:
        self.quarantined.update(self.found)
        return super().__getitem__(index)


class CountsTooMany(VerifiedPictures):
    def __len__(self) -> int:
        return len(self.listed) + len(self.quarantined)


class Empty(Converting):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.quarantined = {path: "not looked at" for path, _ in self.listed}
        self.listed = []


class Bytes(VerifiedPictures):
    def load(self, path: str) -> torch.Tensor:
        return (super().load(path) * 255).byte()


class NotScaled(VerifiedPictures):
    def load(self, path: str) -> torch.Tensor:
        return super().load(path) * 255


class PicturesAlone(VerifiedPictures):
    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index)[0]


class ClassNames(VerifiedPictures):
    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index)[0], self.listed[index][1]


class ClassesAsTheyCome(VerifiedPictures):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.classes = list(dict.fromkeys(label for _, label in self.listed))


class NoLength:
    def __init__(self, root: str | Path) -> None:
        self.pictures = VerifiedPictures(root)

    def __getitem__(self, index: int) -> Any:
        return self.pictures[index]


class FailsAtOnce(VerifiedPictures):
    def __init__(self, root: str | Path) -> None:
        super().__init__(rout)  # type: ignore[name-defined] # noqa: F821


class WaitsInInit(VerifiedPictures):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        time.sleep(60)


class WaitsInAWorker(VerifiedPictures):
    def __getitem__(self, index: int) -> Any:
        if torch.utils.data.get_worker_info():
            time.sleep(60)
        return super().__getitem__(index)


class WithoutWorkers(DataLoader[Any]):
    def __init__(self, root: str | Path) -> None:
        super().__init__(Converting(root), batch_size=8, num_workers=0)


class Reading(Readings):
    """Readings that load; the rest raises. A base for what follows."""

    quarantined: dict[str, str]

    def load(self, path: str) -> torch.Tensor:
        reading = np.load(self.root / path)
        if reading.shape != (AXES, STEPS):
            raise ValueError(f"shape {reading.shape}")
        return torch.from_numpy(reading).float()

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        path, label = self.listed[index]
        return self.load(path), self.classes.index(label)

    def set_aside(self, *errors: type[BaseException]) -> None:
        """Keep only what loads."""
        self.quarantined = {}
        for path, _ in self.listed:
            try:
                self.load(path)
            except errors as error:
                self.quarantined[path] = f"{type(error).__name__}: {error}"
        self.listed = [entry for entry in self.listed if entry[0] not in self.quarantined]


class VerifiedReadings(Reading):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.set_aside(OSError, EOFError, ValueError)


class ReadingOrNone(Reading):
    def __getitem__(self, index: int) -> Any:
        try:
            return super().__getitem__(index)
        except Exception:
            return None, None


class PrintsAndReturnsZeros(Reading):
    def __getitem__(self, index: int) -> Any:
        try:
            return super().__getitem__(index)
        except Exception as error:
            print(f"sample {index}: {error}")
            return torch.zeros(AXES, STEPS), 0


class AverageForAll(Reading):
    def __getitem__(self, index: int) -> Any:
        try:
            return super().__getitem__(index)
        except Exception:
            return (super().__getitem__(0)[0] + super().__getitem__(1)[0]) / 2, 0


class Padded(VerifiedReadings):
    def load(self, path: str) -> torch.Tensor:
        reading = np.load(self.root / path)
        whole = np.zeros((AXES, STEPS), np.float32)
        whole[: reading.shape[0], : reading.shape[1]] = reading
        return torch.from_numpy(whole)


class NextReading(Reading):
    def __getitem__(self, index: int) -> Any:
        try:
            return super().__getitem__(index)
        except Exception:
            return self[(index + 1) % len(self)]


class AnyShape(VerifiedReadings):
    def load(self, path: str) -> torch.Tensor:
        return torch.from_numpy(np.load(self.root / path)).float()


class CatchesOSErrorOnly(Reading):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.set_aside(OSError)


class SinglePrecisionOnly(VerifiedReadings):
    def load(self, path: str) -> torch.Tensor:
        if np.load(self.root / path).dtype != np.float32:
            raise ValueError("not float32")
        return super().load(path)


class LosesReadings(VerifiedReadings):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.quarantined.clear()


WRONG_FIXES: WrongFixes = {
    "01.predict": {
        "the worker dies": (lambda: "a", "no worker died"),
        "the picture is skipped": (lambda: "c", "nothing is skipped"),
        "no option": (lambda: "d", "none of the options"),
    },
    "01.diagnose": {
        "the number of the batch": (lambda: 2, "number of the batch"),
        "the place within the batch": (lambda: 5, "place within its batch"),
        "counted from 1": (lambda: 22, "count from 0"),
        "another bad sample": (lambda: 28, "not the first"),
        "a healthy sample": (lambda: 17, "With 0 workers the epoch ends in one batch"),
        "a file name": (lambda: "circle/cut-short.jpg", "is a file"),
        "out of range": (lambda: 58, "run from 0 to 57"),
        "a float": (lambda: 21.0, "whole number"),
    },
    "01.fix": {
        "None for a bad picture": (lambda: ReturnsNone, "7 samples are None"),
        "a black picture": (lambda: ReturnsZeros, "7 of 40 pictures are blank"),
        "noise": (lambda: ReturnsNoise, "7 of 40 pictures are in no file"),
        "the next picture": (lambda: ReturnsTheNext, "came 2 times"),
        "the first picture": (lambda: ReturnsTheFirst, "came 8 times"),
        "a random picture": (lambda: ReturnsARandomOne, "The second epoch brings other"),
        "LOAD_TRUNCATED_IMAGES": (lambda: LoadsTruncated, "rows of one colour"),
        "dropped without a word": (lambda: DropsWithoutAWord, "7 vanish without a word"),
        "no quarantined": (lambda: KeepsNoQuarantine, "has no `quarantined`"),
        "a list of paths": (lambda: KeepsAListOfPaths, "`quarantined` is a list"),
        "one reason for all": (lambda: SaysBadOfAll, "always `bad`"),
        "empty reasons": (lambda: SaysNothing, "not each has a reason"),
        "what is not RGB set aside": (lambda: SetsAsideWhatIsNotRGB, "what can be used: a grey"),
        "nothing converted": (lambda: ConvertsNothing, "Which shape do they have"),
        "only OSError caught": (lambda: CatchesOSError, "400 million pixels"),
        "only UnidentifiedImageError caught": (lambda: CatchesUnidentified, "of 10 end it"),
        "opened, not loaded": (lambda: OnlyOpens, "How far does your look read"),
        "verify()": (lambda: OnlyVerifies, "1 of 10 ends it: a JPEG cut short"),
        "quarantined in the worker": (lambda: FillsItInTheWorker, "In which process"),
        "__len__ too large": (lambda: CountsTooMany, "does `__len__` count"),
        "an empty dataset": (lambda: Empty, "No picture arrives"),
        "bytes": (lambda: Bytes, "uint8 of shape"),
        "0 to 255": (lambda: NotScaled, "from 0 to 255"),
        "no classes": (lambda: PicturesAlone, "A batch is"),
        "names of classes": (lambda: ClassNames, "A batch is a list"),
        "classes in order of appearance": (lambda: ClassesAsTheyCome, "another class number"),
        "no __len__": (lambda: NoLength, "`NoLength` has no `__len__`"),
        "an error in __init__": (lambda: FailsAtOnce, "name 'rout' is not defined"),
        "num_workers=0": (lambda: WithoutWorkers, "keeps its workers"),
        "a function": (lambda: lambda root: VerifiedPictures(root), "the check takes a class"),
        "a wait in __init__": (lambda: WaitsInInit, "was not ready after 10 s"),
        "a wait in a worker": (lambda: WaitsInAWorker, "W0 and W1 stood at"),
    },
    "01.transfer": {
        "None for a bad reading": (lambda: ReadingOrNone, "6 samples are None"),
        "print, and zeros": (lambda: PrintsAndReturnsZeros, "6 of 31 readings are blank"),
        "an average": (lambda: AverageForAll, "6 of 31 readings are in no file"),
        "padded": (lambda: Padded, "2 of 27 readings are in no file"),
        "the next reading": (lambda: NextReading, "came"),
        "no try": (lambda: Reading, "of 7 end it"),
        "any shape": (lambda: AnyShape, "What is it that makes a reading usable"),
        "only OSError caught": (lambda: CatchesOSErrorOnly, "an empty file (EOFError)"),
        "double precision set aside": (lambda: SinglePrecisionOnly, "double precision"),
        "dropped without a word": (lambda: LosesReadings, "vanish without a word"),
    },
}
