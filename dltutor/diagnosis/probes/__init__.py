"""Answer the questions about a loader that no single run answers, one probe for each.

The first line of a probe's module docstring is the question. The probe's dataclass holds the
answer, and its EXPERIMENT says how to find the answer. A probe that needs several modules is a
package.
"""
