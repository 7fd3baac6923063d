"""A program as events that wait for each other, under given assumptions on messages.

A program without messages gets them inline: receives right before the op that needs them, sends right after the op. With
buffered, tagged sends that is the same as waiting for the op itself, and no events are made for the messages.
"""

from __future__ import annotations

from itertools import pairwise
from operator import gt
from typing import TYPE_CHECKING, NamedTuple

from pptrace.check.messages import peer_steps
from pptrace.check.progress import Events, owners
from pptrace.dependencies import GATHER
from pptrace.model import OpKind

if TYPE_CHECKING:
    from pptrace.check.program import Program
    from pptrace.dependencies import Dependencies
    from pptrace.model import Schedule

SENDS = ("buffered", "rendezvous")
GROUPINGS = ("per-op", "batched")


class Assumptions(NamedTuple):
    """How messages behave: `sends` in SENDS, `grouping` in GROUPINGS, `tags` or not."""

    sends: str = "buffered"
    grouping: str = "per-op"
    tags: bool = True

    def sentences(self, *, inline: bool, forward_only: bool) -> tuple[str, ...]:
        return (
            "sends are buffered: a send never waits"
            if self.sends == "buffered"
            else "sends are rendezvous: a send ends when its receive is posted",
            "every send and receive on its own, in the order of the list (per-op)"
            if self.grouping == "per-op"
            else "adjacent sends and receives of a rank are posted together and end together (batched)",
            "messages carry tags"
            if self.tags
            else "messages carry no tags: the k-th receive takes the k-th message sent",
            *(("receives right before the op that needs them, sends right after (inline)",) if inline else ()),
            *(("there is no backward: forward only",) if forward_only else ()),
        )


class Listed(NamedTuple):
    """Ops and messages by event: `codes` as in `Program`, and the position in the program where each event stands."""

    codes: list[int]
    rank_starts: tuple[int, ...]
    positions: list[int] | range
    pairs: frozenset[int]


