"""The engine against a quadratic reference engine that shares nothing with it, over random orders, placements and costs."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from random import Random
from typing import NamedTuple

import reference_engine
from hypothesis import given, settings
from hypothesis import strategies as st

from pptrace.costs import Costs, values
from pptrace.deadlock import DeadlockError
from pptrace.model import Op, OpKind, Placement, Schedule
from pptrace.schedules.registry import Params, build
from pptrace.schedules.updates import with_updates
from pptrace.timeline import simulate_schedule

KINDS = {kind.name: kind for kind in OpKind}


class Work(NamedTuple):
    """What has to be done: which op on which rank, after which others."""

    placement: Placement
    num_microbatches: int
    ranks: dict[Op, int]
    after: dict[Op, list[Op]]
    early_recompute: bool


def some_placement(random: Random) -> Placement:
    num_ranks = random.randint(1, 4)
    match random.choice(["loop", "v", "two-way", "file"]):
        case "loop":
            return Placement.loop(num_ranks, random.randint(1, 3))
        case "v":
            return Placement.zigzag(num_ranks, random.randint(1, 3))
        case "two-way":
            return Placement.two_way(num_ranks)
    return Placement("file", [random.randrange(num_ranks) for _ in range(random.randint(1, 6))], num_ranks)


def some_work(random: Random) -> Work:
    placement = some_placement(random)
    num, last = random.randint(1, 4), placement.num_stages - 1
    split = [random.random() < 0.4 for _ in range(last + 1)]
    recompute = random.random() < 0.3
    early = recompute and random.random() < 0.5
    ranks: dict[Op, int] = {}
    after: dict[Op, list[Op]] = {}
    for microbatch in range(num):
        for stage in range(last + 1):

            def op(kind: str, at: int = stage, number: int = microbatch) -> Op:
                return Op(at, KINDS[kind], number)

            back = "I" if split[stage] else "B"
            gradient = [op("I" if split[stage + 1] else "B", stage + 1)] if stage < last else []
            waits = {"F": [op("F", stage - 1)] if stage else [], back: [op("R" if recompute else "F"), *gradient]}
            if split[stage]:
                waits["W"] = [op("I")]
            if recompute:
                waits["R"] = [op("F"), *([] if early else gradient)]
            for kind, awaited in waits.items():
                after[op(kind)] = awaited
                ranks[op(kind)] = placement.rank_of(stage, microbatch, num)
    return Work(placement, num, ranks, after, early)


def some_order(random: Random, work: Work) -> Schedule:
    """The ops one by one, each after what it waits for, so that the order cannot lock."""
    orders: list[list[Op]] = [[] for _ in range(work.placement.num_ranks)]
    done: set[Op] = set()
    while len(done) < len(work.ranks):
        ready = [op for op, awaited in work.after.items() if op not in done and done.issuperset(awaited)]
        op = random.choice(ready)
        done.add(op)
        orders[work.ranks[op]].append(op)
    return as_schedule(work, orders, some_pairs(random, work, orders))


def some_pairs(random: Random, work: Work, orders: list[list[Op]]) -> list[tuple[int, int]]:
    """Neighbours, one of them a forward and one a backward, of which neither waits for the other."""
    pairs = []
    if random.random() < 0.5:
        return pairs
    for rank, ops in enumerate(orders):
        taken = -1
        for index, (a, b) in enumerate(pairwise(ops)):
            kinds = {a.kind.name, b.kind.name}
            apart = (a.stage, a.microbatch) != (b.stage, b.microbatch)
            fits = "F" in kinds and kinds & {"B", "I"} and apart and a not in work.after[b] and b not in work.after[a]
            if fits and index > taken and random.random() < 0.6:
                pairs.append((rank, index))
                taken = index + 1
    return pairs


def as_schedule(work: Work, orders: list[list[Op]], pairs: list[tuple[int, int]]) -> Schedule:
    return Schedule.from_ops(
        "random", work.placement, work.num_microbatches, orders, pairs=pairs, early_recompute=work.early_recompute
    )


def some_number(random: Random) -> Fraction:
    return Fraction(random.randint(1, 12), random.choice([1, 2, 3, 7]))


def some_costs(random: Random, schedule: Schedule) -> Costs:
    placement = schedule.placement
    per = random.choice(["rank", "op", "stage"])
    count = {"rank": placement.num_ranks, "op": placement.num_ranks, "stage": placement.num_stages}[per]
    count = random.choice([1, count])
    weight_grad = [random.choice([Fraction(0), some_number(random)]) for _ in range(count)]
    links = 1
    if placement.kind != "file" and random.random() < 0.5:
        loops = placement.kind == "loop" and placement.num_stages > placement.num_ranks > 1
        links = max(placement.num_ranks - (0 if loops else 1), 1)
    scaled = random.random() < 0.3
    return Costs(
        forward=values(*(some_number(random) for _ in range(count)), per=per),
        backward=values(*(w + some_number(random) for w in weight_grad), per=per),
        weight_grad=values(*weight_grad, per=per),
        comm=tuple(random.choice([Fraction(0), some_number(random)]) for _ in range(links)),
        reduce=random.choice([Fraction(0), some_number(random)]),
        step_time=random.choice([Fraction(0), some_number(random)]),
        overlap=random.choice(["sum", "max", "split", some_number(random)]),
        link=random.choice(["latency", "serial"]),
        microbatch_scale=tuple(some_number(random) for _ in range(schedule.num_microbatches)) if scaled else (),
    )


def assert_same(schedule: Schedule, costs: Costs) -> None:
    wanted = reference_engine.run(schedule, costs)
    if wanted is None:
        try:
            simulate_schedule(schedule, costs)
        except DeadlockError as error:
            assert_is_a_cycle(schedule, error)
            return
        message = "the reference engine is stuck, the engine is not"
        raise AssertionError(message)
    timeline = simulate_schedule(schedule, costs)
    unit = timeline.ticks_per_unit
    found = {
        position: (Fraction(timeline.starts[position], unit), Fraction(timeline.ends[position], unit))
        for position in range(schedule.num_ops)
    }
    wrong = {
        str(schedule.op(position)): (found[position], wanted[position])
        for position in found
        if found[position] != wanted[position]
    }
    assert not wrong


def assert_is_a_cycle(schedule: Schedule, error: DeadlockError) -> None:
    """Every wait of the cycle is for an op in the list of the next one's rank, and no sooner than where that rank is stuck."""
    for wait, following in zip(error.cycle, [*error.cycle[1:], error.cycle[0]], strict=True):
        assert wait.awaited_rank == following.rank
        order = schedule.order(following.rank)
        assert order.index(wait.awaited) >= order.index(error.next_ops[following.rank])


