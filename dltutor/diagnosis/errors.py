"""Exceptions that say why a loader can't be run, or a function can't be sent."""

from __future__ import annotations

from dltutor import DltutorError


class CannotRun(DltutorError):
    """The loader can't be run. The message says why."""


class CannotSend(Exception):
    """A function can't be sent to a new interpreter. The message says why."""
