"""Check that the wheel has the notebooks, and that `dltutor lab` lays them out and opens them."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Callable, Iterator
from pathlib import Path
from zipfile import ZipFile

import jupyter_server
import nbformat
import notebook_rules as rules
import pytest
import unprivileged
from own_process import DEADLINE

import dltutor
from dltutor.__main__ import main
from dltutor.lab import command as lab
from dltutor.lab import course_folder
from dltutor.lab.course_folder import RECORD, LaidOut, lay_out

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.xdist_group("lab")  # one process, because the tests share a wheel


def files(folder: Path) -> dict[str, bytes]:
    """Return the content of every file in a folder, hidden files too, by its path."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


# ---- the wheel


def built(target: str, folder: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=DEADLINE)
    (file,) = folder.iterdir()
    return file


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("wheel", tmp_path_factory.mktemp("wheel"))


def test_the_wheel_has_every_file_of_the_notebooks(wheel: Path) -> None:
    there = {
        name
        for name in files(ROOT / "notebooks")
        if not {".ipynb_checkpoints", "incidents"} & {*Path(name).parts}
    }
    assert "00-start-here.ipynb" in there
    names = ZipFile(wheel).namelist()
    packed = [name for name in names if name.startswith("dltutor/notebooks/")]
    assert sorted(packed) == sorted(f"dltutor/notebooks/{name}" for name in there)


def test_an_editable_install_copies_nothing_out_of_the_clone(tmp_path: Path) -> None:
    names = ZipFile(built("wheel:editable", tmp_path)).namelist()
    assert [name for name in names if ".dist-info/" not in name] == ["_dltutor.pth"]


def test_an_installed_wheel_lays_out_what_the_clone_lays_out_and_without_torch(
    wheel: Path, tmp_path: Path
) -> None:
    installed, folder = tmp_path / "installed", tmp_path / "course"
    ZipFile(wheel).extractall(installed)
    code = "import os, sys; from dltutor.__main__ import main;"
    code += "os.execv = lambda *_: print(main.__code__.co_filename, 'torch' in sys.modules);"
    code += "main(['lab', 'course'])"
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
        check=True,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    assert run.stdout.splitlines()[-1] == f"{installed}/dltutor/__main__.py False"
    lay_out(tmp_path / "from the clone")
    assert files(folder) == files(tmp_path / "from the clone")


# ---- which files are laid out


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("anywhere") / "course"
    lay_out(folder)
    return folder


