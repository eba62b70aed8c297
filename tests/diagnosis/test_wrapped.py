"""Check the doctor on loaders that other libraries make.

`make test-wrappers` installs the libraries and runs these tests. Without `datasets` or
`webdataset`, all of them are skipped.
"""

from __future__ import annotations

import importlib
import io
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import (
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    get_worker_info,
)

from dltutor import diagnose

hf = pytest.importorskip("datasets", reason="dltutor[wrappers] isn't installed")
wds = pytest.importorskip("webdataset", reason="dltutor[wrappers] isn't installed")

pytestmark = pytest.mark.filterwarnings("ignore")  # warnings from the libraries

COUNT = 96


class Rows(Dataset[Any]):
    """A dataset of 96 rows, each with a label."""

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if not 0 <= index < COUNT:
            raise IndexError(index)
        return torch.full((16,), float(index)), index % 3


class Cursor(IterableDataset[torch.Tensor]):
    """A stream that can be resumed. If not `reset`, later epochs are empty."""

    def __init__(self, *, reset: bool) -> None:
        self.reset, self.at = reset, 0

    def __iter__(self) -> Iterator[torch.Tensor]:
        worker: Any = get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        while (index := first + step * self.at) < COUNT:
            self.at += 1
            yield torch.full((16,), float(index))
        if self.reset:
            self.at = 0

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at = state["at"]


def rows(shards: list[int], *, own: bool = False) -> Iterator[dict[str, Any]]:
    """Yield 24 rows for each shard. If `own`, take only this worker's share of them."""
    worker = get_worker_info() if own else None
    first, step = (worker.id, worker.num_workers) if worker else (0, 1)
    for shard in shards:
        for index in range(24 * shard + first, 24 * (shard + 1), step):
            yield {"x": [float(index)] * 4}


def twice(batch: dict[str, Any]) -> dict[str, Any]:
    return {"x": [torch.tensor(each) * 2 for each in batch["x"]]}


def load(dataset: Any, **options: Any) -> DataLoader[Any]:
    return DataLoader(dataset, **{"batch_size": 8, "num_workers": 2} | options)


def of_rank(made: Any) -> Any:
    """Return rank 0's share of a dataset that two ranks divide."""
    return importlib.import_module("datasets.distributed").split_dataset_by_node(made, 0, 2)


def from_generator(*shards: int, **options: Any) -> Any:
    made = hf.IterableDataset.from_generator(rows, gen_kwargs={"shards": [*shards], **options})
    return made.with_format("torch")


def table() -> Any:
    return hf.Dataset.from_dict({"x": [[float(index)] * 4 for index in range(COUNT)]})


def prepared(_: Path, **options: Any) -> Any:
    accelerate = pytest.importorskip("accelerate")
    settings = accelerate.DataLoaderConfiguration(**options)
    accelerator = accelerate.Accelerator(cpu=True, dataloader_config=settings)
    return accelerator.prepare_data_loader(
        load(Rows(), shuffle=not options.get("dispatch_batches"))
    )


def stateful(dataset: Any, **options: Any) -> Any:
    module = pytest.importorskip("torchdata.stateful_dataloader")
    return module.StatefulDataLoader(dataset, batch_size=8, num_workers=2, **options)


def resumed(_: Path) -> Any:
    """Make a loader that goes on after the fifth batch of an epoch."""
    loader = stateful(Rows(), shuffle=True)
    batches = iter(loader)
    for _ in range(5):
        next(batches)
    again = stateful(Rows(), shuffle=True)
    again.load_state_dict(loader.state_dict())
    return again


def combined(_: Path) -> Any:
    module = pytest.importorskip("lightning.pytorch.utilities.combined_loader")
    both = {"a": load(Rows(), shuffle=True), "b": load(Rows(), shuffle=True)}
    return module.CombinedLoader(both, "max_size_cycle")


def fit(loader: Any) -> None:
    """Train a tiny model for two epochs with Lightning."""
    lightning = pytest.importorskip("lightning.pytorch")

    class Tiny(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(16, 1)

        def training_step(self, batch: Any, _: int) -> Any:
            return self.layer(batch[0]).square().mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=1e-6)

    quiet = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
    trainer = lightning.Trainer(
        accelerator="cpu", devices=1, max_epochs=2, **dict.fromkeys(quiet, False)
    )
    trainer.fit(Tiny(), loader)


