"""Copy the course's notebooks into a learner's folder, and update them there.

A record in the folder, `.dltutor.json`, holds each file's digest from the dltutor version that last
updated the folder. If a file's digest differs from the record, the learner has changed the file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from errno import ENOTDIR
from itertools import chain, count
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import Final

import dltutor
from dltutor.tables import count_of

RECORD: Final = ".dltutor.json"
_INCIDENTS: Final = "incidents"  # lesson 14 makes this folder in `notebooks`, so don't copy it


@dataclass(frozen=True)
class LaidOut:
    """The changes that `lay_out` made to a folder. Paths are relative to the folder and sorted.

    Args:
        new: Files that were missing and that `lay_out` added.
        updated: Files that the learner hadn't changed and that `lay_out` replaced.
        beside: Files that the learner has changed, each with the path of the newer copy
            next to it.
        kept: Files that the learner has changed, and for which this version of dltutor has nothing
            newer than the version that last updated the folder.
    """

    new: tuple[str, ...]
    updated: tuple[str, ...]
    beside: tuple[tuple[str, str], ...]
    kept: tuple[str, ...]

    def __str__(self) -> str:
        counted = (
            (self.new, "new"),
            (self.updated, "brought up to date"),
            (self.kept, "changed by you and left as they are"),
        )
        lines = [f"{count_of(len(names), 'file')} {what}." for names, what in counted if names]
        lines += [
            f"You have changed {name}, so it stays. The newer one is {newer}."
            for name, newer in self.beside
        ]
        return "\n".join(lines or ["All files are there and up to date."])


def lay_out(folder: Path) -> LaidOut:
    """Copy the course's notebooks, pages, and figures into a folder, or update older copies there.

    Leave each file that the learner has changed as it is. If this version of dltutor has a newer
    copy, put the copy next to the learner's file, with the version in the copy's name. Write all
    files to a temporary folder first, and move them into place last, so that a full disk or Ctrl-C
    leaves each file either as it was or complete. If `lay_out` made the folder and then fails, it
    removes the folder.

    Args:
        folder: The folder. If it's missing, `lay_out` makes it, but not the folder's parent.

    Returns:
        Which files are new, updated, or changed by the learner.

    Raises:
        OSError: The folder can't be made, read, or written, or dltutor has no notebooks to copy.
    """
    wanted = dict(_pages())
    is_new = not folder.exists()
    if is_new:
        folder.mkdir()
    try:
        with TemporaryDirectory(prefix=".dltutor-", dir=folder) as aside:
            return _lay_out(folder, wanted, Path(aside))
    except BaseException:
        if is_new:
            rmtree(folder, ignore_errors=True)
        raise


def _lay_out(folder: Path, wanted: dict[str, bytes], aside: Path) -> LaidOut:
    before = _recorded(folder)
    record = before | {name: _sha256(page) for name, page in wanted.items()}
    new, updated, beside, kept = [], [], [], []
    moves: dict[str, bytes] = {}
    for name, page in wanted.items():
        there = _digest(folder / name)
        if there == record[name]:
            continue
        if there is None:
            new.append(name)
            moves[name] = page
        elif there == before.get(name):
            updated.append(name)
            moves[name] = page
        elif record[name] == before.get(name):
            kept.append(name)
        else:
            newer = _name_beside(folder, name, record[name])
            beside.append((name, newer))
            moves[newer] = page
            record[newer] = record[name]
    # Move the record last. If Ctrl-C interrupts us before that, the next run sees that the files
    # that we moved are already the newest.
    if record != before:
        moves[RECORD] = json.dumps(record, indent=1, sort_keys=True).encode()
    for number, page in enumerate(moves.values()):
        (aside / str(number)).write_bytes(page)
    for parent in {(folder / name).parent for name in moves}:
        if os.path.lexists(parent) and not parent.is_dir():
            raise NotADirectoryError(ENOTDIR, f"{parent} is a file, but a folder is needed there")
        parent.mkdir(exist_ok=True)
    for number, name in enumerate(moves):
        os.replace(aside / str(number), folder / name)
    return LaidOut(tuple(new), tuple(updated), tuple(beside), tuple(kept))


def _pages() -> Iterator[tuple[str, bytes]]:
    """Yield each course file's relative path and content, sorted by path.

    In the content, links to files outside the notebooks' folder lead to our repository instead.

    Raises:
        FileNotFoundError: This copy of dltutor has no notebooks.
    """
    package = Path(dltutor.__file__).parent
    # The notebooks are inside the package in a wheel, and next to the package in a clone.
    places = [package / "notebooks", package.parent / "notebooks"]
    source = next((place for place in places if place.is_dir()), None)
    if source is None:
        raise FileNotFoundError(f"dltutor in {package} has no notebooks. Install dltutor again")
    outside = f"]({_repository()}/blob/HEAD/".encode()
    for path in sorted(source.rglob("*")):
        relative = path.relative_to(source)
        theirs = any(part.startswith(".") or part == _INCIDENTS for part in relative.parts)
        if path.is_file() and not theirs:
            page = path.read_bytes()
            if path.suffix in (".ipynb", ".md"):
                page = page.replace(b"](" + b"../" * len(relative.parts), outside)
            yield relative.as_posix(), page


def _repository() -> str:
    from importlib import metadata  # imported here, so that `dltutor list` starts faster

    urls = metadata.metadata("dltutor").get_all("Project-URL") or []
    named: dict[str, str] = dict(url.split(", ", 1) for url in urls)
    return named["Repository"]


def _recorded(folder: Path) -> dict[str, str]:
    """Return the record (file -> digest), or {} if there is no valid record."""
    try:
        found = json.loads((folder / RECORD).read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _digest(path: Path) -> str | None:
    """Return a file's digest, None if nothing has this path, or "" for a folder or broken link."""
    if not path.is_file():
        return "" if os.path.lexists(path) else None
    return _sha256(path.read_bytes())


def _name_beside(folder: Path, name: str, digest: str) -> str:
    path, version = Path(name), dltutor.__version__
    versions = chain((version,), (f"{version}, {number}" for number in count(2)))
    names = (path.with_name(f"{path.stem} (dltutor {each}){path.suffix}") for each in versions)
    return next(each.as_posix() for each in names if _digest(folder / each) in (None, digest))


def _sha256(content: bytes) -> str:
    from hashlib import sha256  # imported here, so that `dltutor list` doesn't load OpenSSL

    return sha256(content).hexdigest()
