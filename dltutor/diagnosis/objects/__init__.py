"""Find the objects that your dataset and code hold, with their paths, and compute digests."""
