"""The usual wrong answers to the exercises of lesson 01."""

from __future__ import annotations

import csv
import os
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageFile, UnidentifiedImageError
from torch.utils.data import DataLoader

from answers import OtherOutcomes, RightAnswers, WrongFixes
from dltutor.failures.corrupt_images import Images, VerifiedImages, shared_images
from dltutor.lessons.lesson_01.material import AXES, STEPS, Readings


class Converting(Images):
    """Three channels for every image that loads; the rest raises. A base for what follows."""

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


class Verified(Converting):
    """What the exercise asks for. A base for what goes wrong otherwise, too."""

    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.set_aside(Exception)


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


class DropsWithoutAWord(Verified):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.quarantined = {}


class KeepsNoQuarantine(Verified):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        del self.quarantined


class KeepsAListOfPaths(Verified):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.quarantined = sorted(self.quarantined)  # type: ignore[assignment]


class SaysBadOfAll(Verified):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.quarantined = dict.fromkeys(self.quarantined, "bad")


class SaysNothing(Verified):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.quarantined = dict.fromkeys(self.quarantined, "")


class SetsAsideWhatIsNotRGB(Verified):
    def load(self, path: str) -> torch.Tensor:
        with Image.open(self.root / path) as image:
            if image.mode != "RGB":
                raise OSError(f"mode {image.mode}")
        return super().load(path)


class ConvertsNothing(Verified):
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


class FillsItInTheWorker(Verified):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.found, self.quarantined = self.quarantined, {}

    def __getitem__(self, index: int) -> Any:
        self.quarantined.update(self.found)
        return super().__getitem__(index)


class CountsTooMany(Verified):
    def __len__(self) -> int:
        return len(self.listed) + len(self.quarantined)


class Empty(Converting):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.quarantined = {path: "not looked at" for path, _ in self.listed}
        self.listed = []


class Bytes(Verified):
    def load(self, path: str) -> torch.Tensor:
        return (super().load(path) * 255).byte()


class NotScaled(Verified):
    def load(self, path: str) -> torch.Tensor:
        return super().load(path) * 255


class ImagesAlone(Verified):
    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index)[0]


class ClassNames(Verified):
    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index)[0], self.listed[index][1]


class ClassesAsTheyCome(Verified):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.classes = list(dict.fromkeys(label for _, label in self.listed))


class NoLength:
    def __init__(self, root: str | Path) -> None:
        self.images = Verified(root)

    def __getitem__(self, index: int) -> Any:
        return self.images[index]


class FailsAtOnce(Verified):
    def __init__(self, root: str | Path) -> None:
        super().__init__(rout)  # type: ignore[name-defined] # noqa: F821


class WaitsInInit(Verified):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        time.sleep(60)


class WaitsInAWorker(Verified):
    def __getitem__(self, index: int) -> Any:
        if torch.utils.data.get_worker_info():
            time.sleep(60)
        return super().__getitem__(index)


class WithoutWorkers(DataLoader[Any]):
    def __init__(self, root: str | Path) -> None:
        super().__init__(Converting(root), batch_size=8, num_workers=0)


class PaletteIndicesAsGray(Verified):
    def load(self, path: str) -> torch.Tensor:
        with Image.open(self.root / path) as image:
            if image.mode != "P":
                return super().load(path)
            small = Image.fromarray(np.array(image)).convert("RGB").resize((64, 64))
        return torch.from_numpy(np.array(small)).permute(2, 0, 1) / 255


class AllInGray(Verified):
    def load(self, path: str) -> torch.Tensor:
        return super().load(path).mean(dim=0, keepdim=True).expand(3, -1, -1)


class DeletesTheFiles(Verified):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        for path in self.quarantined:
            if (self.root / path).is_file():
                (self.root / path).unlink()


class RewritesTheList(Verified):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        with (self.root / "labels.csv").open("w", newline="") as file:
            csv.writer(file).writerows(self.listed)


