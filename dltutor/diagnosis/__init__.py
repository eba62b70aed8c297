"""The doctor, which finds the failure mode behind an error message or a misbehaving loader."""