def code(notebook: bytes) -> list[tuple[str, str]]:
    cells = json.loads(notebook)["cells"]
    return [(cell["id"], cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def test_every_notebook_is_laid_out_with_its_code_as_it_is(course: Path) -> None:
    there, laid_out = files(ROOT / "notebooks"), files(course)
    lessons = [name for name in there if re.match(r"(solutions/)?\d\d-[^/]+$", name)]
    assert {lab.FIRST, f"solutions/{lab.FIRST}"} <= set(lessons)
    assert [name for name in lessons if code(laid_out[name]) != code(there[name])] == []


def test_a_clone_that_lessons_have_run_in_lays_out_the_course_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    clone = tmp_path / "clone"
    for name in ("00.ipynb", "incidents/text/data.py", "solutions/incidents/held-out/text/data.py"):
        path = clone / "notebooks" / name
        path.parent.mkdir(parents=True)
        path.touch()
    monkeypatch.setattr(dltutor, "__file__", str(clone / "dltutor" / "__init__.py"))
    assert lay_out(tmp_path / "course").new == ("00.ipynb",)


def test_every_link_in_the_folder_leads_to_a_file_in_it_or_to_the_web(course: Path) -> None:
    links = []
    for path in course.rglob("*.ipynb"):
        cells = nbformat.read(path, as_version=4).cells
        links += [(path, link) for cell in cells for link in rules.relative_links(cell)]
    for path in course.rglob("*.md"):
        found = re.findall(r"\]\((?!https?:)([^)#]+)\)", path.read_text())
        links += [(path, link) for link in found]
    assert {path.suffix for path, _ in links} == {".ipynb", ".md"}
    resolved = [(path.parent / link).resolve() for path, link in links]
    assert [at for at in resolved if not (at.exists() and at.is_relative_to(course))] == []


def test_a_link_to_the_code_leads_to_the_public_address(course: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    address = f"{project['urls']['Repository']}/blob/HEAD/dltutor/failures/shm_exhausted.py"
    lesson = "11-shared-memory-and-open-files.ipynb"
    for name in ["CHEATSHEET.md", lesson, f"solutions/{lesson}"]:
        assert f"]({address})" in (course / name).read_text(), name


# ---- a folder that several versions lay out, with a course of three small files


OLD = {"00.ipynb": b"old", "figures/a.svg": b"old", "solutions/00.ipynb": b"old"}
NEWER = OLD | {"00.ipynb": b"new"}

HandOut = Callable[[str, dict[str, bytes]], LaidOut]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "course"


@pytest.fixture
def hand_out(monkeypatch: pytest.MonkeyPatch, folder: Path) -> HandOut:
    """Return a function that lays out pages in `folder`, as a given version of dltutor would."""

    def laid_out(version: str, pages: dict[str, bytes]) -> LaidOut:
        monkeypatch.setattr(course_folder, "_pages", lambda: iter(pages.items()))
        monkeypatch.setattr(dltutor, "__version__", version)
        return lay_out(folder)

    return laid_out


def without_record(folder: Path) -> dict[str, bytes]:
    return {name: page for name, page in files(folder).items() if name != RECORD}


def written(folder: Path) -> dict[Path, tuple[int, int]]:
    """Return the inode of each file and folder, and the time when it was last written."""
    stats = {path: path.stat() for path in folder.rglob("*")}
    return {path: (stat.st_ino, stat.st_mtime_ns) for path, stat in stats.items()}


def test_a_folder_that_has_it_all_is_left_alone(hand_out: HandOut, folder: Path) -> None:
    assert hand_out("0.1.0", OLD) == LaidOut(tuple(OLD), (), (), ())
    before = written(folder)
    assert hand_out("0.2.0", OLD) == LaidOut((), (), (), ())
    assert written(folder) == before


def test_what_is_missing_is_laid_out_again(hand_out: HandOut, folder: Path) -> None:
    hand_out("0.1.0", OLD)
    (folder / "00.ipynb").unlink()
    shutil.rmtree(folder / "figures")
    assert hand_out("0.1.0", OLD).new == ("00.ipynb", "figures/a.svg")
    assert without_record(folder) == OLD


def test_a_file_as_an_earlier_version_laid_it_out_is_brought_up_to_date(
    hand_out: HandOut, folder: Path
) -> None:
    hand_out("0.1.0", OLD)
    assert hand_out("0.2.0", NEWER) == LaidOut((), ("00.ipynb",), (), ())
    assert without_record(folder) == NEWER


def test_a_changed_file_stays_and_the_newer_one_comes_beside_it_once(
    hand_out: HandOut, folder: Path
) -> None:
    hand_out("0.1.0", OLD)
    (folder / "00.ipynb").write_bytes(b"mine")
    assert hand_out("0.1.1", OLD) == LaidOut((), (), (), ("00.ipynb",))
    beside = "00 (dltutor 0.2.0).ipynb"
    assert hand_out("0.2.0", NEWER).beside == (("00.ipynb", beside),)
    for version in ("0.2.0", "0.3.0"):  # 0.3.0 has nothing newer than 0.2.0
        hand_out(version, NEWER)
        assert without_record(folder) == OLD | {"00.ipynb": b"mine", beside: b"new"}


def test_a_changed_newer_file_stays_as_well(hand_out: HandOut, folder: Path) -> None:
    hand_out("0.1.0", OLD)
    (folder / "00.ipynb").write_bytes(b"mine")
    hand_out("0.2.0", NEWER)
    (folder / "00 (dltutor 0.2.0).ipynb").write_bytes(b"mine too")
    hand_out("0.2.0", OLD | {"00.ipynb": b"newer"})  # from a clone that is still at 0.2.0
    hand_out("0.3.0", OLD | {"00.ipynb": b"newest"})
    assert without_record(folder) == OLD | {
        "00.ipynb": b"mine",
        "00 (dltutor 0.2.0).ipynb": b"mine too",
        "00 (dltutor 0.2.0, 2).ipynb": b"newer",
        "00 (dltutor 0.3.0).ipynb": b"newest",
    }


@pytest.mark.parametrize("record", [None, b"", b"[]", b"{", b"\xff"])
def test_without_a_readable_record_whatever_differs_is_the_learners(
    hand_out: HandOut, folder: Path, record: bytes | None
) -> None:
    hand_out("0.1.0", OLD)
    (folder / RECORD).unlink()
    if record is not None:
        (folder / RECORD).write_bytes(record)
    assert hand_out("0.2.0", NEWER).beside == (("00.ipynb", "00 (dltutor 0.2.0).ipynb"),)
    assert (folder / "00.ipynb").read_bytes() == b"old"


@pytest.mark.parametrize("kind", ["folder", "link to nowhere"])
def test_what_is_no_file_is_the_learners(hand_out: HandOut, folder: Path, kind: str) -> None:
    folder.mkdir()
    there = folder / "00.ipynb"
    there.mkdir() if kind == "folder" else there.symlink_to("nowhere")
    assert hand_out("0.1.0", OLD).beside == (("00.ipynb", "00 (dltutor 0.1.0).ipynb"),)
    assert there.is_dir() or there.is_symlink()


def test_all_that_was_done_is_told() -> None:
    told = str(LaidOut(("a", "b"), ("c",), (("d", "d (2)"),), ("e", "f", "g"))).splitlines()
    assert [len(told), *(line.split()[0] for line in told[:3])] == [4, "2", "1", "3"]
    assert "d (2)" in told[3]
    assert str(LaidOut((), (), (), ()))


# ---- a run that is interrupted


@pytest.fixture
def interrupted_at_the_second_move(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    moves = []
    replace = os.replace

    def interrupted(source: Path, target: Path) -> None:
        moves.append(target)
        if len(moves) == 2:
            raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr(os, "replace", interrupted)
    yield
    assert len(moves) >= 2, "it was not interrupted"


@pytest.mark.usefixtures("interrupted_at_the_second_move")
def test_a_new_folder_that_was_interrupted_is_gone(hand_out: HandOut, folder: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        hand_out("0.1.0", OLD)
    assert not folder.exists()


def test_an_interrupted_update_leaves_each_file_old_or_new_and_the_next_one_finishes_it(
    hand_out: HandOut, folder: Path, request: pytest.FixtureRequest
) -> None:
    newer = dict.fromkeys(OLD, b"new")
    hand_out("0.1.0", OLD)
    request.getfixturevalue("interrupted_at_the_second_move")
    with pytest.raises(KeyboardInterrupt):
        hand_out("0.2.0", newer)
    assert files(folder).keys() == {*OLD, RECORD}
    assert sorted(without_record(folder).values()) == [b"new", b"old", b"old"]
    hand_out("0.2.0", newer)
    assert without_record(folder) == newer


# ---- the command


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """Change to tmp_path, and collect the commands that would replace this process."""
    commands: list[list[str]] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "execv", lambda program, command: commands.append(command))
    return commands


def test_it_opens_jupyterlab_in_the_folder_at_the_first_lesson(
    started: list[list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["lab", "here", "--no-browser", "--port", "8931"])
    (command,) = started
    assert command[:3] == [sys.executable, "-m", "jupyterlab"]
    assert f"--ServerApp.root_dir={tmp_path}/here" in command
    assert "--LabApp.default_url=/lab/tree/00-start-here.ipynb" in command
    assert {"--ip=127.0.0.1", "--allow-root"} <= set(command)
    assert command[-2:] == ["--no-browser", "--port=8931"]
    assert Path.cwd() == tmp_path / "here"
    where, what = capsys.readouterr().out.splitlines()
    assert f"{tmp_path}/here" in where
    assert what.startswith(f"{len(files(tmp_path / 'here')) - 1} ")


def test_without_a_folder_it_takes_one_of_its_own_where_you_are(
    started: list[list[str]], tmp_path: Path
) -> None:
    main(["lab"])
    assert (tmp_path / "dltutor-course" / lab.FIRST).is_file()
    assert not any(word.startswith(("--no-browser", "--port")) for word in started[0])


@pytest.mark.parametrize("port", ["0", "65536", "-1", "http", "8888.0"])
def test_a_port_that_is_none_is_refused(
    started: list[list[str]], tmp_path: Path, port: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["lab", f"--port={port}"])
    assert end.value.code == 2
    assert f"from 1 to 65535, got '{port}'" in capsys.readouterr().err
    assert not started
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        (["taken"], 2, "{}/taken is a file"),  # a file has the folder's name
        (["no/where"], 2, "got {}/no/where"),  # the parent folder doesn't exist
        (["."], 1, "{}/figures is a file"),  # a file has the name of a folder in the course
    ],
)
def test_a_folder_that_cannot_be_is_refused_by_its_name(
    arguments: list[str],
    code: int,
    named: str,
    started: list[list[str]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    mine = {"taken": b"mine", "figures": b"mine"}
    for name, page in mine.items():
        (tmp_path / name).write_bytes(page)
    assert main(["lab", *arguments]) == code
    said = capsys.readouterr()
    assert (started, said.out, said.err.count("\n")) == ([], "", 1)
    assert named.format(tmp_path) in said.err
    assert files(tmp_path) == mine


def test_what_stops_it_is_told_in_one_sentence(
    started: list[list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupted(folder: Path) -> LaidOut:
        raise KeyboardInterrupt

    monkeypatch.setattr(lab, "lay_out", interrupted)
    assert main(["lab"]) == 130
    monkeypatch.setattr(lab, "find_spec", lambda name: None)
    assert main(["lab"]) == 1
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 2)
    assert " -m pip install jupyterlab" in told.err
    assert (os.listdir(tmp_path), started) == ([], [])


def test_where_the_disk_is_full_nothing_is_left(tmp_path: Path) -> None:
    # A limit of 50 kB per file stands in for a full disk. Some files in the course are smaller, and
    # some are larger.
    code = "import resource, sys; from dltutor.__main__ import main;"
    code += "resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000));"
    code += "sys.exit(main(['lab', 'course']))"
    run = subprocess.run(
        [sys.executable, "-B", "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    assert run.returncode == 1
    assert f"{tmp_path}/course: {os.strerror(errno.EFBIG)}" in run.stderr
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("folder", ["/usr", "/dltutor-course"])  # only /usr exists
def test_a_folder_that_cannot_be_written_is_refused(folder: str) -> None:
    before = os.listdir("/"), os.listdir("/usr")
    code = "import sys; from dltutor.__main__ import main;"
    code += f"sys.exit(main(['lab', {folder!r}]))"
    run = unprivileged.run(code, timeout=DEADLINE)
    assert run.returncode == 1, run.stderr
    assert re.fullmatch(rf"[^\n]* {folder}: [^\n:]+\.\n", run.stderr)
    assert (os.listdir("/"), os.listdir("/usr")) == before


# ---- the whole course, in a fresh environment


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel, with packages as pinned, and return the new environment's folder."""
    folder = tmp_path_factory.mktemp("fresh") / "venv"
    venv.create(folder, with_pip=True)
    pins = (ROOT / "constraints.txt").read_text()
    torch = re.search(r"^torch==\S+$", pins, re.MULTILINE)
    assert torch
    index = re.search(r"^TORCH_INDEX := (\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert index
    install = [f"{folder}/bin/python", "-m", "pip", "--disable-pip-version-check", "install", "-q"]
    # If PyTorch's own index doesn't answer, the second command gets torch from the default one.
    short = ["--no-deps", "--retries", "0", "--timeout", "10", "--index-url", index[1]]
    subprocess.run([*install, *short, torch[0]], capture_output=True, timeout=600)
    last = [*install, "-c", str(ROOT / "constraints.txt"), torch[0], str(wheel)]
    subprocess.run(last, check=True, timeout=600)
    return folder


LESSONS = sorted(path.name for path in (ROOT / "notebooks").glob("[0-9]*.ipynb"))

TO_FIRST_CHECK = """
import json, sys, nbclient, nbformat
said = {}
for name in sys.argv[1:]:
    notebook = nbformat.read(name, as_version=4)
    tags = ["check" in cell.metadata.get("tags", ()) for cell in notebook.cells]
    del notebook.cells[tags.index(True) + 1 :]
    nbclient.execute(notebook, timeout=100)
    said[name] = str(notebook.cells[-1].outputs)
print(json.dumps(said))
"""


@pytest.mark.thorough
@pytest.mark.timeout(1500)
def test_in_an_empty_environment_each_lesson_runs_to_its_first_check(
    installed: Path, tmp_path: Path
) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PY")}
    environment = kept | {"DLTUTOR_HOME": str(tmp_path / "home")}
    folder = tmp_path / "empty"
    folder.mkdir()
    command = [str(installed / "bin/dltutor"), "lab", "--no-browser", "--port=8931"]
    with jupyter_server.server(
        command, folder=folder, environment=environment, state=tmp_path / "jupyter"
    ) as account:
        address, page = jupyter_server.fetch(account, "")
        assert address.endswith("/lab/tree/00-start-here.ipynb")
        assert "<title>JupyterLab</title>" in page
    ran = subprocess.run(
        [f"{installed}/bin/python", "-c", TO_FIRST_CHECK, *LESSONS],
        cwd=folder / "dltutor-course",
        env=environment,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    for name, output in json.loads(ran.stdout).items():
        assert "Not attempted" in output, (name, output)
    assert os.listdir(folder) == ["dltutor-course"]
    record = json.loads((folder / "dltutor-course" / RECORD).read_text())
    assert set(LESSONS) <= record.keys()
