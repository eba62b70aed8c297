"""Predict how much memory a loader will use with given settings, and measure it."""
