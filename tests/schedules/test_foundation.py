"""naive, gpipe, 1f1b, eager-1f1b: their orders at every sort of size, and the update at the end of a step."""

from __future__ import annotations

import pytest

from pptrace.errors import LimitError, ParameterError
from pptrace.model import Op, Placement, Schedule
from pptrace.schedules.registry import Params, build
from pptrace.schedules.updates import with_updates


def rows(schedule: Schedule) -> list[str]:
    """Per rank its ops, the stage left out: "F0 F1 B0 B1"."""
    return [
        " ".join(str(op)[len(str(op.stage)) :] for op in schedule.order(rank)) for rank in range(schedule.num_ranks)
    ]


def test_naive() -> None:
    assert rows(build("naive", Params(2, 2))) == ["F0 B0 F1 B1"] * 2


def test_gpipe_first_in_first_out_and_last_in_first_out() -> None:
    assert rows(build("gpipe", Params(2, 3))) == ["F0 F1 F2 B0 B1 B2"] * 2
    assert rows(build("gpipe", Params(2, 3, order="fifo"))) == ["F0 F1 F2 B0 B1 B2"] * 2
    assert rows(build("gpipe", Params(2, 3, order="lifo"))) == ["F0 F1 F2 B2 B1 B0"] * 2


def test_1f1b_warms_up_with_one_forward_less_on_every_rank() -> None:
    assert rows(build("1f1b", Params(4, 5))) == [
        "F0 F1 F2 F3 B0 F4 B1 B2 B3 B4",
        "F0 F1 F2 B0 F3 B1 F4 B2 B3 B4",
        "F0 F1 B0 F2 B1 F3 B2 F4 B3 B4",
        "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4",
    ]


def test_eager_1f1b_warms_up_with_two_less() -> None:
    assert rows(build("eager-1f1b", Params(3, 6))) == [
        "F0 F1 F2 F3 F4 B0 F5 B1 B2 B3 B4 B5",
        "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5",
        "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5",
    ]


@pytest.mark.parametrize("name", ["1f1b", "eager-1f1b"])
def test_fewer_microbatches_than_ranks_than_warm_up(name: str) -> None:
    """No microbatch -1 and none beyond M: the early ranks run as gpipe does."""
    assert rows(build(name, Params(5, 2)))[:3] == ["F0 F1 B0 B1"] * 3
    assert rows(build(name, Params(5, 2)))[4] == "F0 B0 F1 B1"
    assert rows(build(name, Params(3, 1))) == ["F0 B0"] * 3


@pytest.mark.parametrize("name", ["naive", "gpipe", "1f1b", "eager-1f1b"])
def test_one_rank_and_one_microbatch(name: str) -> None:
    assert rows(build(name, Params(1, 1))) == ["F0 B0"]


def test_an_update_ends_every_step() -> None:
    assert rows(with_updates(build("1f1b", Params(2, 1)))) == ["F0 B0 REDUCE STEP"] * 2
    assert rows(with_updates(build("1f1b", Params(2, 1)), 2)) == [
        "F0 B0 REDUCE STEP F0@1 B0@1 REDUCE@1 STEP@1"
    ] * 2  # fmt: skip


def test_every_stage_of_a_rank_is_updated() -> None:
    ops = [Op.parse(text) for text in ["0F0", "1F0", "1B0", "0B0"]]
    schedule = Schedule.from_ops("s", Placement.loop(1, 2), 1, [ops])
    assert [str(op) for op in with_updates(schedule).order(0)][4:] == ["0REDUCE", "1REDUCE", "0STEP", "1STEP"]


def test_every_copy_of_a_stage_is_updated() -> None:
    orders = [[Op.parse(text) for text in row.split()] for row in ("0F0 1F1 1B1 0B0", "0F1 1F0 1B0 0B1")]
    schedule = Schedule.from_ops("s", Placement.two_way(2), 2, orders)
    updated = with_updates(schedule, 2)
    assert [str(op) for op in updated.order(0)][4:8] == ["0REDUCE", "1REDUCE1", "0STEP", "1STEP1"]
    assert [str(op) for op in updated.order(1)][12:] == ["1REDUCE@1", "0REDUCE1@1", "1STEP@1", "0STEP1@1"]


def test_pairs_are_kept_in_every_step() -> None:
    orders = [[Op.parse(text) for text in ["0F0", "0F1", "0B0", "0B1"]]]
    schedule = Schedule.from_ops("s", Placement.loop(1), 2, orders, pairs=[(0, 1)])
    updated = with_updates(schedule, 3)
    assert [(str(updated.op(first)), str(updated.op(first + 1))) for first in sorted(updated.pairs)] == [
        ("0F1", "0B0"),
        ("0F1@1", "0B0@1"),
        ("0F1@2", "0B0@2"),
    ]


def test_a_step_alone_or_together() -> None:
    schedule = build("1f1b", Params(2, 1))
    assert with_updates(schedule).joint_update
    assert not with_updates(schedule, joint=False).joint_update


def test_steps_that_cannot_be() -> None:
    with pytest.raises(ParameterError, match="--steps must be at least 1, got 0"):
        with_updates(build("1f1b", Params(2, 1)), 0)
    with pytest.raises(
        LimitError, match="2,000,004 ops are over the limit of 2,000,000; lower --steps, or raise --max-ops"
    ):
        with_updates(build("1f1b", Params(2, 1)), 500_001)
