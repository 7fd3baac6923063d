"""Text grids: the one that `show` prints, and the loose tables of ops (`F0 F1 . B0`) of blog posts and threads, back into a
Listing with the time step of every cell. It reads; drawing is render's."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pptrace.formats.grid_cells import EXAMPLE, Row, Written
from pptrace.formats.grid_panels import TIME_LINE, read_panels
from pptrace.formats.loose_tables import read_loose
from pptrace.formats.op_text import letter_b, with_letter
from pptrace.formats.text import lines_of, refuse, without_collector
from pptrace.listing import Cell, Listing
from pptrace.model import Op
from pptrace.rationals import text_of

if TYPE_CHECKING:
    from collections.abc import Sequence


def read(data: bytes, *, source: str = "", letter: str = "auto", one_based: bool | None = None) -> Listing:
    """The listing that a grid of ops holds: a row per rank, by the numbers of the rows where they have some. `slots` is the
    time at which every cell begins (in loose tables its column); empty where a grid is not to scale.

    Where the text has a `time |` line, the rows under it are the grid (in several panels, if it was folded) and everything
    else is left alone. Otherwise every line of ops is a row, cells separated by blanks, bars, commas or tabs, `.`, `-` or
    an empty cell for idle; cells repeated for every op of a kind are longer ops. Cells without a stage are of the stage
    that their row is numbered by. `one_based` says that stages and microbatches count from 1; None finds it out (no
    microbatch 0, stages that begin at 1). `letter` says what B means (`op_text.letter_b`).
    Raises `FormatError` with line and column, `LimitError` for absurdly many cells.
    """
    lines = lines_of(data, "a text grid")
    notes: list[str] = []
    with without_collector():
        loose = not any(TIME_LINE.match(line) for line in lines)
        if not loose:
            panels = read_panels(lines)
            rows, slots = panels.rows, panels.times
            if not slots:
                rows = [row._replace(cells=[cell for cell in row.cells if cell.ops]) for row in rows]
                notes.append("the grid is not to scale; only the order of its cells was read")
            elif panels.unit != 1:
                notes.append(f"one time step is {text_of(panels.unit)}")
            order = sorted(range(len(rows)), key=lambda i: rows[i].label or 0)
            rows, slots = [rows[i] for i in order], [slots[i] for i in order] if slots else []
        else:
            rows, repeated = read_loose(lines)
            rows = _in_order(rows)
            slots = [tuple(cell.slot for cell in row.cells) for row in rows]
            notes += [repeated] if repeated else []
        if not any(row.cells for row in rows):
            refuse(1, 1, f"no row of ops found; {EXAMPLE}, one row per rank")
        base = _base(rows, loose=loose) if one_based is None else _Base(int(one_based), int(one_based))
        if base != _Base(0, 0):
            counted = {_Base(1, 1): "stages and microbatches", _Base(1, 0): "stages", _Base(0, 1): "microbatches"}
            notes.append(f"{counted[base]} count from 1 in the text, from 0 here")
        cells = [[_cell(written, row, index, base) for written in row.cells] for index, row in enumerate(rows)]
        wrote_bw = any("BW" in cell.text for row in cells for cell in row)
        decided = letter_b(cells, letter, wrote_bw=wrote_bw)
        resolved = with_letter(cells, decided)
    return Listing(resolved, source, tuple(slots), (*([decided.note] if decided.note else []), *notes))


def _in_order(rows: list[Row]) -> list[Row]:
    """Rows by their numbers, those of one number (a table that goes on below) joined; as they stand without numbers."""
    if any(row.label is None for row in rows):
        return rows
    by_label: dict[int, Row] = {}
    for row in rows:
        label = row.label or 0
        known = by_label.get(label)
        if known is None:
            by_label[label] = row
            continue
        later = known.cells[-1].slot + 1 if known.cells else 0
        by_label[label] = known._replace(
            cells=known.cells + [cell._replace(slot=cell.slot + later) for cell in row.cells]
        )
    return [by_label[label] for label in sorted(by_label)]


class _Base(NamedTuple):
    """What stages (and rows) are counted from, and what microbatches are."""

    stage: int
    microbatch: int


def _base(rows: Sequence[Row], *, loose: bool) -> _Base:
    """No microbatch 0, and stages (those of cells, else the numbers of the rows) that begin at 1: both count from 1. People
    mix the two in tables of their own; a window of a grid that `show` printed may just not hold microbatch 0."""
    ops = [op for row in rows for cell in row.cells for op in cell.ops]
    from_one = min((number for _, _, number, _ in ops if number is not None), default=0) == 1
    named = [stage for stage, _, _, _ in ops if stage is not None]
    labels = [row.label for row in rows if row.label is not None]
    stages_from_one = min(named or labels, default=1) == 1
    if from_one and stages_from_one:
        return _Base(1, 1)
    return _Base(int(loose and not named and stages_from_one and bool(labels)), int(loose and from_one))


def _cell(written: Written, row: Row, index: int, base: _Base) -> Cell:
    shift = base.microbatch
    own = index if row.label is None else row.label - base.stage
    ops = tuple(
        [
            Op(own if stage is None else stage - base.stage, kind, None if number is None else number - shift, step)
            for stage, kind, number, step in written.ops
        ]
    )
    return Cell(ops, written.text, written.line, written.column)
