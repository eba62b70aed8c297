"""Does the dataset need something that main set up and a new interpreter doesn't have?

Run the loader with workers that get main's globals before they draw a sample. The doctor asks this
if workers in new interpreters raise an error or deliver other samples than main, but forked workers
run well.
"""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
import types
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.experiment import probe
from dltutor.diagnosis.objects.digests import digest
from dltutor.diagnosis.objects.walking import Found, search
from dltutor.diagnosis.running import runner
from dltutor.diagnosis.running.names import held_by_class_too
from dltutor.diagnosis.running.subject import Subject
from dltutor.observation.errors import is_yours
from dltutor.observation.foreign import attributes_of, file_of, is_a, lineage, module_of
from dltutor.tables import MB

_HEAVY: Final = 16 * MB
_MOST: Final = 3000
_CODE: Final = (types.FunctionType, types.ModuleType, types.BuiltinFunctionType, property)

#: The module, class (or ""), and name of a value.
Key = tuple[str, str, str]


@dataclass(frozen=True)
class Imported:
    """The result of a run whose workers, in new interpreters, got main's globals.

    Args:
        end: How the run ended, as in `Measures.end`.
        unlike: How many samples arrived that the run without workers doesn't have, or has less
            often. It's 0 if there's no such run to compare with.
        batches: How many batches arrived.
        names: The globals and class attributes whose values had differed in the workers.
    """

    end: str
    unlike: int = 0
    batches: int = 0
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.end not in ("finished", "enough"):
            how = _ENDED.get(self.end, self.end)
            return f"Even with main's globals, workers in new interpreters {how}."
        if self.unlike:
            return f"Even with main's globals, {self.unlike} samples differed from main's."
        return f"With main's globals, the workers ran, and {self.batches} batches arrived."


_ENDED: Final = {
    "raised": "raised an error",
    "hung": "hung",
    "worker died": "died",
    "main died": "ended main",
}


def needed(evidence: Evidence) -> bool:
    """Return whether workers misbehave in new interpreters, but work well if they're forked."""
    return evidence.forked is not None and evidence.forked.well


def ask(subject: Subject) -> Imported:
    """Run the loader for one epoch, with workers that get main's globals when they start."""
    alone = subject.known.alone if subject.known is not None else None
    folder = tempfile.mkdtemp()
    subject.in_workers(before=Given(packed(subject), folder))
    given = runner.run(subject, seconds=4.0, epochs=1, own_loop=True)
    names = {line for path in Path(folder).glob("*") for line in path.read_text().splitlines()}
    unlike = given.more_than(alone) if alone else 0
    return Imported(given.end, unlike, given.batches, tuple(sorted(names)))


@dataclass(frozen=True)
class Given:
    """A function that a worker calls when it starts, to replace values that differ from main's.

    Args:
        packed: The pickled values from the function `packed`.
        folder: The folder where each worker writes the names of values that differed.
    """

    packed: dict[Key, bytes]
    folder: str

    def __call__(self, worker_id: int) -> None:
        (Path(self.folder) / f"{os.getpid()}").write_text("\n".join(put(self.packed)))


def put(packed: dict[Key, bytes]) -> list[str]:
    """Set values from the function `packed` here, and return the names of those that differed."""
    names = []
    for (module, cls, name), value in packed.items():
        with suppress(Exception):
            if _put(module, cls, name, pickle.loads(value)):
                names.append(".".join(filter(None, (cls or module, name))))
    return names


def packed(subject: Subject) -> dict[Key, bytes]:
    """Pickle the variables of your modules and classes that the loader uses.

    Leave out functions, classes, and values that can't be pickled, and stop before the pickles take
    up more than 16 MB.

    Returns:
        Each value's pickle, by module, class (or ""), and name.
    """
    found: dict[Key, bytes] = {}
    left = float(_HEAVY)
    for key, value in _values(subject):
        with suppress(Exception):
            content = pickle.dumps(value)
            left -= len(content)
            if left < 0:
                break
            found[key] = content
    return found


def _values(subject: Subject) -> Iterator[tuple[Key, Any]]:
    inner = subject.inner
    modules: dict[str, None] = {}
    classes: dict[type, None] = {}
    starts = [Found("", each) for each in (subject.dataset, inner.collate_fn, inner.worker_init_fn)]
    for found in search(starts, held_by_class_too, deep=_MOST, most=_MOST):
        thing = found.thing
        for cls in lineage(type(thing)):
            if _mine(module_of(cls)):
                modules[module_of(cls)] = classes[cls] = None
        if is_a(thing, (types.FunctionType, type)) and _mine(module_of(thing)):
            modules[module_of(thing)] = None
    for name in list(modules):  # add modules that these modules import or import from
        for each in attributes_of(sys.modules[name]).values():
            known = attributes_of(each).get("__name__") if is_a(each, types.ModuleType) else None
            if type(known) is str and _mine(known):
                modules[known] = None
            elif is_a(each, (types.FunctionType, type)) and _mine(module_of(each)):
                modules[module_of(each)] = None
                if is_a(each, type):
                    classes[each] = None
    for name in modules:
        yield from (((name, "", own), v) for own, v in _data(sys.modules[name]))
    for cls in classes:
        key = (module_of(cls), type.__dict__["__qualname__"].__get__(cls))
        yield from (((*key, own), v) for own, v in _data(cls))


def _data(holder: Any) -> Iterator[tuple[str, Any]]:
    for name, value in attributes_of(holder).items():
        plain = is_a(value, (*_CODE, type, staticmethod, classmethod))
        if not name.startswith("__") and not plain:
            yield name, value


def _mine(module: str) -> bool:
    file = file_of(sys.modules.get(module))
    return bool(file) and is_yours(file)


def _put(module: str, cls: str, name: str, value: Any) -> bool:
    held: Any = sys.modules.get(module) or __import__(module, fromlist=["_"])
    target = held
    for part in cls.split(".") if cls else ():
        target = getattr(target, part)
    missing = name not in vars(target)
    if not missing and digest(vars(target)[name]) == digest(value):
        return False
    setattr(target, name, value)
    # When multiprocessing runs the script again in a new interpreter, the script's functions keep a
    # dict of globals that isn't the module's own. So set the value there, too.
    if not cls:
        for each in attributes_of(held).values():
            inside = attributes_of(each).values() if is_a(each, type) else ()
            for function in (each, *inside):
                if is_a(function, types.FunctionType):
                    scope = function.__globals__
                    if scope.get("__name__") == held.__name__:
                        scope[name] = value
    return True


EXPERIMENT: Final = probe("imported", 14.0, needed, ask)
