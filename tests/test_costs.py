"""The duration rule, the checks on costs, and the one scaling to whole ticks."""

from __future__ import annotations

from fractions import Fraction

import pytest

from pptrace.costs import Costs, Values, check_costs, hop_latency, link_latency, values
from pptrace.durations import durations
from pptrace.errors import ParameterError
from pptrace.model import Op, OpKind, Placement, Schedule
from pptrace.schedules.registry import Params, build
from pptrace.schedules.updates import with_updates

F, B, I, W = OpKind.F, OpKind.B, OpKind.I, OpKind.W  # noqa: E741
UNEVEN = Placement("file", (0, 0, 1), 2)


def refused(costs: Costs, placement: Placement, num_microbatches: int = 4) -> str:
    with pytest.raises(ParameterError) as caught:
        check_costs(costs, placement, num_microbatches)
    return str(caught.value)


def test_a_cost_per_rank_is_shared_by_the_stages_of_the_rank() -> None:
    costs = Costs(values(2), values(4), values(1))
    assert costs.op_time(F, Placement.loop(4, 2), 5, 1) == 1
    assert costs.op_time(B, Placement.loop(4, 2), 5, 1) == 2
    assert costs.op_time(I, Placement.loop(4), 1, 1) == 3
    assert costs.op_time(W, Placement.loop(4, 2), 1, 1) == Fraction(1, 2)
    assert costs.op_time(F, UNEVEN, 0, 0) == 1
    assert costs.op_time(F, UNEVEN, 2, 1) == 2


def test_two_copies_take_the_value_itself() -> None:
    assert Costs(values(2)).op_time(F, Placement.two_way(4), 0, 3) == 2


def test_a_recomputation_takes_as_long_as_its_forward() -> None:
    assert Costs(values(3), values(5)).op_time(OpKind.R, Placement.loop(2), 0, 0) == 3


def test_a_cost_per_op_is_not_shared() -> None:
    assert Costs(values(2, per="op")).op_time(F, Placement.loop(4, 2), 5, 1) == 2


def test_lists_are_read_by_rank_or_by_stage() -> None:
    loop = Placement.loop(2, 2)
    assert Values((Fraction(1), Fraction(3)), "rank").of_op(loop, 3, 1) == Fraction(3, 2)
    assert Values((Fraction(1), Fraction(3)), "op").of_op(loop, 2, 0) == 1
    assert values(1, 2, 3, 4, per="stage").of_op(loop, 3, 1) == 4


def test_equal_is_the_one_value() -> None:
    assert values(2, 2).equal == 2
    assert values(2, 3).equal is None
    assert values("3/2", 2).text() == "1.5,2"


def test_reduce_and_step_are_shared_like_a_cost_per_rank() -> None:
    costs = Costs(reduce=Fraction(3), step_time=Fraction(1))
    assert costs.op_time(OpKind.REDUCE, Placement.loop(2, 3), 4, 0) == 1
    assert costs.op_time(OpKind.STEP, Placement.loop(2), 1, 1) == 1


