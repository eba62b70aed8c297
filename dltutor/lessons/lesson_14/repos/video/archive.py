"""Find the clips in the archive that can be played."""

from pathlib import Path

from codec import probe


def playable(path):
    """Return whether the codec accepts a clip."""
    try:
        probe(path)
    except ValueError:
        return False
    return True


def clips(folder):
    """Return the clips that can be played, sorted by name, and the names of the others."""
    good, others = [], []
    for path in sorted(Path(folder, "clips").glob("*.clip")):
        if playable(path):
            good.append(path)
        else:
            others.append(path.name)
    return good, others
