"""`__len__` doesn't match the data. If it's too small, the loop never sees the rest.

Symptom: samples at the end are never used, silently. Or, if `__len__` is too large,
`IndexError: index 64 is out of bounds for dimension 0 with size 64` in the last batch.

Mechanism: the loader asks a map-style dataset for two things: its length, and samples by index. The
sampler draws from `range(len(dataset))` and believes that number. If the number is too small,
nothing fails, the epoch ends early, and you never notice. If the number is too large, the
loader asks for samples that aren't there. Then `__getitem__` may raise an IndexError, return a
slice that is too short to be stacked with others, or, with `index % n`, silently return a sample
a second time.

Only `len(loader)` uses a stream's `__len__`, for progress bars and learning rate schedules. The
epoch ends when the stream does, whatever `__len__` says. torch warns only if something called
`len(loader)`, and only once the number of batches exceeds the number of samples that `__len__`
promised.

Fix: keep one source of truth. Compute once which samples exist, and let `__len__` and
`__getitem__` both use that. In a test, compare the samples of an epoch with what you know must be
there.

Seen in: minGPT#31 (one too few), torchvision#211 (a length written down by hand).
"""

from __future__ import annotations

import torch
from torch.utils.data import DataLoader, Dataset

from dltutor.failures.tools import Case, Counts, Failure, Finding, facts_of, load

WINDOWS, WIDTH, STRIDE = 64, 32, 16


class Windows(Dataset[torch.Tensor]):
    """A dataset of a recording's windows, each overlapping the previous one by half."""

    def __init__(self, recording: torch.Tensor) -> None:
        self.recording = recording
        self.windows = recording.unfold(0, WIDTH, STRIDE)

    def __len__(self) -> int:
        return len(self.recording) // WIDTH

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.windows[index]


class CountedWindows(Windows):
    """A dataset of a recording's windows, with the right length."""

    def __len__(self) -> int:
        return len(self.windows)


def train(loader: DataLoader[torch.Tensor]) -> Finding:
    """Run one epoch, and count the windows whose first number never arrived."""
    seen = {int(window[0]) for batch in loader for window in batch}
    missing = set(range(0, WINDOWS * STRIDE, STRIDE)) - seen
    return Finding(len(missing), f"of {WINDOWS} samples never seen")


def recording() -> torch.Tensor:
    """Make a recording with 64 windows."""
    return torch.arange((WINDOWS - 1) * STRIDE + WIDTH)


def broken(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose dataset's length ignores that the windows overlap."""
    return Case(load(Windows(recording()), workers, start_method, batch_size=8), train)


def fixed(*, workers: int = 2, start_method: str = "fork") -> Case:
    """Build a case whose dataset's length is the number of windows that exist."""
    return Case(load(CountedWindows(recording()), workers, start_method, batch_size=8), train)


FAILURE = Failure(**facts_of(__name__), broken=broken, fixed=fixed, sign=Counts(WINDOWS // 2))
