"""Data for the failure modes to load: files and records, made on the spot."""
