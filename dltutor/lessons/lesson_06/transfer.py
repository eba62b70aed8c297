"""Grade "06.transfer": clips of sound with noise, for new interpreters and for forked workers.

The noise is looked at twice. A clip of silence, scaled to its loudest value, is nothing but noise:
there it shows whether each value has a number of its own, and whether two samples share theirs. On
a clip with a tone the same noise has to be found again, as loud as it was.
"""

from __future__ import annotations

import pickle
import random
import tempfile
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from dltutor.lessons.kit.exercise import Grader
from dltutor.lessons.kit.outcomes import Result, correct, not_yet
from dltutor.lessons.kit.running import made, theirs
from dltutor.lessons.lesson_06.files import a_fixed_file, class_in
from dltutor.lessons.lesson_06.material import CLIPS, LENGTH, MyClips, write_clips
from dltutor.lessons.lesson_06.travel import (
    AT_MOST,
    IN_MAIN,
    RUNS,
    Epoch,
    Samples,
    Sent,
    arrived,
    epoch,
    one_by_one,
    sent,
    travels,
    wrong_of,
)
from dltutor.observation.time_limits import deadline

_ALL: Final = range(CLIPS)
_SEED: Final = 5
_OTHER_SEED: Final = 1005
_LOUDNESS: Final = 0.1  # what the starter's noise is multiplied by
_ALIKE: Final = 0.9  # correlation of two samples' noise; by chance it stays below 0.6
_HELD: Final = (np.random.Generator, np.random.RandomState, torch.Generator, random.Random)


@dataclass(frozen=True)
class Noise:
    """The noise of an answer's samples.

    Args:
        none: Whether there is none.
        numbers: How many different values the noise of one clip has, where it has the fewest.
        loudness: The root of its mean square over all clips.
        strange: How many clips with a tone have other noise than silence at their index.
        alike: Two samples with the same noise, or None.
        repeated: Whether the same seed gives the same noise again.
        same_for_seeds: The samples that have the same noise with another seed.
        alike_with_0: Two samples with the same noise with seed 0, or None.
    """

    none: bool = False
    numbers: int = LENGTH
    loudness: float = _LOUDNESS
    strange: int = 0
    alike: tuple[int, int] | None = None
    repeated: bool = True
    same_for_seeds: tuple[int, ...] = ()
    alike_with_0: tuple[int, int] | None = None


@dataclass(frozen=True)
class Evidence:
    """What is known of an answer.

    Args:
        sent: The pickle of a dataset.
        length: What `len` says.
        shape: The shape of its samples, or of the first that has another.
        loudest: The loudest value of a sample: of the one where it is farthest from 1.
        global_numbers: Whose global random numbers were "used up" or "started anew", as words.
        depends: Whether a sample depends on what was read before.
        held: The name of an attribute that is a random generator, or "".
        noise: The noise.
        epochs: With workers, up to the first that is not right.
        lost: Where to look if a new interpreter cannot unpack the pickle.
    """

    sent: Sent
    length: int = CLIPS
    shape: tuple[int, ...] = (LENGTH,)
    loudest: float = 1.0
    global_numbers: str = ""
    depends: bool = False
    held: str = ""
    noise: Noise = Noise()
    epochs: tuple[Epoch, ...] = ()
    lost: str = ""


def look(answer: Any) -> Path:
    """The answer, if it is a file with a class that is no longer the starter."""
    return a_fixed_file(answer, MyClips)


def gather(file: Path) -> Evidence:
    """Look at the samples in main, then run forked workers and a new interpreter."""
    with deadline(IN_MAIN):
        answer = class_in(file, "MyClips")
        dataset, alone, evidence = _in_main(answer, Path(tempfile.mkdtemp()))
    _judge_in_main(evidence)
    epochs: list[Epoch] = []
    for method, workers in reversed(RUNS):  # the second message of the lesson comes first
        epochs.append(epoch(dataset, _ALL, alone, method=method, workers=workers))
        if epochs[-1].run.end != "finished" or epochs[-1].wrong:
            break
    with theirs():
        lost = _why_lost(dataset)
    return replace(evidence, epochs=tuple(epochs), lost=lost)


