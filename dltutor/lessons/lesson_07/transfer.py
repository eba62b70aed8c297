"""Grade "07.transfer": labels that are right in every worker, whenever the workers are forked.

Two epochs are run whose workers are forked while a thread of main is half-way through reading the
labels again. Then one more for each step of a refresh that others can see, a call or a store: the
workers are forked just after it. What a worker delivers must belong together: all labels of before,
or all of after.
"""

from __future__ import annotations

import dis
import linecache
import operator
import os
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from types import CodeType, FrameType, FunctionType
from typing import Any, Final

from torch.utils.data import DataLoader

from dltutor.lessons.kit.endings import Ending, ended_well, run_loader
from dltutor.lessons.kit.exercise import Grader
from dltutor.lessons.kit.forms import a_fixed_class
from dltutor.lessons.kit.outcomes import Result, correct, not_yet
from dltutor.lessons.kit.running import made
from dltutor.lessons.lesson_07.material import CLIPS, Clips, Server

Place = tuple[CodeType, int]  # a method's code, and one of its steps

_LONG: Final = 4  # seconds for each thing that the answer does
_FORK: Final = 2.0  # seconds that two forks in main may take
_HALF_WAY: Final = (2, 4)  # workers of the epochs that begin half-way through the reading
_AT_A_STEP: Final = 1  # workers of each epoch after these
_FORM: Final = "A sample is two numbers, the index and the label, as in the starter."
#: Steps that only change what nobody else sees: a method's own variables, its place.
_OWN: Final = (
    *("LOAD_", "STORE_FAST", "STORE_DEREF", "PUSH_", "POP_", "DUP_", "ROT_", "COPY", "SWAP"),
    *("PRECALL", "KW_", "RESUME", "RETURN_", "MAKE_", "BUILD_", "GET_ITER", "JUMP_", "COMPARE_"),
    *("IS_", "CONTAINS_", "UNPACK_", "NOP", "CACHE", "EXTENDED_", "TO_BOOL"),
)


@dataclass(frozen=True)
class Epoch:
    """An epoch whose workers were forked at one moment of a refresh.

    Args:
        line: The line that the refresh was in, "" for the middle of the reading.
        run: How it ended.
        wrong: What is wrong with the labels that came, or "".
    """

    line: str
    run: Ending
    wrong: str = ""


@dataclass(frozen=True)
class Evidence:
    """What is known of an answer.

    Args:
        epochs: Up to the first that is not right.
        main: How many of main's labels are of before the last refresh, when it has returned.
        reads: How many times one worker began to read the list, at the most.
    """

    epochs: tuple[Epoch, ...]
    main: int = 0
    reads: int = 0


def gather(answer: type) -> Evidence:
    """Run epochs whose workers are forked at one moment of a refresh after the other."""
    server = Server(shift=4)  # other labels than the lesson's
    dataset = made(answer, server.read, call=f"{answer.__name__}(read_labels)", within=_LONG)
    made(dataset.refresh, call="dataset.refresh()", within=_LONG)
    if (length := made(lambda: len(dataset), call="len(dataset)", within=_LONG)) != CLIPS:
        not_yet(f"the server has {CLIPS} clips, and `len(dataset)` is {length}.")
    for number, label in enumerate(_in_main(dataset)):
        if label != (told := server.label(number, 0)):
            not_yet(f"in main, `dataset[{number}]` has the label {label}; the server's is {told}.")
    _fork_twice()
    epochs: list[Epoch] = []
    for workers in _HALF_WAY:
        epochs.append(_epoch(dataset, server, workers))
        if epochs[-1].run.end != "finished":
            return Evidence(tuple(epochs))
    _in_main(dataset)  # before the refresh too
    server.correct()  # and the server is slow
    made(dataset.refresh, call="dataset.refresh()", within=_LONG)
    labels = enumerate(_in_main(dataset))
    old = sum(label != server.label(number, server.version) for number, label in labels)
    if not old and not any(epoch.wrong for epoch in epochs):
        places: dict[Place, None] = {}  # each once, in their order
        server.correct()
        for _ in range(2):  # Python 3.12 and 3.13 tell of steps only from the second time on
            _refresh_traced(dataset, places.setdefault)
        for place in places:
            epochs.append(_epoch(dataset, server, _AT_A_STEP, place))
            if epochs[-1].wrong or epochs[-1].run.end != "finished":
                break
    return Evidence(tuple(epochs), old, server.most_readings.value)


def _in_main(dataset: Any) -> list[int]:
    samples = made(
        lambda: [dataset[index] for index in range(CLIPS)],
        call=f"[dataset[i] for i in range({CLIPS})]",
        within=_LONG,
        question="That was in main. Who holds the lock there?",
    )
    for number, sample in enumerate(samples):
        if (_pair(sample) or [-1])[0] != number:
            not_yet(f"in main, `dataset[{number}]` is `{sample!r}`. {_FORM}")
    return [sample[1] for sample in map(_pair, samples) if sample]


def _pair(sample: Any) -> list[int] | None:
    try:
        index, label = map(operator.index, sample)
    except (TypeError, ValueError):
        return None
    return [index, label]


def _fork_twice() -> None:
    # In a thread that may wait for ever: a function given to `os.register_at_fork` can hold it up.
    def fork() -> None:
        for _ in range(2):
            if not (pid := os.fork()):
                os._exit(0)
            os.waitpid(pid, 0)

    thread = threading.Thread(target=fork, daemon=True)
    thread.start()
    thread.join(_FORK)
    if thread.is_alive():
        not_yet(
            f"main forked twice, and did not come back within {_FORK:g} s: it waits in what "
            "`os.register_at_fork` was given. Is every lock free again in main too, after a fork?"
        )


