"""The usual wrong answers to the exercises of lesson 06.

Those to "06.fix" and "06.transfer" are files: the right one, with a few lines replaced.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from answers import WrongFixes
from dltutor.failures.kit.handles import own_folder
from dltutor.lessons.lesson_06.records_task import MyRecords

RECORDS = """\
import os

import torch
from torch.utils.data import DataLoader, Dataset

SIZE = 8


class MyRecords(Dataset):
    def __init__(self, path, count):
        self.path, self.count = path, count
        self.handle = None

    def __len__(self):
        return self.count

    def read(self, handle, index):
        return torch.tensor(list(os.pread(handle.fileno(), SIZE, index * SIZE)))

    def __getitem__(self, index):
        if self.handle is None:
            self.handle = open(self.path, "rb")
        return self.read(self.handle, index)

    def __getstate__(self):
        return {**vars(self), "handle": None}
"""

CLIPS = """\
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class MyClips(Dataset):
    def __init__(self, path, seed):
        self.clips, self.seed = torch.load(path), seed

    def __len__(self):
        return len(self.clips)

    def scale(self, clip):
        return clip / clip.abs().max()

    def noise(self, clip, index):
        generator = torch.Generator().manual_seed(1000 * self.seed + index)
        return torch.randn(clip.shape, generator=generator)

    def __getitem__(self, index):
        clip = self.clips[index]
        return self.scale(clip + 0.1 * self.noise(clip, index))
"""

OPEN = 'open(self.path, "rb")'
OPENED = "        self.handle = None\n"
LAZY = f"        if self.handle is None:\n            self.handle = {OPEN}\n"
READ = "        return self.read(self.handle, index)\n"
STATE = '\n    def __getstate__(self):\n        return {**vars(self), "handle": None}\n'
LOADED = "        self.clips, self.seed = torch.load(path), seed\n"
GENERATOR = "        generator = torch.Generator().manual_seed(1000 * self.seed + index)\n"
SCALE = "        return clip / clip.abs().max()\n"
KEPT = LOADED + "        self.generator = torch.Generator().manual_seed(seed)\n"
STATES = """
    def __getstate__(self):
        return {**vars(self), "generator": %s}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.generator = torch.Generator()
        %s
"""


def write(name: str, source: str, **replaced: tuple[str, str]) -> Path:
    """A file with this source, in a folder of its own."""
    for old, new in replaced.values():
        assert old in source, old
        source = source.replace(old, new)
    path = own_folder() / name
    path.write_text(source)
    return path


def records(*changes: tuple[str, str]) -> Path:
    """The right `MyRecords`, with some of its lines replaced."""
    return write("my_records.py", RECORDS, **{str(n): each for n, each in enumerate(changes)})


def clips(*changes: tuple[str, str]) -> Path:
    """The right `MyClips`, with some of its lines replaced."""
    return write("my_clips.py", CLIPS, **{str(n): each for n, each in enumerate(changes)})


def typed_into_a_cell() -> Any:
    """A class as a notebook cell makes it."""
    return type("MyRecords", (MyRecords,), {"__module__": "__main__"})


def kept_generator(state: str = "") -> Path:
    """The noise of one generator that the dataset keeps."""
    return clips(
        (LOADED, KEPT),
        (GENERATOR, ""),
        ("generator=generator", "generator=self.generator"),
        (SCALE, SCALE + state),
    )


MODULE_GLOBAL = (
    ("SIZE = 8\n", "SIZE = 8\nHANDLE = None\n"),
    (OPENED, f"        global HANDLE\n        HANDLE = {OPEN}\n"),
    (LAZY + READ, "        return self.read(HANDLE, index)\n"),
    (STATE, ""),
)
CLASS_ATTRIBUTE = (
    ("class MyRecords(Dataset):\n", "class MyRecords(Dataset):\n    shared = None\n\n"),
    (OPENED, f"        type(self).shared = {OPEN}\n"),
    (LAZY + READ, "        return self.read(self.shared, index)\n"),
    (STATE, ""),
)
OPENS_AT_ONCE = (OPENED, f"        self.handle = {OPEN}\n")
NEVER_OPENS = (LAZY, "")
DELETED = STATE.replace(
    'return {**vars(self), "handle": None}',
    'state = vars(self)%s; del state["handle"]; return state',
)
REOPENS = f"""
    def __setstate__(self, state):
        vars(self).update(state)
        self.handle = {OPEN}
