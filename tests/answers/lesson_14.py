"""The usual answers in the incident room: reports of folders, fixed in some way or other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from answers import OtherOutcomes, RightAnswers, WrongFixes
from dltutor.failures.tools.handles import own_folder
from dltutor.lessons.lesson_14 import Report, images, ranks, table, text, validation, video
from dltutor.lessons.lesson_14.scene import Incident, Scene

Change = tuple[str, str]


def report(incident: Incident, cause: Any, where: Any, *changes: Change) -> Callable[[], Report]:
    """A report of an incident's folder, with some lines of its files replaced."""

    def make() -> Report:
        folder = own_folder() / incident.name
        incident.lay_out(folder)
        files = [path for path in folder.glob("*.py") if path.name not in incident.not_yours]
        sources = {path: path.read_text() for path in files}
        for old, new in changes:
            assert any(old in each for each in sources.values()), old
            sources = {path: each.replace(old, new) for path, each in sources.items()}
        for path, source in sources.items():
            path.write_text(source)
        return Report(Scene(incident, folder), cause, where)

    return make


# text

DEAL = "        for shard in share(shuffled(self.shards)):\n"
DEALT_FIRST = (DEAL, "        for shard in shuffled(share(self.shards)):\n")
BY_BLOCK = (
    DEAL + "            for number in range(len(shard)):\n",
    "        from itertools import islice\n\n"
    "        info = get_worker_info()\n"
    "        first, step, seed = (\n"
    "            (info.id, info.num_workers, info.seed - info.id) if info else (0, 1, None)\n"
    "        )\n"
    "        shards = random.Random(seed).sample(self.shards, len(self.shards))\n"
    "        every = ((shard, number) for shard in shards for number in range(len(shard)))\n"
    "        if True:\n"
    "            for shard, number in islice(every, first, None, step):\n",
)
SAME_SEED = (
    "    return random.sample(things, len(things))\n",
    "    info = get_worker_info()\n"
    "    seed = info.seed - info.id if info else None\n"
    "    return random.Random(seed).sample(things, len(things))\n",
)
UNEQUAL_SEED = (SAME_SEED[0], SAME_SEED[1].replace(" - info.id", ""))
THREADS = "    torch.set_num_threads(1)\n"
INIT_FN = (
    (
        THREADS,
        f"{THREADS}    info = torch.utils.data.get_worker_info()\n"
        "    info.dataset.shards = info.dataset.shards[worker :: info.num_workers]\n",
    ),
    (DEAL, "        for shard in shuffled(self.shards):\n"),
)
COUNTED_EPOCHS = (
    ("        self.shards = shards\n", "        self.shards, self.epoch = shards, 0\n"),
    (
        DEAL,
        "        self.epoch += 1\n"
        "        order = random.Random(self.epoch).sample(self.shards, len(self.shards))\n"
        "        for shard in share(order):\n",
    ),
)
SHARED_EPOCHS = (
    (
        "        self.shards = shards\n",
        "        self.shards = shards\n"
        '        self.epoch = __import__("multiprocessing").get_context("fork").Value("q", 0)\n',
    ),
    (
        DEAL,
        "        info = get_worker_info()\n"
        "        with self.epoch.get_lock():\n"
        "            epoch = self.epoch.value // (info.num_workers if info else 1)\n"
        "            self.epoch.value += 1\n"
        "        order = random.Random(epoch).sample(self.shards, len(self.shards))\n"
        "        for shard in share(order):\n",
    ),
)
FIRST_ALONE = (
    "    return things[info.id :: info.num_workers] if info else things\n",
    "    return [] if info and info.id else things\n",
)
SEEDED = (THREADS, f'{THREADS}    __import__("random").seed(3)\n')
SEED_OF_ALL = (
    THREADS,
    f'{THREADS}    __import__("random").seed(torch.initial_seed() - worker)\n',
)
UNSHUFFLED = (DEAL, "        for shard in share(self.shards):\n")
MAP_STYLE = ("Blocks(load(folder)),\n        BATCH", "[*Blocks(load(folder))],\n        BATCH")
MAP_SHUFFLED = (MAP_STYLE[0], MAP_STYLE[1] + ",\n        shuffle=True")
NO_WORKERS = (
    ("num_workers=workers", "num_workers=0"),
    ('"fork" if workers else None', "None"),
)
STREAM = "repeated_stream"

# table

