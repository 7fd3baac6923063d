"""--split-backward and --recompute: what they do to an order, and the figures that come of it."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pytest
import timed_facts

from pptrace.costs import Costs, values
from pptrace.errors import ParameterError
from pptrace.model import Op, OpKind, Placement, Schedule
from pptrace.schedules.registry import Params, build
from pptrace.schedules.transforms import recompute, split_backward
from pptrace.schedules.updates import with_updates
from pptrace.timeline import Span, simulate_schedule

COSTS = Costs(values(1), values(2), values(1))


def facts(schedule: Schedule) -> timed_facts.Facts:
    return timed_facts.facts(simulate_schedule(schedule, COSTS))


def texts(schedule: Schedule, rank: int) -> str:
    return " ".join(map(str, schedule.order(rank)))


def pair_texts(schedule: Schedule) -> list[str]:
    return [f"{schedule.op(first)};{schedule.op(first + 1)}" for first in sorted(schedule.pairs)]


def overlapped() -> Schedule:
    """One rank, one stage: F0, then (F1;B0), then (B1;F2), then B2."""
    order = [Op.parse(text) for text in ("0F0", "0F1", "0B0", "0B1", "0F2", "0B2")]
    return Schedule.from_ops("overlapped", Placement.loop(1), 3, [order], pairs=[(0, 1), (0, 3)])


def test_gpipe_split_p8_m16_is_62_with_16_held_and_not_zb_h1() -> None:
    timeline = simulate_schedule(split_backward(build("gpipe", Params(8, 16))), COSTS)
    found = timed_facts.facts(timeline)
    assert (found.makespan, found.idle) == (62, [14] * 8)
    assert timed_facts.peaks(timeline) == [16] * 8
    assert facts(build("zb-h1", Params(8, 16))).makespan == 55


def test_split_order_of_1f1b() -> None:
    assert texts(split_backward(build("1f1b", Params(2, 2))), 0) == "0F0 0F1 0I0 0W0 0I1 0W1"


def test_split_keeps_pairs_and_puts_w_behind_the_block() -> None:
    ours = split_backward(overlapped())
    assert texts(ours, 0) == "0F0 0F1 0I0 0W0 0I1 0F2 0W1 0I2 0W2"
    assert pair_texts(ours) == ["0F1;0I0", "0I1;0F2"]


def test_a_schedule_without_a_full_backward_is_not_split_again() -> None:
    schedule = build("zb-h1", Params(4, 8))
    assert split_backward(schedule) is schedule


@pytest.mark.parametrize(("early", "total", "idle"), [(False, 156, 28), (True, 149, 21)])
def test_recompute_1f1b_p8_m32_f1_b2(early: bool, total: int, idle: int) -> None:
    plain = build("1f1b", Params(8, 32))
    assert (facts(plain).makespan, facts(plain).idle) == (117, [21] * 8)
    found = facts(recompute(plain, early=early))
    assert (found.makespan, found.idle) == (total, [idle] * 8)


def test_recompute_in_the_backward_leaves_the_ratio_of_1f1b_as_it_was() -> None:
    plain = build("1f1b", Params(8, 32))
    assert facts(plain).idle_over_elapsed == facts(recompute(plain)).idle_over_elapsed == Fraction(7, 39)


def test_recompute_order_of_1f1b_and_zb_h1() -> None:
    assert texts(recompute(build("1f1b", Params(2, 2))), 1) == "1F0 1R0 1B0 1F1 1R1 1B1"
    assert texts(recompute(build("zb-h1", Params(2, 2))), 1) == "1F0 1R0 1I0 1F1 1R1 1I1 1W0 1W1"


def test_recompute_keeps_pairs_and_puts_r_before_the_block() -> None:
    ours = recompute(overlapped())
    assert texts(ours, 0) == "0F0 0R0 0F1 0B0 0R1 0B1 0F2 0R2 0B2"
    assert pair_texts(ours) == ["0F1;0B0", "0B1;0F2"]
    assert texts(recompute(split_backward(overlapped())), 0) == "0F0 0R0 0F1 0I0 0W0 0R1 0I1 0F2 0W1 0R2 0I2 0W2"
    assert list(split_backward(recompute(overlapped()))) == list(recompute(split_backward(overlapped())))


def test_recomputing_twice_is_refused() -> None:
    with pytest.raises(ParameterError, match="1f1b has R ops already; leave --recompute out"):
        recompute(recompute(build("1f1b", Params(2, 2))))


def test_zb_h1_p4_recomputed_turns_the_memory_order_round() -> None:
    """R start to W end: 1 2 3 4; waiting between I end and W start: 0 1 2 3."""
    timeline = simulate_schedule(recompute(build("zb-h1", Params(4, 8))), COSTS)
    held, waiting = [], []
    for rank in range(4):
        spans = {str(span.op): span for span in timeline.spans(rank)}
        held.append(_most(spans, rank, ("R", "start"), ("W", "end")))
        waiting.append(_most(spans, rank, ("I", "end"), ("W", "start")))
    assert held == [1, 2, 3, 4]
    assert waiting == [0, 1, 2, 3]


def _most(spans: dict[str, Span], stage: int, since: tuple[str, str], until: tuple[str, str]) -> int:
    """The most microbatches at once between one time of theirs and another, of 8."""
    changes: Counter[int] = Counter()
    for number in range(8):
        changes[getattr(spans[f"{stage}{since[0]}{number}"], since[1])] += 1
        changes[getattr(spans[f"{stage}{until[0]}{number}"], until[1])] -= 1
    return max(sum(change for tick, change in changes.items() if tick <= now) for now in changes)


def test_transforms_go_through_every_step_and_leave_updates_alone() -> None:
    stepped = with_updates(build("1f1b", Params(2, 2)), 2)
    split = split_backward(stepped)
    assert texts(split, 1) == (
        "1F0 1I0 1W0 1F1 1I1 1W1 1REDUCE 1STEP 1F0@1 1I0@1 1W0@1 1F1@1 1I1@1 1W1@1 1REDUCE@1 1STEP@1"
    )
    assert list(split) == list(with_updates(split_backward(build("1f1b", Params(2, 2))), 2))
    assert list(recompute(stepped)) == list(with_updates(recompute(build("1f1b", Params(2, 2))), 2))


def test_what_was_done_is_written_down() -> None:
    plain = build("interleaved", Params(2, 4, 2))
    assert split_backward(plain).options == {"group": 2, "split_backward": "yes"}
    assert recompute(plain, early=True).options == {"group": 2, "recompute": "early"}
    assert recompute(plain, early=True).early_recompute
    assert recompute(plain).options == {"group": 2, "recompute": "full"}
    assert plain.options == {"group": 2}
    assert OpKind.R not in plain.kinds()