def test_how_long_a_pair_lasts() -> None:
    loop = Placement.zigzag(4)
    assert Costs(overlap="sum").fixed_pair_time(loop, 0) is None
    assert Costs(overlap="max").fixed_pair_time(loop, 0) is None
    assert Costs(overlap=Fraction(5)).fixed_pair_time(loop, 0) == Fraction(5, 2)
    assert Costs(values(1, per="op"), overlap=Fraction(5)).fixed_pair_time(loop, 0) == 5


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        (
            Costs(values(1, 2, 3)),
            "-f (forward) has 3 values for 4 ranks; give one number, or one per rank",
        ),
        (
            Costs(backward=values(1, 2, per="stage")),
            "-b (backward) has 2 values for 4 stages; give one number, or one per stage",
        ),
        (Costs(Values(())), "-f (forward) has 0 values for 4 ranks; give one number, or one per rank"),
        (Costs(values(0)), "-f (forward) must be more than zero, got 0"),
        (Costs(values(1, 1, -1, 1)), "-f (forward) must be more than zero, got -1"),
        (Costs(backward=values(0)), "-b (backward) must be more than zero, got 0"),
        (Costs(weight_grad=values("-1/3")), "-w (weight_grad) must be zero or more, got -1/3"),
        (Costs(comm=(Fraction(-1),)), "-c (comm) must be zero or more, got -1"),
        (
            Costs(comm=(Fraction(1), Fraction(2))),
            "-c (comm) has 2 values; give one number, or one per link between neighbouring ranks (3 here)",
        ),
        (Costs(reduce=Fraction(-1)), "--reduce must be zero or more, got -1"),
        (Costs(step_time=Fraction(-1, 2)), "--step-time must be zero or more, got -0.5"),
        (Costs(overlap=Fraction(0)), "--overlap must be sum, max, split or a number above zero, got 0"),
        (Costs(overlap="both"), "--overlap must be sum, max, split or a number above zero, got 'both'"),
        (Costs(link="fast"), "--link must be latency, serial or blocking, got 'fast'"),
        (Costs(microbatch_scale=(Fraction(1),)), "microbatch_scale has 1 values for 4 microbatches"),
        (Costs(microbatch_scale=(Fraction(0),) * 4), "microbatch_scale must be more than zero, got 0"),
    ],
)
def test_costs_that_cannot_be_used(costs: Costs, message: str) -> None:
    assert refused(costs, Placement.loop(4)) == message


def test_the_full_backward_is_more_than_its_half() -> None:
    """A zero-bubble paper's reader gives -b 1 -w 1 and means the halves."""
    costs = Costs(values(1), values(1), values(1))
    wanted = "stage 0: w = 1 is not less than b = 1; -b is the full backward (I+W); did you mean -b 2?"
    assert refused(costs, Placement.loop(2)) == wanted
    assert refused(costs, Placement.loop(2, 3)) == wanted
    per_op = Costs(*(values(1, per="op"),) * 3)
    assert refused(per_op, Placement.loop(2, 3)) == wanted


def test_the_first_stage_with_too_large_a_half_is_named() -> None:
    costs = Costs(values(1), values(2, 2, "3/2"), values(1, 1, "7/4"))
    assert refused(costs, Placement.loop(3)).startswith("stage 2: w = 1.75 is not less than b = 1.5;")


def test_no_weight_gradient_at_all_is_fine() -> None:
    check_costs(Costs(weight_grad=values(0)), Placement.loop(2), 1)


def test_how_many_links_there_are() -> None:
    five = Costs(comm=(Fraction(1),) * 5)
    assert refused(five, Placement.loop(4)).endswith("(3 here)")
    assert refused(five, Placement.loop(4, 2)).endswith("(4 here)"), "the loop's last link counts"
    assert refused(five, Placement.zigzag(4)).endswith("(3 here)"), "a V has no last link"
    assert refused(five, Placement.zigzag(2)).endswith("(1 here)")
    assert refused(five, Placement.loop(2, 2)).endswith("(2 here)")
    assert refused(five, Placement.loop(1)).endswith("(1 here)")
    assert refused(five, Placement.two_way(4)).endswith("(3 here)")


def test_a_latency_per_link() -> None:
    costs = Costs(comm=tuple(map(Fraction, (1, 2, 3, 4))))
    loop = Placement.loop(4, 2)
    assert [hop_latency(costs, loop, stage) for stage in range(7)] == [1, 2, 3, 4, 1, 2, 3]
    v = Placement.zigzag(3)
    assert [hop_latency(Costs(comm=(Fraction(1), Fraction(2))), v, stage) for stage in range(5)] == [1, 2, 0, 2, 1]
    up = Placement.two_way(4)
    three = Costs(comm=tuple(map(Fraction, (1, 2, 3))))
    assert [hop_latency(three, up, stage) for stage in range(3)] == [1, 2, 3]
    assert [hop_latency(three, up, stage, up=True) for stage in range(3)] == [3, 2, 1]


