"""The usual answers to the exercises of lesson 02."""

from __future__ import annotations

import copyreg
import os
import pickle
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

from answers import OtherOutcomes, RightAnswers, WrongFixes
from dltutor.lessons.lesson_02.material import VOCABULARY
from dltutor.lessons.lesson_02.material import Located as Starter
from dltutor.lessons.lesson_02.transfer import Captions


class Kept(type):
    """The class of all classes that `kept` makes."""


def _members(**more: Any) -> dict[str, Any]:
    return {
        "__init__": lambda self, text: Exception.__init__(self, text),
        "__str__": lambda self: self.args[0],
        "message": None,
        "__getattr__": object.__getattribute__,
        **more,
    }


def kept(kind: Any) -> Any:
    return Kept(kind.__name__, (kind,), _members())


copyreg.pickle(Kept, lambda made: (kept, made.__bases__))


def base_of(error: BaseException) -> type[Exception]:
    """The first class that can travel, and that ends no loop."""
    for kind in type(error).__mro__:
        try:
            pickle.dumps(kind)
        except Exception:
            continue
        return RuntimeError if issubclass(kind, StopIteration) else kind  # type: ignore[return-value]
    return Exception


def answer(
    raises: Callable[[Any, int, Exception], Any],
    catches: type[BaseException] | tuple[type[BaseException], ...] = Exception,
    **more: Any,
) -> Callable[[], type]:
    """A dataset that does something with what was raised: `raises(self, index, error)`."""

    def make() -> type:
        class Located(Dataset[Any]):
            def __init__(self, dataset: Any) -> None:
                self.dataset = dataset

            def __len__(self) -> int:
                return len(self.dataset)

            def __getitem__(self, index: int) -> Any:
                try:
                    return self.dataset[index]
                except catches as error:
                    return raises(self, index, error)  # type: ignore[arg-type]

        for name, value in more.items():
            setattr(Located, name, value)
        return Located

    return make


def say(self: Any, index: int, error: BaseException) -> str:
    return f"sample {index}, {self.dataset.paths[index]}: {error}"


def raise_kept(self: Any, index: int, error: Exception) -> None:
    raise kept(base_of(error))(say(self, index, error)) from error


# In other ways


class Plain:
    """No Dataset, and what it does not have it asks the other one for."""

    def __init__(self, dataset: Any) -> None:
        self.inner = dataset

    def __len__(self) -> int:
        return len(self.inner)

    def __getattr__(self, name: str) -> Any:
        if name == "inner" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.inner, name)

    def __getitem__(self, index: int) -> Any:
        with At(index, self.inner.paths[index]):
            return self.inner[index]


class At:
    """A block in which something may be raised at a sample."""

    def __init__(self, *place: Any) -> None:
        self.place = place

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, _: object) -> None:
        if isinstance(error, Exception):
            raise kept(base_of(error))(f"{self.place}: {error}") from error


@contextmanager
def at(index: int, path: Any) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise kept(base_of(error))(f"{index} {path} {error}") from error


class PlainToo(Plain):
    """contextlib raises the StopIteration itself where a RuntimeError comes `from` it."""

    def __getitem__(self, index: int) -> Any:
        with at(index, self.inner.paths[index]):
            return self.inner[index]


class Sent(Exception):
    """One class for all: made of a text, it is what the text names."""

    def __new__(cls, text: str) -> Any:
        if "||" not in text:
            return super().__new__(cls, text)
        module, name = text.split("||")[1:3]
        kind: Any = sys.modules[module]
        for part in name.split("."):
            kind = getattr(kind, part)
        made = type(kind.__name__, (kind,), _members())
        return made(text)


def raise_sent(self: Any, index: int, error: Exception) -> None:
    kind = base_of(error)
    text = f"||{kind.__module__}||{kind.__qualname__}|| {say(self, index, error)}"
    if get_worker_info() is None:
        raise Sent(text) from error
    sent = Exception.__new__(Sent)
    sent.args = (text,)
    raise sent from error


class Registered(Starter):
    """Subclasses of all that there is, made in main, and put where pickle looks for them."""

    def __init__(self, dataset: Any) -> None:
        super().__init__(dataset)
        todo: list[type[Exception]] = [Exception]
        while todo:
            kind = todo.pop()
            todo += kind.__subclasses__()
            name = f"Made_{kind.__module__}_{kind.__qualname__}".replace(".", "_")
            if name not in globals() and not kind.__name__.startswith("Made_"):
                try:
                    pickle.dumps(kind)
                    globals()[name] = type(name, (kind,), _members(__module__=__name__))
                except Exception:  # it has no name, or cannot have a subclass, or should not
                    continue

    def __getitem__(self, index: int) -> Any:
        try:
            return self.dataset[index]
        except Exception as error:
            kind = base_of(error)
            name = f"Made_{kind.__module__}_{kind.__qualname__}".replace(".", "_")
            raise globals()[name](say(self, index, error)) from error


