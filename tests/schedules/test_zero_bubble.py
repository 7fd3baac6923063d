"""zb-h1, zb-h2, interleaved-zb and zb-v: published figures, what they are figures of, and when they fail."""

from __future__ import annotations

from fractions import Fraction

import pytest
import timed_facts

from pptrace.costs import Costs, values
from pptrace.schedules.registry import Claim, EqualCosts, Params, build, checked, entry
from pptrace.timeline import Timeline, simulate_schedule


def timed(name: str, *sizes: int, f: object = 1, i: object = 1, w: object = 1, c: object = 0) -> Timeline:
    forward, inputs, weights = Fraction(f), Fraction(i), Fraction(w)  # type: ignore[arg-type]
    costs = Costs(values(forward), values(inputs + weights), values(weights), comm=(Fraction(c),))  # type: ignore[arg-type]
    return simulate_schedule(build(name, Params(*sizes)), costs)


def claims(name: str, sizes: tuple[int, ...], *fbwc: object) -> dict[str, Claim]:
    found = entry(name)
    costs = EqualCosts(*(Fraction(x) for x in fbwc), activation=Fraction(1), kept_for_w=Fraction(1, 2))  # type: ignore[arg-type]
    return {claim.metric: claim for claim in found.claims(checked(found, Params(*sizes)), costs)}


def failing(claim: Claim) -> list[str]:
    return [condition.text for condition in claim.conditions if not condition.holds]


def spans(timeline: Timeline) -> list[int]:
    return [
        max(span.end for span in timeline.spans(rank)) - min(span.start for span in timeline.spans(rank))
        for rank in range(timeline.schedule.num_ranks)
    ]


def test_h1_order_of_p4_m8_as_in_figure_3() -> None:
    rank_2 = [str(op) for op in build("zb-h1", Params(4, 8)).order(2)]
    assert " ".join(rank_2[:12]) == "2F0 2F1 2I0 2F2 2I1 2F3 2I2 2W0 2F4 2I3 2W1 2F5"
    assert " ".join(rank_2[-4:]) == "2I7 2W5 2W6 2W7"


@pytest.mark.parametrize(("name", "counts"), [("zb-h1", [4, 3, 2, 1]), ("zb-h2", [7, 5, 3, 1])])
def test_warm_up_of_figure_3(name: str, counts: list[int]) -> None:
    orders = list(build(name, Params(4, 8)))
    assert [next(i for i, op in enumerate(order) if op.kind.name == "I") for order in orders] == counts


def test_h1_p8_m16_f1_b2_w1_has_a_bubble_of_7() -> None:
    facts = timed_facts.facts(timed("zb-h1", 8, 16))
    assert (facts.makespan, facts.idle) == (55, [7] * 8)
    assert timed_facts.peaks(timed("zb-h1", 8, 16)) == [8] * 8
    claim = claims("zb-h1", (8, 16), 1, 2, 1, 0)["bubble_time"]
    assert (claim.values, failing(claim)) == ((7,), [])


def test_h1_p4_m8_is_27_and_3() -> None:
    facts = timed_facts.facts(timed("zb-h1", 4, 8))
    assert (facts.makespan, facts.idle, facts.busy) == (27, [3] * 4, [24] * 4)


def test_h2_p4_m8_has_no_bubble_in_any_span_and_the_makespan_of_h1() -> None:
    timeline = timed("zb-h2", 4, 8)
    assert spans(timeline) == [24, 24, 24, 24]
    facts = timed_facts.facts(timeline)
    assert (facts.makespan, facts.idle, facts.span_rate) == (27, [3] * 4, 0)
    found = claims("zb-h2", (4, 8), 1, 2, 1, 0)
    assert (found["longest_span"].values, failing(found["longest_span"])) == ((24,), [])
    assert "elapsed" not in found  # what the paper calls cost is a span; nobody published a makespan


@pytest.mark.parametrize(("name", "total"), [("zb-h1", 41), ("zb-h2", 30)])
def test_p4_m8_f1_b2_with_c_1(name: str, total: int) -> None:
    assert timed_facts.facts(timed(name, 4, 8, c=1)).makespan == total


