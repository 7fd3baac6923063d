"""Which op runs next: the ops of a timeline in the order of time, or, where the engine gives a schedule no times, rank by
rank as messages come. It decides the order and drives a `Machine`; it asks neither the dependency rule nor the checker.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from pptrace.model import Op, OpKind
from pptrace.rationals import text_of

if TYPE_CHECKING:
    from pptrace.model import Schedule
    from pptrace.proof.machine import Machine
    from pptrace.timeline import Timeline


def run_timeline(machine: Machine, timeline: Timeline) -> None:
    """Run every op of `timeline` at its time. Raises `StateFault` when the machine is strict."""
    schedule = timeline.schedule
    starts, ends, arrivals = timeline.starts, timeline.ends, timeline.arrivals
    rank_of = _ranks(schedule)
    op_at = schedule.coder.op
    for position in time_order(timeline):
        start = starts[position]
        at = f"t={text_of(Fraction(start, timeline.ticks_per_unit))}"
        op, rank = op_at(schedule.codes[position]), rank_of[position]
        if timeline.measured:  # a measured range holds the wait for its input: only the order of the ends is known
            machine.run(op, rank, at)
        else:
            machine.run(op, rank, at, start, ends[position], arrivals[position])


def time_order(timeline: Timeline) -> list[int]:
    """All positions so that nothing comes before what it could have used.

    By start; at equal starts ops without duration come first, updates after work, reductions before steps. Measured
    timelines by end.
    """
    schedule, starts, ends = timeline.schedule, timeline.starts, timeline.ends
    first_boundary = schedule.coder.base(OpKind.REDUCE, 0)
    first_step = schedule.coder.base(OpKind.STEP, 0)

    def key(position: int) -> tuple[int, int, int]:
        code = schedule.codes[position]
        late = 0 if code < first_boundary else 1 if code < first_step else 2
        if timeline.measured:
            return ends[position], starts[position], late
        return starts[position], ends[position], late

    if schedule.asynchronous:  # updates follow their backward in the rank's list, and its next op follows them
        return sorted(range(schedule.num_ops), key=lambda position: key(position)[:2])
    return sorted(range(schedule.num_ops), key=key)


def run_untimed(machine: Machine, schedule: Schedule) -> None:
    """Run every rank's list in order, each rank as far as its messages allow, round robin.

    Updates wait until no rank can compute any more (a barrier); in schedules without a flush they run where they stand.
    An op whose message never comes is run without it, which is a fault. Raises `StateFault` when the machine is strict.
    """
    next_op = list(schedule.rank_starts[:-1])
    last_op = schedule.rank_starts[1:]
    op_at = schedule.coder.op

    def run_next(rank: int) -> None:
        position = next_op[rank]
        next_op[rank] += 1
        at = f"op {position - schedule.rank_starts[rank]} of rank {rank}"
        machine.run(op_at(schedule.codes[position]), rank, at)

    unfinished = set(range(schedule.num_ranks))
    while unfinished:
        moved = False
        updates: list[tuple[OpKind, int]] = []
        for rank in sorted(unfinished):
            while next_op[rank] < last_op[rank]:
                op = op_at(schedule.codes[next_op[rank]])
                if op.kind >= OpKind.REDUCE and not schedule.asynchronous:
                    updates.append((op.kind, rank))
                    break
                if not machine.has_input(op, rank):
                    break
                run_next(rank)
                moved = True
            else:
                unfinished.discard(rank)
        if moved or not unfinished:
            continue
        if updates:
            first_kind = min(updates)[0]
            for kind, rank in updates:
                if kind == first_kind:
                    run_next(rank)
        else:
            run_next(_most_hopeless(schedule, next_op, sorted(unfinished)))


def finish_steps(machine: Machine, schedule: Schedule) -> None:
    """The updates of a schedule that has none of its own: every copy reduced, then stepped, at the end."""
    copies = sorted(machine.weights, key=lambda copy: (copy[1], copy[0]))
    for kind in (OpKind.REDUCE, OpKind.STEP):
        for rank, stage in copies:
            machine.run(Op(stage, kind, rank, schedule.num_steps - 1), rank, "at the end")


def _most_hopeless(schedule: Schedule, next_op: list[int], stuck: list[int]) -> int:
    """The stuck rank whose message no rank will ever send; the first of a cycle where all would still come."""
    pending = {
        schedule.op(position) for rank in stuck for position in range(next_op[rank], schedule.rank_starts[rank + 1])
    }
    for rank in stuck:
        op = schedule.op(next_op[rank])
        if op.kind is OpKind.F:
            senders = [op._replace(stage=op.stage - 1)]
        else:
            senders = [op._replace(stage=op.stage + 1, kind=kind) for kind in (OpKind.B, OpKind.I)]
        if pending.isdisjoint(senders):
            return rank
    return stuck[0]


def _ranks(schedule: Schedule) -> list[int]:
    """The rank of every position."""
    ranks: list[int] = []
    for rank in range(schedule.num_ranks):
        ranks += [rank] * len(schedule.positions(rank))
    return ranks
