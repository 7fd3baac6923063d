"""A timeline as Chrome trace events, a piece at a time, so that a file of a million events needs hardly any memory. What is
written: a process a rank, a lane (thread) for compute, one for the second op of overlapped pairs, lanes for messages in flight,
a flow for every dependency that an op started by, and a counter of the activations that each rank holds.

The rules of the format are those of Perfetto's importer (`json_trace_parser_impl.cc`): complete events carry `dur`, slices of
a thread nest, a flow's id, cat and name are the same at both ends and bind to the slice that is open at their time.
"""

from __future__ import annotations

from array import array
from heapq import heappop, heappush
from typing import TYPE_CHECKING

import msgspec

from pptrace.analysis.memory import activations_held, unit_of
from pptrace.dependencies import GATHER
from pptrace.formats.chrome_structs import Recorded
from pptrace.formats.trace_sections import costs_info, exact, schedule_info
from pptrace.model import BOUNDARY_KINDS, OpKind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from fractions import Fraction

    from pptrace.analysis.report import Report
    from pptrace.formats.chrome_clock import Clock
    from pptrace.timeline import Timeline

COMPUTE, OVERLAPPED, FIRST_TRANSFER = 1, 2, 3
"""Threads of a rank: its ops, the second ops of its overlapped pairs, and from the third on messages that it sent."""

_CHUNK = 1 << 16


def pieces(report: Report, clock: Clock, per_unit: Fraction) -> Iterator[bytes]:
    """The file, in pieces of some 64 KiB."""
    gathered: list[str] = [_head(report, per_unit)]
    size = len(gathered[0])
    separator = ""
    for line in _lines(report.timeline, clock):
        gathered.append(f"{separator}{line}")
        size += len(line) + 2
        separator = ",\n"
        if size > _CHUNK:
            yield "".join(gathered).encode()
            gathered, size = [], 0
    gathered.append("\n]}\n")
    yield "".join(gathered).encode()


def _head(report: Report, per_unit: Fraction) -> str:
    timeline = report.timeline
    recorded = Recorded(
        schema="pptrace.chrome/1",
        schedule=schedule_info(report.schedule),
        costs=costs_info(report.costs),
        ticks_per_unit=timeline.ticks_per_unit,
        microseconds_per_unit=exact(per_unit),
        measured=timeline.measured,
        offset=timeline.offset or msgspec.UNSET,
        notes=list(report.notes),
    )
    title = "   ".join(report.headline)
    other = msgspec.json.encode({"title": title, "pptrace": recorded}).decode()
    return f'{{"displayTimeUnit":"ms",\n"otherData":{other},\n"traceEvents":[\n'


def _lines(timeline: Timeline, clock: Clock) -> Iterator[str]:
    """Every event as JSON. Flows come after all slices, because a flow finds its slice among those that are open already."""
    ranks = range(timeline.schedule.num_ranks)
    receivers = _receivers(timeline)
    for rank in ranks:
        yield from _names_of(timeline, rank)
        yield from _ops(timeline, clock, rank)
        yield from _messages(timeline, clock, rank, receivers)
        yield from _held(timeline, clock, rank)
    for rank in ranks:
        yield from _flows(timeline, clock, rank)


def _meta(kind: str, rank: int, lane: int, **args: str | int) -> str:
    text = msgspec.json.encode(args).decode()
    return f'{{"ph":"M","name":"{kind}","pid":{rank},"tid":{lane},"args":{text}}}'


def _lane(rank: int, lane: int, name: str) -> Iterator[str]:
    yield _meta("thread_name", rank, lane, name=name)
    yield _meta("thread_sort_index", rank, lane, sort_index=lane)


def _names_of(timeline: Timeline, rank: int) -> Iterator[str]:
    yield _meta("process_name", rank, COMPUTE, name=f"rank {rank}")
    yield _meta("process_sort_index", rank, COMPUTE, sort_index=rank)
    yield from _lane(rank, COMPUTE, "compute")
    pairs = timeline.schedule.pairs
    if pairs and any(i in pairs and overlaps(timeline, i) for i in timeline.schedule.positions(rank)):
        yield from _lane(rank, OVERLAPPED, "compute, overlapped")


def overlaps(timeline: Timeline, first: int) -> bool:
    """Whether the two ops of the pair at `first` run at the same time (they do not with --overlap split)."""
    return timeline.starts[first + 1] < timeline.ends[first]


def lane_of(timeline: Timeline, position: int) -> int:
    """The thread that an op is drawn on."""
    first = position - 1
    return OVERLAPPED if first in timeline.schedule.pairs and overlaps(timeline, first) else COMPUTE


class _Texts:
    """Names of ops, made when they are needed: a table of a million would be larger than all else."""

    def __init__(self, timeline: Timeline) -> None:
        schedule = timeline.schedule
        self.codes = schedule.codes
        self.num = schedule.num_microbatches
        self.width = self.num * schedule.num_steps
        self.num_stages = schedule.num_stages

    def op(self, position: int) -> str:
        row, number = divmod(self.codes[position], self.width)
        kind, stage = divmod(row, self.num_stages)
        step, microbatch = divmod(number, self.num)
        name = OpKind(kind)
        numbered = "" if name in BOUNDARY_KINDS and not microbatch else microbatch
        return f"{stage}{name.name}{numbered}" + (f"@{step}" if step else "")

    def message(self, position: int) -> str:
        """The name of the message that carries the output of an op: `2SEND_F0`."""
        row, number = divmod(self.codes[position], self.width)
        kind, stage = divmod(row, self.num_stages)
        step, microbatch = divmod(number, self.num)
        name = "SEND_F" if kind == OpKind.F else "SEND_B"
        return f"{stage}{name}{microbatch}" + (f"@{step}" if step else "")


