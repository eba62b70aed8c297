"""Answer the questions about a loader that no single run answers, one probe for each.

The first line of a probe's module docstring is the question. The function `needed` returns whether
to ask it, the function `ask` returns a dataclass with the answer, and EXPERIMENT combines all three
for the doctor. A probe that needs several modules is a package.
"""
