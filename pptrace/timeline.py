"""The engine: a schedule and its costs become a timeline. It decides when every op starts, and nothing else.

Each rank runs its list in order, one op at a time; an op starts at the larger of its rank's free time and the arrival of
what it waits for. Linear in the number of ops.
"""

from __future__ import annotations

from array import array
from itertools import chain
from operator import sub
from typing import TYPE_CHECKING, NamedTuple

from pptrace.blocking import run_blocking
from pptrace.costs import Costs
from pptrace.deadlock import DeadlockError, Wait, cycle_of
from pptrace.dependencies import (
    GATHER,
    NOTHING,
    Dependencies,
    dependencies,
    require_pairs_apart,
    require_runnable,
)
from pptrace.durations import Durations, durations

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pptrace.model import Op, Schedule

_PAIR = -4
"""Only inside the engine: this op begins an overlapped pair."""


class Span(NamedTuple):
    """One op placed in time: [start, end) in ticks, on `rank`, at `position` of the schedule."""

    op: Op
    rank: int
    start: int
    end: int
    position: int


class Transfer(NamedTuple):
    """One message: the output of the op at `position`, in flight from `departure` (later than its end where a serial link
    was taken) to `arrival`."""

    position: int
    sender: int
    receiver: int
    produced: int
    departure: int
    arrival: int


class Timeline:
    """A schedule with a start and an end for every op, in ticks of 1/`ticks_per_unit`.

    `starts`, `ends` and `arrivals` are arrays by position; `arrivals[i]` is when the output of op i is where it is needed
    (its end, where it does not travel). `measured` timelines were read, not simulated; `offset` is then what the clock that
    they were read from said at tick 0, in its own unit, as text, so that nothing is rounded (empty: not known).
    """

    __slots__ = (
        "arrivals",
        "costs",
        "departures",
        "dependencies",
        "ends",
        "latencies",
        "measured",
        "offset",
        "schedule",
        "starts",
        "ticks_per_unit",
    )

    def __init__(
        self,
        schedule: Schedule,
        costs: Costs,
        deps: Dependencies,
        starts: array[int],
        ends: array[int],
        arrivals: array[int],
        ticks_per_unit: int,
        *,
        departures: dict[int, int] | None = None,
        latencies: list[int] | None = None,
        measured: bool = False,
        offset: str = "",
    ) -> None:
        self.schedule = schedule
        self.costs = costs
        self.dependencies = deps
        self.starts = starts
        self.ends = ends
        self.arrivals = arrivals
        self.ticks_per_unit = ticks_per_unit
        self.departures = departures or {}
        self.latencies = latencies
        self.measured = measured
        self.offset = offset

    def spans(self, rank: int) -> Iterator[Span]:
        """The spans of one rank, in the order of its list."""
        op = self.schedule.coder.op
        codes = self.schedule.codes
        for position in self.schedule.positions(rank):
            yield Span(op(codes[position]), rank, self.starts[position], self.ends[position], position)

    def __iter__(self) -> Iterator[Span]:
        """All spans, rank by rank."""
        return chain.from_iterable(self.spans(rank) for rank in range(self.schedule.num_ranks))

    def in_time_order(self) -> list[int]:
        """All positions by (start, rank, place in the rank's list): the order in which a trace lists events."""
        return sorted(range(self.schedule.num_ops), key=self.starts.__getitem__)

    def transfers(self) -> list[Transfer]:
        """Every message that took time, by position of its producer."""
        schedule = self.schedule
        receivers = {}
        for position, producer in enumerate(self.dependencies.inputs):
            if producer >= 0 and self.arrivals[producer] != self.ends[producer]:
                receivers[producer] = schedule.rank_at(position)
        return [
            Transfer(
                producer,
                schedule.rank_at(producer),
                receiver,
                self.ends[producer],
                self.departures.get(producer, self.ends[producer]),
                self.arrivals[producer],
            )
            for producer, receiver in sorted(receivers.items())
        ]


def simulate_schedule(schedule: Schedule, costs: Costs | None = None, *, deps: Dependencies | None = None) -> Timeline:
    """Time `schedule` exactly, in time and memory linear in its ops.

    Raises `ParameterError` for costs that do not fit, `ScheduleError` for an order that misses or doubles an op, and
    `DeadlockError`, with the cycle of waits, where no rank can move although ops are left.
    """
    costs = costs or Costs()
    deps = deps or dependencies(schedule)
    require_runnable(schedule, deps)
    if costs.overlap != "split":
        require_pairs_apart(schedule, deps)
    timing = durations(schedule, costs)
    engine = run_blocking if costs.link == "blocking" else _run
    starts, ends, arrivals, departures = engine(schedule, deps, timing, costs)
    return Timeline(
        schedule,
        costs,
        deps,
        starts,
        ends,
        arrivals,
        timing.ticks_per_unit,
        departures=departures,
        latencies=timing.latencies,
    )


