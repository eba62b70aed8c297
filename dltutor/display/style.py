"""Define how figures look on light and dark pages.

People with common kinds of color blindness can tell these colors apart. We took the colors from
Okabe and Ito (https://jfly.uni-koeln.de/color/), without black and yellow, because each of these
two vanishes on one kind of page.
"""

from __future__ import annotations

import re
from typing import Any, Final

MAIN: Final = "#0072B2"
WORKERS: Final = ("#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
OTHER: Final = "#999999"
TEXT: Final = "#7A7A7A"  # contrast 4.3 on white and 4.4 on JupyterLab's #111
ALARM: Final = "#D55E00"

#: Settings for `matplotlib.rc_context`, with no background, and a gray for light and dark pages.
STYLE: Final[Any] = {  # Any, because matplotlib types the keys as a Literal, not as str
    "figure.dpi": 100,
    "figure.facecolor": "none",
    "figure.constrained_layout.use": True,
    "axes.facecolor": "none",
    "axes.edgecolor": TEXT,
    "axes.labelcolor": TEXT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "font.size": 10,
    "text.color": TEXT,
    "xtick.color": TEXT,
    "ytick.color": TEXT,
}


def color_of(role: str) -> str:
    """Return the color for main, W0, W1, ..., or other. From the sixth worker on, colors repeat."""
    if role == "main":
        return MAIN
    worker = re.match(r"W(\d+)\b", role)  # or "W0 of images" if there are several loaders
    return WORKERS[int(worker[1]) % len(WORKERS)] if worker else OTHER
