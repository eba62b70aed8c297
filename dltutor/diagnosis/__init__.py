"""What it means: from an error message, or from a run, to the failure mode behind it."""