class LeavesProcesses(Verified):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        for _ in range(2):
            subprocess.Popen(["sleep", "600"])


class NamesTheFileAgain(Verified):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.quarantined = {path: f"could not load {path}" for path in self.quarantined}


class Numbers(Verified):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.quarantined = {path: str(n) for n, path in enumerate(self.quarantined)}


class SameForMissingAndDamaged(Verified):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        for path, why in self.quarantined.items():
            self.quarantined[path] = "too large" if "Bomb" in why else "cannot be read"


class WholePaths(Verified):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.quarantined = {str(self.root / path): why for path, why in self.quarantined.items()}


class SlipInLoad(Verified):
    def load(self, path: str) -> torch.Tensor:
        return torch.from_numpy(nump.array(path))  # type: ignore[name-defined] # noqa: F821


class OnlyTheSmallestPixels(Verified):
    def __init__(self, root: str | Path) -> None:
        Image.MAX_IMAGE_PIXELS = 10
        super().__init__(root)


class EndsTheEpoch(Verified):
    def __len__(self) -> int:
        return len(self.listed) + 1

    def __getitem__(self, index: int) -> Any:
        if index == len(self.listed):
            raise StopIteration
        return super().__getitem__(index)


class WrongInTheFourthWorker(Verified):
    def __getitem__(self, index: int) -> Any:
        worker = torch.utils.data.get_worker_info()
        pixels, number = super().__getitem__(index)
        return (pixels.flip(2) if worker and worker.id > 2 else pixels), number


class ExitsInInit(Verified):
    def __init__(self, root: str | Path) -> None:
        sys.exit(3)


class EndsMain(Verified):
    def __init__(self, root: str | Path) -> None:
        os._exit(7)


class KillsItsWorker(Verified):
    def __getitem__(self, index: int) -> Any:
        if torch.utils.data.get_worker_info():
            os.kill(os.getpid(), 9)
        return super().__getitem__(index)


class ResizesFirst(Verified):
    def load(self, path: str) -> torch.Tensor:
        with Image.open(self.root / path) as image:
            small = image.resize((64, 64), Image.Resampling.BOX).convert("RGB")
        return torch.from_numpy(np.array(small)).permute(2, 0, 1).double() / 255


class ResizesTensors(Verified):
    def load(self, path: str) -> torch.Tensor:
        with Image.open(self.root / path) as image:
            pixels = torch.from_numpy(np.array(image.convert("RGB"))).permute(2, 0, 1) / 255
        return torch.nn.functional.interpolate(pixels[None], (64, 64), mode="bilinear")[0]


class TypesForReasons(Verified):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.quarantined = {path: why.partition(":")[0] for path, why in self.quarantined.items()}


class OwnWords(Verified):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        for path, why in self.quarantined.items():
            words = {"FileNotFoundError": "gone", "DecompressionBombError": "too many pixels"}
            self.quarantined[path] = words.get(why.partition(":")[0], "cannot be decoded")


class KeepsTheErrors(Verified):
    def set_aside(self, *errors: type[BaseException]) -> None:
        self.quarantined = {}
        for path, _ in self.listed:
            try:
                self.load(path)
            except errors as error:
                self.quarantined[path] = error  # type: ignore[assignment]
        self.listed = [entry for entry in self.listed if entry[0] not in self.quarantined]


class LoadsEarly:
    """Not even a Dataset; it keeps all images, and writes a report beside them."""

    def __init__(self, root: str | Path) -> None:
        images = Verified(root)
        self.samples = [images[index] for index in range(len(images))]
        self.quarantined = images.quarantined
        (images.root / "bad.txt").write_text("\n".join(self.quarantined))

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:
        return self.samples[index]


class LooksInParallel(Verified):
    def set_aside(self, *errors: type[BaseException]) -> None:
        with ThreadPoolExecutor(4) as pool:
            found = pool.map(self.trial, [path for path, _ in self.listed])
        reasons = zip(self.listed, found, strict=True)
        self.quarantined = {path: why for (path, _), why in reasons if why}
        self.listed = [entry for entry in self.listed if entry[0] not in self.quarantined]

    def trial(self, path: str) -> str:
        try:
            self.load(path)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return ""


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


