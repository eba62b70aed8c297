"""Define right and wrong reports about the incidents of lesson 14.

Many of the constants are changes that learners might make in the incidents' files.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from answers import RightAnswers, WrongFixes
from dltutor.failures.tools.handles import own_folder
from dltutor.lessons.lesson_14 import Report, images, ranks, table, text, validation, video
from dltutor.lessons.lesson_14.scene import Incident, Scene

Change = tuple[str, str]


def report(incident: Incident, cause: Any, where: Any, *changes: Change) -> partial[Report]:
    """Return a `partial` that lays out an incident, changes its files, and makes a Report.

    Args:
        incident: The incident.
        cause: The cause or causes that the learner reports.
        where: The place or places that the learner reports.
        changes: Pairs of a string and its replacement. The string has to be in at least one of the
            files that a learner may change.
    """

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

    return partial(make)


def unfixed(incident: Incident) -> partial[Report]:
    """Return a `partial` that reports the right causes and places, but only adds a comment."""
    return report(
        incident,
        [cause.names[0] for cause in incident.causes],
        [cause.places[0] for cause in incident.causes],
        ('"""\n\n', '"""\n\n# looked at\n'),
    )


# The incident "text"

DEAL = "        for shard in share(shuffled(self.shards)):\n"
DEALT_FIRST = (DEAL, "        for shard in shuffled(share(self.shards)):\n")
SAME_SEED = (
    "    return random.sample(things, len(things))\n",
    "    info = get_worker_info()\n"
    "    seed = info.seed - info.id if info else None\n"
    "    return random.Random(seed).sample(things, len(things))\n",
)
UNSHUFFLED = (DEAL, "        for shard in share(self.shards):\n")
NO_WORKERS = (("num_workers=workers", "num_workers=0"), ('"fork" if workers else None', "None"))
STREAM = "own_order_in_worker"

# The incident "table"

KEPT_FOR = "    connections = vars(_own)\n"
BY_PID = (
    KEPT_FOR,
    "    if vars(_own).get(0) != os.getpid():\n"
    "        vars(_own).clear()\n        vars(_own)[0] = os.getpid()\n" + KEPT_FOR,
)
AFTER_FORK = (
    "_own = threading.local()\n",
    "_own = threading.local()\nos.register_at_fork(after_in_child=lambda: vars(_own).clear())\n",
)
ONE_LOCK = (
    "_lock = threading.Lock()",
    '_lock = __import__("multiprocessing").get_context("fork").Lock()',
)
EACH_TIME = ("    if folder not in connections:\n", "    if True:\n")
FROM_FILE = (
    "        return np.array(connection(folder).row(customer))\n",
    "        return np.load(f'{folder}/rows.npy')[customer]\n",
)
TOUCHED = "lazy_but_touched"

# The incident "images"

UNWRAPPED = (
    'getattr(get_worker_info().dataset, "transform", None)',
    'getattr(get_worker_info().dataset.dataset, "transform", None)',
)
OF_SUBSET = (
    "    return Subset(photos, [index for index in range(len(photos)) if index % HELD_OUT])\n",
    "    held_in = Subset(photos, [index for index in range(len(photos)) if index % HELD_OUT])\n"
    "    held_in.transform = photos.transform\n    return held_in\n",
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
BY_SAMPLE = (*SHARED, (SAMPLE, f"{SAMPLE}        self.transform.restart({SEEDS.format('*')})\n"))
BY_SUM = (*SHARED, (SAMPLE, f"{SAMPLE}        self.transform.restart({SEEDS.format('+')})\n"))
BY_INDEX = (*SHARED, (SAMPLE, f"{SAMPLE}        self.transform.restart(index)\n"))
FRESH_WORKERS = ("persistent_workers=workers > 0", "persistent_workers=False")
BOTH = ["repeated_randomness", "stale_epoch"]
PLACES = ["start_worker", "Ramp"]

# The incident "video"

PLAYABLE = (
    "    try:\n        probe(path)\n    except ValueError:\n        return False\n    return True\n"
)


def decodable(body: str) -> tuple[Change, Change]:
    """Return the changes that give `archive.playable` another body, and import what it may need."""
    return (
        (PLAYABLE, body),
        ("from codec import probe\n", "from codec import HEADER, decode, probe\n"),
    )


IN_A_PROCESS = decodable(
    "    import multiprocessing\n\n"
    '    process = multiprocessing.get_context("fork").Process(target=decode, args=(path,))\n'
    "    process.start()\n    process.join()\n    return process.exitcode == 0\n"
)
BY_HEADER = decodable(
    "    data = path.read_bytes()\n"
    '    if data[:4] != b"CLIP" or len(data) < HEADER.size + 8 * 256:\n        return False\n'
    "    starts = HEADER.unpack_from(data)[2:]\n"
    "    return all(start + 256 <= len(data) for start in starts)\n"
)
BY_TRY = decodable(
    "    try:\n        decode(path)\n    except BaseException:\n        return False\n"
    "    return True\n"
)
DEATHS_ONLY = (*IN_A_PROCESS, ("exitcode == 0", "exitcode >= 0"))
SKIPPED = "        self.paths, self.skipped = archive.clips(folder)\n"
NOTED = (
    SKIPPED,
    f'{SKIPPED}        archive.Path(folder, "bad.txt").write_text(" ".join(self.skipped))\n',
)
UNNAMED = (SKIPPED, SKIPPED.replace("self.skipped =", "_ =") + "        self.skipped = []\n")

# The incident "validation"

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
KEEP = "scans[losses.argmax()].detach()"
CLONE = (KEEP, "scans[losses.argmax()].clone()")
VIEW = (KEEP, "scans[losses.argmax()]")
KEEPS = ["kept_batches", "loader_per_step"]
FIXED = (LOOP, IN_ORDER, CLONE)

# The incident "ranks"

SAMPLERS = "batch_sampler=Batches(share, dataset.lengths, BATCH)"
BATCHES_FIRST = (
    ("    share = Share(len(dataset), rank, ranks)\n", "    every = Share(len(dataset), 0, 1)\n"),
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
    *EACH_LENGTH,
    ("for index in order if", "for index in range(self.length) if"),
    (
        "        return iter(mine)\n",
        "        mine.sort(key=order.index)\n        return iter(mine)\n",
    ),
)
NOT_TOLD = ("        loader.batch_sampler.set_epoch(epoch)\n", "")
DROPPED = (
    *BATCHES_FIRST,
    (
        "        every += every[: -len(every) % self.ranks]\n",
        "        every = every[: len(every) // self.ranks * self.ranks]\n",
    ),
)


of_text = partial(report, text.INCIDENT)
of_table = partial(report, table.INCIDENT)
of_images = partial(report, images.INCIDENT)
of_video = partial(report, video.INCIDENT, "dead_worker")
of_validation = partial(report, validation.INCIDENT, KEEPS)
of_ranks = partial(report, ranks.INCIDENT, "ranks")


RIGHT_ANSWERS: RightAnswers = {
    "14.text": {
        "dealt before they are shuffled": of_text(STREAM, "share", DEALT_FIRST),
        "one seed for all workers": of_text(
            ["repeated_stream"], ["stream.py: shuffled"], SAME_SEED
        ),
    },
    "14.table": {
        "by pid": of_table(TOUCHED, "rows.connection", BY_PID),
        "a lock for all processes": of_table("shared_connection", "connection", ONE_LOCK),
        "both names": of_table([TOUCHED, "shared_connection"], "connection", AFTER_FORK),
    },
    "14.images": {
        "the dataset within, a shared tensor": of_images(BOTH, PLACES, UNWRAPPED, *SHARED),
        "the subset has the transform, too": of_images(
            BOTH, ["for_training", "Ramp.strength"], OF_SUBSET, *VALUE
        ),
        "numbers for each sample and epoch": of_images(BOTH[::-1], "Compose and Ramp", *BY_SAMPLE),
    },
    "14.video": {
        "in a process": of_video("probe", *IN_A_PROCESS),
        "by the header": of_video("decode", *BY_HEADER),
    },
    "14.validation": {
        "a loop, copies": of_validation(["Hardest", "Feed"], *FIXED),
        "one iterator": of_validation(["Hardest", "Feed.__next__"], *FIXED[1:], ONE_ITERATOR),
    },
    "14.ranks": {
        "batches first, then dealt": of_ranks("Batches", *BATCHES_FIRST),
        "equal shares of each length": of_ranks("Share.__iter__", *EACH_LENGTH),
    },
}

WRONG_FIXES: WrongFixes = {
    "14.text": {
        "nothing fixed": (unfixed(text.INCIDENT), "other-blocks"),
        "no workers": (of_text(STREAM, "share", *NO_WORKERS), "other-workers"),
        "not shuffled": (of_text(STREAM, "share", UNSHUFFLED), "same-order"),
        "without 0 workers": (
            of_text(STREAM, "share", DEALT_FIRST, (" if info else things", "")),
            "raised",
        ),
        "another cause, fixed": (
            of_text("wrong_length", "share", DEALT_FIRST),
            "fixed: other-cause",
        ),
        "no such cause": (of_text("duplicates", "share", DEALT_FIRST), "no-such-cause"),
        "the wrong place, fixed": (of_text(STREAM, "train", DEALT_FIRST), "fixed: other-place"),
        "only said": (of_text(STREAM, "Blocks"), "only-said"),
        "another cause": (of_text("held_lock", "share"), "other-cause"),
        "the wrong place": (of_text(STREAM, "train"), "other-place"),
        "too much": (of_text([STREAM, "lost_tail", "ranks"], "share"), "too-many-causes"),
        "a misspelled cause": (of_text("repeated_streams", "share"), "misspelled-cause"),
        "a name": (STREAM, "not-a-report"),
        "everything named": (
            of_text([STREAM, "lost_tail", "wrong_length"], "Blocks", DEALT_FIRST),
            "fixed: too-many-causes",
        ),
    },
    "14.table": {
        "nothing fixed": (unfixed(table.INCIDENT), "wrong-rows"),
        "one for each row": (of_table(TOUCHED, "read", EACH_TIME), "many-connections"),
        "another's report": (of_text(STREAM, "Blocks", DEALT_FIRST), "other-incident"),
        "from the file": (of_table(TOUCHED, "read", FROM_FILE), "no-connection"),
    },
    "14.images": {
        "nothing fixed": (unfixed(images.INCIDENT), "repeated-batches"),
        "numbers only": (of_images(BOTH, PLACES, UNWRAPPED), "other-brightness"),
        "fresh workers": (of_images(BOTH, PLACES, UNWRAPPED, FRESH_WORKERS), "many-processes"),
        "by index": (of_images(BOTH, PLACES, *BY_INDEX), "kept-places"),
        "seeds that are sums": (of_images(BOTH, PLACES, *BY_SUM), "repeated-draws"),
        "all photos": (
            of_images(BOTH, PLACES, UNWRAPPED, *SHARED, (" if index % HELD_OUT", "")),
            "other-photos",
        ),
        "the epoch in a file": (of_images(BOTH, PLACES, UNWRAPPED, *FILE), "files-changed"),
        "one cause of two": (
            of_images("stale_epoch", "Ramp", UNWRAPPED, *SHARED),
            "fixed: one-cause-of-two",
        ),
        "one cause of two, only said": (of_images("stale_epoch", "Ramp"), "one-cause-of-two"),
    },
    "14.video": {
        "nothing fixed": (unfixed(video.INCIDENT), "worker-died"),
        "a try in main": (of_video("decode", *BY_TRY), "process-ended"),
        "deaths only": (of_video("decode", *DEATHS_ONLY), "other-clips"),
        "notes them in a file": (of_video("decode", NOTED, *IN_A_PROCESS), "files-changed"),
        "does not name them": (of_video("decode", UNNAMED, *IN_A_PROCESS), "not-names"),
    },
    "14.validation": {
        "shuffled": (of_validation("validate", LOOP, CLONE), "other-scans"),
        # The default tier runs only the first wrong fix. This one isn't first, because it starts so
        # many workers that it's slow.
        "nothing fixed": (unfixed(validation.INCIDENT), "many-processes"),
        "views": (of_validation("validate", LOOP, IN_ORDER, VIEW), "keeps-batches"),
        "gradients zeroed": (
            of_validation(
                "validate",
                *FIXED,
                ("    mean, hardest =", "    model.zero_grad()\n    mean, hardest ="),
            ),
            "other-gradients",
        ),
        "left in eval": (
            of_validation("validate", *FIXED, ("        model.train(was)\n", "        pass\n")),
            "left-in-eval",
        ),
        "no workers": (
            of_validation(
                "validate",
                *FIXED,
                ("(folder, workers, validation=True)", "(folder, 0, validation=True)"),
            ),
            "few-processes",
        ),
        "one cause of two": (
            report(validation.INCIDENT, "kept_batches", "validate", *FIXED),
            "fixed: one-cause-of-two",
        ),
    },
    "14.ranks": {
        "nothing fixed": (unfixed(ranks.INCIDENT), "uneven-steps"),
        "not told the epoch": (of_ranks("Share", *EACH_LENGTH, NOT_TOLD), "same-order"),
        "fixed shares": (of_ranks("Share", *FIXED_SHARES), "same-recordings"),
        "dropped": (of_ranks("Share", *DROPPED), "other-recordings"),
        "batches of one": (
            of_ranks("Batches", *EACH_LENGTH, ("BATCH = 8", "BATCH = 1")),
            "small-batches",
        ),
    },
}
