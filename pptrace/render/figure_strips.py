"""What stands under the grid of a figure, on the same time axis: lifetimes as bars, the number of states held as a curve.
It owns lanes and heights; lifetimes, counts and peaks are analysis/'s."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from pptrace.analysis.lifetimes import ACTIVATION, INPUT
from pptrace.model import OpKind
from pptrace.render.measure import MARGIN, TextLine, em_width, name_size
from pptrace.render.numbers import time_text

if TYPE_CHECKING:
    from pptrace.analysis.lifetimes import Lifetime
    from pptrace.analysis.memory import Peak
    from pptrace.analysis.report import Report
    from pptrace.render.measure import Place
    from pptrace.render.picture import Picture

LANE = 13.0
_LANE_FONT = 9.5
CURVE, HEADROOM = 26.0, 13.0
"""Pixels of the highest curve, and above it for the numbers."""
_CURVE_FONT = 10.0


class LifeBar(NamedTuple):
    """One lifetime, `LANE` - 2 pixels high; from `shrinks` on it is only what W needs (None: never). `kind` and `shade` are
    those of the op that creates it."""

    x: float
    width: float
    top: float
    text: str
    size: float
    shrinks: float | None
    kind: OpKind
    shade: int

    @property
    def parts(self) -> tuple[LifePart, ...]:
        """What is drawn: all of it, or what there is until it shrinks (where the text stands) and the rest."""
        end = self.x + self.width
        if self.shrinks is None or self.shrinks >= end:
            return (LifePart(self.x, self.width, self.kind, self.shade),)
        rest = LifePart(self.shrinks, end - self.shrinks, OpKind.W, self.shade)
        return (LifePart(self.x, self.shrinks - self.x, self.kind, self.shade), rest)

    @property
    def has_text(self) -> bool:
        """Whether the first part has room for the text."""
        return bool(self.size) and self.parts[0].width >= self.size * 2


class LifePart(NamedTuple):
    """A rectangle of a bar in the paint of a kind."""

    x: float
    width: float
    kind: OpKind
    shade: int


class LifeRow(NamedTuple):
    """The lifetimes on one rank; `top` of a bar counts from the row's."""

    label: str
    top: float
    height: float
    bars: tuple[LifeBar, ...]


class CurveRow(NamedTuple):
    """What one rank holds: `steps` are (x, x where it ends, height in pixels), without holes; `numbers` (x, y, text) stand
    above steps that have room, y from the top of the row. `peak` is a text."""

    label: str
    rank: int
    top: float
    height: float
    steps: tuple[tuple[float, float, float], ...]
    numbers: tuple[tuple[float, float, str], ...]
    peak: str


class Strips(NamedTuple):
    """Everything under the grid: `panels` are the (top, bottom) of its parts, `bottom` is where it ends."""

    headings: tuple[TextLine, ...]
    panels: tuple[tuple[float, float], ...]
    lives: tuple[LifeRow, ...]
    curves: tuple[CurveRow, ...]
    bottom: float


def strips(report: Report, shown: Picture, place: Place, y: float, *, lifetimes: bool, curve: bool) -> Strips:
    """What was asked for, from `y` on, each part under its heading."""
    headings: list[TextLine] = []
    panels: list[tuple[float, float]] = []
    lives: tuple[LifeRow, ...] = ()
    curves: tuple[CurveRow, ...] = ()
    recomputes = report.memory.recomputes
    if lifetimes:
        by = "stage:microbatch" if several_stages(report) else "microbatch"
        inputs = "; in the colour of R: of inputs kept for recomputation" if recomputes else ""
        headings.append(TextLine(MARGIN, y + 26, f"lifetimes of saved activations, by {by}{inputs}"))
        top = y + 32
        lives, y = life_rows(report, shown, place, y + 34)
        panels.append((top, y))
    for kind in (ACTIVATION, INPUT) if curve and recomputes else (ACTIVATION,) if curve else ():
        what = f"{report.memory.unit} held" if kind == ACTIVATION else "inputs held for recomputation"
        headings.append(TextLine(MARGIN, y + 26, what))
        headings.append(TextLine(place.right + 8, y + 26, "peak"))
        top = y + 32
        found, y = curve_rows(report, shown, place, y + 34, kind)
        curves += found
        panels.append((top, y))
    return Strips(tuple(headings), tuple(panels), lives, curves, y)


