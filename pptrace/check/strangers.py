"""Cells that cannot stand where they stand: no op at all, a stage that does not exist, an op of another rank's stage. One is
mostly a slip of the pen for an op that the rank then lacks; where that can be told, slip and lack are one finding."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pptrace.check.findings import some_of
from pptrace.model import BOUNDARY_KINDS, OpKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pptrace.check.ledger import Ledger
    from pptrace.check.program import Program

_BACKWARDS = (OpKind.B, OpKind.I, OpKind.W)


class Stranger(NamedTuple):
    """A finding that is not told yet: its code, the cells it is about, and what it says if none stands for another op.

    `codes` are those of ops that are out of the program because they are on another rank's stage.
    """

    code: str
    positions: tuple[int, ...]
    sentence: str
    ops: tuple[str, ...]
    remedy: str
    codes: tuple[int, ...] = ()

    @classmethod
    def away_from_home(
        cls, program: Program, rank: int, stage: int, home: int, positions: Sequence[int], names: tuple[str, ...]
    ) -> Stranger:
        """Ops on `rank` of a stage that lives on rank `home`."""
        return cls(
            "stage-on-two-ranks",
            tuple(positions),
            f"rank {rank} runs {some_of(names)}, but stage {stage} lives on rank {home}",
            names,
            f"move {'it' if len(names) == 1 else 'them'} to rank {home}",
            tuple(program.codes[position] for position in positions),
        )


def settle(ledger: Ledger, strangers: list[Stranger]) -> None:
    """Tell every stranger, and put in its place the op that it was meant to be where that is plain."""
    if not strangers:
        return
    unknown: dict[int, list[Stranger]] = {}
    for stranger in strangers:
        rank = ledger.program.rank_at(stranger.positions[0])
        if stranger.code == "unknown-op":
            unknown.setdefault(rank, []).append(stranger)
            continue
        meant = _own_op_meant(ledger, rank, stranger)
        if meant is None:
            ledger.excused.update(stranger.codes)  # it is somewhere, if not at home
        _tell(ledger, stranger, meant)
    for rank, cells in unknown.items():
        for stranger, meant in zip(cells, _meant(ledger, rank, cells), strict=True):
            _tell(ledger, stranger, meant)


def _tell(ledger: Ledger, stranger: Stranger, meant: int | None) -> None:
    sentence, ops, remedy = stranger.sentence, stranger.ops, stranger.remedy
    if meant is not None:
        name = str(ledger.program.op_of_code(meant))
        rank = ledger.program.rank_at(stranger.positions[0])
        sentence += f"; rank {rank} has no {name}"
        ops, remedy = (*ops, name), f"this one is probably {name}"
        ledger.put(stranger.positions[0], meant)
    ledger.report(stranger.code, stranger.positions[0], sentence, ops=ops, remedy=remedy)


def _own_op_meant(ledger: Ledger, rank: int, stranger: Stranger) -> int | None:
    """The code of the op of the rank's own stage with the same kind and number, if that one is missing, or of the only one
    that is missing there."""
    program = ledger.program
    if len(stranger.positions) > 1 or _is_missing_at_home(ledger, stranger):
        return None  # several are no slip; and one that its own rank lacks was put on the wrong one
    if stranger.codes:
        kind, _, number = program.split(stranger.codes[0])
    else:
        op = program.flat[stranger.positions[0]]
        if (
            op is None
            or not 0 <= op.step < program.num_steps
            or not 0 <= (op.microbatch or 0) < program.num_microbatches
        ):
            return None
        kind, number = op.kind, op.step * program.num_microbatches + (op.microbatch or 0)
    missing = _missing(ledger, rank, tuple(OpKind))
    found = [code for code in missing if code // program.block == kind and code % program.width == number] or missing
    return found[0] if len(found) == 1 else None


def _is_missing_at_home(ledger: Ledger, stranger: Stranger) -> bool:
    """Whether the rank that holds the stage of a stranger runs other ops of its row, and not this one."""
    if not stranger.codes or ledger.where[stranger.codes[0]] >= 0:
        return False
    kind, stage, _ = ledger.program.split(stranger.codes[0])
    return max(ledger.row(kind, stage)) >= 0


def _meant(ledger: Ledger, rank: int, cells: list[Stranger]) -> list[int | None]:
    """For every cell that is no op, the missing op of its rank that it stands for, or None.

    A cell that differs in case only is plain; otherwise as many must be missing as there are such cells.
    """
    program = ledger.program
    missing = _missing(ledger, rank, tuple(OpKind))
    names = {str(program.op_of_code(code)).casefold(): code for code in missing}
    texts = [program.texts.get(cell.positions[0], "").casefold() for cell in cells]
    found: list[int | None] = [names.get(text) for text in texts]
    left = [code for code in missing if code not in found]
    open_cells = [i for i, code in enumerate(found) if code is None]
    if len(left) == len(open_cells) <= _MOST_SLIPS:
        for i in open_cells:
            likest = max((_likeness(texts[i], str(program.op_of_code(code)).casefold()), -code) for code in left)
            found[i] = -likest[1]
            left.remove(-likest[1])
    return found


_MOST_SLIPS = 8
"""More cells of one rank that are no ops are no slips of the pen."""


def _likeness(text: str, name: str) -> int:
    """How many characters two words share at their beginnings and ends."""
    shorter = min(len(text), len(name))
    start = next((i for i in range(shorter) if text[i] != name[i]), shorter)
    end = next((i for i in range(shorter - start) if text[-1 - i] != name[-1 - i]), shorter - start)
    return start + end


def _missing(ledger: Ledger, rank: int, kinds: tuple[OpKind, ...]) -> list[int]:
    """The codes that a rank lacks of rows (kind, stage) of which it has any."""
    program = ledger.program
    first, last = program.rank_starts[rank : rank + 2]
    rows = {row for row in set(map(program.width.__rfloordiv__, program.codes[first:last])) if row >= 0}
    missing: list[int] = []
    for row in sorted(rows):
        kind, stage = OpKind(row // program.num_stages), row % program.num_stages
        if kind not in kinds or kind >= OpKind.UNSHARD or kind in BOUNDARY_KINDS:
            continue
        rivals = [program.base(other, stage) for other in _rivals(kind)]
        base = row * program.width
        missing += [
            base + number
            for number in range(program.width)
            if ledger.where[base + number] < 0
            and base + number not in ledger.excused
            and program.holder(stage, number) == rank
            and all(ledger.where[rival + number] < 0 for rival in rivals)
        ]
    return missing


def _rivals(kind: OpKind) -> tuple[OpKind, ...]:
    """The kinds that a stage runs instead of this one."""
    return {OpKind.B: (OpKind.I, OpKind.W), OpKind.I: (OpKind.B,), OpKind.W: (OpKind.B,)}.get(kind, ())
