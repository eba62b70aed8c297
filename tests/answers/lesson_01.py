"""The usual wrong answers to the exercises of lesson 01."""

from __future__ import annotations

import csv
import io
import os
import random
import subprocess
import sys
import time
import traceback
import uuid
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from PIL import Image, ImageFile, UnidentifiedImageError
from torch.utils.data import DataLoader

from answers import OtherOutcomes, RightAnswers, WrongFixes
from dltutor.failures.corrupt_images import (
    Images,
    VerifiedImages,
    load_on_white,
    shared_images,
)
from dltutor.lessons.lesson_01.material import StartImages, loader_of
from dltutor.lessons.lesson_01.transfer import Readings

AXES, STEPS = 3, 128


def opened(file: Any) -> Image.Image:
    """An image of 8 bits a channel, opened."""
    image = Image.open(file)
    if image.mode[0] in "IF":
        raise ValueError("16 bits")
    return image


class SetsAside:
    """What can be set aside has `listed` and `load`. A base for what follows."""

    listed: list[tuple[str, str]]
    quarantined: dict[str, Any]

    def set_aside(self, *errors: type[BaseException]) -> None:
        """Keep only what loads."""
        self.quarantined = self.none_yet()
        for path, label in self.listed:
            try:
                self.load(path)
            except errors as error:
                self.quarantined[path] = self.why(label, error)
        self.listed = [entry for entry in self.listed if entry[0] not in self.quarantined]

    def none_yet(self) -> dict[str, Any]:
        return {}

    def why(self, label: str, error: BaseException) -> Any:
        return f"{type(error).__name__}: {error}"


class Converting(SetsAside, Images):
    """Three channels for every image that loads; the rest raises. A base for what follows."""

    quarantined: dict[str, str]

    def load(self, path: str) -> torch.Tensor:
        return load_on_white(self.root / path)

    def __getitem__(self, index: int) -> Any:
        path, label = self.listed[index]
        return self.load(path), self.classes.index(label)


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
    chance = random.Random(7)

    def __getitem__(self, index: int) -> Any:
        try:
            return super().__getitem__(index)
        except Exception:
            return self[self.chance.randrange(len(self))]


class LoadsTruncated(Converting):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        ImageFile.LOAD_TRUNCATED_IMAGES = True
        self.set_aside(Exception)


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
        with opened(self.root / path) as image:
            if image.mode != "RGB":
                raise OSError(f"mode {image.mode}")
        return super().load(path)


class ConvertsNothing(Verified):
    def load(self, path: str) -> torch.Tensor:
        with opened(self.root / path) as image:
            small = np.array(image.resize((64, 64)))
        return torch.from_numpy(np.atleast_3d(small)).permute(2, 0, 1) / 255


class CatchesOSErrorAndSyntaxError(Converting):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.set_aside(OSError, SyntaxError)


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


class ChecksEndsAndVerifies(Converting):
    """The usual answer from the web, which decodes nothing."""

    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.quarantined = {}
        for path, _ in self.listed:
            try:
                data = (self.root / path).read_bytes()
                if path.endswith(".jpg") and not data.endswith(b"\xff\xd9"):
                    raise ValueError("cut")
                opened(io.BytesIO(data)).verify()
            except Exception as error:
                self.quarantined[path] = repr(error)
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


class WithThePath(Verified):
    def __getitem__(self, index: int) -> Any:
        return *super().__getitem__(index), self.listed[index][0]


class Dicts(Verified):
    def __getitem__(self, index: int) -> Any:
        return dict(zip(("image", "label"), super().__getitem__(index), strict=True))


class LabelsInPlainLists(Verified):
    def __getitem__(self, index: int) -> Any:
        pixels, number = super().__getitem__(index)
        return pixels, [number]


class NumbersAsText(Verified):
    def __getitem__(self, index: int) -> Any:
        pixels, number = super().__getitem__(index)
        return pixels, str(number)


