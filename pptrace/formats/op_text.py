"""The words of schedule files: from the text of one cell to its ops and back, in PyTorch's grammar; and what the letter B of
a file means. It knows nothing of rows and files."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pptrace.errors import ParameterError
from pptrace.formats.text import refuse, shown
from pptrace.listing import Cell
from pptrace.model import BACKWARD_KINDS, KINDS_WITHOUT_MICROBATCH, MESSAGE_KINDS, Op, OpKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MAX_STAGE = 99_999
MAX_MICROBATCH = 9_999_999
"""Numbers above these are refused where they stand: no schedule has them, and tables are made by them."""

PAIR_SUFFIX = "OVERLAP_F_B"
TORCH_KINDS = frozenset(
    {OpKind.F, OpKind.B, OpKind.I, OpKind.W, *MESSAGE_KINDS, OpKind.UNSHARD, OpKind.RESHARD, OpKind.REDUCE_GRAD}
)
"""What PyTorch's schedule files can hold."""

_DIGITS = "0123456789"
_KINDS = {kind.name: kind for kind in TORCH_KINDS} | {"BW": OpKind.B}
_EXAMPLE = "a cell is stage, kind, microbatch, for example 2F0, 1UNSHARD or (0F7;7B0)OVERLAP_F_B"


class OpTexts:
    """Cell texts to ops, remembering all that was parsed before a microbatch number: one lookup per cell.

    `kinds` are the words that a kind may be written as.
    """

    def __init__(self, kinds: dict[str, OpKind] | None = None) -> None:
        self.kinds = kinds or _KINDS
        self.heads: dict[str, tuple[int, OpKind] | None] = {}
        self.wrote_bw = False

    def parse(self, text: str, line: int, column: int) -> tuple[Op, ...]:
        """The op, or the two of a pair, that `text` says. Raises `FormatError` with the place."""
        if text.startswith("("):
            return self._pair(text, line, column)
        return (self._op(text, line, column),)

    def _op(self, text: str, line: int, column: int) -> Op:
        head = text.rstrip(_DIGITS)
        number = text[len(head) :]
        if head.endswith("-"):  # kept, so that the checker can say which microbatch is out of range
            head, number = head[:-1], "-" + number
        known = self.heads.get(head)
        if known is None:
            known = self.heads[head] = self._head(head, text, line, column)
        stage, kind = known
        if kind in KINDS_WITHOUT_MICROBATCH:
            if number:
                refuse(line, column, f"{shown(text)}: {kind.name} takes no microbatch number")
            return Op(stage, kind, None)
        if number in ("", "-"):
            refuse(line, column, f"{shown(text)}: {head.lstrip(_DIGITS)} needs a microbatch number; {_EXAMPLE}")
        if len(number) > 20 or abs(int(number)) > MAX_MICROBATCH:
            refuse(line, column, f"{shown(text)}: microbatch numbers go up to {MAX_MICROBATCH:,}")
        return Op(stage, kind, int(number))

    def _head(self, head: str, text: str, line: int, column: int) -> tuple[int, OpKind]:
        word = head.lstrip(_DIGITS)
        digits = head[: len(head) - len(word)]
        kind = self.kinds.get(word)
        if kind is None or not digits:
            refuse(line, column, f"{shown(text)} is not an op; {_EXAMPLE}")
        if len(digits) > 20 or int(digits) > MAX_STAGE:
            refuse(line, column, f"{shown(text)}: stage numbers go up to {MAX_STAGE:,}")
        self.wrote_bw = self.wrote_bw or word == "BW"
        return int(digits), kind

    def _pair(self, text: str, line: int, column: int) -> tuple[Op, ...]:
        inside, closing, suffix = text[1:].partition(")")
        if not closing or suffix.strip() != PAIR_SUFFIX:
            refuse(line, column, f"{shown(text)} is not an op; an overlapped pair is written (0F7;7B0){PAIR_SUFFIX}")
        parts = inside.split(";")
        if len(parts) != 2:
            refuse(line, column, f"{shown(text)}: an overlapped pair has two ops, this has {len(parts)}")
        first, second = (self._op(part.strip(), line, column) for part in parts)
        if sorted((first.kind is OpKind.F, second.kind is OpKind.F)) != [False, True] or not (
            first.kind in BACKWARD_KINDS or second.kind in BACKWARD_KINDS
        ):
            refuse(line, column, f"{shown(text)}: an overlapped pair is one F and one B (or I)")
        return first, second


def cell_text(ops: Sequence[Op]) -> str:
    """The text of a cell as PyTorch writes it."""
    if len(ops) == 1:
        return str(ops[0])
    return f"({';'.join(map(str, ops))}){PAIR_SUFFIX}"


class Letter(NamedTuple):
    """What the letter B of a file was taken to mean: the stages whose B are input halves, and a sentence ("" without B)."""

    input_stages: frozenset[int]
    note: str


def letter_b(rows: Iterable[Sequence[Cell]], choice: str, *, wrote_bw: bool) -> Letter:
    """Decide what B means in rows as they were read (B as written B or BW; `wrote_bw` where the file has the word BW).

    `choice` is "full", "input" or "auto": with I in the file B is full; with BW B is the input half; else per stage any W
    makes all its B input halves, so that a lost W does not turn its B into a full backward.
    """
    if choice not in ("auto", "full", "input"):
        message = f"--letter-b is auto, full or input, got {shown(choice)}"
        raise ParameterError(message)
    by_kind: dict[OpKind, set[int]] = {OpKind.B: set(), OpKind.I: set(), OpKind.W: set()}
    b_stages, i_stages, w_stages = by_kind.values()
    for row in rows:
        for cell in row:
            for stage, kind, _, _ in cell.ops:
                if kind in by_kind and not (kind is OpKind.B and wrote_bw and "BW" in cell.text):
                    by_kind[kind].add(stage)
    if not b_stages:
        return Letter(frozenset(), "")
    if choice != "auto":
        stages = frozenset(b_stages) if choice == "input" else frozenset()
        meaning = "the input half of the backward" if choice == "input" else "the full backward"
        return Letter(stages, f"letter B: {meaning}, as asked")
    if i_stages:
        return Letter(frozenset(), "letter B: the full backward, because the file writes I for the input half")
    if wrote_bw:
        return Letter(frozenset(b_stages), "letter B: the input half, because the file writes BW for the full backward")
    halves = frozenset(b_stages & w_stages)
    if not halves:
        return Letter(halves, "letter B: the full backward, because no stage has a W")
    if halves == b_stages:
        return Letter(halves, "letter B: the input half, because its stages have W")
    some = ", ".join(map(str, sorted(halves)[:8])) + (", ..." if len(halves) > 8 else "")
    which = f"stage {some}, which has W" if len(halves) == 1 else f"stages {some}, which have W"
    return Letter(halves, f"letter B: the input half in {which}; the full backward in the others")


def with_letter(rows: Sequence[Sequence[Cell]], letter: Letter) -> tuple[tuple[Cell, ...], ...]:
    """The rows with B made I in the stages where it is the input half; a B written BW stays."""
    if not letter.input_stages:
        return tuple(map(tuple, rows))
    return tuple(tuple(_resolved(cell, letter.input_stages) for cell in row) for row in rows)


def _resolved(cell: Cell, stages: frozenset[int]) -> Cell:
    for op in cell.ops:
        if op.kind is OpKind.B and op.stage in stages and "BW" not in cell.text:
            ops = tuple(o._replace(kind=OpKind.I) if o.kind is OpKind.B and o.stage in stages else o for o in cell.ops)
            return cell._replace(ops=ops)
    return cell
