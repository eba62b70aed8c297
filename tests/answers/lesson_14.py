"""The usual answers in the incident room: reports of folders, fixed in some way or other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from answers import OtherOutcomes, RightAnswers, WrongFixes
from dltutor.failures.kit.handles import own_folder
from dltutor.lessons.lesson_14 import Report, images, ranks, table, text, validation, video
from dltutor.lessons.lesson_14.scene import Incident, Scene

Change = tuple[str, str]


def report(incident: Incident, cause: Any, where: Any, *changes: Change) -> Callable[[], Report]:
    """A report of an incident's folder, with some lines of its two files replaced."""

    def make() -> Report:
        folder = own_folder() / incident.name
        incident.lay_out(folder, 3)
        sources = {name: (folder / name).read_text() for name in ("data.py", "train.py")}
        for old, new in changes:
            assert any(old in each for each in sources.values()), old
            sources = {name: each.replace(old, new) for name, each in sources.items()}
        for name, source in sources.items():
            (folder / name).write_text(source)
        return Report(Scene(incident, folder), cause, where)

    return make


# text

BY_BLOCK = (
    "            for start in range(0, len(tokens) - CONTEXT, CONTEXT):\n",
    "            info = torch.utils.data.get_worker_info()\n"
    "            first, step = (info.id, info.num_workers) if info else (0, 1)\n"
    "            for start in range(first * CONTEXT, len(tokens) - CONTEXT, step * CONTEXT):\n",
)
SHARDS = "        for shard in self.shards:\n"
INFO = "        info = torch.utils.data.get_worker_info()\n"
BY_SHARD = (
    SHARDS,
    f"{INFO}        mine = self.shards[info.id :: info.num_workers] if info else self.shards\n"
    "        for shard in mine:\n",
)
ISLICE = (
    "    def __iter__(self):\n",
    "    def __iter__(self):\n"
    "        from itertools import islice\n"
    f"{INFO}"
    "        first, step = (info.id, info.num_workers) if info else (0, 1)\n"
    "        return islice(self.every(), first, None, step)\n\n"
    "    def every(self):\n",
)
INIT_FN = (
    "Blocks(folder), BATCH,",
    "Blocks(folder), BATCH, worker_init_fn=deal,",
)
DEAL = (
    "def count_blocks",
    "def deal(worker):\n"
    "    info = torch.utils.data.get_worker_info()\n"
    "    info.dataset.shards = info.dataset.shards[worker :: info.num_workers]\n\n\n"
    "def count_blocks",
)
MAP_STYLE = ("Blocks(folder), BATCH", "list(Blocks(folder)), BATCH")
STREAM = "repeated_stream"

# table

