"""Which op runs next: the ops of a timeline in the order of time, or, where the engine gives a schedule no times, rank by
rank as messages come. It decides the order and drives a `Machine`; it asks neither the dependency rule nor the checker.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from pptrace.model import BOUNDARY_KINDS, Op, OpKind
from pptrace.proof.state import AFTER_ALL, Moment, copies_of
from pptrace.rationals import text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pptrace.model import Schedule
    from pptrace.proof.machine import Machine
    from pptrace.timeline import Timeline

_SENDERS = {
    OpKind.F: (-1, (OpKind.F,)),
    OpKind.B: (1, (OpKind.B, OpKind.I)),
    OpKind.I: (1, (OpKind.B, OpKind.I)),
    OpKind.RECV_F: (-1, (OpKind.SEND_F,)),
    OpKind.RECV_B: (1, (OpKind.SEND_B,)),
}
"""Who makes what an op waits for: how many stages further on, and by which kinds of op."""


def _place_in_list(rank: int, index: int) -> str:
    return f"op {index} of rank {rank}"


def run_timeline(machine: Machine, timeline: Timeline) -> None:
    """Run every op of `timeline` at its time; a measured one rank by rank, because its ranges hold the wait for their input
    and the launch of their message, so that only the order on each rank is known. Raises `StateFault` when the machine is
    strict."""
    schedule = timeline.schedule
    starts, ends, arrivals = timeline.starts, timeline.ends, timeline.arrivals

    def text(position: int) -> str:
        return f"t={text_of(Fraction(starts[position], timeline.ticks_per_unit))}"

    if timeline.measured:
        run_untimed(machine, list(schedule), lambda rank, index: text(schedule.rank_starts[rank] + index))
        return
    rank_of = _ranks(schedule)
    op_at = schedule.coder.op
    for position in time_order(timeline):
        moment = Moment(text(position), starts[position], ends[position], arrivals[position])
        machine.run(op_at(schedule.codes[position]), rank_of[position], moment)


def time_order(timeline: Timeline) -> list[int]:
    """All positions so that nothing comes before what it could have used.

    By start; at equal starts ops without duration come first, updates after work, reductions before steps.
    """
    schedule, starts, ends = timeline.schedule, timeline.starts, timeline.ends
    first_boundary = schedule.coder.base(OpKind.REDUCE, 0)
    first_step = schedule.coder.base(OpKind.STEP, 0)

    def key(position: int) -> tuple[int, int, int]:
        code = schedule.codes[position]
        late = 0 if code < first_boundary else 1 if code < first_step else 2
        return starts[position], ends[position], late

    if schedule.asynchronous:  # updates follow their backward in the rank's list, and its next op follows them
        return sorted(range(schedule.num_ops), key=lambda position: key(position)[:2])
    return sorted(range(schedule.num_ops), key=key)


def run_untimed(
    machine: Machine, orders: Sequence[Sequence[Op]], when: Callable[[int, int], str] = _place_in_list
) -> None:
    """Run every rank's list in order, each rank as far as its messages allow, round robin. `when` says of (rank, index) when
    the op runs, for faults.

    Where a stage has two copies, updates wait until no rank can compute any more; elsewhere they run where they stand. An
    op whose message never comes is run without it, which is a fault. Raises `StateFault` when the machine is strict.
    """
    at = [0] * len(orders)
    barrier = machine.schedule.placement.bidirectional and not machine.schedule.asynchronous

    def run_next(rank: int) -> None:
        index = at[rank]
        at[rank] += 1
        machine.run(orders[rank][index], rank, Moment(when(rank, index)))

    unfinished = set(range(len(orders)))
    while unfinished:
        moved = False
        updates: list[tuple[OpKind, int]] = []
        for rank in sorted(unfinished):
            while at[rank] < len(orders[rank]):
                op = orders[rank][at[rank]]
                if barrier and op.kind in BOUNDARY_KINDS:
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
            run_next(_most_hopeless(machine, orders, at, sorted(unfinished)))


def finish_steps(machine: Machine, schedule: Schedule) -> None:
    """The updates of a schedule that has none of its own: every copy stepped at the end, and reduced before, unless the
    schedule reduces by itself."""
    kinds = [OpKind.STEP] if OpKind.REDUCE in schedule.kinds() else [OpKind.REDUCE, OpKind.STEP]
    for kind in kinds:
        for rank, stage in copies_of(schedule):
            goes_up = schedule.placement.bidirectional and rank != schedule.placement.ranks[stage]
            number = (schedule.num_microbatches + 1) // 2 if goes_up else None
            machine.run(
                Op(stage, kind, number, schedule.num_steps - 1), rank, Moment("at the end", AFTER_ALL, AFTER_ALL)
            )


def _most_hopeless(machine: Machine, orders: Sequence[Sequence[Op]], at: list[int], stuck: list[int]) -> int:
    """Which stuck rank goes on without its message: one at an op that has run before, whose message is used up; else one whose
    message no rank will ever send; else the first of a cycle, where all would still come."""
    pending = {op for rank in stuck for op in orders[rank][at[rank] :]}
    hopeless = []
    for rank in stuck:
        op = orders[rank][at[rank]]
        if op in machine.ran:
            return rank
        step, kinds = _SENDERS.get(op.kind, (0, ()))
        if pending.isdisjoint(op._replace(stage=op.stage + step, kind=kind) for kind in kinds):
            hopeless.append(rank)
    return (hopeless or stuck)[0]


def _ranks(schedule: Schedule) -> list[int]:
    """The rank of every position."""
    ranks: list[int] = []
    for rank in range(schedule.num_ranks):
        ranks += [rank] * len(schedule.positions(rank))
    return ranks
