"""Without workers, which sample or batch fails, and why?

Draw samples and make batches in main the way a worker does, in the sampler's order, until one
fails. Then find out why, for example by making batches of other samples. If main waited in vain for
a batch when the doctor ran the loader, also pickle each batch. If main raised an exception that
wasn't a worker's, also unpickle each batch.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

from torch.utils.data import Dataset

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.experiment import probe
from dltutor.diagnosis.probes.culprit import uncollatable, unreadable, unsendable
from dltutor.diagnosis.probes.travel.packing import smallest
from dltutor.diagnosis.running.subject import Mark, Subject, described

_SEARCH: Final = 5.0  # the most seconds to search
_BATCHES: Final = 2000
_OTHERS: Final = 6  # the most samples to draw and compare with the one that failed


@dataclass(frozen=True)
class Culprit:
    """The first failure when main draws the samples and makes the batches, and what explains it.

    Args:
        stage: What failed, which is "sample", "collate" (making the batch), "transport" (pickling
            the batch), "arrival" (unpickling it), "sampler", "died" or "hung" (the process), or ""
            if nothing failed.
        which: The sample or batch that failed, such as "dataset[9]" or "batch 2".
        kind: The type of the exception.
        text: The first line of the exception's message.
        at: The innermost line of your code in the traceback.
        arrives: The type that main gets if a worker raises the exception, or "" if it gets none.
        unsent: Why the exception's class or the batch can't be pickled, or "" if it can.
        part: The path of the part that can't be pickled, and its class.
        code: The exit code of the process, if it died.
        decoder: The library that couldn't decode an image, a string such as "cv2.imread returned
            None" for cv2, or "" for any other failure.
        image: The image that can't be read, and why, or "" if no such image was found.
        mode: The modes of this sample's image and of the others, such as "L, the others RGB", if
            converting the image helps, or "".
        readable: How many other samples have an image that could be read, up to six.
        blame: Why the batch couldn't be made, which is "none" (samples are None or hold one),
            "ragged" (samples differ in shape), or "" for another reason.
        told: Which samples keep main from making the batch, and what's wrong with them, or "".
        made: How many batches were made before the failure.
        empty: How many batches before the failure were None.
        skipped: Whether the loop finishes if it doesn't get the batches that are None. False if no
            batch is None, or if anything failed, because then the doctor doesn't run the loop.
    """

    stage: str
    which: str = ""
    kind: str = ""
    text: str = ""
    at: str = ""
    arrives: str = ""
    unsent: str = ""
    part: str = ""
    code: int | None = None
    decoder: str = ""
    image: str = ""
    mode: str = ""
    readable: int = 0
    blame: str = ""
    told: str = ""
    made: int = 0
    empty: int = 0
    skipped: bool = False

    @property
    def said(self) -> str:
        """The exception's type and message, in the form that ends a traceback."""
        return f"{self.kind}: {self.text}" if self.text else self.kind

    def __str__(self) -> str:
        if not self.stage:
            return "None of them fails."
        if self.stage in ("died", "hung"):
            how = "ended the process" if self.stage == "died" else "didn't finish"
            return f"Making {self.which or 'the first batch'} {how}."
        return f"`{self.which}`: {self.said}."


def needed(evidence: Evidence) -> bool:
    """Return whether a run failed or an epoch was too short.

    If main also died or hung when it drew the samples itself, return False.
    """
    if evidence.samples and evidence.samples.ended in ("died", "hung", "sampler"):
        return False
    run, batches = evidence.run, evidence.parts.batches
    early = any(
        done and batches is not None and len(seen) < batches
        for done, seen in zip(run.finished, run.passes, strict=False)
    )
    # Even if a stream promises no number of batches, its epochs should all be equally long.
    runs = (run, evidence.alone) if evidence.alone is not None else (run,)
    counts = {count for each in runs for count in each.lengths}
    return not run.well or early or (evidence.parts.stream and len(counts) > 1)


def ask(subject: Subject) -> Culprit:
    """Draw samples and make batches until something fails, and find out why it fails."""
    search = _Search(subject)
    try:
        for number, batch in enumerate(_batches(subject)):
            found = search.look(number, batch)
            if found is not None:
                return found
            if time.monotonic() > search.until:
                break
    except Exception as error:  # from the sampler, because `look` catches the others
        kind, text, at = described(error)
        return Culprit("sampler", "the sampler", kind=kind, text=text, at=at)
    said = subject.known.run.said if subject.known and subject.known.run.raised else ""
    return Culprit(
        "",
        decoder=unreadable.decoder_in(said),
        made=search.made,
        empty=search.empty,
        skipped=bool(search.empty) and uncollatable.loop_without_nones(subject),
    )


def cut_short(stopped: str, code: int | None, mark: Mark) -> Culprit:
    """Record which sample or batch main was making when the process died or ran out of time."""
    at = mark.get()
    which = f"sample {at}" if at >= 0 else f"batch {-at - 2}" if at < -1 else ""
    return Culprit("hung" if stopped else "died", which, code=None if stopped else code)


