"""How the columns of a table stand: numbers to the right, words to the left, in every medium."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pptrace.render.tables import Table

_LONGEST = 28
"""Characters of a cell that can stand to the right."""


def numeric_columns(table: Table) -> list[bool]:
    """By column, whether all its cells are numbers (or empty, or `-`), fractions and short lists of them included; never the
    first, which names the rows."""
    columns = list(zip(*table.rows, strict=True)) or [()] * len(table.header)
    return [index > 0 and all(map(_is_number, column)) for index, column in enumerate(columns)]


def _is_number(cell: str) -> bool:
    return len(cell) <= _LONGEST and (cell in ("", "-") or cell.lstrip("-")[:1].isdigit())