KEPT_FOR = "    connections = vars(_own)\n"
BY_PID = (
    KEPT_FOR,
    "    if vars(_own).get(0) != os.getpid():\n"
    "        vars(_own).clear()\n        vars(_own)[0] = os.getpid()\n" + KEPT_FOR,
)
MODULE_DICT = (
    ("_own = threading.local()\n", "_own = {}\n"),
    (KEPT_FOR, "    connections = _own.setdefault(os.getpid(), {})\n"),
)
AFTER_FORK = (
    "_own = threading.local()\n",
    "_own = threading.local()\nos.register_at_fork(after_in_child=lambda: vars(_own).clear())\n",
)
ONE_LOCK = (
    "_lock = threading.Lock()",
    '_lock = __import__("multiprocessing").get_context("fork").Lock()',
)
IN_WORKER = (
    ("        shuffle=True,\n", "        shuffle=True,\n        worker_init_fn=reconnect,\n"),
    (
        "def make_loader",
        "def reconnect(worker):\n    import rows\n\n    vars(rows._own).clear()\n\n\n"
        "def make_loader",
    ),
)
CLOSED = (
    (
        "        self.scale = Scaler(read(folder, customer) for customer in range(CUSTOMERS))\n",
        "        self.scale = Scaler(read(folder, customer) for customer in range(CUSTOMERS))\n"
        "        import rows\n\n        vars(rows._own).clear()\n",
    ),
)
BY_WORKER = (
    KEPT_FOR,
    "    from torch.utils.data import get_worker_info\n\n"
    "    info = get_worker_info()\n"
    "    connections = vars(_own).setdefault(info.id if info else 0, {})\n",
)
BY_THREAD_ID = (KEPT_FOR, "    connections = vars(_own).setdefault(threading.get_ident(), {})\n")
EACH_TIME = ("    if folder not in connections:\n", "    if True:\n")
SMALL_CACHE = ("    with _lock:\n", "    read.cache_clear()\n    with _lock:\n")
FROM_FILE = (
    "        return np.array(connection(folder).row(customer))\n",
    "        return np.load(f'{folder}/rows.npy')[customer]\n",
)
AT_ONCE = (
    (
        "        self.scale = Scaler(read(folder, customer) for customer in range(CUSTOMERS))\n",
        "        self.kept = [read(folder, customer) for customer in range(CUSTOMERS)]\n"
        "        self.scale = Scaler(self.kept)\n",
    ),
    ("self.scale(read(self.folder, customer))", "self.scale(self.kept[customer])"),
)
TOUCHED = "lazy_but_touched"

# images

DRAWN = (
    "        top, left = self.numbers.integers(0, photo.shape[-1] - SIZE + 1, size=2)\n",
    "self.numbers.uniform(-0.5, 0.5)",
)
OF_NUMPY = (
    ("self.numbers.integers", "np.random.randint"),
    ("self.numbers.uniform", "np.random.uniform"),
)
OF_TORCH = (
    (
        DRAWN[0],
        "        import torch\n\n"
        "        top, left = torch.randint(0, photo.shape[-1] - SIZE + 1, (2,)).tolist()\n",
    ),
    (DRAWN[1], '(__import__("torch").rand(1).item() - 0.5)'),
)
UNWRAPPED = (
    'getattr(get_worker_info().dataset, "transform", None)',
    'getattr(get_worker_info().dataset.dataset, "transform", None)',
)
OF_SUBSET = (
    "    return Subset(photos, [index for index in range(len(photos)) if index % HELD_OUT])\n",
    "    held_in = Subset(photos, [index for index in range(len(photos)) if index % HELD_OUT])\n"
    "    held_in.transform = photos.transform\n    return held_in\n",
)
SAME_FOR_ALL = (
    UNWRAPPED,
    (
        "transform.restart(torch.initial_seed())",
        "transform.restart(get_worker_info().seed - worker)",
    ),
)
RAMP = "        self.epoch = epoch\n\n    @property\n"
SHARED = (
    (
        RAMP,
        "        import torch\n\n        self.shared = torch.zeros(1).share_memory_()\n"
        "        self.epoch = epoch\n\n"
        "    @property\n    def epoch(self):\n        return self.shared.item()\n\n"
        "    @epoch.setter\n    def epoch(self, epoch):\n        self.shared[0] = epoch\n\n"
        "    @property\n",
    ),
)
VALUE = (
    (
        RAMP,
        "        import multiprocessing\n\n"
        '        self.now = multiprocessing.get_context("fork").Value("d", epoch)\n\n'
        "    @property\n",
    ),
    ("self.epoch / RAMP", "self.now.value / RAMP"),
    ("        ramp.epoch = epoch\n", "        ramp.now.value = epoch\n"),
)
FILE = (
    (
        RAMP,
        '        self.path = __import__("pathlib").Path(__file__).with_name("epoch.txt")\n'
        "        self.path.write_text(str(epoch))\n\n    @property\n",
    ),
    ("self.epoch / RAMP", "int(self.path.read_text()) / RAMP"),
    ("        ramp.epoch = epoch\n", "        ramp.path.write_text(str(epoch))\n"),
)
SAMPLE = "        photo = self.photos[index].astype(np.float32) / 255\n"
SEEDS = "int(self.transform.steps[2].ramp.epoch) {} 1000 + index"
BY_SAMPLE = (
    *SHARED,
    (SAMPLE, f"{SAMPLE}        self.transform.restart({SEEDS.format('*')})\n"),
)
BY_SUM = (
    *SHARED,
    (SAMPLE, f"{SAMPLE}        self.transform.restart({SEEDS.format('+')})\n"),
)
BY_INDEX = (*SHARED, (SAMPLE, f"{SAMPLE}        self.transform.restart(index)\n"))
FRESH_WORKERS = ("persistent_workers=workers > 0", "persistent_workers=False")
LOADER_EACH_EPOCH = (
    "    for epoch in range(epochs):\n        ramp",
    "    for epoch in range(epochs):\n        loader = make_loader(folder, workers, ramp)\n"
    "        ramp",
)
NOT_MIRRORED = ("Compose(Crop(), Mirror(), ", "Compose(Crop(), ")
NOT_BRIGHTER = (", Brightness(ramp or Ramp())", "")
SAME_FOR_ALL_PHOTOS = (
    "            yield epoch, photos, labels\n",
    "            yield epoch, photos * (1 + 0.45 * ramp.strength), labels\n",
)
PREFETCHED = (
    "        ramp.epoch = epoch\n        for photos, labels in loader:\n",
    "        fetched = iter(loader)\n        __import__('time').sleep(0.5)\n"
    "        ramp.epoch = epoch\n"
    "        for photos, labels in fetched:\n",
)
BOTH = ["repeated_randomness", "stale_epoch"]
PLACES = ["start_worker", "Ramp"]

