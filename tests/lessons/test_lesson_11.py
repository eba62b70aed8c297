"""Check lesson 11's counts of descriptors, its judge, and the commands in `On call`."""

from __future__ import annotations

import gc
import os
import re
import subprocess
from collections.abc import Callable
from multiprocessing import shared_memory
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from cells import source
from torch.utils.data import DataLoader

from dltutor.failures import too_many_open_files
from dltutor.failures.tools.gauge import no_proc
from dltutor.lessons import lesson_11
from dltutor.lessons.engine import words
from dltutor.lessons.engine.checking import verdict
from dltutor.lessons.engine.endings import Ending
from dltutor.lessons.engine.outcomes import Outcome
from dltutor.lessons.lesson_11 import confined, held, last_words, transfer
from dltutor.lessons.lesson_11.helpers import Rows, read_after_close
from dltutor.lessons.lesson_11.transfer import Epochs
from dltutor.observation import Observation
from dltutor.tables import Note
from notebooks import NOTEBOOKS, read

pytestmark = pytest.mark.skipif(no_proc() is not None, reason=str(no_proc()))

NOTEBOOK = NOTEBOOKS / "11-shared-memory-and-open-files.ipynb"
COPIED = re.findall(r"(?s)```(\w+)\n(.*?)```", source("on-call-code", read(NOTEBOOK)))
LOOK, DOCKER, POD, COPY, LIMIT = (text for _, text in COPIED)


def test_rows_that_are_lost_on_their_way_are_missing() -> None:
    epochs = Epochs("with 2 workers under fork", Ending("finished", 8), came=590)
    result = verdict(lambda: transfer.GRADER.judge((epochs,)))
    assert (result.outcome, result.code) == (Outcome.NOT_YET, "missing")


def test_a_row_in_the_block_ends_its_reader() -> None:
    # Look only for Python's own blocks, because other tests may make segments with torch's prefix.
    prefix = shared_memory._SHM_NAME_PREFIX[1:]
    before = {*Path("/dev/shm").glob(f"{prefix}*")}
    assert read_after_close(Rows).text == (
        "the process that read it was killed by SIGSEGV (exit code -11). Files left: 1."
    )
    assert {*Path("/dev/shm").glob(f"{prefix}*")} <= before


# Claims and code from the notebook


def test_each_way_to_keep_labels_keeps_what_the_check_says() -> None:
    pairs = dict(re.findall(r"`(\w)` \| `(labels[^`]+)`", source("diagnose", read(NOTEBOOK))))
    numbers: Any = [torch.tensor(number) for number in range(16)]
    keep = set()
    for letter, expression in pairs.items():
        loader = DataLoader(numbers, 8, num_workers=1, multiprocessing_context="fork")
        before = held().descriptors
        kept = [eval(expression, {"labels": labels}) for labels in loader]
        if held().descriptors == before + len(kept):
            keep.add(letter)
        del kept
    question = words.lesson("11")["diagnose"]
    assert {*pairs} == {*question["letters"]}
    assert keep == {*question["answer"]}


def test_the_size_of_what_a_batch_costs_is_the_batchs() -> None:
    [(_, descriptors, size)] = lesson_11.what_it_costs({"it": (torch.zeros(256, 256), None)}).rows
    assert (descriptors, size) == ("1", "2 MB")


@pytest.mark.parametrize(("method", "more"), [("fork", 0), ("forkserver", 50)])
def test_a_dataset_that_is_sent_costs_a_descriptor_for_each_of_its_tensors(
    method: str, more: int
) -> None:
    gc.collect()  # so that no garbage from an earlier test is freed in between
    numbers: Any = [torch.tensor(number) for number in range(50)]
    before = held().descriptors
    batches = iter(DataLoader(numbers, 10, num_workers=1, multiprocessing_context=method))
    batch = next(batches)
    assert more <= held().descriptors - before <= more + 5
    del batch, batches


def test_the_last_words_are_an_error_also_where_another_worker_writes_after_it() -> None:
    stderr = (
        'OSError: [Errno 24] Too many open files\n  File "connection.py", line 625, in accept\n'
    )
    seen = Mock(spec=Observation, chain=(), stderr=stderr, end="hung")
    said = "A worker wrote to stderr: OSError: [Errno 24] Too many open files"
    assert last_words(seen).text == said


def test_a_limit_that_is_not_permitted_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(target: Callable[..., Any], **how: Any) -> None:
        raise lesson_11.helpers.CannotConfine("no mounts here.")

    monkeypatch.setattr(lesson_11.helpers, "confine", refuse)
    told = confined(too_many_open_files.broken, shm="24M")
    assert isinstance(told, Note) and last_words(told) is told
    assert str(told).startswith("Not run here: no mounts here. The solved notebook")


# Commands and code from `On call`


def run_in_a_shell(lines: str) -> str:
    return subprocess.run(["bash", "-c", lines], capture_output=True, check=True, text=True).stdout


def test_the_lines_to_copy_are_few_and_run() -> None:
    assert [language for language, _ in COPIED] == ["sh", "sh", "yaml", "python", "sh"]
    assert len(LIMIT.splitlines()) == 1
    run_in_a_shell(f"ulimit -Sn 64; {LIMIT}[ $(ulimit -Sn) = $(ulimit -Hn) ]")
    kept: list[torch.Tensor] = []
    exec(COPY, {"kept": kept, "labels": torch.arange(3)})
    assert torch.equal(kept[0], torch.arange(3))
    assert DOCKER.startswith("docker run --shm-size=8g ")


def test_the_commands_show_what_a_process_has() -> None:
    loader = DataLoader([torch.zeros(3)] * 4, 2, num_workers=1, multiprocessing_context="fork")  # type: ignore[arg-type]
    batches = list(loader)
    said = run_in_a_shell(LOOK.replace("PID", str(os.getpid()))).splitlines()
    assert "/dev/shm" in said[-3]
    assert int(said[-2]) == held().descriptors >= len(batches) == 2
    assert said[-1].startswith("Max open files")


def test_the_pod_mounts_what_it_makes() -> None:
    yaml = pytest.importorskip("yaml")
    spec = yaml.safe_load(POD)
    [mount], [volume] = spec["containers"][0]["volumeMounts"], spec["volumes"]
    assert mount == {"name": volume["name"], "mountPath": "/dev/shm"}
    assert volume["emptyDir"]["medium"] == "Memory"