def _in_main(answer: type, folder: Path) -> tuple[Any, Samples, Evidence]:
    clip = write_clips(folder / "tone.pt")
    write_clips(folder / "silence.pt", loud=0)

    def make(kind: str, seed: int) -> Any:
        call = f"{answer.__name__}(path, seed)"
        return made(answer, folder / f"{kind}.pt", seed, call=call, within=IN_MAIN)

    def samples(kind: str, seed: int) -> Samples:
        dataset = make(kind, seed)
        with theirs():
            return one_by_one(dataset, _ALL)

    before = _global_numbers()
    dataset = make("tone", _SEED)
    _, pickled = sent(dataset)
    evidence = Evidence(pickled)
    if pickled.reason:
        return dataset, [], evidence
    with theirs():
        length = len(dataset)
        alone = one_by_one(dataset, [*_ALL, 0])[:CLIPS]  # both times, the last one read is 0
        after = _global_numbers()
        again = one_by_one(dataset, _ALL[::-1])[::-1]
    shapes = [tuple(each.shape) for each in alone if each.shape != clip.shape]
    evidence = replace(
        evidence,
        length=length,
        shape=shapes[0] if shapes else (LENGTH,),
        global_numbers=_what_they_did(before, after, _global_numbers()),
        depends=bool(wrong_of(again, alone)),
        held=next((name for name, each in vars(dataset).items() if isinstance(each, _HELD)), ""),
    )
    if shapes or evidence.global_numbers:
        return dataset, alone, evidence
    loudest = max((float(each.abs().max()) for each in alone), key=lambda value: abs(value - 1))
    none = any((each - clip / clip.abs().max()).abs().mean() < 1e-3 for each in alone)
    evidence = replace(evidence, loudest=loudest, noise=Noise(none=none))
    if none or evidence.depends or abs(loudest - 1) > 1e-4:
        return dataset, alone, evidence
    silence = samples("silence", _SEED)
    other = samples("silence", _OTHER_SEED)
    loudness, strange = _found_again(alone, silence, clip)
    noise = Noise(
        numbers=min(len(torch.unique(each)) for each in silence),
        loudness=loudness,
        strange=strange,
        alike=_two_alike(silence),
        repeated=not wrong_of(samples("tone", _SEED), alone),
        same_for_seeds=tuple(i for i in _ALL if _same_noise(silence[i], other[i])),
        alike_with_0=_two_alike(samples("silence", 0)),
    )
    return dataset, alone, replace(evidence, noise=noise)


def _global_numbers() -> dict[str, bytes]:
    return {
        "torch": torch.get_rng_state().numpy().tobytes(),
        "numpy": pickle.dumps(np.random.get_state()),
        "Python": pickle.dumps(random.getstate()),
    }


def _what_they_did(
    before: dict[str, bytes], after: dict[str, bytes], later: dict[str, bytes]
) -> str:
    for name, numbers in before.items():
        if numbers != after[name]:
            if after[name] == later[name]:
                return f"starts {name}'s global random numbers anew"
            return f"uses up global numbers of {name}"
    return ""


def _found_again(tones: Samples, silence: Samples, clip: torch.Tensor) -> tuple[float, int]:
    # A sample is the clip and the noise, each times something: solved for the two, nothing is left.
    strange, noises = 0, []
    for tone, noise in zip(tones, silence, strict=True):
        parts = torch.stack([clip, noise.reshape(clip.shape)], dim=1).double()
        found = torch.linalg.lstsq(parts, tone.double()[:, None]).solution
        strange += bool((parts @ found - tone[:, None]).abs().max() > 1e-3)
        noises.append(noise * float(found[1] / found[0]))
    return float(torch.cat(noises).square().mean().sqrt()), strange


def _same_noise(one: torch.Tensor, other: torch.Tensor) -> bool:
    both = torch.stack([one.flatten(), other.flatten()]).double()
    if torch.equal(both[0], both[1]):
        return True
    return bool(torch.corrcoef(both)[0, 1].abs() > _ALIKE)


def _two_alike(samples: Samples) -> tuple[int, int] | None:
    pairs = combinations(_ALL, 2)
    return next((pair for pair in pairs if _same_noise(*(samples[i] for i in pair))), None)


