"""Define right and wrong answers to the exercises of lesson 06.

An answer to "06.fix" or "06.transfer" is a file, which is the right file with a few lines replaced.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from answers import OtherOutcomes, RightAnswers, WrongFixes
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
STATES = """
    def __getstate__(self):
        return {**vars(self), "generator": %s}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.generator = torch.Generator()
        %s
"""


def write(name: str, source: str, **replaced: tuple[str, str]) -> Path:
    """Write a file to a new folder, with parts of its source replaced, and return its path."""
    for old, new in replaced.values():
        assert old in source, old
        source = source.replace(old, new)
    path = own_folder() / name
    path.write_text(source)
    return path


def records(*changes: tuple[str, str]) -> Path:
    """Write the right `MyRecords`, with some lines replaced, and return the file's path."""
    return write("my_records.py", RECORDS, **{str(n): each for n, each in enumerate(changes)})


def clips(*changes: tuple[str, str]) -> Path:
    """Write the right `MyClips`, with some lines replaced, and return the file's path."""
    return write("my_clips.py", CLIPS, **{str(n): each for n, each in enumerate(changes)})


def typed_into_a_cell() -> Any:
    """Define a class the way a notebook cell does."""
    return type("MyRecords", (MyRecords,), {"__module__": "__main__"})


def kept_generator(state: str = "", generator: str = "        g = self.generator\n") -> Path:
    """Write a `MyClips` that draws noise from one generator, which the dataset keeps."""
    return clips((LOADED, KEPT), (GENERATOR, generator), (SCALE, SCALE + state))


def seeded(number: str) -> Path:
    """Write a `MyClips` that seeds a new generator with this expression for each sample."""
    return clips(("10_000 * self.seed + index", number))


def starter(cell: str) -> Path:
    """Write the file that a starter cell of the learner's notebook writes, and return its path."""
    notebook = read(NOTEBOOKS / "06-unpicklable-handles.ipynb")
    (source,) = (each.source for each in notebook.cells if each.id == cell)
    magic, _, text = source.partition("\n")
    return write(magic.rpartition("/")[2], text)


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


NEW_PROCESS = (
    "        if self.handle is None:\n",
    "        if self.handle is None or self.pid != os.getpid():\n"
    "            self.pid = os.getpid()\n",
)
NEW_PROCESS_ID = (
    "        if self.handle is None:\n",
    "        if self.pid != os.getpid():\n            self.pid = os.getpid()\n",
)
PID = (OPENED, f"{OPENED}        self.pid = 0\n")
PREAD = "torch.tensor(list(os.pread(handle.fileno(), SIZE, index * SIZE)))"
BY_SEEK = (
    f"        return {PREAD}\n",
    "        handle.seek(index * SIZE)\n        return torch.tensor(list(handle.read(SIZE)))\n",
)
RESTORING = (
    f"        return {PREAD}\n",
    "        before = handle.tell()\n"
    "        handle.seek(index * SIZE)\n        record = handle.read(SIZE)\n"
    "        handle.seek(before)\n        return torch.tensor(list(record))\n",
)
NOISE_IN_INIT = (
    LOADED,
    LOADED + "        self.noises = [self.noise(clip, n) for n, clip in enumerate(self.clips)]\n",
)
RANDN = "torch.randn(clip.shape, generator=g)"

RIGHT_ANSWERS: RightAnswers = {
    "06.diagnose": {
        "the way": lambda: "reader.cache.turn",
        "from the dataset on": lambda: "tiles.reader.cache.turn",
        "in backticks": lambda: "`tiles.reader.cache.turn`",
    },
    "06.fix": {
        "opened late": records,
        "opened in each process, seek and read": lambda: records(PID, NEW_PROCESS, BY_SEEK),
        "opened on arrival": lambda: records(OPENS_AT_ONCE, NEVER_OPENS, (STATE, STATE + REOPENS)),
        "rebuilt": lambda: records(
            OPENS_AT_ONCE,
            NEVER_OPENS,
            (
                STATE,
                "\n    def __reduce__(self):\n        return MyRecords, (self.path, self.count)\n",
            ),
        ),
        "a map of the file": lambda: records(
            (
                LAZY,
                "        if self.handle is None:\n            import numpy as np\n"
                "            self.handle = np.memmap(self.path, mode='r')\n",
            ),
            (
                f"        return {PREAD}\n",
                "        return torch.tensor(handle[index * SIZE : (index + 1) * SIZE].tolist())\n",
            ),
        ),
        "one for each process, in a dict": lambda: records(
            (OPENED, f"{OPENED}        self.handles = {{}}\n"),
            (
                LAZY + READ,
                "        if os.getpid() not in self.handles:\n"
                f"            self.handles[os.getpid()] = {OPEN}\n"
                "        return self.read(self.handles[os.getpid()], index)\n",
            ),
            (STATE, STATE.replace('"handle": None', '"handles": {}')),
            BY_SEEK,
        ),
        "opened in __init__, and anew where the process id has changed": lambda: records(
            (OPENED, f"        self.pid, self.handle = os.getpid(), {OPEN}\n"),
            NEW_PROCESS_ID,
            BY_SEEK,
        ),
    },
    "06.transfer": {
        "a generator for each sample": clips,
        "all noise made in __init__": lambda: clips(
            NOISE_IN_INIT, ("clip + self.noise(clip, index)", "clip + self.noises[index]")
        ),
        "a generator for each process, seeded for each sample": lambda: kept_generator(
            STATES % ("None", "pass"), RESEEDED
        ),
        "torch's global numbers, put back": lambda: clips(
            (
                GENERATOR,
                "        with torch.random.fork_rng():\n"
                "            torch.manual_seed(10_000 * self.seed + index)\n"
                "            return 0.1 * torch.randn(clip.shape)\n",
            ),
            (f"        return 0.1 * {RANDN}\n", ""),
        ),
        "rounded elsewhere": lambda: clips(
            (SCALE, "        return clip * (1 / clip.abs().max())\n")
        ),
    },
}

