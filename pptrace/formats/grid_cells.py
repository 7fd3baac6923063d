"""The cells of text grids: from the word in a cell to its ops, and the rows that both kinds of grid (panels under a time line,
loose tables) are read into. It knows nothing of lines and columns."""

from __future__ import annotations

import re
from typing import NamedTuple

from pptrace.errors import LimitError
from pptrace.formats.op_text import MAX_MICROBATCH, MAX_STAGE
from pptrace.formats.text import refuse, shown
from pptrace.model import NUM_ENGINE_KINDS, OpKind

MAX_CELLS = 1_000_000
EXAMPLE = "a cell is F0, 2F0 (stage 2), 0F7+7B0 (two at once), or . for idle"

GridOp = tuple[int | None, OpKind, int | None, int]
"""(stage, or None where the row says it; kind; microbatch; step)."""

_OP = re.compile(r"(\d{1,12})?([A-Z]{1,6}?)(-?\d{1,12})?\^?(?:@(\d{1,6}))?", re.ASCII)
_JOINED = re.compile(r"[&;+]")
_IDLE = re.compile(r"[.\-_=~·•*]+|idle|bubble", re.IGNORECASE)
_COMPACT = re.compile(r"[FBIWRGSfbiwrgs.~|]{2,}")
_KINDS = {kind.name: kind for kind in OpKind if kind < NUM_ENGINE_KINDS}
_KINDS |= {"BW": OpKind.B, "G": OpKind.REDUCE, "S": OpKind.STEP}
_UPDATES = (OpKind.REDUCE, OpKind.STEP)


class Written(NamedTuple):
    """One cell as it stands: its ops, its text, its place, and the slot (loose tables) in which it is."""

    ops: tuple[GridOp, ...]
    text: str
    line: int
    column: int
    slot: int = 0


class Row(NamedTuple):
    """The cells of one rank. `label` is the number that the text gives it, if any, `is_stage` whether it numbers a stage."""

    label: int | None
    is_stage: bool
    cells: list[Written]


def looks_like_op(text: str) -> bool:
    """Whether a word names an op with a microbatch, alone or in an overlapped pair."""
    first = _JOINED.split(text.lstrip("("))[0]
    match = _OP.fullmatch(first)
    return match is not None and match[2] in _KINDS and match[3] is not None


def ops_in(text: str, line: int, column: int) -> tuple[GridOp, ...]:
    """The ops of a cell, () where it is idle. Raises `FormatError` for what is neither."""
    if _IDLE.fullmatch(text):
        return ()
    inside = text[1:].partition(")")[0] if text.startswith("(") else text
    parts = _JOINED.split(inside)
    if len(parts) > 2:
        refuse(line, column, f"{shown(text)}: an overlapped pair has two ops, this has {len(parts)}")
    ops = tuple([_op(part.strip(), text, line, column) for part in parts])
    if len(ops) == 2 and sorted((ops[0][1], ops[1][1])) not in ([OpKind.F, OpKind.B], [OpKind.F, OpKind.I]):
        refuse(line, column, f"{shown(text)}: an overlapped pair is one F and one B (or I)")
    return ops


def _op(part: str, text: str, line: int, column: int) -> GridOp:
    match = _OP.fullmatch(part)
    kind = _KINDS.get(match[2]) if match else None
    if match is None or kind is None:
        if _COMPACT.fullmatch(text):
            refuse(
                line,
                column,
                f"{shown(text)} has no microbatch numbers; print the grid without --compact to read it back",
            )
        if text.isdigit():
            refuse(line, column, f"{shown(text)} is not an op; was the grid cut to a width? {EXAMPLE}")
        refuse(line, column, f"{shown(text)} is not an op; {EXAMPLE}")
    stage = None if match[1] is None else int(match[1])
    number = None if match[3] is None else int(match[3])
    if number is None and kind not in _UPDATES:
        refuse(line, column, f"{shown(text)}: {kind.name} needs a microbatch number; {EXAMPLE}")
    if (stage or 0) > MAX_STAGE or abs(number or 0) > MAX_MICROBATCH:
        limits = f"stages go up to {MAX_STAGE:,}, microbatches to {MAX_MICROBATCH:,}"
        refuse(line, column, f"{shown(text)}: {limits}")
    return stage, kind, number, int(match[4] or 0)


def limit_cells(num_cells: int) -> None:
    """Raise `LimitError` for more cells than a grid may have."""
    if num_cells > MAX_CELLS:
        message = f"the grid has more than {MAX_CELLS:,} cells; is it a schedule?"
        raise LimitError(message)