def _why_lost(dataset: Any) -> str:
    # A tensor that was made for the pickle alone is gone when the worker comes for it. A
    # torch.Generator makes one, and a `__getstate__` may.
    own = vars(dataset)
    held = [name for name, value in own.items() if isinstance(value, torch.Generator)]
    state = dataset.__getstate__() if hasattr(dataset, "__getstate__") else own
    new = [
        name
        for name, value in (state if isinstance(state, dict) else {}).items()
        if isinstance(value, torch.Tensor) and own.get(name) is not value
    ]
    if new:
        return (
            f"`__getstate__` makes a tensor, `{new[0]}`, for the pickle alone. It is freed when "
            "the pickle is made, before anybody unpacks it. What smaller thing says the same?"
        )
    if held:
        return (
            "A tensor was gone before the worker came for it, and none of yours is gone. What "
            f"does torch make of `{held[0]}` in order to pickle it?"
        )
    return "Pickle and unpickle are done in two processes. What is missing in the second?"


def judge(evidence: Evidence) -> Result:
    """Correct if the same clips arrive everywhere, each with a noise of its own."""
    _judge_in_main(evidence)
    for each in evidence.epochs:
        arrived(each, evidence.lost)
        # The first that is wrong, since what depends on what was read before is wrong there too.
        if each.wrong and not evidence.depends:
            not_yet(f"{each.where}, {each.wrong} of {CLIPS} samples are not those of 0 workers.")
    _judge_dependence(evidence)
    return correct(
        f"{CLIPS} of {CLIPS} clips are the same with 0 workers, under fork and under spawn; each "
        "has a noise of its own, and another seed gives another."
    )


def _judge_in_main(evidence: Evidence) -> None:
    travels(evidence.sent, "the dataset", "Which kind of function can be found by its name?")
    if evidence.length != CLIPS:
        not_yet(f"the file holds {CLIPS} clips, and `len(dataset)` is {evidence.length}.")
    if evidence.global_numbers:
        not_yet(
            f"with 0 workers, making the dataset and reading it {evidence.global_numbers}, and "
            "from these the model, the shuffling or a library draws as well. Whose numbers should "
            "the noise be made of?"
        )
    if evidence.shape != (LENGTH,) or abs(evidence.loudest - 1) > 1e-4:
        not_yet(
            f"the loudest value of a sample is {evidence.loudest:.2f}, and the shape "
            f"{evidence.shape}. It was 1.00 and {(LENGTH,)}: the scaling is part of the dataset."
        )
    if evidence.noise.none:
        not_yet("the samples are the clips of the file: there is no noise on them any more.")
    if not evidence.depends:
        _judge_noise(evidence.noise)


def _judge_dependence(evidence: Evidence) -> None:
    if evidence.depends:
        copies = f" from `{evidence.held}`, of which every worker has a copy"
        not_yet(
            "`dataset[3]` twice gives two samples: the noise depends on what was drawn before"
            f"{copies if evidence.held else ''}. What, besides the seed, does a sample know of "
            "itself?"
        )


def _judge_noise(noise: Noise) -> None:
    if not noise.repeated:
        not_yet("made again with the same seed, the dataset gives other noise.")
    if noise.numbers < LENGTH - 2:  # two of them may happen to be equal
        count = "one number" if noise.numbers == 1 else f"{noise.numbers} different numbers"
        not_yet(
            f"on a clip of silence, the {LENGTH} values of the noise are {count}. In the starter, "
            "each value of a clip has a random number of its own."
        )
    if noise.alike:
        not_yet(_alike("", *noise.alike))
    if len(noise.same_for_seeds) == CLIPS:
        not_yet(f"seed {_SEED} and seed {_OTHER_SEED} give the same noise.")
    if noise.same_for_seeds:
        not_yet(
            f"seed {_SEED} and seed {_OTHER_SEED} give sample {noise.same_for_seeds[0]} the same "
            "noise."
        )
    if noise.alike_with_0:
        not_yet(_alike("with seed 0, ", *noise.alike_with_0))
    if noise.strange:
        not_yet(
            f"with the same seed and index, {noise.strange} of {CLIPS} clips have other noise than "
            "a clip of silence. What does the noise depend on, besides the two?"
        )
    if not 0.8 * _LOUDNESS < noise.loudness < 1.2 * _LOUDNESS:
        not_yet(
            f"before the scaling, the noise is {noise.loudness:.3f} loud (the root of its mean "
            f"square). In the starter it is {_LOUDNESS:.3f}: `0.1 * torch.randn(...)`."
        )


def _alike(where: str, one: int, other: int) -> str:
    return f"{where}samples {one} and {other} have the same noise. What tells one from the other?"


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=look,
    runs="makes your class on fresh clips, under spawn with 1 worker and under fork with 2 and 4",
    at_most=AT_MOST,
)
