"""interleaved and looped-bfs: figures worked out by hand or published, groups, refusals, closed forms."""

from __future__ import annotations

from fractions import Fraction

import pytest
import timed_facts

from pptrace.costs import Costs, values
from pptrace.deadlock import DeadlockError
from pptrace.errors import ParameterError
from pptrace.schedules.interleaved import default_group
from pptrace.schedules.registry import Claim, EqualCosts, Params, build, checked, entry, with_remedy
from pptrace.timeline import Timeline, simulate_schedule

UNITS = Costs(values(1, per="op"), values(1, per="op"), values("1/2", per="op"))
"""Every op, of one chunk, takes 1."""


def per_rank(f: int, b: int, c: int = 0) -> Costs:
    return Costs(values(f), values(b), values(Fraction(b, 2)), comm=(Fraction(c),))


def timed(name: str, *sizes: int, group: int | None = None, costs: Costs = UNITS) -> Timeline:
    return simulate_schedule(build(name, Params(*sizes, group=group)), costs)


def elapsed(timeline: Timeline) -> Fraction:
    return timed_facts.facts(timeline).makespan


def claims(name: str, params: Params, costs: EqualCosts, metric: str) -> list[Claim]:
    found = entry(name)
    return [claim for claim in found.claims(checked(found, params), costs) if claim.metric == metric]


def test_p4_v2_m4_in_op_units() -> None:
    facts = timed_facts.facts(timed("interleaved", 4, 4, 2))
    assert (facts.makespan, facts.idle, facts.busy) == (22, [6] * 4, [16] * 4)


def test_p4_v2_m8_peaks_in_chunks() -> None:
    assert timed_facts.peaks(timed("interleaved", 4, 8, 2)) == [11, 9, 7, 5]


@pytest.mark.parametrize(("c", "interleaved", "looped_bfs"), [(0, "57/2", "57/2"), (1, "46", "73/2")])
def test_p4_v2_m8_f1_b2(c: int, interleaved: str, looped_bfs: str) -> None:
    costs = per_rank(1, 2, c)
    assert elapsed(timed("interleaved", 4, 8, 2, costs=costs)) == Fraction(interleaved)
    assert elapsed(timed("looped-bfs", 4, 8, 2, costs=costs)) == Fraction(looped_bfs)


@pytest.mark.parametrize(("group", "total", "idle"), [(None, 46, 6), (5, 46, 6), (10, 46, 6), (4, 52, 12)])
def test_p4_v2_m10_default_groups_of_5_and_groups_of_4(group: int | None, total: int, idle: int) -> None:
    facts = timed_facts.facts(timed("interleaved", 4, 10, 2, group=group))
    assert (facts.makespan, facts.idle) == (total, [idle] * 4)


@pytest.mark.parametrize(("num_ranks", "total"), [(4, 20), (6, 28)])
def test_v2_m3_with_fewer_microbatches_than_ranks(num_ranks: int, total: int) -> None:
    assert elapsed(timed("interleaved", num_ranks, 3, 2)) == total


def test_the_published_form_gives_18_for_p4_v2_m3_and_says_that_it_needs_m_at_least_p() -> None:
    general, published = claims("interleaved", Params(4, 3, 2), EqualCosts(*map(Fraction, (2, 2, 1, 0))), "elapsed")
    assert general.values == (20,)
    assert all(condition.holds for condition in general.conditions)
    assert published.values == (18,)
    assert [condition.text for condition in published.conditions if not condition.holds] == ["M >= P"]


def test_one_chunk_is_eager_1f1b_and_not_1f1b() -> None:
    ours = list(build("interleaved", Params(4, 8, 1)))
    assert ours == list(build("eager-1f1b", Params(4, 8)))
    assert ours != list(build("1f1b", Params(4, 8)))


@pytest.mark.parametrize(
    ("num_ranks", "num_microbatches", "group"),
    [
        (4, 8, 4),
        (4, 10, 5),
        (4, 5, 5),
        (4, 6, 6),
        (4, 7, 7),
        (4, 9, 5),
        (4, 11, 6),
        (2, 5, 3),
        (4, 3, 3),
        (6, 3, 3),
        (1, 5, 1),
    ],
)
def test_default_group_is_the_smallest_that_leaves_no_short_group(
    num_ranks: int, num_microbatches: int, group: int
) -> None:
    assert default_group(num_ranks, num_microbatches) == group
    schedule = build("interleaved", Params(num_ranks, num_microbatches, 2))
    assert schedule.options == {"group": group}


def test_p4_m5_v3_in_groups_of_4_deadlocks_and_the_remedy_is_named() -> None:
    params = Params(4, 5, 3, 4)
    with pytest.raises(DeadlockError) as caught:
        simulate_schedule(build("interleaved", params))
    error = with_remedy(caught.value, "interleaved", params)
    assert [(wait.rank, str(wait.op), wait.awaited_rank, str(wait.awaited)) for wait in error.cycle] == [
        (0, "8F4", 3, "7F4"),
        (3, "7B0", 0, "8B0"),
    ]
    assert error.remedy == "leave --group out (groups of 5 never deadlock)"
    assert str(error).endswith(error.remedy)


def test_a_deadlock_of_a_schedule_without_groups_has_no_remedy() -> None:
    error = DeadlockError([], {})
    assert with_remedy(error, "1f1b", Params(4, 4)) is error
    assert with_remedy(error, "interleaved", Params(4, 5, 3)) is error


@pytest.mark.parametrize("name", ["interleaved", "interleaved-zb"])
def test_a_group_larger_than_the_step_is_refused(name: str) -> None:
    with pytest.raises(ParameterError) as caught:
        build(name, Params(6, 3, 2, 6))
    assert str(caught.value) == (
        f"{name} with --group 6 needs M >= 6, got M = 3; leave --group out, or raise M (Megatron-LM refuses M < P)"
    )
    with pytest.raises(ParameterError, match=r"needs M >= 6, got M = 5; leave --group out, or raise M$"):
        build(name, Params(4, 5, 2, 6))


def test_looped_bfs_takes_no_group() -> None:
    with pytest.raises(ParameterError, match="looped-bfs takes no --group"):
        build("looped-bfs", Params(4, 8, 2, 4))


def test_latency_that_is_hidden_shows_once_for_every_hop_of_the_loop() -> None:
    """P4 v2 M8 f1 b2 c=1/2: 28.5 and 2(2*4-1)/2 = 7; with c=1 the form no longer holds and the trace says 46."""
    half = EqualCosts(*map(Fraction, (1, 2, 1, "1/2")))
    (claim,) = claims("interleaved", Params(4, 8, 2), half, "elapsed")
    assert claim.values == (Fraction(71, 2),)
    assert all(condition.holds for condition in claim.conditions)
    costs = per_rank(1, 2)._replace(comm=(Fraction(1, 2),))
    assert elapsed(timed("interleaved", 4, 8, 2, costs=costs)) == Fraction(71, 2)
    (claim,) = claims("interleaved", Params(4, 8, 2), half._replace(c=Fraction(1)), "elapsed")
    assert [condition.text for condition in claim.conditions if not condition.holds] == [
        "c = 0, or c <= min(f,b)/v and M mod P = 0 in groups of P"
    ]


def test_groups_that_lose_time_fail_the_condition_on_groups() -> None:
    (claim,) = claims("interleaved", Params(4, 10, 2, 4), EqualCosts(*map(Fraction, (2, 2, 1, 0))), "elapsed")
    assert claim.values == (46,)
    assert [condition.text for condition in claim.conditions if not condition.holds] == [
        "v = 1, or groups of g >= P with M mod g = 0 or >= P"
    ]
