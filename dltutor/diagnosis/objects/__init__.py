"""Find what objects hold, the path to it, and its content."""
