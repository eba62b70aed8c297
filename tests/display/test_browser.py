"""Check the live chart in a real browser, by itself, in JupyterLab, and in Notebook 7."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from browser import CONTRAST, find_browser, jupyter, write_notebook
from own_process import DEADLINE
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

from dltutor.display.chart import Chart

pytestmark = [
    pytest.mark.xdist_group("browser"),  # one test process, because the tests share a browser
]

STATIC = Path(__file__).parents[2] / "dltutor" / "static"
CHART = "[data-testid=dltutor-chart]"
MB = 1024  # rows give sizes in kB
READABLE = 4.5  # the contrast that WCAG AA requires for small text

# JupyterLab takes seconds to load on a busy machine, and a slow page isn't a broken one.
WAIT = 1000 * DEADLINE  # ms
expect.set_options(timeout=WAIT)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = find_browser()
    if path is None:
        reason = "no Chromium on this machine; on Debian: apt-get install chromium"
        if os.environ.get("CI"):
            pytest.fail(f"{reason}. With CI set this test must run", pytrace=False)
        pytest.skip(reason)
    quiet = "--disable-background-networking --disable-component-update --disable-sync"
    flags = f"--headless --no-sandbox --disable-gpu --disable-quic --no-first-run {quiet}"
    # Until Playwright's event loop is stopped, no other loop can run in this thread. So the loop
    # must not outlive this module, but pytest-playwright's loop would.
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=flags.split())
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def asked() -> list[str]:
    """Return a list that collects every address that a page requests."""
    return []


@pytest.fixture(autouse=True)
def nobody_but_this_machine_is_asked(asked: list[str]) -> Iterator[None]:
    asked.clear()
    yield
    assert [each for each in asked if urlsplit(each).hostname not in (None, "127.0.0.1")] == []


@contextmanager
def opened(browser: Browser, asked: list[str]) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 1100, "height": 1000})
    page.on("request", lambda request: asked.append(request.url))
    page.on("websocket", lambda socket: asked.append(socket.url))
    page.set_default_timeout(WAIT)
    yield page
    page.close()


@pytest.fixture(scope="module")
def tab(browser: Browser, asked: list[str]) -> Iterator[Page]:
    with opened(browser, asked) as page:
        yield page


@pytest.fixture
def page(tab: Page) -> Page:
    """Return an empty page, in a tab that all tests without their own page share."""
    tab.goto("about:blank")
    return tab


@pytest.fixture
def own_page(browser: Browser, asked: list[str]) -> Iterator[Page]:
    """Open a page for one test that loads a notebook, or installs a fake clock that would stay."""
    with opened(browser, asked) as page:
        yield page


# The chart on its own, with rows as dltutor/display/chart.py makes them and a stand-in for the
# widget's model.

MODEL = """async ([esm, state]) => {
  const url = URL.createObjectURL(new Blob([esm], {type: 'text/javascript'}));
  const widget = (await import(url)).default();
  const heard = {};
  const model = {get: name => state[name], on: (event, f) => heard[event] = f};
  const painted = () => new Promise(done => requestAnimationFrame(() => setTimeout(done)));
  widget.initialize({model});
  window.show = async id => {
    widget.render({model, el: document.getElementById(id)});
    await painted();
  };
  window.set = async (name, value) => {
    state[name] = value;
    heard['change:' + name]();
    await painted();
  };
}"""


class LoneChart:
    """The chart's JavaScript module in an empty page, without a notebook."""

    def __init__(self, page: Page, *, width: int = 700, history: Any = (), **state: Any) -> None:
        self.page = page
        places = "".join(f'<div id="{id}" style="width:{width}px"></div>' for id in ("one", "two"))
        style = (STATIC / "chart.css").read_text()
        page.set_content(
            f"<style>:root {{color-scheme: light dark}} body {{background: Canvas}}{style}</style>"
            f"{places}"
        )
        limits = {"memory": 4 << 30, "shm": 64 << 20, "files": 1024}
        chart = Chart("Names, 2 workers", limits=limits | state.pop("limits", {}), **state)
        model = {name: getattr(chart, name) for name in ("title", "limits", "window", "palette")}
        model |= {"alone": chart.alone, "row": {}, "end": {}, "history": list(history)}
        page.evaluate(MODEL, [(STATIC / "chart.js").read_text(), model])
        self.show("one")

    def show(self, place: str) -> None:
        self.page.evaluate("place => show(place)", place)

    def feed(self, *rows: dict[str, Any]) -> None:
        each = "async rows => { for (const row of rows) await set('row', row); }"
        self.page.evaluate(each, rows)

    def finish(self, how: str, *died: tuple[str, float, str], folded: bool = False) -> None:
        end = {"how": how, "died": died, "folded": folded}
        self.page.evaluate("end => set('end', end)", end)

    @property
    def root(self) -> Locator:
        return self.page.locator(CHART).first

    def layer(self, role: str) -> Any:
        return self.page.locator(f"[data-role={role}]").first.get_attribute("d")


