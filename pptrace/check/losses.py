"""Which ops are missing, told as what was lost: a forward, a backward, a W, a whole microbatch, the end of a rank's list."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pptrace.check.findings import Finding, Place, some_of
from pptrace.model import OpKind

if TYPE_CHECKING:
    from pptrace.check.structure import Structure

_BACKWARDS = (OpKind.B, OpKind.I, OpKind.W)


def find_losses(structure: Structure) -> None:
    """Report the ops that every stage needs and does not have, and excuse them from later checks."""
    program = structure.program
    kinds = program.kinds
    stages = [stage for stage in range(program.num_stages) if program.holders[stage] >= 0]
    absent = [stage for stage in range(program.num_stages) if program.holders[stage] < 0]
    if absent:
        numbers = some_of(map(str, absent))
        which = f"stage {numbers}" if len(absent) == 1 else f"stages {numbers}"
        structure.findings.append(
            Finding("missing-stage", Place(), f"no rank runs {which}", (), f"add the ops of {which}")
        )
        structure.excused.update(
            program.base(kind, stage) + number for stage in absent for kind in kinds for number in range(program.width)
        )
    if not kinds & {OpKind.F, *_BACKWARDS} or _nothing_is_lost(structure, kinds):
        return
    backward = bool(kinds & set(_BACKWARDS))
    lost: dict[int, _Losses] = {}
    for stage in stages:
        _stage_losses(structure, stage, backward, lost)
    for rank, losses in sorted(lost.items()):
        losses.report(structure, rank)


def _nothing_is_lost(structure: Structure, kinds: set[OpKind]) -> bool:
    """The quick answer for the usual case: every place of every kind is filled."""
    program = structure.program
    block = program.block
    full = {kind: -1 not in structure.where[kind * block : (kind + 1) * block] for kind in (OpKind.F, *_BACKWARDS)}
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
        self.cut = True  # all lost backwards are the last of their rows

    def report(self, structure: Structure, rank: int) -> None:
        program = structure.program

        def say(code: str, codes: list[int], sentence: str, remedy: str) -> None:
            names = tuple(str(program.op_of_code(c)) for c in codes)
            structure.findings.append(Finding(code, Place(rank), sentence.format(some_of(names, 8)), names, remedy))
            structure.excused.update(codes)

        tail = self.backwards + self.weight_gradients
        if self.cut and self.backwards and len(tail) > 1:
            alive = self._alive(structure, tail)
            structure.cut_ranks.add(rank)
            say(
                "lost-cooldown",
                self.microbatches + self.forwards + tail,
                f"rank {rank} never runs {{}}: the end of its list is cut off, and {_activations(alive)} alive at the end",
                "add the ops that are left at the end of the rank's list",
            )
            self.microbatches, self.forwards = [], []
        else:
            if self.backwards:
                alive = self._alive(structure, self.backwards)
                say(
                    "missing-backward",
                    self.backwards,
                    f"rank {rank} never runs {{}}; {_activations(alive)} never released",
                    "add the backward after its forward",
                )
            if self.weight_gradients:
                say(
                    "lost-weight-gradient",
                    self.weight_gradients,
                    f"rank {rank} never runs {{}}, though the I is there: the weight gradient is lost",
                    "add the W after its I, or make the I a full B",
                )
        if self.microbatches:
            stages = sorted({program.split(code)[1] for code in self.microbatches})
            numbers = {program.split(code)[2] for code in self.microbatches}
            what = f"stage {stages[0]} runs" if len(stages) == 1 else f"stages {some_of(map(str, stages))} run"
            say(
                "microbatch-count",
                self.microbatches,
                f"{what} {program.width - len(numbers)} microbatches, the schedule has {program.width}: {{}} and what "
                "follows never come",
                "run every microbatch on every stage",
            )
        if self.forwards:
            say("missing-forward", self.forwards, f"rank {rank} never runs {{}}", "add the forward before its backward")
        if self.input_gradients:
            say(
                "weight-gradient-alone",
                self.input_gradients,
                f"rank {rank} never runs {{}}, though the W is there",
                "add the I before its W",
            )
        if self.doubly:
            say(
                "full-and-split-backward",
                self.doubly,
                f"rank {rank} runs {{}} and also the I or W of the same microbatch: B is the full backward (I + W)",
                "leave out the I and W, or make the B an I",
            )

    @staticmethod
    def _alive(structure: Structure, codes: list[int]) -> int:
        program = structure.program
        owners = {program.split(code)[1:] for code in codes}
        return sum(structure.where[program.base(OpKind.F, stage) + number] >= 0 for stage, number in owners)


def _activations(count: int) -> str:
    return "1 activation is" if count == 1 else f"{count} activations are"


def _stage_losses(structure: Structure, stage: int, backward: bool, lost: dict[int, _Losses]) -> None:
    program, excused = structure.program, structure.excused
    f, b, i, w = (structure.row(kind, stage) for kind in (OpKind.F, *_BACKWARDS))
    at_f, at_b, at_i, at_w = (program.base(kind, stage) for kind in (OpKind.F, *_BACKWARDS))
    splits = max(i) >= 0 or max(w) >= 0
    whole = max(b) >= 0 or not splits  # a lost backward of a stage that has both sorts is called B
    ends: list[int] = []
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
            excused.update((at_b + number, at_i + number, at_w + number))
            continue
        elif backward:
            losses.backwards += [at_b + number] if whole else [at_i + number, at_w + number]
            ends.append(number)
        if not has_f:
            losses.forwards.append(at_f + number)
    if ends:
        lost[program.holder(stage, ends[0])].cut &= _are_last(ends, [b, i, w])


def _are_last(numbers: list[int], rows: list[list[int]]) -> bool:
    """Whether the backwards of `numbers` would be the last of their stage, by number in either direction."""
    present = [n for n in range(len(rows[0])) if n not in numbers and any(row[n] >= 0 for row in rows)]
    return not present or min(numbers) > max(present) or max(numbers) < min(present)
