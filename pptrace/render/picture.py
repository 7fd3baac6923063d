"""What is drawn of a timeline, without a medium: rows of cells, messages under way and bars between steps, in ticks.

It owns what a picture shows and in which order; columns of text are grid.py's, positions on paper figure.py's. Ops of no
duration are left out, the two ops of an overlapped pair are one cell, and a window leaves out what lies outside it.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from pptrace.analysis.idle import EXPOSED, FILL, HEAD_OF_LINE
from pptrace.errors import ParameterError
from pptrace.model import OpKind
from pptrace.rationals import text_of
from pptrace.render.names import Names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pptrace.analysis.idle import IdleSlot
    from pptrace.model import Schedule
    from pptrace.render.options import RenderOptions
    from pptrace.timeline import Timeline

ALONE = -1
"""The `partner` of a cell that is one op."""

IN_FLIGHT = frozenset({EXPOSED, HEAD_OF_LINE})
"""Causes of idle time that are drawn as a message under way."""


class Shown(NamedTuple):
    """One op, or an overlapped pair, in [start, end) ticks.

    `parts` are the texts, kinds and shades that make up the cell (two for a pair, with `partner` the position of its second
    op). A shade tells chunks of a rank (or copies) apart.
    """

    start: int
    end: int
    text: str
    parts: tuple[tuple[str, OpKind, int], ...]
    position: int
    partner: int


class PictureRow(NamedTuple):
    """One rank: its cells in time order, the idle slots in which a message to it is under way, and the ticks at which an
    optimizer step ends."""

    label: str
    rank: int
    cells: tuple[Shown, ...]
    waits: tuple[IdleSlot, ...]
    bars: tuple[int, ...]


class Picture(NamedTuple):
    """Rows under one time axis that shows [begin, end) in ticks. `unit` is the name of the unit of time, or empty; `kinds`
    are those that are drawn."""

    rows: tuple[PictureRow, ...]
    begin: int
    end: int
    names: Names
    unit: str
    kinds: tuple[OpKind, ...]


def picture(timeline: Timeline, options: RenderOptions, slots: Iterable[IdleSlot] = ()) -> Picture:
    """What `options` want to see of `timeline`, in time linear in its ops.

    `slots` are the idle slots of analysis/idle.py where messages under way are to be drawn. Raises `ParameterError` for a
    window in which there is nothing, or ranks that are not there.
    """
    schedule = timeline.schedule
    names = Names(schedule, options)
    ranks = _ranks(schedule, options)
    begin, end = _window(timeline, options)
    flights: dict[int, list[IdleSlot]] = {rank: [] for rank in ranks}
    for slot in _flights(timeline, slots):
        if slot.rank in flights and slot.end > begin and slot.start < end:
            flights[slot.rank].append(slot)
    rows = tuple(
        PictureRow(
            names.row(rank),
            rank,
            tuple(
                cell
                for cell in _cells(timeline, names, rank, compact=options.compact)
                if cell.end > begin and cell.start < end
            ),
            tuple(flights[rank]),
            tuple(tick for tick in _step_ends(timeline, rank) if begin < tick < end),
        )
        for rank in ranks
    )
    kinds = {kind for row in rows for cell in row.cells for _, kind, _ in cell.parts}
    return Picture(rows, begin, end, names, timeline.costs.unit, tuple(sorted(kinds)))


def _flights(timeline: Timeline, slots: Iterable[IdleSlot]) -> Iterator[IdleSlot]:
    """The slots, or the ends of slots, in which the rank's next message is under way: also the one for its first op, which
    the analysis counts as fill."""
    for slot in slots:
        if slot.cause in IN_FLIGHT:
            yield slot
        elif slot.cause == FILL and slot.position >= 0:
            awaited = timeline.dependencies.inputs[slot.position]
            if awaited >= 0:
                leaves = timeline.departures.get(awaited, timeline.ends[awaited])
                start, end = max(slot.start, leaves), min(slot.end, timeline.arrivals[awaited])
                if start < end:
                    yield slot._replace(start=start, end=end)


def _ranks(schedule: Schedule, options: RenderOptions) -> tuple[int, ...]:
    if options.only_ranks is None:
        return tuple(range(schedule.num_ranks))
    strange = [rank for rank in options.only_ranks if not 0 <= rank < schedule.num_ranks]
    if strange or not options.only_ranks:
        message = f"--only-ranks names rank {strange[0] if strange else 'none'}; ranks are 0..{schedule.num_ranks - 1}"
        raise ParameterError(message)
    return options.only_ranks


def _window(timeline: Timeline, options: RenderOptions) -> tuple[int, int]:
    """The drawn [from, to) in ticks: the window, or all of the timeline, whichever ends first."""
    first, last = min(timeline.starts, default=0), max(timeline.ends, default=0)
    if options.window is None:
        return first, last
    unit = timeline.ticks_per_unit
    asked_from, asked_to = options.window
    begin = first if asked_from is None else max(first, int(asked_from * unit // 1))
    end = last if asked_to is None else min(last, int(-(-asked_to * unit // 1)))
    if begin >= end:
        message = (
            f"--window shows nothing: the timeline runs from {text_of(Fraction(first, unit))} "
            f"to {text_of(Fraction(last, unit))}"
        )
        raise ParameterError(message)
    return begin, end


def _cells(timeline: Timeline, names: Names, rank: int, *, compact: bool) -> Iterator[Shown]:
    """The ops of one rank that last, pairs joined, in time order."""
    schedule, starts, ends = timeline.schedule, timeline.starts, timeline.ends
    codes, pairs = schedule.codes, schedule.pairs
    text, kind, shade = names.letter if compact else names.text, names.kind, names.shade
    joined = -1
    for position in schedule.positions(rank):
        start, end, code = starts[position], ends[position], codes[position]
        if position == joined or start == end:
            continue
        own = text(code)
        if position in pairs and starts[position + 1] == start and ends[position + 1] == end:
            joined = position + 1
            second = codes[joined]
            other = text(second)
            parts = ((own, kind(code), shade(code)), (other, kind(second), shade(second)))
            yield Shown(start, end, own + other if compact else f"{own}+{other}", parts, position, joined)
        else:
            yield Shown(start, end, own, ((own, kind(code), shade(code)),), position, ALONE)


def _step_ends(timeline: Timeline, rank: int) -> list[int]:
    """When the rank's update between one step and the next is done. Schedules without a flush have no such moment."""
    schedule = timeline.schedule
    if schedule.num_steps == 1 or schedule.asynchronous:
        return []
    done: dict[int, int] = {}
    num, width = schedule.num_microbatches, schedule.num_microbatches * schedule.num_steps
    first_step = OpKind.STEP * schedule.num_stages * width
    for position in schedule.positions(rank):
        code = schedule.codes[position]
        if code >= first_step:
            step = code % width // num
            done[step] = max(done.get(step, 0), timeline.ends[position])
    return [done[step] for step in sorted(done) if step < schedule.num_steps - 1]
