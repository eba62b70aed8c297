"""The folder of images is the same every time, and each spoilt file is spoilt as it is named."""

from __future__ import annotations

import csv
import os
import stat
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from fresh_interpreter import run_fresh
from PIL import Image, UnidentifiedImageError

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


def spoilt(folder: Path, name: str) -> Path:
    [path] = [path for path, _ in listed(folder) if path.endswith(f"/{name}")]
    return folder / path


def test_every_healthy_image_loads_in_its_size_and_colors(folder: Path) -> None:
    healthy = [path for path, _ in listed(folder) if Path(path).name not in SPOILERS]
    assert len(healthy) == 48
    for path in healthy:
        with Image.open(folder / path) as image:
            image.load()
            assert (image.mode, image.size) == ("RGB", (SIDE, SIDE)), path


def test_every_class_has_as_many_healthy_pictures_and_each_spoilt_kind_is_listed_once(
    folder: Path,
) -> None:
    healthy = Counter(label for path, label in listed(folder) if Path(path).name not in SPOILERS)
    assert healthy == dict.fromkeys(CLASSES, 16)
    names = Counter(Path(path).name for path, _ in listed(folder))
    assert all(names[name] == 1 for name in SPOILERS)
    assert all(path.split("/")[0] == label for path, label in listed(folder))


def test_the_same_seed_gives_the_same_files_byte_for_byte(tmp_path: Path) -> None:
    one, other = (make_images(tmp_path / name, per_class=2) for name in ("one", "other"))
    assert files(one) == files(other)
    assert files(one) != files(make_images(tmp_path / "third", per_class=2, seed=15))


def test_a_folder_can_be_filled_again(tmp_path: Path) -> None:
    before = files(make_images(tmp_path, per_class=2))
    assert files(make_images(tmp_path, per_class=2)) == before


@pytest.mark.parametrize("name", ["cut-short.jpg", "cut-short.png"])
def test_a_file_that_was_cut_short_opens_and_fails_when_its_pixels_are_read(
    folder: Path, name: str
) -> None:
    with (
        Image.open(spoilt(folder, name)) as image,
        pytest.raises(OSError, match="image file is truncated"),
    ):
        image.load()


@pytest.mark.parametrize("name", ["empty.jpg", "web-page.jpg"])
def test_a_file_that_is_no_image_cannot_be_identified(folder: Path, name: str) -> None:
    with pytest.raises(UnidentifiedImageError, match=name):
        Image.open(spoilt(folder, name))


@pytest.mark.parametrize(
    ("name", "mode"), [("gray.jpg", "L"), ("palette.png", "P"), ("transparent.png", "RGBA")]
)
def test_a_picture_of_another_mode_loads_in_that_mode(folder: Path, name: str, mode: str) -> None:
    with Image.open(spoilt(folder, name)) as image:
        image.load()
        assert image.mode == mode


def test_the_deleted_file_is_listed_and_not_there(folder: Path) -> None:
    assert not spoilt(folder, "deleted.jpg").exists()


def test_the_bomb_is_refused_and_small(folder: Path) -> None:
    bomb = spoilt(folder, "bomb.png")
    with pytest.raises(Image.DecompressionBombError):
        Image.open(bomb)
    assert bomb.stat().st_size < 10_000


def test_who_is_not_root_may_not_read_the_file_without_permission(folder: Path) -> None:
    path = spoilt(folder, "no-permission.jpg")
    assert stat.S_IMODE(path.stat().st_mode) == 0
    child = os.fork()
    if child == 0:  # an unprivileged process: root may read everything
        try:
            os.chdir(path.parent)  # while it may
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
    folder = make_images(tmp_path, per_class=2, spoilt=False)
    assert len(listed(folder)) == 6
    assert not {Path(path).name for path, _ in listed(folder)} & SPOILERS.keys()


def test_a_temporary_folder_is_gone_when_python_exits() -> None:
    done = run_fresh(
        """
        from dltutor.failures import make_images
        folder = make_images(per_class=1)
        assert (folder / "labels.csv").exists()
        print(folder)
        """
    )
    assert not Path(done.stdout.strip()).exists()


@pytest.mark.parametrize("shape", CLASSES)
def test_a_drawing_shows_its_shape_in_another_color(shape: str) -> None:
    pixels = np.asarray(draw(shape, np.random.default_rng(0))).astype(int)
    assert pixels.shape == (SIDE, SIDE, 3)
    brightness = pixels.mean(axis=2)
    dark = brightness < (brightness.min() + brightness.max()) / 2
    assert 0.05 < dark.mean() < 0.6
    assert not dark[0].any()


def test_an_unknown_shape_is_named() -> None:
    with pytest.raises(
        ValueError, match="shape must be one of circle, square, triangle, got 'star'"
    ):
        draw("star", np.random.default_rng(0))


def test_no_pictures_at_all_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="per_class must be 1 or more images, got 0"):
        make_images(tmp_path, per_class=0)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    place = tmp_path / "file" / "images"
    with pytest.raises(OSError) as caught:
        make_images(place, per_class=1)
    message = str(caught.value)
    assert "folder must be a place where images can be written" in message
    assert repr(str(place)) in message
