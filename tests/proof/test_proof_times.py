"""Traces whose ops use a state before it is there, although the ops of every rank stand in the right order."""

import pytest

from pptrace.costs import Costs, values
from pptrace.proof.faults import EarlyUse
from pptrace.proof.prove import prove
from pptrace.schedules.registry import Params, build
from pptrace.schedules.transforms import recompute, split_backward
from pptrace.schedules.updates import with_updates
from pptrace.timeline import Timeline, simulate_schedule

COSTS = Costs(values(2), values(4), values(2), (2,), reduce=2, step_time=2)


def moved(schedule, text, by):
    """The timeline of `schedule`, with one op `by` ticks earlier."""
    right = simulate_schedule(schedule, COSTS)
    position = next(i for i in range(schedule.num_ops) if str(schedule.op(i)) == text)
    starts, ends = right.starts[:], right.ends[:]
    starts[position] -= by
    ends[position] -= by
    return Timeline(schedule, right.costs, right.dependencies, starts, ends, right.arrivals, right.ticks_per_unit)


PLAIN = with_updates(build("1f1b", Params(2, 2)), 2)


@pytest.mark.parametrize(
    ("schedule", "text", "message"),
    [
        (PLAIN, "1F0", "starts before the activation from stage 0 is there"),
        (PLAIN, "0B0", "starts before the gradient from stage 1 is there"),
        (PLAIN, "1B0", "starts before the activation saved by its forward is there"),
        (PLAIN, "1REDUCE", "starts before the last gradient is there"),
        (PLAIN, "0STEP", "starts before its gradient is there"),
        (PLAIN, "0F0@1", "starts before weight version 1 is there"),
        (
            with_updates(split_backward(build("1f1b", Params(1, 1)))),
            "0W0",
            "starts before what its I leaves behind is there",
        ),
        (
            with_updates(recompute(build("1f1b", Params(1, 1)))),
            "0R0",
            "starts before the input kept by its forward is there",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_one_tick_too_early_is_an_early_use(schedule, text, message):
    assert prove(simulate_schedule(schedule, COSTS)).proved
    proof = prove(moved(schedule, text, 1))
    assert [type(fault) for fault in proof.faults] == [EarlyUse]
    assert str(proof.faults[0]).startswith(f"{text} (t=")
    assert str(proof.faults[0]).endswith(message)
    assert not proof.proved
    assert proof.comparison.equal
