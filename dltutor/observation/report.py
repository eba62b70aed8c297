"""What was seen of a loader: the Observation and its parts."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from dltutor.observation import story, texts
from dltutor.observation.signs import signs
from dltutor.tables import Table

if TYPE_CHECKING:
    from dltutor.observation.confinement.results import Confinement
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


@dataclass(frozen=True, kw_only=True)
class Observation:
    """What happened when a loader was run at arm's length.

    Args:
        end: How the run ended. "hung" means that it was stopped at its deadline; "main died" is
            seen in `confine` only.
        deadline: The seconds it was given.
        batches: Batches that reached the loop.
        samples: How many samples the sampler gave for those batches. None where that is not known:
            for a stream whose batches do not show it, and for a wrapper with other batches than
            its loader's.
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
        raw: The error as a terminal shows it without `observe`, with the paths shortened.
        timeline: Memory, descriptors and shared memory over time.
        result: What the training loop returned; None if it did not get to its end.
        confinement: The limits it was under in `confine`, or None.
        failed_loader: The name of the loader of that worker, as in Worker; empty if there is one
            loader.
        expected: How many samples `len(dataset)` promises for the whole epochs. None
            where that isn't known: for an epoch that was left early, for `drop_last`, for a sampler
            that deals others.
        waited: The part of its time that a loop of yours waited for batches; None for the plain
            loop, which does nothing else.
        left: How many processes that workers had started were still running when the workers had
            left; `observe` has ended them. 0 for a run that didn't finish.
        notes: What was added to these exceptions with `add_note`. From Python 3.14 on pickle adds
            where it was: the attribute, the class, the process, innermost first.
    """

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

    @cached_property
    def signs(self) -> tuple[tuple[str, str], ...]:
        """The promises that the run shows to be broken, although it finished, and what was seen."""
        return tuple(signs(self)) if self.end == "finished" else ()

    @property
    def ok(self) -> bool:
        """Whether the run finished and nothing is amiss: no error, no worker that died."""
        return self.end == "finished" and not any(worker.exitcode for worker in self.workers)

    def to_dict(self) -> dict[str, Any]:
        """What was observed in lists, texts and numbers that JSON can hold.

        The times (`seconds`, `first_batch_seconds`, `last_batch_seconds`), `raw` and `timeline`
        differ from run to run; all else does not, as long as the run ends in the same way.

        Returns:
            The fields of Observation by name, and `ok` and `title`. `chain` is a list of `type` and
            `message`, and `notes` a list of texts, both without pids and addresses; `traceback` and
            the `stack` of a worker are lists of `file`, `line`, `function` and `code`; a worker has
            `name` (W0), `exitcode`, `signal` and `fate` besides. `timeline` is `Timeline.to_dict`.
            `result` is left out: it is of any type. `confinement` has its rows, or is None.
        """
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        del plain["result"]
        return {
            "ok": self.ok,
            "title": self.story().title,
            "signs": dict(self.signs),
            **plain,
            "chain": [
                {"type": kind, "message": texts.tidy(message)} for kind, message in self.chain
            ],
            "traceback": [asdict(frame) for frame in self.traceback],
            "workers": [
                {"name": each.name, "signal": each.signal, "fate": each.fate, **asdict(each)}
                for each in self.workers
            ],
            "notes": list(map(texts.tidy, self.notes)),
            "stderr": texts.tidy(self.stderr),
            "timeline": self.timeline.to_dict(),
            "confinement": dict(self.confinement.rows()) if self.confinement is not None else None,
        }

    def story(self) -> Table:
        """The observation in a few rows that are the same on every run: no pids, no times."""
        return story.story(self)

    def __str__(self) -> str:
        return str(self.story())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.story()._repr_html_()
