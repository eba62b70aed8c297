"""Test that `make_images` writes the same files for the same seed, and lists the spoiled ones."""

from __future__ import annotations

import csv
import os
import stat
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from fresh_interpreter import run_fresh
from PIL import Image

from dltutor.failures.data.images import CLASSES, SIDE, SPOILERS, draw, make_images


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_images(tmp_path_factory.mktemp("images"))


def listed(folder: Path) -> list[tuple[str, str]]:
    with (folder / "labels.csv").open(newline="") as file:
        return [(path, label) for path, label in csv.reader(file)]


def files(folder: Path) -> dict[str, bytes]:
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            mode = stat.S_IMODE(path.stat().st_mode)
            path.chmod(0o600)
            found[f"{path.relative_to(folder)} {mode:o}"] = path.read_bytes()
            path.chmod(mode)
    return found


def spoiled(folder: Path, name: str) -> Path:
    [path] = [path for path, _ in listed(folder) if path.endswith(f"/{name}")]
    return folder / path


def test_every_class_has_as_many_healthy_images_and_each_spoiled_kind_is_listed_once(
    folder: Path,
) -> None:
    healthy = [(path, label) for path, label in listed(folder) if Path(path).name not in SPOILERS]
    assert Counter(label for _, label in healthy) == dict.fromkeys(CLASSES, 16)
    assert all(path.split("/")[0] == label for path, label in listed(folder))
    assert sorted(Path(path).name for path, _ in set(listed(folder)) - set(healthy)) == sorted(
        SPOILERS
    )
    for path, _ in healthy:
        with Image.open(folder / path) as image:
            image.load()
            assert (image.mode, image.size) == ("RGB", (SIDE, SIDE)), path


def test_the_same_seed_gives_the_same_files_also_where_there_are_some(tmp_path: Path) -> None:
    one, other = (make_images(tmp_path / name, per_class=2) for name in ("one", "other"))
    before = files(one)
    assert files(other) == before
    assert files(make_images(tmp_path / "third", per_class=2, seed=15)) != before
    assert files(make_images(one, per_class=2)) == before


def test_the_bomb_is_small(folder: Path) -> None:
    assert spoiled(folder, "bomb.png").stat().st_size < 10_000


def test_who_is_not_root_may_not_read_the_file_without_permission(folder: Path) -> None:
    path = spoiled(folder, "no-permission.jpg")
    assert stat.S_IMODE(path.stat().st_mode) == 0
    child = os.fork()
    if child == 0:  # drop privileges in a child, because root may read everything
        try:
            os.chdir(path.parent)  # while this process may still enter the folder
            if os.geteuid() == 0:
                os.setgroups([])
                os.setuid(65534)
            open(path.name, "rb").close()
        except PermissionError as error:
            os._exit(0 if error.filename == path.name else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_folder_can_be_all_healthy(tmp_path: Path) -> None:
    folder = make_images(tmp_path, per_class=2, spoiled=False)
    assert len(listed(folder)) == 6
    assert not {Path(path).name for path, _ in listed(folder)} & SPOILERS.keys()


def test_temporary_folders_are_gone_when_python_exits() -> None:
    done = run_fresh(
        """
        from dltutor.failures import make_images
        from dltutor.failures.data.readings import shared_recordings
        folder, [recording] = make_images(per_class=1), shared_recordings(1, 10)
        assert (folder / "labels.csv").exists()
        print(folder, recording)
        """
    )
    for path in done.stdout.split():
        assert "/dltutor-" in path and not Path(path).exists()


def test_what_cannot_be_made_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="star"):
        draw("star", np.random.default_rng(0))
    with pytest.raises(ValueError, match="per_class"):
        make_images(tmp_path, per_class=0)
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").touch()
    place = tmp_path / "file" / "images"
    with pytest.raises(OSError) as raised:
        make_images(place, per_class=1)
    assert repr(str(place)) in str(raised.value)
