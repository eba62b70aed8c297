"""The questions that no single run answers, each in its own module.

The first line of a module's docstring is the question, the module's record holds the answer, and
EXPERIMENT says how to find the answer. A probe that needs several modules is a folder.
"""
