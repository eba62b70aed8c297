"""Predict what will fail where workers aren't forked, in a container, or on two ranks."""

from __future__ import annotations

from typing import Final

from dltutor.diagnosis.evidence import Evidence
from dltutor.tables import MB, size

CONTAINER: Final = 64 * MB  # bytes of /dev/shm that docker gives a container by default
_WHERE: Final = "Where workers aren't forked (macOS, Windows, Python 3.14)"


def elsewhere(evidence: Evidence) -> tuple[str, ...]:
    """Return the problems to expect on other machines or with other start methods, as sentences."""
    return (
        *_not_forked(evidence),
        *_new_interpreter(evidence),
        *_small_shm(evidence),
        *_ranks(evidence),
    )


def _not_forked(evidence: Evidence) -> list[str]:
    travel, samples = evidence.travel, evidence.samples
    if evidence.parts.method != "fork" or travel is None:
        return []
    dies = "every worker dies when it starts, because"
    said = [
        f"the loop ends before the first batch, because `{path}` ({kind}) can't be pickled: {error}"
        for path, kind, error in travel.cannot
    ]
    said += [
        f"{dies} the pickle of `{path}` ({kind}) refers to a tensor that's gone as soon as the "
        "pickle is written"
        for path, kind in travel.gone
    ]
    said += [
        f"{dies} `{path}` ({kind}) can't be unpickled: {error}. Unpickling doesn't call "
        "`__init__`, so `__getattr__` or `__setstate__` may need an attribute that isn't there yet"
        for path, kind, error in travel.unreadable
    ]
    if travel.main and not travel.script:
        names = ", ".join(f"`{name}`" for name in travel.main)
        said.append(
            f"{dies} it needs {names} from a `__main__` without a file, which a new interpreter "
            "doesn't have"
        )
    said += [
        f"each worker has its own copy of `{path}` in memory ({size(held)}) and gets it through a "
        "pipe, because pickling a `np.memmap` copies what it maps. Keep the path, and map the file "
        "in each worker"
        for path, held in travel.mapped
    ]
    if travel.raised:
        said.append(
            "samples fail. When the doctor drew them from a copy of the dataset that was pickled "
            f"and unpickled, they raised {travel.raised}"
        )
    elif travel.unlike and samples is not None and not samples.random and not samples.again:
        said.append(
            f"samples differ: {travel.unlike} of the first ones came out differently from a copy "
            "of the dataset that was pickled and unpickled"
        )
    return [f"{_WHERE}, {each}." for each in said]


def _new_interpreter(evidence: Evidence) -> list[str]:
    new = evidence.new_interpreter
    if new is None or new.salted:
        return []
    if new.raised:
        return [f"{_WHERE}, samples fail. In a new interpreter, one raised {new.raised}."]
    if not new.unlike:
        return []
    said = f"{_WHERE}, samples differ: {new.unlike} of the first {new.looked} do in a new "
    if not new.names:
        return [f"{said}interpreter, although it got a copy of the dataset."]
    names = ", ".join(f"`{name}`" for name in new.names[:4])
    return [
        f"{said}interpreter, because your program sets {names} while it runs. Pass such values to "
        "the dataset when you make it, so that they travel with it."
    ]


def _small_shm(evidence: Evidence) -> list[str]:
    parts, run = evidence.parts, evidence.run
    count = parts.workers * parts.prefetch + 1
    held = count * run.batch_bytes
    if not parts.workers or held <= CONTAINER:
        return []
    return [
        f"In a container, docker gives /dev/shm 64 MB, but {count} batches of "
        f"{run.batch_bytes / MB:.0f} MB may be on their way at once, which is {held / MB:.0f} MB. "
        "Give it more (`--shm-size`), or use a smaller prefetch_factor."
    ]


def _ranks(evidence: Evidence) -> list[str]:
    ranks = evidence.two_ranks
    if ranks is None:
        return []
    if ranks.made_for:
        names = ", ".join(f"`{name}`" for name in ranks.made_for)
        return [f"On two ranks, each one has to make its own stream, because {names} says which."]
    if ranks.failed:
        return [f"On two ranks, the stream may fail: told its rank, it raised {ranks.failed}."]
    if ranks.drawn > 1 and ranks.alike == ranks.drawn and ranks.different > 1:
        return [
            f"On two ranks, both get the same samples: as rank 0 and as rank 1 of 2, the stream "
            f"delivered the same first {ranks.drawn}. Make `__iter__` also take its share by rank."
        ]
    return []
