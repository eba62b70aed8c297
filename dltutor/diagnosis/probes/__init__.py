"""The questions that no single run answers: one module for each.

The first line of a module's docstring is the question. Its record holds the answer, and its
EXPERIMENT says how to find it. A probe with several modules is a folder.
"""