OTHER_OUTCOMES: OtherOutcomes = {
    "06.diagnose": {"a dot": (lambda: ".", "Not attempted", "no-culprit")},
    "06.fix": {
        "the starter": (lambda: starter("fix"), "Not attempted", "starter-class"),
        "an attribute of the class": (
            lambda: records(*CLASS_ATTRIBUTE),
            "Not yet",
            "wrong-records",
        ),
        "seek, read and seek back on main's file": (
            lambda: records(('"rb")', '"rb", buffering=0)'), RESTORING),
            "Not yet",
            "moved-position",
        ),
        "of another type": (
            lambda: records((PREAD, PREAD + ".float()")),
            "Not yet",
            "other-sample",
        ),
    },
    "06.transfer": {
        "its state is sent": (
            lambda: kept_generator(
                STATES
                % ("self.generator.get_state()", 'self.generator.set_state(state["generator"])')
            ),
            "Not yet",
            "freed-tensor",
        ),
        "in place": (
            lambda: clips(("clip + self.noise(clip, index)", "clip.add_(self.noise(clip, index))")),
            "Not yet",
            "wrong-later",
        ),
        "torch.manual_seed in __getitem__": (
            lambda: clips(
                (GENERATOR, GENERATOR.replace("g = torch.Generator()", "torch")),
                (", generator=g", ""),
            ),
            "Not yet",
            "changed",
        ),
        "the starter": (lambda: starter("transfer"), "Not attempted", "starter-class"),
    },
}