class WrongKindInWorkers(Verified):
    def __getitem__(self, index: int) -> Any:
        pixels, number = super().__getitem__(index)
        return pixels, str(number) if torch.utils.data.get_worker_info() else number


class NeighborInCase(Verified):
    def __getitem__(self, index: int) -> Any:
        try:
            return super().__getitem__(index)
        except Exception:
            return self[(index + 1) % len(self)]


class NoneInCase(Verified):
    def __getitem__(self, index: int) -> Any:
        try:
            return super().__getitem__(index)
        except Exception:
            return None, None


class NextIfItDoesNotLoad(Verified):
    def __getitem__(self, index: int) -> Any:
        try:
            return super().__getitem__(index)
        except FileNotFoundError:
            raise
        except Exception:
            return self[(index + 1) % len(self)]


class BlackIfUnidentified(Verified):
    def __getitem__(self, index: int) -> Any:
        try:
            return super().__getitem__(index)
        except UnidentifiedImageError:
            return torch.zeros(3, 64, 64), 0


class BySuffix(Verified):
    suffixes = (".jpg", ".png")

    def load(self, path: str) -> torch.Tensor:
        if not path.endswith(self.suffixes):
            raise ValueError("not an image")
        return super().load(path)


class BySuffixInAnyCase(BySuffix):
    suffixes = (".jpg", ".JPG", ".jpeg", ".png")


class SixteenBitsCutOff(Verified):
    def load(self, path: str) -> torch.Tensor:
        with Image.open(self.root / path) as image:
            if image.mode[0] in "IF":
                small = image.convert("RGB").resize((64, 64))
                return torch.from_numpy(np.array(small)).permute(2, 0, 1) / 255
        return super().load(path)


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
        with opened(self.root / path) as image:
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


class WritesBlackImages(Verified):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        for path in self.quarantined:
            if not (self.root / path).exists():
                Image.new("RGB", (64, 64)).save(self.root / path)


class MovesTheFiles(Verified):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        (self.root / "bad").mkdir(exist_ok=True)
        for path in self.quarantined:
            if (self.root / path).is_file():
                (self.root / path).rename(self.root / "bad" / Path(path).name)


class ThrowsAlphaAway(Verified):
    def load(self, path: str) -> torch.Tensor:
        with opened(self.root / path) as image:
            small = image.convert("RGB").resize((64, 64))
        return torch.from_numpy(np.array(small)).permute(2, 0, 1) / 255


class GrayBackground(Verified):
    def load(self, path: str) -> torch.Tensor:
        with opened(self.root / path) as image:
            small = image.convert("RGBA").resize((64, 64))
        gray = Image.new("RGBA", small.size, "gray")
        pixels = np.array(Image.alpha_composite(gray, small).convert("RGB"))
        return torch.from_numpy(pixels).permute(2, 0, 1) / 255


class WhiteBehindRGBAOnly(Verified):
    def load(self, path: str) -> torch.Tensor:
        with opened(self.root / path) as image:
            if image.mode == "RGBA":
                image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
            small = image.convert("RGB").resize((64, 64))
        return torch.from_numpy(np.array(small)).permute(2, 0, 1) / 255


class WhiteBehindModesWithAlpha(Verified):
    def load(self, path: str) -> torch.Tensor:
        with opened(self.root / path) as image:
            if image.mode in ("RGBA", "LA"):
                return super().load(path)
            small = image.convert("RGB").resize((64, 64))
        return torch.from_numpy(np.array(small)).permute(2, 0, 1) / 255


class WhiteOrNot(Verified):
    """A threshold in place of blending."""

    def load(self, path: str) -> torch.Tensor:
        with opened(self.root / path) as image:
            pixels = np.array(image.convert("RGBA").resize((64, 64)))
        pixels[pixels[..., 3] < 128] = 255
        return torch.from_numpy(pixels[..., :3]).permute(2, 0, 1) / 255


class CatchesOSErrorAndBombs(Converting):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.set_aside(OSError, Image.DecompressionBombError)


