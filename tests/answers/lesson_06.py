"""Define right and wrong answers to the exercises of lesson 06.

Nearly all answers to "06.fix" and "06.transfer" are files. Most of them are changed copies
of a right answer, `RECORDS` or `CLIPS`.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from cells import to_copy

from answers import RightAnswers, WrongFixes, like
from dltutor.failures.tools.handles import own_folder
from dltutor.lessons.lesson_06.helpers import MyRecords
from notebooks import NOTEBOOKS, read

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
        g = torch.Generator().manual_seed(10_000 * self.seed + index)
        return 0.1 * torch.randn(clip.shape, generator=g)

    def __getitem__(self, index):
        clip = self.clips[index]
        return self.scale(clip + self.noise(clip, index))
"""

OPEN = 'open(self.path, "rb")'
OPENED = "        self.handle = None\n"
LAZY = f"        if self.handle is None:\n            self.handle = {OPEN}\n"
READ = "        return self.read(self.handle, index)\n"
STATE = '\n    def __getstate__(self):\n        return {**vars(self), "handle": None}\n'
LOADED = "        self.clips, self.seed = torch.load(path), seed\n"
GENERATOR = "        g = torch.Generator().manual_seed(10_000 * self.seed + index)\n"
SCALE = "        return clip / clip.abs().max()\n"
KEPT = LOADED + "        self.generator = torch.Generator().manual_seed(10_000 * seed)\n"
RESEEDED = GENERATOR.replace("torch.Generator()", "self.generator")
NEW_GENERATOR = """
    def __getstate__(self):
        return {**vars(self), "generator": None}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.generator = torch.Generator()
"""


def changed(name: str, source: str, changes: tuple[tuple[str, str], ...]) -> partial[Path]:
    """Return a `partial` that writes a changed source to a file, and returns the file's path.

    Args:
        name: The name of the file, in a new folder.
        source: The source to change.
        changes: Pairs of (old, new) strings. Each old string has to be in the source.
    """

    def write() -> Path:
        text = source
        for old, new in changes:
            assert old in text, old
            text = text.replace(old, new)
        path = own_folder() / name
        path.write_text(text)
        return path

    return partial(write)


def records(*changes: tuple[str, str]) -> partial[Path]:
    """Return a `partial` that writes `RECORDS` to a file, with these (old, new) changes."""
    return changed("my_records.py", RECORDS, changes)


def clips(*changes: tuple[str, str]) -> partial[Path]:
    """Return a `partial` that writes `CLIPS` to a file, with these (old, new) changes."""
    return changed("my_clips.py", CLIPS, changes)


MODULE_GLOBAL = (
    ("SIZE = 8\n", "SIZE = 8\nHANDLE = None\n"),
    (OPENED, f"        global HANDLE\n        HANDLE = {OPEN}\n"),
    (LAZY + READ, "        return self.read(HANDLE, index)\n"),
    (STATE, ""),
)
OPENS_AT_ONCE = (OPENED, f"        self.handle = {OPEN}\n")
NEVER_OPENS = (LAZY, "")
REOPENS = f"""
    def __setstate__(self, state):
        vars(self).update(state)
        self.handle = {OPEN}
"""


NEW_PROCESS = (
    "        if self.handle is None:\n",
    "        if self.handle is None or self.pid != os.getpid():\n"
    "            self.pid = os.getpid()\n",
)
PID = (OPENED, f"{OPENED}        self.pid = 0\n")
PREAD = "torch.tensor(list(os.pread(handle.fileno(), SIZE, index * SIZE)))"
BY_SEEK = (
    f"        return {PREAD}\n",
    "        handle.seek(index * SIZE)\n        return torch.tensor(list(handle.read(SIZE)))\n",
)
RANDN = "torch.randn(clip.shape, generator=g)"

ON_CALL = """

import torch


class MyRecords(Records):
    def __init__(self, path, count):
        super().__init__(path)
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        self.file().seek(8 * index)
        return torch.tensor(list(self.file().read(8)))
"""
[COPIED] = to_copy("on-call", read(NOTEBOOKS / "06-unpicklable-handles.ipynb"))

