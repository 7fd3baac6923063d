"""Other schedules on the same problem, and how far two computations of its gradients are apart."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from pptrace.proof.arithmetic import Floating
from pptrace.proof.prove import prove
from pptrace.schedules.registry import Params, build
from pptrace.schedules.transforms import recompute

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pptrace.proof.layers import Parameters
    from pptrace.proof.problem import Problem
    from pptrace.proof.prove import Proof


class Spread(NamedTuple):
    """How far two sets of gradients are apart: the largest difference, that in ulp (of the largest entry of a matrix), how
    many entries differ, and of how many."""

    error: Fraction
    ulps: Fraction
    differing: int
    entries: int

    @property
    def ulps_text(self) -> str:
        return f"{float(self.ulps):g}"

    @property
    def entries_text(self) -> str:
        return f"{self.differing} of {self.entries}"


def fifo_lifo_1f1b(problem: Problem) -> dict[str, Proof]:
    """One stage a rank: gpipe with both orders of backwards, and 1f1b."""
    sizes = problem.num_stages, problem.num_microbatches
    return {
        "gpipe fifo": prove(build("gpipe", Params(*sizes, order="fifo")), problem=problem),
        "gpipe lifo": prove(build("gpipe", Params(*sizes, order="lifo")), problem=problem),
        "1f1b": prove(build("1f1b", Params(*sizes)), problem=problem),
    }


def recomputed_1f1b(problem: Problem) -> Proof:
    """1f1b whose forwards keep their input only."""
    return prove(recompute(build("1f1b", Params(problem.num_stages, problem.num_microbatches))), problem=problem)


def gradients_of(proof: Proof) -> list[Parameters | None]:
    """The gradient of every stage in update 0 as its STEP used it; None where there is none."""
    found: list[Parameters | None] = [None] * proof.schedule.num_stages
    for ((_, stage), update), gradient in proof.machine.updates.reduced.items():
        if update == 0:
            found[stage] = gradient.total
    return found


def spread(one: Sequence[Parameters | None], proof: Proof) -> Spread:
    """How far the gradients of `proof` in update 0 are from `one`; a stage without any is left out."""
    num = proof.problem.arithmetic
    error = ulps = Fraction(0)
    differing = entries = 0
    for mine, theirs in zip(gradients_of(proof), one, strict=True):
        if mine is None or theirs is None:
            continue
        for found, expected in zip(mine, theirs, strict=True):
            places = [(row, column) for row in range(len(found.rows)) for column in range(len(found.rows[row]))]
            pairs = [(num.value(found, *place), num.value(expected, *place)) for place in places]
            apart = max(abs(a - b) for a, b in pairs)
            error = max(error, apart)
            differing += sum(a != b for a, b in pairs)
            entries += len(pairs)
            if apart and isinstance(num, Floating):
                ulps = max(ulps, apart / num.ulp(max(abs(b) for _, b in pairs)))
    return Spread(error, ulps, differing, entries)
