"""Grade "01.fix": every usable image arrives as what it is, and the rest is accounted for."""

from __future__ import annotations

import os
import re
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any, Final

import numpy as np
import torch
from PIL import Image, ImageFile, ImageOps

from dltutor.failures.corrupt_images import VerifiedImages, load_on_white
from dltutor.failures.material.images import make_images
from dltutor.lessons.kit.endings import Ending, ended_well, run_loader, where
from dltutor.lessons.kit.exercise import Grader
from dltutor.lessons.kit.forms import a_fixed_class, whole_number
from dltutor.lessons.kit.outcomes import Rejected, Result, correct, error_in_your_code, not_yet
from dltutor.lessons.kit.running import failed_in_main, made, theirs
from dltutor.lessons.lesson_01.material import Listed, StartImages, Values, read_list, write_list
from dltutor.observation.time_limits import deadline

_SECONDS: Final = 6  # for making the dataset, for reading it, and for a run of the loader
RUNS: Final = "makes your class on a fresh folder and runs it with 0, 2 and 4 workers"
AT_MOST: Final = 7 * _SECONDS + 2

# Ways to make an image smaller differ by 0.03 on average, palette indices as gray by 0.38.
_TOLERANCE: Final = 0.04

# The name that make_images gives -> what is odd about the file, and why it cannot be used.
_KINDS: Final = {
    "cut-short.png": ("a PNG cut short", "damaged"),
    "cut-short.jpg": ("a JPEG cut short", "damaged"),
    "empty.jpg": ("an empty file", "damaged"),
    "web-page.jpg": ("a web page named .jpg", "damaged"),
    "deleted.jpg": ("a file deleted since it was listed", "missing"),
    "no-permission.jpg": ("a file that may not be read", "closed"),
    "bomb.png": ("a header that promises 400 million pixels", "too large"),
    "gray.jpg": ("a gray image", ""),
    "palette.png": ("an image with a palette", ""),
    "transparent.png": ("an image with transparency", ""),
}


def _fade(file: Path) -> None:
    image = ImageOps.invert(Image.open(file).convert("L"))
    image.putalpha(Image.linear_gradient("L").resize(image.size))
    image.save(file)


def _cut_out(file: Path) -> None:
    image = Image.open(file).convert("L").point([0] * 128 + list(range(128, 256))).convert("P")
    image.save(file, transparency=0)


def _break_a_chunk(file: Path) -> None:
    Image.effect_noise((400, 400), 90).save(file)  # enough for two chunks of pixels
    file.write_bytes(b"\0DAT".join(file.read_bytes().rsplit(b"IDAT", 1)))


# A healthy PNG -> how it is changed, what is odd about it then, and why it cannot be used.
_SPOILT_HERE: Final[dict[str, tuple[Callable[[Path], None], str, str]]] = {
    "circle/003.png": (_fade, "a gray image with transparency", ""),
    "square/003.png": (_cut_out, "a palette image with transparency", ""),
    "triangle/003.png": (_break_a_chunk, "a PNG with a broken chunk", "damaged"),
}


@dataclass(frozen=True)
class Folder:
    """A folder for an answer: what it lists, and by path what is odd about a file (in words), why
    it cannot be used ("missing", "too large", "damaged", "closed"), what a usable one holds.
    """

    listed: Listed
    odd: dict[str, str]
    causes: dict[str, str]
    root: Path = Path()
    contents: dict[str, Values] = field(default_factory=dict)


