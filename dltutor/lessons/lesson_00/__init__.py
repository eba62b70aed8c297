"""Define the check for lesson 00. The lesson's notebook imports nothing from this package."""
