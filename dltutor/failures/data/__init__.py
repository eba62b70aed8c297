"""What the failure modes load: files and records, made on the spot."""