def note_where_possible(self: Any, index: int, error: Exception) -> None:
    kind = base_of(error)
    try:
        arrives = kind is type(error) and isinstance(kind("a text"), kind)
    except Exception:
        arrives = False
    if arrives and not getattr(kind, "message", None):
        error.add_note(f"sample {index}, {self.dataset.paths[index]}")
        raise error
    raise_kept(self, index, error)


class Forked(type):
    """As Kept, known to multiprocessing's pickler alone."""


@cache
def forked(kind: Any) -> Any:
    return Forked("Located" + kind.__name__, (kind,), _members())


ForkingPickler.register(Forked, lambda made: (forked, made.__bases__))


def raise_forked(self: Any, index: int, error: Exception) -> None:
    raise forked(base_of(error))(say(self, index, error)) from error


def with_the_traceback(self: Any, index: int, error: Exception) -> None:
    text = f"{say(self, index, error)}\n{''.join(traceback.format_exception(error))}"
    raise kept(base_of(error))(text) from None


def get_several(self: Any, indices: list[int]) -> list[Any]:
    return [self[index] for index in indices]


class Marked(Exception):
    """A mixin: `except Marked` catches all of them."""


class KeptToo(type):
    pass


def marked(kind: Any) -> Any:
    try:
        return KeptToo(kind.__name__, (kind, Marked), _members())
    except TypeError:
        return KeptToo(kind.__name__, (kind,), _members())


copyreg.pickle(KeptToo, lambda made: (marked, made.__bases__[:1]))


def raise_marked(self: Any, index: int, error: Exception) -> None:
    raise marked(base_of(error))(say(self, index, error)) from error


# What goes wrong


class SampleError(RuntimeError):
    """One type for all."""


def raise_one_type(self: Any, index: int, error: Exception) -> None:
    raise SampleError(f"sample {index}, {self.dataset.paths[index]}: {error!r}") from error


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


def raise_kept_type(self: Any, index: int, error: Exception) -> None:
    kind = RuntimeError if isinstance(error, StopIteration) else type(error)
    raise kept(kind)(say(self, index, error)) from error


def let_stop(self: Any, index: int, error: Exception) -> None:
    for kind in type(error).__mro__:
        try:
            pickle.dumps(kind)
        except Exception:
            continue
        raise kept(kind)(say(self, index, error)) from error


def base_exception_for_locals(self: Any, index: int, error: Exception) -> None:
    local = "<locals>" in type(error).__qualname__
    raise kept(Exception if local else base_of(error))(say(self, index, error)) from error


def takes(kind: type, but: type[Exception] = Exception) -> bool:
    try:
        pickle.dumps(kind)
    except but:
        return False
    return True


def first(error: Exception, good: Callable[[type], bool]) -> Any:
    kind = next(filter(good, type(error).__mro__))
    return RuntimeError if isinstance(error, StopIteration) else kind


def by_a_test(good: Callable[[type], bool]) -> Callable[[Any, int, Exception], None]:
    """Take the first class that is good."""

    def raises(self: Any, index: int, error: Exception) -> None:
        raise kept(first(error, good))(say(self, index, error)) from error

    return raises


def no_local(kind: type) -> bool:
    return "<locals>" not in kind.__qualname__


def attribute_errors(kind: type) -> bool:
    return takes(kind, AttributeError)


def pickling_errors(kind: type) -> bool:
    return takes(kind, pickle.PicklingError)


def by_the_object(self: Any, index: int, error: Exception) -> None:
    kind = base_of(error)
    try:
        pickle.dumps(error)
    except Exception:
        if not isinstance(error, StopIteration):
            kind = next(filter(takes, type(error).__mro__[1:]))
    raise kept(kind)(say(self, index, error)) from error


def one_step_up(self: Any, index: int, error: Exception) -> None:
    kind = RuntimeError if isinstance(error, StopIteration) else type(error)
    kind = kind if takes(kind) else kind.__mro__[1]
    raise kept(kind)(say(self, index, error)) from error


