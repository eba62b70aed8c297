"""Run, change, and measure the loader under test, each time in its own process."""
