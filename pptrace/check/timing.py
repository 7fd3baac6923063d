"""Times that cannot be: an op before what it waits for, two ops at once on a rank; and times that need not be (chosen delays).

It reads times that somebody else has decided, in a trace or in a grid whose columns are time steps. Times are exact:
whole ticks or fractions.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from pptrace.check.findings import Finding, some_of
from pptrace.check.progress import owners
from pptrace.model import COMPUTE_KINDS, OpKind
from pptrace.rationals import text_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pptrace.check.program import Program
    from pptrace.dependencies import Dependencies
    from pptrace.model import Schedule
    from pptrace.timeline import Timeline

SINGLY = 3
"""So many findings of one kind are told one by one; more are one finding with a count."""

Time = int | Fraction


class Timed(NamedTuple):
    """A schedule with times by position. `travel[i]` is how long the output of op i is under way; `origin[i]` is the
    position in the program that was checked."""

    program: Program
    schedule: Schedule
    deps: Dependencies
    origin: Sequence[int]
    starts: Sequence[Time]
    ends: Sequence[Time]
    travel: Sequence[Time]
    per_unit: int

    def text(self, time: Time) -> str:
        return text_of(Fraction(time) / self.per_unit)

    def name(self, position: int) -> str:
        return self.program.text(self.origin[position])

    def awaited(self, position: int) -> Iterator[tuple[int, Time]]:
        """(producer, when what it makes is there) of everything that an op waits for."""
        deps = self.deps
        if position in deps.gathers:
            for producer in deps.gathers[position]:
                yield producer, self.ends[producer]
        for producer, travels in ((deps.inputs[position], True), (deps.states[position], False)):
            if producer >= 0:
                yield producer, self.ends[producer] + (self.travel[producer] if travels else 0)


def of_timeline(program: Program, timeline: Timeline) -> Timed:
    """The times of a timeline; `program` is that of its schedule."""
    travel = [arrival - end for arrival, end in zip(timeline.arrivals, timeline.ends, strict=True)]
    return Timed(
        program,
        timeline.schedule,
        timeline.dependencies,
        range(timeline.schedule.num_ops),
        timeline.starts,
        timeline.ends,
        travel,
        timeline.ticks_per_unit,
    )


def of_slots(program: Program, schedule: Schedule, deps: Dependencies, origin: Sequence[int]) -> Timed:
    """The times of a grid: a cell starts at its column. An op of a kind lasts as long as the shortest way from one of them to
    the next op of its rank, or, where it is always the last, to what waits for it; else one column."""
    starts = [program.slots[position] for position in origin]
    lengths: dict[int, Time] = {}
    block = program.block

    def shorten(position: int, gap: Time) -> None:
        kind = schedule.codes[position] // block
        if gap > 0:
            lengths[kind] = min(gap, lengths.get(kind, gap))

    for first, last in pairwise(schedule.rank_starts):
        for position in range(first, last - 1):
            shorten(position, starts[position + 1] - starts[position])
    known = set(lengths)
    for position, producer in enumerate(deps.inputs):
        if producer >= 0 and schedule.codes[producer] // block not in known:
            shorten(producer, starts[position] - starts[producer])
    ends = [start + lengths.get(code // block, 1) for start, code in zip(starts, schedule.codes, strict=True)]
    for first in schedule.pairs:
        ends[first] = ends[first + 1] = max(ends[first], ends[first + 1])
    return Timed(program, schedule, deps, origin, starts, ends, [0] * len(starts), 1)


def timing_findings(timed: Timed, tolerance: Fraction | int = 0, *, delays: bool = True) -> list[Finding]:
    """What the times say against the order. `tolerance` is in units of time; `delays`: also name chosen delays."""
    margin = Fraction(tolerance) * timed.per_unit
    findings = [*_too_early(timed, margin), *_overlaps(timed, margin)]
    if delays and not findings:
        findings += _chosen_delays(timed, margin)
    return findings


def _too_early(timed: Timed, margin: Fraction) -> Iterator[Finding]:
    owner = owners(timed.schedule.rank_starts)
    early: list[tuple[int, int, Time]] = []
    for position, start in enumerate(timed.starts):
        late = max(timed.awaited(position), key=lambda pair: pair[1], default=None)
        if late is not None and start + margin < late[1]:
            early.append((position, *late))
    if not early:
        return
    early.sort(key=lambda item: (timed.starts[item[0]], item[0]))
    told = early if len(early) <= SINGLY else early[:1]
    for position, producer, ready in told:
        what = "ends" if ready == timed.ends[producer] else "arrives"
        sentence = (
            f"{timed.name(position)} starts at {timed.text(timed.starts[position])}, before {timed.name(producer)}, which it "
            f"waits for, {what} at {timed.text(ready)}"
        )
        ops: tuple[str, ...] = (timed.name(position), timed.name(producer))
        if len(early) > SINGLY:
            across = sum(owner[i] != owner[p] for i, p, _ in early)
            which = "all across ranks" if across == len(early) else f"{across} across ranks"
            count = f"{len(early)} of {timed.schedule.num_ops} ops start"
            sentence = f"{count} before something they wait for ({which}); first, {sentence}"
            ops = tuple(timed.name(i) for i, _, _ in early)
        remedy = f"start it at {timed.text(ready)} or later"
        if timed.program.slots:
            remedy += ", unless the columns are no time axis (those of PyTorch's files are none)"
        else:
            remedy += "; for clocks that differ a little, see --tolerance"
        yield Finding("starts-too-early", timed.program.place(timed.origin[position]), sentence, ops, remedy)


def _overlaps(timed: Timed, margin: Fraction) -> Iterator[Finding]:
    schedule = timed.schedule
    for rank in range(schedule.num_ranks):
        clashes = []
        latest = -1
        for position in sorted(schedule.positions(rank), key=lambda p: (timed.starts[p], p)):
            if timed.starts[position] == timed.ends[position]:
                continue
            partner = position - 1 in schedule.pairs and latest == position - 1
            if latest >= 0 and not partner and timed.starts[position] + margin < timed.ends[latest]:
                clashes.append((position, latest))
            if latest < 0 or timed.ends[position] >= timed.ends[latest]:
                latest = position
        if clashes:
            position, other = clashes[0]
            more = f" (and {len(clashes) - 1} more on rank {rank})" if len(clashes) > 1 else ""
            yield Finding(
                "overlap-on-rank",
                timed.program.place(timed.origin[position]),
                f"{timed.name(position)} starts at {timed.text(timed.starts[position])}, while {timed.name(other)} runs until "
                f"{timed.text(timed.ends[other])}{more}",
                (timed.name(position), timed.name(other)),
                "a rank runs one op at a time; an overlapped pair is one block",
            )


def _chosen_delays(timed: Timed, margin: Fraction) -> Iterator[Finding]:
    schedule, starts, ends = timed.schedule, timed.starts, timed.ends
    begin = min(starts, default=0)
    delays: list[tuple[int, Time]] = []
    for rank in range(schedule.num_ranks):
        free: Time = begin
        for position in schedule.positions(rank):
            first = position - 1 if position - 1 in schedule.pairs else position
            block = (first, first + 1) if first in schedule.pairs else (position,)
            ready = max([free, *(time for p in block for _, time in timed.awaited(p))])
            lasts = any(ends[p] > starts[p] for p in block)  # an update that takes no time delays nothing
            if first == position and lasts and starts[position] - ready > margin:
                delays.append((position, starts[position] - ready))
            if position == block[-1]:
                free = max(free, *(ends[p] for p in block))
    if not delays:
        return
    delays.sort(key=lambda item: (starts[item[0]], item[0]))
    names = [f"{timed.name(position)} +{timed.text(delay)}" for position, delay in delays]
    taken, possible = _elapsed(timed, starts, ends), _elapsed(timed, *_as_soon_as_possible(timed))
    count = "1 op starts" if len(delays) == 1 else f"{len(delays)} ops start"
    yield Finding(
        "chosen-delay",
        timed.program.place(timed.origin[delays[0][0]]),
        f"{count} later than possible: {some_of(names)}; elapsed {timed.text(taken)}, the same order could take "
        f"{timed.text(possible)}",
        tuple(timed.name(position) for position, _ in delays),
        "start every op as soon as its rank is free and its input is there, unless the delay is meant",
    )


def _as_soon_as_possible(timed: Timed) -> tuple[list[Time], list[Time]]:
    """Starts and ends of the same order with the same durations and no delays; the times of `timed` must be legal."""
    schedule = timed.schedule
    starts: list[Time] = [0] * schedule.num_ops
    ends: list[Time] = [0] * schedule.num_ops
    owner = owners(schedule.rank_starts)
    free: list[Time] = [min(timed.starts, default=0)] * schedule.num_ranks
    soonest = Timed(*timed[:4], starts, ends, timed.travel, timed.per_unit)
    for position in sorted(range(schedule.num_ops), key=lambda p: (timed.starts[p], timed.ends[p], p)):
        if position - 1 in schedule.pairs:
            continue
        block = (position, position + 1) if position in schedule.pairs else (position,)
        rank = owner[position]
        start = max([free[rank], *(time for p in block for _, time in soonest.awaited(p))])
        for p in block:
            starts[p], ends[p] = start, start + timed.ends[p] - timed.starts[p]
        free[rank] = max(ends[p] for p in block)
    return starts, ends


def _elapsed(timed: Timed, starts: Sequence[Time], ends: Sequence[Time]) -> Time:
    limit = (max(COMPUTE_KINDS) + 1) * timed.program.block
    work = [p for p, code in enumerate(timed.schedule.codes) if code < limit and OpKind.F * timed.program.block <= code]
    return max((ends[p] for p in work), default=0) - min((starts[p] for p in work), default=0)
