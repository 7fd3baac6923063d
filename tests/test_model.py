"""Ops and their text, placements, the flat schedule and its codes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pptrace.errors import ParameterError, ScheduleError
from pptrace.model import Coder, Op, OpKind, Placement, Schedule, positive

F, B, I, W = OpKind.F, OpKind.B, OpKind.I, OpKind.W  # noqa: E741


@pytest.mark.parametrize(
    ("text", "op"),
    [
        ("2F0", Op(2, F, 0)),
        ("0B17", Op(0, B, 17)),
        ("3I2@1", Op(3, I, 2, 1)),
        ("10SEND_F3", Op(10, OpKind.SEND_F, 3)),
        ("3REDUCE_GRAD", Op(3, OpKind.REDUCE_GRAD, None)),
        ("1UNSHARD", Op(1, OpKind.UNSHARD, None)),
        ("0REDUCE", Op(0, OpKind.REDUCE, None)),
        ("0STEP4@2", Op(0, OpKind.STEP, 4, 2)),
    ],
)
def test_text_of_an_op_and_back(text: str, op: Op) -> None:
    assert Op.parse(text) == op
    assert str(op) == text


@given(
    st.integers(0, 999_999_999), st.sampled_from([F, B, I, W, OpKind.R]), st.integers(0, 999_999_999), st.integers(0, 9)
)
def test_every_op_reads_back(stage: int, kind: OpKind, microbatch: int, step: int) -> None:
    op = Op(stage, kind, microbatch, step)
    assert Op.parse(str(op)) == op


@pytest.mark.parametrize(
    "text",
    [
        "",
        "F0",
        "-1F0",
        "2f0",
        "0F0junk",
        " 0F0",
        "0F0\n",
        "0X0",
        "0F0@",
        "0FF0",
        "1234567890F0",
        "٣F0",
        "0F-1",
        "0F1.5",
    ],
)
def test_what_is_not_an_op(text: str) -> None:
    with pytest.raises(ScheduleError, match="is not an op; an op is stage, kind, microbatch, for example 2F0"):
        Op.parse(text)


def test_ops_with_and_without_a_microbatch() -> None:
    with pytest.raises(ScheduleError, match="F needs a microbatch number"):
        Op.parse("0F")
    with pytest.raises(ScheduleError, match="UNSHARD takes no microbatch number"):
        Op.parse("0UNSHARD3")


def test_a_long_text_is_cut_and_escaped_in_the_message() -> None:
    with pytest.raises(ScheduleError) as caught:
        Op.parse("\x1b[31m" + "x" * 1000)
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 200


def test_loop_placement() -> None:
    loop = Placement.loop(4, 2)
    assert loop.ranks == (0, 1, 2, 3, 0, 1, 2, 3)
    assert loop.stages(1) == (1, 5)
    assert loop.stages_per_rank(1) == 2
    assert [loop.chunk_of(stage) for stage in range(8)] == [0, 0, 0, 0, 1, 1, 1, 1]


def test_v_placement_turns_on_the_last_rank() -> None:
    assert Placement.zigzag(3).ranks == (0, 1, 2, 2, 1, 0)
    assert Placement.zigzag(2, 4).ranks == (0, 1, 1, 0, 0, 1, 1, 0)
    assert Placement.zigzag(3).stages(0) == (0, 5)


def test_two_copies_run_in_opposite_directions() -> None:
    two = Placement.two_way(4)
    assert two.num_stages == 4
    assert two.stages(1) == (1, 2)
    assert two.stages_per_rank(1) == 1
    assert [two.rank_of(0, microbatch, 8) for microbatch in range(8)] == [0, 0, 0, 0, 3, 3, 3, 3]
    assert not Placement.loop(4).goes_up(7, 8)


def test_one_rank_and_one_microbatch() -> None:
    assert Placement.zigzag(1).ranks == (0, 0)
    assert Placement.two_way(1).stages(0) == (0,)
    schedule = Schedule.from_ops("s", Placement.loop(1), 1, [[Op(0, F, 0), Op(0, B, 0)]])
    assert (schedule.num_ranks, schedule.num_stages, schedule.num_chunks, schedule.num_ops) == (1, 1, 1, 2)


def test_placements_are_equal_by_what_they_place() -> None:
    assert Placement.loop(3) == Placement("file", (0, 1, 2), 3)
    assert hash(Placement.loop(3)) == hash(Placement("file", (0, 1, 2), 3))
    assert Placement.loop(4) != Placement.two_way(4)
    assert Placement.loop(4) != "loop"


def test_unequal_stages_per_rank() -> None:
    uneven = Placement("file", (0, 0, 1), 2)
    assert (uneven.stages_per_rank(0), uneven.stages_per_rank(1)) == (2, 1)
    schedule = Schedule.from_ops("s", uneven, 1, [[Op(0, F, 0), Op(1, F, 0)], [Op(2, F, 0)]])
    assert schedule.num_chunks == 2


def test_ops_are_kept_rank_by_rank() -> None:
    orders = [[Op(0, F, 0), Op(0, F, 1), Op(0, B, 0)], [Op(1, F, 0), Op(1, B, 0)]]
    schedule = Schedule.from_ops("s", Placement.loop(2), 2, orders, pairs=[(1, 0)])
    assert [schedule.order(rank) for rank in range(2)] == orders
    assert schedule.rank_starts == (0, 3, 5)
    assert [schedule.rank_at(position) for position in range(5)] == [0, 0, 0, 1, 1]
    assert str(schedule.op(2)) == "0B0"
    assert schedule.pairs == {3}
    assert schedule.kinds() == {F, B}


def test_a_rank_may_be_empty() -> None:
    schedule = Schedule.from_ops("s", Placement.loop(3), 1, [[Op(0, F, 0)], [], [Op(2, F, 0)]])
    assert schedule.order(1) == []
    assert [schedule.rank_at(position) for position in range(2)] == [0, 2]


def test_codes_of_a_kind_and_stage_are_a_run() -> None:
    coder = Coder(num_stages=3, num_microbatches=4, num_steps=2)
    run = coder.run(B, 2)
    assert [str(coder.op(code)) for code in run] == [
        "2B0", "2B1", "2B2", "2B3", "2B0@1", "2B1@1", "2B2@1", "2B3@1",
    ]  # fmt: skip
    assert coder.code_of(Op(2, B, 1, 1)) == run[5]


@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 3), st.data())
def test_codes_and_ops_are_inverse(stages: int, microbatches: int, steps: int, data: st.DataObject) -> None:
    coder = Coder(stages, microbatches, steps)
    code = data.draw(st.integers(0, 7 * stages * microbatches * steps - 1))
    assert coder.code_of(coder.op(code)) == code


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (Op(0, OpKind.SEND_F, 0), "rank 0, position 0: 0SEND_F0: SEND_F is a lowered op"),
        (Op(3, F, 0), "rank 0, position 0: 3F0: stage 3 is not one of 0..0"),
        (Op(0, F, 2), "rank 0, position 0: 0F2: microbatch 2 is not one of 0..1"),
        (Op(0, F, -1), "rank 0, position 0: 0F-1: microbatch -1 is not one of 0..1"),
        (Op(0, F, 0, 1), "rank 0, position 0: 0F0@1: step 1 is not one of 0..0"),
    ],
)
def test_ops_that_a_schedule_cannot_hold(op: Op, message: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        Schedule.from_ops("s", Placement.loop(1), 2, [[op]])
    assert str(caught.value).startswith(message)


def test_as_many_lists_as_ranks() -> None:
    with pytest.raises(ScheduleError, match="the placement has 2 ranks, the schedule 1 lists of ops"):
        Schedule("s", Placement.loop(2), 1, [[0]])


def test_sizes_start_at_one() -> None:
    assert positive(1, "-P (ranks)") == 1
    with pytest.raises(ParameterError, match=r"-P \(ranks\) must be at least 1, got 0"):
        positive(0, "-P (ranks)")