LAZY = "        if self.connection is None:\n"
BY_PID = (
    LAZY,
    "        import os\n\n"
    "        if self.connection is None or self.pid != os.getpid():\n"
    "            self.pid = os.getpid()\n",
)
A_DICT = (
    f"{LAZY}            self.connection = Connection(self.folder)\n"
    "        return np.array(self.connection.row(customer))\n",
    "        import os\n\n"
    "        if os.getpid() not in self.connections:\n"
    "            self.connections[os.getpid()] = Connection(self.folder)\n"
    "        return np.array(self.connections[os.getpid()].row(customer))\n",
)
MODULE_DICT = (
    A_DICT[0],
    A_DICT[1]
    .replace("self.connections", "OPEN")
    .replace("os.getpid()", "(str(self.folder), os.getpid())"),
)
IN_MODULE = ("CUSTOMERS = 64\n", "CUSTOMERS = 64\nOPEN = {}\n")
BY_WORKER = (
    LAZY,
    "        info = torch.utils.data.get_worker_info()\n"
    "        if self.connection is None or (info and info.id and self.opened_by != info.id):\n"
    "            self.opened_by = info.id if info else 0\n",
)
NO_CONNECTIONS = ("        self.connection = None  #", "        self.connections = {}  #")
IN_WORKER = (
    "        shuffle=True,\n",
    "        shuffle=True,\n        worker_init_fn=reconnect,\n",
)
RECONNECT = (
    "def make_loader",
    "def reconnect(worker):\n"
    "    dataset = torch.utils.data.get_worker_info().dataset\n"
    "    dataset.connection = Connection(dataset.folder)\n\n\n"
    "def make_loader",
)
CLOSED = (
    "        return rows.mean(axis=0), rows.std(axis=0)\n",
    "        self.connection.close()\n"
    "        self.connection = None\n"
    "        return rows.mean(axis=0), rows.std(axis=0)\n",
)
EACH_TIME = (LAZY, "        if True:\n")
FROM_FILE = (
    "        return np.array(self.connection.row(customer))\n",
    "        return np.load(f'{self.folder}/rows.npy')[customer]\n",
)
AT_ONCE = (
    "        self.mean, self.deviation = self.statistics()\n",
    "        self.mean, self.deviation = self.statistics()\n"
    "        self.kept = [self.row(customer) for customer in range(CUSTOMERS)]\n",
)
KEPT = ("(self.row(customer) - self.mean)", "(self.kept[customer] - self.mean)")
TOUCHED = "lazy_but_touched"

# images

STREAM_OF_NUMPY = (
    ("self.rng.integers", "np.random.randint"),
    ("self.rng.uniform", "np.random.uniform"),
)
OF_TORCH = (
    (
        "top, left = self.rng.integers(0, photo.shape[-1] - SIZE + 1, size=2)",
        "top, left = torch.randint(0, photo.shape[-1] - SIZE + 1, (2,)).tolist()",
    ),
    ("self.rng.uniform(-0.5, 0.5)", "(torch.rand(1).item() - 0.5)"),
)
SHARED = (
    ("self.strength = 0.0", "self.strength = torch.zeros(1).share_memory_()"),
    ("self.strength = min", "self.strength[0] = min"),
    ("self.strength * ", "self.strength.item() * "),
)
VALUE = (
    ("self.strength = 0.0", 'self.now = multiprocessing.get_context("fork").Value("d", 0.0)'),
    ("self.strength = min", "self.now.value = min"),
    ("self.strength * ", "self.now.value * "),
    ("import numpy as np\n", "import multiprocessing\n\nimport numpy as np\n"),
)
RESEED = (
    (
        "        shuffle=True,\n",
        "        shuffle=True,\n        worker_init_fn=reseed,\n",
    ),
    (
        "def make_loader",
        "def reseed(worker):\n"
        "    info = torch.utils.data.get_worker_info()\n"
        "    info.dataset.rng = np.random.default_rng(info.seed)\n\n\n"
        "def make_loader",
    ),
)
BY_SAMPLE = (
    (
        "        self.rng = ",
        "        self.epoch = torch.zeros(1).share_memory_()\n        self.rng = ",
    ),
    (
        "        photo = self.photos[index]\n",
        "        photo = self.photos[index]\n"
        "        rng = np.random.default_rng((SEED, int(self.epoch), index))\n",
    ),
    ("self.rng.integers", "rng.integers"),
    ("self.rng.uniform", "rng.uniform"),
    ("        self.strength[0]", "        self.epoch[0] = epoch\n        self.strength[0]"),
)
BY_SUM = (
    *BY_SAMPLE[:1],
    (
        BY_SAMPLE[1][0],
        BY_SAMPLE[1][1].replace("(SEED, int(self.epoch), index)", "SEED + int(self.epoch) + index"),
    ),
    *BY_SAMPLE[2:],
)
BY_INDEX = (
    (
        "        photo = self.photos[index]\n",
        "        photo = self.photos[index]\n        rng = np.random.default_rng((SEED, index))\n",
    ),
    ("self.rng.integers", "rng.integers"),
    ("self.rng.uniform", "rng.uniform"),
)
FRESH_WORKERS = ("persistent_workers=workers > 0", "persistent_workers=False")
LOADER_EACH_EPOCH = (
    "    for epoch in range(epochs):\n        loader.dataset",
    "    for epoch in range(epochs):\n        loader = make_loader(folder, workers)\n"
    "        loader.dataset",
)
BOTH = ["repeated_randomness", "stale_epoch"]
PLACES = ["rng", "set_epoch"]

