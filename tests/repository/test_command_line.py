"""Check what the `dltutor` command prints and imports, and its exit codes."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fresh_interpreter import run_fresh
from own_process import DEADLINE

import dltutor
from dltutor.__main__ import main
from dltutor.failures import CATALOG, FACTS


def test_list_names_every_failure_mode(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [[f.lesson, f.name] for f in CATALOG]


def test_explain_tells_lesson_and_fix(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "OSError: image file is", "truncated (11 bytes not processed)"]) == 0
    told = capsys.readouterr().out
    for words in ("corrupt_images (lesson 01)", "why ", "do ", "dltutor show corrupt_images"):
        assert words in told


def test_what_several_causes_share_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "DataLoader worker (pid 7) is killed by signal: Killed."]) == 0
    told = capsys.readouterr().out
    assert told.count("  found ") == told.count("  tell ") == told.count("dmesg") == 1
    assert told.count("  why ") == 3 and "Less likely: heap_growth" in told


def test_explain_reads_a_log_on_standard_input_whatever_its_bytes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = b"\xff\xfe 12 %\nOSError: image file is truncated\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(log)))
    assert main(["explain"]) == 0
    assert "corrupt_images" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("log", "known"),
    [
        ("RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use", "spawn"),
        ("OSError: AF_UNIX path too long", "TMPDIR"),
        ("lmdb.ReadersFullError: mdb_txn_begin: MDB_READERS_FULL", "lock=False"),
        ("RuntimeError: Expected a 'cuda' device type for generator but found 'cpu'", "generator="),
    ],
)
def test_what_is_known_of_a_message_without_a_failure_mode_is_told(
    log: str, known: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", log]) == 0
    told = capsys.readouterr().out
    assert known in told and "dltutor show" not in told


def test_explain_says_so_when_nothing_matches(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "empty.log"
    empty.touch()
    for text, said in (
        ("KeyError: 'label'", "No failure mode"),
        (" ", "nothing to explain"),
        (str(empty), "nothing to explain"),
    ):
        assert main(["explain", text]) == 1
        assert said in capsys.readouterr().out


def test_show_tells_broken_and_fixed_as_one_story(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "none_in_batch"]) == 0
    told = capsys.readouterr().out
    parts = ["start method fork", "== Broken ==", "== Why ==", "== Fixed ==", "== What to do =="]
    parts += ["Broken: raised: AttributeError", "Fixed: finished"]
    places = [told.index(part) for part in parts]
    assert places == sorted(places)


def test_show_names_the_nearest_for_a_name_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "corrupt_image"]) == 2
    assert "got 'corrupt_image': did you mean corrupt_images" in capsys.readouterr().err
    assert main(["show", "xyz"]) == 2
    assert "dltutor list" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["shw"], ["show"], ["show", "x", "--start-method", "no"]])
def test_wrong_words_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        main(words)
    assert refused.value.code == 2
    assert "usage: dltutor" in capsys.readouterr().err


def test_who_reads_only_its_first_lines_sees_no_traceback() -> None:
    read, write = os.pipe()
    os.close(read)  # as `| head` does when it has seen enough
    command = [sys.executable, "-m", "dltutor", "list"]
    try:
        done: Any = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, timeout=DEADLINE)
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


def test_nothing_heavy_is_imported_for_an_answer() -> None:
    done = run_fresh(
        """
        import sys
        from dltutor.__main__ import main
        for command in (["list"], ["list", "--json"], ["explain", "ancdata"]):
            main(command)
        print("\\nimported", *sorted({"torch", "numpy", "PIL", "psutil"} & set(sys.modules)))
        """
    )
    assert done.stdout.splitlines()[-1] == "imported"


def test_version_and_help_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    assert left.value.code == 0
    assert capsys.readouterr().out == f"dltutor {dltutor.__version__}\n"
    assert main([]) == 0
    assert "diagnose" in capsys.readouterr().out


def test_list_takes_one_lesson(capsys: pytest.CaptureFixture[str]) -> None:
    names = [each.name for each in FACTS if each.lesson == "01"]
    assert "corrupt_images" in names
    for lesson in ("01", "1"):
        assert main(["list", "--lesson", lesson]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert [line.split()[1] for line in lines] == names
    for lesson in ("00", "99", "x", ""):
        assert main(["list", "--lesson", lesson]) == 2
        told = capsys.readouterr()
        assert told.out == "" and f"(01 to 13), got {lesson!r}" in told.err


def test_the_catalog_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in listed] == [facts.name for facts in FACTS]
    assert listed[0]["symptoms"] == list(FACTS[0].symptoms)
    assert set(listed[0]) == {"name", "lesson", "promise", "symptoms", "cause", "fix"}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "latin-1"])
def test_a_file_is_read(encoding: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "train.log"
    log.write_bytes("Époche 1\nRuntimeError: received 0 items of ancdata\n".encode(encoding))
    assert main(["explain", str(log)]) == 0
    assert "too_many_open_files (lesson 11)" in capsys.readouterr().out


def test_of_a_large_file_the_beginning_and_the_end_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "train.log"
    with log.open("wb") as file:
        file.write(b"image file is truncated\n")
        file.seek(100_000_000)  # a hole, which takes up no disk space
        file.write(b"\n" + b"loss 0.1\n" * 300_000 + b"received 0 items of ancdata\n")
    assert main(["explain", str(log)]) == 0
    told = capsys.readouterr().out
    assert told.index("too_many_open_files") < told.index("corrupt_images")


def test_a_long_pipe_is_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    log = b"loss 0.1\n" * 600_000 + b"received 0 items of ancdata\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(Pipe(log)))
    assert main(["explain", "-"]) == 0


def test_a_message_that_is_too_long_for_a_file_name_is_a_message() -> None:
    assert main(["explain", "x" * 10_000 + " image file is truncated"]) == 0
    assert main(["explain", "no\0name: image file is truncated"]) == 0


def test_a_path_without_a_file_is_told_from_a_message(capsys: pytest.CaptureFixture[str]) -> None:
    for path in (
        "train.log",
        "/no/dir/train.log",
        "runs/7/stderr",
        "/my runs/a.out",
        r"C:\a\b.txt",
    ):
        assert main(["explain", path]) == 1
        told = capsys.readouterr()
        assert len(told.err.splitlines()) == 1 and f"no file {path}" in told.err
        assert told.out.startswith("No failure mode matches")
    for message in (
        ["FileNotFoundError: [Errno 2] No such file or directory: '/data/x.jpg'"],
        ["FileNotFoundError:", "[Errno 2]", "/data/x.jpg"],  # a shell removes quotes
        ["cannot identify image file '/data/x.jpg'"],
        ["/opt/train.py:12: UserWarning"],
        ["ancdata"],
        ["torch.utils.data"],
        ["could not lock the file /data/x.h5"],
    ):
        assert main(["explain", *message]) in (0, 1)
        assert capsys.readouterr().err == "", message


@pytest.mark.parametrize("what", ["a directory", "binary", "no permission"])
def test_what_cannot_be_read_is_told_in_one_sentence(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log"
    if what == "a directory":
        path.mkdir()
    elif what == "binary":
        path.write_bytes(bytes(range(256)) * 100)
    else:
        path.write_text("received 0 items of ancdata")
        path.chmod(0)
        if os.access(path, os.R_OK):
            pytest.skip("this user may read everything")
    assert main(["explain", str(path)]) == 2
    told = capsys.readouterr()
    assert told.out == "" and len(told.err.splitlines()) == 1 and str(path) in told.err


def test_the_command_is_installed_under_its_name() -> None:
    pyproject = Path(dltutor.__file__).parent.parent / "pyproject.toml"
    assert 'dltutor = "dltutor.__main__:command"' in pyproject.read_text()
