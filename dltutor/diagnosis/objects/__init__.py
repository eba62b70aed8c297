"""Find the things that objects hold, the path to each, and a digest of its content."""