WRONG_FIXES: WrongFixes = {
    "06.diagnose": {
        "not to the end": (lambda: "tiles.reader.cache", "not-to-the-end"),
        "beyond the end": (lambda: "reader.cache.turn.acquire", "beyond"),
        "a lock that is never asked": (lambda: "rng.bit_generator.lock", "can-be-pickled"),
        "the random generator": (lambda: "rng", "can-be-pickled"),
        "the type": (lambda: "_thread.lock", "a-type"),
        "its name alone": (lambda: "turn", "no-attribute"),
        "no text": (lambda: 3, "not-a-string"),
    },
    "06.fix": {
        "num_workers=0": (
            lambda: records(("class MyRecords(Dataset)", "class MyRecords(DataLoader)")),
            "a-loader",
        ),
        "set_start_method": (
            lambda: records(
                ("SIZE = 8", 'torch.multiprocessing.set_start_method("fork", True)\nSIZE = 8'),
                (STATE, ""),
            ),
            "attributes-cannot-be-pickled",
        ),
        "opened late, and kept": (lambda: records((STATE, "")), "attributes-cannot-be-pickled"),
        "dropped, never opened again": (
            lambda: records(OPENS_AT_ONCE, NEVER_OPENS),
            "raised-in-a-loader",
        ),
        "deleted from the dataset itself": (
            lambda: records(OPENS_AT_ONCE, NEVER_OPENS, (STATE, DELETED % "" + REOPENS)),
            "raised-once-renamed",
        ),
        "a lambda that opens it": (
            lambda: records((OPENED, f"{OPENED}        self.open = lambda: {OPEN}\n")),
            "attributes-cannot-be-pickled",
        ),
        "opened for every record": (
            lambda: records((LAZY + READ, f"        return self.read({OPEN}, index)\n")),
            "raised-once-renamed",
        ),
        "seek and read on main's file": (lambda: records(BY_SEEK), "moved-position"),
        "closes main's file": (
            lambda: records(
                (
                    STATE,
                    "\n    def __getstate__(self):\n        if self.handle:\n"
                    "            self.handle.close()\n"
                    '        return {**vars(self), "handle": None}\n',
                )
            ),
            "raised-once-renamed",
        ),
        "the pickle has no count": (
            lambda: records(
                (
                    STATE,
                    STATE.replace(
                        '{**vars(self), "handle": None}', '{"path": self.path, "handle": None}'
                    ),
                )
            ),
            "raised",
        ),
        "the whole file in memory": (
            lambda: records((OPENED, f"{OPENED}        self.data = {OPEN}.read()\n")),
            "heavy-pickle",
        ),
        "a global of the module": (lambda: records(*MODULE_GLOBAL), "wrong-records"),
        "a class from a cell": (typed_into_a_cell, "not-a-path"),
        "no file": (lambda: "nowhere.py", "no-file"),
        "another name": (lambda: records(("class MyRecords", "class Records")), "not-in-the-file"),
        "an error in the file": (lambda: records(("SIZE = 8", "SIZE = 8 bytes")), "raised"),
        "one file for each process": (
            lambda: records(
                ("SIZE = 8\n", "SIZE = 8\nOPENED = {}\n"),
                (OPENED, ""),
                (
                    LAZY + READ,
                    "        if os.getpid() not in OPENED:\n"
                    f"            OPENED[os.getpid()] = {OPEN}\n"
                    "        return self.read(OPENED[os.getpid()], index)\n",
                ),
                (STATE, ""),
                BY_SEEK,
            ),
            "wrong-records",
        ),
        "records that main has read travel": (
            lambda: records(
                (OPENED, f"{OPENED}        self.cache = {{}}\n"),
                (
                    READ,
                    "        if index not in self.cache:\n"
                    "            self.cache[index] = self.read(self.handle, index)\n"
                    "        return self.cache[index]\n",
                ),
            ),
            "heavy-pickle",
        ),
    },
    "06.transfer": {
        "the lambda stays": (
            lambda: clips((LOADED, LOADED + "        self.scale = lambda clip: clip\n")),
            "attributes-cannot-be-pickled",
        ),
        "the generator stays": (kept_generator, "freed-tensor"),
        "made again on arrival": (
            lambda: kept_generator(STATES % ("None", "self.generator.manual_seed(self.seed)")),
            "wrong-noise",
        ),
        "a generator of the module, made by __init__": (
            lambda: clips(
                ("class MyClips(Dataset):", "shared = None\n\n\nclass MyClips(Dataset):"),
                (LOADED, f"        global shared\n        shared = torch.Generator()\n{LOADED}"),
                (GENERATOR, GENERATOR.replace("torch.Generator()", "shared")),
            ),
            "raised-in-a-loader",
        ),
        "scaled before the noise is on it": (
            lambda: clips(
                (
                    "self.scale(clip + self.noise(clip, index))",
                    "self.scale(clip) + self.noise(clip, index)",
                )
            ),
            "scaled-silence",
        ),
        "numpy's global numbers, started anew": (
            lambda: clips(
                (GENERATOR, GENERATOR.replace("g = torch.Generator().manual_", "np.random.")),
                (RANDN, "torch.from_numpy(np.random.normal(size=clip.shape)).float()"),
                ("import torch\n", "import numpy as np\nimport torch\n"),
            ),
            "changed",
        ),
        "random.seed at import": (
            lambda: clips(("import torch\n", "import random\n\nrandom.seed(0)\nimport torch\n")),
            "changed",
        ),
        "the index first": (lambda: seeded("10_000 * index + self.seed"), "wrong-noise"),
        "the seed plus the index": (lambda: seeded("self.seed + index"), "wrong-noise"),
        "numpy's generator for each sample": (
            lambda: clips(
                (GENERATOR, "        rng = np.random.default_rng(10_000 * self.seed + index)\n"),
                (RANDN, "torch.from_numpy(rng.normal(size=clip.shape)).float()"),
                ("import torch\n", "import numpy as np\nimport torch\n"),
            ),
            "wrong-noise",
        ),
        "uniform": (lambda: clips((RANDN, RANDN.replace("randn", "rand"))), "wrong-noise"),
        "no noise": (lambda: clips(("clip + self.noise(clip, index)", "clip")), "scaled-silence"),
        "scaled to the loudest of all clips": (
            lambda: clips((SCALE, "        return clip / self.clips.abs().max()\n")),
            "wrong-scale",
        ),
        "scaled to the highest value, not the loudest": (
            lambda: clips((SCALE, "        return clip / clip.max()\n")),
            "wrong-scale",
        ),
        "of another type": (
            lambda: clips((RANDN, RANDN.replace("generator=", "dtype=torch.float64, generator="))),
            "other-sample",
        ),
        "a wrong length": (
            lambda: clips(("return len(self.clips)", "return len(self.clips) - 1")),
            "other-length",
        ),
        "num_workers=0": (
            lambda: clips(("class MyClips(Dataset)", "class MyClips(DataLoader)")),
            "a-loader",
        ),
    },
}
