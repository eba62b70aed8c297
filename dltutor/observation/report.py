"""What was seen of a loader: the Observation and its parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from dltutor.observation import texts, wording
from dltutor.tables import Table

if TYPE_CHECKING:
    from dltutor.observation.confinement.limits import Confinement
    from dltutor.observation.memory.timeline import Timeline

End = Literal["finished", "raised", "worker died", "main died", "hung"]


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
        loader: The name of its loader among several in one wrapper: its key in a dict, or "loader
            2"; else empty.
    """

    number: int
    exitcode: int | None
    stack: tuple[Frame, ...] | None = None
    loader: str = ""

    @property
    def name(self) -> str:
        """W0, W1, ...; of several loaders, W0 of images."""
        return f"W{self.number} of {self.loader}" if self.loader else f"W{self.number}"

    @property
    def signal(self) -> str | None:
        """The name of the signal that ended it, such as SIGKILL, or None."""
        return texts.signal_name(self.exitcode)

    @property
    def fate(self) -> str:
        """What became of it, in words."""
        return texts.fate(self.exitcode)

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
        failed_loader: The name of the loader of that worker, as in Worker; empty if there is one
            loader.
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
    failed_loader: str = ""

    def story(self) -> Table:
        """The observation in a few rows that are the same on every run: no pids, no times."""
        return wording.story(self)

    def __str__(self) -> str:
        return str(self.story())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.story()._repr_html_()