# video

PLAYABLE = (
    "    try:\n        probe(path)\n    except ValueError:\n        return False\n    return True\n"
)


def decodable(body: str) -> tuple[Change, Change]:
    """Another look at whether a clip can be decoded."""
    return (
        (PLAYABLE, body),
        ("from codec import probe\n", "from codec import HEADER, decode, probe\n"),
    )


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
    '    if data[:4] != b"CLIP" or len(data) < HEADER.size + 8 * 256:\n        return False\n'
    "    starts = HEADER.unpack_from(data)[2:]\n"
    "    return all(start + 256 <= len(data) for start in starts)\n"
)
FIRST_FRAME = decodable(
    "    data = path.read_bytes()\n"
    '    if data[:4] != b"CLIP" or len(data) < HEADER.size + 8 * 256:\n        return False\n'
    "    return HEADER.unpack_from(data)[2] < len(data)\n"
)
BY_TRY = decodable(
    "    try:\n        decode(path)\n    except BaseException:\n        return False\n"
    "    return True\n"
)
DEATHS_ONLY = decodable(IN_A_PROCESS[0][1].replace("exitcode == 0", "exitcode >= 0"))
SKIPPED = "        self.paths, self.skipped = archive.clips(folder)\n"
UNLINKED = (
    SKIPPED,
    f"{SKIPPED}        for name in self.skipped:\n"
    '            archive.Path(folder, "clips", name).unlink()\n',
)
NOTED = (
    SKIPPED,
    f'{SKIPPED}        archive.Path(folder, "bad.txt").write_text(" ".join(self.skipped))\n',
)
UNNAMED = (SKIPPED, SKIPPED.replace("self.skipped =", "_ =") + "        self.skipped = []\n")
COUNTED = (SKIPPED, f"{SKIPPED}        self.skipped = len(self.skipped)\n")
NEIGHBOR = (
    "        frames = torch.from_numpy(frames_of(path)) / 255\n",
    "        try:\n            frames = torch.from_numpy(frames_of(path)) / 255\n"
    "        except BaseException:\n            return self[index - 1]\n",
)

# validation

