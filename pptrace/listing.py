"""A schedule as somebody wrote it: per rank the cells in order, with their places, and nothing checked.

Readers of schedule files make listings; the checker reads them; `formats` turns them into a Schedule where they hold one.
A listing may hold lowered ops (messages, sharding), doubled or missing ops, stages on two ranks: that is what it is for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pptrace.model import Op


class Cell(NamedTuple):
    """One written cell: one op, or the two of an overlapped pair, as `text` says, at 1-based `line` and `column`."""

    ops: tuple[Op, ...]
    text: str
    line: int = 0
    column: int = 0

    @property
    def is_pair(self) -> bool:
        return len(self.ops) == 2


class Listing(NamedTuple):
    """Per rank, its cells in order (empty cells left out).

    `slots` holds, for grids in which a column is a time step, the column of every cell (same shape as `rows`), else it is
    empty. `notes` are sentences for the header: what the reader decided (what the letter B means, what it left out).
    `blanks` holds, per rank, which places of its written row were empty (0-based, cells counted too), so that a file can be
    written again as it was; it says nothing about time, and is empty where no cell was.
    """

    rows: tuple[tuple[Cell, ...], ...]
    source: str = ""
    slots: tuple[tuple[int, ...], ...] = ()
    notes: tuple[str, ...] = ()
    blanks: tuple[tuple[int, ...], ...] = ()