@dataclass(frozen=True)
class Evidence:
    """What an answer makes of a folder.

    Args:
        folder: The folder.
        right: What a sample has to be, in words.
        changed: What was listed and is no longer as it was; "labels.csv" too.
        quarantined: Its keys and values as texts, the folder as "root"; its type if it is no dict.
        filled_late: Whether it was another one when the samples had been read.
        kinds: What `dataset[i]` gives, in words -> for how many samples.
        error: The first exception among them, with its place, or "".
        samples: File and class number of each; the file is "" where no usable one holds that.
        strays: The lowest and the highest value of those.
        runs: Workers -> how the loader's run ended, and whether it brought the same samples.
        loads_truncated: Whether Pillow's switch of that name is on.
    """

    folder: Folder
    right: str
    changed: tuple[str, ...] = ()
    quarantined: dict[str, str] | str = "NoneType"
    filled_late: bool = False
    kinds: dict[str, int] = field(default_factory=dict)
    error: str = ""
    samples: tuple[tuple[str, int], ...] = ()
    strays: tuple[float, float] = (0, 0)
    runs: dict[int, tuple[Ending, bool]] = field(default_factory=dict)
    loads_truncated: bool = False


def gather(answer: type, fresh: Callable[[Path], Folder]) -> Evidence:
    """Make the dataset on a fresh folder, take its samples one by one, then run it in loaders."""
    folder = fresh(Path(tempfile.mkdtemp()))
    right = f"(floats {next(iter(folder.contents.values())).shape}, int)"

    def make() -> Any:
        return made(answer, folder.root, call=f"{answer.__name__}(root)", within=_SECONDS)

    before = _stamps(folder)
    dataset = make()
    quarantined = _quarantined(dataset, folder)
    kinds: Counter[str] = Counter()
    samples: list[tuple[str, int]] = []
    strays: list[float] = []
    error = ""
    with theirs(), deadline(_SECONDS):
        for index in range(len(dataset)):
            try:
                sample = dataset[index]
            except Exception as raised:
                error = error or failed_in_main(raised).text
                kinds[f"{type(raised).__name__} raised"] += 1
                continue
            kinds[kind := _kind(sample)] += 1
            if kind == right:
                values = torch.as_tensor(sample[0]).detach().float().numpy()
                samples.append((_file_of(values, folder), int(sample[1])))
                strays += () if samples[-1][0] else (float(values.min()), float(values.max()))
    evidence = Evidence(
        folder,
        right,
        _changed(before, folder),
        quarantined,
        _quarantined(dataset, folder) != quarantined,
        dict(kinds.most_common()),
        error,
        tuple(samples),
        (min(strays), max(strays)) if strays else (0, 0),
        loads_truncated=ImageFile.LOAD_TRUNCATED_IMAGES,
    )
    for workers, epochs in ((0, 2), (2, 1), (4, 1)):
        try:
            judge(evidence)
        except Rejected:  # a run would bring nothing that is told
            break
        run, came = _run(make() if workers else dataset, workers, epochs, folder)
        runs = evidence.runs | {workers: (run, came == samples * epochs)}
        evidence = replace(evidence, runs=runs, changed=_changed(before, folder))
    return evidence


def _changed(before: dict[str, object], folder: Folder) -> tuple[str, ...]:
    return tuple(path for path, stamp in _stamps(folder).items() if stamp != before[path])


def _stamps(folder: Folder) -> dict[str, object]:
    files = {path: folder.root / path for path in ("labels.csv", *dict(folder.listed))}
    return {path: file.exists() and file.stat().st_ctime_ns for path, file in files.items()}


def _quarantined(dataset: Any, folder: Folder) -> dict[str, str] | str:
    def text(thing: object) -> str:
        return str(thing).replace(str(folder.root), "root").strip()

    with theirs():
        kept = getattr(dataset, "quarantined", None)
        if not isinstance(kept, dict):
            return type(kept).__name__
        keys = [text(key) if isinstance(key, (str, PurePath)) else repr(key) for key in kept]
        return dict(zip(keys, [text(why or "") for why in kept.values()], strict=True))


def _kind(thing: Any) -> str:
    if isinstance(thing, (tuple, list)):
        return f"({', '.join(map(_kind, thing))})"
    floats = "float" in str(getattr(thing, "dtype", type(thing)))
    whole = not floats and not isinstance(thing, str) and whole_number(thing) is not None
    if whole and np.ndim(thing) == 0:
        return "int"
    if isinstance(thing, (torch.Tensor, np.ndarray)):
        dtype = str(thing.dtype).removeprefix("torch.")
        return f"{'floats' if 'float' in dtype else dtype} {tuple(thing.shape)}"
    return type(thing).__name__


