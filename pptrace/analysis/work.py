"""What every rank does and when: busy time, spans, the gaps between ops. The base of metrics and idle time.

Only compute ops (F B I W R) count; a block of two overlapped ops counts once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pptrace.model import OpKind

if TYPE_CHECKING:
    from pptrace.timeline import Timeline


class Work(NamedTuple):
    """Ticks, by rank: time in which it runs anything, its first start and its last end (both 0 where it runs nothing), and
    its compute positions in order, the second op of a block left out. `begin` and `end` bound the whole pipeline."""

    busy: tuple[int, ...]
    first: tuple[int, ...]
    last: tuple[int, ...]
    order: tuple[tuple[int, ...], ...]
    begin: int
    end: int

    @property
    def elapsed(self) -> int:
        return self.end - self.begin

    @property
    def spans(self) -> tuple[int, ...]:
        """Per rank, from its own first start to its last end."""
        return tuple(last - first for first, last in zip(self.first, self.last, strict=True))


def blocks(timeline: Timeline) -> frozenset[int]:
    """The first positions of the pairs that run as one block."""
    return frozenset() if timeline.costs.overlap == "split" else timeline.schedule.pairs


def work(timeline: Timeline) -> Work:
    """Busy time, spans and compute order of every rank, linear in the number of ops."""
    schedule, starts, ends = timeline.schedule, timeline.starts, timeline.ends
    first_boundary = OpKind.REDUCE * schedule.num_stages * schedule.num_microbatches * schedule.num_steps
    seconds = {position + 1 for position in blocks(timeline)}
    busy, first, last, order = [], [], [], []
    for rank in range(schedule.num_ranks):
        positions = [p for p in schedule.positions(rank) if schedule.codes[p] < first_boundary and p not in seconds]
        order.append(tuple(positions))
        busy.append(sum(ends[p] for p in positions) - sum(starts[p] for p in positions))
        first.append(min((starts[p] for p in positions), default=0))
        last.append(max((ends[p] for p in positions), default=0))
    running = [rank for rank, positions in enumerate(order) if positions]
    begin = min((first[rank] for rank in running), default=0)
    return Work(tuple(busy), tuple(first), tuple(last), tuple(order), begin, max((last[r] for r in running), default=0))