def stop_itself_alone(self: Any, index: int, error: Exception) -> None:
    kind = next(filter(takes, type(error).__mro__))
    kind = RuntimeError if type(error) is StopIteration else kind
    raise kept(kind)(say(self, index, error)) from error


def stop_as_exception(self: Any, index: int, error: Exception) -> None:
    kind = Exception if isinstance(error, StopIteration) else base_of(error)
    raise kept(kind)(say(self, index, error)) from error


def index_errors_pass(self: Any, index: int, error: Exception) -> None:
    if isinstance(error, IndexError):
        raise error
    raise_kept(self, index, error)


def the_paths_name(self: Any, index: int, error: Exception) -> None:
    text = f"sample {index}, {self.dataset.paths[index].name}: {error}"
    raise kept(base_of(error))(text) from error


def file_and_number(self: Any, index: int, error: Exception) -> None:
    last = traceback.extract_tb(error.__traceback__)[-1]
    text = f"{say(self, index, error)} ({last.filename}:{last.lineno})"
    raise kept(base_of(error))(text) from None


def sample_or_failure(self: Any, index: int) -> Any:
    found: Any = None
    failure: Any = None
    try:
        found = self.dataset[index]
    except Exception as error:
        failure = error
    if found is not None:
        return found
    raise kept(base_of(failure))(say(self, index, failure)) from failure


class Eager(Starter):
    """Reads everything at once."""

    def __init__(self, dataset: Any) -> None:
        super().__init__(dataset)
        self.found: list[Any] = []
        for index in range(len(dataset)):
            try:
                self.found.append(dataset[index])
            except Exception as error:
                self.found.append(error)


def no_cause(self: Any, index: int, error: Exception) -> None:
    raise kept(base_of(error))(say(self, index, error)) from None


def no_index(self: Any, index: int, error: Exception) -> None:
    raise kept(base_of(error))(f"{self.dataset.paths[index]}: {error}") from error


def no_path(self: Any, index: int, error: Exception) -> None:
    raise kept(base_of(error))(f"sample {index}: {error}") from error


def next_path(self: Any, index: int, error: Exception) -> None:
    path = self.dataset.paths[(index + 1) % len(self.dataset)]
    raise kept(base_of(error))(f"sample {index}, {path}: {error}") from error


def next_index(self: Any, index: int, error: Exception) -> None:
    path = self.dataset.paths[index]
    raise kept(base_of(error))(f"sample {index + 1}, {path}: {error}") from error


def only_with_workers(self: Any, index: int, error: Exception) -> None:
    if get_worker_info() is None:
        raise error
    raise_kept(self, index, error)


def first_two_workers(self: Any, index: int, error: Exception) -> None:
    info = get_worker_info()
    if info is not None and info.id > 1:
        raise error
    raise_kept(self, index, error)


def once(self: Any, index: int, error: Exception) -> None:
    told = self.__dict__.setdefault("told", set())
    if index in told:
        raise error
    told.add(index)
    raise_kept(self, index, error)


class KeptTextless(type):
    pass


def textless(kind: Any) -> Any:
    members = _members()
    del members["__str__"]
    return KeptTextless(kind.__name__, (kind,), members)


class KeptMessage(type):
    pass


def with_message(kind: Any) -> Any:
    members = _members()
    del members["message"]
    return KeptMessage(kind.__name__, (kind,), members)


copyreg.pickle(KeptTextless, lambda made: (textless, made.__bases__))
copyreg.pickle(KeptMessage, lambda made: (with_message, made.__bases__))


def raise_textless(self: Any, index: int, error: Exception) -> None:
    raise textless(base_of(error))(say(self, index, error)) from error


def raise_with_message(self: Any, index: int, error: Exception) -> None:
    raise with_message(base_of(error))(say(self, index, error)) from error


def interrupts_too(self: Any, index: int, error: Exception) -> None:
    kind = base_of(error) if isinstance(error, Exception) else RuntimeError
    raise kept(kind)(say(self, index, error)) from error


def all_are_value_errors(self: Any, index: int, error: Exception) -> None:
    raise ValueError(say(self, index, error)) from error


def print_and_go_on(self: Any, index: int, error: Exception) -> Any:
    print(say(self, index, error))
    return self[index - 1]


def retry(self: Any, index: int, error: Exception) -> Any:
    while True:
        try:
            return self.dataset[index]
        except Exception:
            time.sleep(0.01)


def rest(self: Any, index: int, error: Exception) -> None:
    time.sleep(2)
    raise_kept(self, index, error)