# video

PATHS = '        self.paths = sorted(Path(folder, "clips").glob("*.clip"))\n'
SORTED = (
    PATHS,
    '        every = sorted(Path(folder, "clips").glob("*.clip"))\n'
    "        self.paths = [path for path in every if decodable(path)]\n"
    "        self.skipped = [path.name for path in every if path not in self.paths]\n",
)


def decodable(body: str) -> Change:
    """A function that says whether a clip can be decoded."""
    return "class Clips", f"def decodable(path):\n{body}\n\nclass Clips"


IN_A_PROCESS = decodable(
    "    import multiprocessing\n\n"
    '    process = multiprocessing.get_context("fork").Process(target=decode, args=(path,))\n'
    "    process.start()\n    process.join()\n    return process.exitcode == 0\n"
)
BY_FORK = decodable(
    "    import os\n\n    pid = os.fork()\n    if pid == 0:\n"
    "        try:\n            decode(path)\n        except BaseException:\n"
    "            os._exit(1)\n        os._exit(0)\n"
    "    return os.waitpid(pid, 0)[1] == 0\n"
)
BY_POOL = decodable(
    "    import multiprocessing\n"
    "    from concurrent.futures import ProcessPoolExecutor\n"
    "    from concurrent.futures.process import BrokenProcessPool\n\n"
    '    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:\n'
    "        try:\n            pool.submit(decode, path).result()\n"
    "        except (BrokenProcessPool, ValueError):\n            return False\n"
    "    return True\n"
)
BY_HEADER = decodable(
    "    data = path.read_bytes()\n"
    '    return data[:4] == b"CLIP" and int.from_bytes(data[4:8], "little") <= len(data)\n'
)
BY_TRY = decodable(
    "    try:\n        decode(path)\n    except BaseException:\n        return False\n"
    "    return True\n"
)
DEATHS_ONLY = decodable(
    "    import multiprocessing\n\n"
    '    process = multiprocessing.get_context("fork").Process(target=decode, args=(path,))\n'
    "    process.start()\n    process.join()\n    return process.exitcode >= 0\n"
)
UNLINKED = (
    SORTED[0],
    SORTED[1] + "        for name in self.skipped:\n"
    '            Path(folder, "clips", name).unlink()\n',
)
UNNAMED = (SORTED[0], SORTED[1].replace("path.name for path in every if", "path for path in [] if"))
COUNTED = (
    SORTED[0],
    SORTED[1]
    .replace("self.skipped = [", "self.skipped = len([")
    .replace("self.paths]\n        self.skipped", "self.paths]\n        self.skipped")
    .replace("not in self.paths]", "not in self.paths])"),
)
NEIGHBOR = (
    "        frames = torch.from_numpy(decode(path)) / 255\n",
    "        try:\n            frames = torch.from_numpy(decode(path)) / 255\n"
    "        except BaseException:\n            return self[index - 1]\n",
)

# validation

LOOP = (
    "    for _ in range(VALIDATION_STEPS):\n        scans, kinds = next(iter(loader))\n",
    "    for scans, kinds in loader:\n",
)
ONE_ITERATOR = (
    "    for _ in range(VALIDATION_STEPS):\n        scans, kinds = next(iter(loader))\n",
    "    batches = iter(loader)\n    for _ in range(VALIDATION_STEPS):\n"
    "        scans, kinds = next(batches)\n",
)
IN_ORDER = ("shuffle=True", "shuffle=not validation")
NO_GRAD = ("def validate", "@torch.no_grad()\ndef validate")
ITEM = ("total + losses.mean() /", "total + losses.mean().item() /")
CLONE = ("scans[losses.argmax()])", "scans[losses.argmax()].clone())")
DETACH = ("scans[losses.argmax()])", "scans[losses.argmax()].detach())")
KEEPS = ["kept_batches", "loader_per_step"]
FIXED = (LOOP, IN_ORDER, NO_GRAD, CLONE)

