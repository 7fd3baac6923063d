"""What closed forms are evaluated with where all ranks are alike."""

from __future__ import annotations

from fractions import Fraction

from pptrace.analysis.closed_forms import closed_forms, equal_costs
from pptrace.analysis.report import Report
from pptrace.costs import Costs, values
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
