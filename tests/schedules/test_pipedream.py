"""pipedream and pipedream-2bw: 1f1b over the microbatches of all steps, with updates in between and no flush."""

from __future__ import annotations

from fractions import Fraction

import pytest
import timed_facts

from pptrace.analysis.phases import phases
from pptrace.analysis.report import Report
from pptrace.costs import Costs, values
from pptrace.errors import LimitError, ParameterError
from pptrace.model import OpKind, Schedule
from pptrace.schedules.registry import EqualCosts, Params, build, checked, entry
from pptrace.schedules.updates import with_updates
from pptrace.timeline import simulate_schedule


def without_updates(schedule: Schedule) -> list[list[tuple[int, str, int]]]:
    """(stage, kind, microbatch counted over all steps), of the compute ops."""
    num = schedule.num_microbatches
    return [
        [(op.stage, op.kind.name, op.step * num + (op.microbatch or 0)) for op in order if op.kind <= OpKind.W]
        for order in schedule
    ]


@pytest.mark.parametrize("name", ["pipedream", "pipedream-2bw"])
@pytest.mark.parametrize(("num_ranks", "num", "steps"), [(1, 1, 4), (2, 3, 1), (4, 4, 3), (4, 6, 2)])
def test_the_order_is_1f1b_over_all_steps(name: str, num_ranks: int, num: int, steps: int) -> None:
    schedule = build(name, Params(num_ranks, num, num_steps=steps))
    assert schedule.asynchronous
    assert without_updates(schedule) == without_updates(build("1f1b", Params(num_ranks, num * steps)))


def test_pipedream_updates_after_every_backward() -> None:
    rank_0, rank_1 = (" ".join(map(str, order)) for order in build("pipedream", Params(2, 2, num_steps=2)))
    update = ["0REDUCE 0STEP", "0REDUCE1 0STEP1", "0REDUCE@1 0STEP@1", "0REDUCE1@1 0STEP1@1"]
    assert rank_0 == (f"0F0 0F1 0B0 {update[0]} 0F0@1 0B1 {update[1]} 0F1@1 0B0@1 {update[2]} 0B1@1 {update[3]}")
    assert rank_1.startswith("1F0 1B0 1REDUCE 1STEP 1F1 1B1 1REDUCE1 1STEP1 1F0@1")


def test_2bw_updates_after_every_m_backwards() -> None:
    rank_0, rank_1 = (" ".join(map(str, order)) for order in build("pipedream-2bw", Params(2, 2, num_steps=2)))
    assert rank_0 == "0F0 0F1 0B0 0F0@1 0B1 0REDUCE 0STEP 0F1@1 0B0@1 0B1@1 0REDUCE@1 0STEP@1"
    assert rank_1 == "1F0 1B0 1F1 1B1 1REDUCE 1STEP 1F0@1 1B0@1 1F1@1 1B1@1 1REDUCE@1 1STEP@1"


def test_three_steps_of_p4_m4_beside_1f1b_with_its_flush() -> None:
    """Without a flush the pipeline fills once: (12+3)*2 = 30 against 3*14 = 42; steady state idle 0."""
    costs = Costs(values(1), values(1))
    streamed = simulate_schedule(build("pipedream", Params(4, 4, num_steps=3)), costs)
    flushed = simulate_schedule(with_updates(build("1f1b", Params(4, 4)), 3), costs)
    assert timed_facts.facts(streamed).makespan == 30
    assert timed_facts.facts(flushed).makespan == 42
    assert timed_facts.facts(streamed).inner_idle == [6, 4, 2, 0]
    for rank in range(4):
        steady = [span for span in streamed.spans(rank) if span.start >= 7 and span.end <= 23]
        assert sum(span.end - span.start for span in steady) == 16