# ranks

SAMPLER = "sampler=Share(len(dataset), rank, ranks)"
DISTRIBUTED = (SAMPLER, "sampler=torch.utils.data.DistributedSampler(dataset, ranks, rank)")
DROPPED = (
    SAMPLER,
    "sampler=torch.utils.data.DistributedSampler(dataset, ranks, rank, drop_last=True)",
)
EPOCHS = "    for epoch in range(epochs):\n"
TOLD = (EPOCHS, f"{EPOCHS}        loader.sampler.set_epoch(epoch)\n")
OWN = (
    (
        "        self.length, self.rank, self.ranks = length, rank, ranks\n",
        "        self.length, self.rank, self.ranks = length, rank, ranks\n"
        "        self.epoch = 0\n",
    ),
    ("Generator().manual_seed(0)", "Generator().manual_seed(self.epoch)"),
    (
        "tolist()\n        return iter(",
        "tolist()\n        order += order[: -self.length % self.ranks]\n        return iter(",
    ),
    (
        "len(range(self.rank, self.length, self.ranks))",
        "-(-self.length // self.ranks)",
    ),
    (EPOCHS, f"{EPOCHS}        loader.sampler.epoch = epoch\n"),
)
TRUNCATED = (
    "tolist()\n        return iter(",
    "tolist()\n        order = order[: self.length // self.ranks * self.ranks]\n"
    "        return iter(",
)
OWN_SEED = ("Generator().manual_seed(0)", "Generator().manual_seed(torch.initial_seed())")
RANK_SEED = (
    TOLD,
    DISTRIBUTED,
    (
        "DistributedSampler(dataset, ranks, rank",
        "DistributedSampler(dataset, ranks, rank, seed=rank",
    ),
)
NO_BARRIER = ("    distributed.barrier()\n", "")


RIGHT_ANSWERS: RightAnswers = {
    "14.text": {
        "each worker takes every n-th block": report(
            text.INCIDENT, STREAM, "Blocks.__iter__", BY_BLOCK
        ),
        "whole shards, by number": report(text.INCIDENT, "repeated stream", "__iter__", BY_SHARD),
        "islice of all": report(text.INCIDENT, [STREAM], ["data.py: Blocks"], ISLICE),
        "dealt in worker_init_fn": report(text.INCIDENT, STREAM, "Blocks", INIT_FN, DEAL),
        "all blocks read in main": report(
            text.INCIDENT, "repeated-stream", "class Blocks", MAP_STYLE
        ),
    },
    "14.table": {
        "by pid": report(table.INCIDENT, TOUCHED, "Customers.row", BY_PID),
        "a dict by pid": report(table.INCIDENT, TOUCHED, "connection", A_DICT, NO_CONNECTIONS),
        "worker_init_fn": report(
            table.INCIDENT, "shared_connection", ["statistics"], IN_WORKER, RECONNECT
        ),
        "all rows are read in main": report(table.INCIDENT, TOUCHED, "row", AT_ONCE, KEPT),
    },
    "14.images": {
        "numpy's global numbers, a shared tensor": report(
            images.INCIDENT, BOTH, PLACES, *STREAM_OF_NUMPY, *SHARED
        ),
        "torch's numbers, a Value": report(images.INCIDENT, BOTH, PLACES, *OF_TORCH, *VALUE),
        "a generator from the worker's seed": report(
            images.INCIDENT, "stale_epoch, repeated_randomness", PLACES, *RESEED, *SHARED
        ),
        "a generator for each sample and epoch": report(
            images.INCIDENT, BOTH[::-1], "Photos.rng and Photos.strength", *SHARED, *BY_SAMPLE
        ),
    },
    "14.video": {
        "in a process": report(video.INCIDENT, "dead_worker", "decode", SORTED, IN_A_PROCESS),
        "by fork": report(video.INCIDENT, "dead worker", "Clips.__getitem__", SORTED, BY_FORK),
        "in a pool of one": report(
            video.INCIDENT, ["dead_worker"], "codec.decode", SORTED, BY_POOL
        ),
        "by the header": report(video.INCIDENT, "dead_worker", "decode", SORTED, BY_HEADER),
    },
    "14.validation": {
        "no graph, copies": report(validation.INCIDENT, KEEPS, "validate", *FIXED),
        "numbers, copies": report(
            validation.INCIDENT, KEEPS, "validate", LOOP, IN_ORDER, ITEM, CLONE
        ),
        "what the log says": report(
            validation.INCIDENT, ["too_many_open_files", "loader_per_step"], "validate", *FIXED
        ),
        "one iterator": report(
            validation.INCIDENT, KEEPS, ["hardest", "next(iter(loader))"], *FIXED[1:], ONE_ITERATOR
        ),
    },
    "14.ranks": {
        "DistributedSampler, told": report(ranks.INCIDENT, "ranks", "Share", DISTRIBUTED, TOLD),
        "the own sampler, padded": report(ranks.INCIDENT, "ranks", "Share.__iter__", *OWN),
    },
}

