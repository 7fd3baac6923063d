"""Does every rank reach the end of its list? An executor without times, and the cycle of waits where it stops.

It knows events and what each waits for; what the events mean (ops, sends, receives) is `messages`' business. Linear in
the number of events.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from pptrace.deadlock import cycle_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Events(NamedTuple):
    """What is to be run: rank r has the events `rank_starts[r]:rank_starts[r+1]`, in order.

    `waits[i]` is an event that must be reached (a message: posted; an op: done) before event i can end, or negative;
    `more` adds further ones. `blocks` maps the first event of a group of adjacent messages that are posted together, or of
    an overlapped pair, to the event after it. `posts` says (1) that an event is seen by others as soon as its rank comes to it.
    """

    rank_starts: tuple[int, ...]
    waits: Sequence[int]
    more: Mapping[int, tuple[int, ...]]
    blocks: Mapping[int, int]
    posts: bytearray


class Stuck(NamedTuple):
    """`cycle`: (event, awaited event) of the ranks that wait for each other, the lowest rank first. `next_events`: by rank,
    where every rank that is not finished stands."""

    cycle: tuple[tuple[int, int], ...]
    next_events: dict[int, int]


def owners(rank_starts: Sequence[int]) -> list[int]:
    """The rank of every event."""
    result: list[int] = []
    for rank, (first, last) in enumerate(pairwise(rank_starts)):
        result += [rank] * (last - first)
    return result


def execute(events: Events) -> Stuck | None:
    """Run all ranks as far as they come; None where all come to their end."""
    rank_starts, waits, more, blocks, posts = events
    num_ranks = len(rank_starts) - 1
    owner = owners(rank_starts)
    at = list(rank_starts[:-1])
    reached = list(rank_starts[:-1])  # by rank: events before this one are seen by the others
    sleepers: list[list[tuple[int, int]]] = [[] for _ in range(num_ranks)]
    awake = list(range(num_ranks - 1, -1, -1))
    while awake:
        rank = awake.pop()
        i, stop = at[rank], rank_starts[rank + 1]
        awaited = -1
        while i < stop:
            if i in blocks:
                end = blocks[i]
                awaited = _first_unmet(events, owner, reached, rank, i, end)
                if awaited >= 0:
                    break
                i = end
                continue
            awaited = waits[i]
            if awaited >= 0:
                other = owner[awaited]
                if reached[other] <= awaited and (other != rank or awaited >= i):
                    break
            if more and i in more:
                awaited = _first_unmet(events, owner, reached, rank, i, i + 1)
                if awaited >= 0:
                    break
            i += 1
        at[rank] = i
        if i < stop:
            if owner[awaited] != rank:  # what comes later in its own list can wake nobody
                sleepers[owner[awaited]].append((awaited, rank))
            reached[rank] = (blocks.get(i, i + 1)) if posts[i] else i
        else:
            reached[rank] = stop
        if sleepers[rank]:
            seen = reached[rank]
            awake += [sleeper for event, sleeper in sleepers[rank] if event < seen]
            sleepers[rank] = [(event, sleeper) for event, sleeper in sleepers[rank] if event >= seen]
    stuck = {rank: i for rank, i in enumerate(at) if i < rank_starts[rank + 1]}
    return _cycle(events, owner, reached, stuck) if stuck else None


def _unmet(
    events: Events, owner: list[int], reached: list[int], rank: int, first: int, end: int
) -> list[tuple[int, int]]:
    """The (event, awaited event) of the block [first, end) that are not there yet."""
    found = []
    for i in range(first, end):
        for awaited in (events.waits[i], *events.more.get(i, ())):
            if awaited >= 0:
                other = owner[awaited]
                if other == rank:
                    if awaited >= (end if events.posts[awaited] else first):
                        found.append((i, awaited))
                elif reached[other] <= awaited:
                    found.append((i, awaited))
    return found


def _first_unmet(events: Events, owner: list[int], reached: list[int], rank: int, first: int, end: int) -> int:
    found = _unmet(events, owner, reached, rank, first, end)
    return found[0][1] if found else -1


def _cycle(events: Events, owner: list[int], reached: list[int], stuck: dict[int, int]) -> Stuck:
    waits = {}
    for rank, i in stuck.items():
        waits[rank] = _unmet(events, owner, reached, rank, i, events.blocks.get(i, i + 1))[0]
    cycle = cycle_of({rank: owner[awaited] for rank, (_, awaited) in waits.items()})
    return Stuck(tuple(waits[rank] for rank in cycle), dict(stuck))
