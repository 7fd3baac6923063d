"""Every registered schedule, over sizes, costs and latencies: what must hold whatever the schedule is.

The rules are stated here a second time, on ops and fractions; nothing below reads the library's dependencies.

Each test draws a fixed set of examples. PPTRACE_EXAMPLES=20 draws twenty times as many, others in every run (nightly).
"""

from __future__ import annotations

import os
from collections import Counter
from fractions import Fraction
from itertools import product

import hypothesis.strategies as st
import pytest
import timed_facts
from hypothesis import given, settings

from pptrace.analysis.report import Report
from pptrace.costs import Costs, Values, values
from pptrace.deadlock import DeadlockError
from pptrace.errors import ParameterError
from pptrace.formats import load
from pptrace.model import BOUNDARY_KINDS, Op, OpKind, Schedule
from pptrace.recipes import Recipe, make_schedule
from pptrace.schedules.interleaved import full_groups
from pptrace.schedules.registry import Params, build, checked, entry, names, with_remedy
from pptrace.schedules.transforms import recompute, split_backward
from pptrace.timeline import Span, Timeline, simulate_schedule

F, B, I, W, R = OpKind.F, OpKind.B, OpKind.I, OpKind.W, OpKind.R  # noqa: E741

TIMES_AS_MANY = int(os.environ.get("PPTRACE_EXAMPLES", "1"))


def examples(number: int) -> settings:
    return settings(max_examples=number * TIMES_AS_MANY, deadline=None, derandomize=TIMES_AS_MANY == 1)


sizes = st.tuples(st.integers(1, 8), st.integers(1, 17), st.integers(1, 4), st.integers(1, 17))
times = st.builds(Fraction, st.integers(1, 9), st.sampled_from([1, 2, 3]))
latencies = st.sampled_from([Fraction(0), Fraction(0), Fraction(1, 2), Fraction(3)])
overlaps = st.sampled_from(["sum", "max", "split"])


def legal(name: str, drawn: tuple[int, int, int, int], *, grouped: bool = True) -> Params:
    """The parameters nearest to those drawn that the schedule takes; half of the grouped ones name a group."""
    found = entry(name)
    num_ranks, num, chunks, group = drawn

    def distance(size: tuple[int, int]) -> int:
        return abs(size[0] - num_ranks) + abs(size[1] - num)

    for p, m in sorted(product(range(1, 9), range(1, 18)), key=distance):
        for v in (chunks, chunks + 1):  # some take even numbers only
            params = Params(
                p,
                m,
                v if "chunks" in found.options else None,
                min(group, m) if grouped and "group" in found.options and group % 2 else None,
            )
            try:
                return checked(found, params)
            except ParameterError:
                continue
    pytest.fail(f"{name} takes no size up to P=8 M=17")


def timed(name: str, params: Params, schedule: Schedule, costs: Costs) -> Timeline | None:
    """The timeline; None where groups that may deadlock do, and then a remedy is there."""
    try:
        return simulate_schedule(schedule, costs)
    except DeadlockError as error:
        told = str(with_remedy(error, name, params))
        if params.group is None or full_groups(params.num_ranks, params.num_microbatches, params.group):
            raise
        if "leave --group out" not in told:
            pytest.fail(f"no remedy: {told}")
        return None


def unequal_costs(schedule: Schedule, draw: st.DataObject, overlap: str, latency: Fraction) -> Costs:
    """Costs of its own for every stage."""
    lists = [draw.draw(st.lists(times, min_size=schedule.num_stages, max_size=schedule.num_stages)) for _ in range(3)]
    forward, inputs, weights = lists
    full = [i + w for i, w in zip(inputs, weights, strict=True)]
    per_stage = [Values(tuple(numbers), "stage") for numbers in (forward, full, weights)]
    return Costs(*per_stage, comm=(latency,), overlap=overlap)


def assert_every_op_once(schedule: Schedule, *, updated: bool = False) -> None:
    """F of every (stage, microbatch, step) once; B once, or I and W once; R never, or once for each. Nothing of an update
    but where there is no flush, or the order was `updated`."""
    updated = updated or schedule.asynchronous
    ops = Counter(op for order in schedule for op in order if not updated or op.kind not in BOUNDARY_KINDS)
    assert set(ops.values()) == {1}
    owners = set(product(range(schedule.num_stages), range(schedule.num_microbatches), range(schedule.num_steps)))
    of = {kind: {(op.stage, op.microbatch, op.step) for op in ops if op.kind is kind} for kind in (F, B, I, W, R)}
    assert of[F] == owners
    assert of[I] == of[W] == owners - of[B]
    assert of[R] in (set(), owners)
    assert len(ops) == sum(map(len, of.values()))


