"""What closed forms are evaluated with where all ranks are alike."""

from __future__ import annotations

from fractions import Fraction

import pytest

from pptrace.analysis.closed_forms import closed_forms, equal_costs
from pptrace.analysis.report import Report
from pptrace.costs import Costs, Sizes, Values, values
from pptrace.errors import ParameterError
from pptrace.schedules.registry import Params, build
from pptrace.timeline import simulate_schedule


def test_microbatches_that_are_all_twice_as_long_are_equal_microbatches() -> None:
    """1f1b P2 M4 with f = b = 1 and a scale of 2: (4+1)*(2+2) = 20."""
    timeline = simulate_schedule(
        build("1f1b", Params(2, 4)), Costs(values(1), values(1), microbatch_scale=(Fraction(2),) * 4)
    )
    costs, unequal = equal_costs(timeline)
    assert (costs.f, costs.b, unequal) == (2, 2, [])
    elapsed = closed_forms(timeline, Report(timeline).metrics, soonest=True)[0]
    assert (elapsed.claimed, elapsed.traced, elapsed.verdict) == ((20,), (20,), "agrees")


def test_a_pair_of_a_given_length_is_told_per_rank() -> None:
    """dualpipev has two chunks on a rank: a pair of 5/2 an op is 5 a rank, and its bubble (P-1)/2*(5+4-6) = 9/2."""
    costs = Costs(values(1, per="op"), values(2, per="op"), values(1, per="op"), overlap=Fraction(5, 2))
    timeline = simulate_schedule(build("dualpipev", Params(4, 8)), costs)
    assert equal_costs(timeline)[0].overlap == 5
    worst = Report(timeline).closed_forms[0]
    assert (worst.metric, worst.claimed, worst.traced, worst.verdict) == (
        "bubble_time",
        (Fraction(9, 2),),
        (Fraction(9, 2),),
        "agrees",
    )


def test_the_time_of_an_update_is_told() -> None:
    timeline = simulate_schedule(build("pipedream", Params(2, 4)), Costs(reduce=Fraction(1), step_time=Fraction(2)))
    assert equal_costs(timeline)[0].update == 3
    elapsed = Report(timeline).closed_forms[0]
    assert (elapsed.verdict, elapsed.failing) == ("does not apply", ("updates take no time",))


def bytes_form(name: str, *, activation: str, after_input: str | None, num: int = 8, c: int = 0) -> tuple:
    """(claimed, traced, verdict, failing) of the closed form of activations in bytes, P = 4, f = i = w = 1."""
    split = [Values(tuple(map(Fraction, text.split(",")))) if text else None for text in (activation, after_input)]
    costs = Costs(values(1), values(2), values(1), comm=(Fraction(c),), sizes=Sizes(split[0], split[1]))
    found = Report(simulate_schedule(build(name, Params(4, num)), costs))
    (form,) = [form for form in found.closed_forms if form.metric == "peak_activation_bytes"]
    return form.claimed, form.traced, form.verdict, form.failing


def test_bytes_of_zb_h1_are_p_minus_r_whole_ones_and_r_that_wait_for_w() -> None:
    """M_B = 10, M_W = 3: 40, 30+3, 20+6, 10+9."""
    wanted = (40, 33, 26, 19)
    assert bytes_form("zb-h1", activation="10", after_input="3") == (wanted, wanted, "agrees", ())


def test_bytes_of_zb_h2() -> None:
    """(2P-2r-1)*M_B + 2r*M_W: 70, 50+6, 30+12, 10+18."""
    wanted = (70, 56, 42, 28)
    assert bytes_form("zb-h2", activation="10", after_input="3") == (wanted, wanted, "agrees", ())


def test_where_nothing_is_said_of_m_w_it_is_m_b() -> None:
    assert bytes_form("zb-h1", activation="10", after_input=None)[:3] == ((40,) * 4, (40,) * 4, "agrees")


def test_bytes_name_the_condition_that_fails() -> None:
    few = bytes_form("zb-h1", activation="10", after_input="3", num=3)
    assert few[2:] == ("does not apply", ("M >= P",))
    assert bytes_form("zb-h2", activation="10", after_input="3", num=6)[3] == ("M >= 2P-1",)
    assert bytes_form("zb-h1", activation="10", after_input="3", c=1)[3] == ("c = 0",)
    unequal = bytes_form("zb-h1", activation="10,10,10,12", after_input="3")
    assert unequal[0] == ()
    assert unequal[1] == (40, 33, 26, 21)
    assert unequal[3] == ("equal activations (M_B from 10 to 12)",)
    assert bytes_form("zb-h1", activation="10", after_input="3,4,3,3")[3] == ("equal activations (M_W from 3 to 4)",)


def test_no_sizes_no_claim_in_bytes() -> None:
    found = Report(simulate_schedule(build("zb-h1", Params(4, 8)), Costs(values(1), values(2), values(1))))
    assert "peak_activation_bytes" not in found.metrics
    assert {form.metric for form in found.closed_forms} == {
        "elapsed",
        "bubble_time",
        "longest_span",
        "peak_activations",
    }


def test_what_is_left_after_i_needs_the_whole() -> None:
    costs = Costs(values(1), values(2), values(1), sizes=Sizes(after_input=values(3)))
    with pytest.raises(ParameterError, match="--after-input-bytes is what I leaves of --activation-bytes; give both"):
        simulate_schedule(build("zb-h1", Params(4, 8)), costs)