RIGHT_ANSWERS: RightAnswers = {
    "06.diagnose": {
        "the way": "reader.cache.turn",
        "from the dataset on": "tiles.reader.cache.turn",
        "in backticks": "`tiles.reader.cache.turn`",
    },
    "06.fix": {
        "opened late": records(),
        "opened in each process, seek and read": records(PID, NEW_PROCESS, BY_SEEK),
        "opened on arrival": records(OPENS_AT_ONCE, NEVER_OPENS, (STATE, STATE + REOPENS)),
        "the class in On call": changed("my_records.py", COPIED + ON_CALL, ()),
        "rebuilt": records(
            OPENS_AT_ONCE,
            NEVER_OPENS,
            (
                STATE,
                "\n    def __reduce__(self):\n        return MyRecords, (self.path, self.count)\n",
            ),
        ),
    },
    "06.transfer": {
        "a generator for each sample": clips(),
        "a generator for each process, seeded for each sample": clips(
            (LOADED, KEPT), (GENERATOR, RESEEDED), (SCALE, SCALE + NEW_GENERATOR)
        ),
        "torch's global numbers, put back": clips(
            (
                GENERATOR,
                "        with torch.random.fork_rng():\n"
                "            torch.manual_seed(10_000 * self.seed + index)\n"
                "            return 0.1 * torch.randn(clip.shape)\n",
            ),
            (f"        return 0.1 * {RANDN}\n", ""),
        ),
        "rounded elsewhere": clips((SCALE, "        return clip * (1 / clip.abs().max())\n")),
    },
}


WRONG_FIXES: WrongFixes = {
    "06.diagnose": {
        "not to the end": ("tiles.reader.cache", "not-to-the-end"),
        "beyond the end": ("reader.cache.turn.acquire", "beyond"),
        "the random generator": ("rng", "can-be-pickled"),
        "the type": ("_thread.lock", "a-type"),
        "its name alone": ("turn", "no-attribute"),
        "no text": (3, "not-a-string"),
    },
    "06.fix": {
        "num_workers=0": (
            records(("class MyRecords(Dataset)", "class MyRecords(DataLoader)")),
            "a-loader",
        ),
        "opened late, and kept": (records((STATE, "")), "cannot-be-pickled"),
        "dropped, never opened again": (records(OPENS_AT_ONCE, NEVER_OPENS), "raised-in-a-loader"),
        "opened for every record": (
            records((LAZY + READ, f"        return self.read({OPEN}, index)\n")),
            "raised-once-renamed",
        ),
        "seek and read on main's file": (records(BY_SEEK), "moved-position"),
        "the whole file in memory": (
            records((OPENED, f"{OPENED}        self.data = {OPEN}.read()\n")),
            "heavy-pickle",
        ),
        "a global of the module": (records(*MODULE_GLOBAL), "wrong-records"),
        "of another type": (records((PREAD, PREAD + ".float()")), "other-sample"),
        "a class from a cell": (like(MyRecords, __module__="__main__"), "not-a-path"),
        "no file": ("nowhere.py", "no-file"),
        "another name": (records(("class MyRecords", "class Records")), "not-in-the-file"),
        "an error in the file": (records(("SIZE = 8", "SIZE = 8 bytes")), "raised"),
    },
    "06.transfer": {
        "the lambda stays": (
            clips((LOADED, LOADED + "        self.scale = lambda clip: clip\n")),
            "cannot-be-pickled",
        ),
        "in place": (
            clips(("clip + self.noise(clip, index)", "clip.add_(self.noise(clip, index))")),
            "wrong-later",
        ),
        "torch.manual_seed in __getitem__": (
            clips(
                (GENERATOR, GENERATOR.replace("g = torch.Generator()", "torch")),
                (", generator=g", ""),
            ),
            "changed",
        ),
        "the generator stays": (
            clips((LOADED, KEPT), (GENERATOR, "        g = self.generator\n")),
            "freed-tensor",
        ),
        "scaled before the noise is on it": (
            clips(
                (
                    "self.scale(clip + self.noise(clip, index))",
                    "self.scale(clip) + self.noise(clip, index)",
                )
            ),
            "scaled-silence",
        ),
        "the seed plus the index": (
            clips(("10_000 * self.seed + index", "self.seed + index")),
            "wrong-noise",
        ),
        "scaled to the highest value, not the loudest": (
            clips((SCALE, "        return clip / clip.max()\n")),
            "wrong-scale",
        ),
        "of another type": (
            clips((RANDN, RANDN.replace("generator=", "dtype=torch.float64, generator="))),
            "other-sample",
        ),
        "a wrong length": (
            clips(("return len(self.clips)", "return len(self.clips) - 1")),
            "other-length",
        ),
    },
}