class ClassFromTheFolder(Verified):
    def __getitem__(self, index: int) -> Any:
        path, _ = self.listed[index]
        return self.load(path), self.classes.index(path.partition("/")[0])


class FloatLabels(Verified):
    def __getitem__(self, index: int) -> Any:
        pixels, number = super().__getitem__(index)
        return pixels, float(number)


class FloatTensorLabels(Verified):
    def __getitem__(self, index: int) -> Any:
        pixels, number = super().__getitem__(index)
        return pixels, torch.tensor(float(number))


class LabelsInLists(Verified):
    def __getitem__(self, index: int) -> Any:
        pixels, number = super().__getitem__(index)
        return pixels, torch.tensor([number])


class RightTwice(Verified):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.times = [0] * len(self.listed)

    def __getitem__(self, index: int) -> Any:
        pixels, number = super().__getitem__(index)
        self.times[index] += 1
        return (pixels if self.times[index] < 3 else pixels * 0), number


class NoReasons(Verified):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.quarantined = dict.fromkeys(self.quarantined)  # type: ignore[arg-type]


class TensorLabels(Verified):
    def __getitem__(self, index: int) -> Any:
        pixels, number = super().__getitem__(index)
        return pixels, torch.tensor(number)


class RightOnce(Verified):
    """The second epoch is mirrored."""

    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.read: set[int] = set()

    def __getitem__(self, index: int) -> Any:
        pixels, number = super().__getitem__(index)
        if index in self.read:
            return pixels.flip(2), number
        self.read.add(index)
        return pixels, number


class WrongWithoutWorkers(Verified):
    def __getitem__(self, index: int) -> Any:
        pixels, number = super().__getitem__(index)
        return (pixels if torch.utils.data.get_worker_info() else pixels * 0), number


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


class UuidsForReasons(Verified):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.quarantined = {path: str(uuid.uuid4()) for path in self.quarantined}


class WordsThatRotate(Verified):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        words = ["gone", "broken", "large", "empty", "cut", "closed", "odd", "strange", "new"]
        self.quarantined = dict(zip(self.quarantined, words, strict=True))


class ReasonsOfTheFileBefore(Verified):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        reasons = list(self.quarantined.values())
        self.quarantined = dict(zip(self.quarantined, reasons[1:] + reasons[:1], strict=True))


class QuarantineOfTheClass(Verified):
    """Right for the first object only: the second one begins with what the first one found."""

    kept: ClassVar[dict[str, str]] = {}

    def none_yet(self) -> dict[str, str]:
        return self.kept


class CacheOfTheClass(Verified):
    """Keyed by what the list says, which is another file in another folder."""

    kept: ClassVar[dict[str, torch.Tensor]] = {}

    def load(self, path: str) -> torch.Tensor:
        if path not in self.kept:
            self.kept[path] = super().load(path)
        return self.kept[path]


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


class AddsOneMore(Verified):
    def __len__(self) -> int:
        return len(self.listed) + 1

    def __getitem__(self, index: int) -> Any:
        return (
            super().__getitem__(index) if index < len(self.listed) else (torch.ones(3, 64, 64), 0)
        )


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
        with opened(self.root / path) as image:
            small = image.resize((64, 64), Image.Resampling.BOX).convert("RGBA")
        canvas = Image.new("RGB", (64, 64), (255, 255, 255))
        canvas.paste(small, mask=small.getchannel("A"))
        return torch.from_numpy(np.array(canvas)).permute(2, 0, 1).double() / 255


class ResizesTensors(Verified):
    def load(self, path: str) -> torch.Tensor:
        with opened(self.root / path) as image:
            pixels = torch.from_numpy(np.array(image.convert("RGBA"))).permute(2, 0, 1) / 255
        color, alpha = pixels[:3], pixels[3:]
        pixels = color * alpha + 1 - alpha
        return torch.nn.functional.interpolate(pixels[None], (64, 64), mode="bilinear")[0]


