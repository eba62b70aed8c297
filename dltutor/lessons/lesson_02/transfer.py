"""Grade "02.transfer", which asks for samples that a worker can send to main."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any, Final

import torch
from torch.utils.data import Dataset

from dltutor.lessons.engine.endings import Ending, arrivals, check_ending, where
from dltutor.lessons.engine.exercise import by_runs
from dltutor.lessons.engine.forms import a_fixed_class, form, shown
from dltutor.lessons.engine.outcomes import Fault, correct, fault, not_yet, reject
from dltutor.lessons.engine.running import made, theirs
from dltutor.lessons.lesson_02 import helpers as lesson  # the name in the notebook's starter
from dltutor.observation.texts import tidy

CAPTIONS: Final = 22
_LONG: Final = 15  # time limit in seconds for each call or run, enough for a busy machine
_ORDER: Final = [(5 * place + 3) % CAPTIONS for place in range(CAPTIONS)]
_RUNS: Final = ((2, 2), (0, 1), (4, 1))  # each run's number of workers and number of epochs


class Captions(Dataset[dict[str, Any]]):
    """The notebook's starter for "02.transfer", whose samples a worker can't send to main."""

    def __init__(self, paths: Sequence[Path], table: torch.Tensor) -> None:
        self.paths, self.table = paths, table

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> dict[str, Any]:
        words = self.paths[index].read_text().lower().split()
        numbers = torch.tensor([lesson.VOCABULARY[word] for word in words])
        return {
            "words": (word for word in words if word not in ("a", "an", "the")),
            "times": Counter(words).items(),
            "vector": self.table[numbers].mean(dim=0),
        }


@dataclass(frozen=True)
class Run:
    """A record of a run's settings, of how the run ended, and of the first mistake, if any."""

    where: str
    ending: Ending
    wrong: Fault | None


def run(answer: type) -> Iterator[Run]:
    """Read the first and the last sample in main, then yield a record of each loader's run.

    Raises:
        Rejected: The dataset can't be made, has the wrong length, or has a wrong sample in main.
    """
    folder = Path(tempfile.mkdtemp())
    captions = _written(folder)
    table = torch.nn.Parameter(torch.arange(80.0).reshape(16, 5).double() % 7)
    held, paths = table.detach().clone(), sorted(folder.iterdir())

    def odd(index: int, sample: Any) -> Fault | None:
        vector = held[[lesson.VOCABULARY[word] for word in captions[index]]].mean(dim=0)
        with theirs():
            return _odd(sample, captions[index], vector)

    def touched() -> Fault | None:
        if not table.requires_grad or not torch.equal(table, held):
            return fault("table-changed")
        return None if torch.is_grad_enabled() else fault("autograd-off")

    call = f"{answer.__name__}(paths, table)"
    dataset = made(answer, paths, table, call=call, within=_LONG)
    length: int = made(lambda: len(dataset), call="len(dataset)", within=_LONG)
    if length != CAPTIONS:
        not_yet("other-length", captions=CAPTIONS, length=length)
    for index in (0, CAPTIONS - 1):
        call = f"dataset[{index}]"
        sample = made(dataset.__getitem__, index, call=call, within=_LONG)
        if problem := _cannot_be_sent(call, sample) or odd(index, sample):
            reject(problem, where="in main")
    for workers, epochs in _RUNS:
        ending, came = arrivals(
            dataset,
            lambda sample: sample,
            workers=workers,
            within=_LONG,
            epochs=epochs,
            batch_size=4,
            sampler=_ORDER,
        )
        found = [odd(*each) for epoch in came for each in zip(_ORDER, epoch, strict=False)]
        wrong = next(filter(None, found), None)
        if not wrong and len(found) != (expected := CAPTIONS * epochs):
            wrong = fault("ends-early", samples=len(found), expected=expected)
        yield Run(where(workers), ending, wrong or touched())


def _written(folder: Path) -> list[list[str]]:
    known, captions = list(lesson.VOCABULARY), []
    for number in range(CAPTIONS):
        words = [known[(number * 5 + 3 * place) % len(known)] for place in range(2 + number % 6)]
        captions.append(words + words[-1:] * (number % 3))  # some words appear two or three times
        text = " ".join(captions[-1]).capitalize()
        (folder / f"{number:03}.txt").write_text(text)
    return captions


def _cannot_be_sent(call: str, sample: Any) -> Fault | None:
    parts = sample.items() if isinstance(sample, dict) else [(None, sample)]
    for name, part in parts:
        try:
            ForkingPickler.dumps(part)
        except Exception as error:
            text = tidy(f"{type(error).__name__}: {error}").splitlines()[0]
            code = "sample-cannot-be-sent" if name is None else "cannot-be-sent"
            return fault(code, call=call, part=name, error=f"{text:.80}")
    return None


def _odd(sample: Any, words: list[str], vector: torch.Tensor) -> Fault | None:
    if not isinstance(sample, dict) or {*sample} != {"words", "times", "vector"}:
        return fault("other-sample", got=shown(sample))
    said = [word for word in words if word not in ("a", "an", "the")]
    if not isinstance(sample["words"], list) or sample["words"] != said:
        return fault("other-words", got=shown(sample["words"]), due=said)
    if not isinstance(sample["times"], dict) or sample["times"] != Counter(words):
        return fault("other-times", got=shown(sample["times"]), due=dict(Counter(words)))
    got = sample["vector"]
    if form(got) != form(vector):
        return fault("other-vector", got=form(got), due=form(vector))
    if got.requires_grad:
        return fault("requires-grad")
    if got.is_inference():
        return fault("inference-tensor")
    if not torch.allclose(got, vector):
        return fault("other-values", got=shown(got), due=shown(vector))
    return None


def judge(run: Run) -> None:
    """Raise `Rejected` unless all samples arrived and are right.

    The answer must also leave the table unchanged, and torch's grad mode on.
    """
    if run.ending.end == "hung" and run.ending.last_words:
        not_yet("waits", where=run.where, last_words=run.ending.last_words)
    check_ending(run.ending, run.where)
    if run.wrong:
        reject(run.wrong, where=run.where)


GRADER: Final = by_runs(
    run,
    judge,
    result=lambda runs: correct(captions=CAPTIONS),
    look=partial(a_fixed_class, starter=Captions),
    at_most=5 * _LONG,
)
