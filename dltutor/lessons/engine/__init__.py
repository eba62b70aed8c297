"""The engine that all lessons share: exercises, checks, hints, and progress."""