class ByMode(Verified):
    """A background where there is transparency, and numpy's own numbers."""

    def load(self, path: str) -> Any:
        with opened(self.root / path) as image:
            if image.has_transparency_data:
                whole = image.convert("RGBA")
                image = Image.new("RGBA", whole.size, "white")
                image.alpha_composite(whole)
            small = image.convert("RGB").resize((64, 64), Image.Resampling.LANCZOS)
        return np.moveaxis(np.asarray(small, np.float32) / 255, -1, 0).copy()

    def __getitem__(self, index: int) -> Any:
        pixels, number = super().__getitem__(index)
        return [pixels, np.int64(number)]


class PathsForKeys(Verified):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.quarantined = {Path(path): why for path, why in self.quarantined.items()}  # type: ignore[misc]


class MoreWordsForDamage(Verified):
    """Each word for a missing file is one for a damaged file too."""

    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        for path, why in self.quarantined.items():
            words = {"FileNotFoundError": "no", "DecompressionBombError": "no: too large"}
            self.quarantined[path] = words.get(why.partition(":")[0], "no: it cannot be decoded")


class WithATrace(Verified):
    """As much as there is to say, the class and a number of its own among it."""

    def why(self, label: str, error: BaseException) -> str:
        return f"{label}, {uuid.uuid4()}: {traceback.format_exc()}"


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
    def why(self, label: str, error: BaseException) -> BaseException:
        return error


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


class WhiteBehindAlphaOrPalette(Images):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.quarantined: dict[str, str] = {}
        self.samples: list[Any] = []
        for path, label in self.listed:
            try:
                image = opened(self.root / path)
                image.load()
            except Exception as error:
                self.quarantined[path] = f"{type(error).__name__}: {error}"
                continue
            if image.mode == "P":
                image = image.convert("RGBA" if "transparency" in image.info else "RGB")
            if image.mode in ("LA", "RGBA", "PA", "La", "RGBa"):
                image = image.convert("RGBA")
                white = Image.new("RGB", image.size, (255,) * 3)
                white.paste(image, (0, 0), image)
                image = white
            small = image.convert("RGB").resize((64, 64), Image.Resampling.BICUBIC)
            self.samples.append((np.asarray(small), self.classes.index(label)))

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:
        pixels, number = self.samples[index]
        return torch.from_numpy(pixels.transpose(2, 0, 1) / np.float32(255)), number


class ClassesOfWhatIsLeft(Verified):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.classes = sorted({label for _, label in self.listed})


class TupleForAReason(Verified):
    def why(self, label: str, error: BaseException) -> Any:
        return type(error).__name__, str(error)


class DictForAReason(Verified):
    def why(self, label: str, error: BaseException) -> Any:
        return {"why": repr(error)}


class KeepsAnExecutor(Verified):
    """Its processes end with the dataset, as those of a pool."""

    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.executor = ProcessPoolExecutor(2, mp_context=get_context("fork"))
        list(self.executor.map(len, ["a", "b"]))


class KeepsALoader(Verified):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.look: DataLoader[Any] = DataLoader(
            range(len(self.listed)),  # type: ignore[arg-type]
            num_workers=2,
            persistent_workers=True,
            multiprocessing_context="fork",
        )
        list(self.look)


class Reading(SetsAside, Readings):
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


class AsGiven(Readings):
    """The starter under another name."""


class AverageForAll(Reading):
    def __getitem__(self, index: int) -> Any:
        try:
            return super().__getitem__(index)
        except Exception:
            return (super().__getitem__(2)[0] + super().__getitem__(5)[0]) / 2, 0


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


class StateNames(VerifiedReadings):
    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index)[0], self.listed[index][1]


class ZerosInCase(VerifiedReadings):
    def __getitem__(self, index: int) -> Any:
        try:
            return super().__getitem__(index)
        except OSError:
            return torch.zeros(AXES, STEPS), 0


class ZerosInValueErrors(VerifiedReadings):
    def __getitem__(self, index: int) -> Any:
        try:
            return super().__getitem__(index)
        except ValueError:
            return torch.zeros(AXES, STEPS), 0


