"""Grade "07.transfer": labels that are right in every worker, whenever the workers are forked.

Epochs are run whose workers are forked while a thread of main reads the labels again: half-way
through the reading, and just after each step of `refresh` that others can see, a call or a store.
What a worker delivers must belong together: all labels of before, or all of after.
"""

from __future__ import annotations

import dis
import linecache
import multiprocessing
import operator
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import CodeType, FrameType
from typing import Any, Final

from torch.utils.data import DataLoader

from dltutor.lessons.engine.checking import verdict
from dltutor.lessons.engine.endings import Ending, ended_well, run_loader
from dltutor.lessons.engine.exercise import Grader
from dltutor.lessons.engine.forms import a_fixed_class, shown
from dltutor.lessons.engine.outcomes import Result, correct, not_yet
from dltutor.lessons.engine.running import made
from dltutor.lessons.lesson_07.material import CLIPS, Clips, Server
from dltutor.observation import sandbox
from dltutor.tables import Note

Place = tuple[CodeType, int, int]  # a method's code, one of its steps, and the number of its line

_LONG: Final = 4  # seconds for each thing that the answer does
_FORK: Final = 2.0  # seconds that two forks in main may take
_SLOW: Final = 0.2  # seconds that the server takes for a reading in main
_FORM: Final = "A sample is two numbers, the index and the label, as in the starter."
#: How the names of steps begin that can change what others see.
_CHANGES: Final = (
    *("CALL", "STORE_ATTR", "STORE_S", "STORE_GLOBAL", "DELETE_", "BINARY_OP", "BEFORE_WITH"),
    "FOR_ITER",
)


@dataclass(frozen=True)
class Epoch:
    """An epoch whose workers were forked at one moment of a refresh.

    Args:
        moment: Where the refresh was: "half-way", or "in " and its line.
        run: How it ended.
        odd: What is wrong with the samples that came, other than whose labels they have, or "".
        labels: Of each worker, how many labels are of before the refresh, of after it, of neither.
    """

    moment: str
    run: Ending
    odd: str = ""
    labels: tuple[tuple[int, int, int], ...] = ()

    def mixed(self) -> list[str]:
        """What labels each worker has whose labels do not belong together, in words."""
        return [
            f"W{worker} has {sum(each)} labels: {each[0]} of before the refresh, {each[1]} of "
            f"after it, {each[2]} of neither."
            for worker, each in enumerate(self.labels)
            if sum(each) not in each[:2]
        ]


def forked_half_way(answer: type) -> Note:
    """Run one epoch of a class of clips, with 2 workers that are forked half-way through a refresh.

    It runs in a process of its own, as a check does: what it registers is not left behind.
    """

    def grade(begin: Callable[[], None]) -> Result:
        begin()
        server = Server()
        dataset = made(answer, server.read, call=f"{answer.__name__}(read_labels)", within=_LONG)
        _fork_twice()
        epoch = _epoch(dataset, server, 2)
        run = epoch.run
        said = run.stood or run.error or run.fates or epoch.odd or " ".join(epoch.mixed())
        if run.end == "finished" and not said:
            said = "The labels of each worker belong together."
        return correct(f"{run.end}. {said}")

    ended = sandbox.run(lambda begin: verdict(lambda: grade(begin)).to_dict(), at_most=4 * _LONG)
    print(ended.printed, end="")
    told = Result.from_dict(ended.result)
    text = told.text if told else f"it was stopped.{ended.stood}"
    return Note("Epoch started when a refresh was half done:", text)


def gather(answer: type) -> tuple[Epoch, ...]:
    """Use the class in main, then run epochs up to the first that is not right."""
    server = Server(shift=4)  # other labels than the lesson's
    dataset = made(answer, server.read, call=f"{answer.__name__}(read_labels)", within=_LONG)
    server.half_way = partial(time.sleep, _SLOW)
    places: dict[Place, None] = {}  # each once, in their order
    for _ in range(2):  # after samples were read too; and 3.12 and 3.13 tell of steps only then
        server.version += 1
        refresh = partial(_refresh_traced, dataset, places.setdefault)
        question = "That was in main. Who holds the lock there?"
        made(refresh, call="dataset.refresh()", within=_LONG, question=question)
        _right_in_main(dataset, server, question)
    _fork_twice()
    run = run_loader(
        dataset,
        workers=2,
        within=_LONG,
        epochs=2,
        collate_fn=list,
        shuffle=True,
        persistent_workers=True,
    )
    epochs = [Epoch("done, and kept for 2 shuffled epochs", run)]
    if run.end != "finished":
        return tuple(epochs)
    for workers, place in ((2, None), (4, None), *((1, place) for place in places)):
        epochs.append(_epoch(dataset, server, workers, place))
        if epochs[-1].run.end != "finished" or epochs[-1].odd or epochs[-1].mixed():
            break
    return tuple(epochs)


