"""Predict how much memory a loader will use with given settings, and measure how much it uses."""
