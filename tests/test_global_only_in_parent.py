"""A global that main fills, and that a new process has empty."""

from __future__ import annotations

import importlib.util

import torch

from dltutor.failures import global_only_in_parent
from dltutor.failures.global_only_in_parent import EMBEDDINGS


def test_whoever_imports_the_module_anew_finds_it_empty() -> None:
    global_only_in_parent.broken(workers=0)
    assert global_only_in_parent.EMBEDDINGS is not None
    spec = global_only_in_parent.__spec__
    assert spec is not None and spec.loader is not None
    anew = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(anew)
    assert anew.EMBEDDINGS is None is EMBEDDINGS


def test_without_workers_both_give_the_same() -> None:
    ours = list(global_only_in_parent.broken(workers=0).loader)
    theirs = list(global_only_in_parent.fixed(workers=0).loader)
    assert len(ours) == 4
    assert all(torch.equal(*pair) for pair in zip(ours, theirs, strict=True))