class _Search:
    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.until = time.monotonic() + min(_SEARCH, subject.seconds - 2)
        self.collate: Any = subject.inner.collate_fn
        self.single = subject.inner.batch_size is None and subject.inner.batch_sampler is None
        run = subject.known.run if subject.known is not None else None
        self.waited = run is not None and run.waited
        # The type of an exception that no worker raised. Main may have raised it while unpickling a
        # batch.
        self.mains = run.kind if run is not None and run.raised is None else ""
        self.opened = unreadable.Opened()
        self.modes: list[str] = []
        self.readable = 0
        self.whole: Any = None  # a sample that holds no None
        self.made = self.empty = 0
        self.source: Iterator[Any] | None = None

    def look(self, number: int, indices: list[Any]) -> Culprit | None:
        """Draw and collate one batch.

        If the run suggests that a batch couldn't be pickled or unpickled, try that, too.

        Args:
            number: The batch's position in the epoch.
            indices: The batch's indices.

        Returns:
            A Culprit for the first step that fails, or None if every step works or the stream has
            ended.
        """
        samples = []
        for index in indices:
            sample, failed = self.draw(index)
            if failed is not None:
                return failed
            if sample is _END:
                break
            samples.append(sample)
        if not samples:
            self.until = 0.0  # the stream has ended, so end the search
            return None
        self.subject.mark.set(-number - 2)
        try:
            with self.opened.listed() as paths:
                batch = self.collate(samples[0] if self.single else samples)
        except BaseException as error:  # even SystemExit, because it would end a worker
            found = self._failed("collate", f"batch {number}", error, paths)
            with suppress(BaseException):
                if not self.single:
                    blamed = uncollatable.blame(self.collate, samples, indices, self.whole)
                    return replace(found, blame=blamed[0], told=blamed[1])
            return found
        self.made += 1
        self.empty += batch is None
        self.whole = next((each for each in samples if not uncollatable.nones(each)), self.whole)
        if self.mains:
            kind, text, at = unsendable.unread(batch)
            if kind == self.mains:
                return Culprit("arrival", f"batch {number}", kind, text, at)
        refused = smallest("batch", batch, unsendable.why_not) if self.waited else []
        if not refused:
            return None
        part, cls, why = refused[0]
        kind, _, text = why.partition(": ")
        return Culprit(
            "transport", f"batch {number}", kind, text, unsent=why, part=f"{part}: {cls}"
        )

    def draw(self, index: Any) -> tuple[Any, Culprit | None]:
        """Return a sample (or _END at a stream's end) and None, or None and the Culprit."""
        self.subject.mark.set(index if isinstance(index, int) and index >= 0 else 0)
        try:
            with self.opened.listed() as paths:
                sample = self._next() if self.subject.stream else self._item(index)
        except BaseException as error:  # even SystemExit, because it would end a worker
            return None, self.failed_sample(index, error, paths)
        self._remember(paths)
        return sample, None

    def failed_sample(self, index: Any, error: BaseException, paths: list[str]) -> Culprit:
        empty = ", ".join(self.opened.empty)
        which = f"sample {index} of the stream" if self.subject.stream else f"dataset[{index!r}]"
        if not self.subject.stream and not self.modes:
            self._others(index)
        mode = unreadable.mode_of(paths)
        usual = self.modes[0] if len(self.modes) > 1 and len({*self.modes}) == 1 else mode
        strange = mode != usual and self._drawn_as(usual, index)
        found = self._failed("sample", which, error, paths)
        return replace(
            found,
            decoder=found.decoder or empty,
            mode=f"{mode}, the others {usual}" if strange else "",
        )

    def _failed(self, stage: str, which: str, error: BaseException, paths: list[str]) -> Culprit:
        return Culprit(
            stage,
            which,
            *described(error),
            arrives=unsendable.arrives(error),
            unsent=unsendable.why_not(type(error)),
            decoder=unreadable.decoder_of(error),
            image=unreadable.image_in(error, paths),
            readable=self.readable,
            made=self.made,
            empty=self.empty,
        )

    def _item(self, index: Any) -> Any:
        dataset: Any = self.subject.dataset
        if hasattr(dataset, "__getitems__") and type(dataset).__getitem__ is Dataset.__getitem__:
            return dataset.__getitems__([index])[0]
        return dataset[index]

    def _next(self) -> Any:
        if self.source is None:
            self.source = iter(self.subject.dataset)
        return next(self.source, _END)

    def _remember(self, paths: list[str]) -> None:
        if len(self.modes) < _OTHERS and unreadable.readable(paths):
            self.readable += 1
            self.modes.append(unreadable.mode_of(paths))

    def _drawn_as(self, mode: str, index: Any) -> bool:
        # Return whether the sample can be drawn if Pillow converts its image to this mode.
        if self.subject.stream:
            return False
        with suppress(BaseException), unreadable.opened_as(mode):
            self._item(index)
            return True
        return False

    def _others(self, index: Any) -> None:
        for each in [other for other in self.subject.indices() if other != index][:_OTHERS]:
            with suppress(BaseException):
                with self.opened.listed() as paths:
                    self._item(each)
                self._remember(paths)


_END: Final = object()  # marks the end of a stream


def _batches(subject: Subject) -> Iterator[list[Any]]:
    # Yield the indices of each batch, or the positions of its samples in a stream.
    inner: Any = subject.inner
    if subject.stream:
        size = inner.batch_size or 1
        for start in range(0, _BATCHES * size, size):
            yield [*range(start, start + size)]
    elif inner.batch_sampler is not None:
        yield from map(list, islice(inner.batch_sampler, _BATCHES))
    else:
        yield from ([each] for each in islice(inner.sampler, _BATCHES))


EXPERIMENT: Final = probe("culprit", 9.0, needed, ask, cut_short)
