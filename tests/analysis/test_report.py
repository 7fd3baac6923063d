"""What a report says of one timeline: metrics with their denominators, peaks, phases, idle time by cause, closed forms."""

from __future__ import annotations

import json
from fractions import Fraction

import golden_data
import pytest

from pptrace.analysis.report import Report
from pptrace.costs import Costs, values
from pptrace.model import Coder, Op, OpKind, Placement, Schedule
from pptrace.schedules.one_f_one_b import warmup_then_pairs
from pptrace.schedules.registry import Params, build
from pptrace.schedules.updates import with_updates
from pptrace.timeline import simulate_schedule

UNIT = Costs(values(1), values(1))
DOUBLE = Costs(values(1), values(2), values(1))
OP_UNITS = Costs(values(1, per="op"), values(1, per="op"), values("1/2", per="op"))


def report(name: str, num_ranks: int, num_microbatches: int, costs: Costs = UNIT, chunks: int | None = None) -> Report:
    return Report(simulate_schedule(build(name, Params(num_ranks, num_microbatches, chunks)), costs))


def order(*rows: str, num: int = 1) -> Schedule:
    ops = [[Op.parse(text) for text in row.split()] for row in rows]
    return Schedule.from_ops("s", Placement.loop(len(rows)), num, ops)


def ratio(found: Report, key: str) -> tuple[int, int, str]:
    """(numerator, denominator, what the denominator is), as printed."""
    metric = found.metrics[key]
    return (*metric.value, metric.denominator)


def numbers(found: Report, key: str) -> list[Fraction]:
    metric = found.metrics[key]
    unit = found.timeline.ticks_per_unit if metric.unit == "time" else 1
    return [Fraction(value.numerator, value.denominator * unit) for value in metric.values]


def peaks(found: Report) -> list[int]:
    return [peak.held for peak in found.memory.peaks]


def by_cause(found: Report) -> list[dict[str, Fraction]]:
    unit = found.timeline.ticks_per_unit
    return [{cause: Fraction(ticks, unit) for cause, ticks in parts.items() if ticks} for parts in found.idle.parts]


def verdict(found: Report, metric: str) -> tuple[str, tuple[str, ...]]:
    """What the first closed form of a metric comes to, and the conditions that fail."""
    form = next(form for form in found.closed_forms if form.metric == metric)
    return form.verdict, form.failing


def measured_stages() -> Costs:
    profile = json.loads(golden_data.text("inputs/profiled_8_stages.json"))
    full = [i + w for i, w in zip(profile["T_B"], profile["T_W"], strict=True)]
    return Costs(values(*profile["T_F"]), values(*full), values(*profile["T_W"]))


def test_every_metric_of_1f1b_with_four_ranks_and_microbatches() -> None:
    found = report("1f1b", 4, 4)
    assert numbers(found, "elapsed") == [14]
    assert numbers(found, "ideal") == [8, 8, 8, 8]
    assert numbers(found, "bubble_time") == [6, 6, 6, 6]
    assert ratio(found, "bubble_over_elapsed") == (6, 14, "elapsed")
    assert ratio(found, "bubble_over_ideal") == (6, 8, "ideal")
    assert ratio(found, "utilization") == (8, 14, "elapsed")
    assert ratio(found, "span_bubble_rate") == (6, 14, "longest rank span")
    assert numbers(found, "internal_idle") == [6, 4, 2, 0]
    assert numbers(found, "lower_bound") == [14]
    assert numbers(found, "peak_activations") == [4, 3, 2, 1]
    assert numbers(found, "exposed_comm") == [0]
    assert ratio(found, "throughput") == (4, 14, "elapsed")
    assert numbers(found, "busiest") == numbers(found, "balanced") == [8]


def test_every_metric_has_a_definition_and_every_ratio_a_denominator() -> None:
    for metric in report("1f1b", 4, 4).metrics.values():
        assert metric.label
        assert metric.definition
        assert bool(metric.denominator) == (metric.unit in ("ratio", "rate"))
        assert len(metric.values) == (4 if metric.per == "rank" else 1)


def test_ratios_are_totals_where_ranks_idle_unequally() -> None:
    """P=2 M=1, f = 1 and 3, b = 1 and 3: elapsed 8; the ranks run 2 and 6 of it."""
    found = report("1f1b", 2, 1, Costs(values(1, 3), values(1, 3)))
    assert numbers(found, "bubble_time") == [6, 2]
    assert ratio(found, "bubble_over_elapsed") == (8, 16, "ranks x elapsed")
    assert ratio(found, "bubble_over_ideal") == (8, 8, "busy time of all ranks")


