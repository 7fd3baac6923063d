"""v-half and v-min: the figures of the paper's authors, and the peak that names them. Their orders are in tests/goldens."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pytest
import timed_facts

from pptrace.costs import Costs, values
from pptrace.errors import LimitError
from pptrace.schedules.registry import EqualCosts, Params, build, entry
from pptrace.timeline import simulate_schedule

UNIT = Costs(values(1), values(2), values(1))


@pytest.mark.parametrize(("name", "elapsed", "peak"), [("v-half", "26.5", 6), ("v-min", "29.5", 4)])
def test_p4_m8_f1_b2(name: str, elapsed: str, peak: int) -> None:
    timeline = simulate_schedule(build(name, Params(4, 8)), UNIT)
    facts = timed_facts.facts(timeline)
    assert facts.makespan == facts.max_span == Fraction(elapsed)
    assert facts.idle == [Fraction(elapsed) - 24] * 4
    assert timed_facts.peaks(timeline) == [peak] * 4


@pytest.mark.parametrize(
    ("name", "microbatches"),
    [
        ("v-half", {1: 1, 2: 2, 3: 2, 4: 3, 5: 3, 6: 4, 7: 4, 8: 5, 9: 5, 10: 6}),
        ("v-min", {1: 1, 2: 2, 3: 2, 4: 2, 5: 3, 6: 3, 7: 3, 8: 4, 9: 4, 10: 4}),
    ],
)
def test_peak_is_half_and_a_third_of_1f1b(name: str, microbatches: dict[int, int]) -> None:
    """floor((P+2)/2) and floor((P+4)/3) microbatches, in chunks twice that, on the fullest rank from M = 2P on."""
    for num_ranks, most in microbatches.items():
        for num in (2 * num_ranks, 2 * num_ranks + 1, 3 * num_ranks):
            timeline = simulate_schedule(build(name, Params(num_ranks, num)), UNIT)
            assert max(timed_facts.peaks(timeline)) == 2 * most
        (claim,) = entry(name).claims(Params(num_ranks, 2 * num_ranks, 2), EqualCosts(*map(Fraction, (1, 2, 1, 0))))
        assert (claim.values, claim.largest) == ((2 * most,), True)


def test_the_peak_needs_two_microbatches_a_rank() -> None:
    (claim,) = entry("v-half").claims(Params(4, 7, 2), EqualCosts(*map(Fraction, (1, 2, 1, 0))))
    assert [condition.text for condition in claim.conditions if not condition.holds] == ["M >= 2P"]


@pytest.mark.parametrize("name", ["v-half", "v-min"])
@pytest.mark.parametrize("num_ranks", [3, 4, 7])
def test_the_steady_part_repeats_every_six_ops(name: str, num_ranks: int) -> None:
    """Half-way through, each six ops of a rank are F, I and W of its two stages."""
    for rank, order in enumerate(build(name, Params(num_ranks, 40))):
        middle = order[120:126]
        stages = {rank, 2 * num_ranks - 1 - rank}
        assert {(op.stage, op.kind.name) for op in middle} == {(stage, kind) for stage in stages for kind in "FIW"}


@pytest.mark.parametrize("name", ["v-half", "v-min"])
def test_a_large_one_has_every_op_once(name: str) -> None:
    schedule = build(name, Params(32, 128))
    assert schedule.num_ops == 32 * 128 * 2 * 3
    assert set(Counter(schedule.codes).values()) == {1}
    assert simulate_schedule(schedule, UNIT).ticks_per_unit == 2


@pytest.mark.parametrize("name", ["v-half", "v-min"])
def test_more_ranks_than_can_be_planned_in_seconds_are_refused_before_any_work(name: str) -> None:
    """P = M = 512 are 1,572,864 ops and 512^3/16 = 8,388,608 of planning; P = 64 M = 512 is far from the limit."""
    with pytest.raises(LimitError) as refused:
        build(name, Params(512, 512))
    assert str(refused.value) == (
        f"{name} with P=512 M=512 is as much work as 9,961,472 ops, over the limit of 2,000,000; "
        "lower P or M, or raise --max-ops"
    )
    assert build(name, Params(64, 512)).num_ops == 196_608