def _file_of(values: Any, folder: Folder) -> str:
    for path, held in folder.contents.items():
        if held.shape == values.shape and float(np.abs(held - values).mean()) <= _TOLERANCE:
            return path
    return ""


def _run(
    dataset: Any, workers: int, epochs: int, folder: Folder
) -> tuple[Ending, list[tuple[str, int]]]:
    came: list[tuple[str, int]] = []

    def take(loader: Any) -> None:
        for batch, numbers in loader:
            files = [_file_of(values, folder) for values in batch.detach().numpy()]
            came.extend(zip(files, numbers.tolist(), strict=True))

    run = run_loader(dataset, take, workers=workers, within=_SECONDS, epochs=epochs, batch_size=4)
    return run, came


def judge(evidence: Evidence) -> Result:
    """Correct if every file that can be used came, and nothing else did."""
    folder, named = evidence.folder, evidence.quarantined
    class_of = dict(folder.listed)
    if evidence.changed:
        not_yet(
            f"`{evidence.changed[0]}` in the folder is no longer as it was; "
            f"{len(evidence.changed)} changed in all. Who looks into it later needs the files."
        )
    kinds = ", ".join(f"{count} x {kind}" for kind, count in evidence.kinds.items())
    if evidence.error and len(evidence.kinds) == 1:
        error_in_your_code(f"{evidence.error} So it is with every sample: {kinds}.")
    if evidence.error or len(evidence.kinds) > 1:
        not_yet(
            f"your dataset's samples, taken one by one, are of several kinds: {kinds}. "
            + (f"The first error: {evidence.error} " if evidence.error else "")
            + "Which samples are those, and what becomes of a batch with one of them?"
        )
    if evidence.kinds.keys() - {evidence.right}:
        not_yet(f"a sample has to be {evidence.right}. Yours: {kinds}.")
    if isinstance(named, dict) and (good := class_of.keys() & named.keys() - folder.causes.keys()):
        path = min(good, key=lambda path: (path not in folder.odd, path))
        not_yet(
            f"{len(good)} of the {len(named)} files in `quarantined` can be used, such as "
            f"`{path}`, {folder.odd.get(path, 'a healthy file')}. Your class gives the reason "
            f"`{named[path]:.90}`. Is that the file's fault?"
        )
    _are_the_files(evidence)
    if not isinstance(named, dict):
        what = "there is none" if named == "NoneType" else f"it is a {named}"
        not_yet(f"`quarantined` has to be a dict, from path to reason, and {what}.")
    if unknown := sorted(named.keys() - class_of.keys()):
        not_yet(
            f"{len(unknown)} keys of `quarantined` are not in `labels.csv`, such as "
            f"`{unknown[0]}`. How does the list write that path?"
        )
    if lost := class_of.keys() - {file for file, _ in evidence.samples} - named.keys():
        not_yet(
            f"of {len(class_of)} files, {len(lost)} neither arrive nor are in `quarantined` when "
            f"the dataset is made, such as {folder.odd.get(min(lost), min(lost))}."
            + (" It is filled later, as samples are read." if evidence.filled_late else "")
        )
    _reasons_tell(folder, named)
    for workers, (run, same) in evidence.runs.items():
        ended_well(run, where(workers))
        if not same:
            not_yet(f"{where(workers)}, the loader brings other samples than `dataset[i]` gave.")
    return correct(
        f"{len(class_of) - len(named)} of {len(class_of)} files can be used, and each arrives "
        f"once, with 0, 2 and 4 workers. The other {len(named)} are in `quarantined`, each with "
        "its reason."
    )


