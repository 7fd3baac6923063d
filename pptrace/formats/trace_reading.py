"""From a decoded trace to a timeline, and what the types alone cannot say: ids that match, sizes that fit, no op twice, no two
ops at once on a rank. JSON, JSON Lines and our own Chrome traces share it."""

from __future__ import annotations

from array import array
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import msgspec

from pptrace.analysis.report import Report
from pptrace.costs import Costs, Sizes, Values, check_costs
from pptrace.deadlock import DeadlockError
from pptrace.dependencies import dependencies, require_runnable
from pptrace.errors import FormatError, ParameterError, ScheduleError
from pptrace.formats import Document
from pptrace.formats.trace_findings import edited_lifetimes, findings
from pptrace.formats.trace_structs import CostsInfo, Event, PerValues, ScheduleInfo, Trace
from pptrace.model import BOUNDARY_KINDS, Op, OpKind, Placement, Schedule
from pptrace.timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_TICKS = 2**62
"""Of all ops and messages together: an order that is timed again takes no longer, and its times are 64-bit numbers."""
_MESSAGES = {"SEND_F": (OpKind.F,), "SEND_B": (OpKind.B, OpKind.I)}
"""Ops that are messages, and the kinds of the op whose output they may carry."""


def document(trace: Trace, source: str, *, keep_overlaps: bool = False) -> Document:
    """The timeline that a decoded trace holds, and what does not agree in it. Raises `FormatError` with the place;
    `keep_overlaps`: not for two ops of a rank at once, which the checker names."""
    try:
        timeline, overlaps = _timeline(trace, keep_overlaps=keep_overlaps)
    except FormatError as error:
        message = f"{source}: {error}"
        raise FormatError(message) from None
    try:
        require_runnable(timeline.schedule, timeline.dependencies)
    except (ScheduleError, DeadlockError):  # whoever needs it to run says so; the checker wants to see all of it
        return Document(timeline.schedule, timeline, notes=tuple(trace.notes))
    if overlaps:  # nothing can be reported of such times, so nothing stored can be compared
        return Document(timeline.schedule, timeline, notes=tuple(trace.notes))
    report = Report(timeline)
    return Document(
        timeline.schedule,
        timeline,
        notes=tuple(trace.notes),
        findings=tuple(findings(trace, report)),
        lifetimes=tuple(edited_lifetimes(trace, report)),
        report=report,
    )


def _timeline(trace: Trace, *, keep_overlaps: bool) -> tuple[Timeline, bool]:
    placement = _placement(trace.schedule, len(trace.events))
    codes = _codes(trace, placement)
    order = _order(trace.events, placement, keep_overlaps=keep_overlaps)
    schedule = _schedule(trace, placement, order, codes)
    starts = array("q", [trace.events[e].start for e in order.events])
    ends = array("q", [trace.events[e].end for e in order.events])
    messages = _messages(trace, codes, order, ends)
    if sum(ends) - sum(starts) + sum(messages.latencies or ()) > _MOST_TICKS:
        _fail("$.events", "ops and messages take more than 2^62 ticks together; use a larger unit")
    measured = trace.measured or isinstance(trace.costs, msgspec.UnsetType)
    costs = Costs() if isinstance(trace.costs, msgspec.UnsetType) else _costs(trace.costs)
    try:
        check_costs(costs, placement, schedule.num_microbatches)
    except ParameterError as error:
        _fail("$.costs", str(error))
    timeline = Timeline(
        schedule,
        costs,
        dependencies(schedule),
        starts,
        ends,
        messages.arrivals,
        trace.ticks_per_unit,
        departures=messages.departures,
        latencies=messages.latencies,
        measured=measured,
        offset="" if isinstance(trace.offset, msgspec.UnsetType) else trace.offset,
    )
    return timeline, order.overlaps


def _fail(place: str, what: str) -> NoReturn:
    raise FormatError(f"{place}: {what}")


