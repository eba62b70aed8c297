"""Looking at a learner's answer: is it a class, is it still the starter, where did it fail?

What all graders have in common; what only those of one lesson have is in the lesson's folder.
"""

from __future__ import annotations

import dis
from types import CodeType, FunctionType
from typing import Any, Final, NoReturn

from torch.utils.data import DataLoader, Dataset

from dltutor.lessons.kit.outcome import Result, error_in_your_code, not_attempted, not_yet
from dltutor.observation import Frame, Observation, errors
from dltutor.observation.texts import said, tidy
from dltutor.observation.time_limits import DeadlinePassed, deadline


class Unfit(Exception):
    """The answer cannot be graded; `result` says why.

    Args:
        result: What to tell the learner.
    """

    def __init__(self, result: Result) -> None:
        super().__init__(str(result))
        self.result = result


def wrong(text: str) -> NoReturn:
    """Say what is wrong with an answer that runs."""
    raise Unfit(not_yet(text[0].upper() + text[1:]))


def a_class(answer: Any, *, methods: tuple[str, ...] = ("__len__", "__getitem__")) -> type:
    """The answer, if it is a class with these methods.

    Raises:
        Unfit: It is not.
    """
    if not isinstance(answer, type):
        kind = type(answer).__name__
        instead = (
            f"the class itself, `{kind}`, not an object of it"
            if isinstance(answer, Dataset)
            else f"a class, got {tidy(repr(answer)):.60}"
        )
        raise Unfit(error_in_your_code(f"the check takes {instead}."))
    for method in methods:
        if not callable(getattr(answer, method, None)):
            raise Unfit(error_in_your_code(f"`{answer.__name__}` has no `{method}`."))
    return answer


def a_mended_class(
    answer: Any,
    starter: type,
    *,
    methods: tuple[str, ...] = ("__len__", "__getitem__"),
    without_workers: str = "",
) -> type:
    """The answer, if it is a dataset's class with these methods that is no longer the starter.

    Args:
        answer: What the learner handed in.
        starter: The broken class that they were given.
        methods: What the class has to have.
        without_workers: What a loader in the place of a class misses, as a sentence or a question.

    Raises:
        Unfit: It is not.
    """
    if _a_loader(answer):
        wrong(
            "that is a loader, with a `num_workers` of its own. The exercise keeps its workers and "
            f"mends what they run: the dataset's class. {without_workers}".rstrip()
        )
    mended = a_class(answer, methods=methods)
    if same_code(mended, starter):
        text = f"`{mended.__name__}` is still the broken one from above."
        raise Unfit(not_attempted(f"{text} Change it, run its cell, then this one."))
    return mended


def _a_loader(answer: Any) -> bool:
    kind = answer if isinstance(answer, type) else type(answer)
    return issubclass(kind, DataLoader)


def made(
    answer: type,
    argument: object,
    name: str,
    *,
    within: float,
    question: str = "What does it wait for?",
) -> Any:
    """Make the dataset.

    Args:
        answer: Its class.
        argument: What the class takes.
        name: How the lesson calls the argument.
        within: Seconds that it may take.
        question: What to ask where it takes longer.

    Raises:
        Unfit: It takes longer.
        Exception: Whatever the answer raises.
    """
    try:
        with deadline(within):
            return answer(argument)
    except DeadlinePassed:
        wrong(f"`{answer.__name__}({name})` was not ready after {within:g} s. {question}")


def same_code(one: type, other: type) -> bool:
    """Whether two classes do the same, name for name: comments and layout do not count."""
    return _code_of(one) == _code_of(other)


def same_function(one: object, other: object) -> bool:
    """Whether two things are functions that do the same, as `same_code` has it for classes."""
    if not (isinstance(one, FunctionType) and isinstance(other, FunctionType)):
        return False
    return _steps(one.__code__) == _steps(other.__code__)


# Where a name was imported in the same file, Python calls its functions with other instructions
# than where another notebook cell imported it. They differ in these, and in the kind of LOAD.
_ONLY_FOR_CALLS: Final = {"CACHE", "NOP", "PRECALL", "PUSH_NULL", "RESUME"}


def _code_of(cls: type) -> dict[str, Any]:
    code: dict[str, Any] = {}
    for name, value in vars(cls).items():
        function = _function_in(value)
        if isinstance(function, FunctionType):
            defaults = repr((function.__defaults__, function.__kwdefaults__))
            code[name] = type(value), defaults, _steps(function.__code__)
        elif not name.startswith("__"):  # Python's own, such as the module's name
            code[name] = repr(value)
    return code


def _function_in(value: Any) -> Any:
    # A static or class method, a property, a cached property.
    names = ("__func__", "fget", "func")
    return next((getattr(value, name) for name in names if hasattr(value, name)), value)


def _steps(code: CodeType) -> list[tuple[str, Any]]:
    steps = []
    for each in dis.get_instructions(code):
        jumps = each.opcode in dis.hasjrel or each.opcode in dis.hasjabs
        # A nested function carries its file name, a jump the length of what it jumps over.
        value = _steps(each.argval) if isinstance(each.argval, CodeType) else each.argval
        if each.opname not in _ONLY_FOR_CALLS:
            steps.append((each.opname.replace("METHOD", "ATTR"), None if jumps else value))
    return steps


def failed_in_main(error: BaseException) -> Result:
    """Tell a learner of an exception that their code raised here."""
    read = errors.read(error)
    return error_in_your_code(_sentence(*read.chain[0], read.traceback))


def failed_in_loader(observation: Observation) -> Result:
    """Tell a learner of an exception that ended an observed run."""
    kind, message = observation.chain[0]
    return error_in_your_code(_sentence(kind, message, observation.traceback))


def _sentence(kind: str, message: str, frames: tuple[Frame, ...]) -> str:
    text = tidy(said(kind, message))
    if not frames:
        return f"`{text}`."
    place = frames[-1]
    where = "of your cell" if place.file == "your cell" else f"of {place.file}"
    return f"`{text}` in `{place.function}`, line {place.line} {where}."
