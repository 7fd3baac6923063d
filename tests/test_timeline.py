"""The engine: when every op starts. Figures drawn by hand, messages, deadlocks, pairs, updates, and real input."""

from __future__ import annotations

import json
from fractions import Fraction

import framework_orders
import golden_data
import pytest
import timed_facts

from pptrace.costs import Costs, Values, values
from pptrace.deadlock import DeadlockError
from pptrace.errors import ScheduleError
from pptrace.model import Op, Placement, Schedule
from pptrace.schedules.registry import Params, build
from pptrace.schedules.updates import with_updates
from pptrace.timeline import Timeline, Transfer, simulate_schedule

UNIT = Costs(values(1), values(1))


def order(*rows: str, placement: Placement | None = None, num: int = 1, **options) -> Schedule:
    """A schedule from rows such as "0F0 0B0"."""
    ops = [[Op.parse(text) for text in row.split()] for row in rows]
    return Schedule.from_ops("s", placement or Placement.loop(len(rows)), num, ops, **options)


def drawn(timeline: Timeline) -> list[str]:
    """A row per rank, a word per time unit: kind and microbatch, or a dot. Ops last one unit."""
    width = max(timeline.ends) // timeline.ticks_per_unit
    rows = []
    for rank in range(timeline.schedule.num_ranks):
        row = ["."] * width
        for span in timeline.spans(rank):
            row[span.start // timeline.ticks_per_unit] = f"{span.op.kind.name}{span.op.microbatch}"
        rows.append(" ".join(row))
    return rows


def times(timeline: Timeline) -> dict[str, tuple[Fraction, Fraction]]:
    unit = timeline.ticks_per_unit
    return {str(span.op): (Fraction(span.start, unit), Fraction(span.end, unit)) for span in timeline}


def elapsed(name: str, num_ranks: int, num_microbatches: int, costs: Costs) -> Fraction:
    return timed_facts.facts(simulate_schedule(build(name, Params(num_ranks, num_microbatches)), costs)).makespan


def test_the_four_stage_figure() -> None:
    timeline = simulate_schedule(build("1f1b", Params(4, 4)), UNIT)
    assert drawn(timeline) == [
        "F0 F1 F2 F3 . . . B0 . B1 . B2 . B3",
        ". F0 F1 F2 . . B0 F3 B1 . B2 . B3 .",
        ". . F0 F1 . B0 F2 B1 F3 B2 . B3 . .",
        ". . . F0 B0 F1 B1 F2 B2 F3 B3 . . .",
    ]
    facts = timed_facts.facts(timeline)
    assert (facts.makespan, facts.busy, facts.idle, facts.inner_idle) == (14, [8] * 4, [6] * 4, [6, 4, 2, 0])
    assert timed_facts.peaks(timeline) == [4, 3, 2, 1]


def test_gpipe_takes_as_long_and_holds_more() -> None:
    timeline = simulate_schedule(build("gpipe", Params(4, 4)), UNIT)
    assert drawn(timeline) == [
        "F0 F1 F2 F3 . . . . . . B0 B1 B2 B3",
        ". F0 F1 F2 F3 . . . . B0 B1 B2 B3 .",
        ". . F0 F1 F2 F3 . . B0 B1 B2 B3 . .",
        ". . . F0 F1 F2 F3 B0 B1 B2 B3 . . .",
    ]
    assert timed_facts.peaks(timeline) == [4, 4, 4, 4]


def test_the_two_stage_figure() -> None:
    assert drawn(simulate_schedule(build("1f1b", Params(2, 4)), UNIT)) == [
        "F0 F1 . B0 F2 B1 F3 B2 . B3",
        ". F0 B0 F1 B1 F2 B2 F3 B3 .",
    ]


@pytest.mark.parametrize(
    ("name", "num_ranks", "num_microbatches", "f", "b", "wanted"),
    [
        ("1f1b", 1, 1, 1, 1, 2),
        ("1f1b", 1, 5, 1, 2, 15),
        ("1f1b", 2, 1, 1, 2, 6),
        ("1f1b", 4, 8, 1, 2, 33),
        ("gpipe", 4, 8, 1, 2, 33),
        ("eager-1f1b", 4, 8, 1, 2, 33),
        ("gpipe", 8, 32, 1, 1, 78),
        ("1f1b", 8, 32, 1, 1, 78),
        ("1f1b", 8, 1, 1, 2, 24),
        ("1f1b", 8, 2, 1, 2, 27),
        ("gpipe", 4, 3, 1, 2, 18),
        ("1f1b", 4, 3, 1, 2, 18),
        ("naive", 3, 2, 1, 2, 18),
    ],
)
def test_elapsed(name: str, num_ranks: int, num_microbatches: int, f: int, b: int, wanted: int) -> None:
    assert elapsed(name, num_ranks, num_microbatches, Costs(values(f), values(b))) == wanted


def test_fewer_microbatches_than_ranks() -> None:
    timeline = simulate_schedule(build("1f1b", Params(8, 2)), Costs(values(1), values(2)))
    assert timed_facts.peaks(timeline) == [2, 2, 2, 2, 2, 2, 2, 1]


def test_a_message_travels_and_does_not_occupy_its_rank() -> None:
    timeline = simulate_schedule(build("1f1b", Params(2, 2)), UNIT._replace(comm=(Fraction(1),)))
    assert drawn(timeline) == ["F0 F1 . . . B0 . B1", ". . F0 B0 F1 B1 . ."]
    assert timeline.transfers() == [
        Transfer(0, 0, 1, produced=1, departure=1, arrival=2),
        Transfer(1, 0, 1, produced=2, departure=2, arrival=3),
        Transfer(5, 1, 0, produced=4, departure=4, arrival=5),
        Transfer(7, 1, 0, produced=6, departure=6, arrival=7),
    ]


def test_without_latency_there_are_no_transfers() -> None:
    timeline = simulate_schedule(build("1f1b", Params(2, 2)), UNIT)
    assert timeline.transfers() == []
    assert timeline.arrivals is timeline.ends


def test_nothing_travels_at_the_turn_of_a_v() -> None:
    schedule = order("0F0 3F0 3B0 0B0", "1F0 2F0 2B0 1B0", placement=Placement.zigzag(2))
    timeline = simulate_schedule(schedule, Costs(values(2), values(2), comm=(Fraction(1),)))
    assert times(timeline)["2F0"] == (3, 4)  # 0F0 0-1, 1F0 2-3, 2F0 on the same rank at once
    assert times(timeline)["3F0"] == (5, 6)
    assert times(timeline)["0B0"] == (11, 12)  # 3B0 6-7, 2B0 8-9, 1B0 9-10, its gradient there at 11


def test_serial_links_send_one_message_at_a_time() -> None:
    """gpipe P=2 M=3, f=b=1, c=2: the messages are produced at 1, 2, 3 and leave at 1, 3, 5."""
    schedule = build("gpipe", Params(2, 3))
    costs = UNIT._replace(comm=(Fraction(2),))
    assert timed_facts.facts(simulate_schedule(schedule, costs)).makespan == 12
    timeline = simulate_schedule(schedule, costs._replace(link="serial"))
    assert drawn(timeline) == [
        "F0 F1 F2 . . . . . . . . B0 . B1 . B2",
        ". . . F0 . F1 . F2 B0 B1 B2 . . . . .",
    ]
    assert timeline.transfers() == [
        Transfer(0, 0, 1, produced=1, departure=1, arrival=3),
        Transfer(1, 0, 1, produced=2, departure=3, arrival=5),
        Transfer(2, 0, 1, produced=3, departure=5, arrival=7),
        Transfer(9, 1, 0, produced=9, departure=9, arrival=11),
        Transfer(10, 1, 0, produced=10, departure=11, arrival=13),
        Transfer(11, 1, 0, produced=11, departure=13, arrival=15),
    ]


def test_the_two_directions_of_a_serial_link_do_not_meet() -> None:
    """1f1b P=2 M=2, c=1: never two messages at once in one direction, so serial costs nothing."""
    costs = UNIT._replace(comm=(Fraction(1),))
    schedule = build("1f1b", Params(2, 2))
    serial = simulate_schedule(schedule, costs._replace(link="serial"))
    assert serial.starts == simulate_schedule(schedule, costs).starts
    assert serial.departures == {}


def test_a_deadlock_is_a_cycle_of_named_ops() -> None:
    schedule = order("0F0 0B0 0F1 0B1", "1F0 1F1 1B0 1B1", "2F0 2B0 2F1 2B1", num=2)
    with pytest.raises(DeadlockError) as caught:
        simulate_schedule(schedule, UNIT)
    assert str(caught.value) == ("deadlock: rank 0: 0B0 waits for 1B0 of rank 1; rank 1: 1F1 waits for 0F1 of rank 0")
    assert {rank: str(op) for rank, op in caught.value.next_ops.items()} == {0: "0B0", 1: "1F1", 2: "2F1"}


def test_a_rank_can_wait_for_itself() -> None:
    schedule = order("1F0 0F0", placement=Placement.loop(1, 2))
    with pytest.raises(DeadlockError, match="rank 0: 1F0 waits for 0F0, which comes later in the same list"):
        simulate_schedule(schedule, UNIT)


def test_pairs_of_two_ranks_can_wait_for_each_other() -> None:
    """Two pairs, each with the input of the other: one block each, so that neither starts."""
    rows = ("0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1")
    schedule = order(*rows, num=2, pairs=[(0, 1), (1, 1)])
    with pytest.raises(DeadlockError) as caught:
        simulate_schedule(schedule, UNIT)
    assert str(caught.value) == "deadlock: rank 0: 0B0 waits for 1B0 of rank 1; rank 1: 1F1 waits for 0F1 of rank 0"
    assert timed_facts.facts(simulate_schedule(schedule, UNIT._replace(overlap="split"))).makespan == 6


def test_a_doubled_or_missing_op_is_refused() -> None:
    with pytest.raises(ScheduleError, match="0F0 occurs twice"):
        simulate_schedule(order("0F0 0F0"), UNIT)
    with pytest.raises(ScheduleError, match="1F0 needs the output of 0F0, which is in no rank's list"):
        simulate_schedule(order("", "1F0"), UNIT)


def test_a_rank_may_have_nothing_to_do() -> None:
    schedule = order("0F0 1F0 1B0 0B0", "", placement=Placement("file", (0, 0), 2))
    assert max(simulate_schedule(schedule, Costs(values(2), values(2))).ends) == 4
    assert list(simulate_schedule(order("")).ends) == []


@pytest.mark.parametrize(
    ("overlap", "pair", "end"),
    [
        ("sum", (1, 4), 6),
        ("max", (1, 3), 5),
        (Fraction(5, 2), (1, Fraction(7, 2)), Fraction(11, 2)),
    ],
)
def test_a_pair_is_one_block(overlap: str | Fraction, pair: tuple[int, int], end: int) -> None:
    """P=1, f=1 b=2: 0F0, then (0F1;0B0), then 0B1."""
    schedule = order("0F0 0F1 0B0 0B1", num=2, pairs=[(0, 1)])
    found = times(simulate_schedule(schedule, Costs(values(1), values(2), overlap=overlap)))
    assert (found["0F1"], found["0B0"], found["0B1"][1]) == (pair, pair, end)


def test_a_pair_waits_for_both_inputs_unless_it_is_split() -> None:
    rows = ("0F0 0F1 0F2 0B0 0B1 0B2", "1F0 1B0 1F1 1B1 1F2 1B2")
    schedule = order(*rows, num=3, pairs=[(0, 2)])
    block = times(simulate_schedule(schedule, UNIT))
    assert (block["1B0"], block["0F2"], block["0B0"]) == ((2, 3), (3, 5), (3, 5))
    apart = times(simulate_schedule(schedule, UNIT._replace(overlap="split")))
    assert (apart["0F2"], apart["0B0"]) == ((2, 3), (3, 4))


@pytest.mark.parametrize("row", ["0F0 0B0", "0B0 0F0", "0F0 0I0"])
def test_a_pair_cannot_join_an_op_with_what_it_waits_for(row: str) -> None:
    schedule = order(row, pairs=[(0, 0)])
    with pytest.raises((ScheduleError, DeadlockError)) as caught:
        simulate_schedule(schedule, UNIT)
    assert len(str(caught.value).splitlines()) == 1


def test_a_pair_that_holds_its_own_input_says_so() -> None:
    with pytest.raises(ScheduleError) as caught:
        simulate_schedule(order("0F0 0B0", pairs=[(0, 0)]), UNIT)
    assert str(caught.value) == (
        "rank 0: 0F0 and 0B0 are one overlapped pair, but one waits for the other; "
        "take them apart, or use --overlap split"
    )
    assert max(simulate_schedule(order("0F0 0B0", pairs=[(0, 0)]), UNIT._replace(overlap="split")).ends) == 2


def test_recomputation_in_time() -> None:
    """P=2 M=1, f=1 b=2: late, R waits for the gradient; early, it fills the wait."""
    rows = ("0F0 0R0 0B0", "1F0 1R0 1B0")
    late = times(simulate_schedule(order(*rows), Costs(values(1), values(2))))
    early = times(simulate_schedule(order(*rows, early_recompute=True), Costs(values(1), values(2))))
    assert (late["1B0"], late["0R0"], late["0B0"]) == ((3, 5), (5, 6), (6, 8))
    assert (early["1B0"], early["0R0"], early["0B0"]) == ((3, 5), (1, 2), (5, 7))


def test_no_step_before_every_gradient_is_reduced() -> None:
    """P=2 M=1, f=b=1, reduce 3, step 1: rank 1 is done at 6 and waits for rank 0 until 7, unless a stage steps alone."""
    schedule = build("1f1b", Params(2, 1))
    costs = UNIT._replace(reduce=Fraction(3), step_time=Fraction(1))
    joint = times(simulate_schedule(with_updates(schedule, 2), costs))
    assert (joint["0REDUCE"], joint["1REDUCE"]) == ((4, 7), (3, 6))
    assert (joint["0STEP"], joint["1STEP"]) == ((7, 8), (7, 8))
    assert joint["0F0@1"] == (8, 9)
    alone = times(simulate_schedule(with_updates(schedule, 2, joint=False), costs))
    assert (alone["0STEP"], alone["1STEP"]) == ((7, 8), (6, 7))


def test_gathered_gradients_make_no_hop_of_their_own() -> None:
    """Two-way P=2 M=2: each REDUCE starts when both copies' backwards have ended, not when a message has arrived."""
    schedule = order("0F0 1F1 1B1 0B0", "0F1 1F0 1B0 0B1", placement=Placement.two_way(2), num=2)
    found = times(simulate_schedule(with_updates(schedule), UNIT._replace(comm=(Fraction(10),))))
    assert (found["1B1"], found["0B0"]) == ((12, 13), (23, 24))  # both ranks alike; a gradient is there at 23
    assert found["1REDUCE"] == (24, 24)
    assert found["0REDUCE"] == (24, 24)


def test_two_copies_in_opposite_directions() -> None:
    schedule = order("0F0 1F1 1B1 0B0", "0F1 1F0 1B0 0B1", placement=Placement.two_way(2), num=2)
    assert drawn(simulate_schedule(schedule, UNIT)) == ["F0 F1 B1 B0", "F1 F0 B0 B1"]


def test_unequal_ranks_and_microbatches() -> None:
    """P=2 M=2, f = 1 on rank 0 and 3 on rank 1, b = 2, microbatch 1 half as long."""
    costs = Costs(Values((Fraction(1), Fraction(3))), values(2), microbatch_scale=(Fraction(1), Fraction(1, 2)))
    found = times(simulate_schedule(build("gpipe", Params(2, 2)), costs))
    assert found["0F1"] == (1, Fraction(3, 2))
    assert found["1F0"] == (1, 4)
    assert found["1F1"] == (4, Fraction(11, 2))
    assert found["1B1"] == (Fraction(15, 2), Fraction(17, 2))
    assert found["0B0"] == (Fraction(15, 2), Fraction(19, 2))
    assert found["0B1"] == (Fraction(19, 2), Fraction(21, 2))


def test_spans_in_the_order_of_a_trace() -> None:
    timeline = simulate_schedule(build("1f1b", Params(2, 1)), UNIT)
    assert [str(timeline.schedule.op(position)) for position in timeline.in_time_order()] == [
        "0F0",
        "1F0",
        "1B0",
        "0B0",
    ]
    assert [(str(span.op), span.rank, span.start, span.end) for span in timeline] == [
        ("0F0", 0, 0, 1),
        ("0B0", 0, 3, 4),
        ("1F0", 1, 1, 2),
        ("1B0", 1, 2, 3),
    ]


def measured() -> Costs:
    profile = json.loads(golden_data.text("inputs/profiled_8_stages.json"))
    halves = zip(profile["T_B"], profile["T_W"], strict=True)
    return Costs(values(*profile["T_F"]), values(*(i + w for i, w in halves)), values(*profile["T_W"]))


def test_eight_measured_stages() -> None:
    costs = measured()
    timeline = simulate_schedule(build("1f1b", Params(8, 32)), costs)
    facts = timed_facts.facts(timeline)
    assert facts.makespan == 4171470
    assert max(facts.busy) == 3623744
    assert sum(facts.busy) == 8 * 2643872
    assert elapsed("1f1b", 8, 32, costs._replace(comm=(Fraction(473),))) == 4178092


def test_hops_that_are_not_hidden() -> None:
    """68 hops are exposed, 2 x (7 + 31 - 4), not the 14 of one microbatch there and back."""
    costs = Costs(values(29850), values(48635), values(18868))
    assert elapsed("1f1b", 8, 32, costs) == 3060915
    assert elapsed("1f1b", 8, 32, costs._replace(comm=(Fraction(466),))) == 3092603 == 3060915 + 68 * 466


@pytest.mark.parametrize(
    ("path", "placement", "overlap", "makespan", "idle", "peak"),
    [
        ("pytorch_dualpipev_4rank_10mb.csv", Placement.zigzag(4), "sum", 66, 6, 9),
        ("pytorch_dualpipev_4rank_10mb.csv", Placement.zigzag(4), "split", 63, 3, 9),
        ("torchtitan_custom_schedule_2rank_4stage_8mb.csv", Placement.loop(2, 2), "sum", 50, 2, 16),
    ],
)
def test_real_files(path: str, placement: Placement, overlap: str, makespan: int, idle: int, peak: int) -> None:
    schedule = framework_orders.torch_csv(f"inputs/schedules/{path}").schedule(placement)
    costs = Costs(values(1, per="op"), values(2, per="op"), values(1, per="op"), overlap=overlap)
    timeline = simulate_schedule(schedule, costs)
    facts = timed_facts.facts(timeline)
    assert (facts.makespan, set(facts.idle), set(timed_facts.peaks(timeline))) == (makespan, {idle}, {peak})


def test_a_rank_without_stages_beside_pairs_of_a_given_length() -> None:
    """Rank 1 holds nothing; on rank 0, which holds both stages, a pair lasts 6 / 2."""
    ops = [[Op.parse(text) for text in ["0F0", "1F0", "1B0", "0F1", "0B0", "1F1", "1B1", "0B1"]], []]
    schedule = Schedule.from_ops("lopsided", Placement("written", [0, 0], 2), 2, ops, pairs=[(0, 3)])
    found = simulate_schedule(schedule, Costs(values(2), values(2), values(1), overlap=Fraction(6)))
    assert list(found.ends)[3:5] == [6, 6]
