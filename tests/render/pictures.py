"""Short ways to a report and to the lines of its sections."""

from __future__ import annotations

from fractions import Fraction
from textwrap import dedent
from typing import TYPE_CHECKING, Any

from pptrace.analysis.report import Report
from pptrace.costs import Costs, values
from pptrace.render.options import RenderOptions
from pptrace.render.text import report_text
from pptrace.schedules.registry import Params, build
from pptrace.schedules.updates import with_updates
from pptrace.timeline import simulate_schedule

if TYPE_CHECKING:
    from pptrace.model import Schedule

EQUAL = Costs(values(1), values(1))
SPLIT = Costs(values(1), values(2), values(1))


def costs(f: Any, b: Any, w: Any = None, c: Any = 0, **others: Any) -> Costs:
    half = Fraction(b) / 2 if w is None else Fraction(w)
    return Costs(values(f), values(b), values(half), comm=(Fraction(c),), **others)


def report_of(schedule: Schedule, cost: Costs = EQUAL, steps: int = 1) -> Report:
    return Report(simulate_schedule(with_updates(schedule, steps), cost))


def report(name: str, ranks: int, microbatches: int, cost: Costs = EQUAL, steps: int = 1, **params: Any) -> Report:
    return report_of(build(name, Params(ranks, microbatches, **params)), cost, steps)


def section(found: Report, name: str, **options: Any) -> str:
    return report_text(found, RenderOptions(sections=(name,), **options))


def picture(text: str) -> str:
    """An expected picture as it is written in a test."""
    return dedent(text).lstrip("\n")
