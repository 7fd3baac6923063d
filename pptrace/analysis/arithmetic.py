"""The sums behind a report, term by term, for whoever wants to see them: what a rank's busy time is made of, and when all ranks
run at once. Totals are work.py's and metrics.py's."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from pptrace.analysis.work import blocks
from pptrace.model import OpKind

if TYPE_CHECKING:
    from pptrace.analysis.work import Work
    from pptrace.timeline import Timeline


class Term(NamedTuple):
    """`number` ops of one kind (None: overlapped pairs), `each` ticks long (None where they differ), `total` ticks together."""

    kind: OpKind | None
    number: int
    each: int | None
    total: int


class WorkSum(NamedTuple):
    """What one rank runs: the totals of `terms` add up to `busy` ticks."""

    rank: int
    terms: tuple[Term, ...]
    busy: int


def work_sums(timeline: Timeline, busy: Work) -> tuple[WorkSum, ...]:
    """One sum for every rank, in time linear in the ops."""
    schedule = timeline.schedule
    width = schedule.num_stages * schedule.num_microbatches * schedule.num_steps
    pairs = blocks(timeline)
    sums = []
    for rank, order in enumerate(busy.order):
        lengths: dict[OpKind | None, list[int]] = defaultdict(list)
        for position in order:
            kind = None if position in pairs else OpKind(schedule.codes[position] // width)
            lengths[kind].append(timeline.ends[position] - timeline.starts[position])
        terms = tuple(
            Term(kind, len(found), found[0] if len(set(found)) == 1 else None, sum(found))
            for kind, found in sorted(lengths.items(), key=lambda item: len(OpKind) if item[0] is None else item[0])
        )
        sums.append(WorkSum(rank, terms, busy.busy[rank]))
    return tuple(sums)


def all_running(timeline: Timeline, busy: Work) -> tuple[tuple[int, int], ...]:
    """The [start, end) in ticks in which every rank runs something, ascending, none next to another."""
    changes: dict[int, int] = defaultdict(int)
    for order in busy.order:
        for position in order:
            changes[timeline.starts[position]] += 1
            changes[timeline.ends[position]] -= 1
    found: list[tuple[int, int]] = []
    running, since = 0, 0
    for tick in sorted(changes):
        before, running = running, running + changes[tick]
        if before == len(busy.order) and running < before:
            found.append((since, tick))
        elif running == len(busy.order) and before < running:
            since = tick
    return tuple(found)
