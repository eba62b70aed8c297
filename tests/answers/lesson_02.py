"""Define right and wrong answers to the exercises of lesson 02."""

from __future__ import annotations

import pickle
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from cells import run_copied

from answers import RightAnswers, WrongFixes, delivering
from dltutor.lessons.lesson_02.helpers import VOCABULARY
from dltutor.lessons.lesson_02.helpers import Located as Starter
from dltutor.lessons.lesson_02.transfer import Captions


def arrives(kind: Any) -> bool:
    """Return whether a type can be pickled and made from one string (the notebook's `arrives`)."""
    try:
        return isinstance(pickle.loads(pickle.dumps(kind))("a text"), kind)
    except Exception:
        return False


def passes(kind: Any) -> bool:
    """Return whether an error of this type keeps its type on the way from a worker to the loop.

    Section 6 of the lesson explains the three gates at which an exception can get lost.
    """
    stops = issubclass(kind, StopIteration)
    return arrives(kind) and not getattr(kind, "message", None) and not stops


def kind_of(error: BaseException) -> Any:
    return type(error) if passes(type(error)) else RuntimeError


def answer(
    raises: Callable[[Any, int, Exception], Any],
    catches: type[BaseException] | tuple[type[BaseException], ...] = Exception,
    **more: Any,
) -> type:
    """Make a dataset class that calls `raises(self, index, error)` when the wrapped dataset raises.

    Args:
        raises: A function that raises the error for the loop, or returns a sample instead.
        catches: The types of errors for which the class calls `raises`.
        more: Methods to add to the class or to replace in it.
    """

    class Located(Starter):
        def __getitem__(self, index: int) -> Any:
            try:
                return self.dataset[index]
            except catches as error:
                return raises(self, index, error)  # type: ignore[arg-type]

    for name, value in more.items():
        setattr(Located, name, value)
    return Located


def say(self: Any, index: int, error: BaseException) -> str:
    return f"sample {index}, {self.dataset.paths[index]}: {error}"


def raise_right(self: Any, index: int, error: Exception) -> None:
    raise kind_of(error)(say(self, index, error)) from error


# More parts of right answers. `interrupted_never` is part of a wrong answer.


class SampleError(RuntimeError):
    """An exception type of the learner's own, which some right answers raise."""


FROM_ON_CALL = run_copied("02", "on-call-wrap", torch=torch, __name__=__name__)
FROM_ON_CALL["SampleError"] = SampleError  # pickle can't find the class that `exec` defined


def interrupted_never(self: Any, index: int) -> Any:
    try:
        return self.dataset[index]
    except KeyboardInterrupt:
        return None
    except Exception as error:
        return raise_right(self, index, error)


def note_where_possible(self: Any, index: int, error: Exception) -> None:
    if passes(type(error)):
        error.add_note(f"sample {index}, {self.dataset.paths[index]}")
        raise error
    raise SampleError(say(self, index, error)) from error


def raise_one_type(self: Any, index: int, error: Exception) -> None:
    raise SampleError(f"sample {index}, {self.dataset.paths[index]}: {error!r}") from error


# Parts of wrong answers


def add_a_note(self: Any, index: int, error: Exception) -> None:
    error.add_note(f"sample {index}, {self.dataset.paths[index]}")
    raise error


def raise_the_same_type(self: Any, index: int, error: Exception) -> None:
    raise type(error)(say(self, index, error)) from error


def raise_local(self: Any, index: int, error: Exception) -> None:
    class Located(type(error)):  # type: ignore[misc]
        def __init__(self, text: str) -> None:
            Exception.__init__(self, text)

    raise Located(say(self, index, error)) from error


def by_a_test(good: Callable[[Any], bool]) -> Callable[[Any, int, Exception], None]:
    """Return a function for `answer` that raises the error's own type if `good` accepts the type.

    If `good` rejects the type, the function raises a RuntimeError.
    """

    def raises(self: Any, index: int, error: Exception) -> None:
        kind: Any = type(error) if good(type(error)) else RuntimeError
        raise kind(say(self, index, error)) from error

    return raises