def row(t: float, *, gone: tuple[str, ...] = (), settled: Any = (), **sizes: float) -> Any:
    """Make a row like those that the chart receives.

    Args:
        t: Seconds since the run began.
        gone: The roles of processes that ended since the row before.
        settled: Pairs of an earlier row's `t` and its corrected sizes in MB, by role.
        sizes: The processes' memory in MB, by role.
    """
    layers = {role: [round(size * MB), 60] for role, size in sizes.items()}
    made = {"t": t, "p": layers, "shm": 2 * MB, "kind": "PSS", "n": int(4 * t)}
    made |= {
        "settled": [[t, {role: size * MB for role, size in each.items()}] for t, each in settled]
    }
    return made | ({"gone": list(gone)} if gone else {})


def growing(seconds: int, **others: float) -> list[Any]:
    """Make four rows for each second, in which two workers grow."""
    return [
        row(t / 4, main=200, W0=20 + 10 * t, W1=20 + 12 * t, **others) for t in range(4 * seconds)
    ]


def heights(path: str) -> list[float]:
    """Return the height of a layer's top edge in each row, in units of the drawing.

    `path` is the layer's outline, and the first half of its points is the top edge.
    """
    points = [tuple(map(float, point)) for point in re.findall(r"([\d.]+),([\d.]+)", path)]
    return [200 - y for _, y in points[: len(points) // 2]]


def test_every_process_is_a_layer_with_its_name_and_size(page: Page) -> None:
    chart = LoneChart(page)
    chart.feed(row(0, main=200), row(1, main=120, W0=40, W1=60, other=5))
    expect(chart.root).to_have_attribute("data-series", "main W0 W1 other")
    for name in ("main 120 MB", "W0 40 MB", "W1 60 MB", "other 5 MB", "total 225 MB"):
        expect(chart.root.get_by_text(name, exact=True)).to_be_visible()


def test_the_chart_is_told_in_words(page: Page) -> None:
    chart = LoneChart(page)
    chart.feed(*growing(5))
    label = chart.root.get_attribute("aria-label")
    assert label == (
        "Names, 2 workers: running, 4.8 s, 19 batches. PSS: main 200 MB, W0 210 MB, W1 248 MB, "
        "total 658 MB. limit 4 GB. /dev/shm 2 MB. open descriptors: main 60, W0 60, W1 60. "
        "4.0 batches a second"
    )


def test_a_reading_settles_the_estimates_before_it(page: Page) -> None:
    chart = LoneChart(page)
    chart.feed(*(row(t, main=100) for t in range(4)))
    before = heights(chart.layer("main"))
    assert before == [before[0]] * 4
    settled = [(t, {"main": 100 + 20 * t}) for t in (1, 2, 3)]
    chart.feed(row(4, settled=settled, main=180))
    after = heights(chart.layer("main"))
    steps = [b - a for a, b in pairwise(after)]
    assert steps == pytest.approx([steps[0]] * 4, abs=0.2)
    assert after[-1] == pytest.approx(1.8 * after[0], rel=0.01)


def test_a_worker_that_ends_while_another_goes_on_is_marked(page: Page) -> None:
    chart = LoneChart(page)
    chart.feed(row(0, main=100, W0=50, W1=50), row(1, main=100, W0=50, gone=("W1",)))
    expect(chart.root).to_have_attribute("data-marks", "")
    chart.feed(row(2, main=100, W0=50))
    expect(chart.root).to_have_attribute("data-marks", "W1 ended")
    expect(chart.root.get_by_text("W1 ended, it had 50 MB")).to_be_visible()


def test_workers_that_end_with_their_epoch_are_not_marked(page: Page) -> None:
    chart = LoneChart(page)
    chart.feed(
        row(0, main=100, W0=50, W1=50),
        row(1, main=100, W1=50, gone=("W0",)),
        row(1.2, main=100, W1=50),
        row(1.3, main=100, gone=("W1",)),
        row(2, main=100, W0=50, W1=50),
        row(3, main=100, W0=50, W1=50),
    )
    expect(chart.root).to_have_attribute("data-rows", "6")
    expect(chart.root).to_have_attribute("data-marks", "")


def test_a_dead_worker_is_marked_with_what_became_of_it(page: Page) -> None:
    chart = LoneChart(page)
    chart.feed(row(0, main=100, W0=50, W1=50), row(1, main=100, W0=50, W1=50))
    chart.finish("Worker died: W1 killed by SIGKILL", ("W1", 1.2, "killed by SIGKILL"))
    expect(chart.root).to_have_attribute("data-state", "ended")
    expect(chart.root).to_have_attribute("data-marks", "W1 killed by SIGKILL")
    expect(chart.root.locator("[data-mark=W1]")).to_be_visible()
    expect(chart.root.get_by_text("W1 killed by SIGKILL, it had 50 MB")).to_be_visible()


def test_the_limit_is_a_line_once_it_is_within_sight(page: Page) -> None:
    chart = LoneChart(page, limits={"memory": 1 << 30})
    chart.feed(row(0, main=500))
    expect(chart.root.get_by_text("Limit 1 GB, above the chart.")).to_be_visible()
    expect(chart.root.get_by_text("limit 1 GB", exact=True)).to_have_count(0)
    chart.feed(row(1, main=600))
    expect(chart.root.get_by_text("limit 1 GB", exact=True)).to_be_visible()
    expect(chart.root.get_by_text("above the chart")).to_have_count(0)


def test_a_view_that_opens_late_has_the_whole_history(page: Page) -> None:
    rows = growing(5)
    chart = LoneChart(page, history=rows[:-1])
    expect(chart.root).to_have_attribute("data-rows", "19")
    chart.feed(rows[-2], rows[-1])  # a row that arrives twice counts once
    chart.show("two")
    for number in range(2):
        expect(page.locator(CHART).nth(number)).to_have_attribute("data-rows", "20")


def test_rows_that_came_before_the_browser_was_ready_are_filled_in(page: Page) -> None:
    rows = growing(2)
    missed = LoneChart(page)
    missed.feed(*rows[3:5])
    page.evaluate("rows => set('history', rows)", rows[:5])
    missed.feed(*rows[5:])
    drawing = missed.root.locator("svg").inner_html()
    whole = LoneChart(page)
    whole.feed(*rows)
    assert whole.root.locator("svg").inner_html() == drawing


def test_a_run_of_an_hour_is_drawn_with_all_its_events(page: Page) -> None:
    rows = [row(t, main=200, W0=50) for t in range(3600)]
    rows[1001] = row(1001, main=200, W0=50, W1=9)
    rows[1002] = row(1002, main=200, W0=50, gone=("W1",))
    chart = LoneChart(page, history=rows)
    assert 1000 < int(chart.root.get_attribute("data-rows") or 0) <= 2400
    expect(chart.root).to_have_attribute("data-marks", "W1 ended")
    expect(chart.root.locator("summary")).to_contain_text("running, 3599 s, 14396 batches")


def test_a_chart_that_stands_alone_leaves_its_old_place(page: Page) -> None:
    chart = LoneChart(page, alone=True, window=180)
    chart.feed(*growing(2))
    chart.show("two")
    expect(page.locator("#one")).to_have_text("The chart has moved to a later cell.")
    expect(page.locator(f"#two {CHART}")).to_have_attribute("data-rows", "8")


def test_a_window_shows_the_last_seconds_only(page: Page) -> None:
    chart = LoneChart(page, window=5)
    chart.feed(*growing(10))
    expect(chart.root).to_have_attribute("data-rows", "21")
    expect(chart.root.get_by_text("9 s", exact=True)).to_be_visible()
    expect(chart.root.get_by_text("4 s", exact=True)).to_have_count(0)


def test_a_chart_that_a_figure_follows_folds_to_one_line(page: Page) -> None:
    chart = LoneChart(page)
    chart.feed(*growing(2))
    expect(chart.root.locator("svg")).to_be_visible()
    chart.finish("Finished", folded=True)
    expect(chart.root.locator("svg")).not_to_be_visible()
    expect(chart.root.locator("summary")).to_have_text("Names, 2 workersFinished, 1.8 s, 7 batches")
    chart.root.locator("summary").click()
    expect(chart.root.locator("svg")).to_be_visible()


def test_silence_is_told(own_page: Page) -> None:
    own_page.clock.install()
    chart = LoneChart(own_page)
    chart.feed(*growing(2))
    expect(chart.root.locator("summary")).to_contain_text("running, 1.8 s, 7 batches")
    own_page.clock.run_for(6000)
    expect(chart.root.locator("summary")).to_contain_text(re.compile("no sample for [67].. s"))
    chart.feed(row(9, main=200))
    expect(chart.root.locator("summary")).not_to_contain_text("no sample")


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(growing(1, other=3), id="early"),
        pytest.param(growing(40, other=3)[::8], id="late"),
        pytest.param([row(t, main=370, W0=1, W1=1, W2=1) for t in range(4)], id="crowded on top"),
        pytest.param([row(t, main=1, W0=1, W1=1, W2=300) for t in range(4)], id="crowded below"),
    ],
)
def test_no_text_is_cut_or_covered_by_another(page: Page, rows: list[Any]) -> None:
    for width in (420, 600, 900):
        LoneChart(page, width=width).feed(*rows)
        boxes, cut = page.locator(f"{CHART} svg").evaluate(
            """svg => {
                 const frame = svg.getBoundingClientRect();
                 const boxes = [...svg.querySelectorAll('text')].map(node => {
                   const {left, right, top, bottom} = node.getBoundingClientRect();
                   return [left, right, top + 2, bottom - 2, node.textContent];
                 });
                 return [boxes, boxes.filter(([left, right, top, bottom]) =>
                   left < frame.left || right > frame.right
                   || top < frame.top || bottom > frame.bottom)];
               }"""
        )
        assert len(boxes) > 15
        assert cut == [], width
        covered = [
            (one[4], other[4])
            for one, other in combinations(boxes, 2)
            if one[0] < other[1] and other[0] < one[1] and one[2] < other[3] and other[2] < one[3]
        ]
        assert covered == [], width


