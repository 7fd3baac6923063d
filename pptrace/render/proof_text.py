"""A proof as plain text: what was run, what was compared, the faults, the lessons, the verdict. Characters only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pptrace.printable import printable
from pptrace.proof.lesson import number_text
from pptrace.proof.problem import WIDTH
from pptrace.proof.verdict import verdict
from pptrace.render.lines import columns, folded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pptrace.proof.choices import Choice
    from pptrace.proof.compare import Compared, Count
    from pptrace.proof.lesson import Lesson
    from pptrace.proof.prove import Proof

PROSE = 110
MOST_FAULTS = 20
"""Faults that are printed; the rest is counted (JSON has them all)."""


def proof_text(proof: Proof, choice: Choice, found: Sequence[Lesson], notes: Sequence[str] = ()) -> str:
    """The whole page, lines ending in a newline. `notes` are sentences of whoever made the schedule."""
    lines = [*_header(proof, choice, notes), "", *_compared(proof)]
    if proof.faults:
        lines += ["", *_faults(proof)]
    for lesson in found:
        lines += ["", *_lesson(lesson)]
    return "\n".join([*lines, "", *folded(f"verdict: {verdict(proof, found)}", PROSE)]) + "\n"


def proof_sentence(proof: Proof) -> str:
    """The verdict for a report, in one line."""
    text = f"numerical equivalence ({proof.problem.arithmetic.name} arithmetic): {verdict(proof)}"
    return f"{text}; this says nothing about speed, and the metrics nothing about this; more: pptrace prove"


def proof_note(proof: Proof, width: int | None = None) -> str:
    """The verdict for the end of a report, lines ending in a newline."""
    return "\n".join(folded(proof_sentence(proof), min(width or PROSE, PROSE))) + "\n"


def _header(proof: Proof, choice: Choice, notes: Sequence[str]) -> list[str]:
    schedule, problem = proof.schedule, proof.problem
    flush = "no flush" if schedule.asynchronous else "flush"
    sizes = f"P={schedule.num_ranks}  S={schedule.num_stages}  M={schedule.num_microbatches}"
    updates = f"{len(proof.updates)} update{'s' * (len(proof.updates) != 1)}"
    head = f"{printable(schedule.name, 60)} ({flush})   {sizes}   {updates}   {problem.arithmetic.name} arithmetic"
    samples = f"{problem.samples[0]} samples" if len(set(problem.samples)) == 1 else "1 or 2 samples"
    model = (
        f"model: one slice a stage (affine {WIDTH} x {WIDTH}, bend at 0, residual), half the mean squared error at the end, "
        f"{samples} a microbatch, seed {choice.seed}; normalization {choice.normalization}, dropout {choice.dropout}; "
        "compared with the same update of the whole batch, unsplit"
    )
    lines = folded(head, None) + folded(model, PROSE)
    for note in notes:
        lines += folded(printable(note), PROSE)
    if proof.refused:
        how = f"no times: {printable(proof.refused)}; run rank by rank, as messages come"
        lines += folded(how, PROSE)
    return lines


def _compared(proof: Proof) -> list[str]:
    found = proof.comparison
    several = len(proof.updates) > 1
    copies = len({(part.rank, part.stage) for part in found.weights}) > proof.schedule.num_stages
    lines = [f"ops run  {'  '.join(_count(count) for count in found.counts)}"]
    rows = [("outputs", _remark(found.outputs)), ("losses", _remark(found.losses))]
    for part in found.gradients + found.weights:
        where = f"{part.what}, stage {part.stage}"
        if part.rank is not None and copies:
            where += f" on rank {part.rank}"
        if several:
            where += f", update {part.update}"
        rows.append((where, _remark(part)))
    return lines + columns(rows, left=2)


def _count(count: Count) -> str:
    wanted = "" if count.wanted in (None, count.ran) else f" of {count.wanted}"
    return f"{count.ran}{wanted} {count.kind.name}"


def _remark(part: Compared) -> str:
    """`equal`, or what is wrong: the microbatches first, then the first number that differs."""
    if part.absent:
        return "never computed: the update was not reached"
    reasons = [
        f"{what} {' '.join(_owner(owner) for owner in owners[:16])}{' ...' if len(owners) > 16 else ''}"
        for what, owners in (
            ("missing", part.missing),
            ("too late", part.late),
            ("twice", part.doubled),
            ("from another's state", part.mixed),
        )
        if owners
    ]
    if part.difference is not None and not part.equal:
        where, have, want = part.difference
        reasons.append(f"{where} is {number_text(have)}, unsplit {number_text(want)}")
    rounding = f" up to {float(part.ulps):g} ulp" if part.ulps else ""
    if part.equal:
        return f"equal{rounding}"
    return f"DIFFERENT: {'; '.join(reasons) or 'numbers that are not finite, or other steps than the unsplit run took'}"


def _owner(owner: tuple[int, int]) -> str:
    return f"{owner[1]}@{owner[0]}" if owner[0] else str(owner[1])


def _faults(proof: Proof) -> list[str]:
    lines = ["faults"]
    for fault in proof.faults[:MOST_FAULTS]:
        lines += [f"  {line}" for line in folded(f"{fault.code}: {fault}", PROSE - 2)]
    if len(proof.faults) > MOST_FAULTS:
        lines.append(f"  and {len(proof.faults) - MOST_FAULTS} more that follow from them or are like them")
    return lines


def _lesson(lesson: Lesson) -> list[str]:
    lines = [f"{lesson.name}   (to be expected: {'equal' if lesson.expects == 'equal' else 'different'})"]
    for paragraph in lesson.text:
        lines += [f"  {line}" for line in folded(paragraph, PROSE - 2, "")]
    if lesson.rows:
        lines += [f"  {line}" for line in columns([("", *lesson.columns), *((r.label, *r.cells) for r in lesson.rows)])]
    return lines
