"""Hold the check of lesson 00, whose notebook imports nothing from here."""
