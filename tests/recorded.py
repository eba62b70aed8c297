"""Provide a loader's parts, in the form that the doctor records, to test the doctor's rules."""

from __future__ import annotations

from dltutor.diagnosis.probes.parts import Parts

PARTS = Parts(
    loader="DataLoader",
    dataset="Scans",
    where="scans.py, line 12",
    stream=False,
    workers=2,
    method="fork",
    batch_size=8,
    length=60,
    batches=8,
    persistent=False,
    prefetch=2,
    drop_last=False,
    in_order=True,
    sampler="RandomSampler",
    collate="",
    init="",
    loop=True,
)
