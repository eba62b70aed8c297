"""Are the first samples the same in a new interpreter?

Send a copy of the dataset to a new interpreter, and draw samples there. From a stream, draw them as
its first worker would. If you gave the doctor a function that makes the loader, call it there too.
Samples that differ may depend on a global that main has set, or on `hash()` and the order of a set,
which Python changes from one interpreter to the next.
"""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import islice
from multiprocessing import current_process
from pathlib import Path
from typing import Any, Final

import cloudpickle
import torch

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.experiment import probe
from dltutor.diagnosis.limits import Limited, in_time
from dltutor.diagnosis.objects.digests import digest
from dltutor.diagnosis.probes.imported import Key, packed, put
from dltutor.diagnosis.probes.travel.packing import HEAVY
from dltutor.diagnosis.running.random_states import seed_all
from dltutor.diagnosis.running.subject import Subject, Unanswered, inner_loader
from dltutor.observation import own_mappings, torch_internals
from dltutor.observation.confinement import start_child
from dltutor.observation.confinement.supervisor import argv_of
from dltutor.observation.errors import is_yours
from dltutor.observation.foreign import first_line, said
from dltutor.tables import MB

_DRAWN: Final = 16
_FOR: Final = 0.5  # the most seconds to draw samples in each process
_MADE: Final = 1.0  # seconds; if making a loader and drawing takes longer, don't do it again
_SALTS: Final = ("1", "2")  # values of PYTHONHASHSEED

#: The indices to draw, or for a stream, how many workers there are, of which each process is W0.
_Keys = list[Any] | int
_Drawn = list[tuple[str, str]]  # digests of a sample and of a batch of this sample, for each sample


@dataclass(frozen=True)
class NewInterpreter:
    """A comparison of samples from this interpreter with samples from new ones.

    Args:
        looked: How many samples this interpreter drew to compare, each along with a batch of only
            this sample.
        raised: The error from drawing a sample in a new interpreter, or "" if there was none.
        unlike: How many samples of a copy of the dataset, or their batches, differ in a new
            interpreter.
        names: The globals and class attributes that main has set to other values than the new
            interpreter, if the samples are the same once both have main's values.
        salted: How many samples or batches depend on `PYTHONHASHSEED`.
        collated: Whether only the batches depend on `PYTHONHASHSEED`, but not the samples.
    """

    looked: int
    raised: str = ""
    unlike: int = 0
    names: tuple[str, ...] = ()
    salted: int = 0
    collated: bool = False

    def __str__(self) -> str:
        if self.raised:
            return f"No. There, a sample raised {self.raised}."
        if self.salted:
            return f"No. {self.salted} of {self.looked} depend on `PYTHONHASHSEED`."
        if self.unlike:
            set_in_main = f", because main has set {', '.join(self.names)}" if self.names else ""
            return f"No. {self.unlike} of {self.looked} differ{set_in_main}."
        return f"Yes, {self.looked} samples were."


def needed(evidence: Evidence) -> bool:
    """Return whether forked workers deliver samples, and a copy of the dataset works in main."""
    travel, samples = evidence.travel, evidence.samples
    if evidence.parts.method != "fork" or not evidence.run.well or travel is None:
        return False
    if travel.cannot or travel.gone or travel.unreadable or travel.raised or travel.unlike:
        return False
    return samples is not None and samples.looked > 0 and not samples.failed


def ask(subject: Subject) -> NewInterpreter:
    """Compare samples from this interpreter with samples from one to four new interpreters."""
    keys = subject.inner.num_workers if subject.stream else subject.keys()[:_DRAWN]
    sent = _pickled((subject.dataset, subject.inner.collate_fn))
    here, again = (_drawn_from_copy(sent, keys) for _ in range(2))
    if any(one[1] != other[1] for one, other in zip(here, again, strict=False)):
        sent = _pickled((subject.dataset, None))  # the collate function makes different batches
        here, again = (_drawn_from_copy(sent, keys) for _ in range(2))
    if not here or _unlike(here, again):
        raise Unanswered("samples differ from one copy of the dataset to the next")
    made, make = _made_here(subject.make, keys)
    first = _there(sent, keys, make, _SALTS[0])
    unlike = _unlike(here, first.sent)
    # If main is a script, a worker would run it first, and may have values that the new interpreter
    # lacks. So an error or a difference in the copy's samples wouldn't show what a worker does.
    if _main_is_a_script():
        unlike, first = 0, replace(first, raised="")
    if first.raised or not (unlike or _unlike(made, first.made)):
        return NewInterpreter(len(here), raised=first.raised)
    other = _there(sent, keys, make, _SALTS[1])
    salted = max(_unlike(first.sent, other.sent), _unlike(first.made, other.made))
    if salted:
        repeated = _there(sent, keys, make, _SALTS[0])
        if _unlike(repeated.sent, first.sent) or _unlike(repeated.made, first.made):
            salted = 0  # something else differs from one interpreter to the next
    names = _names(subject, sent, keys, here) if unlike and not salted else ()
    differ = [
        *zip(first.sent, other.sent, strict=False),
        *zip(first.made, other.made, strict=False),
    ]
    collated = bool(salted) and all(one[0] == another[0] for one, another in differ)
    return NewInterpreter(len(here), unlike=unlike, names=names, salted=salted, collated=collated)


@dataclass(frozen=True)
class _There:
    """The answer from a new interpreter about its samples.

    Args:
        sent: Digests of samples from the copy of the dataset that was sent.
        made: Digests of samples from a newly made dataset.
        names: The globals and class attributes that differed from main's.
        raised: The error from drawing a sample, or "".
        unread: The error from any other step, such as unpickling, or "".
    """

    sent: _Drawn
    made: _Drawn
    names: tuple[str, ...] = ()
    raised: str = ""
    unread: str = ""


