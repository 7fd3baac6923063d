"""Why a rank does nothing: every idle slot has one cause, and the causes add up; the budget says where all idle time of
the pipeline comes from."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from pptrace.analysis.work import Work, blocks
from pptrace.model import OpKind
from pptrace.timeline import retime

if TYPE_CHECKING:
    from pptrace.timeline import Timeline

FILL = "fill"
DRAIN = "drain"
WAIT_FORWARD = "wait-forward"
WAIT_BACKWARD = "wait-backward"
EXPOSED = "exposed communication"
HEAD_OF_LINE = "head-of-line"
DELAY = "chosen delay"
BARRIER = "barrier"

CAUSES = {
    FILL: "before the rank's first op",
    DRAIN: "after the rank's last op",
    WAIT_FORWARD: "the forward of the stage before is not done",
    WAIT_BACKWARD: "the backward of the stage after is not done",
    EXPOSED: "the message is in flight (blocking: or messages hold one of its ranks)",
    HEAD_OF_LINE: "the message waits for its serial link",
    DELAY: "everything was there, the op started later all the same",
    BARRIER: "the update between two steps",
}
"""Every cause of an idle slot and what it means, in the order of listings."""


class IdleSlot(NamedTuple):
    """[start, end) in ticks in which `rank` runs nothing. `position` is the op that follows (-1 after the last), `awaited`
    the op whose output it waits for (-1: none)."""

    rank: int
    start: int
    end: int
    cause: str
    position: int = -1
    awaited: int = -1


class Idle(NamedTuple):
    """All idle slots, rank by rank in time order; per rank the ticks by cause; and the budget in rank-ticks: `imbalance`
    + `exposed communication` + `schedule` + `chosen delay` = `total`, the idle time of all ranks."""

    slots: tuple[IdleSlot, ...]
    parts: tuple[dict[str, int], ...]
    budget: dict[str, int]


def idle(timeline: Timeline, busy: Work) -> Idle:
    """Find and explain every idle slot, in time linear in the ops (but for sorting none)."""
    slots = [slot for rank in range(timeline.schedule.num_ranks) for slot in _rank_slots(timeline, busy, rank)]
    parts: list[dict[str, int]] = [dict.fromkeys(CAUSES, 0) for _ in range(timeline.schedule.num_ranks)]
    for slot in slots:
        parts[slot.rank][slot.cause] += slot.end - slot.start
    return Idle(tuple(slots), tuple(parts), _budget(timeline, busy))


def _rank_slots(timeline: Timeline, busy: Work, rank: int) -> list[IdleSlot]:
    starts, ends = timeline.starts, timeline.ends
    first_of_block = blocks(timeline)
    order = busy.order[rank]
    if not order:
        return [IdleSlot(rank, busy.begin, busy.end, FILL)] if busy.elapsed else []
    slots = []
    if starts[order[0]] > busy.begin:
        slots.append(IdleSlot(rank, busy.begin, starts[order[0]], FILL, order[0]))
    for before, position in pairwise(order):
        free = ends[before]
        if starts[position] > free:
            between = range(before + (2 if before in first_of_block else 1), position)
            members = (position, position + 1) if position in first_of_block else (position,)
            slots += _explain(timeline, rank, free, between, members)
    if ends[order[-1]] < busy.end:
        slots.append(IdleSlot(rank, ends[order[-1]], busy.end, DRAIN))
    return slots


def _explain(timeline: Timeline, rank: int, free: int, between: range, members: tuple[int, ...]) -> list[IdleSlot]:
    """Cut the gap from `free` to the start of `members` (one op, or the two of a block) by cause, in time order."""
    inputs = timeline.dependencies.inputs
    position, start = members[0], timeline.starts[members[0]]
    boundary = max((timeline.ends[p] for p in between), default=free)
    waits = [(timeline.arrivals[inputs[op]], op) for op in members if inputs[op] >= 0]
    cuts = [(boundary, BARRIER, -1)]
    if waits:
        arrival, waiter = max(waits)
        awaited = inputs[waiter]
        forward = timeline.schedule.op(waiter).kind is OpKind.F
        produced = timeline.ends[awaited]
        cuts.append((produced, WAIT_FORWARD if forward else WAIT_BACKWARD, awaited))
        if not _holds_ranks(timeline):  # only a serial link has a line to stand in
            cuts.append((timeline.departures.get(awaited, produced), HEAD_OF_LINE, awaited))
        cuts.append((arrival, EXPOSED, awaited))
    cuts.append((start, EXPOSED if _holds_ranks(timeline) else DELAY, -1))
    slots = []
    for until, cause, awaited in cuts:
        until = min(until, start)
        if until > free:
            slots.append(IdleSlot(rank, free, until, cause, position, awaited))
            free = until
    return slots


def _budget(timeline: Timeline, busy: Work) -> dict[str, int]:
    num_ranks = timeline.schedule.num_ranks
    soonest, without = as_soon_as_possible(timeline, busy)
    most = max(busy.busy, default=0)
    budget = {
        "imbalance": sum(most - own for own in busy.busy),
        "exposed communication": num_ranks * (soonest - without),
        "schedule": num_ranks * (without - most),
        "chosen delay": num_ranks * (busy.elapsed - soonest),
    }
    budget["total"] = num_ranks * busy.elapsed - sum(busy.busy)
    return budget


def as_soon_as_possible(timeline: Timeline, busy: Work) -> tuple[int, int]:
    """Elapsed ticks of the same order with every op as early as it can be: with its messages' latencies, and with none."""
    if _holds_ranks(timeline):  # the engine started every op as early as its messages let it
        return busy.elapsed, _elapsed(timeline, busy, communication=False)
    return _elapsed(timeline, busy, communication=True), _elapsed(timeline, busy, communication=False)


def _holds_ranks(timeline: Timeline) -> bool:
    return timeline.costs.link == "blocking" and not timeline.measured


def _elapsed(timeline: Timeline, busy: Work, *, communication: bool) -> int:
    ends = retime(timeline, communication=communication)
    starts, old_ends = timeline.starts, timeline.ends
    last = max((ends[order[-1]] for order in busy.order if order), default=0)
    first = min((ends[order[0]] - old_ends[order[0]] + starts[order[0]] for order in busy.order if order), default=0)
    return last - first
