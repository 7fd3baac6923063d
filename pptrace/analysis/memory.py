"""Memory: how many activations (or bytes) every rank holds over time, the peak, its instant and its owners.

Releases come before allocations at equal times. What is counted is said beside every figure (`COUNTED`).
"""

from __future__ import annotations

from collections import defaultdict
from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from pptrace.analysis.lifetimes import ACTIVATION, INPUT, Lifetime
from pptrace.model import OpKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from fractions import Fraction

    from pptrace.model import Schedule
    from pptrace.timeline import Timeline

COUNTED = "saved activations; send and receive buffers, gradients and weights not counted"
COUNTED_RECOMPUTE = (
    "recomputed activations from R on; the stage inputs kept for recomputation are counted beside them; send and "
    "receive buffers, gradients and weights not counted"
)


class Peak(NamedTuple):
    """The largest number `held` at once on `rank`, the first tick `at` which it is, and the (stage, microbatch, step) alive
    then, oldest first."""

    rank: int
    held: int
    at: int
    owners: tuple[tuple[int, int, int], ...]


class Memory:
    """Counts over time, from lifetimes. Curves are lists of (tick, count): the count holds from that tick to the next."""

    def __init__(self, timeline: Timeline, found: Sequence[Lifetime]) -> None:
        self.num_ranks = timeline.schedule.num_ranks
        self.by_rank: dict[str, dict[int, list[Lifetime]]] = {}
        for lifetime in found:
            self.by_rank.setdefault(lifetime.kind, defaultdict(list))[lifetime.rank].append(lifetime)
        self.recomputes = OpKind.R in timeline.schedule.kinds()
        self.counted = COUNTED_RECOMPUTE if self.recomputes else COUNTED
        self.bound = timeline.schedule.num_ranks
        self.begin = min(timeline.starts, default=0)
        self.unit = unit_of(timeline.schedule)
        self._held: dict[tuple[str, int], list[tuple[int, int]]] = {}
        self.peaks = tuple(self.peak(rank) for rank in range(self.num_ranks))
        self.input_peaks = tuple(self.peak(rank, INPUT) for rank in range(self.num_ranks)) if self.recomputes else ()

    def held(self, rank: int, kind: str = ACTIVATION) -> list[tuple[int, int]]:
        """How many states of `kind` live on `rank`: (tick, count) wherever the count changes, beginning at the first tick."""
        if (kind, rank) not in self._held:
            changes: dict[int, int] = defaultdict(int)
            changes[self.begin] += 0
            for lifetime in self._of(rank, kind):
                changes[lifetime.start] += 1
                changes[lifetime.end] -= 1
            self._held[kind, rank] = _running(changes)
        return self._held[kind, rank]

    def peak(self, rank: int, kind: str = ACTIVATION) -> Peak:
        """The largest count of `rank` and who is alive at its first instant."""
        curve = self.held(rank, kind)
        count = max(number for _, number in curve)
        at = next(tick for tick, number in curve if number == count)
        alive = sorted((x.start, x.stage, x.microbatch, x.step) for x in self._of(rank, kind) if x.start <= at < x.end)
        return Peak(rank, count, at, tuple((stage, microbatch, step) for _, stage, microbatch, step in alive))

    def weighted_peak(self, rank: int, full: int | Fraction, after_input: int | Fraction) -> int | Fraction:
        """The peak of `rank` where an activation counts `full` until its I ends and `after_input` from then to W (M_B and
        M_W of the zero-bubble papers)."""
        changes: dict[int, int | Fraction] = defaultdict(int)
        for lifetime in self._of(rank, ACTIVATION):
            changes[lifetime.start] += full
            if lifetime.shrinks is None:
                changes[lifetime.end] -= full
            else:
                changes[lifetime.shrinks] -= full - after_input
                changes[lifetime.end] -= after_input
        total: int | Fraction = 0
        highest: int | Fraction = 0
        for tick in sorted(changes):
            total += changes[tick]
            highest = max(highest, total)
        return highest

    def _of(self, rank: int, kind: str) -> list[Lifetime]:
        return self.by_rank.get(kind, {}).get(rank, [])


def _running(changes: dict[int, int]) -> list[tuple[int, int]]:
    """The running sum of changes by tick, ticks where nothing changes left out (the first is kept)."""
    curve: list[tuple[int, int]] = []
    total = 0
    for tick in sorted(changes):
        total += changes[tick]
        if not curve or curve[-1][1] != total:
            curve.append((tick, total))
    return curve


def unit_of(schedule: Schedule) -> str:
    """What the counts are counts of."""
    return "activations" if schedule.num_chunks == 1 else "chunk activations"


def activations_held(timeline: Timeline, rank: int) -> Iterator[tuple[int, int]]:
    """The curve `Memory.held(rank)`, made as the rank's list is walked: for those who stream, and keep no lifetimes."""
    total, tick, told = 0, min(timeline.starts, default=0), -1
    for now, change in _changes(timeline, rank):
        if now != tick:
            if total != told:
                yield tick, total
                told = total
            tick = now
        total += change
    if total != told:
        yield tick, total


def _changes(timeline: Timeline, rank: int) -> Iterator[tuple[int, int]]:
    """(tick, +1 or -1) for every activation of `rank` that begins or ends, in the order of time."""
    schedule, starts, ends = timeline.schedule, timeline.starts, timeline.ends
    where, kinds = timeline.dependencies.where, schedule.kinds()
    block = schedule.num_stages * schedule.num_microbatches * schedule.num_steps
    final = max(ends, default=0)

    def exists(kind: OpKind, owner: int) -> bool:
        return kind in kinds and where[kind * block + owner] >= 0

    ahead: list[tuple[int, int]] = []  # a heap: ops of a rank start in order, an overlapped pair does not end so
    for position in schedule.positions(rank):
        while ahead and ahead[0][0] < starts[position]:
            yield heappop(ahead)
        kind, owner = divmod(schedule.codes[position], block)
        if kind == OpKind.R or (kind == OpKind.F and not exists(OpKind.R, owner)):
            heappush(ahead, (starts[position], 1))
            if not exists(OpKind.B, owner) and not exists(OpKind.W, owner):
                heappush(ahead, (final, -1))
        elif kind == OpKind.B or (kind == OpKind.W and not exists(OpKind.B, owner)):
            heappush(ahead, (ends[position], -1))
    while ahead:
        yield heappop(ahead)