def raise_a_base_exception(self: Any, index: int, error: Exception) -> None:
    raise SystemExit(say(self, index, error)) from error


def drop_the_last(self: Any) -> int:
    return len(self.dataset) - 1


def sample_and_index(self: Any, index: int) -> Any:
    try:
        return (*self.dataset[index], index)
    except Exception as error:
        return raise_kept(self, index, error)


class OneForAll(Starter):
    """What is kept in the class, the next one has too."""

    def __init__(self, dataset: Any) -> None:
        type(self).dataset = dataset

    def __getitem__(self, index: int) -> Any:
        try:
            return self.dataset[index]
        except Exception as error:
            return raise_kept(self, index, error)


# 02.transfer


def sample(
    words: Callable[[list[str]], Any] = list,
    times: Callable[[Counter[str]], Any] = dict,
    vector: Callable[[Any], Any] = torch.Tensor.detach,
    **more: Any,
) -> Callable[[], type]:
    """A dataset, by what it makes of the words, their counts, and the vector."""

    def make() -> type:
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

    return make


class WithoutGrad(Captions):
    @torch.no_grad()
    def __getitem__(self, index: int) -> Any:
        found = super().__getitem__(index)
        return {**found, "words": list(found["words"]), "times": dict(found["times"])}


class Beforehand(Captions):
    def __init__(self, paths: Any, table: Any) -> None:
        super().__init__(paths, table)
        whole = WithoutGrad(paths, table)
        self.samples = [whole[index] for index in range(len(paths))]

    def __getitem__(self, index: int) -> Any:
        return self.samples[index]


class OwnTable(Captions):
    def __init__(self, paths: Any, table: Any) -> None:
        super().__init__(paths, table.detach())

    def __getitem__(self, index: int) -> Any:
        found = super().__getitem__(index)
        return {**found, "words": [*found["words"]], "times": Counter(dict(found["times"]))}


class CopiesTheTable(OwnTable):
    def __init__(self, paths: Any, table: Any) -> None:
        super().__init__(paths, table.clone())


class KeepsSamples(WithoutGrad):
    def __init__(self, paths: Any, table: Any) -> None:
        super().__init__(paths, table)
        self.seen: dict[int, Any] = {}

    def __getitem__(self, index: int) -> Any:
        if index not in self.seen:
            self.seen[index] = super().__getitem__(index)
        return self.seen[index]


class FreezesTheTable(OwnTable):
    def __init__(self, paths: Any, table: Any) -> None:
        Captions.__init__(self, paths, table.requires_grad_(False))


class DetachesTheTable(OwnTable):
    def __init__(self, paths: Any, table: Any) -> None:
        Captions.__init__(self, paths, table.detach_())


class TurnsGradOff(WithoutGrad):
    def __getitem__(self, index: int) -> Any:
        torch.set_grad_enabled(False)
        return super().__getitem__(index)


class LowersTheFile(WithoutGrad):
    def __getitem__(self, index: int) -> Any:
        text = self.paths[index].read_text()
        self.paths[index].write_text(text.lower())
        return super().__getitem__(index)


class RawInMain(WithoutGrad):
    def __getitem__(self, index: int) -> Any:
        found = super().__getitem__(index)
        if get_worker_info() is None:
            return found
        return {**found, "words": (word for word in found["words"])}


class OneGenerator(WithoutGrad):
    def __getitem__(self, index: int) -> Any:
        found = super().__getitem__(index)
        if index == 7:
            found["words"] = iter({word: 1 for word in found["words"]}.keys() | set())
            found["words"] = (word for word in found["words"])
        return found


class PlainClass:
    def __init__(self, paths: Any, table: Any) -> None:
        self.whole = WithoutGrad(paths, table)

    def __len__(self) -> int:
        return len(self.whole.paths)

    def __getitem__(self, index: int) -> Any:
        return self.whole[index]


class Inference(WithoutGrad):
    @torch.inference_mode()
    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index)


class Exits(WithoutGrad):
    def __getitem__(self, index: int) -> Any:
        if index == 9:
            os._exit(3)
        return super().__getitem__(index)


class Waits(WithoutGrad):
    def __getitem__(self, index: int) -> Any:
        while get_worker_info() and index == 9:
            time.sleep(0.1)
        return super().__getitem__(index)


