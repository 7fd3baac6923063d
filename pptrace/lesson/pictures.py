"""The figures of a page in its media: as text, and laid out for SVG and TikZ, with ops hidden or the grid left empty. It owns
what an exercise hides; everything else is the renderers'."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

from pptrace.lesson.exercise import drawn_positions
from pptrace.model import OpKind
from pptrace.render.draw import Canvas, grid_lines
from pptrace.render.figure import figure
from pptrace.render.figure_parts import Box, Figure, FigureRow
from pptrace.render.grid import Layout, PlacedCell, grid
from pptrace.render.lines import text_of_line
from pptrace.render.text import report_text

if TYPE_CHECKING:
    from pptrace.analysis.report import Report
    from pptrace.lesson.document import Drawing

HIDDEN = "_"
"""In text, what stands for every character of a hidden op, and for a column of an empty grid."""
MOST_CELLS = 150
"""Cells of a row of an empty figure; of more there are none, only the rows and the time axis."""


def text_picture(drawing: Drawing, width: int | None = None) -> str:
    """Legend and grid, with `curve` the strip of what is held, without a line break at the end."""
    report, options = drawing.report, drawing.options
    shown = options.drawing._replace(width=width)
    if not options.holes:
        sections = ("legend", "grid", "held") if options.curve else ("legend", "grid")
        return report_text(report, shown._replace(sections=sections)).rstrip("\n")
    slots = report.idle.slots if report.costs.has_communication else ()
    layout = _emptied(grid(report.timeline, shown)) if drawing.blank else grid(report.timeline, shown, slots)
    hidden = _with_holes(layout, options.holes)
    legend = report_text(report, shown._replace(sections=("legend",))).rstrip("\n")
    lines = [text_of_line(line) for line in grid_lines(Canvas(hidden, width))]
    return "\n".join([legend, "" if drawing.blank else f"{HIDDEN * 2} an op to find", "", *lines])


def _with_holes(layout: Layout, holes: frozenset[int]) -> Layout:
    def hidden(cell: PlacedCell) -> PlacedCell:
        positions = [cell.position, cell.partner][: len(cell.parts)]
        parts = tuple(
            (HIDDEN * len(text), kind, shade) if position in holes else (text, kind, shade)
            for (text, kind, shade), position in zip(cell.parts, positions, strict=True)
        )
        return cell._replace(text="+".join(text for text, _, _ in parts), parts=parts)

    rows = tuple(row._replace(cells=tuple(map(hidden, row.cells))) for row in layout.rows)
    return layout._replace(rows=rows)


def _emptied(layout: Layout) -> Layout:
    """A mark in every column of every row, whatever runs there."""
    text = HIDDEN * max(layout.column_width - 1, 1)
    cells = tuple(
        PlacedCell(column, 1, text, ((text, OpKind.F, 0),), -1, -1, 0, 0) for column in range(layout.num_columns)
    )
    return layout._replace(rows=tuple(row._replace(cells=cells, waits=(), bars=()) for row in layout.rows))


def laid_out(drawing: Drawing) -> Figure:
    """The figure with everything at its place. Raises `ParameterError` as `figure` does."""
    drawn = figure(drawing.report, drawing.options)
    if not drawing.blank:
        return drawn
    step = _step(drawing.report)
    columns = range(drawn.picture.begin, drawn.picture.end, step)
    rows = tuple(_empty(row, drawn, columns) for row in drawn.rows)
    return drawn._replace(rows=rows, legend=tuple(place for place in drawn.legend if place.sign.what == "kind"))


def _step(report: Report) -> int:
    """Ticks of which all times are multiples."""
    timeline = report.timeline
    positions = drawn_positions(report)
    begin = report.work.begin
    return gcd(*(tick - begin for p in positions for tick in (timeline.starts[p], timeline.ends[p]))) or 1


def _empty(row: FigureRow, drawn: Figure, columns: range) -> FigureRow:
    width = columns.step * drawn.per_tick
    boxes = tuple(
        Box(drawn.left + (tick - drawn.picture.begin) * drawn.per_tick, width, 0.0, row.height, None, 0, "", 0.0, -1)
        for tick in (columns if len(columns) <= MOST_CELLS else ())
    )
    return row._replace(boxes=boxes, flights=(), bars=())
