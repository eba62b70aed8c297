"""What the lessons have in common: exercises, checks, hints, progress."""
