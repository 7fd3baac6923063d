"""What a lesson is made of: its noun, its evidence that the schedule itself is right, and how its numbers are written."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from pptrace.proof.compare import compare
from pptrace.proof.reference import one_by_one
from pptrace.rationals import text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pptrace.proof.compare import Compared
    from pptrace.proof.problem import Problem
    from pptrace.proof.prove import Proof

MOST_ROWS, MOST_COLUMNS = 24, 8
"""Lines and columns of a table; of more, the first and the last are shown."""
MOST_EXACT_CHARACTERS = 20
MOST_EXACT_BITS = 80
"""Numbers that are longer than these are written as decimals."""


class Row(NamedTuple):
    """One line of a lesson's table: a label and its cells, as text, under the lesson's `columns`."""

    label: str
    cells: tuple[str, ...]


class Lesson(NamedTuple):
    """A paragraph about a proof. `expects` is "equal" or "differs": what has to come out for reasons that the text gives.
    `explains`: the schedule has been shown to have no part in what differs."""

    name: str
    expects: str
    text: tuple[str, ...]
    columns: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    explains: bool = False


def explained(found: Sequence[Lesson]) -> bool:
    """Whether a difference is to be expected, and nothing but what is to be expected differs."""
    differing = [lesson for lesson in found if lesson.expects == "differs"]
    return bool(differing) and all(lesson.explains for lesson in differing)


def without_stages(proof: Proof, again: Callable[[Problem], Proof], what: str) -> tuple[bool, str]:
    """Whether the schedule computes just what the same microbatches do one after another, and a sentence that says it.
    `what` is what then makes the difference from the unsplit step, with its verb. Masks are tied to samples for it."""
    if proof.problem.dropout not in ("none", "tied"):
        proof = again(proof.problem.changed(dropout="tied"))
    versions = proof.machine.versions if proof.schedule.asynchronous else None
    same = compare(proof.machine, one_by_one(proof.problem, proof.updates, versions), proof.updates)
    right = same.equal and not proof.faults and not proof.refused
    begins = "One microbatch after another through the whole model, without stages,"
    if right:
        exactly = "exactly " if proof.problem.arithmetic.name == "exact" else ""
        rounding = "" if exactly else " up to rounding"
        difference = "" if proof.comparison.equal else f": {what} all the difference"
        return True, f"{begins} gives {exactly}the gradients of this schedule{rounding}{difference}."
    return False, f"{begins} gives other gradients than this schedule: it has a fault of its own as well."


def worst(parts: tuple[Compared, ...]) -> Fraction:
    return max((part.largest_error for part in parts), default=Fraction(0))


def some(numbers: list[int], most: int) -> list[int]:
    """All, or the first and the last of them."""
    return numbers if len(numbers) <= most else numbers[: most - most // 4] + numbers[-(most // 4) :]


def number_text(value: Fraction) -> str:
    """Exact where that is short, else `~` and six digits."""
    exact = (
        text_of(value) if max(value.numerator.bit_length(), value.denominator.bit_length()) < MOST_EXACT_BITS else ""
    )
    return exact if exact and len(exact) <= MOST_EXACT_CHARACTERS else f"~{float(value):.6g}"


def decimal(value: Fraction) -> str:
    """Four significant digits, for text; 0 only for zero."""
    return "0" if value == 0 else f"{float(value):.4g}"
