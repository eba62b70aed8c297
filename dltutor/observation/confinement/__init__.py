"""A case or a script in a child interpreter under limits, and the keeper that tidies up.

Nothing is imported here: the keeper runs without site-packages.
"""
