"""Colours that people with any colour vision tell apart, on a light and on a dark page.

They are those of Okabe and Ito (https://jfly.uni-koeln.de/color/), without black and yellow, which
vanish on one of the two.
"""

from __future__ import annotations

from typing import Final

MAIN: Final = "#0072B2"
WORKERS: Final = ("#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
OTHER: Final = "#999999"
TEXT: Final = "#7A7A7A"  # contrast 4.3 on white and 4.4 on JupyterLab's #111
ALARM: Final = "#D55E00"


def colour_of(role: str) -> str:
    """The colour of a process.

    Args:
        role: main, W0, W1, ... or other. Workers beyond the fifth begin anew.
    """
    if role == "main":
        return MAIN
    number = role[1:]
    return WORKERS[int(number) % len(WORKERS)] if number.isdigit() else OTHER
