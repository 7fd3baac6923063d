"""Advice on legal parameters that waste time: the registry names parameters worth comparing with, the traces decide.

It owns the comparison only; what is illegal is refused by the schedule, what hangs is reported by the engine.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from pptrace.analysis.closed_forms import params_of
from pptrace.analysis.work import work
from pptrace.errors import PptraceError
from pptrace.rationals import text_of
from pptrace.schedules.registry import REGISTRY, build, entry
from pptrace.schedules.transforms import recompute, split_backward
from pptrace.timeline import simulate_schedule

if TYPE_CHECKING:
    from pptrace.model import Schedule
    from pptrace.timeline import Timeline


def advice(timeline: Timeline) -> str:
    """One sentence that names better parameters and what they save with the same costs; empty where there are none.

    For simulated timelines of registered schedules, one optimizer step; empty for others.
    """
    schedule = timeline.schedule
    if timeline.measured or schedule.num_steps > 1 or not isinstance(schedule.options.get("group"), int):
        return ""
    if schedule.name not in REGISTRY:
        return ""
    found = entry(schedule.name)
    params = found.better(params_of(schedule)) if found.better else None
    if params is None:
        return ""
    try:
        other = _as(schedule, build(schedule.name, params, max_ops=max(schedule.num_ops, 1)))
    except PptraceError:  # a file under a registered name, with sizes that the schedule does not take
        return ""
    saved = work(timeline).elapsed - work(simulate_schedule(other, timeline.costs)).elapsed
    if saved <= 0:
        return ""
    saving = text_of(Fraction(saved, timeline.ticks_per_unit))
    return f"groups of {other.options['group']} save {saving}: leave --group out"


def _as(schedule: Schedule, built: Schedule) -> Schedule:
    """`built` with the transforms that `schedule` has been through."""
    if "split_backward" in schedule.options:
        built = split_backward(built)
    if "recompute" in schedule.options:
        built = recompute(built, early=schedule.early_recompute)
    return built
