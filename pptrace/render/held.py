"""The strip under the grid: how many states every rank holds over time, on the grid's own columns. It computes nothing:
the curves and peaks are analysis/memory.py's."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pptrace.analysis.lifetimes import ACTIVATION

if TYPE_CHECKING:
    from pptrace.analysis.report import Report
    from pptrace.render.grid import Layout


class Level(NamedTuple):
    """`number` states are held in `width` columns from `column`."""

    column: int
    width: int
    number: int


class Strip(NamedTuple):
    """One rank's levels, without holes, and its peak over the whole timeline as text (`4 from t=3`)."""

    label: str
    rank: int
    levels: tuple[Level, ...]
    peak: str


def held(report: Report, layout: Layout, kind: str = ACTIVATION) -> list[Strip]:
    """The strips of the rows of `layout`, in its columns."""
    scale, memory = layout.scale, report.memory
    strips = []
    for row in layout.rows:
        curve = memory.held(row.rank, kind)
        levels: list[Level] = []
        for index, (tick, count) in enumerate(curve):
            until = curve[index + 1][0] if index + 1 < len(curve) else scale.end
            first, last = max(tick, scale.origin), min(until, scale.end)
            column = scale.column(first)
            width = scale.column(last) - column if last > first else 0
            if width > 0:
                levels.append(Level(column, width, count))
        peak = memory.peak(row.rank, kind) if kind != ACTIVATION else memory.peaks[row.rank]
        text = f"{peak.held} from t={scale.text(peak.at)}" if peak.held else "0"
        strips.append(Strip(row.label, row.rank, tuple(levels), text))
    return strips
