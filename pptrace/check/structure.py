"""Is every op there, once, on its rank, with its own number, in the order that a rank needs? Counts and local order only.

It looks at the ops that compute and update, not at messages. What it finds it also takes out of the program or puts right
(a doubled op, a row numbered 1..M), so that one fault is told once and the later checks see the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pptrace.check.local_order import check_order, check_pairs
from pptrace.check.losses import find_losses
from pptrace.check.numbering import Numbering, counted_from_one, doubled, range_remedy
from pptrace.check.program import GONE
from pptrace.check.strangers import Stranger, settle
from pptrace.check.updates import check_sharding, check_updates
from pptrace.model import BOUNDARY_KINDS, COMPUTE_KINDS, KINDS_WITHOUT_MICROBATCH, MESSAGE_KINDS, OpKind
from pptrace.printable import quoted

if TYPE_CHECKING:
    from pptrace.check.ledger import Ledger


def find_faults(ledger: Ledger) -> None:
    """Add the structural findings of the ledger's program."""
    program = ledger.program
    if not program.codes:
        ledger.report("empty-schedule", None, "there is no op", remedy="give a schedule")
        return
    for rank in range(program.num_ranks):
        if program.rank_starts[rank] == program.rank_starts[rank + 1]:
            ledger.report_rank("idle-rank", rank, f"rank {rank} has no ops", remedy="leave its row out, or give it ops")
    if program.from_one:
        counted_from_one(ledger)
    numbers, strangers = _cells_without_code(ledger)
    strangers += _on_wrong_ranks(ledger)
    ledger.where = program.where()
    settle(ledger, strangers)
    numbers += _doubles(ledger)
    if numbers:
        Numbering(ledger).run(numbers)
        ledger.where = program.where()
    find_losses(ledger)
    check_order(ledger)
    check_pairs(ledger)
    check_updates(ledger)
    check_sharding(ledger)


def _cells_without_code(ledger: Ledger) -> tuple[list[int], list[Stranger]]:
    """The positions of compute ops whose only fault is the microbatch number, and the cells that are no op of this schedule."""
    program = ledger.program
    numbers: list[int] = []
    strangers: list[Stranger] = []
    for position, code in enumerate(program.codes) if GONE in program.codes else ():
        if code != GONE:
            continue
        op = program.flat[position]
        if op is None:
            text = quoted(program.texts.get(position, ""))
            strangers.append(
                Stranger("unknown-op", (position,), f"{text} is not an op", (), "write stage, kind, microbatch: 2F0")
            )
        elif not 0 <= op.stage < program.num_stages:
            sentence = f"{op}: stage {op.stage} is not one of 0..{program.num_stages - 1}"
            strangers.append(Stranger("unknown-stage", (position,), sentence, (str(op),), "number the stages 0..S-1"))
        elif op.kind in COMPUTE_KINDS and 0 <= op.step < program.num_steps:
            numbers.append(position)
        elif op.kind in MESSAGE_KINDS:
            ledger.message_strays.append(position)
        else:
            ledger.report(
                "microbatch-range",
                position,
                f"{op}: microbatch {op.microbatch} is not one of 0..{program.num_microbatches - 1}",
                ops=(str(op),),
                remedy=range_remedy(program),
            )
    return numbers, strangers


def _on_wrong_ranks(ledger: Ledger) -> list[Stranger]:
    """Take out the ops on a rank that does not hold their stage. The lower of equal ranks holds a stage."""
    program = ledger.program
    num_stages, width, codes = program.num_stages, program.width, program.codes
    strangers: list[Stranger] = []
    for rank in range(program.num_ranks):
        first, last = program.rank_starts[rank : rank + 2]
        rows = {row for row in set(map(width.__rfloordiv__, codes[first:last])) if row >= 0}
        if program.bidirectional:
            suspects = rows
        else:
            suspects = {row for row in rows if program.holders[row % num_stages] != rank}
        if not suspects:
            continue
        lost: dict[int, list[int]] = {}
        for position in range(first, last):
            code = codes[position]
            if code >= 0 and code // width in suspects:
                kind, stage, number = program.split(code)
                plain = kind in KINDS_WITHOUT_MICROBATCH or kind in BOUNDARY_KINDS
                held = {
                    program.holders[stage],
                    program.holders[stage + num_stages if program.bidirectional else stage],
                }
                if rank not in held if plain else program.holder(stage, number) != rank:
                    lost.setdefault(stage, []).append(position)
        for stage, positions in lost.items():
            names = tuple(program.text(position) for position in positions)
            home = program.holder(stage, program.split(codes[positions[0]])[2])
            strangers.append(Stranger.away_from_home(program, rank, stage, home, positions, names))
            for position in positions:
                codes[position] = GONE
    return strangers


def _doubles(ledger: Ledger) -> list[int]:
    """The positions of compute ops whose code stands earlier already; doubled other ops are reported at once."""
    program = ledger.program
    known = len(program.codes) - program.codes.count(GONE)
    if len(ledger.where) - ledger.where.count(-1) == known:
        return []
    doubles = []
    for position, code in enumerate(program.codes):
        if code < 0 or ledger.where[code] == position:
            continue
        kind = program.split(code)[0]
        if kind in COMPUTE_KINDS:
            doubles.append(position)
        elif kind not in MESSAGE_KINDS and kind not in (OpKind.UNSHARD, OpKind.RESHARD):
            doubled(ledger, position, ledger.where[code])
    return doubles