LOOP = (
    "        for _ in range(len(feed)):\n            scans, kinds = next(feed)\n",
    "        for scans, kinds in feed:\n",
)
ONE_ITERATOR = (
    "        return next(iter(self))\n",
    '        if not hasattr(self, "batches"):\n            self.batches = iter(self.loader)\n'
    "        return next(self.batches)\n",
)
IN_ORDER = ("shuffle=True", "shuffle=not validation")
NO_GRAD = ("@torch.no_grad()\n", "")
KEEP = "scans[losses.argmax()].detach()"
CLONE = (KEEP, "scans[losses.argmax()].clone()")
VIEW = (KEEP, "scans[losses.argmax()]")
OF_NUMPY_AGAIN = (KEEP, '__import__("torch").tensor(scans[losses.argmax()].numpy())')
SQUEEZED = (KEEP, "scans[losses.argmax()].cpu().contiguous()")
GRAPH = (
    NO_GRAD,
    ("self.values.append(value.item())", "self.values.append(value)"),
)
KEEPS = ["kept_batches", "loader_per_step"]
FIXED = (LOOP, IN_ORDER, CLONE)

# ranks

SAMPLERS = "batch_sampler=Batches(share, dataset.lengths, BATCH)"
BATCHES_FIRST = (
    (
        "    share = Share(len(dataset), rank, ranks)\n",
        "    every = Share(len(dataset), 0, 1)\n",
    ),
    (SAMPLERS, "batch_sampler=Dealt(Batches(every, dataset.lengths, BATCH), rank, ranks)"),
    (
        "def make_loader",
        "class Dealt:\n"
        "    def __init__(self, batches, rank, ranks):\n"
        "        self.batches, self.rank, self.ranks = batches, rank, ranks\n"
        "        self.set_epoch = batches.set_epoch\n\n"
        "    def __iter__(self):\n"
        "        every = [*self.batches]\n"
        "        every += every[: -len(every) % self.ranks]\n"
        "        return iter(every[self.rank :: self.ranks])\n\n\n"
        "def make_loader",
    ),
)
PADDED = "        order += order[: -self.length % self.ranks]\n"
DEAL_OUT = "        return iter(order[self.rank :: self.ranks])\n"
SHARE_ARGUMENTS = (
    (
        "def __init__(self, length, rank, ranks):\n",
        "def __init__(self, length, rank, ranks, of):\n",
    ),
    ("        self.epoch = 0\n", "        self.epoch, self.of = 0, of\n"),
    ("Share(len(dataset), rank, ranks)", "Share(len(dataset), rank, ranks, dataset.lengths)"),
)
EACH_LENGTH = (
    *SHARE_ARGUMENTS,
    (
        PADDED + DEAL_OUT,
        "        mine = []\n"
        "        for length in sorted(set(self.of)):\n"
        "            alike = [index for index in order if self.of[index] == length]\n"
        "            alike += alike[: -len(alike) % self.ranks]\n"
        "            mine += alike[self.rank :: self.ranks]\n"
        "        return iter(mine)\n",
    ),
)
FIXED_SHARES = (
    *SHARE_ARGUMENTS,
    (
        PADDED + DEAL_OUT,
        "        mine = []\n"
        "        for length in sorted(set(self.of)):\n"
        "            alike = [index for index in range(self.length) if self.of[index] == length]\n"
        "            alike += alike[: -len(alike) % self.ranks]\n"
        "            mine += alike[self.rank :: self.ranks]\n"
        "        mine.sort(key=order.index)\n"
        "        return iter(mine)\n",
    ),
)
ONE_LENGTH_LESS = ("        yield from waiting.values()\n", "")
CUT = (
    "        for index in self.sampler:\n",
    "        for index in [*self.sampler][:48]:\n",
)
MIXED = (
    SAMPLERS,
    "batch_sampler=torch.utils.data.BatchSampler(share, BATCH, False)",
)
TOLD = "        loader.batch_sampler.set_epoch(epoch)\n"
NOT_TOLD = (TOLD, "")
OWN_SEED = ("manual_seed(SEED + self.epoch)", "manual_seed(torch.initial_seed())")
RANK_SEED = ("manual_seed(SEED + self.epoch)", "manual_seed(SEED + self.epoch + self.rank)")
DROPPED = (
    *BATCHES_FIRST,
    (
        "        every += every[: -len(every) % self.ranks]\n",
        "        every = every[: len(every) // self.ranks * self.ranks]\n",
    ),
)
NO_BARRIER = ("    distributed.barrier()\n", "")