@settings(max_examples=250, deadline=None)
@given(st.randoms(use_true_random=False))
def test_random_orders(random: Random) -> None:
    schedule = some_order(random, some_work(random))
    assert_same(schedule, some_costs(random, schedule))


@settings(max_examples=80, deadline=None)
@given(st.randoms(use_true_random=False))
def test_random_orders_with_updates(random: Random) -> None:
    schedule = with_updates(some_order(random, some_work(random)), random.randint(1, 2), joint=random.random() < 0.5)
    assert_same(schedule, some_costs(random, schedule))


@settings(max_examples=150, deadline=None)
@given(st.randoms(use_true_random=False))
def test_shuffled_orders_lock_where_the_reference_locks(random: Random) -> None:
    work = some_work(random)
    once = some_order(random, work)
    orders = [once.order(rank) for rank in range(once.num_ranks)]
    for ops in orders:
        for _ in range(random.randint(0, 2)):
            if len(ops) > 1:
                at = random.randrange(len(ops) - 1)
                ops[at], ops[at + 1] = ops[at + 1], ops[at]
    schedule = as_schedule(work, orders, [])
    assert_same(schedule, some_costs(random, schedule))


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from(["naive", "gpipe", "1f1b", "eager-1f1b"]),
    st.integers(1, 5),
    st.integers(1, 6),
    st.randoms(use_true_random=False),
)
def test_named_schedules(name: str, num_ranks: int, num_microbatches: int, random: Random) -> None:
    schedule = build(name, Params(num_ranks, num_microbatches))
    assert_same(schedule, some_costs(random, schedule))


@settings(max_examples=100, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 3))
def test_no_step_before_the_gradients_of_its_step(random: Random, num_steps: int) -> None:
    joint = random.random() < 0.5
    schedule = with_updates(some_order(random, some_work(random)), num_steps, joint=joint)
    costs = some_costs(random, schedule)
    try:
        timeline = simulate_schedule(schedule, costs)
    except DeadlockError:  # a random pair can lock
        return
    spans = list(timeline)
    for step in (span for span in spans if span.op.kind is OpKind.STEP):
        gradients = [
            span
            for span in spans
            if span.op.kind in (OpKind.B, OpKind.W)
            and span.op.step == step.op.step
            and (joint or span.op.stage == step.op.stage)
        ]
        assert gradients
        assert step.start >= max(span.end for span in gradients)
        later = [span for span in timeline.spans(step.rank) if span.op.step > step.op.step]
        assert all(span.start >= step.end for span in later)
