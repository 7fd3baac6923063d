"""Microbatch numbers that cannot be: rows numbered 1..M, a number that stands where another is missing, doubled ops.

It puts right what it can name (the codes of the program are changed), so that the later checks see the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pptrace.check.program import GONE
from pptrace.model import OpKind

if TYPE_CHECKING:
    from pptrace.check.ledger import Ledger
    from pptrace.check.program import Program

PLURALS = {
    OpKind.F: "forwards",
    OpKind.B: "backwards",
    OpKind.I: "input gradients",
    OpKind.W: "weight gradients",
    OpKind.R: "recomputations",
}


def range_remedy(program: Program) -> str:
    """What to do about a microbatch number that is out of range."""
    num = program.num_microbatches
    return (
        f"most stages run {num} microbatches: leave it out, or run that microbatch on every stage; a warm-up is at most "
        f"M = {num} forwards long"
    )


def counted_from_one(ledger: Ledger) -> None:
    """Say that a program's stages and microbatches are numbered from 1, as some textbooks do."""
    program = ledger.program
    stages, num = program.num_stages, program.num_microbatches
    sentence = (
        f"the stages are numbered 1..{stages} and the microbatches 1..{num}; here they are numbered 0..{stages - 1} and "
        f"0..{num - 1}"
    )
    ledger.report(
        "misnumbered", 0, sentence, remedy="subtract 1 from every stage and microbatch; below, it has been done"
    )


def doubled(ledger: Ledger, position: int, first: int) -> None:
    """Report an op that occurs twice, at `first` and `position`, and take the less likely one out."""
    program = ledger.program
    if likelier(program, first, position, program.codes[first] % program.num_microbatches) == position:
        first, position = position, first
        ledger.where[program.codes[first]] = first
    ledger.report(
        "doubled-op",
        position,
        f"{program.text(position)} occurs twice: here and at position {program.place(first).position} of rank "
        f"{program.rank_at(first)}",
        ops=(program.text(position),),
        remedy="leave one of them out",
    )
    ledger.take_out(position)