def _are_the_files(evidence: Evidence) -> None:
    folder, samples = evidence.folder, evidence.samples
    count = Counter(file for file, _ in samples)
    if strays := count.pop("", 0):
        absent = folder.odd.keys() - folder.causes.keys() - count.keys()
        kinds = " or ".join(sorted(folder.odd[path] for path in absent))
        low, high = evidence.strays
        not_yet(
            f"{strays} of {len(samples)} samples have values that no usable file holds, from "
            f"{low:.3g} to {high:.3g}."
            + (f" No sample has those of {kinds}." if kinds else "")
            + (" `ImageFile.LOAD_TRUNCATED_IMAGES` is on." if evidence.loads_truncated else "")
            + " Where do they come from?"
        )
    for path, times in count.most_common(1):
        if times > 1:
            not_yet(
                f"{len(samples)} samples arrive, and only {len(count)} different ones: `{path}`, "
                f"{folder.odd.get(path, 'a healthy file')}, came {times} times. Whose place did it "
                "take?"
            )
    class_of = dict(folder.listed)
    classes = sorted(set(class_of.values()))
    if wrong := sum(classes.index(class_of[file]) != number for file, number in samples):
        not_yet(
            f"{wrong} of {len(samples)} samples arrive with another class number than `labels.csv` "
            "gives them. Numbers follow the sorted names of the classes."
        )


def _reasons_tell(folder: Folder, said: dict[str, str]) -> None:
    seen: dict[str, tuple[str, str]] = {}  # reason -> cause, and the first file that has it
    for path, why in said.items():
        # Without the file's own name and without numbers, which say nothing of what is wrong.
        for part in (f"root/{path}", path, *PurePath(path).parts, PurePath(path).stem):
            why = why.replace(part, " ")
        bare = " ".join(re.sub(r"[\d\W_]+", " ", why.lower()).split())
        if not bare:
            what = repr(said[path][:80]) if said[path] else "missing"
            not_yet(f"the reason for `{path}` is {what}. What did loading it say?")
        cause, first = seen.setdefault(bare, (folder.causes[path], path))
        if cause != folder.causes[path] and "closed" not in (cause, folder.causes[path]):
            not_yet(
                f"`{first}` is {cause} and `{path}` is {folder.causes[path]}, and `quarantined` "
                f"says the same of both, paths and numbers aside: `{said[path]:.80}`. What did "
                "loading them say?"
            )


def fresh_images(root: Path) -> Folder:
    """Fill an empty folder with images of other contents, order and names than the lesson's."""
    make_images(root, per_class=10, seed=52)
    odd: dict[str, str] = {}
    causes: dict[str, str] = {}
    listed: Listed = []
    for path, (spoil, odd[path], causes[path]) in _SPOILT_HERE.items():
        spoil(root / path)
    for path, label in read_list(root):
        name = path.rpartition("/")[2]
        if name in _KINDS:  # named like all the others: an answer has to look into the files
            old, path = root / path, f"{label}/{100 + len(odd)}{Path(name).suffix}"
            if old.exists():
                old.rename(root / path)
            odd[path], causes[path] = _KINDS[name]
            if name == "no-permission.jpg" and os.access(root / path, os.R_OK):
                (root / path).unlink()  # root may read every file, and no folder
                (root / path).mkdir()
        label = "square" if path == "circle/000.jpg" else label  # the list decides, not the folder
        listed.append((path, label))
    write_list(root, listed)
    causes = {path: cause for path, cause in causes.items() if cause}
    usable = [path for path, _ in listed if path not in causes]
    contents = {path: load_on_white(root / path).numpy() for path in usable}
    return Folder(listed, odd, causes, root, contents)


def _look(answer: Any) -> type:
    fixed = a_fixed_class(answer, StartImages)
    if issubclass(fixed, VerifiedImages):
        not_yet("`VerifiedImages` is the package's own, and known to work. Write yours without it.")
    return fixed


GRADER: Final = Grader(
    gather=lambda answer: gather(answer, fresh_images),
    judge=judge,
    look=_look,
    runs=RUNS,
    at_most=AT_MOST,
)