def test_what_stage_0_holds_over_time() -> None:
    found = report("1f1b", 4, 4)
    curve = found.memory.held(0)
    strip = [[held for tick, held in curve if tick <= t][-1] for t in range(14)]
    assert strip == [1, 2, 3, 4, 4, 4, 4, 4, 3, 3, 2, 2, 1, 1]
    peak = found.memory.peaks[0]
    assert (peak.at, peak.owners) == (3, ((0, 0, 0), (0, 1, 0), (0, 2, 0), (0, 3, 0)))
    assert found.memory.bound == 4


def test_gpipe_holds_everything_everywhere() -> None:
    assert peaks(report("gpipe", 4, 4)) == [4, 4, 4, 4]
    assert peaks(report("gpipe", 8, 32)) == [32] * 8
    assert peaks(report("1f1b", 8, 32)) == [8, 7, 6, 5, 4, 3, 2, 1]


def test_a_longer_warmup_holds_more_for_the_same_time() -> None:
    """1f1b P4 M8 f=b=1: warm-ups of P-r instead of P-1-r hold 5 4 3 2 for the same 22."""
    coder = Coder(4, 8)
    orders = [warmup_then_pairs(coder.run(OpKind.F, r), coder.run(OpKind.B, r), 4 - r) for r in range(4)]
    longer = Report(simulate_schedule(Schedule("s", Placement.loop(4), 8, orders), UNIT))
    assert (numbers(longer, "elapsed"), peaks(longer)) == ([22], [5, 4, 3, 2])
    usual = report("1f1b", 4, 8)
    assert (numbers(usual, "elapsed"), peaks(usual)) == ([22], [4, 3, 2, 1])


def test_lifetimes_belong_to_a_stage_and_a_microbatch() -> None:
    found = report("1f1b", 2, 2).lifetimes
    assert [(x.kind, x.stage, x.microbatch, x.start, x.end) for x in found] == [
        ("activation", 0, 0, 0, 4),
        ("activation", 0, 1, 1, 6),
        ("activation", 1, 0, 1, 3),
        ("activation", 1, 1, 3, 5),
    ]


def test_a_split_activation_shrinks_at_i_and_ends_at_w() -> None:
    (found,) = Report(simulate_schedule(order("0F0 0I0 0W0"), DOUBLE)).lifetimes
    assert (found.start, found.shrinks, found.end) == (0, 2, 3)


def test_what_nothing_releases_lives_to_the_end() -> None:
    found = Report(simulate_schedule(order("0F0 0F1 0B1", num=2), UNIT)).lifetimes
    assert [(x.microbatch, x.start, x.end, x.released_by) for x in found] == [(0, 0, 3, -1), (1, 1, 3, 2)]


@pytest.mark.parametrize(
    ("name", "num_ranks", "num_microbatches", "costs", "chunks", "elapsed", "over_elapsed", "over_ideal"),
    [
        ("1f1b", 4, 8, DOUBLE, None, 33, (9, 33), (9, 24)),
        ("zb-h1", 4, 8, DOUBLE, None, 27, (3, 27), (3, 24)),
        ("gpipe", 8, 32, UNIT, None, 78, (14, 78), (14, 64)),
        ("1f1b", 8, 32, UNIT, None, 78, (14, 78), (14, 64)),
        ("interleaved", 4, 4, OP_UNITS, 2, 22, (6, 22), (6, 16)),
        ("1f1b", 8, 1, DOUBLE, None, 24, (21, 24), (21, 3)),
        ("1f1b", 8, 2, DOUBLE, None, 27, (21, 27), (21, 6)),
        ("1f1b", 2, 1, DOUBLE, None, 6, (3, 6), (3, 3)),
        ("1f1b", 1, 1, UNIT, None, 2, (0, 2), (0, 2)),
    ],
)
def test_both_denominators(
    name: str,
    num_ranks: int,
    num_microbatches: int,
    costs: Costs,
    chunks: int | None,
    elapsed: int,
    over_elapsed: tuple[int, int],
    over_ideal: tuple[int, int],
) -> None:
    found = report(name, num_ranks, num_microbatches, costs, chunks)
    unit = found.timeline.ticks_per_unit
    assert numbers(found, "elapsed") == [elapsed]
    for key, (numerator, denominator) in (("bubble_over_elapsed", over_elapsed), ("bubble_over_ideal", over_ideal)):
        assert found.metrics[key].value == (numerator * unit, denominator * unit)


