"""Check that a stuck process reports the lines where it waits, with the innermost one first."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from own_process import until
from small_datasets import FOR_EVER

from dltutor.observation import stacks

DUMP = """Thread 0x00007f0000000001 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 327 in wait
  File "/home/me/train/data.py", line 9 in prefetch

Current thread 0x00007f0000000002 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 300 in acquire
  File "/home/me/train/data.py", line 17 in read
  File "/x/site-packages/torch/utils/data/_utils/fetch.py", line 52 in fetch
  File "/home/me/train/data.py", line 30 in __getitem__
  File "/x/site-packages/torch/utils/data/_utils/worker.py", line 349 in _worker_loop
  File "/usr/lib/python3.11/multiprocessing/process.py", line 108 in run
  File "/home/me/train/train.py", line 5 in main
"""


def test_the_learners_lines_of_the_main_thread_come_innermost_first() -> None:
    frames = stacks.main_thread(DUMP)
    assert [(frame.file, frame.line, frame.function) for frame in frames] == [
        ("train/data.py", 17, "read"),
        ("train/data.py", 30, "__getitem__"),
    ]


def test_the_line_itself_is_read_where_its_file_is_there(tmp_path: Path) -> None:
    source = tmp_path / "own" / "data.py"
    source.parent.mkdir()
    source.write_text("def read():\n    lock.acquire()  # held\n")
    [frame] = stacks.main_thread(
        f'x (most recent call first):\n  File "{source}", line 2 in read\n'
    )
    assert str(frame) == "own/data.py, line 2, in read: lock.acquire()  # held"


def test_the_c_functions_that_python_314_adds_to_a_crash_are_left_out() -> None:
    added = (
        "\nCurrent thread's C stack trace (most recent call first):\n"
        '  Binary file "/usr/bin/python", at _Py_DumpStack+0x4a [0x49b2f9]\n'
        '  Binary file "/usr/lib/libffi.so.8", at ffi_call+0x155 [0x7f0b270c9fe5]\n'
    )
    crashed = DUMP.replace("00000002 (most", "00000002 [python] (most") + added
    assert stacks.main_thread(crashed) == stacks.main_thread(DUMP)


@pytest.mark.parametrize("dump", ["", "\n", "nonsense", DUMP[:40]])
def test_of_what_is_no_stack_nothing_is_told(dump: str) -> None:
    assert stacks.main_thread(dump) == ()


# Asking a process for its stack.


def stand_in_a_lock(folder: str) -> None:
    threading.Thread(target=time.sleep, args=(FOR_EVER,), daemon=True).start()
    lock = threading.Lock()
    lock.acquire()
    stacks.answer_when_asked(folder)
    (Path(folder) / "ready").touch()
    lock.acquire()


def sleep_without_answering(folder: str) -> None:
    (Path(folder) / "ready").touch()
    time.sleep(FOR_EVER)


@contextmanager
def stuck(where: Callable[[str], None], folder: Path) -> Iterator[int]:
    process = multiprocessing.get_context("fork").Process(target=where, args=(str(folder),))
    process.start()
    try:
        until((folder / "ready").exists)
        assert process.pid is not None
        yield process.pid
        assert process.is_alive()
    finally:
        process.kill()
        process.join()
        process.close()


def test_a_process_in_a_lock_says_so_and_lives_on(
    tmp_path: Path, nothing_left_behind: Callable[..., None]
) -> None:
    with stuck(stand_in_a_lock, tmp_path) as pid:
        for _ in range(2):
            frames = stacks.ask(str(tmp_path), pid)
            assert frames is not None
            assert (frames[0].file, frames[0].function) == (
                "observation/test_stacks.py",
                "stand_in_a_lock",
            )
            assert frames[0].code == "lock.acquire()"


def test_a_process_that_does_not_listen_is_not_asked(tmp_path: Path) -> None:
    # The process hasn't called `answer_when_asked`, so the signal would kill it.
    with stuck(sleep_without_answering, tmp_path) as pid:
        assert stacks.ask(str(tmp_path), pid) is None


def test_a_process_that_cannot_answer_or_is_gone_is_not_waited_for_forever(tmp_path: Path) -> None:
    with stuck(stand_in_a_lock, tmp_path) as pid:
        os.kill(pid, signal.SIGSTOP)
        started = time.monotonic()
        assert stacks.ask(str(tmp_path), pid) is None
        assert time.monotonic() - started < 10
        os.kill(pid, signal.SIGCONT)
    assert stacks.ask(str(tmp_path), pid) is None, "it's gone"