def assert_on_its_rank(schedule: Schedule) -> None:
    """Every op of a (stage, microbatch) is on one rank: the placement's."""
    placement, num = schedule.placement, schedule.num_microbatches
    for rank, order in enumerate(schedule):
        assert {placement.rank_of(op.stage, op.microbatch or 0, num) for op in order} <= {rank}


def assert_times(timeline: Timeline) -> None:
    """Nothing before what it waits for, nothing beside another op of its rank, and nothing later than it must be."""
    schedule, costs = timeline.schedule, timeline.costs
    unit = timeline.ticks_per_unit
    hop = costs.comm[0] * unit
    done = {(span.op.kind, span.op.stage, span.op.microbatch): span for span in timeline}
    blocks = schedule.pairs if costs.overlap != "split" else frozenset()
    for rank in range(schedule.num_ranks):
        free = 0
        spans = iter(list(timeline.spans(rank)))
        for span in spans:
            together = [span, next(spans)] if span.position in blocks else [span]
            arrivals = [arrival for each in together for arrival in _arrivals(schedule, done, each, hop)]
            assert {each.start for each in together} == {max([free, *arrivals])}
            assert len({each.end for each in together}) == 1
            free = span.end
        assert free > 0


def _arrivals(
    schedule: Schedule, done: dict[tuple[OpKind, int, int | None], Span], span: Span, hop: Fraction
) -> list[Fraction]:
    """When each of what `span` waits for is on its rank, from DESIGN's table of dependencies."""
    stage, kind, number, _ = span.op

    def arrival(*kinds: OpKind, stage: int = stage) -> list[Fraction]:
        sources = [done[k, stage, number] for k in kinds if (k, stage, number) in done]
        return [source.end + (hop if source.rank != span.rank else 0) for source in sources]

    if kind in BOUNDARY_KINDS:
        return []
    above = arrival(B, I, stage=stage + 1)
    if stage + 1 < schedule.num_stages:
        assert len(above) == 1
    if kind is F:
        return arrival(F, stage=stage - 1)
    if kind is W:
        return arrival(I)
    if kind is R:
        return arrival(F) + ([] if schedule.early_recompute else above)
    return arrival(F) + arrival(R) + above


@pytest.mark.parametrize("name", names())
@examples(40)
@given(drawn=sizes, draw=st.data(), overlap=overlaps, latency=latencies)
def test_every_op_once_and_none_too_early_or_too_late(
    name: str, drawn: tuple[int, int, int, int], draw: st.DataObject, overlap: str, latency: Fraction
) -> None:
    params = legal(name, drawn)
    schedule = build(name, params)
    assert_every_op_once(schedule)
    assert_on_its_rank(schedule)
    timeline = timed(name, params, schedule, unequal_costs(schedule, draw, overlap, latency))
    if timeline is not None:
        assert_times(timeline)
        assert_within_bounds(timeline)


def assert_within_bounds(timeline: Timeline) -> None:
    """No time is less than the lower bound, no rank holds more than the registry claims, whatever the costs are."""
    report = Report(timeline)
    assert (
        timed_facts.facts(timeline).makespan * timeline.ticks_per_unit >= report.metrics["lower_bound"].value.numerator
    )
    held = timed_facts.peaks(timeline)
    forms = [form for form in report.closed_forms if form.metric == "peak_activations"]
    for form in forms:
        assert form.verdict != "differs"
        whole = [max(held)] if len(form.claimed) == 1 else held
        assert form.claimed
        assert all(number <= claimed for number, claimed in zip(whole, form.claimed, strict=True))
    if not forms:  # the registry gives a bound only
        schedule = timeline.schedule
        assert schedule.name == "wave"
        assert max(held) <= schedule.num_chunks * min(schedule.num_microbatches, schedule.num_ranks)


def _with_full_backwards(order: list[Op]) -> list[Op]:
    """The forwards and backwards of a list, whether the backwards are split or not."""
    return [op._replace(kind=B) if op.kind is I else op for op in order if op.kind in (F, B, I)]


