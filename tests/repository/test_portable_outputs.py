"""Check that saved outputs name no machine, and which differences strict runs ignore."""

from __future__ import annotations

import re

import pytest
from nbformat.v4 import new_output
from nbval.plugin import get_sanitize_patterns
from notebook_runs import TESTS
from portable import ROOT, shorten, unfit
from tiny_notebooks import code, lesson

SANITIZERS = get_sanitize_patterns((TESTS / "nbval_sanitize.cfg").read_text(encoding="utf-8"))

TORCHS_FRAME = (
    'File "{}/site-packages/torch/utils/data/_utils/worker.py", line 349, in _worker_loop'
)

HOME, TMPDIR = "/tmp/dltutor-run-ab12/home", "/tmp/dltutor-run-ab12/tmp"


def problems(text: str) -> list[str]:
    """Return one sentence for each reason not to save a cell with this output."""
    cell = code("shows-it", "print(text)")
    cell.outputs = [new_output("stream", name="stdout", text=text)]
    return list(unfit(lesson(cell)))


@pytest.mark.parametrize(
    "text",
    [
        "saved in /home/jo/course/a.jpg",
        "'/tmp/tmpab12cd/0007.jpg'",
        "cannot open /mnt/disk1/images/a.png.",
        "This DataLoader will create 4 worker processes in total.",
    ],
)
def test_an_output_that_depends_on_the_machine_is_refused_by_cell(text: str) -> None:
    (problem,) = problems(text)
    assert "the output of cell shows-it" in problem


@pytest.mark.parametrize(
    "text",
    [
        "https://pytorch.org/docs/stable/data.html",
        "/dev/shm is 64 MB, /proc/self/status, /sys/fs/cgroup/memory.max",
        "12 MB/s and W0/W1/W2",
        'File "/tmp/ipykernel_N/N.py", line 3',
        'File ".../site-packages/torch/utils/data/dataloader.py"',
        "<b>a</b></td></tr>",
        "DLTUTOR_HOME/corrupt/0007.jpg",
    ],
)
def test_an_output_that_is_the_same_everywhere_may_be_saved(text: str) -> None:
    assert problems(text) == []


def sanitized(text: str) -> str:
    for pattern, replacement in SANITIZERS:
        text = re.sub(pattern, replacement, text)
    return text


def test_no_sanitizer_is_dropped_for_an_empty_replacement() -> None:
    text = (TESTS / "nbval_sanitize.cfg").read_text(encoding="utf-8")
    assert len(SANITIZERS) == len(re.findall("(?m)^regex:", text))
    assert all(replacement for _, replacement in SANITIZERS)


@pytest.mark.parametrize(
    ("here", "there"),
    [
        ("pid(s) 41, 4211) exited", "pid(s) 7) exited"),
        ("pid 4711", "pid 12"),
        ("at 0x7f3a1c00aa10>", "at 0x10e6f5c10>"),
        ("took 0.8 s", "took  12.25 s"),
        ("|  9 MB | 1,085 batches/s |\n|----|", "| 101 MB |   892 batches/s |\n|------|"),
        (TORCHS_FRAME.format("/opt/conda/lib/python3.12"), TORCHS_FRAME.format("/Users/J Doe/v")),
        ('File "/tmp/ipykernel_31/99.py", line 3', 'File "/var/T/ipykernel_7/12.py", line 4'),
        ("'/tmp/dltutor-run-a1_b/home/x'", "'/var/f/T/dltutor-run-zz99/home/x'"),
        ("'/tmp/tmpk3_d82la/x.jpg'", "'/var/f/T/tmpq7q7q7q7/x.jpg'"),
        ('File "/home/a/dltutor/dltutor/failures/x.py"', 'File "/srv/dltutor/failures/x.py"'),
        ("    return f(x)\n           ^^^^\nOSError", "    return f(x)\nOSError"),
    ],
)
def test_what_differs_between_machines_is_evened_out(here: str, there: str) -> None:
    assert sanitized(here) == sanitized(there)


@pytest.mark.parametrize(
    ("here", "there"),
    [
        ("57 of 64 samples are wrong", "0 of 64 samples are wrong"),
        ("W0 killed by SIGKILL", "W1 killed by SIGKILL"),
        ("OSError: truncated", "ValueError: truncated"),
        ("0007.jpg", "0008.jpg"),
    ],
)
def test_what_a_lesson_is_about_is_not_evened_out(here: str, there: str) -> None:
    assert sanitized(here) != sanitized(there)


@pytest.mark.parametrize(
    "text",
    [
        "DataLoader worker (pid(s) 41, 4211) exited unexpectedly",
        "<Dataset at 0x7f3a1c00aa10>",
        TORCHS_FRAME.format("/opt/conda/lib/python3.12"),
        TORCHS_FRAME.format("/Users/J Doe/v"),
        "/opt/conda/lib/python3.12/site-packages/torch/a.py:741, in f",
        "~/.venv/lib/python3.12/site-packages/torch/a.py:741, in f",
        "\x1b[32m~/v/lib/python3.12/site-packages/torch/a.py:741\x1b[39m, in f",
        "\x1b[32m/usr/lib/python3.11/queue.py:171\x1b[39m, in f",
        'File "/usr/lib/python3.11/multiprocessing/queues.py", line 244',
        'File "/tmp/ipykernel_31/99.py", line 3, in __getitem__',
        f"{HOME}/progress.json",
        f"cannot identify image file '{TMPDIR}/dltutor-k3_d82la/circle/0007.jpg'",
        "cannot identify image file '.../tmpk3_d82la/0007.jpg'",
        f'File "{ROOT}/dltutor/failures/corrupt_images.py", line 31',
    ],
)
def test_a_shortened_output_compares_equal_and_names_no_machine(text: str) -> None:
    short = shorten(text, HOME, TMPDIR)
    assert short != text
    assert short.count("\x1b[") == text.count("\x1b[")
    assert sanitized(short) == sanitized(text)
    assert problems(short) == []
