"""How the loader under test is run, changed, and measured, each time in a process of its own."""