WRONG_FIXES: WrongFixes = {
    "14.text": {
        "no workers": (
            report(
                text.INCIDENT,
                STREAM,
                "Blocks",
                ("num_workers=workers", "num_workers=0"),
                ("if workers else None", "if False else None"),
            ),
            "2 workers were asked for, and the loader has 0",
        ),
        "a comment": (
            report(text.INCIDENT, STREAM, "Blocks", ("CONTEXT = 32\n", "CONTEXT = 32  # ok\n")),
            "came once too often",
        ),
        "by shard, without 0 workers": (
            report(
                text.INCIDENT,
                STREAM,
                "Blocks",
                (SHARDS, f"{INFO}        for shard in self.shards[info.id :: info.num_workers]:\n"),
            ),
            "without workers, `AttributeError",
        ),
        "two workers only": (
            report(
                text.INCIDENT,
                STREAM,
                "Blocks",
                (
                    SHARDS,
                    f"{INFO}        mine = self.shards[info.id :: 2] if info else self.shards\n"
                    "        for shard in mine:\n",
                ),
            ),
            "With 3 workers under fork",
        ),
        "the last batches are dropped": (
            report(
                text.INCIDENT,
                STREAM,
                "Blocks",
                BY_BLOCK,
                ("BATCH, num", "BATCH, drop_last=True, num"),
            ),
            "are missing",
        ),
        "stops after the planned steps": (
            report(
                text.INCIDENT,
                STREAM,
                "Blocks",
                ("        for shard in self.shards:\n", "        for shard in self.shards[:1]:\n"),
            ),
            "are missing",
        ),
        "another cause, fixed": (
            report(text.INCIDENT, "wrong_length", "Blocks", BY_BLOCK),
            "`wrong_length` is not what happened here",
        ),
        "no such cause": (
            report(text.INCIDENT, "duplicates", "Blocks", BY_BLOCK),
            "No failure mode is called 'duplicates'",
        ),
        "the wrong place, fixed": (
            report(text.INCIDENT, STREAM, "train", BY_BLOCK),
            "`where` does not name its place",
        ),
        "only said": (report(text.INCIDENT, STREAM, "Blocks"), "are as they came"),
        "everything named": (
            report(text.INCIDENT, [STREAM, "lost_tail", "wrong_length"], "Blocks", BY_BLOCK),
            "You name 3 causes",
        ),
    },
    "14.table": {
        "no workers": (
            report(
                table.INCIDENT,
                TOUCHED,
                "row",
                ("num_workers=workers", "num_workers=0"),
                ("workers > 0", "False"),
                ("if workers else None", "if False else None"),
            ),
            "2 workers were asked for",
        ),
        "closed after the statistics": (
            report(table.INCIDENT, TOUCHED, "row", CLOSED),
            "another customer's",
        ),
        "worker 0 has main's": (
            report(table.INCIDENT, TOUCHED, "row", BY_WORKER),
            "another customer's",
        ),
        "one for each row": (
            report(table.INCIDENT, TOUCHED, "row", EACH_TIME),
            "connections were opened so far",
        ),
        "from the file": (
            report(
                table.INCIDENT,
                TOUCHED,
                "row",
                ("self.row(customer) for", "np.load(f'{self.folder}/rows.npy')[customer] for"),
                FROM_FILE,
                ("            self.connection = Connection(self.folder)\n", "            pass\n"),
            ),
            "No connection to the server was opened",
        ),
        "another cause": (
            report(table.INCIDENT, "shared_file_offset", "row", BY_PID),
            "`shared_file_offset` is not what happened here",
        ),
        "only said": (report(table.INCIDENT, TOUCHED, "row"), "are as they came"),
    },
    "14.images": {
        "numbers only": (
            report(images.INCIDENT, BOTH, PLACES, *STREAM_OF_NUMPY),
            "Which epoch do the workers",
        ),
        "the ramp only": (report(images.INCIDENT, BOTH, PLACES, *SHARED), "of a batch before them"),
        "fresh workers": (
            report(images.INCIDENT, BOTH, PLACES, *STREAM_OF_NUMPY, FRESH_WORKERS),
            "processes were started for 6 epochs",
        ),
        "a loader for each epoch": (
            report(images.INCIDENT, BOTH, PLACES, *STREAM_OF_NUMPY, LOADER_EACH_EPOCH),
            "processes were started for 6 epochs",
        ),
        "by index": (
            report(images.INCIDENT, BOTH, PLACES, *SHARED, *BY_INDEX),
            "at the same place in two epochs in a row",
        ),
        "seeds that are sums": (
            report(images.INCIDENT, BOTH, PLACES, *SHARED, *BY_SUM),
            "draws of place and brightness",
        ),
        "no augmentation": (
            report(
                images.INCIDENT,
                BOTH,
                PLACES,
                *SHARED,
                ("self.rng.integers(0, photo.shape[-1] - SIZE + 1, size=2)", "(4, 4)"),
                ("self.rng.uniform", "np.random.uniform"),
            ),
            "of a batch before them",
        ),
        "one cause of two": (
            report(images.INCIDENT, "stale_epoch", "set_epoch", *STREAM_OF_NUMPY, *SHARED),
            "does not explain all that the ticket tells",
        ),
        "only said": (report(images.INCIDENT, BOTH, PLACES), "are as they came"),
    },
    "14.video": {
        "a try in main": (
            report(video.INCIDENT, "dead_worker", "decode", SORTED, BY_TRY),
            "killed by SIGSEGV",
        ),
        "the neighbor instead": (
            report(video.INCIDENT, "dead_worker", "decode", NEIGHBOR),
            "killed by SIGSEGV",
        ),
        "deaths only": (
            report(video.INCIDENT, "dead_worker", "decode", SORTED, DEATHS_ONLY),
            "is no clip",
        ),
        "deletes them": (
            report(video.INCIDENT, "dead_worker", "decode", UNLINKED, IN_A_PROCESS),
            "new, gone or changed",
        ),
        "does not name them": (
            report(video.INCIDENT, "dead_worker", "decode", UNNAMED, IN_A_PROCESS),
            "has 0 of the 3 clips",
        ),
        "counts them": (
            report(video.INCIDENT, "dead_worker", "decode", COUNTED, IN_A_PROCESS),
            "not the names of files",
        ),
        "another cause": (
            report(video.INCIDENT, "corrupt_images", "decode", SORTED, IN_A_PROCESS),
            "`corrupt_images` is not what happened here",
        ),
    },
    "14.validation": {
        "workers for each batch": (
            report(validation.INCIDENT, KEEPS, "validate", IN_ORDER, NO_GRAD, CLONE),
            "started 64 processes",
        ),
        "shuffled": (
            report(validation.INCIDENT, KEEPS, "validate", LOOP, NO_GRAD, CLONE),
            "are the hardest of their batch",
        ),
        "views": (
            report(validation.INCIDENT, KEEPS, "validate", LOOP, IN_ORDER, NO_GRAD),
            "batches were alive",
        ),
        "detached views": (
            report(validation.INCIDENT, KEEPS, "validate", LOOP, IN_ORDER, ITEM, DETACH),
            "batches were alive",
        ),
        "a graph": (
            report(validation.INCIDENT, KEEPS, "validate", LOOP, IN_ORDER, CLONE),
            "were alive",
        ),
        "all batches at once": (
            report(
                validation.INCIDENT,
                KEEPS,
                "validate",
                (LOOP[0], "    for scans, kinds in list(loader):\n"),
                *FIXED[1:],
            ),
            "batches were alive",
        ),
        "copied at the end": (
            report(
                validation.INCIDENT,
                KEEPS,
                "validate",
                LOOP,
                IN_ORDER,
                NO_GRAD,
                ("return total, hardest\n", "return total, [each.clone() for each in hardest]\n"),
            ),
            "batches were alive",
        ),
        "gradients zeroed": (
            report(
                validation.INCIDENT,
                KEEPS,
                "validate",
                *FIXED,
                ("    total, hardest", "    model.zero_grad()\n    total, hardest"),
            ),
            "gradients of the model's parameters",
        ),
        "left in eval": (
            report(
                validation.INCIDENT,
                KEEPS,
                "validate",
                *FIXED,
                ("    total, hardest", "    model.eval()\n    total, hardest"),
            ),
            "left in another",
        ),
        "no workers": (
            report(
                validation.INCIDENT,
                KEEPS,
                "validate",
                *FIXED,
                ("(folder, workers, validation=True)", "(folder, 0, validation=True)"),
            ),
            "no processes were started",
        ),
        "one cause of two": (
            report(validation.INCIDENT, "kept_batches", "validate", *FIXED),
            "does not explain all",
        ),
    },
    "14.ranks": {
        "not told the epoch": (
            report(ranks.INCIDENT, "ranks", "Share", DISTRIBUTED),
            "same order in two epochs",
        ),
        "dropped": (
            report(ranks.INCIDENT, "ranks", "Share", DROPPED, TOLD),
            "came to no rank",
        ),
        "truncated": (
            report(ranks.INCIDENT, "ranks", "Share", TRUNCATED),
            "came to no rank",
        ),
        "a seed of this process": (
            report(ranks.INCIDENT, "ranks", "Share", OWN_SEED),
            "the ranks get",
        ),
        "a seed for each rank": (
            report(ranks.INCIDENT, "ranks", "Share", *RANK_SEED),
            "came to no rank",
        ),
        "no barrier": (report(ranks.INCIDENT, "ranks", "Share", NO_BARRIER), "the ranks get"),
    },
}

OTHER_OUTCOMES: OtherOutcomes = {
    "14.text": {
        "nothing": (lambda: ..., "Not attempted", "hand in a `Report`"),
        "an empty report": (
            report(text.INCIDENT, ..., ...),
            "Not attempted",
            "what it is and where",
        ),
    },
    "14.table": {
        "another's report": (
            report(text.INCIDENT, STREAM, "Blocks", BY_BLOCK),
            "Error in your code",
            "of the incident 'text'",
        ),
    },
}
