"""The grid of text: a picture's cells, waits and bars in columns of characters.

It owns which columns; what is drawn is picture.py's, how wide a moment is scale.py's, the characters are draw.py's.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, NamedTuple

from pptrace.render.options import RenderOptions
from pptrace.render.picture import picture
from pptrace.render.scale import Extent, Mark, Scale

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pptrace.analysis.idle import IdleSlot
    from pptrace.model import OpKind
    from pptrace.render.names import Names
    from pptrace.render.picture import Shown
    from pptrace.timeline import Timeline


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
    """Rows under one time axis. Columns are `scale.column_width` characters wide.

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


def grid(timeline: Timeline, options: RenderOptions | None = None, slots: Iterable[IdleSlot] = ()) -> Layout:
    """Place every op of `timeline`, in time linear in its ops (but for sorting the times of a picture not to scale).

    `slots` are the idle slots of analysis/idle.py where messages under way are to be drawn. Raises `ParameterError` for a
    window in which there is nothing, or ranks that are not there.
    """
    options = options or RenderOptions()
    shown = picture(timeline, options, slots)
    begin, end = shown.begin, shown.end
    apart = 0 if options.compact else 1
    extents = [
        Extent(max(cell.start, begin), min(cell.end, end), len(cell.text) + apart)
        for row in shown.rows
        for cell in row.cells
    ]
    bars = {tick for row in shown.rows for tick in row.bars}
    scale = Scale(extents, begin, end, bars, timeline.ticks_per_unit)
    rows = tuple(
        Row(
            row.label,
            row.rank,
            tuple(_placed(cell, scale, begin, end) for cell in row.cells),
            tuple(_wait(slot, scale, begin, end) for slot in row.waits),
            tuple(scale.column(tick) for tick in row.bars),
        )
        for row in shown.rows
    )
    return Layout(rows, scale, tuple(scale.marks()), shown.names, options.compact, shown.unit, shown.kinds)


def _placed(cell: Shown, scale: Scale, begin: int, end: int) -> PlacedCell:
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