class ZerosForAll(VerifiedReadings):
    def __getitem__(self, index: int) -> Any:
        try:
            return super().__getitem__(index)
        except Exception:
            return torch.zeros(AXES, STEPS), 0


class AsSaved(VerifiedReadings):
    def load(self, path: str) -> torch.Tensor:
        return torch.as_tensor(self.saved(path))

    def saved(self, path: str) -> Any:
        reading = np.load(self.root / path)
        if reading.shape != (AXES, STEPS):
            raise ValueError(f"shape {reading.shape}")
        return reading


class KeepsThemMapped(AsSaved):
    """As arrays of numpy, and of the file as it was when the dataset was made."""

    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.kept = [np.load(self.root / path, mmap_mode="r") for path, _ in self.listed]

    def __getitem__(self, index: int) -> Any:
        reading = self.kept[index].astype(np.float32)
        return reading, self.classes.index(self.listed[index][1])


class CutsTheSteps(VerifiedReadings):
    def load(self, path: str) -> torch.Tensor:
        reading = np.load(self.root / path)[..., :STEPS]
        if reading.shape != (AXES, STEPS):
            raise ValueError(f"shape {reading.shape}")
        return torch.from_numpy(reading).float()


class ReadingsAlone(VerifiedReadings):
    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index)[0]


class Scanned(VerifiedReadings):
    """With the lesson's own scan, in workers; `wrong` is what it says of another shape."""

    wrong = "shape {}"

    def set_aside(self, *errors: type[BaseException]) -> None:
        def scan(i: int) -> tuple[int, str]:
            try:
                shape = np.load(self.root / self.listed[i][0]).shape
                return i, "" if shape == (AXES, STEPS) else self.wrong.format(shape)
            except Exception as error:
                return i, f"{type(error).__name__}: {error}"

        everything = loader_of(range(len(self.listed)), 2, batch_size=None, collate_fn=scan)
        bad = {i: why for i, why in everything if why}
        self.quarantined = {self.listed[i][0]: why for i, why in bad.items()}
        self.listed = [item for i, item in enumerate(self.listed) if i not in bad]


class ScannedWithoutAWord(Scanned):
    wrong = "{}"


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


class ZerosSetAside(VerifiedReadings):
    def load(self, path: str) -> torch.Tensor:
        reading = super().load(path)
        if not reading.any():
            raise ValueError("zeros")
        return reading


class StillReshaped(VerifiedReadings):
    def load(self, path: str) -> torch.Tensor:
        return torch.from_numpy(np.load(self.root / path).reshape(AXES, STEPS)).float()


class AllowsPickles(VerifiedReadings):
    def load(self, path: str) -> torch.Tensor:
        reading = np.load(self.root / path, allow_pickle=True)
        if reading.shape != (AXES, STEPS):
            raise ValueError(f"shape {reading.shape}")
        return torch.from_numpy(reading).float()

    def set_aside(self, *errors: type[BaseException]) -> None:
        super().set_aside(Exception)


class Squeezes(VerifiedReadings):
    def load(self, path: str) -> torch.Tensor:
        reading = np.squeeze(np.load(self.root / path))
        if reading.shape != (AXES, STEPS):
            raise ValueError(f"shape {reading.shape}")
        return torch.from_numpy(reading).float()


class CutsToSize(VerifiedReadings):
    def load(self, path: str) -> torch.Tensor:
        reading = np.load(self.root / path)[:AXES, :STEPS]
        if reading.shape != (AXES, STEPS):
            raise ValueError(f"shape {reading.shape}")
        return torch.from_numpy(reading).float()


class ReadingClassesOfWhatIsLeft(VerifiedReadings):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.classes = sorted({label for _, label in self.listed})


class KeepsAnExecutorForReadings(VerifiedReadings):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.executor = ProcessPoolExecutor(2, mp_context=get_context("fork"))
        list(self.executor.map(len, ["a", "b"]))


class ReadingsRightTwice(VerifiedReadings):
    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.times = [0] * len(self.listed)

    def __getitem__(self, index: int) -> Any:
        reading, number = super().__getitem__(index)
        self.times[index] += 1
        return (reading if self.times[index] < 3 else reading + 1), number