class EachKindByName(VerifiedReadings):
    def load(self, path: str) -> torch.Tensor:
        reading = np.load(self.root / path)
        if reading.shape != (AXES, STEPS):
            raise ValueError("another shape")
        return torch.as_tensor(reading, dtype=torch.float64)


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


class DeletesReadings(VerifiedReadings):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        for path in self.quarantined:
            (self.root / path).unlink(missing_ok=True)


class BadReading(VerifiedReadings):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.quarantined = {path: f"{path} is bad" for path in self.quarantined}


class LosesReadings(VerifiedReadings):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.quarantined.clear()


WRONG_FIXES: WrongFixes = {
    "01.predict": {
        "the worker dies": (lambda: "a", "No worker died"),
        "the image is skipped": (lambda: "c", "Nothing is skipped"),
        "no option": (lambda: "d", "none of the options"),
    },
    "01.diagnose": {
        "the number of the batch": (lambda: 2, "number of the batch"),
        "the place within the batch": (lambda: 5, "place within its batch"),
        "counted from 1": (lambda: 22, "indices count from 0"),
        "another bad sample": (lambda: 28, "not the first"),
        "a healthy sample": (lambda: 17, "With 0 workers the epoch ends in one batch"),
        "a file name": (lambda: "circle/cut-short.jpg", "is a file"),
        "out of range": (lambda: 58, "run from 0 to 57"),
        "half of one": (lambda: 21.5, "whole number"),
    },
    "01.fix": {
        "None for a bad image": (lambda: ReturnsNone, "7 samples are None"),
        "a black image": (lambda: ReturnsZeros, "7 of 40 images are blank"),
        "noise": (lambda: ReturnsNoise, "7 of 40 images are in no file"),
        "the next image": (lambda: ReturnsTheNext, "came 2 times"),
        "the first image": (lambda: ReturnsTheFirst, "came 8 times"),
        "a random image": (lambda: ReturnsARandomOne, "The second epoch brings other"),
        "LOAD_TRUNCATED_IMAGES": (lambda: LoadsTruncated, "rows of one color"),
        "dropped without a word": (lambda: DropsWithoutAWord, "7 vanish without a word"),
        "no quarantined": (lambda: KeepsNoQuarantine, "has no `quarantined`"),
        "a list of paths": (lambda: KeepsAListOfPaths, "`quarantined` is a list"),
        "one reason for all": (lambda: SaysBadOfAll, "always `bad`"),
        "empty reasons": (lambda: SaysNothing, "not each has a reason"),
        "what is not RGB set aside": (lambda: SetsAsideWhatIsNotRGB, "what can be used: a gray"),
        "nothing converted": (lambda: ConvertsNothing, "Which shape do they have"),
        "only OSError caught": (lambda: CatchesOSError, "400 million pixels"),
        "only UnidentifiedImageError caught": (lambda: CatchesUnidentified, "of 10 end it"),
        "opened, not loaded": (lambda: OnlyOpens, "How far does your look read"),
        "verify()": (lambda: OnlyVerifies, "1 of 10 ends it: a JPEG cut short"),
        "quarantined in the worker": (lambda: FillsItInTheWorker, "In which process"),
        "__len__ too large": (lambda: CountsTooMany, "does `__len__` count"),
        "an empty dataset": (lambda: Empty, "No image arrives"),
        "bytes": (lambda: Bytes, "uint8 of shape"),
        "0 to 255": (lambda: NotScaled, "from 0 to 255"),
        "no classes": (lambda: ImagesAlone, "A batch is"),
        "names of classes": (lambda: ClassNames, "A batch is a list"),
        "classes in order of appearance": (lambda: ClassesAsTheyCome, "another class number"),
        "no __len__": (lambda: NoLength, "`NoLength` has no `__len__`"),
        "an error in __init__": (lambda: FailsAtOnce, "name 'rout' is not defined"),
        "num_workers=0": (lambda: WithoutWorkers, "keeps its workers"),
        "a function": (lambda: lambda root: Verified(root), "the check takes a class"),
        "a wait in __init__": (lambda: WaitsInInit, "was not ready after 6 s"),
        "a wait in a worker": (lambda: WaitsInAWorker, "W0 and W1 stood at"),
        "palette indices as gray": (
            lambda: PaletteIndicesAsGray,
            "An image with a palette should be among the images",
        ),
        "all in gray": (lambda: AllInGray, "in no file"),
        "the bad files deleted": (lambda: DeletesTheFiles, "is no longer as it was"),
        "the list rewritten": (lambda: RewritesTheList, "`labels.csv` in the folder is no longer"),
        "processes left behind": (lambda: LeavesProcesses, "6 processes that your code started"),
        "the file's name for a reason": (lambda: NamesTheFileAgain, "always `could not load"),
        "numbers for reasons": (lambda: Numbers, "not each has a reason"),
        "one reason for missing and damaged": (
            lambda: SameForMissingAndDamaged,
            "says the same of both: `cannot be read`",
        ),
        "whole paths": (lambda: WholePaths, "begins with that of the folder"),
        "a slip in load": (
            lambda: SlipInLoad,
            "40 of them the reason is `NameError: name 'nump' is not",
        ),
        "a switch that forbids all": (lambda: OnlyTheSmallestPixels, "`DecompressionBombError: "),
        "the epoch ended by hand": (lambda: EndsTheEpoch, "`len()` says 34, and 32 images arrive"),
        "wrong in a fourth worker": (
            lambda: WrongInTheFourthWorker,
            "With 0 and 2 workers all is well. With 4:",
        ),
        "the package's own": (lambda: VerifiedImages, "the package's own `VerifiedImages`, and"),
        "an exit in __init__": (lambda: ExitsInInit, "SystemExit"),
        "an end of main": (lambda: EndsMain, "the process that ran it ended with exit code 7"),
        "a worker killed": (lambda: KillsItsWorker, "killed by SIGKILL"),
        "an object": (lambda: Verified(shared_images()), "the class itself, `Verified`, not an"),
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
        "the bad files deleted": (lambda: DeletesReadings, "is no longer as it was"),
        "the file's name for a reason": (lambda: BadReading, "always `"),
    },
}

