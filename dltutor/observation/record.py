"""What was seen of a loader: the Observation, and its story in words."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from dltutor.tables import Table, Tone

if TYPE_CHECKING:
    from dltutor.observation.confinement.evidence import Confinement
    from dltutor.observation.memory.timeline import Timeline

End = Literal["finished", "raised", "worker died", "main died", "hung"]

_TONES: dict[End, Tone] = {
    "finished": "good",
    "raised": "bad",
    "worker died": "bad",
    "main died": "bad",
    "hung": "warn",
}


@dataclass(frozen=True)
class Frame:
    """One line of a traceback or of a stack.

    Args:
        file: The file, shortened to what is the same on every machine; "your cell" for code
            typed into a notebook.
        line: The line number.
        function: The function.
        code: The source line, where it could be read.
    """

    file: str
    line: int
    function: str
    code: str = ""

    def __str__(self) -> str:
        place = f"{self.file}, line {self.line}, in {self.function}"
        return f"{place}: {self.code}" if self.code else place


@dataclass(frozen=True)
class Worker:
    """One worker process as it stood when the run ended.

    Args:
        number: 0 for W0, and so on; the worker's id in torch.
        exitcode: Its exit code; negative for a signal; None if it was still running.
        stack: Where it stood, innermost call first, if it was asked; None if it was not, or
            could not answer.
    """

    number: int
    exitcode: int | None
    stack: tuple[Frame, ...] | None = None

    @property
    def name(self) -> str:
        """W0, W1, ..."""
        return f"W{self.number}"

    @property
    def signal(self) -> str | None:
        """The name of the signal that ended it, such as SIGKILL, or None."""
        return signal_name(self.exitcode)

    @property
    def fate(self) -> str:
        """What became of it, in words."""
        return fate(self.exitcode)

    def __str__(self) -> str:
        return f"{self.name} {self.fate}"


@dataclass(frozen=True)
class Observation:
    """What happened when a loader was run at arm's length.

    Args:
        end: How the run ended. "hung" means that it was stopped at its deadline; "main died" is
            seen in `confine` only.
        deadline: The seconds it was given.
        batches: Batches that reached the loop.
        samples: Samples in those batches.
        seconds: How long the run took, without the clean-up.
        first_batch_seconds: Seconds to the first batch, or None without a batch.
        last_batch_seconds: Seconds to the last batch, or None without a batch.
        chain: Type and message of each exception that arrived, outermost first, then its
            causes.
        traceback: Your own lines in the traceback, outermost first; torch's lines left out.
        raised_in_worker: The type that the worker raised, or None.
        failed_worker: The number of the worker that raised, or None.
        workers: The workers of the last epoch.
        stderr: What the workers wrote to file descriptor 2. Of a script in `confine`, and of a
            main process that died there: all that it wrote, standard output too.
        raw: The error as a terminal shows it, with the paths shortened.
        timeline: Memory, descriptors and shared memory over time.
        result: What the training loop returned; None if it did not get to its end.
        confinement: The limits it was under in `confine`, or None.
    """

    end: End
    deadline: float
    batches: int
    samples: int
    seconds: float
    first_batch_seconds: float | None
    last_batch_seconds: float | None
    chain: tuple[tuple[str, str], ...]
    traceback: tuple[Frame, ...]
    raised_in_worker: str | None
    failed_worker: int | None
    workers: tuple[Worker, ...]
    stderr: str
    raw: str
    timeline: Timeline
    result: object = None
    confinement: Confinement | None = None

    def story(self) -> Table:
        """The observation in a few rows that are the same on every run: no pids, no times."""
        rows = []
        from_outside = self.confinement is not None and self.confinement.from_outside
        if self.end != "worker died" and not from_outside:
            # A death is noticed wherever main happens to be: what came before is chance, and so
            # is the wording. `chain` and `raw` have it.
            rows.append(("got", self._count()))
        if self.chain and self.end != "worker died":
            rows.append(("error", "\n".join(self._error_lines())))
        if self.raised_in_worker and self.raised_in_worker != self.chain[0][0]:
            arrived = self.chain[0][0]
            rows.append(("type", f"{self.raised_in_worker} in the worker, {arrived} in main"))
        if self.traceback and self.end != "worker died":
            rows.append(("where", "\n".join(map(str, self.traceback[-3:]))))
        if self.workers:
            rows.append(("workers", "\n".join(map(str, self.workers))))
        rows += [(f"{w.name} stood at", _stack_text(w.stack)) for w in self.workers if w.stack]
        if self.stderr.strip():
            rows.append(("output" if from_outside else "stderr", _tail(tidy(self.stderr.strip()))))
        if self.confinement is not None:
            rows += self.confinement.rows()
        return Table(self._title(), tuple(rows), tone=_TONES[self.end])

    def __str__(self) -> str:
        return str(self.story())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.story()._repr_html_()

    @property
    def _exitcode(self) -> int | None:
        return self.confinement.exitcode if self.confinement is not None else None

    def _title(self) -> str:
        if self.end == "main died":
            return f"Main died: {fate(self._exitcode)}"
        if self.end == "raised" and not self.chain:
            return fate(self._exitcode).capitalize()
        if self.end == "raised":
            place = f" in W{self.failed_worker}" if self.failed_worker is not None else " in main"
            kind = self.raised_in_worker or self.chain[0][0]
            return f"Raised: {kind}{place}"
        if self.end == "worker died":
            died = [w for w in self.workers if w.exitcode is not None]
            return f"Worker died: {', '.join(map(str, died)) or 'which one is not known'}"
        if self.end == "hung":
            return f"Hung: stopped at its deadline of {self.deadline:g} s"
        return "Finished"

    def _count(self) -> str:
        text = f"{_number(self.batches, 'batch', 'es')}, {_number(self.samples, 'sample', 's')}"
        return text if self.end == "finished" else f"{text} before that"

    def _error_lines(self) -> list[str]:
        return [tidy(said(kind, message)) for kind, message in self.chain]


def signal_name(exitcode: int | None) -> str | None:
    """The name of the signal that an exit code tells of, such as SIGKILL, or None."""
    if exitcode is None or exitcode >= 0:
        return None
    try:
        return signal.Signals(-exitcode).name
    except ValueError:  # real-time signals have no name in Python
        return f"signal {-exitcode}"


def fate(exitcode: int | None) -> str:
    """What became of a process, in words.

    Args:
        exitcode: Its exit code, or None while it runs.
    """
    if exitcode is None:
        return "still running"
    if name := signal_name(exitcode):
        return f"killed by {name} (exit code {exitcode})"
    return f"ended with exit code {exitcode}"


def said(kind: str, message: str) -> str:
    """An exception as the end of a traceback has it: its type and text, the worker's own if it
    was raised there.
    """
    _, wrapped, original = message.partition("\nOriginal Traceback")
    if not wrapped:
        return f"{kind}: {message}" if message else kind
    # The text follows the indented lines of the last traceback, and may be indented itself.
    lines = original.rpartition("(most recent call last):\n")[2].rstrip().splitlines()
    start = next((i for i, line in enumerate(lines) if not line.startswith(" ")), -1)
    return "\n".join(lines[start:]).strip()


def tidy(text: str) -> str:
    """Text without what differs from run to run: pids, addresses, the way to a file."""
    text = re.sub(r"\s*\(pid(\(s\))?[ \d,]+\)", "", text)
    text = re.sub(r"\b(pid(?:\(s\))?) [\d, ]*\d", r"\1 ...", text)
    text = re.sub(r"/torch_\d+_\d+_\d+", "/torch_...", text)
    text = re.sub(r" (?:at )?0x[0-9a-f]{6,}", "", text)
    return shorten_paths(text)


def shorten_paths(text: str) -> str:
    """Text with each absolute path cut to what does not depend on the machine."""
    # From the start of a word only: a text of a megabyte without a blank takes no longer for it.
    text = re.sub(r"(?<![^\s\"'(])[^\s\"'(]*/ipykernel_\d+/\d+\.py", "your cell", text)
    text = re.sub(r"/[^\s\"'(]*/(?:site|dist)-packages/", "", text)
    text = re.sub(r"/[^\s\"'(]*/lib/python3\.\d+/", "", text)
    return re.sub(r"(?<![\w.:/])/(?:[^\s\"'/()]+/)+([^\s\"'/()]+/[^\s\"'/()]+)", r".../\1", text)


def _number(count: int, noun: str, plural: str) -> str:
    return f"{count} {noun if count == 1 else noun + plural}"


def _stack_text(stack: tuple[Frame, ...]) -> str:
    return "\n".join(map(str, stack))


def _tail(text: str, lines: int = 12) -> str:
    kept = text.splitlines()
    if len(kept) <= lines:
        return text
    return "\n".join([f"({len(kept) - lines} lines before)", *kept[-lines:]])
