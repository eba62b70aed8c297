"""Decodes clips: a stand-in for a library in C, which follows bad pointers as that would."""

import ctypes

import numpy as np

MAGIC = b"CLIP"
FRAMES, SIDE = 8, 16


def decode(path):
    """The frames of a clip: an array of bytes, shape (FRAMES, SIDE, SIDE)."""
    data = path.read_bytes()
    if data[:4] != MAGIC:
        raise ValueError(f"{path.name} is no clip")
    offset = int.from_bytes(data[4:8], "little")
    if offset > len(data):
        ctypes.string_at(offset)  # beyond the end of the file
    frames = np.frombuffer(data, np.uint8, FRAMES * SIDE * SIDE, offset)
    return frames.reshape(FRAMES, SIDE, SIDE).copy()
