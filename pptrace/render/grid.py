"""The picture of a timeline without a medium: rows of placed cells, the time axis, the bars between steps.

It owns what is drawn and where (in ticks and in columns); text, SVG, HTML and TikZ draw it. Ops of no duration are
left out, the two ops of an overlapped pair are one cell, and a window cuts what lies outside it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from pptrace.errors import ParameterError
from pptrace.model import OpKind
from pptrace.rationals import text_of
from pptrace.render.names import Names
from pptrace.render.options import RenderOptions
from pptrace.render.scale import Extent, Mark, Scale

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pptrace.analysis.idle import IdleSlot
    from pptrace.model import Schedule
    from pptrace.timeline import Timeline

ALONE = -1
"""The `partner` of a cell that is one op."""

IN_FLIGHT = frozenset({"exposed communication", "head-of-line"})
"""Causes of idle time (analysis/idle.py) that are drawn as a message under way."""


class PlacedCell(NamedTuple):
    """One op, or an overlapped pair, in `width` columns from `column`, [start, end) in ticks.

    `parts` are the texts and kinds that make up the cell (two for a pair, with `partner` the position of its second op).
    `shade` tells chunks of a rank (or copies) apart. `cut_left`, `cut_right`: the window hides its beginning, its end;
    start and end are those of the op all the same.
    """

    column: int
    width: int
    text: str
    parts: tuple[tuple[str, OpKind, int], ...]
    position: int
    partner: int
    start: int
    end: int
    cut_left: bool = False
    cut_right: bool = False

    @property
    def kind(self) -> OpKind:
        return self.parts[0][1]

    @property
    def shade(self) -> int:
        return self.parts[0][2]


class Wait(NamedTuple):
    """Columns in which the rank is idle because a message to it is under way."""

    column: int
    width: int
    slot: IdleSlot


class Row(NamedTuple):
    """One rank: its cells in time order, the waits between them, and the columns before which a new step begins."""

    label: str
    rank: int
    cells: tuple[PlacedCell, ...]
    waits: tuple[Wait, ...]
    bars: tuple[int, ...]


class Layout(NamedTuple):
    """Rows under one time axis. Columns are `scale.column_width` characters wide in text; other media use the ticks.

    `unit` is the name of the unit of time, or empty. `kinds` are those that are drawn.
    """

    rows: tuple[Row, ...]
    scale: Scale
    marks: tuple[Mark, ...]
    names: Names
    compact: bool
    unit: str
    kinds: tuple[OpKind, ...]

    @property
    def num_columns(self) -> int:
        return self.scale.num_columns

    @property
    def column_width(self) -> int:
        return self.scale.column_width


class _Shown(NamedTuple):
    """A cell before it has columns."""

    start: int
    end: int
    text: str
    parts: tuple[tuple[str, OpKind, int], ...]
    position: int
    partner: int


def grid(timeline: Timeline, options: RenderOptions | None = None, slots: Iterable[IdleSlot] = ()) -> Layout:
    """Place every op of `timeline`, in time linear in its ops (but for sorting the times of a picture not to scale).

    `slots` are the idle slots of analysis/idle.py where messages under way are to be drawn. Raises `ParameterError` for a
    window in which there is nothing, or ranks that are not there.
    """
    options = options or RenderOptions()
    schedule = timeline.schedule
    names = Names(schedule, options)
    ranks = _ranks(schedule, options)
    shown = {rank: list(_shown(timeline, names, rank, compact=options.compact)) for rank in ranks}
    begin, end = _window(timeline, options)
    inside = {rank: [cell for cell in shown[rank] if cell.end > begin and cell.start < end] for rank in ranks}
    bars = {rank: [tick for tick in _step_ends(timeline, rank) if begin < tick < end] for rank in ranks}
    flights: dict[int, list[IdleSlot]] = {rank: [] for rank in ranks}
    for slot in slots:
        if slot.cause in IN_FLIGHT and slot.rank in flights and slot.end > begin and slot.start < end:
            flights[slot.rank].append(slot)

    apart = 0 if options.compact else 1
    extents = [
        Extent(max(cell.start, begin), min(cell.end, end), len(cell.text) + apart)
        for rank in ranks
        for cell in inside[rank]
    ]
    scale = Scale(extents, begin, end, {tick for ticks in bars.values() for tick in ticks}, timeline.ticks_per_unit)
    rows = tuple(
        Row(
            names.row(rank),
            rank,
            tuple(_placed(cell, scale, begin, end) for cell in inside[rank]),
            tuple(_wait(slot, scale, begin, end) for slot in flights[rank]),
            tuple(scale.column(tick) for tick in bars[rank]),
        )
        for rank in ranks
    )
    kinds = {kind for rank in ranks for cell in inside[rank] for _, kind, _ in cell.parts}
    unit = timeline.costs.unit
    return Layout(rows, scale, tuple(scale.marks()), names, options.compact, unit, tuple(sorted(kinds)))


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


def _shown(timeline: Timeline, names: Names, rank: int, *, compact: bool) -> Iterator[_Shown]:
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
            yield _Shown(start, end, own + other if compact else f"{own}+{other}", parts, position, joined)
        else:
            yield _Shown(start, end, own, ((own, kind(code), shade(code)),), position, ALONE)


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


def _placed(cell: _Shown, scale: Scale, begin: int, end: int) -> PlacedCell:
    column = scale.column(max(cell.start, begin))
    width = scale.column(min(cell.end, end)) - column
    return PlacedCell(
        column,
        width,
        cell.text,
        cell.parts,
        cell.position,
        cell.partner,
        cell.start,
        cell.end,
        cell.start < begin,
        cell.end > end,
    )


def _wait(slot: IdleSlot, scale: Scale, begin: int, end: int) -> Wait:
    column = scale.column(max(slot.start, begin))
    return Wait(column, scale.column(min(slot.end, end)) - column, slot)


def covering(row: Row, column: int) -> int:
    """The index of the last cell of `row` that begins at or before `column`, or -1."""
    return bisect_right(row.cells, column, key=lambda cell: cell.column) - 1


def first_after(row: Row, column: int) -> int:
    """The index of the first cell of `row` that begins at or after `column`."""
    return bisect_left(row.cells, column, key=lambda cell: cell.column)
