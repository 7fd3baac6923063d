"""The one layout of all figures: a picture's rows, axis, lifetimes, curves and arrows at their places, to scale.

Places are CSS pixels (1/96 inch), x to the right, y down; SVG, HTML and TikZ draw them as they are. It owns sizes, fonts and
which names fit; what is drawn is picture.py's, what is computed is analysis/'s.
"""

from __future__ import annotations

from array import array
from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING
from zlib import crc32

from pptrace.errors import ParameterError
from pptrace.printable import printable
from pptrace.rationals import text_of
from pptrace.render.figure_arrows import arrows_of
from pptrace.render.figure_parts import (
    SIGN,
    TEXT_FONT,
    THEMES,
    TITLE_FONT,
    AxisMark,
    Box,
    Figure,
    FigureOptions,
    FigureRow,
    SignPlace,
)
from pptrace.render.figure_strips import peak_text, strips
from pptrace.render.figure_text import Sign, caption, description, headline, signs
from pptrace.render.measure import MARGIN, Place, TextLine, em_width, folded_to, name_size
from pptrace.render.picture import picture
from pptrace.render.scale import round_above

if TYPE_CHECKING:
    from pptrace.analysis.report import Report
    from pptrace.render.picture import Picture, PictureRow

LEAST_WIDTH = 240
MOST_WIDTH = 32_000
"""Pixels. Wider pictures are drawn this wide, names that do not fit left out."""

FONT, SMALL_FONT = 12.0, 9.5
"""Pixels: of the names of ops, and of those in a picture that would be very wide."""
SLIDE = 1240.0
"""A picture gets smaller names before it gets wider than this."""
READING = 760.0
"""A picture of few ops is stretched up to this width, an op at most to `WIDEST_OP`."""
WIDEST_OP = 46.0
SINGLE, PAIRED = 28.0, 40.0
"""Heights of rows: of ops one at a time, with overlapped pairs above one another."""
HOLE = "?"
"""The name of an op that is left for the reader to find."""
_LINE = 18.0
"""Of the legend."""


def figure(report: Report, options: FigureOptions | None = None) -> Figure:
    """Place everything, in time linear in the ops (and, with lifetimes, in the lifetimes times the most alive at once).

    Raises `ParameterError` for a window that shows nothing, ranks that are not there, an unknown theme, a width that
    leaves no room.
    """
    options = options or FigureOptions()
    if options.theme not in THEMES:
        message = f"--theme is one of {', '.join(THEMES)}; got {printable(options.theme, 40)!r}"
        raise ParameterError(message)
    slots = report.idle.slots if report.costs.has_communication else ()
    shown = picture(report.timeline, options.drawing, slots)
    unit = report.timeline.ticks_per_unit
    first_mark = em_width(text_of(Fraction(shown.begin, unit))) * FONT / 2
    left = MARGIN + max(em_width("time") * FONT + first_mark, *(em_width(row.label) * FONT for row in shown.rows)) + 10
    beside = _room_for_peaks(report, shown, options)
    per_tick, font = _scale(shown, options, left + beside + MARGIN)
    place = Place(left, shown.begin, shown.end, per_tick)
    right = place.right
    text_width = (options.width or max(right + beside + MARGIN, READING)) - 2 * MARGIN
    width = max(text_width + 2 * MARGIN, right + beside + MARGIN)

    name, sizes = headline(report, shown.names)
    title, subtitle, y = _titles(name, sizes, text_width) if options.title else ((), (), MARGIN)
    rows, height = _rows(shown, options, place, font)
    legend: tuple[SignPlace, ...] = ()
    if options.legend:
        found = signs(report, shown, arrows=options.arrows, lifetimes=options.lifetimes)
        if any(not box.size for row in rows for box in row.boxes):
            found.append(Sign("words", "names without room are left out"))
        legend, y = _legend(found, text_width, y + 4)
    axis_y = y + FONT + 6
    top = axis_y + 8
    rows = tuple(row._replace(top=top + row.top) for row in rows)
    y = top + height
    under = strips(report, shown, place, y, lifetimes=options.lifetimes, curve=options.curve)
    arrows = arrows_of(report, shown, rows, place) if options.arrows else ()
    y = under.bottom
    words: list[TextLine] = []
    if options.caption:
        y += 12
        for sentence in caption(report, shown.names, told=not options.holes):
            for number, line in enumerate(folded_to(printable(sentence), text_width - 12, TEXT_FONT)):
                y += TEXT_FONT + 4
                words.append(TextLine(MARGIN + (12 if number else 0), y, line))
    return Figure(
        f"{name}, {sizes}",
        description(report, shown.names, hidden=len(options.holes)),
        options if options.prefix else options._replace(prefix=_prefix(name, rows)),
        shown,
        width,
        y + MARGIN,
        left,
        right,
        per_tick,
        font,
        title,
        subtitle,
        legend,
        axis_y,
        ((axis_y + 3, top + height), *under.panels),
        _marks(shown, unit, left, per_tick),
        rows,
        under,
        arrows,
        tuple(words),
    )


def _titles(name: str, sizes: str, width: float) -> tuple[tuple[TextLine, ...], tuple[TextLine, ...], float]:
    """The lines of title and subtitle, and where they end."""
    y = MARGIN
    title, subtitle = [], []
    for line in folded_to(name, width, TITLE_FONT * 1.1):  # bold letters are wider
        y += TITLE_FONT + 4
        title.append(TextLine(MARGIN, y, line))
    for line in folded_to(sizes, width, TEXT_FONT):
        y += TEXT_FONT + 5
        subtitle.append(TextLine(MARGIN, y, line))
    return tuple(title), tuple(subtitle), y + 6


