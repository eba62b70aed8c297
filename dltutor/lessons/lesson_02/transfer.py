"""Grade "02.transfer": samples that can be sent to main, and are what they were before."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any, Final

import torch
from torch.utils.data import DataLoader, Dataset

from dltutor.lessons.engine.endings import Ending, ended_well, run_loader, where
from dltutor.lessons.engine.exercise import Grader
from dltutor.lessons.engine.forms import a_fixed_class, shown
from dltutor.lessons.engine.outcomes import Result, correct, not_yet
from dltutor.lessons.engine.running import changed, contents, made, theirs
from dltutor.lessons.lesson_02.material import VOCABULARY
from dltutor.observation.texts import tidy

CAPTIONS: Final = 22
_LONG: Final = 15  # seconds for each thing that the answer does, on a busy machine
_ORDER: Final = [(5 * place + 3) % CAPTIONS for place in range(CAPTIONS)]
_RUNS: Final = ((2, 2), (0, 1), (4, 1))  # workers, and epochs


class Captions(Dataset[dict[str, Any]]):
    """The starter: what it returns works in main, and cannot leave a worker."""

    def __init__(self, paths: Sequence[Path], table: torch.Tensor) -> None:
        self.paths, self.table = paths, table

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> dict[str, Any]:
        words = self.paths[index].read_text().lower().split()
        numbers = torch.tensor([VOCABULARY[word] for word in words])
        return {
            "words": (word for word in words if word not in ("a", "an", "the")),
            "times": Counter(words).items(),
            "vector": self.table[numbers].mean(dim=0),
        }


@dataclass(frozen=True)
class Run:
    """What came with some workers, how it ended, and what is wrong with a sample, if one is."""

    workers: int
    ending: Ending
    samples: int = 0
    odd: str = ""


@dataclass(frozen=True)
class Evidence:
    """What is known of an answer.

    Args:
        length: As `len` says it.
        problem: What is wrong with a sample in main.
        touched: What it changed that is not its own, as a clause.
        runs: Up to the first that is not right.
    """

    length: int = CAPTIONS
    problem: str = ""
    touched: str = ""
    runs: tuple[Run, ...] = ()


def gather(answer: type) -> Evidence:
    """Read the first and the last sample in main, then all."""
    folder = Path(tempfile.mkdtemp())
    captions = _written(folder)
    before, table = (
        contents(folder),
        torch.nn.Parameter(torch.arange(80.0).reshape(16, 5).double() % 7),
    )
    table.grad = torch.arange(80.0).reshape(16, 5).double() % 3
    held, grad, paths = table.detach().clone(), table.grad.clone(), sorted(folder.iterdir())

    def odd(index: int, sample: Any) -> str:
        vector = held[[VOCABULARY[word] for word in captions[index]]].mean(dim=0)
        with theirs():
            return _odd(sample, captions[index], vector)

    def touched() -> str:
        if not table.requires_grad or not _same(table, held):
            return "`table`, which is the model's, is not as it was"
        if not _same(table.grad, grad):
            return "`table.grad`, which is the model's, is not as it was"
        if not torch.is_grad_enabled():
            return "autograd is off in main now"
        for file in changed(before, folder):
            return f"the file `{file}` is {'not as it was' if file in before else 'new'}"
        return ""

    call = f"{answer.__name__}(paths, table)"
    dataset = made(answer, paths, table, call=call, within=_LONG)
    length, problem = made(lambda: len(dataset), call="len(dataset)", within=_LONG), ""
    for index in (0, CAPTIONS - 1) if length == CAPTIONS else ():
        call = f"dataset[{index}]"
        sample = made(dataset.__getitem__, index, call=call, within=_LONG)
        problem = problem or _cannot_be_sent(call, sample) or odd(index, sample)
    evidence = Evidence(length, problem, touched())
    for workers, epochs in () if problem or length != CAPTIONS else _RUNS:
        found: list[str] = []

        def loop(loader: DataLoader[Any], found: list[str] = found) -> None:
            samples = (sample for batch in loader for sample in batch)
            found.extend(map(odd, _ORDER, samples))

        ending = run_loader(
            dataset,
            loop,
            workers=workers,
            within=_LONG,
            epochs=epochs,
            batch_size=4,
            sampler=_ORDER,
            collate_fn=list,
            persistent_workers=workers > 0 and epochs > 1,
        )
        run = Run(workers, ending, len(found), next(filter(None, found), ""))
        evidence = replace(evidence, runs=(*evidence.runs, run), touched=touched())
        if ending.end != "finished" or run.odd:
            break
    return evidence


def _same(one: torch.Tensor | None, other: torch.Tensor) -> bool:
    return one is not None and one.dtype == other.dtype and torch.equal(one, other)


def _written(folder: Path) -> list[list[str]]:
    known, captions = list(VOCABULARY), []
    for number in range(CAPTIONS):
        words = [known[(number * 5 + 3 * place) % len(known)] for place in range(2 + number % 6)]
        captions.append(words + words[-1:] * (number % 3))  # some words come twice or three times
        text = " ".join(captions[-1]).capitalize()
        (folder / f"{number:03}.txt").write_text(text)
    return captions


def _cannot_be_sent(call: str, sample: Any) -> str:
    for name, part in sample.items() if isinstance(sample, dict) else [("it", sample)]:
        try:
            ForkingPickler.dumps(part)
        except Exception as error:
            text = tidy(f"{type(error).__name__}: {error}").splitlines()[0]
            return f"`{call}`: `{name}` cannot be sent to main, `{text:.80}`. What is it?"
    return ""


def _odd(sample: Any, words: list[str], vector: torch.Tensor) -> str:
    if not isinstance(sample, dict) or {*sample} != {"words", "times", "vector"}:
        return f"a sample is {shown(sample)}, not a dict of `words`, `times` and `vector`."
    said = [word for word in words if word not in ("a", "an", "the")]
    if not isinstance(sample["words"], list) or sample["words"] != said:
        return f"`words` is {shown(sample['words'])}, not the list {said}."
    if not isinstance(sample["times"], dict) or sample["times"] != Counter(words):
        return f"`times` is {shown(sample['times'])}, not the dict {dict(Counter(words))}."
    its = sample["vector"]
    if not isinstance(its, torch.Tensor) or its.shape != vector.shape:
        return f"`vector` is {shown(its)}, not a tensor of shape (5,)."
    if its.requires_grad:
        return "`vector` requires grad, and nothing can be trained through a loader."
    if its.dtype != vector.dtype:
        return f"`vector` is of {its.dtype}, and the starter's of {vector.dtype}."
    if not torch.allclose(its, vector):
        return f"`vector` is {shown(its)}, and the starter's is {shown(vector)}."
    return ""


def judge(evidence: Evidence) -> Result:
    """Correct if every sample arrived with any number of workers, and nothing else changed."""
    if evidence.length != CAPTIONS:
        not_yet(f"there are {CAPTIONS} captions, and `len(dataset)` is {evidence.length}.")
    if evidence.problem:
        not_yet(evidence.problem)
    for run in evidence.runs:
        lead = where(run.workers)
        if run.ending.end == "hung" and run.ending.last_words:
            not_yet(
                f"{lead}, the loop waits. A worker wrote `{run.ending.last_words}`. Which sample "
                "is that, and what is in it?"
            )
        ended_well(run.ending, lead)
        if run.odd:
            not_yet(f"{lead}, {run.odd}")
        if run.samples % CAPTIONS:
            not_yet(f"{lead}, the epoch ends early: {run.samples} samples arrive.")
    if evidence.touched:
        not_yet(f"the samples are right, but {evidence.touched}. Which of your lines does that?")
    return correct(
        f"{CAPTIONS} of {CAPTIONS} captions arrive with 0, 2 and 4 workers: words, times and "
        "vector. The table is the model's as before."
    )


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=partial(
        a_fixed_class,
        starter=Captions,
        without_workers="What of a sample cannot leave a worker?",
    ),
    runs="makes your class on fresh captions, and reads it in main and with 2, 0 and 4 workers",
    at_most=5 * _LONG,
)