def _epoch(dataset: Any, server: Server, workers: int, place: Place | None = None) -> Epoch:
    batches: list[Any] = []

    def refresh() -> None:
        _refresh_traced(dataset, lambda at: server.fork_now() if at == place else None)

    def loop(loader: DataLoader[Any]) -> None:
        batches.extend(server.epoch(loader, refresh if place else None))

    run = run_loader(dataset, loop, workers=workers, within=_LONG, collate_fn=list)
    wrong = _wrong_labels(batches, server, workers) if run.end == "finished" else ""
    return Epoch(_line(place) if place else "", run, wrong)


def _line(place: Place) -> str:
    number = max(line for at, line in dis.findlinestarts(place[0]) if at <= place[1] and line)
    return linecache.getline(place[0].co_filename, number).strip()


def _refresh_traced(dataset: Any, at: Callable[[Place], object]) -> None:
    # Refreshes in this thread, and calls `at` after each step of the class that others can see.
    functions = (each for base in type(dataset).__mro__ for each in vars(base).values())
    codes = {
        code
        for each in functions
        if isinstance(each, FunctionType)
        for code in _with_inner(each.__code__)
    }

    def call(frame: FrameType, event: str, arg: Any) -> Any:
        if frame.f_code not in codes:
            return None
        frame.f_trace_opcodes, last = True, -1

        def step(frame: FrameType, event: str, arg: Any) -> Any:
            nonlocal last
            if event == "opcode":
                done, last = last, frame.f_lasti
                if done >= 0 and not dis.opname[frame.f_code.co_code[done]].startswith(_OWN):
                    at((frame.f_code, done))
            return step

        return step

    sys.settrace(call)
    try:
        dataset.refresh()
    finally:
        sys.settrace(None)


def _with_inner(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _with_inner(inner)


def _wrong_labels(batches: list[Any], server: Server, workers: int) -> str:
    samples = [sample for batch in batches for sample in batch]
    pairs = list(filter(None, map(_pair, samples)))
    if len(pairs) < len(samples):
        odd = next(sample for sample in samples if not _pair(sample))
        return f"a worker delivers `{odd!r}`. {_FORM}"
    numbers = [number for number, _ in pairs]
    if numbers != list(range(CLIPS)):
        return f"the clips {numbers} come, instead of 0 to {CLIPS - 1}."
    for worker in range(workers):  # samples are dealt out to the workers in turn
        labels = pairs[worker::workers]
        right = [
            sum(server.label(number, version) == label for number, label in labels)
            for version in range(server.version + 1)
        ]
        if len(labels) in right[-2:]:
            continue
        if len(labels) == right[0]:
            return (
                f"W{worker} has the labels of the start, and the refresh of the epoch before had "
                "been finished. Whose copy does the worker read?"
            )
        return (
            f"of {len(labels)} labels in W{worker}, {right[-2]} are of before the refresh and "
            f"{right[-1]} of after it. What was it that the lock guarded?"
        )
    return ""


def judge(evidence: Evidence) -> Result:
    """Correct if the labels of each worker belonged together, at whatever moment it was forked."""
    half_way = evidence.epochs[: len(_HALF_WAY)]
    for epoch in half_way:
        if epoch.run.end == "hung":
            not_yet(
                f"the run was stopped after {epoch.run.deadline:g} s. {epoch.run.stood} Which "
                "thread would let them go on, and in which process does it live?"
            )
        if epoch.run.raised_in_worker == "KeyError":
            not_yet(
                f"W{epoch.run.failed_worker} was forked when main's refresh was half-way, and "
                f"raises: {epoch.run.error} In what state was it that the lock guarded?"
            )
        ended_well(epoch.run)
    if evidence.main:
        not_yet(
            f"`refresh` has returned, and {evidence.main} of {CLIPS} labels in main are not the "
            "corrected ones. When does main get them?"
        )
    for number, epoch in enumerate(half_way):
        if epoch.wrong:
            not_yet(f"in epoch {number}, {epoch.wrong}")
    for epoch in evidence.epochs[len(_HALF_WAY) :]:
        _at_a_step(epoch)
    if evidence.reads > 1:
        not_yet(
            f"the labels are right, and in one epoch a worker began {evidence.reads} times to read "
            "the server's list. Once in each worker is the most."
        )
    return correct(
        f"{CLIPS} of {CLIPS} clips arrive in every epoch, each worker's labels belong together, "
        "and main has the corrected ones. The workers were forked in the middle of a reading, and "
        "after each step of a refresh that they could see."
    )


def _at_a_step(epoch: Epoch) -> None:
    forked = f"one moment is left: a worker forked when the refresh was in `{epoch.line}`:"
    if epoch.run.end == "hung":
        not_yet(
            f"{forked} {epoch.run.stood} Main's thread holds the lock there, if only for a moment. "
            "Does who reads one complete dict need a lock?"
        )
    if epoch.run.end != "finished" or epoch.wrong:
        not_yet(
            f"{forked} {epoch.run.error or epoch.wrong or epoch.run.fates} In that moment "
            "main's labels are not whole. What could be done beforehand, so that one assignment "
            "is enough?"
        )


GRADER: Final = Grader(
    gather=gather,
    judge=judge,
    look=partial(
        a_fixed_class,
        starter=Clips,
        methods=("__len__", "__getitem__", "refresh"),
        without_workers="Who holds the lock when the workers are forked?",
    ),
    runs="runs epochs with 2 and 4 workers, forked at one moment of a refresh after the other",
    at_most=60,
)
