"""Keep jsonschema from parsing thirty-eight grammars of addresses when it is imported.

nbformat imports jsonschema, and where JupyterLab is installed it finds `rfc3987_syntax`, which
takes 1.3 s of CPU in each process that reads a notebook. Without it jsonschema accepts whatever is
said to be an IRI, and a notebook has none.
"""

from __future__ import annotations

import sys

sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]  # as if it were not installed