RIGHT_ANSWERS: RightAnswers = {
    "01.predict": {"b": lambda: "b", "B in brackets": lambda: "(B)"},
    "01.diagnose": {
        "an int": lambda: 21,
        "from numpy": lambda: np.int64(21),
        "from torch": lambda: torch.tensor(21),
        "typed": lambda: "21",
    },
    "01.fix": {
        "looked at once": lambda: Verified,
        "resized, then converted": lambda: ResizesFirst,
        "resized as a tensor": lambda: ResizesTensors,
        "types for reasons": lambda: TypesForReasons,
        "reasons in own words": lambda: OwnWords,
        "errors for reasons": lambda: KeepsTheErrors,
        "all loaded early": lambda: LoadsEarly,
        "looked at in parallel": lambda: LooksInParallel,
    },
    "01.transfer": {
        "looked at once": lambda: VerifiedReadings,
        "in double precision": lambda: EachKindByName,
    },
}

OTHER_OUTCOMES: OtherOutcomes = {
    "01.predict": {"nothing": (lambda: ..., "Not attempted", "one of 'a', 'b', 'c'")},
    "01.diagnose": {"nothing": (lambda: None, "Not attempted", "set `first_bad`")},
    "01.fix": {"the starter": (lambda: Images, "Not attempted", "is still the broken one")},
    "01.transfer": {"the starter": (lambda: Readings, "Not attempted", "is still the broken one")},
}