def _main_is_a_script() -> bool:
    file = str(getattr(sys.modules["__main__"], "__file__", None) or "")
    return file.endswith(".py") and is_yours(file)


def _unlike(ours: _Drawn, theirs: _Drawn) -> int:
    # Compare only as many samples as both have, because a slow machine has time for fewer.
    return sum(one != other for one, other in zip(ours, theirs, strict=False))


def _pickled(parts: tuple[Any, Any]) -> bytes:
    too_large = Unanswered(f"the dataset's pickle is larger than {HEAVY / MB:.0f} MB")
    file = Limited(too_large, size=HEAVY)
    try:
        cloudpickle.dump(parts, file)
    except Unanswered:
        raise
    except Exception as error:
        raise Unanswered(f"the dataset can't be sent to a new interpreter: {said(error)}") from None
    return file.getvalue()


def _drawn(dataset: Any, collate: Any, keys: _Keys, seconds: float) -> _Drawn:
    # Return digests of the first samples, each with a digest of the batch that the collate function
    # makes of only this sample, all with the same random numbers.
    samples = in_time(_samples(dataset, keys), seconds)
    return [(digest(sample), digest(_alone(collate, sample))) for sample in samples]


def _drawn_from_copy(sent: bytes, keys: _Keys) -> _Drawn:
    try:
        dataset, collate = pickle.loads(sent)
        return _drawn(dataset, collate, keys, _FOR)
    except Exception as error:
        raise Unanswered(f"in a copy of the dataset, a sample raised {first_line(error)}") from None


def _alone(collate: Any, sample: Any) -> Any:
    with suppress(Exception):  # the function may need several samples, or one outside a list
        return collate([deepcopy(sample)])
    return None


def _samples(dataset: Any, keys: _Keys) -> Iterator[Any]:
    seed_all()
    if isinstance(keys, int):
        torch_internals.act_as_worker(0, keys, dataset)
        yield from islice(iter(dataset), _DRAWN)
        return
    for key in keys:
        seed_all()
        yield dataset[key]


def _made(make: Callable[[], Any], keys: _Keys, seconds: float) -> _Drawn:
    seed_all()
    loader = inner_loader(make())
    return _drawn(loader.dataset, loader.collate_fn, keys, seconds)


def _made_here(make: Callable[[], Any] | None, keys: _Keys) -> tuple[_Drawn, bytes | None]:
    # Return the digests of a newly made loader's samples, and the pickled function that makes the
    # loader. Return [] and None if there's no such function, or if it raises an exception, takes
    # long, or makes other samples the second time.
    if make is None:
        return [], None
    with suppress(Exception):
        began = time.monotonic()
        made = _made(make, keys, _FOR)
        if time.monotonic() - began < _MADE and not _unlike(made, _made(make, keys, _FOR)):
            return made, bytes(cloudpickle.dumps(make))
    return [], None


def _names(subject: Subject, sent: bytes, keys: _Keys, here: _Drawn) -> tuple[str, ...]:
    # Return the globals that differ in a new interpreter, if the samples are the same once it has
    # main's values. Otherwise, return ().
    given = _there(sent, keys, None, _SALTS[0], packed(subject))
    return () if _unlike(given.sent, here) else given.names


def _there(
    sent: bytes,
    keys: _Keys,
    make: bytes | None,
    salt: str,
    given: dict[Key, bytes] | None = None,
) -> _There:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        key = bytes(current_process().authkey)  # because the dataset may hold a Manager's dict
        task = (sent, keys, _FOR, make, given or {}, torch.get_num_threads(), key)
        (folder / "task").write_bytes(cloudpickle.dumps(task))
        os.environ["PYTHONHASHSEED"] = salt
        argv, output = argv_of(__name__, folder), str(folder / "output")
        pid = start_child.start(argv, output=output, group=None, shm=None, open_files=None)
        os.waitpid(pid, 0)
        try:
            found: _There = pickle.loads((folder / "found").read_bytes())
        except OSError:
            raise Unanswered("the new interpreter ended without an answer") from None
    if found.unread:
        raise Unanswered(f"the new interpreter can't read what was sent: {found.unread}")
    return found


def main(name: str) -> None:
    """Draw the samples that the task in a folder asks for, write the answer there, and exit.

    Args:
        name: The path of the folder. The task is in the file `task` there, and the answer goes to
            `found`.
    """
    folder = Path(name)
    task = cloudpickle.loads((folder / "task").read_bytes())
    sent, keys, seconds, make, given, threads, current_process().authkey = task
    torch.set_num_threads(threads)
    try:
        dataset, collate = cloudpickle.loads(sent)
        maker = None if make is None else cloudpickle.loads(make)
        own_mappings.make_private()  # so that no sample changes a mapped file
        own_mappings.keep_private()
        names = put(given)
        try:
            drawn = _drawn(dataset, collate, keys, seconds)
        except Exception as error:
            found = _There([], [], raised=first_line(error))
        else:
            made = [] if maker is None else _made(maker, keys, seconds)
            found = _There(drawn, made, tuple(sorted(names)))
    except Exception as error:
        found = _There([], [], unread=first_line(error))
    (folder / "unfinished").write_bytes(pickle.dumps(found))
    (folder / "unfinished").rename(folder / "found")
    os._exit(0)


EXPERIMENT: Final = probe("new_interpreter", 12.0, needed, ask)