@pytest.mark.parametrize(("num_microbatches", "wanted"), [(32, (7, 39)), (16, (7, 23)), (8, (7, 15))])
def test_larger_microbatches_of_a_fixed_batch_make_the_bubble_larger(
    num_microbatches: int, wanted: tuple[int, int]
) -> None:
    assert numbers(report("1f1b", 8, num_microbatches), "bubble_over_elapsed") == [Fraction(*wanted)]


@pytest.mark.parametrize(
    ("name", "num_ranks", "num_microbatches", "costs", "chunks", "wanted"),
    [
        ("1f1b", 8, 32, UNIT, None, 78),  # a claim of 71 is impossible
        ("gpipe", 8, 32, UNIT, None, 78),
        ("interleaved", 4, 3, OP_UNITS, 2, 20),
        ("1f1b", 1, 5, DOUBLE, None, 15),
        ("1f1b", 5, 1, UNIT._replace(comm=(Fraction(2),)), None, 26),  # 5 x 2, and 8 hops of 2
    ],
)
def test_no_order_takes_less(
    name: str, num_ranks: int, num_microbatches: int, costs: Costs, chunks: int | None, wanted: int
) -> None:
    assert numbers(report(name, num_ranks, num_microbatches, costs, chunks), "lower_bound") == [wanted]


def test_phases_of_every_rank_and_of_the_pipeline() -> None:
    phases = report("1f1b", 4, 4).phases
    assert [(rank.warmup, rank.steady, rank.cooldown) for rank in phases.ranks] == [
        (4, 0, 4),
        (3, 2, 3),
        (2, 4, 2),
        (1, 6, 1),
    ]
    assert (phases.warmup_until, phases.drain_from) == (4, 10)


def test_phases_with_fewer_microbatches_than_ranks() -> None:
    phases = report("1f1b", 4, 2).phases
    assert [(rank.warmup, rank.steady, rank.cooldown) for rank in phases.ranks] == [
        (2, 0, 2),
        (2, 0, 2),
        (2, 0, 2),
        (1, 2, 1),
    ]
    one = report("gpipe", 3, 1).phases
    assert [(rank.warmup, rank.steady, rank.cooldown) for rank in one.ranks] == [(1, 0, 1)] * 3


def test_every_idle_unit_has_a_cause() -> None:
    assert by_cause(report("1f1b", 4, 4)) == [
        {"wait-backward": 6},
        {"fill": 1, "wait-backward": 4, "drain": 1},
        {"fill": 2, "wait-backward": 2, "drain": 2},
        {"fill": 3, "drain": 3},
    ]


def test_the_part_of_a_wait_in_which_the_message_flies_is_communication() -> None:
    """1f1b P2 M2 c=1: rank 0 waits from 2 to 5 for a gradient that leaves at 4, then from 6 to 7 for one in flight."""
    found = report("1f1b", 2, 2, UNIT._replace(comm=(Fraction(1),)))
    assert by_cause(found) == [{"wait-backward": 2, "exposed communication": 2}, {"fill": 2, "drain": 2}]
    assert found.idle.budget == {
        "imbalance": 0,
        "exposed communication": 4,
        "schedule": 4,
        "chosen delay": 0,
        "total": 8,
    }
    assert numbers(found, "exposed_comm") == [2]


def test_a_message_that_waits_for_its_link() -> None:
    """Rank 1 takes microbatch 2 before 1: its message is produced at 3, leaves behind that of 1 at 5, and is there at 7."""
    costs = UNIT._replace(comm=(Fraction(2),), link="serial")
    found = Report(simulate_schedule(order("0F0 0F1 0F2", "1F0 1F2 1F1", num=3), costs))
    assert by_cause(found)[1] == {"fill": 3, "head-of-line": 1, "exposed communication": 2}


def test_time_between_two_steps_is_the_barrier() -> None:
    """P2 M1, reduce 3, step 1: rank 0 updates from 4 to 8, rank 1 from 3 to 8 and then waits for the next forward."""
    schedule = with_updates(build("1f1b", Params(2, 1)), 2)
    found = Report(simulate_schedule(schedule, UNIT._replace(reduce=Fraction(3), step_time=Fraction(1))))
    assert by_cause(found) == [
        {"barrier": 4, "wait-backward": 4},
        {"fill": 1, "wait-forward": 1, "barrier": 5, "drain": 1},
    ]
    assert numbers(found, "step_time") == [4]
    assert numbers(found, "elapsed") == [12]