def _placement(info: ScheduleInfo, num_events: int) -> Placement:
    for name in ("ranks", "stages", "microbatches", "steps"):
        if getattr(info, name) > num_events:
            _fail(f"$.schedule.{name}", f"{getattr(info, name)} is more than there are events ({num_events})")
    if isinstance(info.stage_ranks, msgspec.UnsetType):
        makers = {"loop": Placement.loop, "v": Placement.zigzag}
        if info.placement == "bidirectional":
            made = Placement.two_way(info.ranks)
        elif info.placement in makers:
            made = makers[info.placement](info.ranks, -(-info.stages // info.ranks))
        else:
            _fail(
                "$.schedule.stage_ranks", f"missing; placement {info.placement!r} does not say which rank has a stage"
            )
        if made.num_stages != info.stages:
            _fail("$.schedule.stages", f"{info.placement} placement on {info.ranks} ranks has {made.num_stages} stages")
        return made
    if len(info.stage_ranks) != info.stages:
        _fail("$.schedule.stage_ranks", f"{len(info.stage_ranks)} values for {info.stages} stages")
    for stage, rank in enumerate(info.stage_ranks):
        if rank >= info.ranks:
            _fail(f"$.schedule.stage_ranks[{stage}]", f"{rank} is not one of the ranks 0..{info.ranks - 1}")
    two_way = info.placement == "bidirectional"
    if two_way and list(info.stage_ranks) != list(range(info.ranks)):
        _fail("$.schedule.stage_ranks", "in bidirectional placement stage s is on rank s going down")
    return Placement(info.placement, info.stage_ranks, info.ranks, bidirectional=two_way)


class _Order(NamedTuple):
    """`events[i]` is the index of the event at position i of the schedule, which messages have none of; `rank_starts` as in
    a schedule. `overlaps`: some rank runs two ops at once."""

    events: list[int]
    rank_starts: list[int]
    overlaps: bool


def _codes(trace: Trace, placement: Placement) -> list[int]:
    """The code of every event, in the order of the file; each one's fields fit the schedule and its id, and none is there
    twice."""
    info = trace.schedule
    num, width = info.microbatches, info.microbatches * info.steps
    rows = {kind.name: kind * info.stages for kind in OpKind}
    boundary = {kind.name for kind in BOUNDARY_KINDS}
    codes: list[int] = []
    seen: dict[int, int] = {}
    for i, event in enumerate(trace.events):
        microbatch = event.microbatch
        if event.rank >= placement.num_ranks:
            _fail(f"$.events[{i}].rank", f"{event.rank} is not one of the ranks 0..{placement.num_ranks - 1}")
        if event.end < event.start:
            _fail(f"$.events[{i}].end", f"{event.end} is before the start, {event.start}")
        if event.stage >= info.stages:
            _fail(f"$.events[{i}].stage", f"{event.stage} is not one of the stages 0..{info.stages - 1}")
        if microbatch is None:
            if event.op not in boundary:
                _fail(f"$.events[{i}].microbatch", f"null; {event.op} is the work of one microbatch")
            microbatch = 0
        elif microbatch >= num:
            _fail(f"$.events[{i}].microbatch", f"{microbatch} is not one of the microbatches 0..{num - 1}")
        if event.step >= info.steps:
            _fail(f"$.events[{i}].step", f"{event.step} is not one of the steps 0..{info.steps - 1}")
        code = (rows[event.op] + event.stage) * width + event.step * num + microbatch
        if seen.setdefault(code, i) != i:
            _fail(
                f"$.events[{i}].id", f"{event.id} is there twice, before as $.events[{seen[code]}]; every op runs once"
            )
        number = "" if event.op in boundary and not microbatch else microbatch
        if event.id != f"{event.stage}{event.op}{number}" + (f"@{event.step}" if event.step else ""):
            right = Op(event.stage, OpKind[event.op], None if number == "" else microbatch, event.step)
            _fail(f"$.events[{i}].id", f"{event.id!r} does not fit the event's fields, which make {str(right)!r}")
        codes.append(code)
    return codes


def _order(given: Sequence[Event], placement: Placement, *, keep_overlaps: bool) -> _Order:
    """Every rank's events in time order; of those at the same time the order of the file counts."""
    overlaps = False
    by_rank: list[list[int]] = [[] for _ in range(placement.num_ranks)]
    for i, event in enumerate(given):
        if event.op not in _MESSAGES:
            by_rank[event.rank].append(i)
    starts = [0]
    flat: list[int] = []
    for indices in by_rank:
        indices.sort(key=lambda i: (given[i].start, given[i].end))
        latest = indices[0] if indices else 0  # the one that ends last: of an overlapped pair either may
        for i in indices[1:]:
            one, other = given[latest], given[i]
            if other.start < one.end and (isinstance(one.block, msgspec.UnsetType) or one.block != other.block):
                overlaps = True
                if keep_overlaps:
                    break
                _fail(
                    f"$.events[{i}].start",
                    f"{other.id} starts at {other.start}, while rank {one.rank} runs {one.id} until {one.end}; "
                    "a rank runs one op at a time",
                )
            latest = i if other.end >= one.end else latest
        flat += indices
        starts.append(len(flat))
    return _Order(flat, starts, overlaps)


def _schedule(trace: Trace, placement: Placement, order: _Order, codes: Sequence[int]) -> Schedule:
    info = trace.schedule
    blocks: dict[tuple[int, str], list[int]] = {}
    for position, i in enumerate(order.events):
        event = trace.events[i]
        if not isinstance(event.block, msgspec.UnsetType):
            blocks.setdefault((event.rank, event.block), []).append(position)
    for (_, name), members in blocks.items():
        if len(members) != 2 or members[1] != members[0] + 1:
            place = f"$.events[{order.events[members[0]]}].block"
            _fail(
                place,
                f"{name[:60]!r} must be on two events that follow each other on their rank, it is on {len(members)}",
            )
    return Schedule(
        info.name,
        placement,
        info.microbatches,
        [[codes[i] for i in order.events[first:last]] for first, last in pairwise(order.rank_starts)],
        num_steps=info.steps,
        pairs=[members[0] for members in blocks.values()],
        options=info.options,
        asynchronous=info.asynchronous,
        early_recompute=info.early_recompute,
        joint_update=info.joint_update,
    )


class _Messages(NamedTuple):
    arrivals: array[int]
    departures: dict[int, int]
    latencies: list[int] | None


def _messages(trace: Trace, codes: Sequence[int], order: _Order, ends: array[int]) -> _Messages:
    sent = [(i, event) for i, event in enumerate(trace.events) if event.op in _MESSAGES]
    if not sent:
        return _Messages(ends, {}, None)
    info = trace.schedule
    block = info.stages * info.microbatches * info.steps
    places = {codes[i]: position for position, i in enumerate(order.events)}
    arrivals = array("q", ends)
    latencies = [0] * len(ends)
    departures: dict[int, int] = {}
    for i, message in sent:
        owner = codes[i] % block
        position = next(
            (p for kind in _MESSAGES[message.op] if (p := places.get(kind * block + owner)) is not None), None
        )
        if position is None:
            _fail(f"$.events[{i}].id", f"{message.id} carries the output of an op that is none of the events")
        producer = trace.events[order.events[position]]
        if message.rank != producer.rank:
            _fail(
                f"$.events[{i}].rank",
                f"{message.rank}, but {producer.id}, whose output it carries, is on rank {producer.rank}",
            )
        if isinstance(message.to, msgspec.UnsetType):
            _fail(f"$.events[{i}].to", "missing; a message names the rank that it goes to")
        if message.to >= info.ranks or message.to == message.rank:
            _fail(f"$.events[{i}].to", f"{message.to} is not another one of the ranks 0..{info.ranks - 1}")
        if message.start < ends[position]:
            _fail(f"$.events[{i}].start", f"{message.start} is before {producer.id} ends, at {ends[position]}")
        if message.start != ends[position]:
            departures[position] = message.start
        arrivals[position] = message.end
        latencies[position] = message.end - message.start
    return _Messages(arrivals, departures, latencies)


def _costs(info: CostsInfo) -> Costs:
    sizes = None
    if not isinstance(info.sizes, msgspec.UnsetType):
        given = {part: getattr(info.sizes, part) for part in Sizes._fields}
        sizes = Sizes(**{p: _values(value, f"sizes.{p}") for p, value in given.items() if value is not None})
    overlap: str | Fraction = info.overlap
    if info.overlap not in ("sum", "max", "split"):
        overlap = _exact(info.overlap, "overlap")
    return Costs(
        forward=_values(info.forward, "forward"),
        backward=_values(info.backward, "backward"),
        weight_grad=_values(info.weight_grad, "weight_grad"),
        comm=tuple(_exact(text, f"comm[{i}]") for i, text in enumerate(info.comm)),
        reduce=_exact(info.reduce, "reduce"),
        step_time=_exact(info.step_time, "step_time"),
        overlap=overlap,
        link=info.link,
        microbatch_scale=tuple(_exact(text, f"microbatch_scale[{i}]") for i, text in enumerate(info.microbatch_scale)),
        unit=info.unit,
        sizes=sizes,
        layers=tuple(info.layers),
        source=info.source,
    )


def _values(info: PerValues, place: str) -> Values:
    return Values(tuple(_exact(text, f"{place}.values[{i}]") for i, text in enumerate(info.values)), info.per)


def _exact(text: str, place: str) -> Fraction:
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        _fail(f"$.costs.{place}", f"{text[:40]!r} is not a number; write 3 or 3/2")
