"""pptrace: see, check, explain and teach pipeline-parallel training schedules, exactly.

The library's public names, each imported when it is first used, so that the command starts in a blink:

    >>> from pptrace import simulate
    >>> report = simulate("1f1b", num_ranks=4, num_microbatches=4)
    >>> print(report)                                           # what `pptrace show` prints; a notebook draws it
    >>> report.metrics["bubble_over_elapsed"].value             # Ratio(numerator=6, denominator=14)
    >>> [str(span.op) for span in report.timeline.spans(0)]     # ['0F0', '0F1', '0F2', '0F3', '0B0', ...]
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pptrace.analysis.report import Report
    from pptrace.api import Simulation, simulate
    from pptrace.costs import Costs, Sizes, Values, values
    from pptrace.deadlock import DeadlockError
    from pptrace.errors import FormatError, LimitError, ParameterError, PptraceError, ScheduleError
    from pptrace.model import Op, OpKind, Placement, Schedule
    from pptrace.schedules.registry import Params, build, names
    from pptrace.timeline import Span, Timeline, Transfer, simulate_schedule

__version__ = "0.1.0"

_HOMES = {
    "analysis.report": ("Report",),
    "api": ("Simulation", "simulate"),
    "costs": ("Costs", "Sizes", "Values", "values"),
    "deadlock": ("DeadlockError",),
    "errors": ("FormatError", "LimitError", "ParameterError", "PptraceError", "ScheduleError"),
    "model": ("Op", "OpKind", "Placement", "Schedule"),
    "schedules.registry": ("Params", "build", "names"),
    "timeline": ("Span", "Timeline", "Transfer", "simulate_schedule"),
}
"""Module to the public names that live in it."""

__all__ = [
    "Costs",
    "DeadlockError",
    "FormatError",
    "LimitError",
    "Op",
    "OpKind",
    "ParameterError",
    "Params",
    "Placement",
    "PptraceError",
    "Report",
    "Schedule",
    "ScheduleError",
    "Simulation",
    "Sizes",
    "Span",
    "Timeline",
    "Transfer",
    "Values",
    "__version__",
    "build",
    "names",
    "simulate",
    "simulate_schedule",
    "values",
]


def __getattr__(name: str) -> object:
    for module, public in _HOMES.items():
        if name in public:
            return getattr(import_module(f"pptrace.{module}"), name)
    message = f"module 'pptrace' has no attribute {name!r}"
    raise AttributeError(message)


def __dir__() -> list[str]:
    return sorted(__all__)
