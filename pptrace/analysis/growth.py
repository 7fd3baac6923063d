"""How the figures of a registered schedule change with its number of microbatches, and with what its closed forms rest on. Each
answer is a whole report of its own, simulated anew: nothing is read off a formula."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from pptrace.analysis.closed_forms import equal_costs, params_of
from pptrace.analysis.difference import compute_codes
from pptrace.analysis.report import Report
from pptrace.costs import Costs, Values
from pptrace.errors import PptraceError
from pptrace.model import OpKind
from pptrace.rationals import text_of
from pptrace.recipes import Recipe, make_schedule
from pptrace.schedules.registry import REGISTRY
from pptrace.timeline import simulate_schedule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pptrace.model import Schedule
    from pptrace.timeline import Timeline

MOST_OPS = 100_000
"""A schedule with more ops than this is not simulated once more."""

_FACTORS = (Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4), Fraction(8))


class Grown(NamedTuple):
    """The schedule with another number of microbatches. `same_size`: ops take the time they took, so that the global batch
    grows with M. `same_batch`: the global batch stays, so that a microbatch shrinks, and with it the time of every op, in
    proportion; latencies stay."""

    microbatches: int
    same_size: Report
    same_batch: Report


class WhatIf(NamedTuple):
    """One thing that is changed, in words, and the report of what then happens."""

    change: str
    report: Report


def growth(report: Report) -> tuple[Grown, ...]:
    """The schedule with a quarter to eight times its microbatches, its own number among them, ascending.

    Empty where the order is not that of a registered schedule, microbatches are unequal, or the times were read; sizes that
    the schedule refuses, or that have more than `MOST_OPS` ops, are left out.
    """
    if report.timeline.measured or report.costs.microbatch_scale:
        return ()
    own, costs = report.schedule.num_microbatches, report.costs
    found = []
    for factor in _FACTORS:
        count = own * factor
        if count.denominator != 1:
            continue
        again = _timed(report.timeline, costs, int(count))
        shrunk = _timed(report.timeline, _scaled(costs, 1 / factor), int(count))
        if again is not None and shrunk is not None:
            found.append(Grown(int(count), again, shrunk))
    return tuple(found) if len(found) > 1 else ()


def what_ifs(report: Report) -> tuple[WhatIf, ...]:
    """The schedule with one of its assumptions changed at a time: latency, unequal stages, few microbatches, the share of W.

    Empty as `growth` is.
    """
    if report.timeline.measured or report.costs.microbatch_scale:
        return ()
    found = []
    for change, costs, count in _changes(report.timeline):
        other = _timed(report.timeline, costs, count)
        if other is not None:
            found.append(WhatIf(change, other))
    return tuple(found)


def _changes(timeline: Timeline) -> Iterator[tuple[str, Costs, int]]:
    schedule, costs = timeline.schedule, timeline.costs
    num, num_ranks = schedule.num_microbatches, schedule.num_ranks
    equal, unequal = equal_costs(timeline)
    if num_ranks > 1:
        if costs.has_communication:
            yield "no latency: c = 0", costs.without_communication(), num
        else:
            latency = min(equal.f, equal.b) / 2
            yield f"latency: c = {text_of(latency)}", costs._replace(comm=(latency,)), num
        if unequal:
            yield "every stage takes the mean", _per_stage(timeline, mean=True), num
        else:
            yield "the last stage takes twice as long", _per_stage(timeline, mean=False), num
    if num_ranks > 2 and num >= num_ranks:
        yield f"fewer microbatches than ranks: M = {num_ranks - 1}", costs, num_ranks - 1
    elif num < 2 * num_ranks:
        yield f"more microbatches: M = {2 * num_ranks}", costs, 2 * num_ranks
    if schedule.kinds() & {OpKind.I, OpKind.W} and not unequal and equal.w * 4 < equal.b * 3:
        share = costs.backward._replace(numbers=tuple(number * 3 / 4 for number in costs.backward.numbers))
        yield "W takes three quarters of the backward", costs._replace(weight_grad=share), num


def _per_stage(timeline: Timeline, *, mean: bool) -> Costs:
    """The costs with one value per stage: all the mean, or the last one doubled."""
    costs, placement = timeline.costs, timeline.schedule.placement

    def changed(values: Values) -> Values:
        times = [values.of_op(placement, stage, rank) for stage, rank in enumerate(placement.ranks)]
        if mean:
            times = [sum(times, Fraction(0)) / len(times)] * len(times)
        else:
            times[-1] *= 2
        return Values(tuple(times), "stage")

    overlap = costs.overlap
    if isinstance(overlap, Fraction) and costs.forward.per == "rank":  # a number is read as forward is
        overlap /= placement.stages_per_rank(0)
    return costs._replace(
        forward=changed(costs.forward),
        backward=changed(costs.backward),
        weight_grad=changed(costs.weight_grad),
        overlap=overlap,
        source="",
    )


def _scaled(costs: Costs, factor: Fraction) -> Costs:
    def scaled(values: Values) -> Values:
        return values._replace(numbers=tuple(number * factor for number in values.numbers))

    overlap = costs.overlap * factor if isinstance(costs.overlap, Fraction) else costs.overlap
    return costs._replace(
        forward=scaled(costs.forward),
        backward=scaled(costs.backward),
        weight_grad=scaled(costs.weight_grad),
        overlap=overlap,
    )


def _timed(timeline: Timeline, costs: Costs, num_microbatches: int) -> Report | None:
    """The report of the same schedule with these costs and microbatches; None where there is none."""
    schedule = timeline.schedule
    if schedule.num_ops * num_microbatches > MOST_OPS * schedule.num_microbatches:
        return None
    try:
        other = _rebuilt(schedule, num_microbatches)
        return None if other is None else Report(simulate_schedule(other, costs))
    except PptraceError:  # the schedule refuses these sizes, or the costs these times
        return None


def _rebuilt(schedule: Schedule, num_microbatches: int) -> Schedule | None:
    """The registered schedule of this name with another M; None where this order is not the registered one. Groups that are
    the default ones follow M, groups that were asked for stay."""
    if schedule.name not in REGISTRY:
        return None
    params = params_of(schedule)
    recompute = "early" if schedule.early_recompute else "full"
    for group in (None, params.group):
        recipe = Recipe(
            schedule.name,
            params._replace(group=group),
            split_backward="split_backward" in schedule.options,
            recompute=recompute if "recompute" in schedule.options else "",
            joint_update=schedule.joint_update,
        )
        again = make_schedule(recipe)
        if all(compute_codes(again, rank) == compute_codes(schedule, rank) for rank in range(schedule.num_ranks)):
            if num_microbatches == schedule.num_microbatches:
                return schedule
            return make_schedule(recipe._replace(params=recipe.params._replace(num_microbatches=num_microbatches)))
    return None
