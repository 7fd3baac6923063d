"""What a rank does once a step beside the work: REDUCE, STEP and REDUCE_GRAD after the last backward, and, where weights are
sharded, their gathering (UNSHARD) before the first op that needs them and their freeing (RESHARD) after the last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pptrace.check.findings import some_of
from pptrace.model import COMPUTE_KINDS, OpKind

if TYPE_CHECKING:
    from pptrace.check.ledger import Ledger

_UPDATES = frozenset({OpKind.REDUCE, OpKind.STEP, OpKind.REDUCE_GRAD})
_SHARDING = frozenset({OpKind.UNSHARD, OpKind.RESHARD})


def check_updates(ledger: Ledger) -> None:
    """REDUCE, STEP, REDUCE_GRAD: after the last backward of their stage and step, and there for every stage."""
    program = ledger.program
    kinds = program.kinds & _UPDATES
    if not kinds or program.asynchronous:
        return
    num = program.num_microbatches
    rows = {row for row in program.rows_of_codes() if row // program.num_stages in kinds}
    early: dict[int, list[int]] = {}
    for position, code in enumerate(program.codes):
        if code < 0 or code // program.width not in rows:
            continue
        _, stage, number = program.split(code)
        last = _last_gradient(ledger, stage, number // num, program.rank_at(position))
        if last > position:
            early.setdefault(last, []).append(position)
    for last, positions in early.items():
        names = [program.text(position) for position in positions]
        stage = program.split(program.codes[last])[1]
        verb, subject, them = (
            ("comes", "it then misses", "it") if len(names) == 1 else ("come", "they then miss", "them")
        )
        ledger.report(
            "early-update",
            positions[0],
            f"{' and '.join(names)} {verb} before {program.text(last)}, whose gradient {subject}",
            ops=(*names, program.text(last)),
            remedy=f"move {them} behind the last backward of stage {stage}",
        )
    for kind in sorted(kinds):
        for step in range(program.num_steps if kind is not OpKind.REDUCE_GRAD else 1):
            _missing_updates(ledger, kind, step)


def _last_gradient(ledger: Ledger, stage: int, step: int, rank: int) -> int:
    program = ledger.program
    num = program.num_microbatches
    last = -1
    for kind in (OpKind.B, OpKind.W):
        base = program.base(kind, stage) + step * num
        found = ledger.where[base : base + num]
        if program.bidirectional:
            found = [position for position in found if position >= 0 and program.rank_at(position) == rank]
        last = max(last, max(found, default=-1))
    return last


def _missing_updates(ledger: Ledger, kind: OpKind, step: int) -> None:
    """Stages without the update that others have. Where the end of a rank's list is cut off, that has been said."""
    program = ledger.program
    num = program.num_microbatches
    copies = [(stage, 0) for stage in range(program.num_stages)]
    first_up = (num + 1) // 2
    if program.bidirectional and first_up < num:
        copies += [(stage, first_up) for stage in range(program.num_stages)]
    codes = {(stage, number): program.base(kind, stage) + step * num + number for stage, number in copies}
    there = [copy for copy, code in codes.items() if ledger.where[code] >= 0]
    absent = [
        copy
        for copy, code in codes.items()
        if ledger.where[code] < 0 and code not in ledger.excused and program.holder(*copy) not in ledger.cut_ranks
    ]
    if not there or not absent:
        return
    names = tuple(str(program.op_of_code(codes[copy])) for copy in absent)
    ledger.report_rank(
        "missing-update",
        program.holder(*absent[0]),
        f"there is no {some_of(names)}, though other stages have theirs",
        ops=names,
        remedy=f"add {'it' if len(names) == 1 else 'each'} behind the last backward of its stage",
    )


def check_sharding(ledger: Ledger) -> None:
    """A stage whose weights are gathered and freed by the list is gathered when it is used, once at a time, and freed.

    Source: torch 2.13, `_PipelineScheduleRuntime._step_microbatches`, which refuses the same at run time.
    """
    program = ledger.program
    if not program.kinds & _SHARDING:
        return
    width, num_stages = program.width, program.num_stages
    for rank in range(program.num_ranks):
        first, last = program.rank_starts[rank : rank + 2]
        rows = [code // width for code in program.codes[first:last]]
        sharded = {row % num_stages for row in set(rows) if row >= 0 and row // num_stages in _SHARDING}
        gathered: set[int] = set()
        told: set[int] = set()
        needing = {kind * num_stages + stage: stage for kind in COMPUTE_KINDS for stage in sharded}
        changing = {kind * num_stages + stage: (kind, stage) for kind in _SHARDING for stage in sharded}
        for position, row in enumerate(rows, first):
            stage = needing.get(row)
            if stage is not None:
                if stage not in gathered and stage not in told:
                    told.add(stage)
                    name = program.text(position)
                    sentence = f"{name} runs while the weights of stage {stage} are not gathered"
                    remedy = f"put {stage}UNSHARD before it, and {stage}RESHARD behind the last op of the stage"
                    ledger.report("not-gathered", position, sentence, ops=(name,), remedy=remedy)
            elif row in changing:
                kind, stage = changing[row]
                gathers = kind is OpKind.UNSHARD
                if gathers is (stage in gathered) and stage not in told:
                    told.add(stage)
                    name = program.text(position)
                    why = "are gathered already" if gathers else "are not gathered"
                    sentence = f"{name}: the weights of stage {stage} {why}"
                    ledger.report("not-gathered", position, sentence, ops=(name,), remedy="leave it out")
                (gathered.add if gathers else gathered.discard)(stage)
