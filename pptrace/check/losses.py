"""Which ops are missing, told as what was lost: a forward, a backward, a W, a whole microbatch, the end of a rank's list."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pptrace.check.findings import some_of
from pptrace.model import OpKind

if TYPE_CHECKING:
    from pptrace.check.ledger import Ledger

_BACKWARDS = (OpKind.B, OpKind.I, OpKind.W)


def find_losses(ledger: Ledger) -> None:
    """Report the ops that every stage needs and does not have, and excuse them from later checks."""
    program = ledger.program
    kinds = program.kinds
    stages = [stage for stage in range(program.num_stages) if program.holders[stage] >= 0]
    absent = [stage for stage in range(program.num_stages) if program.holders[stage] < 0]
    if absent:
        numbers = some_of(map(str, absent))
        which = f"stage {numbers}" if len(absent) == 1 else f"stages {numbers}"
        first = absent[0]
        after = f"; stage {first + 1} waits for stage {first} for ever" if first + 1 < program.num_stages else ""
        ledger.report("missing-stage", None, f"no rank runs {which}{after}", remedy=f"add the ops of {which}")
        ledger.excused.update(
            program.base(kind, stage) + number for stage in absent for kind in kinds for number in range(program.width)
        )
    if not kinds & {OpKind.F, *_BACKWARDS} or _nothing_is_lost(ledger, kinds):
        return
    backward = bool(kinds & set(_BACKWARDS))
    lost: dict[int, _Losses] = {}
    for stage in stages:
        _stage_losses(ledger, stage, backward, lost)
    for rank, losses in sorted(lost.items()):
        losses.report(ledger, rank)


def _nothing_is_lost(ledger: Ledger, kinds: set[OpKind]) -> bool:
    """The quick answer for the usual case: every place of every kind is filled."""
    program = ledger.program
    block = program.block
    full = {kind: -1 not in ledger.where[kind * block : (kind + 1) * block] for kind in (OpKind.F, *_BACKWARDS)}
    if not full[OpKind.F]:
        return False
    if not kinds & set(_BACKWARDS):
        return True
    if OpKind.B in kinds:
        return full[OpKind.B] and OpKind.I not in kinds and OpKind.W not in kinds
    return full[OpKind.I] and full[OpKind.W]


class _Losses:
    """What one rank has lost."""

    def __init__(self) -> None:
        self.microbatches: list[int] = []  # codes of the F of microbatches that a stage leaves out altogether
        self.forwards: list[int] = []
        self.backwards: list[int] = []  # codes of B, or of I and W
        self.weight_gradients: list[int] = []  # codes of W whose I is there
        self.input_gradients: list[int] = []  # codes of I whose W is there
        self.doubly: list[int] = []  # codes of B beside which there is an I or W
        self.cut = True  # all that is lost is the last of its row

    def report(self, ledger: Ledger, rank: int) -> None:
        tail = self.backwards + self.weight_gradients
        if self.cut and tail:
            ledger.cut_ranks.add(rank)
        if self.cut and (self.backwards or self.microbatches) and tail and len(tail) + len(self.microbatches) > 1:
            _say(
                ledger,
                "lost-cooldown",
                rank,
                self.microbatches + self.forwards + tail,
                f"rank {rank} never runs {{}}: the end of its list is cut off, and {_alive(ledger, tail)} alive at the end",
                "add the ops that are left at the end of the rank's list",
            )
            self.microbatches, self.forwards = [], []
        else:
            if self.backwards:
                _say(
                    ledger,
                    "missing-backward",
                    rank,
                    self.backwards,
                    f"rank {rank} never runs {{}}; {_alive(ledger, self.backwards)} never released",
                    "add the backward after its forward",
                )
            if self.weight_gradients:
                _say(ledger, "lost-weight-gradient", rank, self.weight_gradients, *self._half_words(ledger, rank))
        if self.microbatches:
            program = ledger.program
            stages = sorted({program.split(code)[1] for code in self.microbatches})
            numbers = {program.split(code)[2] for code in self.microbatches}
            what = f"stage {stages[0]} runs" if len(stages) == 1 else f"stages {some_of(map(str, stages))} run"
            _say(
                ledger,
                "microbatch-count",
                rank,
                self.microbatches,
                f"{what} {program.width - len(numbers)} microbatches, the schedule has {program.width}: {{}} and what "
                "follows never come",
                "run every microbatch on every stage",
            )
        if self.forwards:
            _say(
                ledger,
                "missing-forward",
                rank,
                self.forwards,
                f"rank {rank} never runs {{}}",
                "add the forward before its backward",
            )
        if self.input_gradients:
            _say(
                ledger,
                "weight-gradient-alone",
                rank,
                self.input_gradients,
                f"rank {rank} never runs {{}}, though the W is there",
                "add the I before its W",
            )
        if self.doubly:
            _say(
                ledger,
                "full-and-split-backward",
                rank,
                self.doubly,
                f"rank {rank} runs {{}} and also the I or W of the same microbatch: B is the full backward (I + W)",
                "leave out the I and W, or make the B an I",
            )

    def _half_words(self, ledger: Ledger, rank: int) -> tuple[str, str]:
        """Sentence and remedy of Ws that are lost, in the letters of the file: its B may be the input half."""
        program = ledger.program
        halves = (code - program.base(OpKind.W) + program.base(OpKind.I) for code in self.weight_gradients)
        at = next((ledger.where[code] for code in halves if ledger.where[code] >= 0), -1)
        written = program.written(at) if at >= 0 else ""
        remedy = "add the W after its I, or make the I a full B"
        if "I" in written or not written:
            return f"rank {rank} never runs {{}}, though the I is there: the weight gradient is lost", remedy
        half = f"the input half is there (written {written})"
        sentence = f"rank {rank} never runs {{}}, though {half}: the weight gradient is lost"
        return sentence, "add the W; or, if every B of the file is a full backward, say --letter-b full"


def _say(ledger: Ledger, code: str, rank: int, codes: list[int], sentence: str, remedy: str) -> None:
    """One finding on ops that a rank never runs; `{}` in the sentence is where they are named."""
    names = tuple(str(ledger.program.op_of_code(c)) for c in codes)
    ledger.excused.update(codes)
    waits = _waits_for_ever(ledger, codes)
    ledger.report_rank(code, rank, sentence.format(some_of(names, 8)) + waits, ops=names, remedy=remedy)


def _waits_for_ever(ledger: Ledger, codes: list[int]) -> str:
    """Which op on another stage waits for the first of the lost ops, as the end of a sentence."""
    program = ledger.program
    for code in codes:
        kind, stage, number = program.split(code)
        if kind is OpKind.F and stage + 1 < program.num_stages:
            users = [program.base(OpKind.F, stage + 1) + number]
        elif kind in (OpKind.B, OpKind.I) and stage > 0:
            users = [program.base(user, stage - 1) + number for user in (OpKind.B, OpKind.I)]
        else:
            continue
        for user in users:
            at = ledger.where[user]
            if at >= 0 and ledger.where[code] < 0:
                return (
                    f"; {program.text(at)} of rank {program.rank_at(at)} waits for {program.op_of_code(code)} for ever"
                )
    return ""


def _alive(ledger: Ledger, codes: list[int]) -> str:
    """How many activations the lost ops would have released, with its verb."""
    program = ledger.program
    owners = {program.split(code)[1:] for code in codes}
    count = sum(ledger.where[program.base(OpKind.F, stage) + number] >= 0 for stage, number in owners)
    return "1 activation is" if count == 1 else f"{count} activations are"


def _stage_losses(ledger: Ledger, stage: int, backward: bool, lost: dict[int, _Losses]) -> None:
    program, excused = ledger.program, ledger.excused
    f, b, i, w = (ledger.row(kind, stage) for kind in (OpKind.F, *_BACKWARDS))
    at_f, at_b, at_i, at_w = (program.base(kind, stage) for kind in (OpKind.F, *_BACKWARDS))
    splits = max(i) >= 0 or max(w) >= 0
    whole = max(b) >= 0 or not splits  # a lost backward of a stage that has both sorts is called B
    ends: list[int] = []
    left_out: list[int] = []
    for number in range(program.width):
        has_f = f[number] >= 0 or at_f + number in excused
        has_b = b[number] >= 0 or at_b + number in excused
        has_i = i[number] >= 0 or at_i + number in excused
        has_w = w[number] >= 0 or at_w + number in excused
        complete = not (has_i or has_w) if has_b else (has_i and has_w) or not (backward or has_i or has_w)
        if has_f and complete:
            continue
        losses = lost.setdefault(program.holder(stage, number), _Losses())
        if has_b:
            if has_i or has_w:
                losses.doubly.append(at_b + number)
        elif has_i:
            if not has_w:
                losses.weight_gradients.append(at_w + number)
                ends.append(number)
        elif has_w:
            losses.input_gradients.append(at_i + number)
        elif not has_f:
            losses.microbatches.append(at_f + number)
            left_out.append(number)
            excused.update((at_b + number, at_i + number, at_w + number))
            continue
        elif backward:
            losses.backwards += [at_b + number] if whole else [at_i + number, at_w + number]
            ends.append(number)
        if not has_f:
            losses.forwards.append(at_f + number)
    for numbers, rows in ((ends, (b, i, w)), (left_out, (f,))):
        if numbers:
            lost[program.holder(stage, numbers[0])].cut &= _are_last(set(numbers), rows)


def _are_last(numbers: set[int], rows: tuple[list[int], ...]) -> bool:
    """Whether the ops of `numbers` would be the last of their stage, by number in either direction."""
    present = [n for n in range(len(rows[0])) if n not in numbers and any(row[n] >= 0 for row in rows)]
    return not present or min(numbers) > max(present) or max(numbers) < min(present)