def test_every_text_is_readable_in_a_light_and_a_dark_page(page: Page) -> None:
    chart = LoneChart(page)
    chart.feed(*growing(3))
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert chart.root.evaluate(CONTRAST) >= READABLE, scheme
    page.emulate_media(color_scheme="null")


def test_many_workers_are_many_layers_under_one_name(page: Page) -> None:
    chart = LoneChart(page)
    workers = {f"W{number}": 10 for number in range(64)}
    chart.feed(row(0, main=100, **workers), row(1, main=100, **workers))
    assert len((chart.root.get_attribute("data-series") or "").split()) == 65
    expect(chart.root.get_by_text("64 workers 640 MB")).to_be_visible()


# The chart in a notebook.

CELLS = (
    """
import os, signal, time
import torch
from torch.utils.data import DataLoader, Dataset

import dltutor

class Slow(Dataset):
    def __init__(self, number, killed):
        self.number, self.killed = number, killed
    def __len__(self):
        return 32
    def __getitem__(self, index):
        time.sleep(0.05)
        while index == 18 and not os.path.exists(f"seen {self.number}"):
            time.sleep(0.05)
        if index == 18 and self.killed:
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.ones(1000)

def load(dataset):
    return DataLoader(dataset, batch_size=2, num_workers=2, multiprocessing_context="fork")
""",
    "dltutor.observe(load(Slow(0, killed=False)), live=True, deadline=250)",
    "dltutor.observe(load(Slow(1, killed=True)), live=True, deadline=250)",
)
"""Two runs that each end only after a file says that the page has seen them move."""