def _ops(timeline: Timeline, clock: Clock, rank: int) -> Iterator[str]:
    schedule = timeline.schedule
    starts, ends, pairs = timeline.starts, timeline.ends, schedule.pairs
    texts = _Texts(timeline)
    num, num_stages, width = texts.num, texts.num_stages, texts.width
    steps = schedule.num_steps > 1
    name_of, on_grid, text = texts.op, clock.on_grid, clock.text
    for i in schedule.positions(rank):
        row, number = divmod(schedule.codes[i], width)
        kind, stage = divmod(row, num_stages)
        start, end = starts[i], ends[i]
        ts = on_grid(start)
        args = f'"op":"{OpKind(kind).name}","stage":{stage}'
        boundary = kind in BOUNDARY_KINDS
        if not boundary:
            args += f',"microbatch":{number % num}'
        if steps:
            args += f',"step":{number // num}'
        lane = COMPUTE
        if pairs:
            first = i if i in pairs else i - 1 if i - 1 in pairs else -1
            if first >= 0:
                lane = lane_of(timeline, i)
                args += f',"block":"({name_of(first)};{name_of(first + 1)})OVERLAP_F_B"'
        if not clock.exact:
            args += f',"ticks":[{start},{end}]'
        yield (
            f'{{"ph":"X","name":"{name_of(i)}","cat":"{"update" if boundary else "compute"}","pid":{rank},"tid":{lane},'
            f'"ts":{text(ts)},"dur":{text(on_grid(end) - ts)},"args":{{{args}}}}}'
        )


def _receivers(timeline: Timeline) -> array[int] | None:
    """By position, the rank to which an op's output travels, -1 where it does not; None where nothing does."""
    if timeline.arrivals is timeline.ends:
        return None
    arrivals, ends = timeline.arrivals, timeline.ends
    schedule = timeline.schedule
    receivers = array("i", [-1]) * schedule.num_ops
    for rank in range(schedule.num_ranks):
        for position in schedule.positions(rank):
            producer = timeline.dependencies.inputs[position]
            if producer >= 0 and arrivals[producer] != ends[producer]:
                receivers[producer] = rank
    return receivers


def _messages(timeline: Timeline, clock: Clock, rank: int, receivers: array[int] | None) -> Iterator[str]:
    """Messages that the rank sent, while they are in flight: a lane for each peer, and more where they overlap."""
    if receivers is None:
        return
    arrivals, ends, departures = timeline.arrivals, timeline.ends, timeline.departures
    texts = _Texts(timeline)
    free: dict[int, list[tuple[int, int]]] = {}  # by receiver: (when it is free, lane)
    lanes: dict[int, int] = {}
    next_lane = FIRST_TRANSFER
    for i in timeline.schedule.positions(rank):
        receiver = receivers[i]
        if receiver < 0:
            continue
        departure, arrival = departures.get(i, ends[i]), arrivals[i]
        idle = free.setdefault(receiver, [])
        if idle and idle[0][0] <= departure:
            lane = heappop(idle)[1]
        else:
            lane, next_lane = next_lane, next_lane + 1
            lanes[receiver] = lanes.get(receiver, 0) + 1
            more = f" ({lanes[receiver]})" if lanes[receiver] > 1 else ""
            yield from _lane(rank, lane, f"to rank {receiver}{more}")
        heappush(idle, (arrival, lane))
        ts = clock.on_grid(departure)
        args = f'"of":"{texts.op(i)}","receiver":{receiver}'
        if not clock.exact:
            args += f',"ticks":[{departure},{arrival}]'
        yield (
            f'{{"ph":"X","name":"{texts.message(i)}","cat":"transfer","pid":{rank},"tid":{lane},'
            f'"ts":{clock.text(ts)},"dur":{clock.text(clock.on_grid(arrival) - ts)},"args":{{{args}}}}}'
        )


def _held(timeline: Timeline, clock: Clock, rank: int) -> Iterator[str]:
    name = unit_of(timeline.schedule)
    for tick, count in activations_held(timeline, rank):
        ts = clock.text(clock.on_grid(tick))
        yield f'{{"ph":"C","name":"{name}","pid":{rank},"tid":{COMPUTE},"ts":{ts},"args":{{"held":{count}}}}}'


def _flows(timeline: Timeline, clock: Clock, rank: int) -> Iterator[str]:
    """For every op of the rank that started when its input arrived, an arrow from the op that made it. An op that takes no
    time has none: at its instant no viewer can tell which slice is meant."""
    schedule = timeline.schedule
    starts, ends, arrivals = timeline.starts, timeline.ends, timeline.arrivals
    inputs = timeline.dependencies.inputs
    for i in schedule.positions(rank):
        producer, when = inputs[i], -1
        if producer >= 0:
            when = arrivals[producer]
        elif producer == GATHER:
            group = timeline.dependencies.gathers[i]
            producer = max(group, key=ends.__getitem__, default=-1)
            when = ends[producer] if group else -1
        if when != starts[i] or ends[i] == starts[i] or ends[producer] == starts[producer]:
            continue
        ends_here = (producer, schedule.rank_at(producer), "s", ""), (i, rank, "f", ',"bp":"e"')
        for position, home, phase, more in ends_here:
            yield (
                f'{{"ph":"{phase}","name":"input","cat":"dependency","id":{i + 1},"pid":{home},'
                f'"tid":{lane_of(timeline, position)},"ts":{clock.text(clock.on_grid(starts[position]))}{more}}}'
            )
