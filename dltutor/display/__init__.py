"""Render the memory figures, the live chart, and the budget page."""
