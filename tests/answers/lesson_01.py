"""Define right and wrong answers to the exercises of lesson 01."""

from __future__ import annotations

import csv
import io
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from PIL import Image, ImageFile, UnidentifiedImageError

from answers import RightAnswers, WrongFixes, after_init, delivering, like, setting
from dltutor.failures.corrupt_images import Images, VerifiedImages, load_on_white
from dltutor.lessons.lesson_01.helpers import loader_of
from dltutor.lessons.lesson_01.transfer import Readings

AXES, STEPS = 3, 128


class SetsAside:
    """A mixin whose `__init__` tries every listed file, and sets aside the bad ones.

    A file is bad if `trial`, which calls `load` by default, raises an error listed in `catches`.
    """

    root: Path
    listed: list[tuple[str, str]]
    classes: list[str]
    # If this tuple is empty, `__init__` doesn't load any file.
    catches: tuple[type[BaseException], ...] = (Exception,)

    def __init__(self, root: str | Path) -> None:
        super().__init__(root)  # type: ignore[call-arg]
        found = self.found() if self.catches else {}
        self.listed = [entry for entry in self.listed if entry[0] not in found]
        self.quarantined: Any = self.reasons(found)

    def found(self) -> dict[str, Any]:
        found = {}
        for path, _ in self.listed:
            try:
                self.trial(path)
            except self.catches as error:
                found[path] = self.why(error)
        return found

    def trial(self, path: str) -> Any:
        self.load(path)

    def why(self, error: BaseException) -> Any:
        return f"{type(error).__name__}: {error}"

    def reasons(self, found: dict[str, Any]) -> Any:
        return found

    def load(self, path: str) -> Any:
        raise NotImplementedError

    def __getitem__(self, index: int) -> Any:
        path, label = self.listed[index]
        return self.load(path), self.classes.index(label)


class Verified(SetsAside, Images):
    """A right answer to "01.fix", which sets aside every file that `load_on_white` can't load."""

    def load(self, path: str) -> Any:
        return load_on_white(self.root / path)


class Converting(Verified):
    """A base class of wrong answers. It sets no file aside, so a bad file raises in an epoch."""

    catches = ()


def returning_instead(
    base: type, instead: Callable[[Any, int], Any], error: type[Exception] = Exception
) -> Any:
    """Make a subclass that returns `instead(self, index)` if `base.__getitem__` raises `error`."""

    def get(self: Any, index: int) -> Any:
        try:
            return base.__getitem__(self, index)  # type: ignore[attr-defined]
        except error:
            return instead(self, index)

    return like(base, __getitem__=get)


def the_next(self: Any, index: int) -> Any:
    return self[(index + 1) % len(self)]


def a_none(self: Any, index: int) -> Any:
    return None, None


def zeros(self: Any, index: int) -> Any:
    print("zeros for sample", index)
    return torch.zeros(3, *((64, 64) if isinstance(self, Images) else (STEPS,))), 0


def in_words(others: str, **words: str) -> Callable[[Any, dict[str, str]], dict[str, str]]:
    """Return a `reasons` method that takes a file's reason from `words`, by its error's type.

    The reason is `others` if `words` doesn't have the type.
    """
    return lambda self, found: {
        path: words.get(why.partition(":")[0], others) for path, why in found.items()
    }


def pixels_of(image: Image.Image) -> torch.Tensor:
    return torch.from_numpy(np.array(image)).permute(2, 0, 1) / 255


def opened(file: Any) -> Image.Image:
    """Open an image, or raise ValueError if it has more than 8 bits per channel."""
    image = Image.open(file)
    if image.mode[0] in "IF":
        raise ValueError("16 bits")
    return image


# Wrong answers to "01.fix"


class LoadsTruncated(Verified):
    def __init__(self, root: str | Path) -> None:
        ImageFile.LOAD_TRUNCATED_IMAGES = True
        super().__init__(root)


class SetsAsideWhatIsNotRGB(Verified):
    def load(self, path: str) -> Any:
        with opened(self.root / path) as image:
            if image.mode != "RGB":
                raise OSError(f"mode {image.mode}")
        return super().load(path)


class OnlyVerifies(Verified):
    def trial(self, path: str) -> Any:
        with Image.open(self.root / path) as image:
            image.verify()


class ChecksEndsAndVerifies(Verified):
    """The usual answer from the web. Wrong, because it sets aside a JPEG with bytes after its end.

    Its check doesn't decode any pixels either.
    """

    def trial(self, path: str) -> Any:
        data = (self.root / path).read_bytes()
        if path.endswith(".jpg") and not data.endswith(b"\xff\xd9"):
            raise ValueError("cut")
        opened(io.BytesIO(data)).verify()


