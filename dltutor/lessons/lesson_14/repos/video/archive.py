"""The archive of clips: which of them can be played."""

from pathlib import Path

from codec import probe


def playable(path):
    """Whether the codec takes a clip."""
    try:
        probe(path)
    except ValueError:
        return False
    return True


def clips(folder):
    """The clips that can be played, by name; and the names of the others."""
    good, others = [], []
    for path in sorted(Path(folder, "clips").glob("*.clip")):
        if playable(path):
            good.append(path)
        else:
            others.append(path.name)
    return good, others
