"""Is every op there, once, on its rank, with its own number, in the order that a rank needs? Counts and local order only.

It looks at the ops that compute and update, not at messages. What it finds it also takes out of the program or puts right
(a doubled op, a row numbered 1..M), so that one fault is told once and the later checks see the rest.
"""

from __future__ import annotations

from operator import gt

from pptrace.check.findings import NOWHERE, Finding, Place, some_of
from pptrace.check.losses import find_losses
from pptrace.check.numbering import Numbering, likelier, range_remedy
from pptrace.check.program import GONE, Program
from pptrace.model import BOUNDARY_KINDS, COMPUTE_KINDS, KINDS_WITHOUT_MICROBATCH, MESSAGE_KINDS, OpKind


class Structure:
    """The structural findings of one program.

    `excused` holds the codes of ops that a finding already speaks about: nothing more is said of them. The program's codes
    are changed in place.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.findings: list[Finding] = []
        self.excused: set[int] = set()
        self.message_strays: list[int] = []
        self.cut_ranks: set[int] = set()
        self.where: list[int] = []

    def run(self) -> None:
        program = self.program
        if not program.codes:
            self.findings.append(_finding(program, "empty-schedule", None, "there is no op", remedy="give a schedule"))
            return
        self._idle_ranks()
        strays = self._strays()
        self._wrong_ranks()
        self.where = program.where()
        strays += self._doubles()
        if strays:
            Numbering(self).run(strays)
            self.where = program.where()
        find_losses(self)
        self._order()
        self._pairs()
        self._updates()

    def report(
        self, code: str, position: int | None, sentence: str, *, ops: tuple[str, ...] = (), remedy: str = ""
    ) -> None:
        self.findings.append(_finding(self.program, code, position, sentence, ops=ops, remedy=remedy))

    def take_out(self, position: int) -> None:
        self.excused.add(self.program.codes[position])
        self.program.codes[position] = GONE

    def row(self, kind: OpKind, stage: int) -> list[int]:
        """The positions of all microbatches of (kind, stage), -1 where one does not occur."""
        base = self.program.base(kind, stage)
        return self.where[base : base + self.program.width]

    def _idle_ranks(self) -> None:
        starts = self.program.rank_starts
        for rank in range(self.program.num_ranks):
            if starts[rank] == starts[rank + 1]:
                self.findings.append(_at_rank("idle-rank", rank, f"rank {rank} has no ops"))

    def _strays(self) -> list[int]:
        """Report what is no op of this schedule; give back the positions whose only fault is the microbatch number."""
        program = self.program
        numbers = []
        for position, code in enumerate(program.codes) if GONE in program.codes else ():
            if code != GONE:
                continue
            op = program.flat[position]
            if op is None:
                self.report(
                    "unknown-op",
                    position,
                    f"{_shown(program.texts.get(position, ''))} is not an op",
                    remedy="write stage, kind, microbatch: 2F0",
                )
            elif not 0 <= op.stage < program.num_stages:
                self.report(
                    "unknown-stage",
                    position,
                    f"{op}: stage {op.stage} is not one of 0..{program.num_stages - 1}",
                    ops=(str(op),),
                    remedy="number the stages 0..S-1",
                )
            elif op.kind in COMPUTE_KINDS and 0 <= op.step < program.num_steps:
                numbers.append(position)
            elif op.kind in MESSAGE_KINDS:
                self.message_strays.append(position)
            else:
                self.report(
                    "microbatch-range",
                    position,
                    f"{op}: microbatch {op.microbatch} is not one of 0..{program.num_microbatches - 1}",
                    ops=(str(op),),
                    remedy=range_remedy(program),
                )
        return numbers

    def _wrong_ranks(self) -> None:
        """Ops on a rank that does not hold their stage. The lower of equal ranks holds a stage."""
        program = self.program
        num_stages, width, codes = program.num_stages, program.width, program.codes
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
                names = [program.text(position) for position in positions]
                home = program.holder(stage, program.split(codes[positions[0]])[2])
                self.report(
                    "stage-on-two-ranks",
                    positions[0],
                    f"rank {rank} runs {some_of(names)}, but stage {stage} lives on rank {home}",
                    ops=tuple(names),
                    remedy=f"move {'it' if len(names) == 1 else 'them'} to rank {home}",
                )
                for position in positions:
                    self.take_out(position)

    def _doubles(self) -> list[int]:
        """The positions of compute ops whose code stands earlier already; doubled other ops are reported at once."""
        program = self.program
        known = len(program.codes) - program.codes.count(GONE)
        if len(self.where) - self.where.count(-1) == known:
            return []
        doubles = []
        for position, code in enumerate(program.codes):
            if code < 0 or self.where[code] == position:
                continue
            kind = program.split(code)[0]
            if kind in COMPUTE_KINDS:
                doubles.append(position)
            elif kind not in MESSAGE_KINDS and kind not in (OpKind.UNSHARD, OpKind.RESHARD):
                self.doubled(position, self.where[code])
        return doubles

    def doubled(self, position: int, first: int) -> None:
        program = self.program
        if likelier(program, first, position, program.codes[first] % program.num_microbatches) == position:
            first, position = position, first
            self.where[program.codes[first]] = first
        self.report(
            "doubled-op",
            position,
            f"{program.text(position)} occurs twice: here and at position {program.place(first).position} of rank "
            f"{program.rank_at(first)}",
            ops=(program.text(position),),
            remedy="leave one of them out",
        )
        self.take_out(position)

    def _order(self) -> None:
        """B and I after their F, W after its I, R between F and B: in the list of their rank."""
        kinds = self.program.kinds
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
                self._order_of(before, after, code)

    def _order_of(self, before: OpKind, after: OpKind, code: str) -> None:
        program = self.program
        block = program.block
        one = self.where[before * block : (before + 1) * block]
        other = self.where[after * block : (after + 1) * block]
        if not any(map(gt, one, other)):
            return
        wrong: dict[int, list[tuple[int, int]]] = {}
        for index, (x, y) in enumerate(zip(one, other, strict=True)):
            if x > y >= 0 and before * block + index not in self.excused and after * block + index not in self.excused:
                wrong.setdefault(program.rank_at(y), []).append((y, x))
        for rank, pairs in wrong.items():
            pairs.sort()
            y, x = pairs[0]
            names = tuple(program.text(position) for position, _ in pairs)
            more = f" (and {len(pairs) - 1} more on rank {rank})" if len(pairs) > 1 else ""
            self.report(
                code,
                y,
                f"{program.text(y)} comes before {program.text(x)}, which it needs{more}",
                ops=names,
                remedy=f"move it behind {program.text(x)}",
            )
            for late, early in pairs:
                self.excused.update((program.codes[late], program.codes[early]))

    def _pairs(self) -> None:
        program = self.program
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
            self.report("odd-pair", first, f"{names[0]} and {names[1]} cannot run as one block: {why}", ops=names)

    def _updates(self) -> None:
        """REDUCE, STEP, REDUCE_GRAD: after the last backward of their stage and step, and there for every stage."""
        program = self.program
        kinds = program.kinds & {OpKind.REDUCE, OpKind.STEP, OpKind.REDUCE_GRAD}
        if not kinds or program.asynchronous:
            return
        num = program.num_microbatches
        for position, code in enumerate(program.codes):
            if code < 0 or (kind := OpKind(code // program.block)) not in kinds:
                continue
            _, stage, number = program.split(code)
            last = self._last_gradient(stage, number // num, program.rank_at(position))
            if last > position:
                self.report(
                    "early-update",
                    position,
                    f"{program.text(position)} comes before {program.text(last)}, whose gradient it then misses",
                    ops=(program.text(position), program.text(last)),
                    remedy=f"move it behind the last backward of stage {stage}",
                )
        for kind in sorted(kinds):
            for step in range(program.num_steps if kind is not OpKind.REDUCE_GRAD else 1):
                self._missing_updates(kind, step)

    def _last_gradient(self, stage: int, step: int, rank: int) -> int:
        program = self.program
        num = program.num_microbatches
        last = -1
        for kind in (OpKind.B, OpKind.W):
            base = program.base(kind, stage) + step * num
            found = self.where[base : base + num]
            if program.bidirectional:
                found = [position for position in found if position >= 0 and program.rank_at(position) == rank]
            last = max(last, max(found, default=-1))
        return last

    def _missing_updates(self, kind: OpKind, step: int) -> None:
        program = self.program
        num = program.num_microbatches
        copies = [(stage, 0) for stage in range(program.num_stages)]
        first_up = (num + 1) // 2
        if program.bidirectional and first_up < num:
            copies += [(stage, first_up) for stage in range(program.num_stages)]
        absent = [
            (stage, number)
            for stage, number in copies
            if self.where[program.base(kind, stage) + step * num + number] < 0
            and program.base(kind, stage) + step * num + number not in self.excused
        ]
        if len(absent) == len(copies) or not absent:
            return
        names = [str(program.op_of_code(program.base(kind, stage) + step * num + number)) for stage, number in absent]
        rank = program.holder(*absent[0])
        sentence = f"there is no {some_of(names)}, though other stages have theirs"
        self.findings.append(_at_rank("missing-update", rank, sentence, tuple(names)))


def _finding(
    program: Program, code: str, position: int | None, sentence: str, *, ops: tuple[str, ...] = (), remedy: str = ""
) -> Finding:
    return Finding(code, NOWHERE if position is None else program.place(position), sentence, ops, remedy)


def _at_rank(code: str, rank: int, sentence: str, ops: tuple[str, ...] = (), remedy: str = "") -> Finding:
    return Finding(code, Place(rank), sentence, ops, remedy)


def _shown(text: str) -> str:
    return ascii(text if len(text) <= 40 else text[:37] + "...")
