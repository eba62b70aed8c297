"""Take the README's picture: a few cells of a solved lesson, as JupyterLab shows them.

Run this script when the lesson has changed. Like the browser tests, it needs Chromium:

    .venv/bin/python scripts/picture.py
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from browser import find_browser, jupyter  # noqa: E402 - in tests/, with the browser tests

LESSON = ROOT / "notebooks/solutions/01-corrupt-images.ipynb"
CELLS = ("observe", "check-predict")  # the ids of the first and the last cell in the picture
PICTURE = ROOT / "notebooks/figures/lesson.png"
SIZE = {"width": 960, "height": 1200}  # in CSS pixels, each two pixels wide and high in the picture

# JupyterLab doesn't render cells out of sight, so scroll to the first one before measuring boxes.
SCROLL = """([first, last]) => {
  const notebook = window.jupyterapp.shell.currentWidget.content;
  const at = id => notebook.widgets.findIndex(cell => cell.model.sharedModel.getId() === id);
  notebook.activeCellIndex = at(first) - 1;
  return notebook.scrollToItem(at(first), 'start');
}"""
BOX = """([first, last]) => {
  const notebook = window.jupyterapp.shell.currentWidget.content;
  const box = id => notebook.widgets
    .find(cell => cell.model.sharedModel.getId() === id).node.getBoundingClientRect();
  const [top, bottom] = [box(first).top, box(last).bottom];
  return {x: 0, y: top, width: window.innerWidth, height: bottom - top};
}"""


def main() -> None:
    """Serve the lesson with JupyterLab, and save a picture of the cells in `CELLS`."""
    with tempfile.TemporaryDirectory() as folder, jupyter(Path(folder)) as address:
        shutil.copy(LESSON, folder)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=find_browser(), args=["--no-sandbox", "--disable-gpu"]
            )
            page = browser.new_page(viewport=SIZE, device_scale_factor=2)
            page.goto(f"{address}/doc/tree/{LESSON.name}")
            page.wait_for_function("() => window.jupyterapp?.shell.currentWidget?.content?.widgets")
            page.wait_for_timeout(3000)  # until the toolbar stops moving
            page.evaluate(SCROLL, CELLS)
            page.wait_for_timeout(1000)
            page.screenshot(path=PICTURE, clip=page.evaluate(BOX, CELLS))
            browser.close()


if __name__ == "__main__":
    main()
