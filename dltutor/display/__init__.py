"""Render what was observed: the memory figures, the live chart, and the budget page."""
