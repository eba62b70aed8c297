"""Incident "video": a decoder that dies of some clips, and takes its worker with it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch.utils.data import DataLoader

from dltutor.lessons.kit.endings import Ending, ended_well, ending, where
from dltutor.lessons.kit.forms import shown
from dltutor.lessons.kit.outcomes import not_yet
from dltutor.lessons.kit.running import changed, contents, made
from dltutor.lessons.lesson_14.scene import Cause, Incident, grader
from dltutor.observation import observe

_CLIPS, _FRAMES, _SIDE, _KINDS = 24, 8, 16, 4
_DEADLY: Final = 2  # of the clips
_EPOCHS: Final = 2
_WORKERS: Final = (2, 0, 4)
_WITHIN: Final = 20  # seconds for making a loader, and for its epochs


def make_data(folder: Path, seed: int) -> None:
    """Clips of noise around a level of their own; some with a bad pointer, one that is no clip."""
    random = np.random.default_rng(seed)
    clips = folder / "clips"
    clips.mkdir()
    bad = random.permutation(_CLIPS)[: _DEADLY + 1].tolist()
    for number in range(_CLIPS):
        label = number % _KINDS
        noise = random.integers(60 * label, 60 * label + 60, (_FRAMES, _SIDE, _SIDE))
        magic = b"TEXT" if number == bad[-1] else b"CLIP"
        offset = 1 if number in bad[:-1] else 0
        header = magic + (8 + (offset << 30)).to_bytes(4, "little")
        path = clips / f"{label}-{random.integers(10**6):06}-{number:02}.clip"
        path.write_bytes(header + noise.astype(np.uint8).tobytes())


INCIDENT: Final = Incident(
    name="video",
    title="The job dies at another step each night",
    causes=(
        Cause(
            names=("dead_worker",),
            places=("decode", "__getitem__", "Clips", "codec"),
            shortest="`observe(loader)`, which names the signal; then each clip in a process of "
            "its own, and its exit code.",
        ),
    ),
    make_data=make_data,
)


@dataclass(frozen=True)
class Ran:
    """What a loader delivered.

    Args:
        where: With how many workers.
        run: How it ended.
        has: How many workers it has.
        asked: How many it was asked for.
        odd: What of a batch is not as asked, in a sentence, or nothing.
        length: Of the dataset.
        clips: How many can be decoded.
        missing: How many of them did not come once in each epoch.
        wrong: How many came with other frames or another label.
        skipped: What is wrong with `skipped`, in a sentence, or nothing.
        touched: Files of the folder that are new, gone or changed.
    """

    where: str
    run: Ending
    has: int = 0
    asked: int = 0
    odd: str = ""
    length: int = 0
    clips: int = 0
    missing: int = 0
    wrong: int = 0
    skipped: str = ""
    touched: str = ""

    @property
    def right(self) -> bool:
        """Whether nothing is wrong with it."""
        wrong = self.odd or self.missing or self.wrong or self.skipped or self.touched
        counts = (self.has, self.length) == (self.asked, self.clips)
        return self.run.end == "finished" and counts and not wrong


def run(folder: Path, data: Any, train: Any) -> tuple[Ran, ...]:
    """Two epochs with each number of workers, up to the first that is not right."""
    clips, bad = _clips(folder)
    before = contents(folder / "clips")
    found: list[Ran] = []
    for workers in _WORKERS:
        call = f"make_loader(folder, {workers})"
        loader = made(data.make_loader, folder, workers, call=call, within=_WITHIN)
        if not isinstance(loader, DataLoader):
            not_yet(f"`make_loader` returns a `{type(loader).__name__}`, and not a DataLoader.")
        times: Counter[str] = Counter()
        odd: list[str] = []
        wrong: list[str] = []

        def consume(batches: Any) -> None:
            for batch in batches:
                try:
                    rows = [*zip(batch["name"], batch["frames"], batch["label"].tolist())]  # noqa: B905
                except (TypeError, KeyError, IndexError, AttributeError):
                    odd.append("a batch is not a dict of names, frames and labels.")  # noqa: B023
                    return
                for name, frames, label in rows:
                    times[name] += 1  # noqa: B023
                    expected = clips.get(name, torch.empty(0))
                    if not torch.equal(frames, expected) or str(label) != name[0]:
                        wrong.append(name)  # noqa: B023

        seen = observe(loader, consume=consume, deadline=_WITHIN, epochs=_EPOCHS)
        found.append(
            Ran(
                where(workers),
                ending(seen),
                loader.num_workers,
                workers,
                "".join(odd[:1]),
                len(loader.dataset),  # type: ignore[arg-type]  # it has a length
                len(clips),
                sum(times[name] != _EPOCHS for name in clips),
                len(wrong),
                _skipped(loader.dataset, bad),
                ", ".join(changed(before, folder / "clips")),
            )
        )
        if not found[-1].right:
            break
    return tuple(found)


def _clips(folder: Path) -> tuple[dict[str, Any], set[str]]:
    clips, bad = dict[str, Any](), set[str]()
    for path in (folder / "clips").iterdir():
        header, pixels = path.read_bytes()[:8], path.read_bytes()[8:]
        if header == b"CLIP" + (8).to_bytes(4, "little"):
            frames = np.frombuffer(pixels, np.uint8).reshape(_FRAMES, _SIDE, _SIDE)
            clips[path.name] = torch.from_numpy(frames.copy()) / 255
        else:
            bad.add(path.name)
    return clips, bad


def _skipped(dataset: Any, bad: set[str]) -> str:
    named = getattr(dataset, "skipped", None)
    if named is None or isinstance(named, (str, int)):
        return f"`loader.dataset.skipped` is {shown(named)}, and not the names of files."
    try:
        names = [Path(str(each)).name for each in named]
    except TypeError:
        return f"`loader.dataset.skipped` is {shown(named)}, and not the names of files."
    if len(names) != len(set(names)) or set(names) != bad:
        return (
            f"`loader.dataset.skipped` has {len(set(names) & bad)} of the {len(bad)} clips that "
            f"cannot be decoded, and {len(set(names) - bad) or 'no'} others."
        )
    return ""


def judge_run(found: tuple[Ran, ...]) -> str:
    """Right if all that can be decoded came, the rest is named, and nothing died."""
    for ran in found:
        ended_well(
            ran.run,
            ran.where,
            died="A `try` around a decoder that dies ends with its process. Where could it do no "
            "harm?",
        )
        if ran.has != ran.asked:
            not_yet(
                f"{ran.asked} workers were asked for, and the loader has {ran.has}. The job needs "
                "them."
            )
        if ran.odd:
            not_yet(f"{ran.where}, {ran.odd}")
        if ran.missing or ran.wrong:
            not_yet(
                f"{ran.where}, of the {ran.clips} clips that can be decoded {ran.missing} did not "
                f"come once in each of {_EPOCHS} epochs, and {ran.wrong} samples are not a clip's "
                "frames with its label."
            )
        if ran.length != ran.clips:
            not_yet(
                f"{ran.where}, `len(loader.dataset)` is {ran.length}, and {ran.clips} clips can be "
                "decoded."
            )
        if ran.skipped:
            not_yet(f"{ran.where}, {ran.skipped} Which clip ends a process, and which raises?")
        if ran.touched:
            not_yet(f"files in `clips/` are new, gone or changed: {ran.touched}.")
    assert len(found) == len(_WORKERS), "one that is not right has been rejected"
    clips = found[0].clips
    return f"All {clips} clips came with 0, 2 and 4 workers, the others are named, nothing died."


GRADER: Final = grader(
    INCIDENT,
    run=run,
    judge_run=judge_run,
    runs="makes your loader for other clips, and reads it twice with 0, 2 and 4 workers",
    at_most=2 * _WITHIN * len(_WORKERS) + 15,
    died="A decoder that dies takes its process with it. In which process do you decode?",
)
