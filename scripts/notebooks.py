"""Make the notebooks: run the solved twins, and derive the learner's files from them.

Each lesson has a solved twin in `notebooks/solutions`, with solutions and outputs. The learner's
file, in `notebooks`, has neither.

`python scripts/notebooks.py 01 03` makes these two lessons. Without numbers, the script makes all
lessons. With `--no-execute`, the script only derives the learner's files. With `--check`, the
script writes nothing, and lists every learner's file that is stale.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from nbformat.warnings import DuplicateCellId, MissingIDFieldWarning
from portable import ROOT, code_cells, shorten_outputs, unfit
from traitlets.config import Config

NOTEBOOKS = ROOT / "notebooks"

PYTHON = (3, 11)
"""The Python version of the saved outputs. Other versions word some errors differently."""

CELL_TIMEOUT = 120
"""The most seconds that one cell may take, here and in the tests."""

METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
"""All the metadata that a saved notebook has, except in its cells."""

LINK_UP = re.compile(r"""(\]\(|(?:src|href)=["'])\.\./""")
"""The start of a link out of solutions/, in markdown or HTML."""

KEPT_CELL_METADATA = {"tags", "jupyter"}

NOT_INHERITED = (
    "COLUMNS",
    "DLTUTOR_STRICT",
    "LINES",
    "MPLBACKEND",
    "PYTEST_ADDOPTS",
    "PYTEST_CURRENT_TEST",  # if it's set, ipykernel doesn't capture descriptors 1 and 2
    "PYTEST_PLUGINS",
    "PYTHONPATH",
    "PYTHONWARNINGS",
)


class Unfit(Exception):
    """Raised for an invalid notebook, or a twin that must not be saved. The arguments say why."""


def twins(folder: Path = NOTEBOOKS) -> list[Path]:
    """Return the paths of the solved twins, in lesson order."""
    return sorted((folder / "solutions").glob("*.ipynb"))


def learner_path(twin: Path) -> Path:
    """Return the path of the learner's file for a twin."""
    return twin.parent.parent / twin.name


def read(path: Path) -> NotebookNode:
    """Read the notebook in a file.

    Raises:
        Unfit: The file isn't a valid notebook, or some cells have no unique id, so that nbformat
            would make up a random one each time.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error", DuplicateCellId)
        warnings.simplefilter("error", MissingIDFieldWarning)
        try:
            notebook = nbformat.read(path, as_version=4)
            nbformat.validate(notebook)
        except (nbformat.ValidationError, DuplicateCellId, MissingIDFieldWarning) as error:
            raise Unfit(f"{path.name}: {error}") from None
    return notebook


@contextmanager
def kernel_environment(*, strict: bool) -> Iterator[dict[str, str]]:
    """Yield environment variables for a notebook kernel: most of this process's, and new folders.

    Args:
        strict: Whether `check` raises an error for an answer that isn't correct. In a twin, every
            answer has to be correct.
    """
    with tempfile.TemporaryDirectory(prefix="dltutor-run-", ignore_cleanup_errors=True) as root:
        home, temporary = Path(root, "home"), Path(root, "tmp")
        temporary.mkdir()
        environment = {k: v for k, v in os.environ.items() if k not in NOT_INHERITED}
        environment |= {"DLTUTOR_HOME": str(home), "TMPDIR": str(temporary)}
        environment["DLTUTOR_INCIDENTS"] = str(temporary / "incidents")
        # Turn off the warning that two workers are too many for a machine with one core.
        environment["PYTHONWARNINGS"] = "ignore:This DataLoader will create:UserWarning"
        environment["IPYTHONDIR"] = str(Path(root, "ipython"))
        # The paths of the kernel's Unix sockets begin with this one. jupyter_client would choose
        # TCP ports before the kernel starts, and while it imports, another process may take one.
        environment["DLTUTOR_SOCKETS"] = str(Path(root, "ipc"))
        if strict:
            environment["DLTUTOR_STRICT"] = "1"
        yield environment


def execute(path: Path) -> NotebookNode:
    """Run a twin in a new kernel in the twin's folder, and return the tidied notebook.

    Raises:
        Unfit: A cell failed, or has an output that must not be saved.
    """
    notebook = read(path)
    started: list[str] = []
    with kernel_environment(strict=True) as environment:
        sockets = {"transport": "ipc", "ip": environment["DLTUTOR_SOCKETS"]}
        client = NotebookClient(
            notebook,
            config=Config({"ConnectionFileMixin": sockets}),
            on_cell_start=lambda cell, cell_index: started.append(cell.id),
            timeout=CELL_TIMEOUT,
            coalesce_streams=True,
            record_timing=False,
            store_widget_state=False,
            # ipykernel warns about unencrypted connections, but ours don't leave the machine.
            extra_arguments=["--IPKernelApp.log_level=ERROR"],
        )
        try:
            client.execute(env=environment, cwd=str(path.parent))
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            raise Unfit(f"{path.name}: cell {started[-1]}: {str(error).strip()}") from None
        shorten_outputs(notebook, environment["DLTUTOR_HOME"], environment["TMPDIR"])
    tidy(notebook)
    if problems := [f"{path.name}: {problem}" for problem in unfit(notebook)]:
        raise Unfit(*problems)
    return notebook


def tidy(notebook: NotebookNode) -> None:
    """Keep only the metadata that is the same on every machine, and remove widget views."""
    notebook.metadata = nbformat.from_dict(METADATA)
    for cell in notebook.cells:
        for key in set(cell.metadata) - KEPT_CELL_METADATA:
            del cell.metadata[key]
    for cell in code_cells(notebook):
        for output in cell.outputs:
            # Without the widget's state, a view shows nothing, and the view's model id is random.
            output.get("data", {}).pop("application/vnd.jupyter.widget-view+json", None)


def learner_version(twin: NotebookNode) -> NotebookNode:
    """Return a twin without solutions, outputs, and counts, with links that work one folder up."""
    notebook = nbformat.from_dict(twin)
    notebook.cells = [
        cell for cell in notebook.cells if "solution" not in cell.metadata.get("tags", ())
    ]
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = LINK_UP.sub(r"\1", cell.source)
    for cell in code_cells(notebook):
        cell.outputs, cell.execution_count = [], None
    tidy(notebook)
    return notebook


def learner_text(twin: Path) -> str:
    """Return the text that the learner's file for a twin has to contain."""
    return _text(learner_version(read(twin)))


def stale(folder: Path = NOTEBOOKS) -> list[str]:
    """Return a sentence for each learner's file that is missing, stale, or without a valid twin."""
    sentences = []
    for twin in twins(folder):
        path = learner_path(twin)
        try:
            if not path.exists():
                sentences.append(f"{path.name} is missing")
            elif path.read_text(encoding="utf-8") != learner_text(twin):
                sentences.append(f"{path.name} is stale: it doesn't match its twin")
        except Unfit as error:
            sentences += error.args
    known = {twin.name for twin in twins(folder)}
    orphans = sorted(path.name for path in folder.glob("*.ipynb") if path.name not in known)
    return sentences + [f"{name} has no twin in solutions/" for name in orphans]


def _text(notebook: NotebookNode) -> str:
    nbformat.validate(notebook)
    return nbformat.writes(notebook).rstrip("\n") + "\n"


def _write(path: Path, text: str, say: Callable[[str], None]) -> None:
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
        say(f"wrote {path}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Make notebooks, or check all. Return 1 if one is unfit or stale, or 2 if no name matches."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("lessons", nargs="*", help="numbers or titles, such as 01 (default: all)")
    parser.add_argument("--no-execute", action="store_true", help="only write the learner's files")
    parser.add_argument("--check", action="store_true", help="write nothing, list stale files")
    parser.add_argument("--folder", type=Path, default=NOTEBOOKS, help="where the notebooks are")
    options = parser.parse_args(arguments)

    if options.check:
        sentences = stale(options.folder)
        for sentence in sentences:
            print(f"{sentence}. Run `make notebooks`.", file=sys.stderr)
        return 1 if sentences else 0

    chosen = [
        twin
        for twin in twins(options.folder)
        if not options.lessons or any(twin.name.startswith(name) for name in options.lessons)
    ]
    if not chosen:
        wanted = " ".join(options.lessons) or "*.ipynb"
        print(f"no solved twin matches {wanted} in {options.folder / 'solutions'}", file=sys.stderr)
        return 2

    failed = False
    for twin in chosen:
        try:
            if not options.no_execute:
                print(f"running {twin.name}", flush=True)
                _write(twin, _text(execute(twin)), print)
            _write(learner_path(twin), learner_text(twin), print)
        except Unfit as error:
            failed = True
            print(*error.args, sep="\n", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
