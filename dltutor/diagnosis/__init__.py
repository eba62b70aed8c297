"""The doctor: find the failure mode behind an error message or a misbehaving loader."""
