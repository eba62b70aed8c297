"""What "09.fix" and "09.transfer" tell of a rewritten dataset: the first thing that is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NoReturn

from dltutor.lessons.kit.endings import ended_well
from dltutor.lessons.kit.outcomes import Result, correct, could_not_check, not_yet
from dltutor.lessons.lesson_09.growth import Run, Task
from dltutor.lessons.lesson_09.keeping import Kept

WORKERS: Final = (0, 2, 4)

_LEAST: Final = 4.0  # MB that the broken dataset must grow by, for a comparison to mean something
_NOISE: Final = 2.5  # MB
_PART: Final = 0.15  # of the broken dataset's growth
_WASTE: Final = 6  # times the bytes that the data takes packed


@dataclass(frozen=True)
class Memory:
    """What an answer keeps, and what its workers grew by beside others.

    Args:
        kept: The attributes that hold Python objects.
        read: The one of them that samples are made from, or None.
        cached: The name of a method that keeps what it returned, or nothing.
        frozen: Whether it called `gc.freeze()`.
        stopped: Whether it switched the collector off.
        waste: The bytes of its arrays, as a multiple of what the data takes without gaps.
        ideal: The run of a dataset that keeps bytes only.
        broken: The run of the broken dataset.
    """

    kept: tuple[Kept, ...]
    read: Kept | None
    cached: str
    frozen: bool
    stopped: bool
    waste: float
    ideal: Run
    broken: Run


@dataclass(frozen=True)
class Rewritten:
    """What was seen of an answer.

    Args:
        promised: What `len()` says.
        samples: How many there are.
        runs: With 0, 2 and 4 workers, up to the first that is not right.
        memory: None where a run was not right.
        file_as_before: Whether the file that it was made from is what it was.
    """

    promised: int
    samples: int
    runs: tuple[Run, ...] = ()
    memory: Memory | None = None
    file_as_before: bool = True


def judge(task: Task, seen: Rewritten) -> Result:
    """Correct if all samples are as before, and no worker grows like the broken one's."""
    noun = task.noun
    if seen.promised != seen.samples:
        not_yet(f"`len()` is {seen.promised}, and the file holds {seen.samples} {noun}s.")
    for workers, run in zip(WORKERS, seen.runs, strict=False):
        _judge_run(task, workers, run)
    if not seen.file_as_before:
        not_yet("the file that your class was given is not what it was. Who else reads it?")
    assert seen.memory, "a run that is not right was not told"
    return _judge_memory(noun, seen.runs[WORKERS.index(2)], seen.memory)


def _judge_run(task: Task, workers: int, run: Run) -> None:
    compared = run.compared
    hung = (
        "A collection goes through every object there is, and writes into each. How often is "
        "that, and what for?"
        if "collect" in run.end.stood
        else "What takes so long for each sample?"
    )
    ended_well(run.end, f"with {workers} workers" if workers else "without workers", hung=hung)
    if compared.other_kind:
        not_yet(f"a sample is {compared.other_kind}. It has to be {task.kind}, as before.")
    if not compared.different:
        return
    is_now, should_be = compared.example
    fact = f"{compared.different} of {compared.number}"
    if workers:
        not_yet(
            f"without workers the {task.noun}s are right; with {workers}, {fact} are not, "
            f"{task.noun} {compared.index} among them. What do the workers share?"
        )
    not_yet(
        f"{fact} {task.noun}s are not as before. Sample {compared.index} is {is_now}, and should "
        f"be {should_be}."
    )


def _judge_memory(noun: str, run: Run, memory: Memory) -> Result:
    grown, broken = (each.more_than(memory.ideal) for each in (run, memory.broken))
    if not broken > _LEAST:
        could_not_check(
            f"the broken dataset grew by {broken:.0f} MB in each worker on this machine, too "
            "little to compare yours with."
        )
    if grown > max(_NOISE, _PART * broken):
        fact = (
            f"each worker grew by {grown:.0f} MB while it read; by {broken:.0f} MB with the broken "
            "class."
        )
        _say_why(fact, memory, early=run.first - memory.ideal.first > broken / 2)
    if memory.read:
        not_yet(
            f"little is left to fix. `{memory.read.name}` is {memory.read.what}, and the samples "
            "are made from it. What does a worker write when it reads one? Here each worker grew "
            f"by {grown:.0f} MB; with more of them it is more."
        )
    rest = ""
    if memory.kept:
        kept = memory.kept[0]
        rest = f" Main still pays for the objects, though: `{kept.name}` is {kept.what}."
    elif memory.waste > _WASTE:
        rest = (
            f" Your arrays take {memory.waste:.0f} times the bytes that the same data takes "
            f"without gaps, though: they are padded to the longest {noun}."
        )
    number = run.compared.number
    return correct(
        f"{number} of {number} samples are as before, with 0, 2 and 4 workers, which read in "
        f"random order. Each of two grew by {grown:.0f} MB; with the broken class by "
        f"{broken:.0f} MB.{rest}"
    )


def _say_why(fact: str, memory: Memory, *, early: bool) -> NoReturn:
    """Tell of workers that grow, and of the usual wrong fix where it is one."""
    if memory.frozen:
        not_yet(
            f"`gc.freeze()` is on, and {fact} It keeps the collector away from your objects. Who "
            "else writes into them?"
        )
    if memory.stopped:
        not_yet(
            f"the collector is switched off, and {fact} So it was not the collector that wrote. "
            "Who else does?"
        )
    if memory.cached:
        not_yet(
            f"{fact} `{memory.cached}` keeps what it returned, in each worker anew: that adds to "
            "the memory and takes nothing away from it."
        )
    kept = str(memory.kept[0]) if memory.kept else ""
    if early:
        how = "makes a copy of what main has" if kept else "loads all of it for itself"
        not_yet(
            f"{fact} Most of that was there at its first batch: each worker {how}. Then nothing is "
            "left to share. Can all of them read one?"
        )
    not_yet(f"{fact} {kept or 'Which Python objects does a worker still touch for each sample?'}")
