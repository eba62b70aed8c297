"""How it looks: the figures of memory, and the live chart."""
