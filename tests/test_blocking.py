"""Blocking messages, against timelines drawn by hand: a message holds both its ranks, opposite ones are one exchange."""

from __future__ import annotations

from fractions import Fraction

import pytest

from pptrace.analysis.report import Report
from pptrace.costs import Costs, values
from pptrace.deadlock import DeadlockError
from pptrace.model import Op, OpKind, Placement, Schedule
from pptrace.schedules.registry import Params, build
from pptrace.schedules.updates import with_updates
from pptrace.timeline import simulate_schedule


def blocking(c, b=1):
    return Costs(backward=values(b), weight_grad=values(Fraction(b, 2)), comm=(Fraction(c),), link="blocking")


def spans(timeline):
    return [
        [(str(span.op), span.start, span.end) for span in timeline.spans(rank)]
        for rank in range(timeline.schedule.num_ranks)
    ]


def test_one_microbatch_pays_every_hop():
    """1f1b P2 M1: F0, c, F0, B0, c, B0."""
    timeline = simulate_schedule(build("1f1b", Params(2, 1)), blocking(1))
    assert spans(timeline) == [[("0F0", 0, 1), ("0B0", 5, 6)], [("1F0", 2, 3), ("1B0", 3, 4)]]


def test_opposite_messages_are_one_exchange():
    """1f1b P2 M2, c=1: rank 0 has F1 to send from 3 on, rank 1 has B0 to send from 4 on: one exchange in [4, 5)."""
    timeline = simulate_schedule(build("1f1b", Params(2, 2)), blocking(1))
    assert spans(timeline) == [
        [("0F0", 0, 1), ("0F1", 2, 3), ("0B0", 5, 6), ("0B1", 8, 9)],
        [("1F0", 2, 3), ("1B0", 3, 4), ("1F1", 5, 6), ("1B1", 6, 7)],
    ]
    sent = [(t.sender, t.receiver, t.produced, t.departure, t.arrival) for t in timeline.transfers()]
    assert sent == [(0, 1, 1, 1, 2), (0, 1, 3, 4, 5), (1, 0, 4, 4, 5), (1, 0, 7, 7, 8)]


def test_a_sender_is_held_until_its_message_is_taken():
    """gpipe P2 M2, f=1, stage 1 twice as slow, c=1: rank 0 cannot start B0 before F1 is taken at 4."""
    costs = Costs(forward=values(1, 2), backward=values(1), comm=(Fraction(1),), link="blocking")
    timeline = simulate_schedule(build("gpipe", Params(2, 2)), costs)
    #  rank 0 |F0 .  F1 .  .  .  .  .  B0 .  B1      F0 0-1, message 1-2, F1 2-3, message 4-5 (rank 1 runs F0 2-4)
    #  rank 1 |.  .  F0 F0 .  F1 F1 B0 .  B1 .       F1 5-7, B0 7-8, message 8-9, B1 9-10, message 10-11
    assert spans(timeline) == [
        [("0F0", 0, 1), ("0F1", 2, 3), ("0B0", 9, 10), ("0B1", 11, 12)],
        [("1F0", 2, 4), ("1F1", 5, 7), ("1B0", 7, 8), ("1B1", 9, 10)],
    ]


def test_a_rank_sends_before_it_receives():
    """gpipe P3 M2, c=1: at 3 rank 1 can send F0 on and take F1; it sends first."""
    timeline = simulate_schedule(build("gpipe", Params(3, 2)), blocking(1))
    leaving = {str(timeline.schedule.op(t.position)): t.departure for t in timeline.transfers()}
    assert (leaving["1F0"], leaving["0F1"]) == (3, 4)


def test_without_latency_1f1b_loses_nothing():
    """The exchanges of 1f1b are where both ranks come together anyway: P4 M4, f=b=1 takes 14 as in DESIGN."""
    assert (
        Report(simulate_schedule(build("1f1b", Params(4, 4)), blocking(0))).metrics["elapsed"].values[0].numerator == 14
    )


def test_a_ring_of_sends_does_not_block_itself():
    """Three ranks that each send to the next and receive from the one before: due together, so each goes in turn."""
    placement = Placement("ring", [0, 1, 2, 0, 1, 2], 3)
    orders = [
        [Op(stage, OpKind.F, microbatch) for stage in (rank, rank + 3) for microbatch in (0, 1)] for rank in range(3)
    ]
    schedule = Schedule.from_ops("ring", placement, 2, orders)
    timeline = simulate_schedule(schedule, Costs(comm=(Fraction(1),), link="blocking"))
    assert len(timeline.transfers()) == 10


def test_two_ranks_that_both_send_first_are_stuck():
    """zb-h2 P2 M4: rank 0 wants F3 taken before it takes the gradient of 2, rank 1 the other way round."""
    schedule = build("zb-h2", Params(2, 4))
    with pytest.raises(DeadlockError) as caught:
        simulate_schedule(schedule, blocking(1, b=2))
    assert [(wait.rank, str(wait.op)) for wait in caught.value.cycle] == [(0, "0F3"), (1, "1I2")]


def test_updates_and_idle_time_add_up():
    schedule = with_updates(build("1f1b", Params(4, 8)), 2)
    report = Report(simulate_schedule(schedule, blocking(1)))
    elapsed = report.metrics["elapsed"].values[0].numerator
    for rank, parts in enumerate(report.idle.parts):
        assert sum(parts.values()) == elapsed - 2 * 8 * 2, rank
        assert parts["chosen delay"] == 0


def test_a_message_that_waits_for_a_held_rank_is_communication_not_a_line_on_a_link():
    """1f1b P4 M4, c = 1: stage 1 ends F0 at 3, sends it until 4 and only then takes F1, done at 3: idle from 3 to 5."""
    report = Report(simulate_schedule(build("1f1b", Params(4, 4)), blocking(1)))
    found = [(slot.start, slot.end, slot.cause) for slot in report.idle.slots if slot.rank == 1 and 3 <= slot.start < 5]
    assert found == [(3, 5, "exposed communication")]
    assert all(parts["head-of-line"] == 0 for parts in report.idle.parts)
