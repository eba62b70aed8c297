"""Define exercises, check answers, give hints, and keep progress, for all lessons."""
