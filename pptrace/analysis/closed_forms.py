"""Closed forms beside traced figures: "agrees", or the assumption that fails. A formula never replaces a traced number.

The registry's entries state the formulas and their own conditions; the conditions that all of them share (equal stages,
one step, ops as early as they can be, the registered order itself) are checked here.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from pptrace.errors import LimitError, PptraceError
from pptrace.model import OpKind
from pptrace.rationals import text_of
from pptrace.schedules.registry import DEFAULT_MAX_OPS, REGISTRY, Claim, EqualCosts, Params, build, entry
from pptrace.schedules.updates import with_updates

if TYPE_CHECKING:
    from pptrace.analysis.metrics import Metric
    from pptrace.costs import Values
    from pptrace.model import Placement, Schedule
    from pptrace.timeline import Timeline

_SPLIT = (OpKind.I, OpKind.W)
AGREES = "agrees"
NOT_HERE = "does not apply"
DIFFERS = "differs"


class Comparison(NamedTuple):
    """One closed form and the traced values of the same metric, both in units of time (or counts).

    `verdict` is "agrees", "does not apply" (`failing` names the conditions that fail; `claimed` is then what the formula
    would give, or empty where it cannot be evaluated), or "differs": the formula's conditions hold and it is wrong.
    """

    metric: str
    formula: str
    claimed: tuple[Fraction, ...]
    traced: tuple[Fraction, ...]
    verdict: str
    failing: tuple[str, ...] = ()


def closed_forms(timeline: Timeline, found: dict[str, Metric], *, soonest: bool) -> list[Comparison]:
    """Every closed form that the registry has for this schedule's name, compared with the trace.

    `soonest` says whether all ops start as early as they can. Empty for schedules that are not registered.
    """
    schedule = timeline.schedule
    if schedule.name not in REGISTRY:
        return []
    params = params_of(schedule)
    costs, unequal = equal_costs(timeline)
    costs, unequal_sizes = _with_sizes(costs, timeline)
    order = _differing_order(schedule, params)
    timing = [
        *unequal,
        *(
            []
            if schedule.num_steps == 1 or schedule.asynchronous
            else [f"one optimizer step (here {schedule.num_steps})"]
        ),
        *([] if soonest else ["every op starts as early as it can"]),
        *([] if timeline.costs.link == "latency" else [f"messages do not contend (here --link {timeline.costs.link})"]),
    ]
    compared = []
    for claim in entry(schedule.name).claims(params, costs):
        failing = order if claim.of_order else [*timing, *order]
        evaluated = claim.of_order or claim.of_sizes or not unequal
        if claim.metric == "peak_activation_bytes":
            failing, evaluated = [*unequal_sizes, *failing], not unequal_sizes
        compared.append(_compare(claim, timeline, found, failing, evaluated=evaluated))
    return compared


def params_of(schedule: Schedule) -> Params:
    """The parameters that the schedule was built from, read from its sizes and options.

    Options may come from a file: those that no builder writes are left out.
    """
    group, order = schedule.options.get("group"), schedule.options.get("order")
    return Params(
        schedule.num_ranks,
        schedule.num_microbatches,
        schedule.num_chunks,
        group=group if isinstance(group, int) else None,
        order=order if isinstance(order, str) else None,
        num_steps=schedule.num_steps,
    )


def equal_costs(timeline: Timeline) -> tuple[EqualCosts, list[str]]:
    """(costs of one microbatch on one rank, sentences that say what is unequal); the costs are those of the first rank where
    they are unequal, and then not to be believed."""
    costs, placement = timeline.costs, timeline.schedule.placement
    failing = []
    numbers = {}
    for name, values in (("f", costs.forward), ("b", costs.backward), ("w", costs.weight_grad)):
        least, equal = _on_a_rank(values, placement)
        numbers[name] = least * min(costs.microbatch_scale, default=1)
        relevant = name != "w" or timeline.schedule.kinds() & set(_SPLIT)
        if relevant and not equal:
            failing.append(f"equal stages ({name} from {_span(values)})")
    if len(set(costs.comm)) > 1:
        failing.append("equal links (c differs)")
    if len(set(costs.microbatch_scale)) > 1:
        failing.append("equal microbatches (microbatch_scale differs)")
    overlap = costs.overlap
    if isinstance(overlap, Fraction) and costs.forward.per != "rank":
        overlap *= placement.stages_per_rank(0)
    return EqualCosts(**numbers, c=costs.comm[0], overlap=overlap, update=costs.reduce + costs.step_time), failing


def _with_sizes(costs: EqualCosts, timeline: Timeline) -> tuple[EqualCosts, list[str]]:
    """`costs` with M_B and M_W where sizes are given, and a sentence for each of the two that is not the same on all ranks."""
    sizes, placement = timeline.costs.sizes, timeline.schedule.placement
    if sizes is None or sizes.activation is None:
        return costs, []
    kept = sizes.after_input or sizes.activation
    whole, equal_whole = _on_a_rank(sizes.activation, placement)
    rest, equal_rest = _on_a_rank(kept, placement)
    unequal = [] if equal_whole else [f"equal activations (M_B from {_span(sizes.activation)})"]
    unequal += [] if equal_rest or not equal_whole else [f"equal activations (M_W from {_span(kept)})"]
    return costs._replace(activation=whole, kept_for_w=rest), unequal


def _on_a_rank(values: Values, placement: Placement) -> tuple[Fraction, bool]:
    """What one microbatch has on one rank (the least of the ranks), and whether all ranks and all their ops are alike."""
    on_ranks: set[Fraction] = set()
    of_ops: set[Fraction] = set()
    for rank in range(placement.num_ranks):
        shares = [values.of_op(placement, stage, rank) for stage in placement.stages(rank)]
        of_ops.update(share * placement.stages_per_rank(rank) for share in shares)
        copies = 2 if placement.bidirectional and len(shares) > 1 else 1
        on_ranks.add(sum(shares, Fraction(0)) / copies)
    return min(on_ranks), len(on_ranks) == 1 and len(of_ops) <= 1


def _span(values: Values) -> str:
    if len(values.numbers) == 1:
        return f"{text_of(values.numbers[0])}, on ranks with unequal numbers of stages"
    return f"{text_of(min(values.numbers))} to {text_of(max(values.numbers))}"


def _differing_order(schedule: Schedule, params: Params) -> list[str]:
    """Why the order is not the registered one: a transform that was asked for, or another order under its name."""
    changed = [
        text
        for option, text in (
            ("split_backward", "full backwards (here --split-backward)"),
            ("recompute", f"no recomputation (here --recompute {schedule.options.get('recompute')})"),
        )
        if option in schedule.options
    ]
    if changed:
        return changed
    limit = max(
        DEFAULT_MAX_OPS, 4 * schedule.num_ops
    )  # a file may give a name and sizes that make far more than it holds
    try:
        built = build(schedule.name, params, max_ops=limit)
        if not schedule.asynchronous:
            built = with_updates(built, schedule.num_steps, max_ops=limit)
    except LimitError:
        return [f"the order is that of {schedule.name} (here it is too long to compare)"]
    except PptraceError:
        return [f"the order is that of {schedule.name} (here the sizes are not)"]
    if _compute_codes(built) != _compute_codes(schedule):
        return [f"the order is that of {schedule.name} (here it is another under its name)"]
    return []


def _compute_codes(schedule: Schedule) -> list[list[int]]:
    block = schedule.num_stages * schedule.num_microbatches * schedule.num_steps
    first_boundary = OpKind.REDUCE * block
    return [
        [code for code in schedule.codes[first:last] if code < first_boundary]
        for first, last in zip(schedule.rank_starts, schedule.rank_starts[1:], strict=False)
    ]


def _compare(
    claim: Claim, timeline: Timeline, found: dict[str, Metric], shared: list[str], *, evaluated: bool
) -> Comparison:
    metric = found[claim.metric]
    scale = 1 if metric.unit != "time" else timeline.ticks_per_unit
    traced = tuple(Fraction(value.numerator, value.denominator * scale) for value in metric.values)
    if claim.largest:
        traced = (max(traced),)
    claimed = tuple(claim.values) if evaluated else ()
    if len(claimed) == 1 < len(traced):
        claimed *= len(traced)
    failing = (*shared, *(condition.text for condition in claim.conditions if not condition.holds and evaluated))
    if failing:
        return Comparison(claim.metric, claim.formula, claimed, traced, NOT_HERE, failing)
    return Comparison(claim.metric, claim.formula, claimed, traced, AGREES if claimed == traced else DIFFERS)