WRONG_FIXES: WrongFixes = {
    "01.predict": {
        "the worker dies": (lambda: "a", "a"),
        "the image is skipped": (lambda: "c", "c"),
        "no option": (lambda: "d", "no-option"),
    },
    "01.diagnose": {
        "the number of the batch": (lambda: 2, "loads"),
        "the place within the batch": (lambda: 5, "loads"),
        "counted from 1": (lambda: 22, "fails-earlier"),
        "another bad sample": (lambda: 28, "fails-earlier"),
        "a healthy sample": (lambda: 17, "right-batch"),
        "a file name": (lambda: "circle/cut-short.jpg", "not-an-index"),
        "out of range": (lambda: 57, "fails-earlier"),
        "half of one": (lambda: 21.5, "not-an-index"),
        "from the end": (lambda: -36, "not-an-index"),
    },
    "01.fix": {
        "None for a bad image": (lambda: ReturnsNone, "wrong-kind"),
        "a black image": (lambda: ReturnsZeros, "strays-for-files"),
        "noise": (lambda: ReturnsNoise, "strays-for-files"),
        "the next image": (lambda: ReturnsTheNext, "copies"),
        "the first image": (lambda: ReturnsTheFirst, "copies"),
        "a random image": (lambda: ReturnsARandomOne, "copies"),
        "LOAD_TRUNCATED_IMAGES": (lambda: LoadsTruncated, "strays-truncated"),
        "dropped without a word": (lambda: DropsWithoutAWord, "lost"),
        "no quarantined": (lambda: KeepsNoQuarantine, "lost"),
        "a list of paths": (lambda: KeepsAListOfPaths, "lost"),
        "one reason for all": (lambda: SaysBadOfAll, "reasons-alike"),
        "empty reasons": (lambda: SaysNothing, "no-reason"),
        "what is not RGB set aside": (lambda: SetsAsideWhatIsNotRGB, "usable-set-aside"),
        "nothing converted": (lambda: ConvertsNothing, "wrong-kind"),
        "the class from the lesson": (lambda: Images, "some-raise"),
        "OSError and SyntaxError caught": (lambda: CatchesOSErrorAndSyntaxError, "raised"),
        "only UnidentifiedImageError caught": (lambda: CatchesUnidentified, "raised"),
        "opened, not loaded": (lambda: OnlyOpens, "some-raise"),
        "verify()": (lambda: OnlyVerifies, "some-raise"),
        "quarantined in the worker": (lambda: FillsItInTheWorker, "lost"),
        "__len__ too large": (lambda: CountsTooMany, "some-raise"),
        "an empty dataset": (lambda: Empty, "usable-set-aside"),
        "bytes": (lambda: Bytes, "wrong-kind"),
        "0 to 255": (lambda: NotScaled, "strays-for-files"),
        "no classes": (lambda: ImagesAlone, "wrong-kind"),
        "names of classes": (lambda: ClassNames, "wrong-kind"),
        "numbers as text": (lambda: NumbersAsText, "wrong-kind"),
        "the path as well": (lambda: WithThePath, "wrong-kind"),
        "dicts": (lambda: Dicts, "wrong-kind"),
        "labels in plain lists": (lambda: LabelsInPlainLists, "wrong-kind"),
        "numbers as text in workers": (lambda: WrongKindInWorkers, "other-samples"),
        "the neighbor, in case a file goes bad": (lambda: NeighborInCase, "later-another-file"),
        "None, in case a file goes bad": (lambda: NoneInCase, "later-wrong-kind"),
        "the neighbor of what does not load": (lambda: NextIfItDoesNotLoad, "later-another-file"),
        "black for what is no image": (lambda: BlackIfUnidentified, "later-other-values"),
        "by suffix": (lambda: BySuffix, "usable-set-aside"),
        "by suffix in any case": (lambda: BySuffixInAnyCase, "usable-set-aside"),
        "16 bits cut off": (lambda: SixteenBitsCutOff, "strays-for-files"),
        "classes in order of appearance": (lambda: ClassesAsTheyCome, "class-numbers"),
        "no __len__": (lambda: NoLength, "no-method"),
        "an error in __init__": (lambda: FailsAtOnce, "raised"),
        "num_workers=0": (lambda: WithoutWorkers, "a-loader"),
        "a function": (lambda: lambda root: Verified(root), "not-a-class"),
        "a wait in __init__": (lambda: WaitsInInit, "not-ready"),
        "a wait in a worker": (lambda: WaitsInAWorker, "hung"),
        "palette indices as gray": (lambda: PaletteIndicesAsGray, "strays-for-files"),
        "all in gray": (lambda: AllInGray, "strays-for-files"),
        "the bad files deleted": (lambda: DeletesTheFiles, "changed-odd-file"),
        "the list rewritten": (lambda: RewritesTheList, "changed"),
        "processes left behind": (lambda: LeavesProcesses, "still-running"),
        "the file's name for a reason": (lambda: NamesTheFileAgain, "reasons-alike"),
        "numbers for reasons": (lambda: Numbers, "reason-without-words"),
        "one reason for missing and damaged": (lambda: SameForMissingAndDamaged, "reasons-alike"),
        "uuids for reasons": (lambda: UuidsForReasons, "reason-without-words"),
        "words that rotate": (lambda: WordsThatRotate, "reasons-alike"),
        "the reason of another file": (lambda: ReasonsOfTheFileBefore, "reasons-alike"),
        "a quarantine of the class": (lambda: QuarantineOfTheClass, "second-folder"),
        "a cache of the class": (lambda: CacheOfTheClass, "second-folder"),
        "whole paths": (lambda: WholePaths, "unknown-keys"),
        "a slip in load": (lambda: SlipInLoad, "usable-set-aside"),
        "a switch that forbids all": (lambda: OnlyTheSmallestPixels, "usable-set-aside"),
        "the epoch ended by hand": (lambda: EndsTheEpoch, "some-raise"),
        "one more image": (lambda: AddsOneMore, "strays"),
        "wrong in a fourth worker": (lambda: WrongInTheFourthWorker, "second-folder"),
        "an exit in __init__": (lambda: ExitsInInit, "raised"),
        "an end of main": (lambda: EndsMain, "process-ended"),
        "a worker killed": (lambda: KillsItsWorker, "worker-died"),
        "moved": (lambda: MovesTheFiles, "changed-odd-file"),
        "alpha thrown away": (lambda: ThrowsAlphaAway, "strays-for-files"),
        "on gray": (lambda: GrayBackground, "strays-for-files"),
        "white behind RGBA alone": (lambda: WhiteBehindRGBAOnly, "strays-for-files"),
        "transparent or not": (lambda: WhiteOrNot, "strays-for-files"),
        "OSError and bombs caught": (lambda: CatchesOSErrorAndBombs, "raised"),
        "class from the folder": (lambda: ClassFromTheFolder, "all-raise"),
        "labels as floats": (lambda: FloatLabels, "wrong-kind"),
        "labels as tensors of floats": (lambda: FloatTensorLabels, "wrong-kind"),
        "labels in lists": (lambda: LabelsInLists, "wrong-kind"),
        "right twice": (lambda: RightTwice, "other-samples"),
        "None for reasons": (lambda: NoReasons, "no-reason"),
        "right once": (lambda: RightOnce, "other-samples"),
        "right in workers only": (lambda: WrongWithoutWorkers, "strays-for-files"),
        "an object": (lambda: Verified(shared_images()), "an-object"),
        "classes of what is left": (lambda: ClassesOfWhatIsLeft, "class-numbers"),
        "end marker and verify()": (lambda: ChecksEndsAndVerifies, "usable-set-aside"),
        "black images for missing ones": (lambda: WritesBlackImages, "changed-odd-file"),
    },
    "01.transfer": {
        "None for a bad reading": (lambda: ReadingOrNone, "wrong-kind"),
        "print, and zeros": (lambda: PrintsAndReturnsZeros, "copies"),
        "zeros, as given": (lambda: AsGiven, "copies"),
        "an average": (lambda: AverageForAll, "strays-for-files"),
        "padded": (lambda: Padded, "strays-for-files"),
        "the next reading": (lambda: NextReading, "copies"),
        "no try": (lambda: Reading, "some-raise"),
        "names of states": (lambda: StateNames, "wrong-kind"),
        "zeros, in case a file goes bad": (lambda: ZerosInCase, "later-another-file"),
        "zeros, whatever happens later": (lambda: ZerosForAll, "later-another-file"),
        "zeros for what is cut short": (lambda: ZerosInValueErrors, "later-another-file"),
        "each in its own precision": (lambda: AsSaved, "mixed-dtypes"),
        "the steps cut off": (lambda: CutsTheSteps, "strays-for-files"),
        "no states": (lambda: ReadingsAlone, "wrong-kind"),
        "bare shapes for reasons": (lambda: ScannedWithoutAWord, "reason-without-words"),
        "any shape": (lambda: AnyShape, "wrong-kind"),
        "only OSError caught": (lambda: CatchesOSErrorOnly, "raised"),
        "double precision set aside": (lambda: SinglePrecisionOnly, "usable-set-aside"),
        "dropped without a word": (lambda: LosesReadings, "lost"),
        "zeros set aside": (lambda: ZerosSetAside, "usable-set-aside"),
        "still reshaped": (lambda: StillReshaped, "strays-for-files"),
        "right twice": (lambda: ReadingsRightTwice, "other-samples"),
        "the bad files deleted": (lambda: DeletesReadings, "changed-odd-file"),
        "the file's name for a reason": (lambda: BadReading, "reasons-alike"),
        "pickles allowed": (lambda: AllowsPickles, "changed-odd-file"),
        "squeezed": (lambda: Squeezes, "strays-for-files"),
        "cut to size": (lambda: CutsToSize, "strays-for-files"),
        "classes of what is left": (lambda: ReadingClassesOfWhatIsLeft, "class-numbers"),
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
        "by mode, with numpy": lambda: ByMode,
        "paths for keys": lambda: PathsForKeys,
        "types for reasons": lambda: TypesForReasons,
        "reasons in own words": lambda: OwnWords,
        "more words for damage": lambda: MoreWordsForDamage,
        "a trace for a reason": lambda: WithATrace,
        "errors for reasons": lambda: KeepsTheErrors,
        "labels as tensors": lambda: TensorLabels,
        "all loaded early": lambda: LoadsEarly,
        "looked at in parallel": lambda: LooksInParallel,
        "the package's own": lambda: VerifiedImages,
        "a tuple for a reason": lambda: TupleForAReason,
        "a dict for a reason": lambda: DictForAReason,
        "white behind what has an alpha channel": lambda: WhiteBehindModesWithAlpha,
        "white behind alpha or a palette, kept": lambda: WhiteBehindAlphaOrPalette,
        "an executor as long as the dataset": lambda: KeepsAnExecutor,
        "persistent workers as long as the dataset": lambda: KeepsALoader,
    },
    "01.transfer": {
        "looked at once": lambda: VerifiedReadings,
        "in double precision": lambda: EachKindByName,
        "the lesson's scan": lambda: Scanned,
        "all kept mapped": lambda: KeepsThemMapped,
        "an executor as long as the dataset": lambda: KeepsAnExecutorForReadings,
    },
}

OTHER_OUTCOMES: OtherOutcomes = {
    "01.predict": {"nothing": (lambda: ..., "Not attempted", "no-letter")},
    "01.diagnose": {"nothing": (lambda: None, "Not attempted", "no-index")},
    "01.fix": {"the starter": (lambda: StartImages, "Not attempted", "starter-class")},
    "01.transfer": {"the starter": (lambda: Readings, "Not attempted", "starter-class")},
}
