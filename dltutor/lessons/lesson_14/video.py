"""Incident "video": clips that pass the archive's look at their headers, and end the decoder.

The codec's `probe` reads the header and believes it. `decode` copies frames from where the header
says that they begin, be it outside of the file, and so of the process's memory.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from dltutor.lessons.engine.endings import ended_well, ending, loader_of, where
from dltutor.lessons.engine.forms import shown
from dltutor.lessons.engine.outcomes import not_yet
from dltutor.lessons.lesson_14.reports import grader
from dltutor.lessons.lesson_14.scene import Cause, Incident
from dltutor.observation import observe

_CLIPS, _FRAMES, _SIDE, _KINDS = 24, 8, 16, 4
_FRAME, _HEADER = _SIDE * _SIDE, 8 + 8 * _FRAMES
_NOWHERE: Final = 1 << 60  # no process has memory there
_EPOCHS: Final = 2
_WORKERS: Final = (2, 0, 4)
_WITHIN: Final = 20  # seconds for making a loader, and for its epochs


def make_data(folder: Path, seed: int) -> None:
    """Clips of noise around a level of their own; some that no decoder survives, or takes."""
    random = np.random.default_rng(seed)
    clips = folder / "clips"
    clips.mkdir()
    first_deadly, last_deadly, no_clip, too_short = random.permutation(_CLIPS)[:4].tolist()
    for number in range(_CLIPS):
        label = number % _KINDS
        noise = random.integers(60 * label, 60 * label + 60, (_FRAMES, _SIDE, _SIDE))
        starts = [_HEADER + _FRAME * frame for frame in range(_FRAMES)]
        if number == first_deadly:
            starts[0] += _NOWHERE
        if number == last_deadly:
            starts[-1] += _NOWHERE
        magic = b"TEXT" if number == no_clip else b"CLIP"
        header = magic + bytes(4) + b"".join(start.to_bytes(8, "little") for start in starts)
        pixels = noise.astype(np.uint8).tobytes()[: -9 if number == too_short else None]
        path = clips / f"{label}-{random.integers(10**6):06}-{number:02}.clip"
        path.write_bytes(header + pixels)


INCIDENT: Final = Incident(
    name="video",
    title="The job dies at another step each night",
    causes=(
        Cause(
            names=("dead_worker", "corrupt_images"),
            places=(
                "decode",
                "memmove",
                "frames_of",
                "probe",
                "playable",
                "clips",
                "Clips",
                "__getitem__",
            ),
            shortest="`observe(loader)`, which names the signal; then each clip in a process of "
            "its own, and its exit code.",
        ),
    ),
    make_data=make_data,
    not_yours=("codec.py",),
)


def run(folder: Path, data: Any, train: Any) -> str:
    """Two epochs with each number of workers: does all come that can be decoded?"""
    clips, bad = _clips(folder)
    for workers in _WORKERS:
        loader = loader_of(data, folder, workers, _WITHIN)
        times: Counter[str] = Counter()
        wrong: list[str] = []

        def consume(batches: Any) -> None:
            for batch in batches:
                try:
                    rows = [*zip(batch["name"], batch["frames"], batch["label"].tolist())]  # noqa: B905
                except (TypeError, KeyError, IndexError, AttributeError):
                    wrong.append("")  # noqa: B023
                    return
                for name, frames, label in rows:
                    times[name] += 1  # noqa: B023
                    expected = clips.get(name, torch.empty(0))
                    if not torch.equal(frames, expected) or str(label) != name[0]:
                        wrong.append(name)  # noqa: B023

        lead = where(workers)
        ended_well(
            ending(observe(loader, consume=consume, deadline=_WITHIN, epochs=_EPOCHS)),
            lead,
            died="A `try` around a decoder that dies ends with its process. Where could it do no "
            "harm?",
        )
        if "" in wrong:
            not_yet(f"{lead}, a batch is not a dict of names, frames and labels.")
        missing = sum(times[name] != _EPOCHS for name in clips)
        if missing or wrong:
            not_yet(
                f"{lead}, of the {len(clips)} clips that can be decoded {missing} did not come "
                f"once in each of {_EPOCHS} epochs, and {len(wrong)} samples are not a clip's "
                "frames with its label."
            )
        if (length := len(loader.dataset)) != len(clips):  # type: ignore[arg-type]  # it has one
            not_yet(
                f"{lead}, `len(loader.dataset)` is {length}, and {len(clips)} clips can be decoded."
            )
        _skipped(loader.dataset, bad, lead)
    return f"All {len(clips)} clips came with 0, 2 and 4 workers, the others are named, none died."


def _clips(folder: Path) -> tuple[dict[str, Any], set[str]]:
    clips, bad = dict[str, Any](), set[str]()
    for path in (folder / "clips").iterdir():
        header, pixels = path.read_bytes()[:_HEADER], path.read_bytes()[_HEADER:]
        starts = np.frombuffer(header[8:], np.uint64)
        if header[:4] == b"CLIP" and len(pixels) == _FRAMES * _FRAME and starts.max() < 10**6:
            frames = np.frombuffer(pixels, np.uint8).reshape(_FRAMES, _SIDE, _SIDE)
            clips[path.name] = torch.from_numpy(frames.copy()) / 255
        else:
            bad.add(path.name)
    return clips, bad


def _skipped(dataset: Any, bad: set[str], lead: str) -> None:
    named = getattr(dataset, "skipped", None)
    try:
        names = [] if isinstance(named, str) else [Path(str(each)).name for each in named]  # type: ignore[union-attr]
    except TypeError:
        names = []
    if not names:
        not_yet(f"{lead}, `loader.dataset.skipped` is {shown(named)}, and not the names of files.")
    if len(names) != len(set(names)) or set(names) != bad:
        not_yet(
            f"{lead}, `loader.dataset.skipped` has {len(set(names) & bad)} of the {len(bad)} clips "
            f"that cannot be decoded, and {len(set(names) - bad) or 'no'} others. Which clip ends "
            "a process, and which raises?"
        )


GRADER: Final = grader(
    INCIDENT,
    run,
    runs="makes your loader for other clips, and reads it twice with 0, 2 and 4 workers",
    at_most=2 * _WITHIN * len(_WORKERS) + 15,
    died="A decoder that dies takes its process with it. In which process do you decode?",
)
