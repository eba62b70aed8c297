"""Run `dltutor lab`, which copies the notebooks to a folder and opens the first in JupyterLab."""

from __future__ import annotations

import argparse
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from dltutor.lab.course_folder import lay_out

FOLDER: Final = "dltutor-course"
FIRST: Final = "00-start-here.ipynb"


def add_lab(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `lab` to a parser's commands, and make `run` the function that carries it out."""
    parser = commands.add_parser(
        "lab",
        help="copy the notebooks to a folder, and open them in JupyterLab",
        description="Copy the notebooks to a folder, and open JupyterLab there at lesson 00. "
        "Files that you have changed stay as they are. If this version of dltutor has a newer "
        "copy of such a file, the command puts the copy next to yours, with the version in the "
        "copy's name.",
    )
    parser.add_argument(
        "folder",
        nargs="?",
        default=FOLDER,
        type=Path,
        metavar="FOLDER",
        help=f"the folder, which is made if necessary (default: {FOLDER} in the current folder)",
    )
    parser.add_argument(
        "--no-browser", action="store_true", help="print the address instead of opening a browser"
    )
    parser.add_argument(
        "--port", type=_port, metavar="N", help="JupyterLab's port (default: 8888, or the next one)"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Copy the notebooks, then replace this process with JupyterLab.

    Args:
        arguments: The parsed arguments, which are `folder`, `no_browser`, and `port`.

    Returns:
        The exit code if JupyterLab can't start, which is 2 for a wrong folder, 1 if JupyterLab is
        missing or the notebooks can't be copied, and 130 after Ctrl-C during the copying.
    """
    folder = Path(arguments.folder).absolute()
    if os.path.lexists(folder) and not os.path.isdir(folder):
        return _refuse(2, f"FOLDER must be a folder, but {folder} is a file. Choose another folder")
    if not os.path.isdir(folder.parent):
        return _refuse(2, f"FOLDER must be in a folder that exists, got {folder}. Make its parent")
    if find_spec("jupyterlab") is None:
        return _refuse(1, f"JupyterLab is missing: {sys.executable} -m pip install jupyterlab")
    try:
        done = lay_out(folder)
        os.chdir(folder)
    except OSError as error:
        return _refuse(1, f"can't copy the notebooks to {folder}: {error.strerror or error}")
    except KeyboardInterrupt:
        return _refuse(130, "interrupted. Run the same command again to finish")
    print(f"The course is in {folder}.\n{done}", flush=True)
    command = [sys.executable, "-m", "jupyterlab", "--ip=127.0.0.1"]
    command += ["--allow-root", f"--ServerApp.root_dir={folder}"]
    command += [f"--LabApp.default_url=/lab/tree/{FIRST}"]
    command += ["--no-browser"] if arguments.no_browser else []
    command += [f"--port={arguments.port}"] if arguments.port else []
    os.execv(sys.executable, command)


def _port(text: str) -> int:
    if not (text.isdecimal() and 0 < int(text) < 65536):
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 to 65535, got {text!r}")
    return int(text)


def _refuse(code: int, sentence: str) -> int:
    print(f"dltutor lab: {sentence}.", file=sys.stderr)
    return code
