"""What "01.fix" and "01.transfer" ask of a class: all that can be used arrives, as what it is, and
the rest is accounted for. On two folders, for what one object keeps is none of the next one's.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePath
from typing import Any, Final

import torch
from PIL import Image
from torch.utils.data import default_collate

from dltutor.lessons.engine.endings import Ending, ended_well, run_loader, where
from dltutor.lessons.engine.exercise import Grader
from dltutor.lessons.engine.forms import a_fixed_class
from dltutor.lessons.engine.outcomes import Rejected, Result, correct, error_in_your_code, not_yet
from dltutor.lessons.engine.running import changed, contents, failed_in_main, made, theirs
from dltutor.lessons.lesson_01.material import HEALTHY, Folder, Told
from dltutor.observation.time_limits import deadline

_SECONDS: Final = 6


@dataclass(frozen=True)
class Evidence:
    """What an answer makes of a folder.

    Args:
        folder: The folder.
        quarantined: Its keys and values as texts, the folder as "root"; empty if it is no dict.
        samples: What each `dataset[i]` is, as `Folder.told` says it, or the exception it raised.
        error: The first of those exceptions, with its place, or "".
        runs: Workers -> how the loader's run ended, and whether it brought the same samples.
        changed: Files that are gone or no longer as they were, and listed ones that are new.
        dtypes: How many samples are of which type of floats.
        later: What arrives in place of a sample whose file goes bad; "" if that raises.
    """

    folder: Folder
    quarantined: dict[str, str]
    samples: Sequence[Told]
    error: str
    runs: dict[int, tuple[Ending, bool]]
    changed: Sequence[str]
    dtypes: dict[str, int] = field(default_factory=dict)
    later: str = ""


def grader(fresh: Callable[[Path, int], Folder], starter: type) -> Grader[Any]:
    """Grade a class that is no longer the starter, on two folders that `fresh` fills."""
    return Grader(
        gather=partial(gather, fresh=fresh),
        judge=judge,
        look=lambda answer: a_fixed_class(answer, starter),
        runs="makes your class on two fresh folders and runs it with 0, 2 and 4 workers, "
        f"{_SECONDS} s for each step",
        at_most=8 * _SECONDS + 2,
    )


def gather(answer: type, fresh: Callable[[Path, int], Folder]) -> list[Evidence]:
    """Make the dataset on two folders, run it in loaders, and take its samples one by one."""
    found: list[Evidence] = []
    for seed, workers in ((52, 2), (53, 4)):
        found.append(_delivered(answer, fresh(Path(tempfile.mkdtemp()), seed), workers))
        try:
            _folder_is_right(found[-1])
        except Rejected:  # another folder would bring nothing that is told
            break
    return found


def _delivered(answer: type, folder: Folder, workers: int) -> Evidence:
    before = contents(folder.root)
    dataset = made(answer, folder.root, call=f"{answer.__name__}(root)", within=_SECONDS)
    quarantined = _quarantined(dataset, folder)
    # The workers first: what main had read by then, they would have too.
    forked, came = _run(dataset, workers, 1, folder)
    samples: list[Told] = []
    error, dtypes = "", Counter[str]()
    with theirs(), deadline(_SECONDS):
        for index in range(len(dataset)):
            try:
                sample = dataset[index]
            except Exception as raised:
                error = error or failed_in_main(raised).text
                samples.append((f"{type(raised).__name__} raised", None))
            else:
                samples.append(folder.told(sample))
                if samples[-1][1] is not None:
                    dtypes[str(torch.as_tensor(sample[0]).dtype)] += 1
    runs = {workers: (forked, came == samples)}
    if forked.end == "finished":
        here, came = _run(dataset, 0, 2, folder)
        runs[0] = here, came == samples * 2
    spoilt = [p for p in changed(before, folder.root) if p in before or p in folder.listed]
    with theirs(), deadline(_SECONDS):
        later = _later(dataset, folder, samples)
    return Evidence(folder, quarantined, samples, error, runs, spoilt, dtypes, later)


def _later(dataset: Any, folder: Folder, samples: Sequence[Told]) -> str:
    for index, how in enumerate(("deleted", "cut in half", "emptied") * 2):
        with suppress(Exception):
            folder.spoil(path := samples[index][0], how)
            if (told := folder.told(dataset[index])[0]) != path:
                bad = f"the file of sample {index} was {how}. Nothing raised: in its place, "
                return f"{bad}`dataset[{index}]` gives {folder.held(told)}"
    return ""


def _quarantined(dataset: Any, folder: Folder) -> dict[str, str]:
    def text(thing: object) -> str:
        return str(thing).replace(str(folder.root), "root").strip()

    with theirs():
        kept = getattr(dataset, "quarantined", None)
        pairs = kept.items() if isinstance(kept, dict) else ()
        return {text(path): text(why or "") for path, why in pairs}


def _run(dataset: Any, workers: int, epochs: int, folder: Folder) -> tuple[Ending, list[Any]]:
    came: list[Told] = []

    def join(samples: list[Any]) -> Any:  # a batch as it would be, and what each sample was
        return default_collate(samples), [folder.told(sample) for sample in samples]

    def take(loader: Any) -> None:
        for _, told in loader:
            came.extend(told)

    options: dict[str, Any] = {"workers": workers, "epochs": epochs, "collate_fn": join}
    return run_loader(dataset, take, within=_SECONDS, batch_size=4, **options), came


def judge(found: Sequence[Evidence]) -> Result:
    """Correct if every file that can be used came, and nothing else did."""
    for evidence in found:
        try:
            _folder_is_right(evidence)
        except Rejected as rejected:
            if evidence is not found[0]:
                also = " This is the second folder; the first was right. What do the two share?"
                rejected.result = replace(rejected.result, text=rejected.result.text + also)
            raise
    _reasons_tell(*found)
    listed = sum(len(evidence.folder.listed) for evidence in found)
    bad = sum(len(evidence.quarantined) for evidence in found)
    return correct(
        f"In two folders, {listed - bad} of {listed} files can be used, and each arrives once, "
        f"with 0, 2 and 4 workers. The other {bad} are in `quarantined`, each with its reason."
    )


def _folder_is_right(evidence: Evidence) -> None:
    folder, samples, named = evidence.folder, evidence.samples, evidence.quarantined
    for path in evidence.changed:
        odd = f", {folder.kinds[path].odd}," if path in folder.kinds else ""
        not_yet(f"`{path}`{odd} is no longer as it was. Whoever looks into it later needs it.")
    told = Counter(folder.right if number is not None else kind for kind, number in samples)
    if told.keys() - {folder.right}:
        tell = error_in_your_code if evidence.error and len(told) == 1 else not_yet
        kinds = ", ".join(f"{times} x {kind}" for kind, times in told.most_common())
        first = f" The first error: {evidence.error}" if evidence.error else ""
        tell(f"a sample has to be {folder.right}. Yours: {kinds}.{first}")
    if good := named.keys() & folder.contents.keys():
        path = max(good, key=lambda path: (folder.kinds[path].odd, path))
        not_yet(
            f"{len(good)} of the {len(named)} files in `quarantined` can be used, such as "
            f"`{path}`, {folder.kinds[path].odd}. Your class gives the reason "
            f"`{named[path]:.90}`. Is that the file's fault?"
        )
    count = Counter(file for file, _ in samples)
    lost = folder.listed.keys() - count.keys() - named.keys()
    for path, times in count.most_common():
        if times > 1 and path in folder.listed:
            not_yet(
                f"{len(samples)} samples arrive, and only {len(count)} different ones: {times} "
                f"hold {folder.held(path)}. Whose place did the other {times - 1} take?"
            )
    if strays := [file for file, _ in samples if file not in folder.listed]:
        kinds = ", ".join(sorted({folder.kinds[path].odd for path in lost} - {HEALTHY}))
        not_yet(
            f"{len(strays)} of {len(samples)} samples match no usable file, such as one with "
            f"values {strays[0]}."
            + (f" Not accounted for: {kinds}." if kinds else " Where do they come from?")
        )
    classes = sorted(set(folder.listed.values()))
    if wrong := sum(classes.index(folder.listed[file]) != number for file, number in samples):
        not_yet(
            f"{wrong} of {len(samples)} samples arrive with another class number than `labels.csv` "
            "gives them. Numbers follow the sorted names of all classes that it lists, also of one "
            "that has no usable file."
        )
    if unknown := sorted(named.keys() - folder.listed.keys()):
        not_yet(
            f"{len(unknown)} keys of `quarantined` are not in `labels.csv`, such as "
            f"`{unknown[0]}`. How does the list write that path?"
        )
    if lost:
        not_yet(
            f"of {len(folder.listed)} files, {len(lost)} neither arrive nor are in the dict "
            f"`quarantined` when the dataset is made, such as {folder.kinds[min(lost)].odd}."
        )
    for path, why in named.items():
        if not _words(path, why):
            what = f"{why[:80]!r}: numbers or a path, and no word" if why else "missing"
            not_yet(f"the reason for `{path}` is {what}. What is wrong with the file?")
    for workers, (run, same) in sorted(evidence.runs.items()):
        ended_well(run, where(workers))
        if not same:
            not_yet(f"{where(workers)}, the loader brings other samples than `dataset[i]` gave.")
    if len(evidence.dtypes) > 1:
        each = ", ".join(f"{times} x {dtype}" for dtype, times in evidence.dtypes.items())
        not_yet(f"samples arrive as {each}. Of which type is a batch that has both?")
    if evidence.later:
        not_yet(f"after the dataset was made, {evidence.later}. Who will notice?")


def _reasons_tell(first: Evidence, second: Evidence) -> None:
    """Whoever has read the reasons of one folder can tell what is wrong in the other."""
    known = {path: _words(path, why) for path, why in first.quarantined.items()}
    limit = Image.MAX_IMAGE_PIXELS  # as the answer left it, in its cell or in its class
    also = f" (`Image.MAX_IMAGE_PIXELS` is {limit}.)" if limit != 1024**3 // 12 else ""
    for path, why in second.quarantined.items():
        words = _words(path, why)
        like = max(known, key=lambda each: len(known[each] & words) / len(known[each] | words))
        kind, its = second.folder.kinds[path], first.folder.kinds[like]
        if kind.cause != its.cause and "other" not in (kind.cause, its.cause):
            not_yet(
                f"`quarantined` says of {kind.odd}: `{why:.80}`. Numbers and paths aside, that "
                f"reads most like what it says of {its.odd}: `{first.quarantined[like]:.80}`. "
                f"Which word tells a file that is {kind.cause} from one that is {its.cause}?{also}"
            )


def _words(path: str, why: str) -> set[str]:
    for name in (f"root/{path}", path, PurePath(path).name):
        why = why.replace(name, " ")
    return {word for word in re.split(r"[\W_]+", why.lower()) if re.fullmatch(r"\D+", word)}
