"""Check and describe what `observe` takes: a DataLoader, or another library's wrapper."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from types import ModuleType
from typing import Any, Final

from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset

from dltutor.observation.foreign import (
    attribute,
    attributes_of,
    elements,
    has,
    is_a,
    kind_of,
    lineage,
    text,
)
from dltutor.tables import count_of

# The most levels of attributes and containers to search for inner loaders, and the most parts to
# look at in one object or container.
_DEPTH: Final = 4
_MOST: Final = 100


def check_loader(thing: Any) -> None:
    """Raise TypeError if `observe` can't use this object as a loader."""
    if not _can_be_iterated_again(thing):
        raise TypeError(f"observe() takes a torch DataLoader, got {what_instead(thing)}")


def inner_loaders(thing: Any) -> dict[str, DataLoader[Any]]:
    """Return the DataLoaders that start the workers for a loader or a wrapper, by name.

    A wrapper has these DataLoaders in its attributes, lists, or dicts. If there is only one, its
    name is "". Otherwise it's the loader's key in a dict, or a name such as "loader 2".
    """
    found: dict[int, tuple[str, DataLoader[Any]]] = {}
    for key, loader in _search("", thing, _DEPTH, set()):
        found.setdefault(id(loader), (key, loader))
    names: dict[str, DataLoader[Any]] = {}
    for number, (key, loader) in enumerate(found.values(), start=1):
        name = "" if len(found) == 1 else key or f"loader {number}"
        names[name if name not in names else f"loader {number}"] = loader
    return names


def length(loader: DataLoader[Any]) -> int | None:
    """Return how many samples an epoch must have, which is `len(dataset)`, or None if unknown.

    The number is unknown if the dataset has no length, a map-style dataset's sampler has no length
    or a different one, the batch sampler isn't a plain `BatchSampler`, `drop_last` is True, or
    `batch_size` is None and the sampler is a `BatchSampler`.
    """
    batches = loader.batch_sampler
    if type(batches) not in (BatchSampler, type(None)) or getattr(batches, "drop_last", False):
        return None
    if batches is None and is_a(loader.sampler, BatchSampler):
        return None  # the sampler deals out lists of indices
    try:
        whole = len(loader.dataset)  # type: ignore[arg-type]  # the dataset may have no length
        stream = is_a(loader.dataset, IterableDataset)
        return whole if stream or len(sampler_of(loader)) == whole else None
    except Exception:  # the learner's dataset and sampler may raise anything
        return None


def sampler_of(loader: DataLoader[Any]) -> Any:
    """Return the sampler that deals out a loader's indices, even if it's inside a BatchSampler."""
    batches, found = loader.batch_sampler, loader.sampler
    if is_a(batches, BatchSampler):
        found = attribute(batches, "sampler", found)
    elif batches is not None:
        return batches  # torch makes a sampler, too, but never uses it
    while is_a(found, BatchSampler):  # with `batch_size=None`, the sampler may be a BatchSampler
        found = attribute(found, "sampler", None)
    return found


def title_of(loader: Any) -> str:
    """Return a title with the class of the dataset (or wrapper) and the number of workers."""
    inner = inner_loaders(loader).values()
    count = sum(each.num_workers for each in inner)
    plain = is_a(loader, DataLoader)
    name = type(loader.dataset if plain else loader).__name__
    return f"{name}, {count_of(count, 'worker')}"


def _search(
    key: str, thing: Any, depth: int, seen: set[int]
) -> Iterator[tuple[str, DataLoader[Any]]]:
    if id(thing) in seen or depth < 0 or is_a(thing, (type, ModuleType)):
        return
    seen.add(id(thing))
    parts: Iterable[tuple[str, Any]] = ()
    attributes = [("", value) for value in attributes_of(thing).values()]
    if is_a(thing, DataLoader):
        # accelerate's loaders are also DataLoaders, but the DataLoader inside makes the iterators.
        inside = [each for _, each in attributes if is_a(each, DataLoader)]
        if not inside:
            yield key, thing
        parts = [(key, each) for each in inside]
    elif is_a(thing, (dict, list, tuple)):
        pairs = islice(elements(thing), _MOST)
        parts = [(name if is_a(name, str) else key, each) for name, each in pairs]
    else:
        parts = attributes
    for name, each in islice(parts, _MOST):
        yield from _search(name, each, depth - 1, seen)


def _can_be_iterated_again(thing: Any) -> bool:
    iterable = any("__iter__" in attributes_of(cls) for cls in lineage(type(thing)))
    if is_a(thing, type) or not iterable:
        return False
    if is_a(thing, (Dataset, Iterator)) and not is_a(thing, DataLoader):
        # Most Datasets and Iterators aren't loaders. But webdataset's and Lightning's loaders are
        # Datasets or Iterators, too, and we recognize them by their inner loaders.
        return bool(inner_loaders(thing))
    return not is_a(thing, Collection)


def what_instead(thing: Any) -> str:
    """Describe an object that isn't a loader, and if we can tell, say what to pass instead."""
    kind = kind_of(thing)
    if is_a(thing, type):
        return f"the class {attribute(thing, '__name__', kind)}: make an object of it first"
    if is_a(thing, Dataset):
        return f"{kind} (a Dataset): wrap it, DataLoader({kind}(...), num_workers=2)"
    inside = [name for name, each in attributes_of(thing).items() if is_a(each, DataLoader)]
    if inside and not is_a(thing, Iterator):
        return f"{kind}, which isn't iterable: pass the DataLoader in its `{inside[0]}`"
    if has(thing, "__next__"):
        return f"{kind} (an iterator, which runs once): pass the loader that it came from"
    return f"{kind}: {text(thing):.60}"