def _run(
    schedule: Schedule,
    deps: Dependencies,
    timing: Durations,
    costs: Costs,
) -> tuple[array[int], array[int], array[int], dict[int, int]]:
    """The starts, ends, arrivals (the ends' array where nothing travels) and late departures of all ops, by position.

    One loop over the ops: a rank runs until it meets an op whose input is not there yet, leaves its number with the
    producer of that input, and is woken when that op is done.
    """
    ticks, travel = timing.ticks, timing.latencies
    num_ops = schedule.num_ops
    ends = array("q", [-1]) * num_ops  # numbers side by side, in the order in which they are read again
    starts = ends[:]
    arrivals = ends if travel is None else ends[:]
    waits = deps.inputs
    pairs = schedule.pairs if costs.overlap != "split" else frozenset()
    if pairs:  # the first op of a pair waits for the inputs of both and takes the whole block, the second ends with it
        waits, ticks = list(waits), list(ticks)
        for first in pairs:
            waits[first], waits[first + 1] = _PAIR, NOTHING
            ticks[first + 1] = 0
    link = _SerialLinks(schedule, deps) if costs.link == "serial" and travel is not None else None
    sleepers = [-1] * num_ops  # by position: the rank that waits for this op's output
    gathered = _Gathered(deps, ends)
    crowds: dict[int, list[int]] = {}  # the same where several ranks wait for one op
    next_op = list(schedule.rank_starts[:-1])
    last_op = schedule.rank_starts[1:]
    free = [0] * schedule.num_ranks
    awake = list(range(schedule.num_ranks - 1, -1, -1))
    while awake:
        rank = awake.pop()
        i, stop, now = next_op[rank], last_op[rank], free[rank]
        while i < stop:
            awaited = waits[i]
            if awaited >= 0:
                arrival = arrivals[awaited]
            elif awaited == NOTHING:
                arrival = now
            elif awaited == GATHER:
                arrival, awaited = gathered.arrival(i)
            else:
                arrival, awaited = _pair_arrival(deps.inputs, arrivals, i)
            if arrival < 0:  # asleep until `awaited` is done
                if sleepers[awaited] < 0:
                    sleepers[awaited] = rank
                else:
                    crowds.setdefault(awaited, []).append(rank)
                break
            if arrival > now:
                now = arrival
            starts[i] = now
            now += ticks[i]
            ends[i] = now
            if travel is not None:
                arrivals[i] = now + travel[i] if link is None else link.arrival(i, rank, now, travel[i])
            if sleepers[i] >= 0:
                awake.append(sleepers[i])
                if crowds:
                    awake.extend(crowds.pop(i, ()))
            i += 1
        next_op[rank], free[rank] = i, now
    if any(at < stop for at, stop in zip(next_op, last_op, strict=True)):
        raise _deadlock(schedule, deps, ends, next_op)
    for first in pairs:
        starts[first + 1] = starts[first]
    return starts, ends, arrivals, link.departures if link else {}


def _pair_arrival(inputs: list[int], arrivals: array[int], first: int) -> tuple[int, int]:
    """(when both inputs of the pair at `first` are there, _PAIR), or (-1, the producer that is not done)."""
    one, other = inputs[first], inputs[first + 1]
    at_one = arrivals[one] if one >= 0 else 0
    if at_one < 0:
        return -1, one
    at_other = arrivals[other] if other >= 0 else 0
    if at_other < 0:
        return -1, other
    return (at_one if at_one > at_other else at_other), _PAIR


class _Gathered:
    """How far each group of ops has come. A group is walked once, however many ops wait for it."""

    def __init__(self, deps: Dependencies, ends: array[int]) -> None:
        self.groups = deps.gathers
        self.ends = ends  # not arrivals: a gradient that is gathered makes no hop of its own
        self.progress: dict[int, list[int]] = {}  # by group: [members that are done, latest end]

    def arrival(self, position: int) -> tuple[int, int]:
        """(when all of the group are done, GATHER), or (-1, a member that is not)."""
        group = self.groups[position]
        progress = self.progress.setdefault(id(group), [0, 0])
        while progress[0] < len(group):
            member = group[progress[0]]
            if self.ends[member] < 0:
                return -1, member
            progress[0] += 1
            progress[1] = max(progress[1], self.ends[member])
        return progress[1], GATHER


class _SerialLinks:
    """`--link serial`: one message at a time per directed pair of ranks, in the order produced (head-of-line waiting)."""

    def __init__(self, schedule: Schedule, deps: Dependencies) -> None:
        self.receiver = {
            producer: schedule.rank_at(position) for position, producer in enumerate(deps.inputs) if producer >= 0
        }
        self.free: dict[tuple[int, int], int] = {}
        self.departures: dict[int, int] = {}

    def arrival(self, position: int, rank: int, end: int, travel: int) -> int:
        if not travel or position not in self.receiver:
            return end
        pair = (rank, self.receiver[position])
        departure = max(end, self.free.get(pair, 0))
        if departure > end:
            self.departures[position] = departure
        self.free[pair] = departure + travel
        return departure + travel


def _deadlock(schedule: Schedule, deps: Dependencies, ends: array[int], next_op: list[int]) -> DeadlockError:
    """The cycle among the ranks that are stuck, starting at its lowest rank."""
    stuck = {rank: at for rank, at in enumerate(next_op) if at < schedule.rank_starts[rank + 1]}
    waits: dict[int, Wait] = {}
    for rank, position in stuck.items():
        positions = (position, position + 1) if position in schedule.pairs else (position,)
        awaited = [(i, p) for i in positions for p in deps.after(i) if ends[p] < 0 and schedule.rank_at(p) != rank]
        own = [(i, p) for i in positions for p in deps.after(i) if ends[p] < 0 and schedule.rank_at(p) == rank]
        waiter, target = (awaited or own)[0]
        waits[rank] = Wait(rank, schedule.op(waiter), schedule.rank_at(target), schedule.op(target))
    cycle = cycle_of({rank: wait.awaited_rank for rank, wait in waits.items()})
    return DeadlockError([waits[rank] for rank in cycle], {r: schedule.op(p) for r, p in stuck.items()})


def retime(timeline: Timeline, *, communication: bool = True) -> array[int]:
    """The ends, by position, that the same order and op durations would have if every op started as early as it can;
    with `communication=False` as if no message took time."""
    travel = timeline.latencies if communication else None
    block_ticks = list(map(sub, timeline.ends, timeline.starts))
    timing = Durations(block_ticks, travel, timeline.ticks_per_unit)
    return _run(timeline.schedule, timeline.dependencies, timing, timeline.costs)[1]
