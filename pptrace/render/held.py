"""The strips under the grid: how many activations (or weight versions) every rank holds over time, on the grid's own
columns. It computes nothing: the curves and peaks are those of analysis/."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pptrace.analysis.lifetimes import ACTIVATION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pptrace.analysis.report import Report
    from pptrace.render.grid import Layout, Row


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
    memory = report.memory
    strips = []
    for row in layout.rows:
        peak = memory.peak(row.rank, kind) if kind != ACTIVATION else memory.peaks[row.rank]
        strips.append(_strip(row, layout, memory.held(row.rank, kind), peak.held, peak.at))
    return strips


def versions_held(report: Report, layout: Layout) -> list[Strip]:
    """How many versions of the weights every row of `layout` keeps."""
    strips = []
    for row in layout.rows:
        curve = report.versions.held(row.rank)
        most = max((count for _, count in curve), default=0)
        strips.append(_strip(row, layout, curve, most, next((tick for tick, count in curve if count == most), 0)))
    return strips


def _strip(row: Row, layout: Layout, curve: Sequence[tuple[int, int]], most: int, at: int) -> Strip:
    """The levels of a curve in columns; it holds `most` from tick `at` on."""
    scale = layout.scale
    levels: list[Level] = []
    for index, (tick, count) in enumerate(curve):
        until = curve[index + 1][0] if index + 1 < len(curve) else scale.end
        first, last = max(tick, scale.origin), min(until, scale.end)
        column = scale.column(first)
        width = scale.column(last) - column if last > first else 0
        if width > 0:
            levels.append(Level(column, width, count))
    return Strip(row.label, row.rank, tuple(levels), f"{most} from t={scale.text(at)}" if most else "0")
