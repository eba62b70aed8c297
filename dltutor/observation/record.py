"""Define the record of an observed run, which `story` describes and `signs` judges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from dltutor.observation import texts

if TYPE_CHECKING:
    from dltutor.observation.confinement.enforced import Confinement
    from dltutor.observation.memory.timeline import Timeline

End = Literal["finished", "raised", "worker died", "main died", "hung"]


@dataclass(frozen=True)
class Frame:
    """One line in a traceback or a stack.

    Args:
        file: The file, with a shortened path, or "your cell" for code in a notebook.
        line: The line number.
        function: The function's name.
        code: The source line, or "" if it couldn't be read.
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
    """One worker process at the end of the run.

    Args:
        number: The worker's id in torch, such as 0 for W0.
        exitcode: The worker's exit code, negative for a signal, or None if it was still running.
        stack: The learner's lines in the worker's stack, innermost call first, or the line in
            torch's worker loop if there are none. It's None if we didn't ask or got no answer.
        loader: If a wrapper has several loaders, the loader's key in a dict, or a name such as
            "loader 2". Otherwise "".
    """

    number: int
    exitcode: int | None
    stack: tuple[Frame, ...] | None = None
    loader: str = ""

    @property
    def name(self) -> str:
        """The worker's name, such as "W0", or "W0 of images" if there are several loaders."""
        return f"W{self.number} of {self.loader}" if self.loader else f"W{self.number}"

    @property
    def signal(self) -> str | None:
        """The name of the signal that killed the worker, such as SIGKILL, or None if none did."""
        return texts.signal_name(self.exitcode)

    @property
    def fate(self) -> str:
        """How the worker ended, such as "ended with exit code 1", or "still running"."""
        return texts.fate(self.exitcode)

    def __str__(self) -> str:
        return f"{self.name} {self.fate}"


@dataclass(frozen=True, kw_only=True, repr=False)
class Record:
    """The fields of an `Observation`, whose docstring describes them."""

    end: End
    deadline: float
    batches: int = 0
    samples: int | None = 0
    seconds: float
    first_batch_seconds: float | None = None
    last_batch_seconds: float | None = None
    chain: tuple[tuple[str, str], ...] = ()
    traceback: tuple[Frame, ...] = ()
    raised_in_worker: str | None = None
    failed_worker: int | None = None
    workers: tuple[Worker, ...] = ()
    stderr: str = ""
    raw: str = ""
    timeline: Timeline
    result: object = None
    confinement: Confinement | None = None
    failed_loader: str = ""
    notes: tuple[str, ...] = ()
    expected: int | None = None
    waited: float | None = None
    left: int = 0
    others: int = 0