class AddsOneMore(Verified):
    def __len__(self) -> int:
        return len(self.listed) + 1

    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index) if index < len(self.listed) else zeros(self, index)


class SixteenBitsCutOff(Verified):
    def load(self, path: str) -> Any:
        with Image.open(self.root / path) as image:
            if image.mode[0] in "IF":
                return pixels_of(image.convert("RGB").resize((64, 64)))
        return super().load(path)


class ThrowsAlphaAway(Verified):
    def load(self, path: str) -> Any:
        with opened(self.root / path) as image:
            return pixels_of(image.convert("RGB").resize((64, 64)))


class RightOnce(Verified):
    """Wrong, because in each process, it returns an image correctly once, and then mirrored."""

    def __init__(self, root: str | Path) -> None:
        super().__init__(root)
        self.read: set[int] = set()

    def __getitem__(self, index: int) -> Any:
        pixels, number = super().__getitem__(index)
        if index in self.read:
            return pixels.flip(2), number
        self.read.add(index)
        return pixels, number


class QuarantineOfTheClass(Verified):
    """Wrong, because all datasets share one `quarantined`, so only the first dataset is right."""

    kept: ClassVar[dict[str, Any]] = {}

    def reasons(self, found: dict[str, Any]) -> Any:
        self.kept.update(found)
        return self.kept


def delete_the_files(self: Any) -> None:
    for path in self.quarantined:
        if (self.root / path).is_file():
            (self.root / path).unlink()


