"""chimera: bubble and peaks of two directions; with M = P/2 it is 1f1b. Orders: tests/goldens."""

from __future__ import annotations

from fractions import Fraction

import pytest
import timed_facts

from pptrace.costs import Costs, values
from pptrace.errors import ParameterError
from pptrace.schedules.registry import EqualCosts, Params, build, checked, entry
from pptrace.timeline import simulate_schedule


@pytest.mark.parametrize(
    ("num", "f", "b", "elapsed", "idle"),
    [
        (4, 1, 1, 10, 2),  # (P-2)/(2M+P-2) = 2/10
        (8, 1, 1, 18, 2),  # 2/18
        (4, 1, 2, 16, 4),  # 4/16 = 25 %, not the 20 % of the formula that takes f = b
        (8, 1, 2, 30, 6),  # 6/30 = 20 %, not 11 %
        (8, 2, 1, 30, 6),
    ],
)
def test_p4(num: int, f: int, b: int, elapsed: int, idle: int) -> None:
    timeline = simulate_schedule(build("chimera", Params(4, num)), Costs(values(f), values(b)))
    facts = timed_facts.facts(timeline)
    assert (facts.makespan, facts.idle) == (elapsed, [idle] * 4)
    assert timed_facts.peaks(timeline) == [3, 4, 4, 3]


@pytest.mark.parametrize("num_ranks", [2, 4, 6, 8])
def test_closed_forms(num_ranks: int) -> None:
    found = entry("chimera")
    for blocks in (1, 2, 5):
        params = Params(num_ranks, blocks * num_ranks)
        for f, b in ((1, 1), (1, 3), (5, 2)):
            timeline = simulate_schedule(build("chimera", params), Costs(values(f), values(b)))
            facts = timed_facts.facts(timeline)
            traced = {
                "elapsed": {facts.makespan},
                "bubble_time": set(facts.idle),
                "peak_activations": set(timed_facts.peaks(timeline)),
            }
            claims = found.claims(checked(found, params), EqualCosts(*map(Fraction, (f, b, 0, 0))))
            assert {claim.metric: set(claim.values) for claim in claims} == traced


def test_latency_is_not_in_the_closed_form() -> None:
    found = entry("chimera")
    claims = found.claims(checked(found, Params(4, 8)), EqualCosts(*map(Fraction, (1, 2, 0, 1))))
    assert [[c.text for c in claim.conditions if not c.holds] for claim in claims] == [["c = 0"], ["c = 0"], []]


def test_one_direction_is_1f1b() -> None:
    chimera, plain = build("chimera", Params(8, 4)), build("1f1b", Params(8, 4))
    assert (chimera.codes, chimera.placement) == (plain.codes, plain.placement)
    timeline = simulate_schedule(chimera)
    assert timed_facts.facts(timeline).idle == [2 * 7] * 8
    assert timed_facts.peaks(timeline) == [4, 4, 4, 4, 4, 3, 2, 1]


def test_every_rank_holds_two_stages() -> None:
    placement = build("chimera", Params(4, 4)).placement
    assert [placement.stages(rank) for rank in range(4)] == [(0, 3), (1, 2), (1, 2), (0, 3)]


@pytest.mark.parametrize(
    ("sizes", "remedy"),
    [
        ((5, 5), "use P = 6"),
        ((4, 6), "use M = 4 or M = 8"),
        ((4, 3), "use M = 2 or M = 4"),
        ((4, 1), "use M = 2 or M = 4"),
    ],
)
def test_refused_sizes_get_a_remedy(sizes: tuple[int, int], remedy: str) -> None:
    with pytest.raises(ParameterError, match=remedy):
        build("chimera", Params(*sizes))
