"""Check that tables and notes say the same as text and as HTML, and are readable in any theme."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from dltutor.tables import Note, Table, Tone

LIST = Table("This machine", (("cores", "2"), ("start method", "fork")))
GRID = Table("Workers", (("W0", "1\n2"), ("W10", "3")), header=("name", "batches"), tone="bad")


class Cells(HTMLParser):
    """A parser that collects the text of each cell of an HTML table, row by row."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.inside = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.inside = True
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        self.inside = self.inside and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.rows[-1][-1] += data


@pytest.mark.parametrize(
    ("table", "text"),
    [
        (LIST, "This machine\n  cores         2\n  start method  fork"),
        (GRID, "Workers\n  name  batches\n  W0    1\n        2\n  W10   3"),
        (Table("T", (("a",), ("b", "c"))), "T\n  a\n  b  c"),
        (Table("Finished", ()), "Finished"),
    ],
)
def test_the_text_has_columns_and_is_the_repr(table: Table, text: str) -> None:
    assert str(table) == repr(table) == text
    assert table.title in table._repr_html_()


def test_no_line_of_text_ends_in_blanks() -> None:
    ragged = Table("T", (("a", ""), ("longer", "x\n\ny"), ("alone",)))
    assert not [line for line in str(ragged).splitlines() if line != line.rstrip()]


@pytest.mark.parametrize("table", [LIST, GRID], ids=["list", "grid"])
def test_html_holds_the_same_cells_as_the_text(table: Table) -> None:
    expected = [list(row) for row in (table.header, *table.rows) if row]
    assert Cells(table._repr_html_()).rows == expected


def test_what_looks_like_html_is_shown_as_it_is() -> None:
    html = Table("<b>", (("<script>", "a & b"),), header=("<i>", "x"))._repr_html_()
    assert Cells(html).rows == [["<i>", "x"], ["<script>", "a & b"]]
    for tag in ("<b>", "<i>", "<script>"):
        assert tag not in html


def test_each_tone_has_an_edge_of_its_own() -> None:
    tones: tuple[Tone, ...] = ("plain", "good", "bad", "warn")
    for make in (lambda tone: Table("T", (), tone=tone), lambda tone: Note("T", "x", tone)):
        assert len({make(tone)._repr_html_() for tone in tones}) == len(tones)


def test_no_text_or_background_color_is_set_so_that_every_theme_stays_readable() -> None:
    html = GRID._repr_html_()
    assert ";color:" not in html and '"color:' not in html
    assert html.count("background:") == html.count("background:transparent")


def test_a_note_is_its_label_and_its_text_with_code_as_code() -> None:
    note = Note("Not yet.", "`a < b` holds for 3 of 8, and `c` for none. A lone ` stays.")
    assert str(note) == repr(note) == f"Not yet. {note.text}"
    html = note._repr_html_()
    assert "<b>Not yet.</b>" in html
    assert (
        "<code>a &lt; b</code> holds for 3 of 8, and <code>c</code> for none. A lone ` stays."
        in html
    )
