"""Control the random numbers that samples are made from, so that samples can be compared.

There are four sources: the global generators of torch, numpy, and Python, and the dataset's own. A
source that's held starts each draw in the same state, and gets its old state back after the draw.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import count
from typing import Any, Final

import numpy as np
import torch

from dltutor.diagnosis.objects.digests import digest
from dltutor.diagnosis.objects.walking import walk
from dltutor.observation.foreign import is_a

#: For each global generator, the functions that get its state, set its state, and seed it.
_GLOBAL: Final[dict[str, tuple[Callable[[], Any], Callable[[Any], Any], Callable[[int], Any]]]] = {
    "torch": (torch.get_rng_state, torch.set_rng_state, torch.default_generator.manual_seed),
    "numpy": (np.random.get_state, np.random.set_state, np.random.seed),
    "random": (random.getstate, random.setstate, random.seed),
}
SOURCES: Final = (*_GLOBAL, "own")
#: A seed that your code is unlikely to use.
SEED: Final = 24301
Around = Callable[[Callable[[], Any], Any], Any]

#: How findings name each global generator.
SAID: Final = {
    "torch": "torch's global generator",
    "numpy": "numpy's global generator",
    "random": "the generator of the module `random`",
}


class Pins:
    """The random generators that a dataset may draw from. `held` puts all of them in a fixed state.

    Args:
        dataset: The dataset or sampler, whose own generators have to exist already.
    """

    def __init__(self, dataset: Any) -> None:
        self._states = [(each, _state(each)) for _, each in _own_generators(dataset)]

    @contextmanager
    def held(self, free: str = "", *, seed: int = 0) -> Iterator[None]:
        """Put all random generators in a fixed state for the block, and restore their old states.

        The global generators start from `seed`. The dataset's own generators start in the state
        that they were in when this object was made. The source in `SOURCES` that `free` names stays
        as it is (default: none does).
        """
        with ExitStack() as undo:
            for name, (state_now, put_state, seed_with) in _GLOBAL.items():
                if free != name:
                    undo.callback(put_state, state_now())
                    seed_with(seed)
            if free != "own":
                for generator, state in self._states:
                    undo.callback(_put_back, generator, _state(generator))
                    _put_back(generator, state)
            yield


def _own_generators(dataset: Any) -> list[tuple[str, Any]]:
    kinds = (np.random.Generator, np.random.RandomState, random.Random, torch.Generator)
    of_torch = torch.default_generator
    return [
        (found.path, found.thing)
        for found in walk(dataset)
        if is_a(found.thing, kinds)
        and found.thing is not of_torch
        and not is_a(found.thing, random.SystemRandom)
    ]


def used_generators(dataset: Any, draw: Callable[[], Any]) -> list[str]:
    """Return the paths of the dataset's own generators that drawing samples advances.

    Args:
        dataset: The dataset, whose generators and other state `draw` may change.
        draw: A function that draws the samples. If it raises an exception, that's ignored.
    """
    before = [(path, each, digest(_state(each))) for path, each in _own_generators(dataset)]
    with suppress(Exception):
        draw()
    return [path for path, each, state in before if digest(_state(each)) != state]


def hold_draws(dataset: Any) -> None:
    """Start every draw from a dataset in the same random state, in this process from now on."""
    pins = Pins(dataset)

    def around(draw: Callable[[], Any], index: Any) -> Any:
        with pins.held():
            return draw()

    wrap_draws(dataset, around)


def wrap_draws(dataset: Any, around: Around) -> None:
    """Call `around` for each draw from a dataset, in this process from now on.

    Args:
        dataset: A map-style dataset or a stream. Other objects of its class aren't affected. If the
            class can't be changed, such as `list`, nothing happens.
        around: A function that takes `draw` and what it draws: an index, a list of indices if torch
            calls `__getitems__`, or a position in the stream. `draw` takes no arguments and returns
            a sample or a list of samples. `around` has to return a sample or a list, too, and to
            let the exceptions of `draw` pass.
    """
    cls: Any = type(dataset)
    if hasattr(cls, "__getitem__") and not hasattr(dataset, "__next__"):
        inside = [False]  # if __getitems__ calls __getitem__, that's still one draw
        for name in ("__getitem__", "__getitems__"):
            if getattr(cls, name, None):
                with suppress(TypeError):  # the class is built in or comes from an extension
                    setattr(cls, name, _around_calls(dataset, getattr(cls, name), around, inside))
    if is_a(dataset, torch.utils.data.IterableDataset):
        own = cls.__iter__

        def __iter__(self: Any) -> Any:
            iterator = own(self)
            return _drawing(iterator, around) if self is dataset else iterator

        cls.__iter__ = __iter__


def _around_calls(dataset: Any, own: Any, around: Around, inside: list[bool]) -> Any:
    def method(self: Any, index: Any) -> Any:
        if self is not dataset or inside[0]:
            return own(self, index)
        inside[0] = True
        try:
            return around(partial(own, self, index), index)
        finally:
            inside[0] = False

    return method


def _drawing(iterator: Any, around: Around) -> Iterator[Any]:
    iterator = iter(iterator)
    for position in count():
        try:
            sample = around(partial(next, iterator), position)
        except StopIteration:
            return
        yield sample


def seed_all(seed: int = 0) -> None:
    """Seed the global random generators of torch, numpy, and Python."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def global_states() -> dict[str, str]:
    """Return a digest of the state of each global generator, by name."""
    return {name: digest(state_now()) for name, (state_now, _, _) in _GLOBAL.items()}


def _state(generator: Any) -> Any:
    if is_a(generator, np.random.Generator):
        return generator.bit_generator.state
    if is_a(generator, random.Random):
        return generator.getstate()
    return generator.get_state()


def _put_back(generator: Any, state: Any) -> None:
    with suppress(Exception):
        if is_a(generator, np.random.Generator):
            generator.bit_generator.state = state
        elif is_a(generator, random.Random):
            generator.setstate(state)
        else:
            generator.set_state(state)