def likelier(program: Program, one: int, other: int, number: int) -> int:
    """Which of two equal ops is more likely to be `number`: the one whose neighbours in its row have nearer numbers."""
    row = program.codes[one] // program.width

    def misfit(position: int) -> int:
        first, last = program.rank_starts[program.rank_at(position) :][:2]
        neighbours = []
        for ats in (range(position - 1, first - 1, -1), range(position + 1, last)):
            same = (at for at in ats if program.codes[at] >= 0 and program.codes[at] // program.width == row)
            at = next(same, None)
            if at is not None:
                neighbours.append(program.codes[at] % program.num_microbatches)
        return sum(abs(neighbour - number) for neighbour in neighbours) * (3 - len(neighbours))

    return other if misfit(other) < misfit(one) else one


class Numbering:
    """The findings on compute ops whose numbers are doubled or out of range."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.program = ledger.program

    def run(self, strays: list[int]) -> None:
        """Doubled and out-of-range numbers, each beside what is missing in the same row of (kind, stage)."""
        program = self.program
        rows: dict[tuple[OpKind, int, int], list[int]] = {}
        for position in strays:
            if program.codes[position] == GONE:
                op = program.flat[position]
                if op is None:
                    continue
                key = (op.kind, op.stage, op.step)
            else:
                kind, stage, number = program.split(program.codes[position])
                key = (kind, stage, number // program.num_microbatches)
            rows.setdefault(key, []).append(position)
        shifts: dict[tuple[int, OpKind, int], list[tuple[tuple[OpKind, int, int], list[int]]]] = {}
        for key, positions in rows.items():
            missing = self._missing_numbers(*key)
            shift = self._shift(key, positions, missing)
            if shift:
                shifts.setdefault((program.rank_at(positions[0]), key[0], shift), []).append((key, positions))
            else:
                self._pair_up(key, positions, missing)
        self._report_shifts(shifts)

    def _missing_numbers(self, kind: OpKind, stage: int, step: int) -> list[int]:
        program = self.program
        base = program.base(kind, stage) + step * program.num_microbatches
        rivals = {OpKind.B: (OpKind.I, OpKind.W), OpKind.I: (OpKind.B,), OpKind.W: (OpKind.B,)}.get(kind, ())
        rows = [program.base(other, stage) + step * program.num_microbatches for other in (kind, *rivals)]
        where, excused = self.ledger.where, self.ledger.excused
        return [
            n
            for n in range(program.num_microbatches)
            if base + n not in excused and all(where[row + n] < 0 for row in rows)
        ]

    def _shift(self, key: tuple[OpKind, int, int], positions: list[int], missing: list[int]) -> int:
        """k where the row is numbered k..M-1+k instead of 0..M-1, in order, else 0."""
        program = self.program
        first, last = program.rank_starts[program.rank_at(positions[0]) :][:2]
        row = [
            op.microbatch or 0
            for op in program.flat[first:last]
            if op is not None and (op.kind, op.stage, op.step) == key
        ]
        if row not in (sorted(row), sorted(row, reverse=True)):
            return 0
        if len(missing) != len(positions) or any(program.codes[position] != GONE for position in positions):
            return 0
        numbers = sorted(op.microbatch or 0 for p in positions if (op := program.flat[p]) is not None)
        count, num = len(numbers), program.num_microbatches
        if missing == list(range(count)) and numbers == list(range(num, num + count)):
            return count
        if missing == list(range(num - count, num)) and numbers == list(range(-count, 0)):
            return -count
        return 0

    def _report_shifts(
        self, shifts: dict[tuple[int, OpKind, int], list[tuple[tuple[OpKind, int, int], list[int]]]]
    ) -> None:
        program = self.program
        num = program.num_microbatches
        everywhere = {shift for _, _, shift in shifts}
        shifted = sum(map(len, shifts.values()))
        rows = {code // program.width for code in program.codes if code >= 0 and code < program.base(OpKind.REDUCE)}
        if len(everywhere) == 1 and shifted >= len(rows) > 1 and program.num_steps == 1:
            (shift,) = everywhere
            self.ledger.report(
                "misnumbered",
                next(iter(shifts.values()))[0][1][0],
                f"every rank numbers its microbatches {shift}..{num - 1 + shift}; they are numbered 0..{num - 1}",
                remedy=f"subtract {shift} from every number",
            )
        else:
            together: dict[tuple[int, int], tuple[list[str], list[int]]] = {}
            for (rank, kind, shift), members in shifts.items():
                kinds, positions = together.setdefault((rank, shift), ([], []))
                kinds.append(PLURALS[kind])
                positions += [position for _, group in members for position in group]
            for (rank, shift), (kinds, positions) in together.items():
                what = " and ".join(kinds)
                self.ledger.report(
                    "misnumbered",
                    min(positions),
                    f"rank {rank} numbers its {what} {shift}..{num - 1 + shift}; microbatches are numbered 0..{num - 1}",
                    ops=tuple(program.text(position) for position in positions),
                    remedy=f"subtract {shift} from the numbers of its {what}",
                )
        for (rank, _, shift), members in shifts.items():
            first, last = program.rank_starts[rank : rank + 2]
            for (kind, stage, step), _ in members:
                base = program.base(kind, stage) + step * num
                for position in range(first, last):
                    op = program.flat[position]
                    if op is not None and (op.kind, op.stage, op.step) == (kind, stage, step):
                        program.codes[position] = base + (op.microbatch or 0) - shift

    def _pair_up(self, key: tuple[OpKind, int, int], positions: list[int], missing: list[int]) -> None:
        """Numbers that occur once too often beside numbers that never occur: most likely one stands for the other."""
        program = self.program
        kind, stage, step = key
        base = program.base(kind, stage) + step * program.num_microbatches
        for position in positions:
            code = program.codes[position]
            number = code - base if code >= 0 else None
            if not missing:
                if number is not None:
                    doubled(self.ledger, position, self.ledger.where[code])
                else:
                    self._out_of_range(position)
                continue
            absent = missing.pop(0)
            name = str(program.op_of_code(base + absent))
            wrong = likelier(program, position, self.ledger.where[code], absent) if number is not None else position
            text = program.text(wrong)
            fault = (
                f"{text} occurs twice and {name} never"
                if number is not None
                else f"{text} is out of range (0..{program.num_microbatches - 1}) and {name} never occurs"
            )
            self.ledger.report("misnumbered", wrong, fault, ops=(text, name), remedy=f"this one is probably {name}")
            program.codes[wrong] = base + absent
            self.ledger.excused.add(base + absent)
            if number is not None:
                self.ledger.excused.add(code)

    def _out_of_range(self, position: int) -> None:
        program = self.program
        op = program.flat[position]
        self.ledger.report(
            "microbatch-range",
            position,
            f"{program.text(position)}: microbatch {op.microbatch if op else '?'} is not one of "
            f"0..{program.num_microbatches - 1}",
            ops=(program.text(position),),
            remedy=range_remedy(program),
        )
