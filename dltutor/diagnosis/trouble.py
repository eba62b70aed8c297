"""What stands in the way of a diagnosis."""

from __future__ import annotations


class CannotRun(Exception):
    """The loader cannot be run; the message says why, in one sentence."""


class CannotSend(Exception):
    """A function cannot be sent to a new interpreter; the message says why, in one sentence."""
