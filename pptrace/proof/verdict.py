"""The verdict of a proof in one line: what is equal or not, what the first fault is, whether that was to be expected."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pptrace.proof.lesson import explained

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pptrace.proof.lesson import Lesson
    from pptrace.proof.prove import Proof


def verdict(proof: Proof, found: Sequence[Lesson] = ()) -> str:
    """`proved: ...` or `not proved: ...`, in one line; where all that differs is what the lessons `found` expect, that too."""
    reasons = []
    if proof.faults:
        count, first = len(proof.faults), proof.faults[0]
        faults = "1 fault in the use of state:" if count == 1 else f"{count} faults in the use of state, the first"
        reasons.append(f"{faults} {first.code} at {first.op} ({first.at})")
    if proof.refused:
        reasons.append("the engine cannot run this order")
    if not proof.proved and explained(found):
        reasons.append("all of that is to be expected, as said above")
    but = ", but " if proof.comparison.equal else "; "
    text = but.join([proof.sentence(), "; ".join(reasons)] if reasons else [proof.sentence()])
    return f"{'proved' if proof.proved else 'not proved'}: {text}"