def test_eight_measured_stages() -> None:
    found = report("1f1b", 8, 32, measured_stages())
    rank_time = 8 * 4171470
    assert numbers(found, "elapsed") == [4171470]
    assert numbers(found, "busiest") == [3623744]
    assert numbers(found, "balanced") == [2643872]
    budget = found.idle.budget
    assert round(Fraction(100 * budget["total"], rank_time), 2) == Fraction("36.62")
    assert round(Fraction(100 * budget["imbalance"], rank_time), 2) == Fraction("23.49")
    assert round(Fraction(100 * budget["schedule"], rank_time), 2) == Fraction("13.13")
    assert budget["exposed communication"] == budget["chosen delay"] == 0


def test_eight_measured_stages_with_their_latency() -> None:
    found = report("1f1b", 8, 32, measured_stages()._replace(comm=(Fraction(473),)))
    budget, rank_time = found.idle.budget, 8 * 4178092
    assert numbers(found, "elapsed") == [4178092]
    shares = {cause: round(Fraction(100 * ticks, rank_time), 2) for cause, ticks in budget.items()}
    assert shares == {
        "imbalance": Fraction("23.45"),
        "exposed communication": Fraction("0.16"),
        "schedule": Fraction("13.11"),
        "chosen delay": 0,
        "total": Fraction("36.72"),
    }


def test_the_closed_form_says_why_it_does_not_hold_for_measured_stages() -> None:
    found = report("1f1b", 8, 32, measured_stages())
    assert verdict(found, "peak_activations") == ("agrees", ())
    elapsed = next(form for form in found.closed_forms if form.metric == "elapsed")
    assert elapsed.verdict == "does not apply"
    assert "equal stages (f from 28850 to 41678)" in elapsed.failing
    assert elapsed.claimed == ()


def test_68_hops_are_exposed() -> None:
    costs = Costs(values(29850), values(48635), values(18868), comm=(Fraction(466),))
    found = report("1f1b", 8, 32, costs)
    assert numbers(found, "elapsed") == [3092603]
    assert numbers(found, "exposed_comm") == [68 * 466]
    assert verdict(found, "elapsed") == ("agrees", ())


def test_a_condition_of_a_closed_form_that_fails_is_named() -> None:
    """eager-1f1b hides latency only while 2c <= f+b."""
    hidden = report("eager-1f1b", 4, 8, UNIT._replace(comm=(Fraction(1),)))
    assert verdict(hidden, "elapsed") == ("agrees", ())
    assert numbers(hidden, "elapsed") == [28]
    seen = report("eager-1f1b", 4, 8, UNIT._replace(comm=(Fraction(3, 2),)))
    assert verdict(seen, "elapsed") == ("does not apply", ("2c <= f+b",))
    elapsed = next(form for form in seen.closed_forms if form.metric == "elapsed")
    assert elapsed.claimed == (31,)
    assert elapsed.traced[0] > 31


def test_another_order_under_a_registered_name_is_found_out() -> None:
    schedule = build("gpipe", Params(2, 3))
    renamed = Schedule("1f1b", schedule.placement, 3, [schedule.codes[:6], schedule.codes[6:]])
    forms = Report(simulate_schedule(renamed, UNIT)).closed_forms
    assert {form.failing for form in forms} == {("the order is that of 1f1b (here it is another under its name)",)}


def test_a_last_stage_with_a_head_is_the_slowest() -> None:
    """BLOOM: 70 layers on 12 ranks as 5, 6 x 10, 5, the head as long as 1.42 layers: 7 % over the others."""
    layers = [5, *[6] * 10, "6.42"]
    found = report("1f1b", 12, 24, Costs(values(*layers), values(*layers)))
    ideal = numbers(found, "ideal")
    assert ideal.index(max(ideal)) == 11
    assert max(ideal) / sorted(ideal)[-2] == Fraction("1.07")
    assert numbers(found, "busiest") == [ideal[11]]


def test_an_empty_rank_is_idle_all_the_time() -> None:
    schedule = Schedule.from_ops("s", Placement("file", (0,), 2), 1, [[Op(0, OpKind.F, 0), Op(0, OpKind.B, 0)], []])
    found = Report(simulate_schedule(schedule, UNIT))
    assert numbers(found, "bubble_time") == [0, 2]
    assert peaks(found) == [1, 0]
    assert by_cause(found)[1] == {"fill": 2}


def test_the_header_says_what_the_numbers_rest_on() -> None:
    found = report("1f1b", 4, 4)
    assert found.headline == ("1f1b (flush)", "P=4 ranks  M=4 microbatches", "f=1 b=1 per microbatch and rank   c=0")
    assert found.assumptions[0] == "stage s on rank s"
    assert "messages take no time; one op at a time on a rank" in found.assumptions
    for word in ("memory pressure", "overlap", "kernel effects"):
        assert word in found.omitted
