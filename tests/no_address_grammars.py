"""Keep jsonschema from parsing thirty-eight grammars of addresses when it's imported.

nbformat imports jsonschema. If JupyterLab is installed, jsonschema finds `rfc3987_syntax`, which
takes 1.3 s of CPU in each process that reads a notebook. Without that module, jsonschema
doesn't validate IRIs, and a notebook has none.
"""

from __future__ import annotations

import sys

sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]  # as if it weren't installed
