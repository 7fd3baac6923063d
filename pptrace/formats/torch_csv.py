"""PyTorch schedule CSV, compute and compute+comms: bytes to a Listing and back. It reads the whole action grammar of
`torch.distributed.pipelining` (and `BW` of its older files) and writes what PyTorch 2.13 writes, byte for byte; it does not ask
whether the schedule is right (check/) or make messages (lowering.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pptrace.errors import FormatError, LimitError
from pptrace.formats.op_text import MAX_MICROBATCH, TORCH_KINDS, OpTexts, cell_text, letter_b, with_letter
from pptrace.formats.text import lines_of, refuse, shown, without_collector
from pptrace.listing import Cell, Listing
from pptrace.model import KINDS_WITHOUT_MICROBATCH, Op

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_CELLS = 4_000_000
MAX_RANKS = 16_384
_DIGITS = "0123456789"
_MAX_DIGITS = len(str(MAX_MICROBATCH)) - 1


def read(data: bytes, *, source: str = "", letter: str = "auto", keep_unknown: bool = False) -> Listing:
    """The listing that a CSV file holds: a row per rank, a cell per op, empty cells remembered in `blanks`.

    `letter` says what B means: "auto", "full" or "input" (see `op_text.letter_b`); the decision is in `notes`. Cells that
    are not ops raise `FormatError` with line and column, or, with `keep_unknown`, are kept with no ops, for the checker to
    name. Raises `LimitError` for more than `MAX_CELLS` cells or `MAX_RANKS` rows, before any is parsed.
    Source of the format: torch 2.13, `torch/distributed/pipelining/schedules.py`, `_Action.from_str` and `_dump_csv`.
    """
    lines = lines_of(data, "a schedule file")
    num_cells = data.count(b",") + len(lines)
    if len(lines) > MAX_RANKS:
        message = f"the file has {len(lines):,} rows, over the limit of {MAX_RANKS:,} ranks; is it a schedule?"
        raise LimitError(message)
    if num_cells > MAX_CELLS:
        message = f"the file has {num_cells:,} cells, over the limit of {MAX_CELLS:,}; is it a schedule?"
        raise LimitError(message)
    if not lines:
        refuse(1, 1, "the file is empty; a schedule file has one row per rank")
    texts = OpTexts()
    rows, blanks = [], []
    with without_collector():
        for number, line in enumerate(lines, 1):
            row, empty = _row(line, number, texts, keep_unknown)
            rows.append(row)
            blanks.append(tuple(empty))
    if not any(rows):
        refuse(1, 1, "the file has no op; a schedule file has one row per rank, for example 0F0,0F1,,0B0,0B1")
    decided = letter_b(rows, letter, wrote_bw=texts.wrote_bw)
    return Listing(
        with_letter(rows, decided),
        source,
        notes=(decided.note,) if decided.note else (),
        blanks=tuple(blanks) if any(blanks) else (),
    )


def _row(line: str, number: int, texts: OpTexts, keep_unknown: bool) -> tuple[list[Cell], list[int]]:
    """The cells of one line and the places of its empty cells. A plain op whose stage and kind were met before, nearly
    every cell of a file, takes the short way."""
    row: list[Cell] = []
    blanks: list[int] = []
    column = 1
    heads = texts.heads
    pieces = line.split(",")
    if pieces == [""]:
        return row, blanks
    for index, piece in enumerate(pieces):
        head = piece.rstrip(_DIGITS)
        known = heads.get(head)
        digits = len(piece) - len(head)
        if known is not None and 0 < digits <= _MAX_DIGITS and known[1] not in KINDS_WITHOUT_MICROBATCH:
            op = Op(known[0], known[1], int(piece[-digits:]))
            row.append(Cell((op,), piece, number, column))
        else:
            text = piece.strip()
            if text[:1] == '"' == text[-1:] and len(text) > 1:  # a spreadsheet's quotes
                text = text[1:-1].strip()
            if text:
                place = column + piece.index(text)
                try:
                    ops = texts.parse(text, number, place)
                except FormatError:
                    if not keep_unknown:
                        raise
                    ops = ()
                row.append(Cell(ops, text, number, place))
            else:
                blanks.append(index)
        column += len(piece) + 1
    return row, blanks


def write(listing: Listing) -> bytes:
    """The bytes that PyTorch 2.13 writes for these rows: one per rank, CRLF, empty cells where `blanks` has them.

    Raises `FormatError` for ops that PyTorch's grammar lacks (R, STEP, REDUCE, steps after the first).
    """
    lines = []
    for rank, row in enumerate(listing.rows):
        texts = [_text(cell, rank) for cell in row]
        if listing.blanks and listing.blanks[rank]:
            texts = _with_blanks(texts, listing.blanks[rank])
        lines.append(",".join(texts) + "\r\n")
    return "".join(lines).encode("ascii")


def _text(cell: Cell, rank: int) -> str:
    for op in cell.ops:
        if op.kind not in TORCH_KINDS or op.step:
            why = "one optimizer step" if op.step else "F, B, I, W, messages and sharding"
            message = f"rank {rank}: {op} cannot be written, a PyTorch schedule file holds {why} only"
            raise FormatError(message)
    if not cell.ops:
        message = f"rank {rank}: {shown(cell.text)} is not an op and cannot be written"
        raise FormatError(message)
    return cell_text(cell.ops)


def _with_blanks(texts: Sequence[str], blanks: Sequence[int]) -> list[str]:
    """`texts` in order in the places that `blanks` leaves free."""
    row = [""] * (len(texts) + len(blanks))
    empty = frozenset(blanks)
    free = (place for place in range(len(row)) if place not in empty)
    for place, text in zip(free, texts, strict=True):
        row[place] = text
    return row
