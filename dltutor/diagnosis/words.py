"""Put durations, counts, and a common cause into words for the doctor's reports."""

from __future__ import annotations

from dltutor.tables import count_of as count_of


def duration(seconds: float) -> str:
    """Write seconds the way people do: "36 ms", "4.1 s", "63 h"."""
    units = (("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3), ("µs", 1e-6))
    unit, size = next((each for each in units if seconds >= each[1]), units[-1])
    count = seconds / size
    if unit == "s":
        return f"{count:.1f} s"
    return f"{count:.0f} {unit}" if count >= 10 else f"{count:.2g} {unit}"


def part_of(some: int, looked: int, noun: str, ill: str, well: str) -> str:
    """Say how many samples, batches, or tensors have a problem, or that none could be compared.

    Args:
        some: How many of them have a problem.
        looked: How many of them the doctor looked at.
        noun: The singular noun for what was counted, such as "batch".
        ill: The verb phrase for those with a problem.
        well: The verb phrase for all of them if none have a problem.
    """
    plural = noun + ("es" if noun.endswith("ch") else "s")
    if not looked:
        return f"Can't tell, because no {noun} could be compared."
    return f"{some} of {looked} {plural} {ill}." if some else f"All {looked} {plural} {well}."


def by_interpreter(what: str) -> tuple[str, str]:
    """Return the cause and the fix for something that differs only between new interpreters.

    Args:
        what: The subject of the cause's sentence, such as "A sample".
    """
    return (
        f"{what} depends on something that differs between new interpreters, such as `hash()` of a "
        "string, `id()`, or a set's order.",
        "Use what all processes agree on: a position, or `zlib.crc32` of a name.",
    )
