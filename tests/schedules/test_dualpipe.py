"""dualpipe and dualpipev: figures, overlap, two directions, and where the published bubble holds. Orders: tests/goldens."""

from __future__ import annotations

from fractions import Fraction
from itertools import zip_longest

import framework_orders
import pytest
import timed_facts

from pptrace.costs import Costs, values
from pptrace.errors import ParameterError
from pptrace.model import Op, OpKind
from pptrace.schedules.registry import Claim, EqualCosts, Params, build, checked, entry
from pptrace.timeline import Timeline, simulate_schedule


def timed(name: str, num_ranks: int, num: int, overlap: str | Fraction = "sum", per: str = "rank") -> Timeline:
    """f = i = w = 1."""
    costs = Costs(values(1, per=per), values(2, per=per), values(1, per=per), overlap=overlap)
    return simulate_schedule(build(name, Params(num_ranks, num)), costs)


def claim_of(name: str, sizes: tuple[int, int], *fbwc: int, overlap: str | Fraction = "sum") -> Claim:
    found = entry(name)
    costs = EqualCosts(*map(Fraction, fbwc), overlap=overlap)
    return {c.metric: c for c in found.claims(checked(found, Params(*sizes)), costs)}["bubble_time"]


def failing(claim: Claim) -> list[str]:
    return [condition.text for condition in claim.conditions if not condition.holds]


def test_dualpipev_p4_m10_is_the_file_of_pytorch() -> None:
    path = "inputs/schedules/pytorch_dualpipev_4rank_10mb.csv"
    assert framework_orders.cells(build("dualpipev", Params(4, 10))) == framework_orders.torch_csv(path).cells


@pytest.mark.parametrize(("overlap", "elapsed", "idle"), [("sum", 66, 6), ("split", 63, 3)])
def test_dualpipev_p4_m10_with_costs_of_an_op(overlap: str, elapsed: int, idle: int) -> None:
    timeline = timed("dualpipev", 4, 10, overlap, per="op")
    facts = timed_facts.facts(timeline)
    assert (facts.makespan, facts.idle, timed_facts.peaks(timeline)) == (elapsed, [idle] * 4, [9] * 4)


def test_dualpipev_p4_m8() -> None:
    block, shorter = (timed("dualpipev", 4, 8, overlap) for overlap in ("sum", "max"))
    assert timed_facts.facts(block).makespan == 27
    assert timed_facts.facts(block).idle == [3] * 4
    assert timed_facts.facts(shorter).makespan == 22
    assert timed_facts.facts(shorter).idle == [Fraction(1, 2), 1, Fraction(3, 2), Fraction(3, 2)]
    assert timed_facts.peaks(block) == timed_facts.peaks(shorter) == [9] * 4


def test_jaxpp_differs_where_the_last_backwards_are_split() -> None:
    """JaxPP's dualpipev runs 0B4 where DeepSeek and PyTorch run 0I4 and 0W4 (and is slower for it: 57 against 54)."""
    theirs = framework_orders.framework("goldens/framework_orders/jaxpp_dualpipev_P4_M8_v2.json").cells[0]
    ours = framework_orders.cells(build("dualpipev", Params(4, 8)))[0]
    first = next(i for i, (a, b) in enumerate(zip_longest(theirs, ours)) if a != b)
    assert (first, theirs[first], ours[first]) == (26, (Op(0, OpKind.B, 4),), (Op(0, OpKind.I, 4),))


def test_dualpipe_p4_m8() -> None:
    """(P/2-1)(FB+b-3w) = 1*(3+2-3) = 2 with a pair of f+b; 1*(2+2-3) = 1 on the worst rank with max(f,b)."""
    block, shorter = (timed("dualpipe", 4, 8, overlap) for overlap in ("sum", "max"))
    assert timed_facts.facts(block).makespan == 26
    assert timed_facts.facts(block).idle == [2] * 4
    assert max(timed_facts.facts(shorter).idle) == 1
    assert timed_facts.peaks(block) == timed_facts.peaks(shorter) == [5] * 4


def test_dualpipe_enters_at_both_ends() -> None:
    schedule = build("dualpipe", Params(4, 8))
    assert [schedule.placement.stages(rank) for rank in range(4)] == [(0, 3), (1, 2), (1, 2), (0, 3)]
    assert [str(schedule.order(rank)[0]) for rank in range(4)] == ["0F0", "1F0", "1F4", "0F4"]
    goes_down = {op.microbatch for op in schedule.order(0) if op.stage == 0}
    assert goes_down == {0, 1, 2, 3}
    assert {op.microbatch for op in schedule.order(0) if op.stage == 3} == {4, 5, 6, 7}


def test_the_upper_ranks_mirror_the_lower() -> None:
    schedule = build("dualpipe", Params(6, 12))
    for rank in range(3):
        mirrored = [op._replace(microbatch=((op.microbatch or 0) + 6) % 12) for op in schedule.order(5 - rank)]
        assert schedule.order(rank) == mirrored


@pytest.mark.parametrize("name", ["dualpipe", "dualpipev"])
@pytest.mark.parametrize(("f", "b", "w"), [(1, 2, 1), (2, 3, 1), (3, 4, 1), (2, 2, 0)])
@pytest.mark.parametrize("overlap", ["sum", "max"])
def test_the_published_bubble_holds_for_f_equal_i_and_w_at_most_f(
    name: str, f: int, b: int, w: int, overlap: str
) -> None:
    for num_ranks in (2, 4, 6):
        for num in (2 * num_ranks, 3 * num_ranks):
            claim = claim_of(name, (num_ranks, num), f, b, w, 0, overlap=overlap)
            costs = Costs(values(f), values(b), values(w), overlap=overlap)
            idle = timed_facts.facts(simulate_schedule(build(name, Params(num_ranks, num)), costs)).idle
            assert failing(claim) == []
            assert claim.values == (max(idle),)
            if overlap == "sum":
                assert set(idle) == set(claim.values)


def test_what_the_published_bubble_needs() -> None:
    assert failing(claim_of("dualpipe", (4, 8), 1, 3, 1, 0)) == ["f = i"]
    assert failing(claim_of("dualpipe", (4, 8), 1, 3, 2, 0)) == ["w <= f"]
    assert failing(claim_of("dualpipev", (4, 8), 1, 2, 1, 1)) == ["c = 0"]
    block = "a pair is one block that takes max(f,b) to f+b"
    assert failing(claim_of("dualpipev", (4, 8), 1, 2, 1, 0, overlap="split")) == [block]
    assert failing(claim_of("dualpipev", (4, 8), 1, 2, 1, 0, overlap=Fraction(4))) == [block]
    assert failing(claim_of("dualpipev", (4, 8), 1, 2, 1, 0, overlap=Fraction(5, 2))) == []


@pytest.mark.parametrize(
    ("name", "sizes", "remedy"),
    [
        ("dualpipe", (3, 8), "use P = 4, or dualpipev"),
        ("dualpipe", (4, 9), "use M = 10"),
        ("dualpipe", (4, 6), "use M = 8"),
        ("dualpipev", (4, 7), "use M = 8, or fewer ranks"),
    ],
)
def test_refused_sizes_get_a_remedy(name: str, sizes: tuple[int, int], remedy: str) -> None:
    with pytest.raises(ParameterError, match=remedy):
        build(name, Params(*sizes))