def but_stops(good: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda kind: not issubclass(kind, StopIteration) and good(kind)


def no_message(kind: Any) -> bool:
    return arrives(kind) and not getattr(kind, "message", None)


def sample_or_failure(self: Any, index: int) -> Any:
    found: Any = None
    failure: Any = None
    try:
        found = self.dataset[index]
    except Exception as error:
        failure = error
    if found is not None:
        return found
    raise kind_of(failure)(say(self, index, failure)) from failure


class Eager(Starter):
    """Wrong, because it reads every sample of the wrapped dataset in `__init__`."""

    def __init__(self, dataset: Any) -> None:
        super().__init__(dataset)
        self.found: list[Any] = []
        for index in range(len(dataset)):
            try:
                self.found.append(dataset[index])
            except Exception as error:
                self.found.append(error)


def no_cause(self: Any, index: int, error: Exception) -> None:
    raise kind_of(error)(say(self, index, error)) from None


def no_index(self: Any, index: int, error: Exception) -> None:
    raise kind_of(error)(f"{self.dataset.paths[index]}: {error}") from error


def interrupts_too(self: Any, index: int, error: Exception) -> None:
    kind = kind_of(error) if isinstance(error, Exception) else RuntimeError
    raise kind(say(self, index, error)) from error


def print_and_go_on(self: Any, index: int, error: Exception) -> Any:
    print(say(self, index, error))
    return self[index - 1]


def retry(self: Any, index: int, error: Exception) -> Any:
    while True:
        try:
            return self.dataset[index]
        except Exception:
            time.sleep(0.01)


def raise_a_base_exception(self: Any, index: int, error: Exception) -> None:
    raise SystemExit(say(self, index, error)) from error


def drop_the_last(self: Any) -> int:
    return len(self.dataset) - 1


def sample_and_index(self: Any, index: int) -> Any:
    try:
        return (*self.dataset[index], index)
    except Exception as error:
        return raise_right(self, index, error)


# Answers to "02.transfer"


def sample(
    words: Callable[[list[str]], Any] = list,
    times: Callable[[Counter[str]], Any] = dict,
    vector: Callable[[Any], Any] = torch.Tensor.detach,
    **more: Any,
) -> type:
    """Make a subclass of `Captions` from functions that make the parts of a sample.

    Args:
        words: A function that makes `sample["words"]` from the caption's words without articles.
        times: A function that makes `sample["times"]` from the counts of all words.
        vector: A function that makes `sample["vector"]` from the mean of the words' rows.
        more: Methods to add to the class or to replace in it.
    """

    class MyCaptions(Captions):
        def __getitem__(self, index: int) -> Any:
            said = self.paths[index].read_text().lower().split()
            rows = self.table[torch.tensor([VOCABULARY[word] for word in said])]
            return {
                "words": words([word for word in said if word not in ("a", "an", "the")]),
                "times": times(Counter(said)),
                "vector": vector(rows.mean(dim=0)),
            }

    for name, value in more.items():
        setattr(MyCaptions, name, value)
    return MyCaptions


class WithoutGrad(Captions):
    @torch.no_grad()
    def __getitem__(self, index: int) -> Any:
        found = super().__getitem__(index)
        return {**found, "words": list(found["words"]), "times": dict(found["times"])}


class OwnTable(Captions):
    def __init__(self, paths: Any, table: Any) -> None:
        super().__init__(paths, table.detach())

    def __getitem__(self, index: int) -> Any:
        found = super().__getitem__(index)
        return {**found, "words": [*found["words"]], "times": Counter(dict(found["times"]))}


class FreezesTheTable(OwnTable):
    def __init__(self, paths: Any, table: Any) -> None:
        Captions.__init__(self, paths, table.requires_grad_(False))


class TurnsGradOff(WithoutGrad):
    def __getitem__(self, index: int) -> Any:
        torch.set_grad_enabled(False)
        return super().__getitem__(index)


class OneGenerator(WithoutGrad):
    def __getitem__(self, index: int) -> Any:
        found = super().__getitem__(index)
        if index == 7:
            found["words"] = (word for word in found["words"])
        return found


class Inference(WithoutGrad):
    @torch.inference_mode()
    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index)


RIGHT_ANSWERS: RightAnswers = {
    "02.fix": {
        "the type or a RuntimeError": answer(raise_right),
        "a note where the type can travel": answer(note_where_possible),
        "one type for all": answer(raise_one_type),
        "the class in On call": FROM_ON_CALL["Located"],
    },
    "02.transfer": {
        "a list, a dict, detach": sample(),
        "no_grad around it": WithoutGrad,
        "a view of the table": OwnTable,
    },
}

WRONG_FIXES: WrongFixes = {
    "02.fix": {
        "a note": (answer(add_a_note), "other-type"),
        "the same type": (answer(raise_the_same_type), "other-type-raised"),
        "a local class": (answer(raise_local), "not-pickled"),
        "no gate C": (answer(by_a_test(no_message)), "ends-early"),
        "no message": (answer(by_a_test(but_stops(arrives))), "other-type"),
        "None is a failure": (answer(raise_right, __getitem__=sample_or_failure), "healthy-raised"),
        "all at once": (Eager, "reads-at-once"),
        "from None": (answer(no_cause), "lacks"),
        "without the index": (answer(no_index), "lacks"),
        "Ctrl-C caught": (answer(raise_right, __getitem__=interrupted_never), "interrupt-caught"),
        "Ctrl-C as well": (answer(interrupts_too, BaseException), "interrupt-replaced"),
        "the one before": (answer(print_and_go_on), "swallowed"),
        "again and again": (answer(retry), "hung"),
        "SystemExit": (answer(raise_a_base_exception), "worker-died"),
        "one too few": (answer(raise_right, __len__=drop_the_last), "other-length"),
        "the index beside it": (
            answer(raise_right, __getitem__=sample_and_index),
            "healthy-replaced",
        ),
    },
    "02.transfer": {
        "the words alone": (
            sample(times=Counter.items, vector=lambda vector: vector),
            "cannot-be-sent",
        ),
        "an iterator": (sample(words=iter), "other-words"),
        "the items": (sample(times=lambda times: list(times.items())), "other-times"),
        "a leaf": (sample(vector=lambda vector: vector.detach().requires_grad_()), "requires-grad"),
        "numbers": (sample(vector=lambda vector: vector.tolist()), "other-vector"),
        "of the default dtype": (
            sample(vector=lambda vector: torch.tensor(vector.tolist())),
            "other-vector",
        ),
        "inference mode": (Inference, "inference-tensor"),
        "zeros": (sample(vector=lambda vector: torch.zeros(5).double()), "other-values"),
        "the table frozen": (FreezesTheTable, "table-changed"),
        "autograd off": (TurnsGradOff, "autograd-off"),
        "one in the middle": (OneGenerator, "waits"),
        "one too few": (sample(__len__=lambda self: 21), "other-length"),
        "a generator for a sample": (
            delivering(WithoutGrad, lambda sample: (part for part in sample.items())),
            "sample-cannot-be-sent",
        ),
        "None": (sample(__getitem__=lambda self, index: None), "other-sample"),
    },
}
