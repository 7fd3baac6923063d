"""Several optimizer steps: under a flush nothing of the next step begins before the update, whatever the schedule is."""

from __future__ import annotations

from fractions import Fraction

import pytest

from pptrace.costs import Costs, values
from pptrace.model import OpKind
from pptrace.schedules.registry import Params, build, entry, names
from pptrace.schedules.updates import with_updates
from pptrace.timeline import Timeline, simulate_schedule

FLUSHED = [name for name in names() if not entry(name).asynchronous]
COSTS = Costs(values(1), values(2), values(1), reduce=Fraction(1), step_time=Fraction(2))


def three_steps(name: str, *, joint: bool = True) -> Timeline:
    return simulate_schedule(with_updates(build(name, Params(4, 8)), 3, joint=joint), COSTS)


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("name", FLUSHED)
def test_no_op_of_the_next_step_starts_before_the_step_of_its_rank(name: str, joint: bool) -> None:
    timeline = three_steps(name, joint=joint)
    for rank in range(4):
        updated = {0: 0, 1: 0, 2: 0, 3: 0}
        for span in timeline.spans(rank):
            if span.op.kind is OpKind.STEP:
                updated[span.op.step + 1] = max(updated[span.op.step + 1], span.end)
        assert 0 < updated[1] < updated[2] < updated[3]
        for span in timeline.spans(rank):
            assert span.start >= updated[span.op.step]


@pytest.mark.parametrize("name", FLUSHED)
def test_a_joint_update_waits_for_the_gradients_of_all_stages(name: str) -> None:
    timeline = three_steps(name)
    for step in range(3):
        spans = [span for span in timeline if span.op.step == step]
        last_gradient = max(span.end for span in spans if span.op.kind in (OpKind.B, OpKind.W, OpKind.REDUCE))
        assert min(span.start for span in spans if span.op.kind is OpKind.STEP) >= last_gradient


@pytest.mark.parametrize("name", FLUSHED)
def test_every_step_runs_the_same_order(name: str) -> None:
    once = build(name, Params(4, 8))
    thrice = with_updates(once, 3)
    assert len(thrice.pairs) == 3 * len(once.pairs)
    for rank, order in enumerate(once):
        for step in range(3):
            ops = [op for op in thrice.order(rank) if op.step == step and op.kind <= OpKind.R]
            assert [op._replace(step=0) for op in ops] == order


@pytest.mark.parametrize("name", ["dualpipe", "chimera"])
def test_both_copies_of_a_stage_are_updated(name: str) -> None:
    """Microbatches 4..7 go up, so the copies of rank 0 are that of stage 0 (number 0) and that of stage 3 (number 4)."""
    schedule = with_updates(build(name, Params(4, 8)), 1)
    assert [str(op) for op in schedule.order(0)[-4:]] == ["0REDUCE", "3REDUCE4", "0STEP", "3STEP4"]
    assert [str(op) for op in schedule.order(3)[-4:]] == ["3REDUCE", "0REDUCE4", "3STEP", "0STEP4"]
