"""Check that `diagnose` finds an error, clears a healthy loader, ends in time, and cleans up.

The last tests check the exit codes and the errors of the command `dltutor diagnose`.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from small_datasets import BAD, Numbers, load, raise_error

from dltutor import diagnose
from dltutor.__main__ import main
from dltutor.diagnosis import report as diagnosis_module
from dltutor.diagnosis.report import UNSEEN, page

pytestmark = pytest.mark.usefixtures("nothing_left_behind")


def test_a_healthy_loader_gets_no_finding_and_nothing_of_yours_is_changed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    drawn: list[float] = []
    generator = random.Random(3)
    before = generator.getstate()
    held, far_end = socket.socketpair()
    far_end.setblocking(False)
    with held, far_end:
        dataset: Any = Numbers(lambda: drawn.append(generator.random()))
        dataset.connection = held
        loader = load(dataset)
        diagnosis = diagnose(loader, deadline=100)  # enough for all experiments on a busy machine
        with pytest.raises(BlockingIOError):  # nothing was sent
            far_end.recv(1)
    assert diagnosis.ok and diagnosis.findings == () and diagnosis.untried == ()
    assert "Numbers, 2 workers by fork: nothing found" in str(diagnosis)
    assert UNSEEN in str(diagnosis) and UNSEEN in diagnosis._repr_html_()
    said = capsys.readouterr().out
    assert said.startswith("Running the loader again") and "a database" in said
    assert (drawn, generator.getstate()) == ([], before)
    assert len(list(loader)) == 8


def test_an_exception_of_your_code_is_found_and_told_alike_as_text_and_html_and_json() -> None:
    diagnosis = diagnose(load(Numbers(raise_error)))
    finding = diagnosis.findings[0]
    assert finding.name == "raises" and finding.certainty == "shown"
    assert f"dataset[{BAD}]" in finding.evidence and "nine is bad" in finding.evidence
    assert "small_datasets.py" in finding.where and "in raise_error" in finding.where
    told = " ".join(str(diagnosis).split())
    for _, text in finding.rows():
        assert " ".join(text.split()) in told
    html = page(diagnosis)
    assert html.count("raises") >= 1 and f"dataset[{BAD}]" in html and "<script" not in html
    found = json.loads(json.dumps(diagnosis.to_dict()))
    assert found["findings"][0]["name"] == "raises"
    schema = json.loads(Path(diagnosis_module.__file__).with_suffix(".schema.json").read_text())
    jsonschema.validate(found, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**found, "ok": "yes"}, schema)


@pytest.mark.parametrize(
    "after", [0.6, *(pytest.param(each, marks=pytest.mark.thorough) for each in (0.05, 1.5))]
)  # the default tier stops only one diagnosis, because each takes seconds
def test_stop_ends_a_visit_at_once_and_nothing_is_left(after: float) -> None:
    timer = threading.Timer(after, os.kill, (os.getpid(), signal.SIGINT))
    loader = load(Numbers())
    with pytest.raises(KeyboardInterrupt):
        timer.start()
        diagnose(loader)
        time.sleep(10)  # in case diagnose() returns before the timer fires
    timer.join()


def test_the_deadline_bounds_the_visit_and_what_was_not_tried_is_named() -> None:
    began = time.monotonic()
    diagnosis = diagnose(load(Numbers(partial(time.sleep, 0.5))), deadline=3)
    assert time.monotonic() - began < 3 + 5  # 5 s more for a busy machine
    assert diagnosis.untried and all(each.why for each in diagnosis.untried)


MODULE = """\
import os
from torch.utils.data import DataLoader

class Rooms:
    def __len__(self):
        return 48

    def __getitem__(self, index):
        if index == 29 and os.environ.get("SPOILED"):
            raise KeyError("no label for room 29")
        return index

def make():
    return DataLoader(Rooms(), batch_size=8)

def train(loader):
    for batch in loader:
        pass

def refuse():
    raise ValueError("no such building")

def vanish():
    os.kill(os.getpid(), 9)

def ask():
    input("which building? ")

loader = make()
door = 7
"""


@pytest.fixture
def building(tmp_path: Path) -> Path:
    path = tmp_path / "building.py"
    path.write_text(MODULE)
    return path


def test_the_command_has_an_exit_code_for_each_outcome(
    building: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diagnose", f"{building}:loader"]) == 0
    assert "nothing found" in capsys.readouterr().out
    monkeypatch.setenv("SPOILED", "1")
    html = building.with_suffix(".html")
    command = ["diagnose", f"{building}:make", "--consume", "train", "--html", str(html), "--json"]
    assert main(command) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["findings"][0]["name"] == "raises"
    assert "no label for room 29" in html.read_text()


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("refuse", "raised ValueError: no such building."),
        ("vanish", "making the loader ended its process by SIGKILL."),
        ("ask", "raised EOFError: input()"),
        ("door", "door must be a DataLoader or a function that returns one, got int."),
        ("window", "has no 'window': it has loader."),
    ],
)
def test_the_command_says_in_one_sentence_why_it_cannot_run(
    name: str, sentence: str, building: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diagnose", f"{building}:{name}"]) == 2
    said = capsys.readouterr().err
    assert sentence in said and said.count("\n") == 1