def test_phases_without_a_flush_are_of_all_steps() -> None:
    """P4 M4, two steps: rank r runs P-r forwards before its first backward, as many backwards after its last forward, and the
    rest of its 16 ops in pairs; the last stage alternates from 3 on, its eighth forward from 17 to 18."""
    unit = Costs(values(1), values(1))
    streamed = phases(simulate_schedule(build("pipedream", Params(4, 4, num_steps=2)), unit))
    assert [rank[1:4] for rank in streamed.ranks] == [(4, 8, 4), (3, 10, 3), (2, 12, 2), (1, 14, 1)]
    assert (streamed.warmup_until, streamed.drain_from) == (4, 18)
    flushed = phases(simulate_schedule(with_updates(build("1f1b", Params(4, 4)), 2), unit))
    assert [rank[1:4] for rank in flushed.ranks] == [(4, 0, 4), (3, 2, 3), (2, 4, 2), (1, 6, 1)]
    assert (flushed.warmup_until, flushed.drain_from) == (4, 10)


@pytest.mark.parametrize("name", ["1f1b", "pipedream", "pipedream-2bw"])
def test_what_it_is_often_taken_for_is_told_in_every_report(name: str) -> None:
    other = "1f1b" if name.startswith("pipedream") else "pipedream"
    report = Report(simulate_schedule(build(name, Params(4, 4))))
    told = [sentence for sentence in report.assumptions if sentence.startswith("not ")]
    assert len(told) == 1
    assert told[0].startswith(f"not {other}, which ")
    assert ("flush" in told[0], "weight version" in told[0]) == (True, True)


def test_closed_forms_are_of_the_microbatches_of_all_steps() -> None:
    """P4 M4, three steps: 12 microbatches; with one step the formulas are those of 1f1b."""
    unit = Costs(values(1), values(1))
    forms = Report(simulate_schedule(build("pipedream", Params(4, 4, num_steps=3)), unit)).closed_forms
    assert [(form.formula, form.claimed, form.verdict) for form in forms] == [
        ("(K*M+P-1)*(f+b) + 2*c*((P-1)+(K*M-1)-ceil((K*M-1)/P))", (30,), "agrees"),
        ("(P-1)/(K*M+P-1)", (Fraction(3, 15),), "agrees"),
        ("(P-1)/(K*M)", (Fraction(3, 12),), "agrees"),
        ("min(K*M, P-r)", (4, 3, 2, 1), "agrees"),
    ]
    once = Report(simulate_schedule(build("pipedream", Params(4, 4)), unit)).closed_forms
    assert [form.formula for form in once] == [
        form.formula for form in Report(simulate_schedule(build("1f1b", Params(4, 4)), unit)).closed_forms
    ]


def test_an_update_takes_its_time_between_ops() -> None:
    timeline = simulate_schedule(build("pipedream", Params(1, 2)), Costs(values(1), values(1), step_time=Fraction(3)))
    assert [(str(span.op), span.start, span.end) for span in timeline.spans(0)] == [
        ("0F0", 0, 1), ("0B0", 1, 2), ("0REDUCE", 2, 2), ("0STEP", 2, 5),
        ("0F1", 5, 6), ("0B1", 6, 7), ("0REDUCE1", 7, 7), ("0STEP1", 7, 10),
    ]  # fmt: skip
    found = entry("pipedream")
    claims = found.claims(checked(found, Params(1, 2)), EqualCosts(*map(Fraction, (1, 1, 0, 0)), update=Fraction(3)))
    elapsed = next(claim for claim in claims if claim.metric == "elapsed")
    assert [c.text for c in elapsed.conditions if not c.holds] == ["updates take no time"]


def test_2bw_needs_a_microbatch_for_every_rank() -> None:
    with pytest.raises(ParameterError, match=r"M >= P microbatches, got P = 4 M = 3; .* use M = 4, or pipedream"):
        build("pipedream-2bw", Params(4, 3))


def test_updates_are_not_added_again() -> None:
    schedule = build("pipedream", Params(2, 4, num_steps=3))
    assert with_updates(schedule, 3) is schedule
    with pytest.raises(ParameterError, match="was built with 3, not 2; build it with --steps"):
        with_updates(schedule, 2)


def test_all_steps_count_for_the_limit() -> None:
    with pytest.raises(LimitError):
        build("pipedream", Params(4, 8, num_steps=100), max_ops=6000)
    with pytest.raises(ParameterError, match="--steps must be at least 1, got 0"):
        build("pipedream", Params(4, 8, num_steps=0))
