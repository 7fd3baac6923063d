"""Times that cannot be, and delays that need not be."""

from __future__ import annotations

from array import array
from fractions import Fraction

from faults import only, report

from pptrace.check.checker import CheckOptions, check
from pptrace.costs import Costs, values
from pptrace.formats import text_grid
from pptrace.schedules.registry import Params, build
from pptrace.timeline import Timeline, simulate_schedule

LIFO_GRID = "\n".join(
    [
        "F0 F1 F2 F3 " + ". " * 10 + "B3 B2 B1 B0",
        ". F0 F1 F2 F3 " + ". " * 6 + "B3 B2 B1 B0 . . .",
        ". . F0 F1 F2 F3 . . . B3 B2 B1 B0 . . . . .",
        ". . . F0 F1 F2 F3 B3 B2 B1 B0 . . . . . . .",
    ]
)


def moved(timeline, **shifts):
    """The timeline with some ops moved by ticks, as if it had been measured."""
    starts, ends = array("q", timeline.starts), array("q", timeline.ends)
    for position in range(timeline.schedule.num_ops):
        shift = shifts.get("_" + str(timeline.schedule.op(position)), 0)
        starts[position] += shift
        ends[position] += shift
    return Timeline(
        timeline.schedule,
        timeline.costs,
        timeline.dependencies,
        starts,
        ends,
        ends,
        timeline.ticks_per_unit,
        measured=True,
    )


def test_a_lifo_gpipe_grid_with_dots_of_its_own():
    """cases.md: elapsed 18, the same order could take 14; chosen delays 2B3 +1, 1B3 +1, 0B3 +2."""
    finding = only(text_grid.read(LIFO_GRID.encode()))
    assert (finding.code, finding.severity) == ("chosen-delay", "advice")
    assert finding.sentence == (
        "3 ops start later than possible: 2B3 +1, 1B3 +1, 0B3 +2; elapsed 18, the same order could take 14"
    )


def test_what_was_simulated_is_clean():
    for name in ("1f1b", "zb-h1", "dualpipev"):
        schedule = build(name, Params(2, 4))
        costs = Costs(forward=values(1), backward=values(2), weight_grad=values(1), comm=(Fraction(1, 3),))
        assert check(simulate_schedule(schedule, costs)).findings == ()


def test_an_op_before_its_input():
    timeline = simulate_schedule(build("gpipe", Params(2, 2)))
    finding = only(moved(timeline, _1F0=-1))
    assert finding.code == "starts-too-early"
    assert finding.sentence == "1F0 starts at 0, before 0F0, which it waits for, ends at 1"


def test_an_op_before_its_message_arrives():
    timeline = simulate_schedule(build("gpipe", Params(2, 1)), Costs(comm=(Fraction(2),)))
    timeline.starts[2] -= 1
    timeline.ends[2] -= 1
    assert str(timeline.schedule.op(2)) == "1F0"
    assert only(timeline).sentence == "1F0 starts at 2, before 0F0, which it waits for, arrives at 3"


def test_a_tolerance_forgives_so_much_and_no_more():
    timeline = simulate_schedule(build("gpipe", Params(2, 1)), Costs(forward=values(10), backward=values(10)))
    early = moved(timeline, _1F0=-2)
    assert [f.code for f in check(early, CheckOptions(tolerance=2, advice=False)).findings] == []
    assert [f.code for f in check(early, CheckOptions(tolerance=Fraction(19, 10))).findings] == ["starts-too-early"]


def test_two_ops_at_once_on_a_rank():
    timeline = simulate_schedule(build("gpipe", Params(1, 2)), Costs(forward=values(2)))
    finding = only(moved(timeline, _0F1=-1))
    assert finding.code == "overlap-on-rank"
    assert finding.sentence == "0F1 starts at 1, while 0F0 runs until 2"


def test_an_overlapped_pair_is_no_overlap():
    timeline = simulate_schedule(build("dualpipev", Params(2, 4)))
    timeline.measured = True
    assert [f.code for f in check(timeline).findings] == []


def test_a_late_op_is_advice_and_can_be_left_out():
    timeline = moved(simulate_schedule(build("naive", Params(2, 1))), _0B0=5)
    assert only(timeline).sentence == "1 op starts later than possible: 0B0 +5; elapsed 9, the same order could take 4"
    assert report(timeline, advice=False).findings == ()


def test_a_longer_op_in_a_grid_is_as_long_as_the_way_to_the_next():
    """1f1b P2 M2 with b=2, as `show` draws it: nothing starts too early, nothing is late."""
    early = b"F0 F1 .  B0 B0 .  .  B1 B1\n.  F0 B0 B0 F1 B1 B1 .  ."
    assert report(text_grid.read(b"F0 F1 .  .  B0 B0 .  B1 B1\n.  F0 B0 B0 F1 B1 B1 .  .")).findings == ()
    assert only(text_grid.read(early)).sentence == "0B0 starts at 3, before 1B0, which it waits for, ends at 4"
