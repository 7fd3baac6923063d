"""The arrows of a figure: from the op that produces an output to the op on another rank that waits for it. Which ops these
are is dependencies.py's to say; when a rank is idle is analysis/idle.py's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pptrace.render.figure_parts import Arrow

if TYPE_CHECKING:
    from pptrace.analysis.report import Report
    from pptrace.render.figure_parts import FigureRow
    from pptrace.render.measure import Place
    from pptrace.render.picture import Picture

INSET = 3.0
"""Pixels by which an arrow that goes straight down keeps inside both ops."""


def arrows_of(report: Report, shown: Picture, rows: tuple[FigureRow, ...], place: Place) -> tuple[Arrow, ...]:
    """One arrow for each output that crosses ranks, both ends inside the picture."""
    timeline = report.timeline
    row_of = {row.rank: row for row in rows}
    rank_of = {box.position: row.rank for row in rows for box in row.boxes}
    idle_until = {(slot.rank, slot.end) for slot in report.idle.slots}
    arrows = []
    for rank, row in row_of.items():
        for box in row.boxes:
            producer = timeline.dependencies.inputs[box.position]
            if producer not in rank_of or rank_of[producer] == rank:
                continue
            leaves, arrives = timeline.ends[producer], timeline.starts[box.position]
            if leaves > shown.end or arrives < shown.begin:
                continue
            origin = row_of[rank_of[producer]]
            down = origin.top < row.top
            y, to_y = (origin.top + origin.height, row.top) if down else (origin.top, row.top + row.height)
            x, to_x = place.x(leaves) - INSET, place.x(arrives) + INSET
            binding = timeline.arrivals[producer] == arrives and (rank, arrives) in idle_until
            arrows.append(Arrow(x, y, to_x, to_y, binding))
    return tuple(arrows)
