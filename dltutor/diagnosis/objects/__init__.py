"""Find the things that objects hold and the path to each, and compute digests of their content."""
