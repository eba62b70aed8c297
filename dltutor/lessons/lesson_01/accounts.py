"""Every listed file accounted for: what arrived, held against what the files hold."""

from __future__ import annotations

from collections import Counter

import numpy as np

from dltutor.lessons.kit.answers import wrong
from dltutor.lessons.lesson_01.deliveries import Delivery
from dltutor.lessons.lesson_01.fresh import Folder, Values
from dltutor.lessons.lesson_01.task import Task, read


def account(task: Task, folder: Folder, delivery: Delivery) -> None:
    """Find the first thing that is wrong with a run that finished.

    Raises:
        Unfit: Something is; its result says what.
    """
    epochs = [read(task, batches) for batches in delivery.epochs]
    values, numbers = epochs[0]
    if not len(values):
        wrong(
            f"no {task.noun} arrives, and the folder lists {len(folder.listed)} of them. How many "
            "can be used?"
        )
    _values_are_real(task, folder, epochs)
    paths = [path for path in matches(values, folder, task.tolerance) if path]
    _each_came_once(task, paths)
    misnamed = sum(folder.class_of[path] != n for path, n in zip(paths, numbers, strict=True))
    if misnamed:
        wrong(
            f"{misnamed} of {len(paths)} {task.noun}s arrive with another class number than "
            "`labels.csv` gives them. Numbers follow the sorted names of the classes."
        )
    _rest_is_explained(task, folder, delivery, set(paths))


def _values_are_real(task: Task, folder: Folder, epochs: list[tuple[Values, list[int]]]) -> None:
    values = epochs[0][0]
    if any(not np.array_equal(values, other, equal_nan=True) for other, _ in epochs[1:]):
        wrong(
            f"the second epoch brings other {task.noun}s than the first, and nothing was shuffled. "
            "Which file does an index stand for?"
        )
    inner = tuple(range(2, values.ndim))
    flat = int((np.ptp(values, axis=inner) < 1e-3).all(axis=1).sum())
    if flat:
        wrong(
            f"{flat} of {len(values)} {task.noun}s are blank, and no file holds a blank one. Each "
            "stands for a file that could not be used. What will training learn from it?"
        )
    found = matches(values, folder, task.tolerance)
    stray = values[[path is None for path in found]]
    if len(stray):
        wrong(
            task.invented(stray)
            or f"{len(stray)} of {len(values)} {task.noun}s are in no file. Compare what your "
            "class returns with what the file holds."
        )


def _each_came_once(task: Task, paths: list[str]) -> None:
    ((path, times),) = Counter(paths).most_common(1)
    if times > 1:
        wrong(
            f"{len(paths)} {task.noun}s arrive, and only {len(set(paths))} different ones: "
            f"`{path}` came {times} times. Whose place did it take, and what "
            "does training see too often?"
        )


def _rest_is_explained(task: Task, folder: Folder, delivery: Delivery, arrived: set[str]) -> None:
    reasons = _reasons(folder, delivery, len(arrived))
    if good := sorted(
        folder.odd.get(path, f"`{path}`") for path in reasons.keys() & folder.usable.keys()
    ):
        wrong(
            f"`quarantined` holds what can be used: {', '.join(good)}. Loading raises nothing. "
            "What is missing for a fit with the others?"
        )
    listed = {path for path, _ in folder.listed}
    if lost := listed - arrived - set(reasons):
        wrong(
            f"the folder lists {len(listed)} {task.noun}s, {len(arrived)} arrive, and "
            f"`quarantined` names {len(set(reasons) & listed)}: {len(lost)} vanish without a word. "
            + (
                "In which process was `quarantined` filled?"
                if delivery.workers
                else "Where does your class let go of them, and what does it know of them there?"
            )
        )
    if unknown := set(reasons) - listed:
        wrong(f"`quarantined` names {len(unknown)} files that `labels.csv` does not list.")
    texts = {reason.strip() for reason in reasons.values()}
    if "" in texts or len(texts) == 1 < len(set(folder.unusable.values())):
        wrong(
            f"{len(reasons)} files are in `quarantined`, and {_said(texts)}. Whoever reads it "
            "wants to know what to do about each. What did the attempt to load it say?"
        )


def matches(values: Values, folder: Folder, tolerance: float) -> list[str | None]:
    """For each sample the path of the usable file that it comes from, or None.

    Args:
        values: The samples, along the first dimension.
        folder: The files.
        tolerance: The mean absolute difference that a way of resizing may make.
    """
    paths = list(folder.usable)
    references = np.stack([folder.usable[path] for path in paths])
    found: list[str | None] = []
    for sample in values:
        axes = tuple(range(1, references.ndim))
        distances = np.abs(references - sample).mean(axis=axes)
        nearest = int(distances.argmin())
        found.append(paths[nearest] if distances[nearest] <= tolerance else None)
    return found


def _said(texts: set[str]) -> str:
    return "not each has a reason" if "" in texts else f"the reason is always `{min(texts):.40}`"


def _reasons(folder: Folder, delivery: Delivery, arrived: int) -> dict[str, str]:
    kept = getattr(delivery.dataset, "quarantined", None)
    if not isinstance(kept, dict):
        kind = type(kept).__name__
        what = "the dataset has no `quarantined`" if kept is None else f"`quarantined` is a {kind}"
        wrong(
            f"{arrived} of {len(folder.listed)} arrive, and {what}. The rest has to be in a "
            "dict of that name, from each path to the reason."
        )
    return {_relative(folder, path): str(reason or "") for path, reason in kept.items()}


def _relative(folder: Folder, path: object) -> str:
    return str(path).removeprefix(str(folder.root)).lstrip("/")
