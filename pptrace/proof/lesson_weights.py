"""The lesson of schedules without a flush: weight stashing is not the synchronous update, by how much, version by version."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from pptrace.proof.lesson import MOST_COLUMNS, MOST_ROWS, Lesson, Row, decimal, some, without_stages

if TYPE_CHECKING:
    from collections.abc import Callable

    from pptrace.proof.problem import Problem
    from pptrace.proof.prove import Proof


def stale_weights(proof: Proof, again: Callable[[Problem], Proof]) -> Lesson:
    """The weights beside those of the same updates one after another, and how old the weights of a gradient are."""
    updates = len(proof.updates)
    per_stage: dict[tuple[int, int], Fraction] = {}
    for part in proof.comparison.weights:
        key = (part.update or 0, part.stage or 0)
        per_stage[key] = max(per_stage.get(key, Fraction(0)), part.largest_error)
    stages = some(list(range(proof.problem.num_stages)), MOST_COLUMNS)
    ages = _ages(proof)
    rows = [Row("updates old", tuple(str(ages.get(stage, 0)) for stage in stages))]
    rows += [
        Row(f"version {update + 1}", tuple(decimal(per_stage.get((update, stage), Fraction(0))) for stage in stages))
        for update in some(list(range(updates)), MOST_ROWS)
    ]
    oldest = max(ages.values(), default=0)
    explains, evidence = without_stages(proof, again, "the age of the weights makes")
    text = (
        "Without a flush a forward uses the weights that its rank has by then, and its backward the same stashed version, "
        "but the update is applied to the newest: a gradient is taken at weights that are up to "
        f"{oldest} update{'s' * (oldest != 1)} old. Compared with the same microbatches and the same updates one after "
        "another, unsplit, the weights differ as below (largest entry, by version and stage; 0 is exactly equal).",
        evidence.replace("One microbatch after another", "With just those ages, one microbatch after another", 1),
    )
    expects = "differs" if oldest else "equal"
    columns = tuple(f"stage {stage}" for stage in stages)
    return Lesson("weight stashing", expects, text, columns, tuple(rows), explains=explains)


def _ages(proof: Proof) -> dict[int, int]:
    """By stage: how many updates older than the newest that it could have used the weights of a gradient are, at most."""
    update_of = {owner: update for update, owners in enumerate(proof.updates) for owner in owners}
    ages: dict[int, int] = {}
    for (stage, owner), version in proof.machine.versions.items():
        ages[stage] = max(ages.get(stage, 0), update_of[owner] - version)
    return ages
