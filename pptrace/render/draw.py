"""A layout as lines of characters: the grid, the strip of what is held, cut into panels where a width is given.

A cell is its text, then `-` to the op's end, then one blank. `.` is idle, `~` idle while a message to the rank is under
way, `|` before a cell the end of an optimizer step.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING

from pptrace.render.grid import covering
from pptrace.render.lines import HEADING, PLAIN, Line, Piece, heading, plain, style_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pptrace.render.grid import Layout, PlacedCell, Row
    from pptrace.render.held import Level, Strip

IDLE, FLIGHT, GOES_ON, BAR = ".", "~", "-", "|"
LEAST_ROOM = 12
"""However narrow the terminal is, a panel is at least this many characters wide."""

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class Canvas:
    """Where the columns of one layout are in a line of characters, and the panels it is cut into."""

    def __init__(self, layout: Layout, width: int | None = None) -> None:
        self.layout = layout
        self.apart = 0 if layout.compact else 1
        self.label_width = max(len("time"), *(len(row.label) for row in layout.rows))
        common = {row.bars for row in layout.rows}
        # In a compact picture nothing but a column of its own has room for a bar, and only one that all rows share.
        self.inserted = next(iter(common)) if layout.compact and len(common) == 1 else ()
        self.longest = max((len(c.text) for row in layout.rows for c in row.cells), default=1)
        self.room = None if width is None else max(width - self.label_width - 2, LEAST_ROOM, self.longest)
        self.panels = self._panels(self.room)

    def begin(self, column: int) -> int:
        """The character at which something that begins with `column` is drawn."""
        return column * self.layout.column_width + bisect_right(self.inserted, column)

    def finish(self, column: int) -> int:
        """The character before which something that ends with `column` is drawn."""
        return column * self.layout.column_width + bisect_left(self.inserted, column)

    def visible(self, first: int, last: int) -> int:
        """The character before which the cells of a panel of these columns end: a blank may be left out at its edge."""
        edge = self.finish(last)
        return edge if self.room is None else min(edge, self.begin(first) + self.room)

    def label(self, text: str) -> Piece:
        return (f"{text:<{self.label_width}} |", PLAIN)

    def goes_on(self, cell: PlacedCell) -> bool:
        """Whether a cell has room behind its text to be marked. In a picture that is exact one column is the least there
        is, and nothing has to say that an op fills it."""
        if self.layout.scale.exact and cell.width == 1:
            return False
        return cell.width * self.layout.column_width > len(cell.text) + self.apart

    def _panels(self, room: int | None) -> list[tuple[int, int]]:
        """[from, to) in columns. A panel ends where every cell's text fits before or after the edge, if there is such a
        place; if not, so far before the panel's width that a cell that goes over the edge has room for its text."""
        total = self.layout.num_columns
        if room is None or self.finish(total) - self.apart <= room:
            return [(0, total)]
        panels, first = [], 0
        while first < total:
            last = first + max((room + self.apart) // self.layout.column_width, 1)
            while last > first + 1 and self.finish(last) - self.begin(first) - self.apart > room:
                last -= 1
            if last >= total:
                last = total
            else:
                near = range(last, max(last - 2 * self.longest, first), -1)
                clean = next((c for c in near if not self._hides_text(first, c, clean=True)), None)
                fitting = clean or next((c for c in near if not self._hides_text(first, c)), None)
                last = fitting or max(last - self.longest, first + 1)
            panels.append((first, last))
            first = last
        return panels

    def _hides_text(self, first: int, column: int, *, clean: bool = False) -> bool:
        """Whether an end of the panel at `column` leaves some cell no room for its text on either side (`clean`: before)."""
        edge, after = self.visible(first, column), self.begin(column)
        for row in self.layout.rows:
            index = covering(row, column - 1)
            if index < 0:
                continue
            cell = row.cells[index]
            begin, finish = self.begin(cell.column), self.finish(cell.column + cell.width)
            if (
                finish > after
                and edge - begin < len(cell.text)
                and (clean or finish - after - self.apart <= len(cell.text))
            ):
                return True
        return False


def grid_lines(canvas: Canvas) -> list[Line]:
    """The time axis and the rows, panel by panel with a blank line between."""
    lines: list[Line] = []
    for first, last in canvas.panels:
        lines += [[]] if lines else []
        lines.append(_axis_line(canvas, first, last))
        lines += [_row_line(canvas, row, first, last) for row in canvas.layout.rows]
    return lines


def _axis_line(canvas: Canvas, first: int, last: int) -> Line:
    start, end = canvas.begin(first), canvas.finish(last)
    chars = [" "] * (end - start)
    free = 0
    for mark in canvas.layout.marks:
        at = canvas.begin(mark.column) - start
        if at < free or first > mark.column or mark.column >= last:
            continue
        past_edge = at + len(mark.text) > len(chars) and last < canvas.layout.num_columns
        past_width = canvas.room is not None and at + len(mark.text) > canvas.room
        if mark.column > first and (past_edge or past_width):
            continue  # it would run past a panel's edge, and stands in the next one's neighbourhood anyway
        chars[at : at + len(mark.text)] = mark.text
        free = at + len(mark.text) + 1
    for bar in canvas.inserted:
        if first < bar < last:
            chars[canvas.begin(bar) - 1 - start] = BAR
    return [(f"{'time':<{canvas.label_width}} |", HEADING), ("".join(chars), HEADING)]


def _row_line(canvas: Canvas, row: Row, first: int, last: int) -> Line:
    layout = canvas.layout
    start, end = canvas.begin(first), canvas.finish(last)
    visible = canvas.visible(first, last)
    chars = [" "] * (end - start)
    spans: list[tuple[int, int, str]] = []
    cursor = start
    waits = [
        (canvas.begin(w.column), canvas.finish(w.column + w.width))
        for w in row.waits
        if w.column < last and w.column + w.width > first
    ]
    for index in range(max(covering(row, first), 0), len(row.cells)):
        cell = row.cells[index]
        if cell.column >= last:
            break
        begin, finish = canvas.begin(cell.column), canvas.finish(cell.column + cell.width)
        at, until = max(begin, cursor), finish if finish <= end else visible
        if begin < at and until - at <= canvas.apart:
            continue  # only the blank behind an op that the panel before has shown
        if finish > end and begin >= at:  # its text may go over the edge, as far as the width allows
            until = max(until, min(at + len(cell.text), start + (canvas.room or 0)))
        if until <= at:
            continue
        chars += [" "] * (until - start - len(chars))
        _idle(canvas, chars, start, cursor, at, waits)
        text, parts = _cell_text(canvas, cell, until - at, continued=begin < at, goes_on=finish > end)
        chars[at - start : at - start + len(text)] = text
        for begins, ends, style in parts:
            spans.append((at - start + begins, at - start + ends, style))
        cursor = until if finish <= end else end
    _idle(canvas, chars, start, cursor, visible, waits)
    for bar in row.bars if not layout.compact else canvas.inserted:
        if first < bar < last:
            chars[canvas.begin(bar) - 1 - start] = BAR
    line: Line = [canvas.label(row.label)]
    done = 0
    text = "".join(chars)
    for begins, ends, style in spans:
        if begins > done:
            line.append((text[done:begins], PLAIN))
        line.append((text[begins:ends], style))
        done = ends
    line.append((text[done:], PLAIN))
    return line


def _cell_text(
    canvas: Canvas, cell: PlacedCell, room: int, *, continued: bool, goes_on: bool
) -> tuple[str, list[tuple[int, int, str]]]:
    """The characters of a cell in `room` places, and which of them have which style."""
    if not goes_on:
        room = max(room - canvas.apart, 1)
    text = cell.text
    if continued:
        text = GOES_ON + text if len(text) < room else GOES_ON
    elif goes_on and len(text) > room:
        text = GOES_ON  # the next panel has room for it
    elif cell.cut_left and len(text) < room:
        text = GOES_ON + text
    text = text[:room].ljust(room, GOES_ON if canvas.goes_on(cell) else " ")
    styles = [style_of(kind, shade) for _, kind, shade in cell.parts]
    if len(styles) == 1:
        return text, [(0, room, styles[0])]
    lead = len(cell.parts[0][0]) + (0 if canvas.layout.compact else 1)
    if continued or cell.cut_left:
        lead += 1
    lead = min(lead, room)
    return text, [(0, lead, styles[0]), (lead, room, styles[1])]


def _idle(canvas: Canvas, chars: list[str], start: int, at: int, until: int, waits: Sequence[tuple[int, int]]) -> None:
    """Fill [at, until) with the marks of idle time."""
    if until <= at:
        return
    edges, flights = [at], set()
    for index in range(max(bisect_right(waits, (at, at)) - 1, 0), len(waits)):
        begin, finish = waits[index]
        if begin >= until:
            break
        if max(begin, at) < min(finish, until):
            edges += [edge for edge in (begin, finish) if at < edge < until]
            flights.add(max(begin, at))
    edges.append(until)
    narrow = canvas.layout.column_width == 1 and not canvas.layout.compact
    for begin, finish in pairwise(edges):
        mark = FLIGHT if begin in flights else IDLE
        for place in range(begin, finish, _period(canvas)):
            if place == finish - 1 and narrow and (place > begin or mark == IDLE):
                break  # it would touch the next cell, and reads as part of it
            chars[place - start] = mark


def _period(canvas: Canvas) -> int:
    """Characters from one mark of idle time to the next: a column, or a cell's text where columns are narrow."""
    if canvas.layout.compact or canvas.layout.column_width > 1:
        return canvas.layout.column_width
    return canvas.longest + 1


def held_lines(canvas: Canvas, strips: Sequence[Strip], title: str, width: int | None) -> list[Line]:
    """The strip, panel by panel; the peaks to its right where they fit, else in lines of their own."""
    peak_width = max(len(strip.peak) for strip in strips)
    first, last = canvas.panels[-1]
    strip_width = canvas.label_width + 2 + canvas.finish(last) - canvas.begin(first)
    beside = width is None or strip_width + 4 + peak_width <= width
    lines: list[Line] = []
    for number, (first, last) in enumerate(canvas.panels):
        ends_here = number == len(canvas.panels) - 1
        lines += [[]] if lines else []
        if number == 0 or (ends_here and beside):
            shown = title if number == 0 else ""
            if ends_here and beside and len(shown) > strip_width:
                lines.append(heading(shown))
                shown = ""
            lines.append(heading(f"{shown:<{strip_width + 2}}peak" if ends_here and beside else shown))
        for strip in strips:
            text = _levels(canvas, strip.levels, first, last)
            line: Line = [canvas.label(strip.label), (text, PLAIN)]
            if ends_here and beside:
                line.append((f"{'':{strip_width + 4 - canvas.label_width - 2 - len(text)}}{strip.peak}", PLAIN))
            lines.append(line)
    if not beside:
        lines += [[], heading("peak")]
        lines += [plain(f"{strip.label:<{canvas.label_width}}  {strip.peak}") for strip in strips]
    return lines


def _levels(canvas: Canvas, levels: Sequence[Level], first: int, last: int) -> str:
    layout = canvas.layout
    start, end = canvas.begin(first), canvas.finish(last)
    chars = [" "] * (end - start)
    most = max((len(str(level.number)) for level in levels), default=1)
    each_column = layout.scale.exact and layout.column_width > most
    index = max(bisect_right(levels, first, key=lambda level: level.column) - 1, 0)
    for level in levels[index:]:
        if level.column >= last:
            break
        begin, finish = max(level.column, first), min(level.column + level.width, last)
        if finish <= begin:
            continue
        if layout.compact:
            mark = _DIGITS[level.number] if level.number < len(_DIGITS) else "*"
            chars[canvas.begin(begin) - start : canvas.finish(finish) - start] = mark * (
                canvas.finish(finish) - canvas.begin(begin)
            )
            continue
        text = str(level.number)
        for column in range(begin, finish) if each_column else (begin,):
            at, room = canvas.begin(column) - start, canvas.finish(finish) - canvas.begin(begin)
            if (
                each_column or len(text) < room or finish == last
            ):  # else it changes again before there is room to say so
                chars[at : at + len(text)] = text[: len(chars) - at]
    for bar in canvas.inserted:
        if first < bar < last:
            chars[canvas.begin(bar) - 1 - start] = BAR
    return "".join(chars)
