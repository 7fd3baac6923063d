"""The lesson of floating-point arithmetic: the same gradients up to the order of summation, in ulps, schedule by schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pptrace.proof.beside import fifo_lifo_1f1b, gradients_of, spread
from pptrace.proof.choices import problem_for
from pptrace.proof.lesson import Lesson, Row

if TYPE_CHECKING:
    from collections.abc import Callable

    from pptrace.proof.choices import Choice
    from pptrace.proof.problem import Problem
    from pptrace.proof.prove import Proof


def rounding(proof: Proof, choice: Choice, again: Callable[[Problem], Proof]) -> Lesson:
    """How many ulps from the unsplit step, and from one another, beside the orders that everybody knows."""
    plain = choice._replace(normalization="mean", dropout="none")
    problem = problem_for(proof.problem.num_stages, proof.problem.num_microbatches, plain)
    mine = proof if plain == choice else again(problem)
    others = fifo_lifo_1f1b(problem)
    rows = []
    for label, other in (("this schedule", mine), *others.items()):
        unsplit = spread(other.reference.gradients[0], other)
        ours = spread(gradients_of(mine), other)
        cells = (unsplit.ulps_text, unsplit.entries_text, ours.ulps_text, ours.entries_text)
        rows.append(Row(label, cells))
    lifo = spread(gradients_of(others["gpipe fifo"]), others["gpipe lifo"])
    name = proof.problem.arithmetic.name
    text = (
        f"{name} rounds every product and every sum, so that a gradient depends on the order in which its microbatches "
        "are added. That is not a fault of a schedule: no order is the right one, and the unsplit step rounds too.",
        f"gpipe lifo adds them from the last to the first, gpipe fifo from the first to the last: {lifo.entries_text} "
        f"entries of their gradients differ, by up to {lifo.ulps_text} ulp. Schedules "
        "that add in the same order agree to the last bit.",
        "Below: the largest difference of update 0 in units in the last place (ulp) of the largest entry of its matrix, and "
        "how many entries differ at all, from the unsplit step of the same arithmetic and from this schedule"
        + ("." if plain == choice else " (all with normalization mean and without dropout)."),
    )
    columns = ("ulp from unsplit", "entries", "ulp from this", "entries")
    return Lesson(name, "equal", text, columns, tuple(rows))