def rewrite_the_list(self: Any) -> None:
    with (self.root / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows(self.listed)


# Right answers to "01.fix"


class ResizesTensors(Verified):
    def load(self, path: str) -> Any:
        with opened(self.root / path) as image:
            pixels = pixels_of(image.convert("RGBA"))
        color, alpha = pixels[:3], pixels[3:]
        pixels = color * alpha + 1 - alpha
        return torch.nn.functional.interpolate(pixels[None], (64, 64), mode="bilinear")[0]


class ByMode(Verified):
    """Right: adds a background only to images with transparency.

    A sample is a list of a numpy array and an `np.int64`.
    """

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


# Answers to "01.transfer"


class VerifiedReadings(SetsAside, Readings):
    """A right answer to "01.transfer", which sets aside files with no array of the right shape."""

    catches = (OSError, EOFError, ValueError)

    def load(self, path: str) -> Any:
        return torch.from_numpy(self.checked(self.read(path))).float()

    def read(self, path: str) -> Any:
        return np.load(self.root / path)

    def checked(self, reading: Any) -> Any:
        if reading.shape != (AXES, STEPS):
            raise ValueError(f"shape {reading.shape}")
        return reading


class ReadingOrAnError(VerifiedReadings):
    catches = ()


class Scanned(VerifiedReadings):
    """Right: scans the files in two workers, as the lesson does."""

    def found(self) -> dict[str, Any]:
        def scan(i: int) -> tuple[int, str]:
            try:
                self.load(self.listed[i][0])
                return i, ""
            except Exception as error:
                return i, self.why(error)

        everything = loader_of(range(len(self.listed)), 2, batch_size=None, collate_fn=scan)
        return {self.listed[i][0]: why for i, why in everything if why}


class Padded(VerifiedReadings):
    def load(self, path: str) -> Any:
        reading = np.load(self.root / path)
        whole = np.zeros((AXES, STEPS), np.float32)
        whole[: reading.shape[0], : reading.shape[1]] = reading
        return torch.from_numpy(whole)


class ZerosSetAside(VerifiedReadings):
    def checked(self, reading: Any) -> Any:
        if not reading.any():
            raise ValueError("zeros")
        return super().checked(reading)


class AllowsPickles(VerifiedReadings):
    catches = (Exception,)

    def read(self, path: str) -> Any:
        return np.load(self.root / path, allow_pickle=True)


WRONG_FIXES: WrongFixes = {
    "01.diagnose": {
        "the number of the batch": (2, "loads"),
        "counted from 1": (22, "fails-earlier"),
        "a healthy sample": (17, "right-batch"),
        "a file name": ("circle/cut-short.jpg", "not-a-number"),
    },
    "01.fix": {
        "None for a bad image": (returning_instead(Converting, a_none), "wrong-kind"),
        "a black image": (returning_instead(Converting, zeros), "strays-for-files"),
        "the next image": (returning_instead(Converting, the_next), "copies"),
        "LOAD_TRUNCATED_IMAGES": (LoadsTruncated, "strays-truncated"),
        "dropped without a word": (like(Verified, reasons=lambda self, found: {}), "lost"),
        "one reason for missing and damaged": (
            like(Verified, reasons=in_words("cannot be read", DecompressionBombError="too large")),
            "reasons-alike",
        ),
        "None for reasons": (like(Verified, why=lambda self, error: None), "no-reason"),
        "whole paths": (
            like(
                Verified,
                reasons=lambda self, found: {str(self.root / path): found[path] for path in found},
            ),
            "unknown-keys",
        ),
        "what is not RGB set aside": (SetsAsideWhatIsNotRGB, "usable-set-aside"),
        "OSError and SyntaxError caught": (
            like(Verified, catches=(OSError, SyntaxError)),
            "raised",
        ),
        "verify()": (OnlyVerifies, "some-raise"),
        "end marker and verify()": (ChecksEndsAndVerifies, "usable-set-aside"),
        "one more image": (AddsOneMore, "strays"),
        "a slip": (like(Verified, __getitem__=lambda self, index: self.list[index]), "all-raise"),
        "names of classes": (
            like(
                Verified,
                __getitem__=lambda self, index: (
                    Verified.__getitem__(self, index)[0],
                    self.listed[index][1],
                ),
            ),
            "wrong-kind",
        ),
        "the neighbor, in case a file goes bad": (
            returning_instead(Verified, the_next),
            "later-another-file",
        ),
        "None, in case a file goes bad": (returning_instead(Verified, a_none), "later-wrong-kind"),
        "black for what is no image": (
            returning_instead(Verified, zeros, UnidentifiedImageError),
            "later-other-values",
        ),
        "16 bits cut off": (SixteenBitsCutOff, "strays-for-files"),
        "alpha thrown away": (ThrowsAlphaAway, "strays-for-files"),
        "classes of what is left": (
            setting(Verified, classes=lambda self: sorted({label for _, label in self.listed})),
            "class-numbers",
        ),
        "the bad files deleted": (after_init(Verified, delete_the_files), "changed-odd-file"),
        "the list rewritten": (after_init(Verified, rewrite_the_list), "changed"),
        "processes left behind": (
            after_init(Verified, lambda self: subprocess.Popen(["sleep", "600"])),
            "still-running",
        ),
        "a quarantine of the class": (QuarantineOfTheClass, "second-folder"),
        "right once": (RightOnce, "other-samples"),
    },
    "01.transfer": {
        "zeros": (returning_instead(ReadingOrAnError, zeros), "copies"),
        "no try": (ReadingOrAnError, "some-raise"),
        "padded": (Padded, "strays-for-files"),
        "each in its own precision": (
            like(
                VerifiedReadings,
                load=lambda self, path: torch.as_tensor(self.checked(self.read(path))),
            ),
            "mixed-dtypes",
        ),
        "bare shapes for reasons": (
            like(VerifiedReadings, why=lambda self, error: str(error).removeprefix("shape ")),
            "reason-without-words",
        ),
        "any shape": (like(VerifiedReadings, checked=lambda self, reading: reading), "wrong-kind"),
        "only OSError caught": (like(VerifiedReadings, catches=(OSError,)), "raised"),
        "zeros set aside": (ZerosSetAside, "usable-set-aside"),
        "pickles allowed": (AllowsPickles, "changed-odd-file"),
    },
}

RIGHT_ANSWERS: RightAnswers = {
    "01.diagnose": {"an int": 21},
    "01.fix": {
        "looked at once": Verified,
        "resized as a tensor": ResizesTensors,
        "by mode, with numpy": ByMode,
        "paths for keys": like(
            Verified, reasons=lambda self, found: {Path(path): found[path] for path in found}
        ),
        "reasons in own words": like(
            Verified,
            reasons=in_words(
                "no: it cannot be decoded",
                FileNotFoundError="no",
                DecompressionBombError="no: too large",
            ),
        ),
        "errors for reasons": like(Verified, why=lambda self, error: error),
        "labels as tensors": delivering(
            Verified, lambda sample: (sample[0], torch.tensor(sample[1]))
        ),
        "the package's own": VerifiedImages,
    },
    "01.transfer": {
        "looked at once": VerifiedReadings,
        "in double precision": like(
            VerifiedReadings, load=lambda self, path: VerifiedReadings.load(self, path).double()
        ),
        "the lesson's scan": Scanned,
    },
}
