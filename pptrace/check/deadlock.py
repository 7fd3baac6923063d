"""What is said of a stop: who waits for whom, where every rank stands, and which change of the order would help."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pptrace.check.findings import Finding, some_of
from pptrace.check.progress import execute, owners
from pptrace.model import OpKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from pptrace.check.events import Assumptions, Listed
    from pptrace.check.program import Program
    from pptrace.check.progress import Events, Stuck

MOST_EVENTS = 200_000
"""Longer programs are not run again to try a change."""
MOST_TRIES = 16


class Stop(NamedTuple):
    """A stop: its kind ("order-deadlock", "message-deadlock"), what was run, and how to run a changed list."""

    code: str
    listed: Listed
    stuck: Stuck
    events_of: Callable[[Listed], Events]


def stop_finding(program: Program, stop: Stop, assumed: Assumptions) -> Finding:
    """The finding of a stop, in the ops of the program."""
    listed, stuck = stop.listed, stop.stuck
    owner = owners(listed.rank_starts)

    def text(event: int) -> str:
        return str(program.op_of_code(listed.codes[event]))

    waits = []
    for event, awaited in stuck.cycle:
        rank, other = owner[event], owner[awaited]
        if rank == other:
            waits.append(f"rank {rank}: {text(event)} waits for {text(awaited)}, later in the same list")
        else:
            behind = text(stuck.next_events[other])
            comes = "" if awaited == stuck.next_events[other] else f", which comes after {behind}"
            waits.append(f"rank {rank}: {text(event)} waits for {text(awaited)} of rank {other}{comes}")
    first = stuck.cycle[0][0]
    at = some_of((f"rank {owner[event]} at {text(event)}" for event, _ in stuck.cycle), 8)
    closes = "each waits for the next, the last for the first" if len(stuck.cycle) > 1 else "it waits for itself"
    return Finding(
        stop.code,
        program.place(listed.positions[first]),
        f"stuck: {at}; {closes}",
        tuple(text(event) for event, _ in stuck.cycle),
        _remedy(program, stop, assumed),
        tuple(waits),
        tuple((rank, text(event)) for rank, event in sorted(stuck.next_events.items())),
    )


def _remedy(program: Program, stop: Stop, assumed: Assumptions) -> str:
    group = program.options.get("group")
    if stop.code == "order-deadlock" and program.name == "interleaved" and group:
        return f"groups of {group} do not fit {program.num_microbatches} microbatches; leave --group out"
    if stop.code == "message-deadlock" and assumed.sends == "rendezvous" and assumed.grouping == "per-op":
        general = "post the receive before the send, or send and receive in one batch, or buffer the sends"
    elif stop.code == "message-deadlock":
        general = "post each receive at the place in its list that its send has in the other's"
    else:
        general = "put an awaited op before the op at which its rank is stuck"
    found = _change_that_helps(program, stop)
    if not found:
        return general
    return found if stop.code == "order-deadlock" else f"{found}; in general, {general}"


def _change_that_helps(program: Program, stop: Stop) -> str:
    """One op moved forward in its list so that all come to their end, or "" where no single one of the circle does."""
    listed, stuck = stop.listed, stop.stuck
    if len(listed.codes) > MOST_EVENTS:
        return ""
    owner = owners(listed.rank_starts)
    tries = sorted({(awaited - at, awaited, at) for awaited, at in _moves(stuck, owner)})[:MOST_TRIES]
    for _, awaited, at in tries:
        if _is_free(program, listed, awaited, at) and execute(stop.events_of(_moved(listed, awaited, at))) is None:
            moved, before = (program.op_of_code(listed.codes[event]) for event in (awaited, at))
            return f"on rank {owner[at]}, put {moved} before {before}: then every rank comes to its end"
    return ""


def _moves(stuck: Stuck, owner: list[int]) -> list[tuple[int, int]]:
    """(awaited event, where its rank is stuck) of every wait of the circle whose awaited event comes later in its list."""
    stands = stuck.next_events
    return [(awaited, stands[owner[awaited]]) for _, awaited in stuck.cycle if awaited > stands[owner[awaited]]]


_NEEDS = {
    OpKind.F: (OpKind.RECV_F,),
    OpKind.B: (OpKind.F, OpKind.R, OpKind.RECV_B),
    OpKind.I: (OpKind.F, OpKind.R, OpKind.RECV_B),
    OpKind.W: (OpKind.I,),
    OpKind.R: (OpKind.F,),
    OpKind.SEND_F: (OpKind.F,),
    OpKind.SEND_B: (OpKind.B, OpKind.I),
}
"""What of the same stage and microbatch must stand before an op in its own list."""


def _is_free(program: Program, listed: Listed, event: int, to: int) -> bool:
    """Whether an event can be put before another of its list: it passes nothing that it needs, and breaks no pair."""
    if event in listed.pairs or event - 1 in listed.pairs or to - 1 in listed.pairs:
        return False
    kind, stage, number = program.split(listed.codes[event])
    needs = {program.base(need, stage) + number for need in _NEEDS.get(kind, ())}
    return needs.isdisjoint(listed.codes[to:event])


def _moved(listed: Listed, event: int, to: int) -> Listed:
    """The same list with one event put before another."""
    order = list(range(len(listed.codes)))
    order.insert(to, order.pop(event))
    new_of = {old: new for new, old in enumerate(order)}
    return listed._replace(
        codes=[listed.codes[old] for old in order],
        positions=[listed.positions[old] for old in order],
        pairs=frozenset(new_of[first] for first in listed.pairs),
    )