def several_stages(report: Report) -> bool:
    """Whether a rank holds states of more than one stage, so that a bar has to name its own."""
    return report.schedule.num_chunks > 1 or report.schedule.placement.bidirectional


def life_rows(report: Report, shown: Picture, place: Place, y: float) -> tuple[tuple[LifeRow, ...], float]:
    """Bars in as many lanes as states are alive at once, and where the next thing may begin."""
    by_rank: dict[int, list[Lifetime]] = {row.rank: [] for row in shown.rows}
    for life in report.lifetimes:
        if life.rank in by_rank and life.end > shown.begin and life.start < shown.end:
            by_rank[life.rank].append(life)
    several = several_stages(report)
    rows = []
    for row in shown.rows:
        bars, lanes = _bars(by_rank[row.rank], shown, place, several=several)
        height = max(lanes, 1) * LANE
        rows.append(LifeRow(row.label, y, height, bars))
        y += height + 6
    return tuple(rows), y


def _bars(found: list[Lifetime], shown: Picture, place: Place, *, several: bool) -> tuple[tuple[LifeBar, ...], int]:
    """Each lifetime in the lowest lane that is free."""
    names, coder = shown.names, shown.names.schedule.coder
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    lanes = 0
    bars = []
    for life in sorted(found, key=lambda life: (life.start, life.end)):
        while busy and busy[0][0] <= life.start:
            heappush(free, heappop(busy)[1])
        lane = heappop(free) if free else lanes
        lanes = max(lanes, lane + 1)
        heappush(busy, (life.end, lane))
        x = place.x(life.start)
        width = place.x(life.end) - x
        text = names.microbatch(life.microbatch)
        if several:
            text = f"{life.stage + names.first}:{text}"
        code = coder.base(OpKind.F, life.stage) + life.step * names.schedule.num_microbatches + life.microbatch
        kind = OpKind.F if life.kind == ACTIVATION else OpKind.R
        shrinks = place.x(life.shrinks) if life.shrinks is not None else None
        size = name_size(text, width, LANE + 3, _LANE_FONT)
        bars.append(LifeBar(x, width, lane * LANE, text, size, shrinks, kind, names.shade(code)))
    return tuple(bars), lanes


def curve_rows(
    report: Report, shown: Picture, place: Place, y: float, kind: str = ACTIVATION
) -> tuple[tuple[CurveRow, ...], float]:
    """The number of states of `kind` that each rank holds over time, all ranks on one scale."""
    memory = report.memory
    peaks = memory.peaks if kind == ACTIVATION else memory.input_peaks
    most = max(max(peak.held for peak in peaks), 1)
    rows = []
    for row in shown.rows:
        curve = memory.held(row.rank, kind)
        steps, numbers = [], []
        for index, (tick, count) in enumerate(curve):
            until = curve[index + 1][0] if index + 1 < len(curve) else shown.end
            first, last = place.x(tick), place.x(until)
            if last <= first:
                continue
            high = CURVE * count / most
            steps.append((first, last, high))
            if em_width(str(count)) * _CURVE_FONT + 1 <= last - first:
                numbers.append(((first + last) / 2, HEADROOM + CURVE - high - 2, str(count)))
        text = peak_text(report, peaks[row.rank])
        rows.append(CurveRow(row.label, row.rank, y, HEADROOM + CURVE, tuple(steps), tuple(numbers), text))
        y += HEADROOM + CURVE + 6
    return tuple(rows), y


def peak_text(report: Report, peak: Peak) -> str:
    """`4 from t=3`."""
    return f"{peak.held} from t={time_text(peak.at, report.timeline.ticks_per_unit)}" if peak.held else "0"
