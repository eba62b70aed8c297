"""Make the import of jsonschema faster, by hiding the module `rfc3987_syntax` from it.

nbformat imports jsonschema. If JupyterLab is installed, jsonschema imports `rfc3987_syntax`, which
parses many grammars of addresses. That takes about a second in each process that reads a notebook.
Without `rfc3987_syntax`, jsonschema doesn't validate IRIs, but a notebook doesn't have any.
"""

from __future__ import annotations

import sys

sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]  # as if it weren't installed
