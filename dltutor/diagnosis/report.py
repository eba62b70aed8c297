"""Show the doctor's diagnosis as text, HTML, or JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from html import escape
from textwrap import fill
from typing import Any, Final

from dltutor.diagnosis.examination import Tried, Untried
from dltutor.diagnosis.finding import Finding
from dltutor.diagnosis.probes.parts import Parts
from dltutor.diagnosis.promises.verdicts import State, Verdict
from dltutor.diagnosis.words import count_of
from dltutor.failures import PROMISES
from dltutor.tables import Tone, framed, with_code

_WIDTH: Final = 96
_INDENT: Final = 12
#: What the doctor's experiments can't test. Each report in text or HTML ends with this list.
UNSEEN: Final = "what a GPU does with the batches, several machines, and the network between them"


@dataclass(frozen=True)
class Diagnosis:
    """What the doctor found out about a loader.

    Args:
        findings: What's wrong, the most serious first.
        tried: The questions that the doctor asked, with their answers.
        untried: The questions without an answer, and why.
        elsewhere: What will fail on another machine or with a different start method, as sentences.
        parts: What the loader is made of.
        promises: A verdict on each of the seven promises.
        ran: Whether the run of the unchanged loader showed anything (default True). If it didn't,
            `untried` says why.
    """

    findings: tuple[Finding, ...]
    tried: tuple[Tried, ...]
    untried: tuple[Untried, ...]
    elsewhere: tuple[str, ...]
    parts: Parts
    promises: tuple[Verdict, ...]
    ran: bool = True

    @property
    def ok(self) -> bool:
        """Whether the loader ran and the doctor found nothing."""
        return self.ran and not self.findings

    @property
    def title(self) -> str:
        """A line that names the dataset and the workers, and says what the doctor found."""
        workers = count_of(self.parts.workers, "worker")
        method = f" by {self.parts.method}" if self.parts.method else ""
        found = "nothing found"
        if self.findings:
            found = PROMISES[self.findings[0].promise].replace("`", "")
            found += f" ({count_of(len(self.findings), 'finding')})"
        elif not self.ran:
            found = "not diagnosed"
            if self.untried:
                found += f", because {self.untried[0].why}"
        elif self.untried:
            found += f", with {count_of(len(self.untried), 'question')} unanswered"
        return f"{self.parts.dataset}, {workers}{method}: {found}"

    def to_dict(self) -> dict[str, Any]:
        """Return the diagnosis as a dict that can be written as JSON.

        report.schema.json describes the keys. "version" is the version of this format, and "loader"
        is `parts`.
        """
        return {
            "version": 7,
            "ok": self.ok,
            "title": self.title,
            "findings": [each.to_dict() for each in self.findings],
            "promises": [asdict(each) for each in self.promises],
            "tried": [asdict(each) for each in self.tried],
            "untried": [asdict(each) for each in self.untried],
            "elsewhere": list(self.elsewhere),
            "loader": asdict(self.parts),
        }

    def __str__(self) -> str:
        lines = [self.title]
        for number, each in enumerate(self.findings, start=1):
            lines += ["", f"{number}. {each.title}"]
            lines += [_row(label, text) for label, text in each.rows()]
        lines += ["", _PROMISES, *map(_verdict, self.promises)]
        for label, texts in self._rest():
            lines += ["", label, *(_item(text) for text in texts)]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        tone: Tone = "good" if self.ok else "bad"
        parts = [f'<div style="font-weight:600">{escape(self.title)}</div>']
        for number, each in enumerate(self.findings, start=1):
            rows = [(escape(label), with_code(text)) for label, text in each.rows()]
            parts.append(
                f'<div style="padding:8px 0 2px"><b>{number}. {with_code(each.title)}</b></div>'
                + _html_table(rows, (f"{_FAINT};white-space:nowrap", ""))
            )
        verdicts = [
            (_STATES[each.state], each.promise, each.state, with_code(each.said))
            for each in self.promises
        ]
        parts.append(
            f'<details open style="padding-top:6px"><summary>{_PROMISES}</summary>'
            f"{_html_table(verdicts, ('', '', _FAINT, ''))}</details>"
        )
        for label, texts in self._rest():
            items = "".join(f"<li>{with_code(text)}</li>" for text in texts)
            parts.append(
                f'<details{" open" if label != _ASKED else ""} style="padding-top:6px">'
                f"<summary>{escape(label)}</summary>"
                f'<ul style="margin:2px 0 0">{items}</ul></details>'
            )
        return framed("".join(parts), tone, wrap=False)

    def _next(self) -> tuple[str, ...]:
        # Say what to do if the doctor found nothing, but the loader still misbehaves.
        if self.findings or not self.ran:
            return ()
        steps = []
        if not self.parts.loop:
            steps.append(
                "Give the doctor your training loop too (`consume=train`, on the command line "
                "`--consume train`), because some failures only happen there."
            )
        if self.untried:
            steps.append(
                "Give the doctor more time, so that it can answer all questions: `deadline=120`."
            )
        steps.append(
            "Watch a longer run. `dltutor.observe(loader, live=True, deadline=600)` shows what "
            "grows slowly or happens rarely."
        )
        return tuple(steps)

    def _rest(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        rest = (
            ("If something is still wrong", self._next()),
            ("Will fail elsewhere", self.elsewhere),
            (_ASKED, (*(f"{each.question} {each.answer}" for each in self.tried),)),
            (
                "Not tried",
                (*(f"{each.question} No answer, because {each.why}." for each in self.untried),),
            ),
        )
        named = tuple((label, texts) for label, texts in rest if texts)
        return (*named, ("Can't be tested here", (UNSEEN,)))


_ASKED: Final = "Tried"
_PROMISES: Final = "Promises of a healthy loader"
_STATES: Final[dict[State, str]] = {"kept": "✓", "broken": "✗", "not tested": "?"}


_FAINT: Final = ";opacity:0.75"


def _html_table(rows: Iterable[Sequence[str]], styles: Sequence[str]) -> str:
    # Return an HTML table. The cells are HTML already, and `styles` has the CSS of each column.
    cell = "text-align:left;vertical-align:top;padding:2px 14px 2px 0"
    body = ""
    for row in rows:
        pairs = zip(row, styles, strict=True)
        cells = "".join(f'<td style="{cell}{style}">{inner}</td>' for inner, style in pairs)
        body += f'<tr style="background:transparent">{cells}</tr>'
    style = "margin:0;border-collapse:collapse;background:transparent"
    return f'<table style="{style}"><tbody>{body}</tbody></table>'


def _verdict(each: Verdict) -> str:
    said = each.said if each.state != "not tested" else f"not tested: {each.said}"
    return _row(f"{_STATES[each.state]} {each.promise:{_INDENT}}", said)


def _row(label: str, text: str) -> str:
    head = f"   {label:{_INDENT}}"
    return fill(head + text, _WIDTH, subsequent_indent=" " * len(head))


def _item(text: str) -> str:
    return fill(f"   {text}", _WIDTH, subsequent_indent="     ")


_PAGE: Final = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; }}
code {{ font-family: ui-monospace, monospace; font-size: 0.92em; }}
</style>
{body}
</html>
"""


def page(diagnosis: Diagnosis) -> str:
    """Return the diagnosis as a complete HTML page."""
    return _PAGE.format(title=escape(diagnosis.title), body=diagnosis._repr_html_())
