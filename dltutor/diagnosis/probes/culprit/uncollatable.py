"""Find out whether a None or a difference in shape keeps samples from becoming a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, Final

from dltutor.diagnosis.objects.digests import leaves, parts_of
from dltutor.diagnosis.running.subject import Subject
from dltutor.observation.counting import counting
from dltutor.observation.foreign import attribute, is_a
from dltutor.observation.time_limits import deadline

_TRIED: Final = 8  # the most pairs of samples to try, at three batches each


def blame(
    collate: Callable[[Any], Any], samples: list[Any], indices: list[Any], whole: Any
) -> tuple[str, str]:
    """Find out by trial why samples can't be joined.

    Args:
        collate: The collate function, which raises for these samples.
        samples: The samples of one batch.
        indices: The index of each sample in the dataset.
        whole: A sample without None from another batch, or None if there isn't one.

    Returns:
        The reason ("none", "ragged", or "" for another one), and a clause about the samples to
        blame, such as "dataset[3]['label'] is None", or "" for another reason.
    """

    def makes(first: Any, others: Any) -> bool:
        # Return whether one sample and copies of another can be made into a batch.
        with suppress(Exception):
            collate([first, *[others] * max(len(samples) - 1, 1)])
            return True
        return False

    missing = [number for number, each in enumerate(samples) if nones(each)]
    if missing:
        there = [each for each in samples if not nones(each)]
        good = there[0] if there else whole
        bad = samples[missing[0]]
        where = next(path for path, leaf in leaves(bad) if leaf is None)
        names = ", ".join(f"dataset[{indices[number]!r}]{where}" for number in missing[:4])
        told = f"{names} {'is' if len(missing) == 1 else 'are'} None"
        if good is not None and makes(good, good) and not makes(good, bad):
            return "none", told
        if not there and good is not None and makes(good, good) and not makes(bad, bad):
            return "none", f"All samples of the batch are None or hold one ({told})"
        stripped = [_without_none(each) for each in samples]
        if makes(stripped[0], stripped[0]) and not makes(bad, bad):
            return "none", told
    return _ragged(makes, samples, indices)


def _ragged(
    makes: Callable[[Any, Any], bool], samples: list[Any], indices: list[Any]
) -> tuple[str, str]:
    first = samples[0]
    others = zip(samples[1:], indices[1:], strict=False)
    unlike = ((found, *other) for other in others if (found := difference(first, other[0])))
    for (path, one, another), each, index in islice(unlike, _TRIED):
        if makes(first, first) and makes(each, each) and not makes(first, each):
            names = f"dataset[{indices[0]!r}]{path} is {one}, dataset[{index!r}]{path}"
            return "ragged", f"{names} is {another}"
    return "", ""


def nones(sample: Any) -> bool:
    """Return whether a sample is None or holds a None."""
    return any(leaf is None for _, leaf in leaves(sample))


def _without_none(sample: Any) -> Any:
    if is_a(sample, Mapping):
        return {key: _without_none(each) for key, each in sample.items() if each is not None}
    if is_a(sample, (list, tuple)) and not hasattr(sample, "_fields"):
        return type(sample)(_without_none(each) for each in sample if each is not None)
    return sample


def difference(one: Any, other: Any, path: str = "") -> tuple[str, str, str] | None:
    """Return the path and the two shapes of the first part that differs in shape, or None.

    The path and the shapes are strings. For lists of different lengths, the shapes are strings such
    as "of length 3". Dicts with different keys are skipped, because they don't differ in shape.

    Args:
        one: The first sample.
        other: The second sample.
        path: The string that the path begins with.
    """
    first, second = _shape(one), _shape(other)
    if first is not None or second is not None:
        return (path, str(first), str(second)) if first != second else None
    parts, others = parts_of(one), parts_of(other)
    if parts is None or others is None:
        return None
    if is_a(one, Mapping) or is_a(other, Mapping):
        if {name for name, _ in parts} != {name for name, _ in others}:
            return None  # the samples differ in their keys, not in shape
    elif len(parts) != len(others):
        return path, f"of length {len(parts)}", f"of length {len(others)}"
    found = dict(others)
    for name, part in parts:
        unlike = difference(part, found[name], f"{path}[{name!r}]") if name in found else None
        if unlike is not None:
            return unlike
    return None


def _shape(thing: Any) -> list[int] | None:
    size = attribute(thing, "shape")
    return [*map(int, size)] if is_a(size, tuple) else None


def loop_without_nones(subject: Subject) -> bool:
    """Return whether the loop finishes in 2 s without workers if it gets no batch that is None.

    Without a training loop, return False.
    """
    if subject.loop is None:
        return False
    subject.change(num_workers=0)
    with suppress(BaseException), deadline(2.0), counting(subject.loader, _without_nones):
        subject.loop(subject.loader)
        return True
    return False


def _without_nones(batches: Iterator[Any]) -> Iterator[Any]:
    return (batch for batch in batches if batch is not None)
