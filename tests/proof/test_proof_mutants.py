"""Schedules changed at random: whatever is computed differently is caught, and what is computed the same is not accused.

The judge below knows sets of ops and nothing of numbers, costs, `check` or `dependencies`: it runs the lists as far as they go.
"""

from functools import cache
from random import Random

import pytest

from pptrace.errors import ParameterError
from pptrace.model import OpKind
from pptrace.proof.problem import Problem
from pptrace.proof.prove import prove
from pptrace.proof.reference import unsplit
from pptrace.schedules import registry
from pptrace.schedules.registry import Params, build
from pptrace.schedules.transforms import recompute, split_backward
from pptrace.schedules.updates import with_updates

F, B, I, W, R = OpKind.F, OpKind.B, OpKind.I, OpKind.W, OpKind.R  # noqa: E741
MUTANTS_PER_SCHEDULE = 150


def is_right(schedule):
    """Every (stage, microbatch) forward and backward exactly once, on its rank, and the lists can be run to their ends."""
    orders = [schedule.order(rank) for rank in range(schedule.num_ranks)]
    ops = {op for order in orders for op in order}
    if len(ops) != schedule.num_ops:
        return False
    stages, steps, num = range(schedule.num_stages), range(schedule.num_steps), schedule.num_microbatches
    if updates_of(orders) != updates_of(whole(schedule)):
        return False
    groups = [{op.stage: set() for op in ops} for _ in steps]
    for step in steps:
        for stage in stages:
            for number in range(num):
                kinds = {kind for kind in (F, B, I, W) if of(stage, kind, number, step) in ops}
                if kinds not in ({F, B}, {F, I, W}):
                    return False
                groups[step][stage].add(of(stage, B if B in kinds else W, number, step))
    for rank, order in enumerate(orders):
        for op in order:
            if (op.kind < OpKind.REDUCE or schedule.placement.bidirectional) and schedule.placement.rank_of(
                op.stage, op.microbatch or 0, num
            ) != rank:
                return False
    return runs_to_its_end(schedule, orders, ops, groups)


def of(stage, kind, number, step):
    from pptrace.model import Op

    return Op(stage, kind, number, step)


def whole(schedule):
    """A right schedule of the same sizes."""
    chunks = schedule.num_chunks if "chunks" in registry.entry(schedule.name).options else None
    params = Params(schedule.num_ranks, schedule.num_microbatches, chunks)
    return with_updates(build(schedule.name, params), schedule.num_steps)


def updates_of(orders):
    """Which copies of which stages are reduced and stepped; what number their ops carry changes nothing."""
    return sorted(
        (rank, op.stage, op.kind, op.step)
        for rank, order in enumerate(orders)
        for op in order
        if op.kind >= OpKind.REDUCE
    )


def runs_to_its_end(schedule, orders, ops, groups):
    last = schedule.num_stages - 1
    reduces = [{op for op in ops if op.kind is OpKind.REDUCE and op.step == step} for step in range(schedule.num_steps)]
    updated = [{op for op in ops if op.kind is OpKind.STEP and op.step == step} for step in range(schedule.num_steps)]
    done = set()

    def may_run(op):
        stage, kind, number, step = op
        backward = {of(stage, B, number, step), of(stage, I, number, step)}
        if kind is F:
            below = stage == 0 or of(stage - 1, F, number, step) in done
            mine = {u for u in updated[step - 1] if u.stage == stage} if step else set()
            return below and mine <= done
        if kind in (B, I):
            above = {of(stage + 1, B, number, step), of(stage + 1, I, number, step)}
            again = of(stage, R, number, step)
            return (
                of(stage, F, number, step) in done
                and (stage == last or bool(above & done))
                and (again not in ops or again in done)
            )
        if kind is W:
            return of(stage, I, number, step) in done
        if kind is R:
            return of(stage, F, number, step) in done and not backward & done
        if kind is OpKind.REDUCE:
            return groups[step][stage] <= done
        return reduces[step] <= done

    at = [0] * len(orders)
    moved = True
    while moved:
        moved = False
        for rank, order in enumerate(orders):
            while at[rank] < len(order) and may_run(order[at[rank]]):
                done.add(order[at[rank]])
                at[rank] += 1
                moved = True
    return len(done) == schedule.num_ops


def mutant(schedule, source):
    """One change: an op dropped, doubled, swapped, moved, renumbered, of another kind or stage, or a tail cut off."""
    orders = [[schedule.codes[i] for i in schedule.positions(rank)] for rank in range(schedule.num_ranks)]
    rank = source.choice([r for r in range(len(orders)) if len(orders[r]) > 1])
    order = orders[rank]
    place, other = source.randrange(len(order)), source.randrange(len(order))
    coder = schedule.coder
    op = coder.op(order[place])
    change = source.choice(["drop", "double", "swap", "neighbours", "move", "rank", "renumber", "kind", "stage", "cut"])
    if change == "drop":
        del order[place]
    elif change == "double":
        order.insert(other, order[place])
    elif change == "swap":
        order[place], order[other] = order[other], order[place]
    elif change == "neighbours":
        place = min(place, len(order) - 2)
        order[place : place + 2] = order[place : place + 2][::-1]
    elif change == "move":
        order.insert(other, order.pop(place))
    elif change == "rank":
        target = source.choice(orders)
        target.insert(source.randint(0, len(target)), order.pop(place))
    elif change == "renumber":
        order[place] = coder.code_of(op._replace(microbatch=source.randrange(schedule.num_microbatches)))
    elif change == "kind":
        order[place] = coder.code_of(op._replace(kind=source.choice([F, B, I, W])))
    elif change == "stage":
        order[place] = coder.code_of(op._replace(stage=source.randrange(schedule.num_stages)))
    else:
        del order[-source.randint(1, len(order) - 1) :]
    return schedule.replace(orders, pairs=())


@cache
def shared(num_stages, num_microbatches, num_steps):
    problem = Problem(num_stages, num_microbatches)
    updates = [[(step, m) for m in range(num_microbatches)] for step in range(num_steps)]
    return problem, unsplit(problem, updates)


def bases():
    """Right schedules of every family, with updates, as single ops."""
    for name in registry.names():
        if registry.entry(name).asynchronous:
            continue
        for p, m, v, steps in ((2, 3, 1, 1), (3, 3, 2, 1), (2, 2, 2, 2), (2, 4, 2, 1), (4, 8, 1, 1)):
            try:
                schedule = build(name, Params(p, m, v))
            except ParameterError:
                continue
            yield pytest.param(with_updates(schedule, steps), id=f"{name} P{p} M{m} v{v} steps {steps}")
            break
    plain = build("1f1b", Params(2, 3))
    yield pytest.param(with_updates(recompute(plain)), id="1f1b recomputed")
    yield pytest.param(with_updates(split_backward(plain), 2), id="1f1b split, two steps")


@pytest.mark.parametrize("base", list(bases()))
def test_every_mutant_that_computes_something_else_is_caught_and_no_other(base):
    source = Random(f"mutants of {base!r}")
    problem, reference = shared(base.num_stages, base.num_microbatches, base.num_steps)
    assert prove(base, problem=problem, reference=reference).proved
    wrong = 0
    for _ in range(MUTANTS_PER_SCHEDULE):
        changed = mutant(base, source)
        right = is_right(changed)
        proof = prove(changed, problem=problem, reference=reference)
        assert proof.proved == right, "; ".join(" ".join(map(str, order)) for order in changed)
        wrong += not right
    assert wrong > MUTANTS_PER_SCHEDULE // 2
