"""What `observe` takes: a DataLoader, or whatever of another library wraps some."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from types import ModuleType
from typing import Any, Final

from torch.utils.data import DataLoader, Dataset

# Where an inner loader is looked for: so deep in attributes and containers, and among so many.
_DEPTH: Final = 4
_MOST: Final = 100


def check_loader(thing: object) -> None:
    """Raise TypeError if `observe` cannot take this for a loader."""
    if not _can_be_iterated_again(thing):
        raise TypeError(f"observe() takes a torch DataLoader, got {_what_instead(thing)}")


def inner_loaders(thing: object) -> dict[str, DataLoader[Any]]:
    """The DataLoaders whose workers serve a loader.

    Args:
        thing: A DataLoader, or a wrapper that has some in its attributes, lists or dicts.

    Returns:
        Them, by name: "" for the only one; else the key that it has in a dict, or "loader 2".
    """
    found: dict[int, tuple[str, DataLoader[Any]]] = {}
    for key, loader in _search("", thing, _DEPTH, set()):
        found.setdefault(id(loader), (key, loader))
    names: dict[str, DataLoader[Any]] = {}
    for number, (key, loader) in enumerate(found.values(), start=1):
        name = "" if len(found) == 1 else key or f"loader {number}"
        names[name if name not in names else f"loader {number}"] = loader
    return names


def title_of(loader: Any) -> str:
    """A loader in a few words: its dataset, or the class of the wrapper, and its workers."""
    inner = inner_loaders(loader).values()
    count = sum(each.num_workers for each in inner)
    plain = isinstance(loader, DataLoader)
    name = type(loader.dataset if plain else loader).__name__
    return f"{name}, {count} worker{'' if count == 1 else 's'}"


def _search(
    key: str, thing: object, depth: int, seen: set[int]
) -> Iterator[tuple[str, DataLoader[Any]]]:
    if id(thing) in seen or depth < 0 or isinstance(thing, (type, ModuleType)):
        return
    seen.add(id(thing))
    parts: Iterable[tuple[str, object]] = ()
    attributes = [("", value) for value in getattr(thing, "__dict__", {}).values()]
    if isinstance(thing, DataLoader):
        # accelerate's pass for a DataLoader, and have the one that makes the iterators inside.
        inside = [each for _, each in attributes if isinstance(each, DataLoader)]
        if not inside:
            yield key, thing
        parts = [(key, each) for each in inside]
    elif isinstance(thing, dict):
        parts = [(name if isinstance(name, str) else key, each) for name, each in thing.items()]
    elif isinstance(thing, (list, tuple)):
        parts = [(key, each) for each in thing]
    else:
        parts = attributes
    for name, each in islice(parts, _MOST):
        yield from _search(name, each, depth - 1, seen)


def _can_be_iterated_again(thing: object) -> bool:
    if isinstance(thing, type) or not hasattr(type(thing), "__iter__"):
        return False
    if isinstance(thing, (Dataset, Iterator)) and not isinstance(thing, DataLoader):
        # webdataset's and Lightning's are both, and can be iterated again.
        return bool(inner_loaders(thing))
    return not isinstance(thing, Collection)


def _what_instead(thing: object) -> str:
    kind = type(thing).__name__
    if isinstance(thing, type):
        return f"the class {thing.__name__}: make an object of it first"
    if isinstance(thing, Dataset):
        return f"{kind} (a Dataset): wrap it, DataLoader({kind}(...), num_workers=2)"
    if hasattr(thing, "__next__"):
        return f"{kind} (an iterator, which runs once): pass the loader that it came from"
    return f"{kind}: {thing!r:.60}"
