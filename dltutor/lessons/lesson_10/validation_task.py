"""Grade a validation that must not keep what it has seen, for "10.transfer"."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch.utils.data import DataLoader

from dltutor.failures.kit.gauge import MEGABYTE
from dltutor.lessons.kit.answers import Unfit, failed_in_loader, same_code, wrong
from dltutor.lessons.kit.outcome import Result, correct, error_in_your_code, not_attempted
from dltutor.lessons.lesson_10 import validation
from dltutor.lessons.lesson_10.held_memory import counted_collections, names_in, small_garbage
from dltutor.lessons.lesson_10.watched_loader import WatchedLoader
from dltutor.observation import observe

PATIENCE: Final = 20

_SEED: Final = 41
_FEW: Final = 4  # batches that may be alive: the one in the loop, and some on their way out


def grade(answer: Any) -> Result:
    """Grade a function that validates a model.

    Args:
        answer: The learner's function, called with a model and a loader.

    Raises:
        Unfit: The answer is wrong or cannot be graded; its result says why.
    """
    if isinstance(answer, type) or not callable(answer):
        return error_in_your_code("the check takes the function, `my_validate`.")
    if same_code(_holding(answer), _holding(validation.validate)):
        return not_attempted("`my_validate` is still the broken one. Change it, then run this.")
    model = validation.make_model(_SEED)
    loader = WatchedLoader(validation.scans_loader(_SEED), model)
    grad_before, training_before = torch.is_grad_enabled(), _training(model)

    def run(_: DataLoader[Any]) -> Any:
        hooks = torch.autograd.graph.saved_tensors_hooks(loader.pack, lambda kept: kept.tensor)
        with hooks:
            return answer(model, loader)

    with counted_collections() as collections, small_garbage(), _one_thread():
        seen = observe(loader.loader, consume=run, deadline=PATIENCE)
        collected = collections()
    grad_after = torch.is_grad_enabled()
    torch.set_grad_enabled(grad_before)
    if seen.end == "raised":
        raise Unfit(failed_in_loader(seen))
    if seen.end != "finished":
        wrong(f"the validation did not get to its end: {seen.story().title}.")
    if not loader.shared:
        wrong(
            "your loop took no batch from the `loader` it was given. The exercise keeps its two "
            "workers: mend what the loop keeps."
        )
    _result_is_right(seen.result)
    _nothing_is_kept(answer, loader, collected)
    if grad_after != grad_before:
        wrong(
            "nothing is kept, and nothing can be trained any more: gradients are still switched "
            "off after the validation. What switches them on again?"
        )
    if not all(each.requires_grad for each in model.parameters()):
        wrong(
            "nothing is kept, and the model cannot be trained any more: a parameter of it does not "
            "require gradients after the validation."
        )
    if _training(model) != training_before:
        wrong(
            "nothing is kept. But the model is left in `eval()`: dropout and batch normalisation "
            "stay switched off in the training that follows. Who switches them on again?"
        )
    batches = len(loader)
    return correct(
        f"{batches} batches went by, and none was kept: no graph, no piece of shared memory. The "
        f"mean loss and the {batches} hardest scans are right."
    )


@contextmanager
def _one_thread() -> Iterator[None]:
    # The model is too small for two, and on a busy machine they would wait for each other.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _training(model: torch.nn.Module) -> list[bool]:
    return [module.training for module in model.modules()]


def _holding(function: Any) -> type:
    return type("Holding", (), {"run": staticmethod(function)})


def _result_is_right(result: Any) -> None:
    if not (isinstance(result, tuple) and len(result) == 2):
        wrong("your function returns something else than the mean loss and a list of scans.")
    mean, hardest = result
    with torch.no_grad():
        expected_mean, expected = validation.validate(validation.make_model(_SEED), _in_main())
    if not isinstance(hardest, Sequence) or len(hardest) != len(expected):
        kept = len(hardest) if isinstance(hardest, Sequence) else 0
        wrong(f"{kept} of {len(expected)} hardest scans come back. They are wanted, each of them.")
    same = [
        isinstance(one, torch.Tensor) and one.shape == other.shape and torch.equal(one, other)
        for one, other in zip(hardest, expected, strict=True)
    ]
    if not all(same):
        if kinds := {type(one).__name__ for one in hardest if not isinstance(one, torch.Tensor)}:
            wrong(f"a hardest scan is a {min(kinds)} now. It has to stay a tensor.")
        wrong(f"{same.count(False)} of {len(same)} hardest scans are not the tensors they were.")
    got = float(mean.detach() if isinstance(mean, torch.Tensor) else mean)
    if not abs(got - float(expected_mean)) < 1e-3:
        wrong(f"the mean loss is {got:.4f} and should be {float(expected_mean):.4f}.")


def _in_main() -> DataLoader[Any]:
    return DataLoader(validation.Scans(seed=_SEED), 16)


def _nothing_is_kept(answer: Any, loader: WatchedLoader, collected: int) -> None:
    graphs, shared = loader.graphs[-1], loader.shared[-1]
    in_graphs = graphs > _FEW * max(loader.graphs[1], 0.1)
    views = shared > _FEW * validation.BATCH_BYTES / MEGABYTE
    if not in_graphs and not views:
        return
    names = names_in(answer)
    steps = len(loader)
    kept = (
        f"after {steps} batches the graphs of {steps} losses are alive, {graphs:.0f} MB"
        if in_graphs
        else f"the graphs are gone, and after {steps} batches {shared:.0f} MB of their pictures "
        "are still in shared memory"
    )
    if collected >= steps:
        wrong(f"the collector ran {collected} times, and {kept}. It frees what nobody refers to.")
    if "empty_cache" in names:
        wrong(f"`empty_cache()` is about a GPU, and {kept}. Who refers to them?")
    if "del" in names:
        wrong(f"`del` takes away names, and {kept}. What else leads to them?")
    if in_graphs and "clone" in names:
        wrong(f"the scans are copies now, and {kept}. What does `total` lead to?")
    if in_graphs:
        wrong(f"{kept}. Which variable leads to all of them?")
    if "detach" in names:
        wrong(
            f"{kept}. `detach()` leaves the graph behind and copies nothing: whose is the memory?"
        )
    wrong(f"{kept}. What of a batch do you keep, and what does it share with the rest?")