"""

WRONG_FIXES: WrongFixes = {
    "06.predict": {
        "a worker dies": (lambda: "b", "no worker died"),
        "__init__ runs again": (lambda: "c", "`__init__` runs once"),
        "wrong records": (lambda: "d", "no batch came"),
        "no option": (lambda: "e", "none of the options"),
    },
    "06.diagnose": {
        "the top of the way": (lambda: "reader", "1 of its 3 attributes"),
        "not to the end": (lambda: "tiles.reader.cache", "`reader.cache` does not travel, because"),
        "the random generator": (lambda: "rng", "`rng` travels"),
        "the logger": (lambda: "reader.log", "`reader.log` travels"),
        "the type": (lambda: "_thread.lock", "its type"),
        "its name alone": (lambda: "turn", "Write the whole way, from an attribute of `tiles` on"),
        "without its beginning": (lambda: "cache.turn", "`Tiles` has no `cache`"),
        "a name that is not there": (lambda: "reader.handle", "`Reader` has no `handle`"),
        "no text": (lambda: 3, "got int"),
    },
    "06.fix": {
        "num_workers=0": (
            lambda: records(("class MyRecords(Dataset)", "class MyRecords(DataLoader)")),
            "keeps its workers",
        ),
        "set_start_method": (
            lambda: records(
                ("SIZE = 8", 'torch.multiprocessing.set_start_method("fork", force=True)\nSIZE = 8')
            ),
            "chooses the start method for the whole process",
        ),
        "opened late, and kept": (lambda: records((STATE, "")), "After `dataset[0]` in main"),
        "dropped, never opened again": (
            lambda: records(OPENS_AT_ONCE, NEVER_OPENS),
            "'NoneType' object has no attribute 'fileno'",
        ),
        "deleted, never opened again": (
            lambda: records(OPENS_AT_ONCE, NEVER_OPENS, (STATE, DELETED % ".copy()")),
            "no attribute 'handle'",
        ),
        "deleted from the dataset itself": (
            lambda: records(OPENS_AT_ONCE, NEVER_OPENS, (STATE, DELETED % "" + REOPENS)),
            "Which dict does your `__getstate__` change",
        ),
        "try, and zeros": (
            lambda: records(
                OPENS_AT_ONCE,
                (
                    LAZY + READ,
                    f"        try:\n    {READ}        except AttributeError:\n"
                    "            return torch.zeros(SIZE)\n",
                ),
            ),
            "delivers other records",
        ),
        "a lambda that opens it": (
            lambda: records((OPENED, f"{OPENED}        self.open = lambda: {OPEN}\n")),
            "It is in `open`",
        ),
        "a map of the file": (
            lambda: records(
                (
                    OPENED,
                    f"{OPENED}        import mmap\n        with {OPEN} as file:\n"
                    "            self.map = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)\n",
                )
            ),
            "It is in `map`",
        ),
        "opened for every record": (
            lambda: records((LAZY + READ, f"        return self.read({OPEN}, index)\n")),
            "W0 16 and W1 16 times",
        ),
        "the whole file in memory": (
            lambda: records((OPENED, f"{OPENED}        self.data = {OPEN}.read()\n")),
            "the file itself goes to every worker",
        ),
        "a global of the module": (lambda: records(*MODULE_GLOBAL), "`HANDLE` is a global of your"),
        "an attribute of the class": (
            lambda: records(*CLASS_ATTRIBUTE),
            "`shared` is a global of your class",
        ),
        "a class from a cell": (typed_into_a_cell, "from a cell"),
        "no file": (lambda: "nowhere.py", "no file 'nowhere.py'"),
        "another name": (
            lambda: records(("class MyRecords", "class Records")),
            "no `MyRecords` in my_records.py",
        ),
        "an error in the file": (lambda: records(("SIZE = 8", "SIZE = 8 bytes")), "SyntaxError"),
        "an error in the class": (
            lambda: records(("handle.fileno()", "handel.fileno()")),
            "name 'handel' is not defined` in `read`, line 18 of my_records.py",
        ),
    },
    "06.transfer": {
        "the lambda stays": (
            lambda: clips((LOADED, LOADED + "        self.scale = lambda clip: clip\n")),
            "It is in `scale`",
        ),
        "a function inside __init__": (
            lambda: clips(
                (
                    LOADED,
                    LOADED + "        def scale(clip):\n            return clip\n\n"
                    "        self.scale_by = scale\n",
                )
            ),
            "It is in `scale_by`",
        ),
        "the generator stays": (kept_generator, "What does torch make of `generator`"),
        "its state is sent": (
            lambda: kept_generator(
                STATES
                % ("self.generator.get_state()", 'self.generator.set_state(state["generator"])')
            ),
            "`__getstate__` makes a tensor",
        ),
        "made again on arrival": (
            lambda: kept_generator(STATES % ("None", "self.generator.manual_seed(self.seed)")),
            "from `generator`, of which every worker has a copy",
        ),
        "numpy's generator": (
            lambda: clips(
                (LOADED, LOADED + "        self.rng = np.random.default_rng(seed)\n"),
                (GENERATOR, ""),
                (
                    "torch.randn(clip.shape, generator=generator)",
                    "torch.from_numpy(self.rng.normal(size=clip.shape)).float()",
                ),
            ),
            "from `rng`, of which every worker has a copy",
        ),
        "torch's global numbers": (
            lambda: clips((GENERATOR, ""), (", generator=generator", "")),
            "uses up global numbers",
        ),
        "torch.manual_seed in __getitem__": (
            lambda: clips(
                (GENERATOR, "        torch.manual_seed(1000 * self.seed + index)\n"),
                (", generator=generator", ""),
            ),
            "starts torch's global random numbers anew",
        ),
        "no noise": (lambda: clips(("clip + 0.1 * self.noise(clip, index)", "clip")), "no noise"),
        "no scaling": (lambda: clips((SCALE, "        return clip\n")), "The loudest value of a"),
        "the seed alone": (lambda: clips((" + index", "")), "Samples 0 and 1 have the same noise"),
        "the seed times the index": (
            lambda: clips(("1000 * self.seed + index", "self.seed * index")),
            "Seed 5 and seed 1005 give sample 0 the same noise",
        ),
        "the seed times the index, from 1": (
            lambda: clips(("1000 * self.seed + index", "self.seed * (index + 1)")),
            "With seed 0, samples 0 and 1 have the same noise",
        ),
        "the index alone": (lambda: clips(("1000 * self.seed + ", "")), "give the same noise"),
        "num_workers=0": (
            lambda: clips(("class MyClips(Dataset)", "class MyClips(DataLoader)")),
            "keeps its workers",
        ),
    },
}
