"""Grade "10.transfer": a validation that keeps nothing of what it has seen, and harms no model."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import torch
from torch.utils.data import DataLoader

from dltutor.failures.kit.gauge import MEGABYTE
from dltutor.lessons.kit.endings import Ending, ended_well, ending
from dltutor.lessons.kit.exercise import Grader
from dltutor.lessons.kit.forms import a_fixed_function
from dltutor.lessons.kit.outcomes import Result, correct, not_yet
from dltutor.lessons.lesson_10 import validation
from dltutor.lessons.lesson_10.memory import count_collections, names_in, small_garbage
from dltutor.observation import observe

_WITHIN: Final = 20  # seconds
_SEED: Final = 41
_FEW: Final = 4  # batches that may be alive: the one in the loop, and some on their way out
_BATCH: Final = validation.BATCH_BYTES / MEGABYTE


@dataclass(frozen=True)
class Validated:
    """What a validation did. Sizes are in MB.

    Args:
        end: How it ended.
        graphs: What was alive in graphs, before each batch and after the last.
        shared: What was alive of batches in shared memory, likewise.
        left: The same two when the function had returned, and only its result was kept.
        fault: What is wrong with the result, in a sentence, or nothing.
        collections: How many full garbage collections there were.
        names: The names that the function uses, and "del".
        harm: What is not as before, in a sentence, or nothing.
    """

    end: Ending
    graphs: tuple[float, ...] = ()
    shared: tuple[float, ...] = ()
    left: tuple[float, float] = (0.0, 0.0)
    fault: str = ""
    collections: int = 0
    names: frozenset[str] = frozenset()
    harm: str = ""


def gather(answer: Any) -> Validated:
    """One validation of 16 batches, by two workers."""
    model = validation.make_model(_SEED)
    loader = validation.WatchedLoader(validation.scans_loader(_SEED), model)
    before = [each.detach().clone() for each in model.state_dict().values()]
    training = _training(model)

    def run(_: DataLoader[Any]) -> Any:
        hooks = torch.autograd.graph.saved_tensors_hooks(loader.pack, lambda kept: kept.tensor)
        with hooks:
            result = answer(model, loader)
        counted.append(collections())
        gc.collect()  # the learner's own rings are not what is asked about
        loader.note()
        return result

    collections, counted = count_collections(), list[int]()
    small_garbage()
    seen = observe(loader.loader, consume=run, deadline=_WITHIN)
    end = ending(seen)
    if seen.end != "finished" or not loader.shared[1:]:
        return Validated(end)
    return Validated(
        end=end,
        graphs=tuple(loader.graphs[:-1]),
        shared=tuple(loader.shared[:-1]),
        left=(loader.graphs[-1], loader.shared[-1]),
        fault=validation.fault_of(seen.result, _SEED),
        collections=counted[0],
        names=frozenset(names_in(answer)),
        harm=_harm_to(model, before, training),
    )


def _training(model: torch.nn.Module) -> list[bool]:
    return [module.training for module in model.modules()]


def _harm_to(model: torch.nn.Module, before: list[torch.Tensor], training: list[bool]) -> str:
    if not torch.is_grad_enabled():
        return (
            "nothing can be trained any more: gradients are still switched off after the "
            "validation. What switches them on again?"
        )
    if not all(each.requires_grad for each in model.parameters()):
        return (
            "the model cannot be trained any more: a parameter of it does not require gradients "
            "after the validation."
        )
    if _training(model) != training:
        return (
            "the model is left in `eval()`: dropout and batch normalization stay switched off in "
            "the training that follows. Who switches them on again?"
        )
    if not all(map(torch.equal, model.state_dict().values(), before)):
        return "the parameters of the model are not what they were. A validation trains nothing."
    gradients = [each.grad for each in model.parameters() if each.grad is not None]
    if any(each.any() for each in gradients):
        return (
            f"{len(gradients)} parameters of the model have a gradient now, which the next step of "
            "the training adds to its own. What computes gradients here, and who wants them?"
        )
    return ""


def judge(seen: Validated) -> Result:
    """Correct if the result is right, nothing is kept, and the model is as before."""
    ended_well(seen.end, hung="What does your function wait for?")
    if not seen.shared:
        not_yet(
            "your loop took no batch from the `loader` it was given. The exercise keeps its two "
            "workers: fix what the loop keeps."
        )
    if seen.fault:
        not_yet(seen.fault)
    _judge_what_is_kept(seen)
    if seen.harm:
        not_yet(f"nothing is kept. But {seen.harm}")
    batches = len(seen.shared) - 1
    return correct(
        f"{batches} batches went by, and none was kept: no graph, no piece of shared memory. The "
        f"mean loss and the {batches} hardest scans are right, and the model is as before."
    )


def _judge_what_is_kept(seen: Validated) -> None:
    graphs, shared, steps = seen.graphs[-1], seen.shared[-1], len(seen.shared) - 1
    in_graphs = graphs > _FEW * max(seen.graphs[1], 0.1)
    if not in_graphs and shared <= _FEW * _BATCH:
        if seen.left[0] > 0.1:
            not_yet(
                "while the loop runs, nothing piles up. But when your function has returned, its "
                f"result still leads to a graph, {seen.left[0]:.1f} MB. Is `total` a number?"
            )
        if seen.left[1] > _BATCH / 2:
            not_yet(
                "while the loop runs, nothing piles up. But when your function has returned, its "
                f"result still holds {seen.left[1]:.1f} MB of batches in shared memory. Which of "
                "the scans is not a copy?"
            )
        return
    names = seen.names
    kept = (
        f"after {steps} batches the graphs of {steps} losses are alive, {graphs:.0f} MB"
        if in_graphs
        else f"the graphs are gone, and after {steps} batches {shared:.0f} MB of their images are "
        "still in shared memory"
    )
    if seen.collections >= steps:
        not_yet(
            f"the collector ran {seen.collections} times, and {kept}. It frees what nobody refers "
            "to."
        )
    if "empty_cache" in names:
        not_yet(f"`empty_cache()` is about a GPU, and {kept}. Who refers to them?")
    if "del" in names:
        not_yet(f"`del` takes away names, and {kept}. What else leads to them?")
    if in_graphs and "clone" in names:
        not_yet(f"the scans are copies now, and {kept}. What does `total` lead to?")
    if in_graphs:
        not_yet(f"{kept}. Which variable leads to all of them?")
    if "detach" in names:
        not_yet(
            f"{kept}. `detach()` leaves the graph behind and copies nothing. Which storage does "
            "the scan point into?"
        )
    not_yet(f"{kept}. What of a batch do you keep, and what does it share with the rest?")


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=partial(a_fixed_function, starter=validation.validate),
    runs="one validation of 16 batches",
    at_most=_WITHIN + 8,
)