@pytest.mark.parametrize(("name", "total", "span"), [("zb-h1", 13, 13), ("zb-h2", 14, 13)])
def test_m3_is_too_few_for_p4_and_h2_is_then_worse_than_h1(name: str, total: int, span: int) -> None:
    facts = timed_facts.facts(timed(name, 4, 3))
    assert (facts.makespan, facts.max_span) == (total, span)
    if name == "zb-h2":
        assert failing(claims(name, (4, 3), 1, 2, 1, 0)["longest_span"]) == ["M >= 2P-1"]
    else:
        assert claims(name, (4, 3), 1, 2, 1, 0)["elapsed"].values == (13,)  # (M+P-1)(f+i)+w


def test_long_weight_gradients_break_the_form_and_the_condition_says_so() -> None:
    """f=1, i=1/2, w=3/2: the formula would give 16 + 3*0 = 24, and W delays what others wait for."""
    timeline = timed("zb-h1", 4, 8, i="1/2", w="3/2")
    claim = claims("zb-h1", (4, 8), 1, 2, "3/2", 0)["elapsed"]
    assert claim.values == (24,)
    assert failing(claim) == ["w <= min(f,i)"]
    assert timed_facts.facts(timeline).makespan > 24


def test_bytes_of_p4_with_half_kept_for_w() -> None:
    """(P-r) + r/2 and (2P-2r-1) + 2r/2, in units of one activation."""
    for name, expected in (("zb-h1", [4, "7/2", 3, "5/2"]), ("zb-h2", [7, 6, 5, 4])):
        claim = claims(name, (4, 8), 1, 2, 1, 0)["peak_activation_bytes"]
        assert list(claim.values) == [Fraction(x) for x in expected]
        assert timed_facts.peaks(timed(name, 4, 8), Fraction(1, 2)) == list(claim.values)
    assert timed_facts.peaks(timed("zb-h1", 4, 8)) == [4] * 4
    assert timed_facts.peaks(timed("zb-h2", 4, 8)) == [7] * 4


def test_no_bytes_are_claimed_where_no_sizes_are_given() -> None:
    found = entry("zb-h1")
    costs = EqualCosts(Fraction(1), Fraction(2), Fraction(1), Fraction(0))
    assert "peak_activation_bytes" not in {claim.metric for claim in found.claims(Params(4, 8), costs)}


def test_interleaved_zb_with_one_chunk_is_zb_h1() -> None:
    for sizes in ((4, 8), (4, 3), (1, 5), (8, 16)):
        assert list(build("interleaved-zb", Params(*sizes, 1))) == list(build("zb-h1", Params(*sizes)))
    assert claims("interleaved-zb", (8, 16, 1), 1, 2, 1, 0)["elapsed"].values == (55,)


def test_interleaved_zb_peaks_on_every_rank() -> None:
    """P4 v2 M8, groups of 4: 4 of the first chunk and P more are alive before the first W is due."""
    assert timed_facts.peaks(timed("interleaved-zb", 4, 8, 2)) == [8] * 4


def test_zb_v_p4_m8() -> None:
    timeline = timed("zb-v", 4, 8)
    facts = timed_facts.facts(timeline)
    assert spans(timeline) == [48] * 4  # ticks of 1/2
    assert (timeline.ticks_per_unit, facts.makespan, facts.idle) == (2, Fraction(51, 2), [Fraction(3, 2)] * 4)
    assert timed_facts.peaks(timeline) == [8] * 4


def test_zb_v_says_which_condition_fails() -> None:
    unequal = claims("zb-v", (4, 8), 1, 2, "1/2", 0)
    assert failing(unequal["longest_span"]) == ["f = i = w"]
    assert failing(unequal["peak_activations"]) == []
    few = claims("zb-v", (4, 6), 1, 2, 1, 1)
    assert failing(few["elapsed"]) == ["M >= 2P-1", "c = 0"]


def test_zb_v_with_one_microbatch_runs_down_the_v_and_back() -> None:
    schedule = build("zb-v", Params(3, 1))
    assert [[str(op) for op in order] for order in schedule] == [
        ["0F0", "5F0", "5I0", "5W0", "0I0", "0W0"],
        ["1F0", "4F0", "4I0", "4W0", "1I0", "1W0"],
        ["2F0", "3F0", "3I0", "3W0", "2I0", "2W0"],
    ]
