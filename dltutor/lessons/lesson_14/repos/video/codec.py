"""Decode clips with the vendor's C library. Here, ctypes stands in for that library.

A clip has MAGIC, 4 bytes of flags, each frame's position in the file, and the frames.
"""

import ctypes
import struct

import numpy as np

MAGIC = b"CLIP"
FRAMES, SIDE = 8, 16
HEADER = struct.Struct(f"<4sI{FRAMES}Q")
FRAME = SIDE * SIDE


def probe(path):
    """Return the flags in a clip's header.

    Raises:
        ValueError: The file isn't a clip.
    """
    with open(path, "rb") as file:
        header = file.read(HEADER.size)
    if len(header) < HEADER.size or not header.startswith(MAGIC):
        raise ValueError(f"{path.name} isn't a clip")
    return HEADER.unpack(header)[1]


def decode(path):
    """Return a clip's frames as an array of bytes, shape (FRAMES, SIDE, SIDE).

    Raises:
        ValueError: The file isn't a clip, or it ends too early.
    """
    probe(path)
    data = path.read_bytes()
    if len(data) < HEADER.size + FRAMES * FRAME:
        raise ValueError(f"{path.name} ends in the middle of a frame")
    source = ctypes.create_string_buffer(data, len(data))
    frames = np.empty((FRAMES, SIDE, SIDE), np.uint8)
    for number, start in enumerate(HEADER.unpack_from(data)[2:]):
        ctypes.memmove(frames[number].ctypes.data, ctypes.addressof(source) + start, FRAME)
    return frames
