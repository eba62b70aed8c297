"""Serve notebooks with Jupyter for the browser tests, and measure the contrast of charts."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jupyter_server
import nbformat

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def find_browser() -> str | None:
    """Return the path of Chromium or Chrome, or None if neither is installed."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


@contextmanager
def jupyter(folder: Path) -> Iterator[str]:
    """Serve a folder with JupyterLab and Notebook, and yield the URL without a trailing slash.

    The server keeps its settings, connection files, and history in the folder, so that it leaves
    the user's own files alone.
    """
    state = folder / ".jupyter"
    # Leave out PYTEST_CURRENT_TEST, because with it, ipykernel doesn't capture descriptors 1 and 2.
    environment = {k: v for k, v in os.environ.items() if k != "PYTEST_CURRENT_TEST"}
    environment["IPYTHONDIR"] = str(folder / ".ipython")
    # Make the server start faster. no_address_grammars.py says why `rfc3987_syntax` slows it down.
    code = "import sys; sys.modules['rfc3987_syntax'] = None; "
    code += "from jupyterlab.labapp import main; main()"
    command = [sys.executable, "-c", code, "--no-browser", "--allow-root"]
    command += ["--ip=127.0.0.1", "--port=0", "--IdentityProvider.token="]
    command += ["--ServerApp.disable_check_xsrf=True", f"--ServerApp.root_dir={folder}"]
    command += ["--LabApp.expose_app_in_browser=True"]
    command += ["--JupyterNotebookApp.expose_app_in_browser=True"]
    command += [f"--LabApp.workspaces_dir={state / 'workspaces'}"]
    command += [f"--LabApp.user_settings_dir={state / 'settings'}"]
    no_news = state / "settings/@jupyterlab/apputils-extension"
    no_news.mkdir(parents=True)
    (no_news / "notification.jupyterlab-settings").write_text('{"fetchNews": "false"}')
    with jupyter_server.server(
        command, folder=folder, environment=environment, state=state
    ) as account:
        yield account["url"].rstrip("/")


def write_notebook(path: Path, *cells: str) -> None:
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    notebook = nbformat.v4.new_notebook(
        metadata=kernel, cells=[nbformat.v4.new_code_cell(cell) for cell in cells]
    )
    nbformat.write(notebook, path)


CONTRAST = """chart => {
  const parts = color => color.match(/[\\d.]+/g).map(Number);
  let box = chart;
  while (parts(getComputedStyle(box).backgroundColor)[3] === 0) box = box.parentElement;
  const page = parts(getComputedStyle(box).backgroundColor).slice(0, 3);
  const light = rgb => rgb.map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  return Math.min(...[...chart.querySelectorAll('text, b, span, p')].map(node => {
    const style = getComputedStyle(node);
    const ink = parts(node.tagName === 'text' ? style.fill : style.color);
    const seen = page.map((v, i) => v + (ink[i] - v) * Number(style.opacity));
    const [dark, bright] = [light(seen), light(page)].sort((a, b) => a - b);
    return (bright + 0.05) / (dark + 0.05);
  }));
}"""
"""A JavaScript function that returns the lowest contrast between a chart's texts and the chart's
background, as WCAG defines contrast."""
