"""The grid that `show` prints: rows under a `time |` line, cut into panels or not, back into cells and their times. It owns
that picture's conventions (`-` to the end of an op, `|` at the end of a step, the time axis) as far as they have to be read."""

from __future__ import annotations

import re
from collections import Counter
from fractions import Fraction
from itertools import pairwise
from math import gcd, lcm
from typing import TYPE_CHECKING, NamedTuple

from pptrace.formats.grid_cells import Row, Written, limit_cells, looks_like_op, ops_in

if TYPE_CHECKING:
    from collections.abc import Sequence

TIME_LINE = re.compile(r"\s*time\s*\|")
_ROW = re.compile(r"\s*(stage|rank|S)\s*(\d{1,6})\s*\|")
_WORD = re.compile(r"[^\s|]+|\|")
_LABEL = re.compile(r"\d{1,30}(?:\.\d{1,9}|/0{0,9}[1-9]\d{0,29})?", re.ASCII)
_MARKS = "-~"
"""The rest of an op, and a message under way: what may touch the name of an op."""
_ROUNDED = re.compile(r"\bone\s+character\s+=")
"""In the legend of a grid that is not to scale: the place of a cell is not its time."""


class Panels(NamedTuple):
    """The rows of a grid, and per row the time of every cell in `unit`s of its axis; empty where the picture does not tell."""

    rows: list[Row]
    times: list[tuple[int, ...]]
    unit: Fraction


def read_panels(lines: Sequence[str]) -> Panels:
    """All panels of the text, joined row by row. Everything but time lines and the rows under them is left alone."""
    rows: dict[tuple[bool, int], Row] = {}
    offsets: dict[tuple[bool, int], list[tuple[int, int]]] = {}  # (panel, characters from its bar), per cell
    axes: list[list[tuple[int, Fraction]]] = []
    bars_seen = False
    total = 0
    for start, line in enumerate(lines):
        if not TIME_LINE.match(line):
            continue
        axes.append(_axis(line))
        for number in range(start + 1, len(lines)):
            match = _ROW.match(lines[number])
            if match is None:
                break
            key = (match[1] != "rank", int(match[2]))
            row = rows.setdefault(key, Row(key[1], key[0], []))
            places = offsets.setdefault(key, [])
            before = len(places)
            bars_seen |= _read_row(lines[number], number + 1, match.end(), row, places, len(axes) - 1)
            total += len(places) - before
            limit_cells(total)
    found = list(rows.values())
    if bars_seen:
        found = [_with_steps(row) for row in found]
    elif _all_repeat(found):
        found = [_counted(row) for row in found]
    times = None if _is_rounded(lines) else _times(axes, list(offsets.values()))
    if times is None:
        return Panels(found, [], Fraction(1))
    return _in_units(found, times)


def _is_rounded(lines: Sequence[str]) -> bool:
    """Whether the legend says that the picture is not to scale; it may be folded over two lines."""
    return any(_ROUNDED.search(f"{line} {after}") for line, after in pairwise((*lines, "")))


def _axis(line: str) -> list[tuple[int, Fraction]]:
    """(characters from the bar, time) of every label."""
    bar = line.index("|") + 1
    labels = []
    for match in _WORD.finditer(line, bar):
        if _LABEL.fullmatch(match[0]):
            labels.append((match.start() - bar, Fraction(match[0])))
    return labels


def _read_row(line: str, number: int, start: int, row: Row, places: list[tuple[int, int]], panel: int) -> bool:
    """Add the cells of one line; whether it has the bar of a step's end."""
    bars = False
    for match in _WORD.finditer(line, start):
        text = match[0]
        if text == "|":
            bars = True
            row.cells.append(Written((), "|", number, match.start() + 1))
            places.append((panel, match.start() - start))
            continue
        op_text = text.strip(_MARKS)
        before = len(text) - len(
            text.lstrip(_MARKS)
        )  # `-2F1`: the end of another op, then 2F1; `~2F1`: a message, then 2F1
        if not op_text or (text.startswith("-") and _is_last(row, op_text)):
            continue
        ops = ops_in(op_text, number, match.start() + 1 + before)
        if ops:
            row.cells.append(Written(ops, op_text, number, match.start() + 1 + before))
            places.append((panel, match.start() - start + before))
    return bars


def _is_last(row: Row, text: str) -> bool:
    """Whether an op that a panel begins with is the one that the panel before ended with."""
    return bool(row.cells) and row.cells[-1].text == text


def _with_steps(row: Row) -> Row:
    """The bars between steps taken as such: what comes after the k-th bar is of step k. A bar may fall between two panels
    and is not drawn then, but an op that is there already begins a step as well."""
    cells = []
    step = 0
    seen: set[str] = set()
    for cell in row.cells:
        if cell.text == "|" or (cell.text in seen and looks_like_op(cell.text)):
            step += 1
            seen = set()
        if cell.text != "|":
            seen.add(cell.text)
            cells.append(cell._replace(ops=tuple((s, kind, m, step) for s, kind, m, _ in cell.ops)))
        else:
            cells.append(cell)
    return row._replace(cells=cells)


def _all_repeat(rows: Sequence[Row]) -> bool:
    """Whether every op of the grid occurs equally often, more than once: several steps, not a doubled op. That is how steps
    without a flush look, or those whose bars fell between panels."""
    times = {number for row in rows for number in Counter(cell.text for cell in row.cells).values()}
    return len(times) == 1 and min(times) > 1


def _counted(row: Row) -> Row:
    """The k-th time that an op occurs it is of step k."""
    seen: Counter[str] = Counter()
    cells = []
    for cell in row.cells:
        cells.append(cell._replace(ops=tuple((s, kind, m, seen[cell.text]) for s, kind, m, _ in cell.ops)))
        seen[cell.text] += 1
    return row._replace(cells=cells)


def _times(axes: list[list[tuple[int, Fraction]]], offsets: list[list[tuple[int, int]]]) -> list[list[Fraction]] | None:
    """The time of every cell, or None where the axes do not tell: no two labels, or not to scale."""
    rates = {(b[1] - a[1]) / (b[0] - a[0]) for axis in axes for a, b in pairwise(axis)}
    if len(rates) != 1 or min(rates) <= 0 or not all(axes):
        return None
    (rate,) = rates
    zero = [axis[0][1] - axis[0][0] * rate for axis in axes]
    return [[zero[panel] + offset * rate for panel, offset in row] for row in offsets]


def _in_units(rows: list[Row], times: list[list[Fraction]]) -> Panels:
    """Without the bars; times as whole numbers of 1, or of the largest unit in which they are whole."""
    kept = [
        [(cell, time) for cell, time in zip(row.cells, row_times, strict=True) if cell.ops]
        for row, row_times in zip(rows, times, strict=True)
    ]
    denominator = lcm(*(time.denominator for row in kept for _, time in row))
    unit = Fraction(1)
    if denominator > 1:
        unit = Fraction(gcd(*(int(time * denominator) for row in kept for _, time in row)), denominator)
    return Panels(
        [row._replace(cells=[cell for cell, _ in cells]) for row, cells in zip(rows, kept, strict=True)],
        [tuple(int(time / unit) for _, time in cells) for cells in kept],
        unit,
    )