def inline(program: Program, schedule: Schedule, deps: Dependencies, origin: list[int]) -> Listed:
    """The ops of a schedule with a receive before and a send after each, where they go to another rank."""
    owner = owners(schedule.rank_starts)
    block = program.block
    receives_forward, sends_forward = OpKind.RECV_F * block, OpKind.SEND_F * block
    receives_backward = [(OpKind.RECV_B - kind) * block for kind in range(OpKind.SEND_F)]
    sends_backward = [(OpKind.SEND_B - kind) * block for kind in range(OpKind.SEND_F)]
    crossing = [-1] * schedule.num_ops  # by position: the producer on another rank that it takes a message from
    sent = bytearray(schedule.num_ops)
    taken: set[int] = set()
    for position, producer in enumerate(deps.inputs):
        if producer >= 0 and owner[producer] != owner[position] and producer not in taken:
            crossing[position] = producer
            sent[producer] = 1
            taken.add(producer)
    codes: list[int] = []
    positions: list[int] = []
    starts, pairs = [0], []
    for rank in range(schedule.num_ranks):
        position, stop = schedule.rank_starts[rank : rank + 2]
        while position < stop:
            count = 2 if position in schedule.pairs else 1
            together = range(position, position + count)
            for p in together:
                if crossing[p] >= 0:
                    code = schedule.codes[p]
                    codes.append(code + (receives_forward if code < block else receives_backward[code // block]))
                    positions.append(origin[p])
            if count == 2:
                pairs.append(len(codes))
            for p in together:
                codes.append(schedule.codes[p])
                positions.append(origin[p])
            for p in together:
                if sent[p]:
                    code = schedule.codes[p]
                    codes.append(code + (sends_forward if code < block else sends_backward[code // block]))
                    positions.append(origin[p])
            position += count
        starts.append(len(codes))
    return Listed(codes, tuple(starts), positions, frozenset(pairs))


def listed(program: Program) -> Listed:
    """The events of a program that has messages of its own."""
    return Listed(program.codes, program.rank_starts, range(len(program.codes)), program.pairs)


def order_events(schedule: Schedule, deps: Dependencies) -> Events:
    """The events of the compute order alone: an op waits for the ops that produce its input, wherever they are."""
    waits = deps.inputs
    more: dict[int, tuple[int, ...]] = {}
    if deps.gathers:
        more = {position: tuple(group) for position, group in deps.gathers.items() if waits[position] == GATHER}
    blocks = {first: first + 2 for first in schedule.pairs}
    return Events(schedule.rank_starts, waits, more, blocks, bytearray(schedule.num_ops))


def message_events(program: Program, events: Listed, assumed: Assumptions) -> Events:
    """Events in which messages wait for their other end. An op waits for an earlier stage of its own rank only."""
    codes, block = events.codes, program.block
    low, high = OpKind.SEND_F * block, (OpKind.RECV_B + 1) * block
    where = [-1] * high
    for position in range(len(codes) - 1, -1, -1):
        if 0 <= codes[position] < high:
            where[codes[position]] = position
    sends = (OpKind.SEND_F, OpKind.SEND_B) if assumed.sends == "buffered" else ()
    steps = peer_steps(program)
    waits = [-1] * len(codes)
    posts = bytearray(len(codes))
    for position, code in enumerate(codes):
        if low <= code < high:
            posts[position] = 1
            kind = code // block
            if kind not in sends:
                waits[position] = where[code + steps[kind]]
    if not assumed.tags:
        for send, receive in in_order(program, events):
            waits[receive] = send
            if not sends:
                waits[send] = receive
    for stage in range(program.num_stages - 1):
        if not program.crosses(stage):
            _same_rank_waits(program, where, waits, stage)
    blocks = {first: first + 2 for first in events.pairs}
    if assumed.grouping == "batched":
        blocks |= _batches(codes, events.rank_starts, posts)
    return Events(events.rank_starts, waits, {}, blocks, posts)


def _same_rank_waits(program: Program, where: list[int], waits: list[int], stage: int) -> None:
    """Where an op stands before the op of the neighbour stage whose result it needs, on the same rank."""
    width = program.width

    def row(kind: OpKind, of_stage: int) -> list[int]:
        base = program.base(kind, of_stage)
        return where[base : base + width]

    backward = [list(map(max, row(OpKind.B, s), row(OpKind.I, s))) for s in (stage, stage + 1)]
    for made, used in ((row(OpKind.F, stage), row(OpKind.F, stage + 1)), (backward[1], backward[0])):
        if any(map(gt, made, used)):
            for maker, user in zip(made, used, strict=True):
                if maker > user >= 0:
                    waits[user] = maker


def _batches(codes: list[int], rank_starts: tuple[int, ...], posts: bytearray) -> dict[int, int]:
    """Every run of adjacent messages of a rank: first event to the event after it."""
    blocks = {}
    for first, last in pairwise(rank_starts):
        i = first
        while i < last:
            if not posts[i]:
                i += 1
                continue
            end = posts.find(0, i, last)
            end = last if end < 0 else end
            blocks[i] = end
            i = end
    return blocks


def in_order(program: Program, events: Listed) -> list[tuple[int, int]]:
    """(send, receive) as untagged messages meet: the k-th from one rank to another with the k-th receive there."""
    sends: dict[tuple[int, int], list[int]] = {}
    receives: dict[tuple[int, int], list[int]] = {}
    steps = peer_steps(program)
    low, high = OpKind.SEND_F * program.block, (OpKind.RECV_B + 1) * program.block
    for rank, (first, last) in enumerate(pairwise(events.rank_starts)):
        others: dict[int, list[int]] = {}
        for position in range(first, last):
            code = events.codes[position]
            if not low <= code < high:
                continue
            row = code // program.width
            if program.bidirectional or row not in others:
                kind = OpKind(code // program.block)
                _, stage, number = program.split(code + steps[kind])
                other = program.holder(stage, number)
                if kind in (OpKind.SEND_F, OpKind.SEND_B):
                    others[row] = sends.setdefault((rank, other), [])
                else:
                    others[row] = receives.setdefault((other, rank), [])
            others[row].append(position)
    return [pair for ranks, sent in sends.items() for pair in zip(sent, receives.get(ranks, ()), strict=False)]