RIGHT_ANSWERS: RightAnswers = {
    "02.predict": {"c": lambda: "c", "in brackets": lambda: "(C)"},
    "02.diagnose": {"4": lambda: 4, "of numpy": lambda: np.int64(4), "a text": lambda: "4"},
    "02.fix": {
        "a subclass that pickle makes anew": answer(raise_kept),
        "a context manager, no Dataset": lambda: Plain,
        "one class, whose text names the type": answer(raise_sent),
        "subclasses made in main": lambda: Registered,
        "a note where the type can travel": answer(note_where_possible),
        "known to multiprocessing alone, cached": answer(raise_forked),
        "the traceback in the text": answer(with_the_traceback),
        "several samples at once": answer(raise_kept, __getitems__=get_several),
        "of a type of its own as well": answer(raise_marked),
    },
    "02.transfer": {
        "a list, a dict, detach": sample(),
        "no_grad around it": lambda: WithoutGrad,
        "a view of the table": lambda: OwnTable,
        "a Counter": sample(times=lambda times: times),
        "through numpy": sample(vector=lambda vector: torch.from_numpy(vector.detach().numpy())),
        "of numbers": sample(vector=lambda vector: torch.tensor(vector.tolist())),
        "no Dataset": lambda: PlainClass,
        "inference mode": lambda: Inference,
        "data": sample(vector=lambda vector: vector.data),
    },
}