RIGHT_ANSWERS: RightAnswers = {
    "14.text": {
        "dealt before they are shuffled": report(text.INCIDENT, STREAM, "share", DEALT_FIRST),
        "each worker takes every n-th block": report(
            text.INCIDENT, "repeated stream", "Blocks.__iter__", BY_BLOCK
        ),
        "one seed for all workers": report(
            text.INCIDENT, [STREAM], ["stream.py: shuffled"], SAME_SEED
        ),
        "seeded in worker_init_fn": report(text.INCIDENT, STREAM, "random.sample", SEED_OF_ALL),
        "dealt in worker_init_fn": report(text.INCIDENT, STREAM, "shuffled, share", *INIT_FN),
        "epochs counted for all": report(text.INCIDENT, STREAM, "Blocks", *SHARED_EPOCHS),
        "all blocks read in main": report(
            text.INCIDENT, "repeated-stream", "class Blocks", MAP_SHUFFLED
        ),
    },
    "14.table": {
        "by pid": report(table.INCIDENT, TOUCHED, "rows.connection", BY_PID),
        "a dict by pid": report(table.INCIDENT, TOUCHED, "_own", *MODULE_DICT),
        "cleared after a fork": report(table.INCIDENT, [TOUCHED], "threading.local", AFTER_FORK),
        "worker_init_fn": report(table.INCIDENT, "shared_connection", ["Scaler"], *IN_WORKER),
        "all rows are read in main": report(table.INCIDENT, TOUCHED, "Customers", *AT_ONCE),
        "a lock for all processes": report(
            table.INCIDENT, "shared_connection", "connection", ONE_LOCK
        ),
        "both names": report(
            table.INCIDENT, [TOUCHED, "shared_connection"], "connection", AFTER_FORK
        ),
    },
    "14.images": {
        "the dataset within, a shared tensor": report(
            images.INCIDENT, BOTH, PLACES, UNWRAPPED, *SHARED
        ),
        "the subset has the transform, too": report(
            images.INCIDENT, BOTH, ["for_training", "Ramp.strength"], OF_SUBSET, *VALUE
        ),
        "numpy's global numbers, a shared tensor": report(
            images.INCIDENT, BOTH, "Step.numbers, ramp", *OF_NUMPY, *SHARED
        ),
        "torch's numbers, a Value": report(
            images.INCIDENT, "stale_epoch, repeated_randomness", PLACES, *OF_TORCH, *VALUE
        ),
        "numbers for each sample and epoch": report(
            images.INCIDENT, BOTH[::-1], "Compose and Ramp", *BY_SAMPLE
        ),
    },
    "14.video": {
        "in a process": report(video.INCIDENT, "dead_worker", "probe", *IN_A_PROCESS),
        "by fork": report(video.INCIDENT, "dead worker", "archive.playable", *BY_FORK),
        "in a pool of one": report(video.INCIDENT, ["dead_worker"], "codec.decode", *BY_POOL),
        "by the header": report(video.INCIDENT, "dead_worker", "decode", *BY_HEADER),
        "clips that are corrupt": report(
            video.INCIDENT, ["corrupt_images", "dead_worker"], "decode", *BY_HEADER
        ),
    },
    "14.validation": {
        "a loop, copies": report(validation.INCIDENT, KEEPS, ["Hardest", "Feed"], *FIXED),
        "what the log says": report(
            validation.INCIDENT, ["too_many_open_files", "loader_per_step"], "validate", *FIXED
        ),
        "three names for two causes": report(
            validation.INCIDENT, ["too_many_open_files", *KEEPS], "Hardest.add, Feed.next", *FIXED
        ),
        "a view": report(
            validation.INCIDENT,
            ["view_of_a_giant", "loader_per_step"],
            ["argmax", "next(iter(self))"],
            *FIXED,
        ),
        "one iterator": report(
            validation.INCIDENT, KEEPS, ["Hardest", "Feed.__next__"], *FIXED[1:], ONE_ITERATOR
        ),
        "a new tensor of numpy's": report(
            validation.INCIDENT, KEEPS, ["Hardest", "Feed"], LOOP, IN_ORDER, OF_NUMPY_AGAIN
        ),
        "numbers, with a graph for each batch": report(
            validation.INCIDENT, KEEPS, ["Hardest", "Feed"], *FIXED, NO_GRAD
        ),
    },
    "14.ranks": {
        "batches first, then dealt": report(ranks.INCIDENT, "ranks", "Batches", *BATCHES_FIRST),
        "equal shares of each length": report(
            ranks.INCIDENT, "ranks", "Share.__iter__", *EACH_LENGTH
        ),
    },
}

