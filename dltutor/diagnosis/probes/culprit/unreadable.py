"""Find out whether an exception is about an unreadable image, and name the decoder and the file."""

from __future__ import annotations

import io
import os
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from PIL import Image

from dltutor.observation import errors
from dltutor.observation.foreign import attributes_of, is_a
from dltutor.observation.texts import tidy

# The files of libraries that decode images. In Pillow, only modules that read files count, because
# the others raise if they get wrong arguments.
_DECODERS: Final = re.compile(
    r"(?:^|[/\"])(?:(PIL)/(?:ImageFile|\w+ImagePlugin)\.py"
    r"|(torchvision)/io/image\.py"
    r"|(imageio|skimage/io|tifffile|imagecodecs|pydicom|rawpy|simplejpeg|turbojpeg|pyvips)[/.])"
)
_OPENED: Final = re.compile(r"(?:^|[/\"])PIL/Image\.py")
_MAGIC: Final = (
    b"\xff\xd8\xff",
    b"\x89PNG",
    b"GIF8",
    b"BM",
    b"II*\0",
    b"MM\0*",
    b"RIFF",
    b"P5",
    b"P6",
)
_MOST: Final = 64  # the most paths to keep for one sample
_TYPES: Final = (FileNotFoundError, IsADirectoryError, PermissionError, MemoryError)


class Opened:
    """A record of the files that this process opens, and of the images that cv2 can't read."""

    def __init__(self) -> None:
        self._on = False
        self.paths: list[str] = []
        self.empty: list[str] = []
        sys.addaudithook(self._heard)  # the hook can't be removed, but it ends with this process
        self._watch_cv2()

    @contextmanager
    def listed(self) -> Iterator[list[str]]:
        """Yield a list that gets the paths of the files that are opened in the block."""
        self.paths, self.empty, self._on = [], [], True
        try:
            yield self.paths
        finally:
            self._on = False

    def _heard(self, event: str, details: tuple[Any, ...]) -> None:
        if self._on and event == "open" and len(self.paths) < _MOST:
            with suppress(Exception):
                self.paths.append(os.fsdecode(details[0]))

    def _watch_cv2(self) -> None:
        # If cv2 can't read an image, cv2 returns None and raises no error, so look at what its
        # functions return.
        cv2 = sys.modules.get("cv2")
        for name in ("imread", "imdecode"):
            own = attributes_of(cv2).get(name)
            if own is not None:
                setattr(cv2, name, self._noted(own))

    def _noted(self, own: Any) -> Any:
        def read(source: Any, *args: Any, **options: Any) -> Any:
            image = own(source, *args, **options)
            if self._on:
                if is_a(source, (str, Path)):
                    self.paths.append(str(source))
                there = not is_a(source, (str, Path)) or os.path.exists(source)
                if image is None and there:
                    self.empty.append(f"cv2.{own.__name__} returned None")
            return image

        return read


def decoder_of(error: BaseException) -> str:
    """Return the library that couldn't decode an image, or "" for any other failure."""
    for each in errors.chain(error):
        if is_a(each, _TYPES):
            continue
        below: list[tuple[str, str]] = []
        for frame in traceback.extract_tb(each.__traceback__):
            if errors.is_yours(frame.filename):
                below = []
            else:
                below.append((frame.filename, frame.name))
        if found := _decoder(below):
            return found
    return ""


def decoder_in(said: str) -> str:
    """Return the library that couldn't decode an image, according to a printed traceback, or ""."""
    if any(each.__name__ in said for each in _TYPES):
        return ""
    frames = re.findall(r'File "([^"]+)", line \d+, in (\w+)', said)
    return _decoder(frames[-3:])


def _decoder(frames: list[tuple[str, str]]) -> str:
    for file, function in frames:
        if hit := _DECODERS.search(file):
            return next(name for name in hit.groups() if name).partition("/")[0]
        if _OPENED.search(file) and function == "open":
            return "PIL"
    return ""


def image_in(error: BaseException, paths: list[str]) -> str:
    """Return the first image that can't be read, and why, or "" if no such image is found.

    Args:
        error: The exception. The variables of your code in its traceback may hold the path or the
            bytes of an image.
        paths: The files that were opened before the exception.
    """
    for thing in (*_named(error), *paths):
        if reason := _unreadable(thing):
            return reason
    return ""


def mode_of(paths: list[str]) -> str:
    """Return the mode, such as "RGB", of the last image that Pillow can open, or "" without one."""
    for path in reversed(paths):
        if _image_by_name(path):
            with suppress(Exception), Image.open(path) as image:
                return image.mode
    return ""


@contextmanager
def opened_as(mode: str) -> Iterator[None]:
    """Within the block, make Pillow convert every image that it opens to this mode."""
    own = Image.open

    def converted(*args: Any, **options: Any) -> Any:
        image = own(*args, **options)
        return image if image.mode == mode else image.convert(mode)

    Image.open = converted
    try:
        yield
    finally:
        Image.open = own


def readable(paths: list[str]) -> bool:
    """Return whether at least one of these files is an image that Pillow can read."""
    return any(_image_by_name(path) and not _reason(path) for path in paths)


def _named(error: BaseException) -> list[Any]:
    found: list[Any] = []
    for each in errors.chain(error):
        for frame, _ in traceback.walk_tb(each.__traceback__):
            if errors.is_yours(frame.f_code.co_filename):
                found += list(frame.f_locals.values())
    return found


def _unreadable(thing: Any) -> str:
    if is_a(thing, io.BytesIO):
        thing = io.BytesIO.getvalue(thing)
    if is_a(thing, (bytes, bytearray)) and bytes(thing[:4]).startswith(_MAGIC):
        reason = _reason(io.BytesIO(bytes(thing)))
        return f"{len(thing)} bytes that begin like an image: {reason}" if reason else ""
    if is_a(thing, (str, Path)) and len(str(thing)) < 4096 and _image_by_name(str(thing)):
        reason = _reason(str(thing))
        return f"{Path(thing).name}: {reason}" if reason else ""
    return ""


def _image_by_name(path: str) -> bool:
    known = Image.registered_extensions()
    with suppress(OSError, ValueError):
        return os.path.splitext(path)[1].lower() in known and os.path.isfile(path)
    return False


def _reason(source: Any) -> str:
    try:
        with Image.open(source) as image:
            image.load()
    except Exception as error:  # Pillow raises OSError, and sometimes SyntaxError or ValueError
        text = str(error)
        if "cannot identify" in text:
            return "not an image that Pillow knows"
        return tidy(f"{type(error).__name__}: {text}")[:160]
    return ""
