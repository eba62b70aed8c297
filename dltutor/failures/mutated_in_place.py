"""`__getitem__` scales the stored data in place, so each epoch scales the data again.

Symptom: data changes from epoch to epoch, and training with num_workers=0 gives a different result
than with workers.

NOTE [ Three Histories Of One Array ]

If `self.data` is an array or a tensor, `x = self.data[i]` is a view, not a copy. `x *= 2`, `x -=
mean`, `x.clamp_()`, and a transform with `inplace=True` write through the view into the dataset.
The effect depends on which process has the dataset, and for how long:

- Without workers, the main process uses its own dataset, and each epoch scales it again (2, 4, 8).
- Each fresh worker has a copy, which is gone after the epoch (2, 2, 2). The bug is there, but you
  don't see it until you set `num_workers=0` to debug something else.
- Each persistent worker has a copy, and keeps it (2, 4, 8). With shuffling, each sample gets a
  different factor, because a worker changes only the samples that it loads itself.

Under `spawn` and `forkserver`, main doesn't copy a tensor to the workers but moves it to shared
memory. So even fresh workers change the main process's tensor, and each other's.

Fix: make a new array with `x = self.data[i] * 2`, or call `.clone()` or `.copy()` before
transforms that you didn't write. In a test, ask for the same sample twice and compare.

Seen in: pycls#21 (hidden by fresh workers, found with `num_workers=0`), vision#680, doctr#840.
"""

from __future__ import annotations

import torch
from torch.utils.data import DataLoader, Dataset

from dltutor.failures.tools import Case, Counts, Failure, Finding, facts_of, load

LENGTH, WIDTH, EPOCHS = 32, 8, 2


class Spectra(Dataset[torch.Tensor]):
    """A dataset of spectra in memory, scaled by the detector's gain."""

    gain = 2

    def __init__(self, *, as_numpy: bool = True) -> None:
        data = torch.arange(1.0, LENGTH + 1).repeat_interleave(WIDTH).reshape(LENGTH, WIDTH)
        self.data = data.numpy() if as_numpy else data

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> torch.Tensor:
        spectrum = self.data[index]
        spectrum *= self.gain
        return torch.as_tensor(spectrum)


class UntouchedSpectra(Spectra):
    """A dataset of spectra that writes each scaled spectrum into a new array."""

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.as_tensor(self.data[index] * self.gain)


def train(loader: DataLoader[torch.Tensor]) -> Finding:
    """Run two epochs, and count the samples that don't equal twice the original spectrum."""
    wanted = Spectra.gain * torch.arange(1.0, LENGTH + 1)
    wrong = 0
    for _ in range(EPOCHS):
        came = torch.cat(list(loader))
        wrong += int((came != wanted[:, None]).any(dim=1).sum())
    return Finding(wrong, f"of {EPOCHS * LENGTH} samples wrong")


def broken(*, workers: int = 2, start_method: str = "fork", persistent: bool = True) -> Case:
    """Build a case whose dataset scales the stored array in place."""
    return Case(load(Spectra(), workers, start_method, persistent_workers=persistent), train)


def fixed(*, workers: int = 2, start_method: str = "fork", persistent: bool = True) -> Case:
    """Build a case whose dataset writes each scaled sample into a new array."""
    loader = load(UntouchedSpectra(), workers, start_method, persistent_workers=persistent)
    return Case(loader, train)


FAILURE = Failure(**facts_of(__name__), broken=broken, fixed=fixed, sign=Counts(LENGTH))