WRONG_FIXES: WrongFixes = {
    "02.predict": {
        "a": (lambda: "a", "`train` did not return"),
        "b": (lambda: "b", "the run ended by itself"),
    },
    "02.diagnose": {
        "0": (lambda: 0, "the caption has more"),
        "2": (lambda: 2, "the caption has 4"),
        "1": (lambda: 1, "last lines of the traceback"),
        "3": (lambda: 3, "look at what it hands on"),
        "5": (lambda: 5, "does not come to it"),
        "counted from 1": (lambda: 6, "numbered from 0 to 5"),
        "-2": (lambda: -2, "here is no step -2"),
        "its name": (lambda: "Require", "whole number"),
    },
    "02.fix": {
        "one type for all": (answer(raise_one_type), "which `except ValueError` does not catch"),
        "a note": (answer(add_a_note), "which `except TornReading` does not catch"),
        "the same type": (answer(raise_the_same_type), "which `except TornReading` does not"),
        "a local class": (answer(raise_local), "Can't pickle local object"),
        "no base": (answer(raise_kept_type), "made inside a function"),
        "StopIteration passes": (answer(let_stop), "the epoch ends without a word: sample 3803"),
        "a contextmanager": (lambda: PlainToo, "the epoch ends without a word: sample 3803"),
        "Exception for local classes": (
            answer(base_exception_for_locals),
            "which `except ValueError` does not catch",
        ),
        "the object": (answer(by_the_object), "does pickle take first"),
        "one step up": (answer(one_step_up), "Can't pickle local object"),
        "no local": (answer(by_a_test(no_local)), "it's not the same object as"),
        "AttributeError alone": (
            answer(by_a_test(attribute_errors)),
            "the loop gets `_pickle.PicklingError: Can't pickle <class",
        ),
        "PicklingError alone": (
            answer(by_a_test(pickling_errors)),
            "Which line of your own `except` says that?",
        ),
        "a StopIteration itself alone": (
            answer(stop_itself_alone),
            "the epoch ends without a word: sample 5199",
        ),
        "a StopIteration as Exception": (answer(stop_as_exception), "What is a StopIteration to"),
        "IndexErrors pass": (answer(index_errors_pass), "lacks the index and the path"),
        "the path's name": (answer(the_paths_name), "lacks the path"),
        "file and number": (answer(file_and_number), "lacks the code of the line that raised"),
        "None is a failure": (
            answer(raise_kept, __getitem__=sample_or_failure),
            "is healthy, `None`, and the loop gets `TypeError`",
        ),
        "all at once": (lambda: Eager, "`KeyboardInterrupt: from the check, as Ctrl-C would be`"),
        "from None": (answer(no_cause), "lacks the code of the line that raised"),
        "without the index": (answer(no_index), "lacks the index"),
        "without the path": (answer(no_path), "lacks the path"),
        "the path of the next one": (answer(next_path), "lacks the path"),
        "counted from 1": (answer(next_index), "lacks the index"),
        "not without workers": (answer(only_with_workers), "Without workers, sample 4217"),
        "not in W2": (answer(first_two_workers), "With 4 workers under fork, sample"),
        "not the second time": (answer(once), "lacks the index and the path"),
        "no __str__": (answer(raise_textless), "sample 4129 raises a UnicodeDecodeError. It is"),
        "with its message": (answer(raise_with_message), "the loop gets `TypeError`"),
        "Ctrl-C as well": (answer(interrupts_too, BaseException), "becomes `RuntimeError`"),
        "ValueError for all": (answer(all_are_value_errors), "which `except KeyError` does not"),
        "the one before": (answer(print_and_go_on), "gets a sample in its place"),
        "None": (answer(lambda *_: None), "gets a sample in its place"),
        "again and again": (answer(retry), "did not end within 6 s"),
        "SystemExit": (answer(raise_a_base_exception), "ended with exit code 1"),
        "os._exit": (answer(lambda *_: os._exit(7)), "ended with exit code 7"),
        "a rest before each": (answer(rest), "did not end within 6 s"),
        "one too few": (answer(raise_kept, __len__=drop_the_last), "`len(located)` is 5199"),
        "the index beside it": (answer(raise_kept, __getitem__=sample_and_index), "is healthy"),
        "kept in the class": (lambda: OneForAll, "is healthy, `([0, 0, 0], 0)`, and another one"),
        "a function": (lambda: lambda dataset: dataset, "takes a class"),
    },
    "02.transfer": {
        "the words alone": (
            sample(times=Counter.items, vector=lambda vector: vector),
            "`times` cannot be sent to main",
        ),
        "the vector as it is": (sample(vector=lambda vector: vector), "Cowardly refusing"),
        "a generator": (sample(words=lambda words: (word for word in words)), "`words` cannot be"),
        "an iterator": (sample(words=iter), "`words` is "),
        "a tuple": (sample(words=tuple), "`words` is ("),
        "a string": (sample(words=" ".join), "`words` is '"),
        "sorted": (sample(words=sorted), "not the list"),
        "the items": (sample(times=lambda times: list(times.items())), "`times` is [("),
        "the counts": (sample(times=lambda times: list(times.values())), "`times` is ["),
        "each once": (sample(times=lambda times: dict.fromkeys(times, 1)), "not the dict"),
        "a leaf": (
            sample(vector=lambda vector: vector.detach().requires_grad_()),
            "requires grad, and nothing can be trained",
        ),
        "numbers": (sample(vector=lambda vector: vector.tolist()), "not a tensor of shape (5,)"),
        "double": (sample(vector=lambda vector: vector.detach().double()), "of torch.float64"),
        "all of it in __init__": (lambda: Beforehand, "After a step of the model, which changes"),
        "a copy of the table": (lambda: CopiesTheTable, "`table` in place, `vector` is"),
        "samples kept": (lambda: KeepsSamples, "`table` in place, `vector` is"),
        "rounded": (sample(vector=lambda vector: vector.detach().round()), "and the starter's"),
        "zeros": (sample(vector=lambda vector: torch.zeros(5)), "and the starter's"),
        "the table frozen": (lambda: FreezesTheTable, "changed `table`"),
        "the table detached": (lambda: DetachesTheTable, "changed `table`"),
        "autograd off": (lambda: TurnsGradOff, "changed autograd"),
        "the files in lower case": (lambda: LowersTheFile, "`000.txt`, a file"),
        "not in a worker": (lambda: RawInMain, "A worker wrote `TypeError: cannot pickle"),
        "one in the middle": (lambda: OneGenerator, "A worker wrote `TypeError: cannot pickle"),
        "one too few": (sample(__len__=lambda self: 21), "`len(dataset)` is 21"),
        "os._exit": (lambda: Exits, "ended with exit code 3"),
        "an endless loop": (lambda: Waits, "did not end within 6 s"),
        "None": (sample(__getitem__=lambda self, index: None), "sample is None"),
        "a loader": (lambda: DataLoader(range(3)), "is a loader"),  # type: ignore[arg-type]
    },
}

OTHER_OUTCOMES: OtherOutcomes = {
    "02.predict": {"untouched": (lambda: ..., "Not attempted", "'a', 'b', 'c'")},
    "02.diagnose": {"untouched": (lambda: ..., "Not attempted", "counted from 0")},
    "02.fix": {
        "the starter": (lambda: Starter, "Not attempted", "still the broken one"),
        "nothing": (lambda: None, "Not attempted", "without parentheses"),
        "an object": (lambda: Starter([]), "Error in your code", "not an object of it"),
    },
    "02.transfer": {
        "the starter": (lambda: Captions, "Not attempted", "still the broken one"),
        "an object": (
            lambda: Captions([], torch.ones(1)),
            "Error in your code",
            "not an object of it",
        ),
    },
}
