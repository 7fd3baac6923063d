"""The order that one rank's own list must have, whatever the others do: backwards after their forwards, W after I, and
overlapped pairs of ops of which neither waits for the other."""

from __future__ import annotations

from operator import gt
from typing import TYPE_CHECKING

from pptrace.check.program import GONE
from pptrace.model import OpKind

if TYPE_CHECKING:
    from pptrace.check.ledger import Ledger


def check_order(ledger: Ledger) -> None:
    """B and I after their F, W after its I, R between F and B: in the list of their rank."""
    kinds = ledger.program.kinds
    rules = (
        (OpKind.F, OpKind.B, "backward-before-forward"),
        (OpKind.F, OpKind.I, "backward-before-forward"),
        (OpKind.I, OpKind.W, "weight-gradient-first"),
        (OpKind.F, OpKind.R, "backward-before-forward"),
        (OpKind.R, OpKind.B, "backward-before-forward"),
        (OpKind.R, OpKind.I, "backward-before-forward"),
    )
    for before, after, code in rules:
        if before in kinds and after in kinds:
            _order_of(ledger, before, after, code)


def _order_of(ledger: Ledger, before: OpKind, after: OpKind, code: str) -> None:
    program = ledger.program
    block = program.block
    one = ledger.where[before * block : (before + 1) * block]
    other = ledger.where[after * block : (after + 1) * block]
    if not any(map(gt, one, other)):
        return
    wrong: dict[int, list[tuple[int, int]]] = {}
    for index, (x, y) in enumerate(zip(one, other, strict=True)):
        if x > y >= 0 and before * block + index not in ledger.excused and after * block + index not in ledger.excused:
            wrong.setdefault(program.rank_at(y), []).append((y, x))
    for rank, pairs in wrong.items():
        pairs.sort()
        y, x = pairs[0]
        names = tuple(program.text(position) for position, _ in pairs)
        more = f" (and {len(pairs) - 1} more on rank {rank})" if len(pairs) > 1 else ""
        ledger.report(
            code,
            y,
            f"{program.text(y)} comes before {program.text(x)}, which it needs{more}",
            ops=names,
            remedy=f"move it behind {program.text(x)}",
        )
        for late, early in pairs:
            ledger.excused.update((program.codes[late], program.codes[early]))


def check_pairs(ledger: Ledger) -> None:
    program = ledger.program
    for first in sorted(program.pairs):
        codes = program.codes[first], program.codes[first + 1]
        if GONE in codes:
            program.pairs -= {first}
            continue
        (one, stage, number), (two, stage_2, number_2) = map(program.split, codes)
        kinds = {one, two}
        fit = OpKind.F in kinds and len(kinds & {OpKind.B, OpKind.I}) == 1
        if fit and (stage, number) != (stage_2, number_2):
            continue
        names = program.text(first), program.text(first + 1)
        why = "the backward waits for that forward" if fit else "a pair is one forward and one backward"
        program.pairs -= {first}
        ledger.report("odd-pair", first, f"{names[0]} and {names[1]} cannot run as one block: {why}", ops=names)
