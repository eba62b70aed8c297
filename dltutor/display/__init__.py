"""Show memory in a notebook: the live chart, the figures, and the budget page."""
