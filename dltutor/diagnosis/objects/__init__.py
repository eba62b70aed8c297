"""Find the things that objects hold, with a path to each, and compute digests of content."""
