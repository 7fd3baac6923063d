"""Legal parameters that waste time: what would save how much."""

from __future__ import annotations

import pytest

from pptrace.analysis.advice import advice
from pptrace.costs import Costs, values
from pptrace.model import Op, Placement, Schedule
from pptrace.schedules.registry import Params, build
from pptrace.schedules.transforms import split_backward
from pptrace.timeline import Timeline, simulate_schedule

UNITS = Costs(values(1, per="op"), values(1, per="op"), values("1/2", per="op"))


def timed(name: str, *sizes: int, group: int | None = None) -> Timeline:
    return simulate_schedule(build(name, Params(*sizes, group=group)), UNITS)


def test_p4_v2_m10_in_groups_of_4_takes_52_and_could_take_46() -> None:
    assert advice(timed("interleaved", 4, 10, 2, group=4)) == "groups of 5 save 6: leave --group out"


@pytest.mark.parametrize("group", [None, 5, 10])
def test_groups_that_lose_nothing_need_no_advice(group: int | None) -> None:
    assert advice(timed("interleaved", 4, 10, 2, group=group)) == ""


def test_other_schedules_need_none() -> None:
    assert advice(timed("1f1b", 4, 10)) == ""
    assert advice(timed("looped-bfs", 4, 10, 2)) == ""


def test_the_comparison_goes_through_the_same_transforms() -> None:
    """The default groups are split too before the two are compared."""
    split = simulate_schedule(split_backward(build("interleaved", Params(4, 10, 2, 4))), UNITS)
    default = simulate_schedule(split_backward(build("interleaved", Params(4, 10, 2))), UNITS)
    saved = max(split.ends) - max(default.ends)
    assert split.ticks_per_unit == 2
    assert advice(split) == f"groups of 5 save {saved // 2}{'.5' if saved % 2 else ''}: leave --group out"


def test_a_file_under_a_registered_name_gets_none() -> None:
    order = [Op.parse(text) for text in ("0F0", "0B0")]
    for options in ({}, {"group": 4}, {"group": "many"}):
        schedule = Schedule.from_ops("interleaved", Placement.loop(1), 1, [order], options=options)
        assert advice(simulate_schedule(schedule, UNITS)) == ""