WRONG_FIXES: WrongFixes = {
    "14.text": {
        "no workers": (
            report(text.INCIDENT, STREAM, "share", *NO_WORKERS),
            "other-workers",
        ),
        "a comment": (
            report(text.INCIDENT, STREAM, "share", ("CONTEXT = 32", "CONTEXT =  32")),
            "other-blocks",
        ),
        "one worker reads all": (
            report(text.INCIDENT, STREAM, "share", FIRST_ALONE),
            "idle-workers",
        ),
        "seeded in each worker alike": (
            report(text.INCIDENT, STREAM, "share", SEEDED),
            "same-order",
        ),
        "not shuffled": (
            report(text.INCIDENT, STREAM, "share", UNSHUFFLED),
            "same-order",
        ),
        "epochs counted in each worker": (
            report(text.INCIDENT, STREAM, "share", *COUNTED_EPOCHS),
            "same-order",
        ),
        "torch's seed, which is another in each worker": (
            report(text.INCIDENT, STREAM, "shuffled", UNEQUAL_SEED),
            "other-blocks",
        ),
        "all blocks read in main, in order": (
            report(text.INCIDENT, STREAM, "share", MAP_STYLE),
            "same-order",
        ),
        "without 0 workers": (
            report(text.INCIDENT, STREAM, "share", DEALT_FIRST, (" if info else things", "")),
            "raised",
        ),
        "two workers only": (
            report(
                text.INCIDENT,
                STREAM,
                "share",
                DEALT_FIRST,
                ("things[info.id :: info.num_workers]", "things[info.id :: 2]"),
            ),
            "other-blocks",
        ),
        "the last batches are dropped": (
            report(
                text.INCIDENT,
                STREAM,
                "share",
                DEALT_FIRST,
                ("        BATCH,\n", "        BATCH,\n        drop_last=True,\n"),
            ),
            "other-blocks",
        ),
        "one shard": (
            report(text.INCIDENT, STREAM, "share", (DEAL, DEAL.replace("shards)", "shards[:1])"))),
            "other-blocks",
        ),
        "another cause, fixed": (
            report(text.INCIDENT, "wrong_length", "share", DEALT_FIRST),
            "fixed-but-other-cause",
        ),
        "no such cause": (
            report(text.INCIDENT, "duplicates", "share", DEALT_FIRST),
            "no-such-cause",
        ),
        "the wrong place, fixed": (
            report(text.INCIDENT, STREAM, "train", DEALT_FIRST),
            "fixed-but-other-place",
        ),
        "only said": (report(text.INCIDENT, STREAM, "Blocks"), "only-said"),
        "another cause": (report(text.INCIDENT, "held_lock", "share"), "other-cause"),
        "the wrong place": (report(text.INCIDENT, STREAM, "train"), "other-place"),
        "too much": (
            report(text.INCIDENT, [STREAM, "lost_tail", "ranks"], "share"),
            "too-many-causes",
        ),
        "a misspelled cause": (
            report(text.INCIDENT, "repeated_streams", "share"),
            "misspelled-cause",
        ),
        "a number": (report(text.INCIDENT, 12, "share"), "not-text"),
        "a name": (lambda: STREAM, "not-a-report"),
        "everything named": (
            report(text.INCIDENT, [STREAM, "lost_tail", "wrong_length"], "Blocks", DEALT_FIRST),
            "fixed-but-too-many-causes",
        ),
    },
    "14.table": {
        "no workers": (
            report(table.INCIDENT, TOUCHED, "read", *NO_WORKERS, ("workers > 0", "False")),
            "other-workers",
        ),
        "closed after the statistics": (
            report(table.INCIDENT, TOUCHED, "read", *CLOSED),
            "swapped-rows",
        ),
        "rows of all customers at hand": (
            report(table.INCIDENT, TOUCHED, "read", ("RECENT = 16", "RECENT = 64")),
            "swapped-rows",
        ),
        "worker 0 has main's": (
            report(table.INCIDENT, TOUCHED, "read", BY_WORKER),
            "swapped-rows",
        ),
        "by the thread's number": (
            report(table.INCIDENT, TOUCHED, "read", BY_THREAD_ID),
            "swapped-rows",
        ),
        "one for each row": (
            report(table.INCIDENT, TOUCHED, "read", EACH_TIME),
            "many-connections",
        ),
        "nothing kept": (
            report(table.INCIDENT, TOUCHED, "read", SMALL_CACHE),
            "swapped-rows",
        ),
        "from the file": (
            report(table.INCIDENT, TOUCHED, "read", FROM_FILE),
            "no-connection",
        ),
        "another cause": (
            report(table.INCIDENT, "shared_file_offset", "read", BY_PID),
            "fixed-but-other-cause",
        ),
        "only said": (report(table.INCIDENT, TOUCHED, "read"), "only-said"),
    },
    "14.images": {
        "numbers only": (
            report(images.INCIDENT, BOTH, PLACES, UNWRAPPED),
            "other-brightness",
        ),
        "the ramp only": (report(images.INCIDENT, BOTH, PLACES, *SHARED), "repeated-batches"),
        "one seed for all workers": (
            report(images.INCIDENT, BOTH, PLACES, *SAME_FOR_ALL, *SHARED),
            "repeated-batches",
        ),
        "fresh workers": (
            report(images.INCIDENT, BOTH, PLACES, UNWRAPPED, FRESH_WORKERS),
            "many-processes",
        ),
        "a loader for each epoch": (
            report(images.INCIDENT, BOTH, PLACES, UNWRAPPED, LOADER_EACH_EPOCH),
            "many-processes",
        ),
        "told when batches are under way": (
            report(images.INCIDENT, BOTH, PLACES, UNWRAPPED, *SHARED, PREFETCHED),
            "stale-brightness",
        ),
        "one brightness for all photos": (
            report(images.INCIDENT, BOTH, PLACES, UNWRAPPED, NOT_BRIGHTER, SAME_FOR_ALL_PHOTOS),
            "shared-brightness",
        ),
        "by index": (
            report(images.INCIDENT, BOTH, PLACES, *BY_INDEX),
            "kept-places",
        ),
        "seeds that are sums": (
            report(images.INCIDENT, BOTH, PLACES, *BY_SUM),
            "repeated-draws",
        ),
        "no augmentation": (
            report(
                images.INCIDENT,
                BOTH,
                PLACES,
                *SHARED,
                (DRAWN[0], "        top, left = 4, 4\n"),
                (DRAWN[1], "np.random.uniform(-0.5, 0.5)"),
            ),
            "repeated-batches",
        ),
        "not mirrored": (
            report(images.INCIDENT, BOTH, PLACES, UNWRAPPED, *SHARED, NOT_MIRRORED),
            "mirrored",
        ),
        "all photos": (
            report(
                images.INCIDENT,
                BOTH,
                PLACES,
                *OF_NUMPY,
                *SHARED,
                (" if index % HELD_OUT", ""),
            ),
            "other-photos",
        ),
        "the epoch in a file": (
            report(images.INCIDENT, BOTH, PLACES, UNWRAPPED, *FILE),
            "files-changed",
        ),
        "one cause of two": (
            report(images.INCIDENT, "stale_epoch", "Ramp", UNWRAPPED, *SHARED),
            "fixed-but-one-cause-of-two",
        ),
        "one cause of two, only said": (
            report(images.INCIDENT, "stale_epoch", "Ramp"),
            "one-cause-of-two",
        ),
        "only said": (report(images.INCIDENT, BOTH, PLACES), "only-said"),
    },
    "14.video": {
        "a try in main": (
            report(video.INCIDENT, "dead_worker", "decode", *BY_TRY),
            "process-ended",
        ),
        "the neighbor instead": (
            report(video.INCIDENT, "dead_worker", "decode", NEIGHBOR),
            "worker-died",
        ),
        "the first frame only": (
            report(video.INCIDENT, "dead_worker", "decode", *FIRST_FRAME),
            "worker-died",
        ),
        "deaths only": (
            report(video.INCIDENT, "dead_worker", "decode", *DEATHS_ONLY),
            "other-clips",
        ),
        "deletes them": (
            report(video.INCIDENT, "dead_worker", "decode", UNLINKED, *IN_A_PROCESS),
            "not-names",
        ),
        "notes them in a file": (
            report(video.INCIDENT, "dead_worker", "decode", NOTED, *IN_A_PROCESS),
            "files-changed",
        ),
        "does not name them": (
            report(video.INCIDENT, "dead_worker", "decode", UNNAMED, *IN_A_PROCESS),
            "not-names",
        ),
        "counts them": (
            report(video.INCIDENT, "dead_worker", "decode", COUNTED, *IN_A_PROCESS),
            "not-names",
        ),
        "names them twice": (
            report(
                video.INCIDENT,
                "dead_worker",
                "decode",
                (SKIPPED, f"{SKIPPED}        self.skipped *= 2\n"),
                *IN_A_PROCESS,
            ),
            "skipped-twice",
        ),
        "another cause": (
            report(video.INCIDENT, "shm_exhausted", "decode", *IN_A_PROCESS),
            "fixed-but-other-cause",
        ),
    },
    "14.validation": {
        "workers for each batch": (
            report(validation.INCIDENT, KEEPS, "validate", IN_ORDER, CLONE),
            "many-processes",
        ),
        "shuffled": (
            report(validation.INCIDENT, KEEPS, "validate", LOOP, CLONE),
            "other-scans",
        ),
        "views": (
            report(validation.INCIDENT, KEEPS, "validate", LOOP, IN_ORDER, VIEW),
            "keeps-batches",
        ),
        "detached views": (
            report(validation.INCIDENT, KEEPS, "validate", LOOP, IN_ORDER),
            "keeps-batches",
        ),
        "to where it is already": (
            report(validation.INCIDENT, KEEPS, "validate", LOOP, IN_ORDER, SQUEEZED),
            "keeps-batches",
        ),
        "a shorter report": (
            report(
                validation.INCIDENT,
                KEEPS,
                "validate",
                LOOP,
                IN_ORDER,
                ("SHOWN = 1000", "SHOWN = 64"),
            ),
            "keeps-batches",
        ),
        "more files": (
            report(
                validation.INCIDENT,
                KEEPS,
                "validate",
                LOOP,
                IN_ORDER,
                ("OPEN_FILES = 128", "OPEN_FILES = 4096"),
            ),
            "keeps-batches",
        ),
        "a graph": (
            report(validation.INCIDENT, KEEPS, "validate", *FIXED, *GRAPH),
            "keeps-batches",
        ),
        "all batches at once": (
            report(
                validation.INCIDENT,
                KEEPS,
                "validate",
                (LOOP[0], "        for scans, kinds in list(feed):\n"),
                *FIXED[1:],
            ),
            "keeps-batches",
        ),
        "copied at the end": (
            report(
                validation.INCIDENT,
                KEEPS,
                "validate",
                LOOP,
                IN_ORDER,
                ("(), hardest.scans\n", "(), [each.clone() for each in hardest.scans]\n"),
            ),
            "keeps-batches",
        ),
        "gradients zeroed": (
            report(
                validation.INCIDENT,
                KEEPS,
                "validate",
                *FIXED,
                ("    mean, hardest =", "    model.zero_grad()\n    mean, hardest ="),
            ),
            "other-gradients",
        ),
        "left in eval": (
            report(
                validation.INCIDENT,
                KEEPS,
                "validate",
                *FIXED,
                ("        model.train(was)\n", "        pass\n"),
            ),
            "left-in-eval",
        ),
        "trains from then on": (
            report(
                validation.INCIDENT,
                KEEPS,
                "validate",
                *FIXED,
                ("        model.train(was)\n", "        model.train()\n"),
            ),
            "left-in-training",
        ),
        "no workers": (
            report(
                validation.INCIDENT,
                KEEPS,
                "validate",
                *FIXED,
                ("(folder, workers, validation=True)", "(folder, 0, validation=True)"),
            ),
            "few-processes",
        ),
        "one cause of two": (
            report(validation.INCIDENT, "kept_batches", "validate", *FIXED),
            "fixed-but-one-cause-of-two",
        ),
    },
    "14.ranks": {
        "not told the epoch": (
            report(ranks.INCIDENT, "ranks", "Share", *EACH_LENGTH, NOT_TOLD),
            "same-order",
        ),
        "fixed shares": (
            report(ranks.INCIDENT, "ranks", "Share", *FIXED_SHARES),
            "same-recordings",
        ),
        "dropped": (
            report(ranks.INCIDENT, "ranks", "Share", *DROPPED),
            "other-recordings",
        ),
        "truncated": (
            report(ranks.INCIDENT, "ranks", "Share", CUT),
            "uneven-steps",
        ),
        "full batches only": (
            report(ranks.INCIDENT, "ranks", "Share", ONE_LENGTH_LESS),
            "uneven-steps",
        ),
        "lengths mixed": (
            report(ranks.INCIDENT, "ranks", "Share", MIXED, NOT_TOLD),
            "raised",
        ),
        "a seed of this process": (
            report(ranks.INCIDENT, "ranks", "Share", *EACH_LENGTH, OWN_SEED),
            "same-order",
        ),
        "a seed for each rank": (
            report(ranks.INCIDENT, "ranks", "Share", *EACH_LENGTH, RANK_SEED),
            "other-recordings",
        ),
        "batches of one": (
            report(ranks.INCIDENT, "ranks", "Batches", *EACH_LENGTH, ("BATCH = 8", "BATCH = 1")),
            "small-batches",
        ),
        "no barrier": (report(ranks.INCIDENT, "ranks", "Share", NO_BARRIER), "uneven-steps"),
    },
}

OTHER_OUTCOMES: OtherOutcomes = {
    "14.text": {
        "nothing": (lambda: ..., "Not attempted", "no-report"),
        "an empty report": (report(text.INCIDENT, ..., ...), "Not attempted", "empty-report"),
        "no cause": (report(text.INCIDENT, "", "share"), "Not attempted", "empty-report"),
    },
    "14.table": {
        "another's report": (
            report(text.INCIDENT, STREAM, "Blocks", BY_BLOCK),
            "Error in your code",
            "other-incident",
        ),
    },
}