def _right_in_main(dataset: Any, server: Server, question: str) -> None:
    if (length := made(lambda: len(dataset), call="len(dataset)", within=_LONG)) != CLIPS:
        not_yet(f"the server has {CLIPS} clips, and `len(dataset)` is {length}.")
    call = f"[dataset[i] for i in range({CLIPS})]"
    read = lambda: [dataset[index] for index in range(CLIPS)]  # noqa: E731
    for number, sample in enumerate(made(read, call=call, within=_LONG, question=question)):
        label = server.label(number, server.version)
        if _pair(sample) != [number, label]:
            not_yet(
                f"after a refresh, `dataset[{number}]` in main is `{shown(sample)}`, and the "
                f"server's label of clip {number} is {label}. {_FORM}"
            )


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
            child = multiprocessing.get_context("fork").Process()
            child.start()
            child.join()

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

    def refresh(stop: Callable[[], None]) -> None:
        if place:
            _refresh_traced(dataset, lambda at: stop() if at == place else None)
        else:
            server.half_way = stop
            dataset.refresh()

    def loop(loader: DataLoader[Any]) -> None:
        batches.extend(server.epoch(loader, refresh))

    moment = "half-way"
    if place:
        moment = f"in `{linecache.getline(place[0].co_filename, place[2]).strip()}`"
    run = run_loader(dataset, loop, workers=workers, within=_LONG, collate_fn=list)
    if run.end != "finished":
        return Epoch(moment, run)
    samples = [sample for batch in batches for sample in batch]
    pairs = [_pair(sample) or [-1, -1] for sample in samples]
    if [-1, -1] in pairs:
        sample = samples[pairs.index([-1, -1])]
        return Epoch(moment, run, f"a worker delivers `{shown(sample)}`. {_FORM}")
    if (numbers := [number for number, _ in pairs]) != list(range(CLIPS)):
        short = " What was `len(dataset)` at that moment?" * (len(numbers) < CLIPS)
        odd = f"the clips {numbers} come, instead of 0 to {CLIPS - 1}.{short}"
        return Epoch(moment, run, odd)
    # Samples are dealt out to the workers in turn.
    labels = tuple(_labels(pairs[worker::workers], server) for worker in range(workers))
    return Epoch(moment, run, labels=labels)


def _labels(pairs: list[list[int]], server: Server) -> tuple[int, int, int]:
    old, new = (
        sum(label == server.label(number, version) for number, label in pairs)
        for version in (server.version - 1, server.version)
    )
    return old, new, len(pairs) - old - new


def _refresh_traced(dataset: Any, at: Callable[[Place], object]) -> None:
    # Refreshes in this thread, and calls `at` after each step of the class that others can see.
    own = tuple(f"{base.__qualname__}." for base in type(dataset).__mro__)

    def call(frame: FrameType, event: str, arg: Any) -> Any:
        code, done = frame.f_code, None
        if not code.co_qualname.startswith(own):
            return None
        frame.f_trace_opcodes = True

        def step(frame: FrameType, event: str, arg: Any) -> Any:
            nonlocal done
            if event == "opcode":
                if done and dis.opname[code.co_code[done[1]]].startswith(_CHANGES):
                    at(done)
                done = code, frame.f_lasti, frame.f_lineno
            return step

        return step

    sys.settrace(call)
    try:
        dataset.refresh()
    finally:
        sys.settrace(None)


def judge(epochs: tuple[Epoch, ...]) -> Result:
    """Correct if the labels of each worker belonged together, at whatever moment it was forked."""
    for epoch in epochs:
        run = epoch.run
        when = f"with workers forked when main's refresh was {epoch.moment}"
        if run.end == "hung" and run.stood:
            not_yet(
                f"{when}, the run was stopped after {run.deadline:g} s. {run.stood} Which "
                "thread would let it go on, and in which process does that live?"
            )
        if run.raised_in_worker in ("KeyError", "IndexError"):
            not_yet(
                f"{when}, W{run.failed_worker} raises: {run.error} In what state were main's "
                "names and labels then?"
            )
        ended_well(run, when)
        if epoch.odd:
            not_yet(f"{when}, {epoch.odd}")
        for mixed in epoch.mixed():
            not_yet(
                f"{when}, {mixed} What does a worker see while main changes its labels, and "
                "what if one assignment was all that main did?"
            )
    return correct(
        f"{CLIPS} of {CLIPS} clips arrive in every epoch, each worker's labels belong together, "
        "and main has the corrected ones. Epochs were started in the middle of a reading, and "
        "after each step of a refresh that a worker could see."
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