@pytest.mark.parametrize("name", names())
@examples(25)
@given(drawn=sizes, draw=st.data(), overlap=overlaps, latency=latencies, early=st.booleans(), split=st.booleans())
def test_transforms_keep_all_that(
    name: str,
    drawn: tuple[int, int, int, int],
    draw: st.DataObject,
    overlap: str,
    latency: Fraction,
    early: bool,
    split: bool,
) -> None:
    params = legal(name, drawn, grouped=False)
    plain = build(name, params)
    schedule = recompute(split_backward(plain) if split else plain, early=early)
    assert_every_op_once(schedule)
    assert_on_its_rank(schedule)
    assert len(schedule.pairs) == len(plain.pairs)
    for first in schedule.pairs:
        kinds = {schedule.op(first).kind, schedule.op(first + 1).kind}
        assert kinds in ({F, B}, {F, I})
        assert schedule.rank_at(first) == schedule.rank_at(first + 1)
    assert [_with_full_backwards(order) for order in schedule] == [_with_full_backwards(order) for order in plain]
    assert_times(simulate_schedule(schedule, unequal_costs(schedule, draw, overlap, latency)))


@pytest.mark.parametrize("name", names())
@examples(60)
@given(
    drawn=sizes,
    f=times,
    i=st.one_of(st.none(), times),
    w=st.one_of(st.none(), times),
    latency=latencies,
    overlap=overlaps,
)
def test_closed_forms_that_say_they_hold_equal_the_trace(
    name: str,
    drawn: tuple[int, int, int, int],
    f: Fraction,
    i: Fraction | None,
    w: Fraction | None,
    latency: Fraction,
    overlap: str,
) -> None:
    params = legal(name, drawn)
    halves = (i or f, w or f)
    costs = Costs(values(f), values(sum(halves)), values(halves[1]), comm=(latency,), overlap=overlap)
    timeline = timed(name, params, build(name, params), costs)
    if timeline is None:
        return
    report, facts, unit = Report(timeline), timed_facts.facts(timeline), timeline.ticks_per_unit
    metrics = {
        key: [Fraction(x.numerator, x.denominator) for x in metric.values] for key, metric in report.metrics.items()
    }
    assert metrics["elapsed"] == [facts.makespan * unit]
    assert metrics["longest_span"] == [facts.max_span * unit]
    assert metrics["bubble_time"] == [idle * unit for idle in facts.idle]
    assert metrics["peak_activations"] == timed_facts.peaks(timeline)
    assert metrics["elapsed"] >= metrics["lower_bound"]
    for form in report.closed_forms:
        assert form.verdict != "differs", f"{form.metric}: {form.formula} gives {form.claimed}, traced {form.traced}"
        if form.metric == "peak_activations" and form.claimed:
            assert all(held <= claimed for held, claimed in zip(form.traced, form.claimed, strict=True))


@pytest.mark.parametrize("name", names())
@examples(20)
@given(
    drawn=sizes,
    draw=st.data(),
    latency=latencies,
    steps=st.integers(1, 3),
    joint=st.booleans(),
    split=st.booleans(),
    again=st.sampled_from(["", "full", "early"]),
)
def test_steps_of_any_schedule_keep_apart_and_survive_a_trace(
    name: str,
    drawn: tuple[int, int, int, int],
    draw: st.DataObject,
    latency: Fraction,
    steps: int,
    joint: bool,
    split: bool,
    again: str,
) -> None:
    params = legal(name, drawn, grouped=False)._replace(num_steps=steps)
    schedule = make_schedule(Recipe(name, params, split, again, joint))
    assert_every_op_once(schedule, updated=True)
    kinds = schedule.kinds()
    assert (R in kinds) == bool(again)
    assert (B not in kinds) if split else (B in kinds or entry(name).splits)
    costs = unequal_costs(schedule, draw, "sum", latency)._replace(reduce=draw.draw(times), step_time=draw.draw(times))
    timeline = simulate_schedule(schedule, costs)
    if not schedule.asynchronous:
        assert_no_op_before_the_update(timeline)
    read = load("json").read(load("json").write(Report(timeline))).timeline
    assert read is not None
    assert list(read.schedule) == list(schedule)
    assert read.schedule.pairs == schedule.pairs
    assert read.schedule.options == schedule.options
    assert (read.starts, read.ends, read.ticks_per_unit) == (timeline.starts, timeline.ends, timeline.ticks_per_unit)
    assert Report(read).metrics == Report(timeline).metrics
    assert Report(read).lifetimes == Report(timeline).lifetimes


def assert_no_op_before_the_update(timeline: Timeline) -> None:
    """On every rank all of a step, its STEP last, ends before anything of the next step starts."""
    for rank in range(timeline.schedule.num_ranks):
        spans = sorted(timeline.spans(rank), key=lambda span: (span.op.step, span.end))
        ends: dict[int, int] = {}
        for span in spans:
            ends[span.op.step] = span.end
        last = {span.op.step: span.op.kind for span in spans if span.end == ends[span.op.step]}
        assert set(last.values()) == {OpKind.STEP}
        assert all(span.start >= ends.get(span.op.step - 1, 0) for span in spans)
