"""Loose tables of ops, as blog posts and threads write them (`rank 0: F0 F1 . B0`, with bars, commas or blanks), into rows of
cells with their slots. It guesses what a person would; what it cannot read it refuses with the place."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from pptrace.formats.grid_cells import Row, Written, limit_cells, looks_like_op, ops_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pptrace.model import OpKind

_NAMED = re.compile(
    r"(stage|rank|device|dev|gpu|worker|node|process|[srdp])[ _#]?(\d{1,5})(?!\d)[ \t]*[|:]?[ \t]?", re.IGNORECASE
)
_NUMBERED = re.compile(r"(\d{1,5})[ \t]*[|:][ \t]?")
_WORD = re.compile(r"\S+")


class _Line(NamedTuple):
    """One line that holds ops: `pieces` are (index in the line, text), `separated` whether marks stand between them."""

    number: int
    label: int | None
    is_stage: bool
    pieces: list[tuple[int, str]]
    separated: bool


def read_loose(lines: Sequence[str]) -> tuple[list[Row], str]:
    """Every line that holds an op as a row, and a sentence about repeated cells ("" where none were joined).

    Lines without an op (words, rules, headings) are left alone; words inside a line of ops are refused.
    """
    found: list[_Line] = []
    total = 0
    for index, text in enumerate(lines):
        line = _line(text, index + 1)
        if any(looks_like_op(piece) for _, piece in line.pieces):
            found.append(line)
            total += len(line.pieces)
            limit_cells(total)
    columns = _columns([line.pieces for line in found if not line.separated])
    rows = [Row(line.label, line.is_stage, _cells(line, columns)) for line in found]
    long = _long_kinds(rows)
    rows = [row._replace(cells=_joined(row.cells, frozenset(long))) for row in rows]
    named = ", ".join(f"{kind.name} {length} columns" for kind, length in sorted(long.items()))
    return rows, f"cells repeated in a row are one longer op ({named})" if long else ""


def _line(text: str, number: int) -> _Line:
    start = len(text) - len(text.lstrip(" \t"))
    fenced = text.startswith("|", start)
    start += fenced
    start += len(text[start:]) - len(text[start:].lstrip(" \t")) if fenced else 0
    named, numbered = _NAMED.match(text, start), _NUMBERED.match(text, start)
    label = named[2] if named else numbered[1] if numbered else None
    is_stage = bool(named) and named[1].lower().startswith("s") if named else False
    end = named.end() if named else numbered.end() if numbered else (start if fenced else 0)
    pieces, separated = _pieces(text, end)
    return _Line(number, None if label is None else int(label), is_stage, pieces, separated)


def _pieces(text: str, start: int) -> tuple[list[tuple[int, str]], bool]:
    """Cells between bars, commas or tabs (then empty ones count), else words."""
    body = text[start:].rstrip(" ")
    for mark in ("|", ",", "\t"):
        if mark in body.strip(" \t" if mark != "\t" else " ").strip("|" if mark == "|" else ""):
            pieces, at = [], start
            for piece in body.removesuffix("|").split(mark):
                cell = piece.strip()
                pieces.append((at + (piece.index(cell) if cell else 0), cell))
                at += len(piece) + 1
            return pieces, True
    return [(match.start(), match[0].strip("|")) for match in _WORD.finditer(text, start) if match[0].strip("|")], False


def _columns(rows: Sequence[Sequence[tuple[int, str]]]) -> tuple[int, int] | None:
    """(origin, width) where all cells begin at whole columns of one width that holds every word, so that a gap is idle time;
    else None: then the place in the row counts."""
    starts = sorted({at for row in rows for at, _ in row})
    width = min((b[0] - a[0] for row in rows for a, b in pairwise(row)), default=0)
    longest = max((len(text) for row in rows for _, text in row), default=0)
    if width <= longest or any((at - starts[0]) % width for at in starts):
        return None
    return starts[0], width


def _cells(line: _Line, columns: tuple[int, int] | None) -> list[Written]:
    cells = []
    for index, (at, text) in enumerate(line.pieces):
        ops = ops_in(text, line.number, at + 1) if text else ()
        if ops:
            slot = index if line.separated or columns is None else (at - columns[0]) // columns[1]
            cells.append(Written(ops, text, line.number, at + 1, slot))
    return cells


def _long_kinds(rows: Sequence[Row]) -> dict[OpKind, int]:
    """The kinds of which every op is written the same number of times (two or more) on end: long ops, not doubled ones."""
    lengths: dict[OpKind, set[int]] = {}
    for row in rows:
        i = 0
        while i < len(row.cells):
            j = i + 1
            while j < len(row.cells) and _continues(row.cells[j - 1], row.cells[j]):
                j += 1
            for _, kind, _, _ in row.cells[i].ops:
                lengths.setdefault(kind, set()).add(j - i)
            i = j
    return {kind: min(found) for kind, found in lengths.items() if len(found) == 1 and min(found) > 1}


def _continues(before: Written, cell: Written) -> bool:
    return cell.ops == before.ops and cell.slot == before.slot + 1


def _joined(cells: list[Written], long: frozenset[OpKind]) -> list[Written]:
    kept: list[Written] = []
    previous: Written | None = None
    for cell in cells:
        if previous is None or cell.ops[0][1] not in long or not _continues(previous, cell):
            kept.append(cell)
        previous = cell
    return kept