def test_the_two_links_of_a_loop_on_two_ranks() -> None:
    costs = Costs(comm=(Fraction(1), Fraction(5)))
    assert [hop_latency(costs, Placement.loop(2, 2), stage) for stage in range(3)] == [1, 5, 1]


def test_nothing_travels_inside_a_rank() -> None:
    assert link_latency(Costs(comm=(Fraction(9),)), Placement.zigzag(2), 1, 1) == 0


def test_links_between_ranks_that_are_not_neighbours() -> None:
    odd = Placement("file", (0, 2, 1), 3)
    costs = Costs(comm=(Fraction(1), Fraction(2), Fraction(3)))
    with pytest.raises(ParameterError, match="stages on ranks 0 and 2 exchange messages; give one number"):
        hop_latency(costs, odd, 0)
    assert hop_latency(Costs(comm=(Fraction(7),)), odd, 0) == 7


def test_ticks_are_the_largest_unit_that_divides_everything() -> None:
    timing = durations(build("1f1b", Params(2, 1)), Costs(values("1/2"), values("2/3"), values("1/3")))
    assert timing.ticks_per_unit == 6
    assert timing.ticks == [3, 4, 3, 4]  # rank by rank: F, B
    assert timing.latencies is None


def test_latencies_belong_to_what_travels() -> None:
    timing = durations(build("1f1b", Params(2, 1)), Costs(comm=(Fraction(5),)))
    assert timing.latencies == [5, 0, 0, 5]  # 0F0 travels, 0B0 does not; 1F0 does not, 1B0 travels


def test_microbatches_of_unequal_size() -> None:
    scale = (Fraction(1), Fraction(1, 2), Fraction(3))
    timing = durations(build("gpipe", Params(1, 3)), Costs(values(1), values(2), microbatch_scale=scale))
    assert timing.ticks_per_unit == 2
    assert timing.ticks == [2, 1, 6, 4, 2, 12]


def test_an_update_keeps_its_own_fraction_beside_scaled_microbatches() -> None:
    """Microbatches of 3/2 x 2 are whole, a REDUCE of 4/3 is not: ticks of a third."""
    schedule = with_updates(build("gpipe", Params(1, 1)))
    costs = Costs(values("3/2"), values(3), reduce=Fraction(4, 3), microbatch_scale=(Fraction(2),))
    timing = durations(schedule, costs)
    assert (timing.ticks, timing.ticks_per_unit) == ([9, 18, 4, 0], 3)


def test_both_ops_of_a_pair_carry_the_block() -> None:
    ops = [Op(0, F, 0), Op(0, F, 1), Op(0, B, 0), Op(0, B, 1)]
    schedule = Schedule.from_ops("s", Placement.loop(1), 2, [ops], pairs=[(0, 1)])
    assert durations(schedule, Costs(values(1), values(2), overlap="sum")).ticks == [1, 3, 3, 2]
    assert durations(schedule, Costs(values(1), values(2), overlap="split")).ticks == [1, 1, 2, 2]


def test_times_stay_below_2_to_the_53() -> None:
    schedule = build("gpipe", Params(1, 1))
    most = 2**53 - 1
    assert sum(durations(schedule, Costs(values(1), values(most - 1))).ticks) == most
    with pytest.raises(ParameterError, match=r"with ticks of 1/1 the times would pass 2\^53; use durations \(f=1 b="):
        durations(schedule, Costs(values(1), values(most)))


def test_a_tick_of_thousands_of_digits_is_not_printed() -> None:
    """One number of 30 digits per rank: their common denominator has more digits than Python prints."""
    ranks = 200
    tiny = tuple(Fraction(1, 10**29 + 2 * rank + 1) for rank in range(ranks))
    with pytest.raises(ParameterError) as caught:
        durations(build("gpipe", Params(ranks, 1)), Costs(Values(tiny), values(1)))
    assert str(caught.value).startswith(
        "with ticks that divide them all the times would pass 2^53; use durations (f=1/1"
    )
    assert len(str(caught.value)) < 300
