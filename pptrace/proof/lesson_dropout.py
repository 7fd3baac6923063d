"""The lesson of dropout: masks that belong to samples, masks that belong to a place in the order of execution, and masks that a
recomputation draws anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pptrace.proof.beside import fifo_lifo_1f1b, gradients_of, recomputed_1f1b, spread
from pptrace.proof.choices import problem_for
from pptrace.proof.lesson import Lesson, Row, decimal, without_stages, worst

if TYPE_CHECKING:
    from collections.abc import Callable

    from pptrace.proof.choices import Choice
    from pptrace.proof.problem import Problem
    from pptrace.proof.prove import Proof


def dropout(proof: Proof, choice: Choice, again: Callable[[Problem], Proof]) -> Lesson:
    """What the masks of `choice` do to this schedule and to others."""
    how = choice.dropout
    recomputes = bool(proof.machine.recomputed)
    largest = decimal(worst(proof.comparison.gradients))
    tied = "Each mask is made from (seed, step, stage, microbatch): whichever op asks for it, whenever, gets the same one. "
    if how == "tied":
        text = [
            tied
            + ("Recomputation replays the masks of its forward. " if recomputes else "")
            + "The schedule then has no part in the result."
        ]
    elif how == "ordered":
        text = [
            "Masks come from one generator, drawn in the order in which forwards run. The unsplit step draws stage by "
            "stage, the schedule in its own order, so that samples meet other masks and the gradients are those of another "
            f"random draw: they differ by up to {largest}."
        ]
        if recomputes:
            text.append(
                "Recomputation draws again: a backward then goes through masks that its forward never used, which is not "
                "the gradient of anything."
            )
    else:
        text = [
            tied
            + (
                "But recomputation draws anew: a backward then goes through masks that its forward never used, and though "
                f"outputs and losses are right, the gradients are those of nothing; they differ by up to {largest}."
                if recomputes
                else "Only recomputation would draw anew, and this schedule recomputes nothing."
            )
        ]
    plain = problem_for(proof.problem.num_stages, proof.problem.num_microbatches, choice._replace(normalization="mean"))
    rows = _rows(proof if choice.normalization == "mean" else again(plain), plain)
    text.append(
        "Below: the first entry of the gradient of stage 0, the largest difference from the unsplit step, and how many entries "
        "differ" + ("." if choice.normalization == "mean" else " (all with normalization mean).")
    )
    right = how == "tied" or (not recomputes and (how == "redrawn" or _draws_as_unsplit(proof)))
    explains = right or without_stages(proof, again, "")[0]
    columns = ("stage 0 [0][0]", "largest difference", "entries")
    return Lesson(f"dropout {how}", "equal" if right else "differs", tuple(text), columns, rows, explains=explains)


def _draws_as_unsplit(proof: Proof) -> bool:
    """Whether there is only one order to draw in: one stage, or one microbatch at a time."""
    one_at_a_time = all(len(owners) == 1 for owners in proof.updates)
    if proof.schedule.asynchronous:
        one_at_a_time = proof.schedule.num_microbatches * proof.schedule.num_steps == 1
    return proof.problem.num_stages == 1 or one_at_a_time


def _rows(mine: Proof, problem: Problem) -> tuple[Row, ...]:
    others = fifo_lifo_1f1b(problem)
    shown = {"this schedule": mine, "gpipe": others["gpipe fifo"], "1f1b": others["1f1b"]}
    replayed = recomputed_1f1b(problem)
    if problem.dropout == "tied":
        shown["1f1b, recomputed, masks replayed"] = replayed
        shown["1f1b, recomputed, masks drawn anew"] = recomputed_1f1b(problem.changed(dropout="redrawn"))
    else:
        shown["1f1b, recomputed, masks drawn anew"] = replayed
    num = problem.arithmetic
    rows = []
    for label, proof in shown.items():
        first = gradients_of(proof)[0]
        apart = spread(proof.reference.gradients[0], proof)
        value = "-" if first is None else decimal(num.value(first.matrix, 0, 0))
        rows.append(Row(label, (value, decimal(apart.error), apart.entries_text)))
    unsplit = mine.reference.gradients[0][0]
    return (*rows, Row("unsplit", (decimal(num.value(unsplit.matrix, 0, 0)), "0", "-")))