def _prefix(name: str, rows: tuple[FigureRow, ...]) -> str:
    """Letters and digits that another picture hardly has."""
    boxes = [box for row in rows for box in row.boxes]
    texts = " ".join([name, *(box.text for box in boxes)]).encode()
    places = array("d", [box.x for box in boxes]).tobytes()
    return f"pp{crc32(places, crc32(texts)):08x}"


def _room_for_peaks(report: Report, shown: Picture, options: FigureOptions) -> float:
    """To the right of the plot, for the curves' peaks."""
    if not options.curve:
        return 0.0
    memory = report.memory
    peaks = [peaks[row.rank] for peaks in (memory.peaks, memory.input_peaks) if peaks for row in shown.rows]
    return max(em_width(peak_text(report, peak)) for peak in peaks) * TEXT_FONT + 10


def _scale(shown: Picture, options: FigureOptions, around: float) -> tuple[float, float]:
    """Pixels per tick, and the font of the names. Nine of ten ops have room for their name unless a width is given."""
    ticks = max(shown.end - shown.begin, 1)
    if options.width is not None:
        plot = options.width - around
        if options.width < LEAST_WIDTH or plot < LEAST_WIDTH / 2:
            message = (
                f"--width {options.width}: this figure needs at least {max(LEAST_WIDTH, int(around) + 120)} pixels"
            )
            raise ParameterError(message)
        return plot / ticks, FONT
    needs: Counter[tuple[int, float]] = Counter()
    for row in shown.rows:
        for cell in row.cells:
            duration = min(cell.end, shown.end) - max(cell.start, shown.begin)
            for name, _, _ in cell.parts:
                needs[duration, em_width(name)] += 1
    if not needs:
        return READING / ticks, FONT
    font = FONT
    plot = _plot_width(needs, ticks, font)
    if plot + around > SLIDE:
        smallest = _plot_width(needs, ticks, SMALL_FONT)
        share = (SLIDE - around - smallest) / (plot - smallest)
        font = SMALL_FONT + (FONT - SMALL_FONT) * min(max(share, 0.0), 1.0)
        plot = _plot_width(needs, ticks, font)
    shortest = min(duration for duration, _ in needs)
    roomy = min(READING - around, WIDEST_OP * ticks / shortest)
    return min(max(plot, roomy), MOST_WIDTH) / ticks, font


def _plot_width(needs: Counter[tuple[int, float]], ticks: int, font: float) -> float:
    wishes = sorted(((em * font + 5) / duration, count) for (duration, em), count in needs.items())
    left_out = sum(needs.values()) // 10
    while len(wishes) > 1 and wishes[-1][1] <= left_out:
        left_out -= wishes.pop()[1]
    return wishes[-1][0] * ticks


def _legend(found: list[Sign], width: float, y: float) -> tuple[tuple[SignPlace, ...], float]:
    places = []
    x = MARGIN
    for sign in found:
        needed = SIGN + 6 + em_width(sign.text) * TEXT_FONT + 18
        if x > MARGIN and x + needed > MARGIN + width:
            x, y = MARGIN, y + _LINE
        places.append(SignPlace(x, y, sign))
        x += needed
    return tuple(places), y + _LINE


def _rows(shown: Picture, options: FigureOptions, place: Place, font: float) -> tuple[tuple[FigureRow, ...], float]:
    """The rows with tops counted from the first one's, and where they end."""
    paired = any(len(cell.parts) > 1 for row in shown.rows for cell in row.cells)
    height, gap = (PAIRED if paired else SINGLE), (16.0 if options.arrows else 4.0)
    rows = []
    y = 0.0
    for row in shown.rows:
        boxes = tuple(_boxes(row, options, place, height, font))
        flights = tuple((place.x(s.start), place.x(s.end) - place.x(s.start)) for s in row.waits)
        rows.append(FigureRow(row.label, row.rank, y, height, boxes, flights, tuple(map(place.x, row.bars))))
        y += height + gap
    return tuple(rows), y - gap + 4


def _boxes(row: PictureRow, options: FigureOptions, place: Place, height: float, font: float) -> list[Box]:
    boxes = []
    known: dict[tuple[str, float], float] = {}
    x_of, holes = place.x, options.holes
    for start, end, _, parts, first, partner in row.cells:
        x = x_of(start)
        width = x_of(end) - x
        tall = height / len(parts)
        for number, (text, kind, shade) in enumerate(parts):
            position = partner if number else first
            hole = position in holes
            text = HOLE if hole else text
            key = (text, width)
            size = known.get(key, -1.0)
            if size < 0:
                size = known[key] = name_size(text, width, tall, font)
            boxes.append(Box(x, width, tall * number, tall, None if hole else kind, shade, text, size, position))
    return boxes


def _marks(shown: Picture, unit: int, left: float, per_tick: float) -> tuple[AxisMark, ...]:
    """Times at round numbers, as many as have room."""
    room = em_width(text_of(Fraction(shown.end, unit).limit_denominator(1))) * FONT + 10
    step = round_above(Fraction(max(room, 20.0)) / Fraction(per_tick * unit), (Fraction(1), Fraction(2), Fraction(5)))
    if step < 1 and Fraction(1) * unit * Fraction(per_tick) < 90:
        step = Fraction(1)
    marks = []
    number = -(-Fraction(shown.begin, unit) // step)
    while number * step * unit <= shown.end:
        tick = number * step * unit
        marks.append(AxisMark(left + float(tick - shown.begin) * per_tick, text_of(number * step)))
        number += 1
    return tuple(marks)
