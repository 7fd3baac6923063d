"""The lessons: what a schedule does not decide, each as a problem to prove, what is to be expected of it, and a paragraph about
what came out. All numbers in the text are taken from proofs; where something differs, a second computation without the
schedule says whether that explains all of it. This file chooses which lessons belong to a proof.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pptrace.proof.arithmetic import Floating
from pptrace.proof.lesson_dropout import dropout
from pptrace.proof.lesson_normalization import batch_statistics, sum_instead_of_mean, unequal_microbatches
from pptrace.proof.lesson_rounding import rounding
from pptrace.proof.lesson_weights import stale_weights

if TYPE_CHECKING:
    from collections.abc import Callable

    from pptrace.proof.choices import Choice
    from pptrace.proof.lesson import Lesson
    from pptrace.proof.problem import Problem
    from pptrace.proof.prove import Proof

_OF_NORMALIZATION = {"sum": sum_instead_of_mean, "batch": batch_statistics, "unequal": unequal_microbatches}


def lessons(proof: Proof, choice: Choice, again: Callable[[Problem], Proof]) -> list[Lesson]:
    """What there is to say about `proof`, which was made with `choice`. `again` proves the same on another problem."""
    found = []
    if isinstance(proof.problem.arithmetic, Floating) and not proof.schedule.asynchronous:
        found.append(rounding(proof, choice, again))
    if choice.normalization in _OF_NORMALIZATION:
        found.append(_OF_NORMALIZATION[choice.normalization](proof, again))
    if choice.dropout != "none":
        found.append(dropout(proof, choice, again))
    if proof.schedule.asynchronous:
        found.append(stale_weights(proof, again))
    return found