def unfit(loader: Any) -> None:
    """Run two epochs as Lightning does, but without `set_epoch`."""
    for _ in range(2):
        for _ in loader:
            pass


def ranked(_: Path) -> Any:
    return load(Rows(), sampler=DistributedSampler(Rows(), num_replicas=2, rank=0))


def tars(folder: Path, **options: Any) -> Any:
    """Write four shards with 24 samples each, and make a dataset of batches of 8 from them."""
    for shard in range(4):
        with tarfile.open(folder / f"{shard:04d}.tar", "w") as file:
            for index in range(24 * shard, 24 * (shard + 1)):
                array = io.BytesIO()
                np.save(array, np.full(16, index, np.float32))
                entry = tarfile.TarInfo(f"{index:06d}.npy")
                entry.size = array.tell()
                array.seek(0)
                file.addfile(entry, array)
    found = wds.WebDataset(sorted(map(str, folder.glob("*.tar"))), shardshuffle=False, **options)
    return found.decode().to_tuple("npy").batched(8)


def webloader(folder: Path, **options: Any) -> Any:
    return wds.WebLoader(tars(folder, **options), batch_size=None, num_workers=2)


HEALTHY: dict[str, Callable[[Path], Any]] = {
    "accelerate, each process takes its share": prepared,
    "accelerate, the first process sends": lambda folder: prepared(folder, dispatch_batches=True),
    "accelerate, with torchdata": lambda folder: prepared(folder, use_stateful_dataloader=True),
    "torchdata": lambda _: stateful(Rows(), shuffle=True, persistent_workers=True),
    "torchdata, a stream": lambda _: stateful(Cursor(reset=True)),
    "torchdata, resumed": resumed,
    "datasets, a table": lambda _: load(table().with_format("torch"), shuffle=True),
    "datasets, with a transform": lambda _: load(table().with_transform(twice)),
    "datasets, a stream": lambda _: load(from_generator(0, 1, 2, 3)),
    "datasets, shuffled": lambda _: load(from_generator(0, 1, 2, 3).shuffle(1, buffer_size=32)),
    "datasets, a table of one rank": lambda _: load(of_rank(table().with_format("torch"))),
    "datasets, a stream of one rank": lambda _: load(of_rank(from_generator(0, 1, 2, 3))),
    "Lightning": combined,
    "webdataset": webloader,
}
BROKEN: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "torchdata, a cursor that stays at the end": (
        "complete",
        lambda _: stateful(Cursor(reset=False), persistent_workers=True),
    ),
    "datasets, shared out twice": (
        "sharded_twice",
        lambda _: load(from_generator(0, 1, 2, 3, own=True)),
    ),
    "datasets, one shard for each rank": (
        "idle_workers",
        lambda _: load(of_rank(from_generator(0, 1))),
    ),
    "datasets, one shard": ("idle_workers", lambda _: load(from_generator(0))),
    "webdataset, a length and no end": (
        "ends",
        lambda folder: webloader(folder, resampled=True).with_length(12),
    ),
}


@pytest.mark.parametrize("what", HEALTHY)
def test_a_healthy_loader_breaks_no_promise(what: str, tmp_path: Path) -> None:
    diagnosis = diagnose(HEALTHY[what](tmp_path))
    assert [each.name for each in diagnosis.findings] == [], diagnosis
    kept = {each.promise for each in diagnosis.promises if each.state == "kept"}
    assert {"ends", "bounded"} <= kept, diagnosis


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_loader_is_found(what: str, tmp_path: Path) -> None:
    name, make = BROKEN[what]
    diagnosis = diagnose(make(tmp_path))
    assert diagnosis.findings and diagnosis.findings[0].name == name, diagnosis


@pytest.mark.parametrize(("loop", "found"), [(fit, []), (unfit, ["ranks"])])
def test_lightning_s_fit_tells_the_sampler_the_epoch(
    loop: Callable[[Any], None], found: list[str], tmp_path: Path
) -> None:
    diagnosis = diagnose(ranked(tmp_path), consume=loop)
    assert [each.name for each in diagnosis.findings] == found, diagnosis
    assert next(each.state for each in diagnosis.promises if each.promise == "ends") == "kept"
