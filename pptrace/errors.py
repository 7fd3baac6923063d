"""The library's own errors. It owns the exception classes and nothing else: no printing, no exit codes (those are cli/'s).

Every message is one sentence that says what is wrong, where, and what to do. Nothing below cli/ raises anything
but these for a user's mistake.
"""

from __future__ import annotations


class PptraceError(Exception):
    """The base of every error that pptrace raises on purpose. `is_answer`: whether it is the answer to what was asked (the
    schedule deadlocks), not a failure to find one."""

    is_answer = False


class ParameterError(PptraceError):
    """A size, cost or option that cannot be used: wrong range, wrong length, or refused by the schedule."""


class ScheduleError(PptraceError):
    """An order of ops that cannot be run at all: an op that is missing, doubled, or on the wrong rank."""


class FormatError(PptraceError):
    """Input that cannot be read; the message begins with the place (`line 3, column 7: ...`, `$.events[3].end: ...`)."""


class LimitError(PptraceError):
    """Work that was refused before memory or time was spent on it; the message names the limit and how to raise it."""