WATCH = """() => {
  window.seen = [[], []];
  setInterval(() => document.querySelectorAll('[data-testid=dltutor-chart]').forEach((chart, i) => {
    const prompt = chart.closest('.jp-CodeCell').querySelector('.jp-InputPrompt').textContent;
    const drawing = chart.querySelector('svg').innerHTML;
    const last = window.seen[i].at(-1);
    if (drawing && last?.drawing !== drawing)
      window.seen[i].push({drawing, prompt, ...chart.dataset});
  }), 100);
}"""
"""JavaScript that records each chart's new drawings in `window.seen`, with the cell's prompt.

While a cell is busy, its prompt is `[*]:`.
"""

READY = """() => {
  const widget = window.jupyterapp?.shell.currentWidget;
  return widget?.sessionContext?.session?.kernel?.status === 'idle'
    && jupyterapp.commands.hasCommand('notebook:run-all-cells');
}"""


MOVED = """number => window.seen[number].filter(
  each => each.prompt === '[*]:' && each.state === 'running' && each.series === 'main W0 W1'
).length >= 3"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("server")
    write_notebook(folder / "nb.ipynb", *CELLS)
    return folder


@pytest.fixture(scope="module")
def server(browser: Browser, folder: Path) -> Iterator[str]:
    with jupyter(folder) as address:
        yield address


def run_all(page: Page, address: str, folder: Path) -> None:
    """Run all cells, and let each run end once its chart has moved while its cell was busy."""
    signs = [folder / f"seen {number}" for number in range(2)]
    for sign in signs:
        sign.unlink(missing_ok=True)
    page.goto(address)
    page.wait_for_function(READY)
    page.evaluate(WATCH)
    # Without `void`, `evaluate` would wait for the last cell.
    page.evaluate("void jupyterapp.commands.execute('notebook:run-all-cells')")
    for number, sign in enumerate(signs):
        page.wait_for_function(MOVED, arg=number)
        sign.touch()


def check_ended(page: Page) -> None:
    """Check that both charts have ended, only the second with a mark, and that figures follow."""
    charts = page.locator(CHART)
    expect(charts).to_have_count(2)
    for number in range(2):
        expect(charts.nth(number)).to_have_attribute("data-state", "ended")
    expect(charts.nth(0)).to_have_attribute("data-marks", "")
    expect(charts.nth(1)).to_have_attribute("data-marks", re.compile("W1 killed by SIGKILL"))
    expect(page.locator(".jp-OutputArea-output img[src^='data:image/png']")).to_have_count(2)


def test_in_jupyterlab_the_chart_moves_while_the_cell_is_busy(
    own_page: Page, server: str, folder: Path
) -> None:
    run_all(own_page, f"{server}/lab/tree/nb.ipynb?reset", folder)
    check_ended(own_page)
    chart = own_page.locator(CHART).nth(1)
    chart.locator("summary").click()
    expect(chart.locator("[data-mark=W1]")).to_be_visible()
    change = "theme => jupyterapp.commands.execute('apputils:change-theme', {theme})"
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        own_page.evaluate(change, theme)
        expect(own_page.locator("body")).to_have_attribute("data-jp-theme-name", theme)
        assert chart.evaluate(CONTRAST) >= READABLE


@pytest.mark.thorough  # a second page with the same chart
def test_in_notebook_7_the_chart_moves_while_the_cell_is_busy(
    own_page: Page, server: str, folder: Path
) -> None:
    run_all(own_page, f"{server}/notebooks/nb.ipynb", folder)
    check_ended(own_page)
    rows = str(own_page.locator(CHART).nth(1).get_attribute("data-rows"))
    own_page.evaluate("jupyterapp.commands.execute('docmanager:save')")
    own_page.reload()  # the page gets its rows back from the notebook's process
    expect(own_page.locator(CHART).nth(1)).to_have_attribute("data-rows", rows)
