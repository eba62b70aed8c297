"""What a loader's settings will cost in memory: predicted, and measured beside it."""
