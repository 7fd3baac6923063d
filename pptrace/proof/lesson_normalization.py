"""The lessons of normalisation: a sum instead of a mean, microbatches of unequal sizes, statistics of a microbatch."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from pptrace.proof import layers
from pptrace.proof.lesson import MOST_COLUMNS, Lesson, Row, decimal, some, without_stages, worst

if TYPE_CHECKING:
    from collections.abc import Callable

    from pptrace.proof.arithmetic import Matrix
    from pptrace.proof.problem import Problem
    from pptrace.proof.prove import Proof


def sum_instead_of_mean(proof: Proof, again: Callable[[Problem], Proof]) -> Lesson:
    """Microbatch gradients added without the factor that makes them a mean."""
    num, factor = proof.problem.arithmetic, Fraction(len(proof.updates[0]))
    expected = proof.reference.gradients[0]
    exact = all(
        layers.same(num, gradient.total, layers.times(num, expected[copy[1]], factor))
        for (copy, update), gradient in proof.machine.updates.reduced.items()
        if update == 0
    )
    claim = (
        f"every gradient of update 0 is exactly {factor} times that of the unsplit step"
        if exact
        else f"the gradients of update 0 are not exactly {factor} times those of the unsplit step"
    )
    explains, evidence = without_stages(proof, again, "the missing factor makes")
    text = (
        f"Each microbatch's loss is a mean over its samples, and its gradient was added without the factor 1/{factor} "
        f"(microbatches in an update): {claim}. Plain gradient descent then takes steps that are {factor} times too long, "
        "and the number of microbatches changes the training; an optimizer that divides by the gradient's size hides it, "
        "and a gradient clip or weight decay brings it back.",
        evidence,
    )
    return Lesson("sum", "equal" if factor == 1 else "differs", text, explains=explains)


def unequal_microbatches(proof: Proof, again: Callable[[Problem], Proof]) -> Lesson:
    """1/M where microbatches have unequal numbers of samples."""
    problem = proof.problem
    total = sum(problem.samples)
    sizes = " ".join(map(str, problem.samples[:8])) + (" ..." if len(problem.samples) > 8 else "")
    uneven = any(len({problem.samples[microbatch] for _, microbatch in owners}) > 1 for owners in proof.updates)
    weighted = (
        "With every microbatch of an update weighted alike the samples of small ones count for more than the others: "
        f"gradients differ from the mean over all samples by up to {decimal(worst(proof.comparison.gradients))}."
        if uneven
        else "Those of one update are alike, so that weighting them alike is right."
    )
    begins = f"The microbatches hold {sizes} samples. {weighted}"
    expects = "differs" if uneven else "equal"
    if proof.schedule.asynchronous:
        explains, evidence = without_stages(proof, again, "weights 1/M and the age of the weights make")
        return Lesson("unequal", expects, (begins, evidence), explains=explains)
    tied = problem.dropout if problem.dropout in ("none", "tied") else "tied"
    mended = again(problem.changed(shares=tuple(Fraction(count, total) for count in problem.samples), dropout=tied))
    sentence = f"With each microbatch weighted by its samples (n/{total}) instead: {mended.sentence()}."
    return Lesson("unequal", expects, (begins, sentence), explains=mended.proved)


def batch_statistics(proof: Proof, again: Callable[[Problem], Proof]) -> Lesson:
    """Statistics of a microbatch are not those of the whole batch."""
    num = proof.problem.arithmetic
    stages = some(list(range(proof.problem.num_stages)), MOST_COLUMNS)
    rows = []
    for label, means in _running_means(proof).items():
        found = [means.get(stage) for stage in stages]
        rows.append(Row(label, tuple("-" if mean is None else decimal(num.value(mean, 0, 0)) for mean in found)))
    same = all(
        (mean := proof.reference.means[copy[1]]) is not None and num.equal(mean, found)
        for copy, found in proof.machine.means.items()
    )
    explains, evidence = without_stages(proof, again, "statistics make")
    text = (
        "Every slice takes the mean of its batch off its input (the mean only, so that numbers stay exact; a variance would "
        "differ in the same way). In the pipeline a batch is a microbatch, in the unsplit step it is all of them: "
        f"outputs differ by up to {decimal(proof.comparison.outputs.largest_error)}, gradients by up to "
        f"{decimal(worst(proof.comparison.gradients))}. No order of the ops can mend that.",
        evidence,
        f"The running means (momentum 1/2) {'are the same' if same else 'differ too'}: the unsplit step moves them once per "
        "step, each copy of a stage once per forward that it runs"
        + ("; recomputed forwards do not move them again" if proof.machine.recomputed else "")
        + ". Their first entries at the end:",
    )
    single = all(len(owners) == 1 for owners in proof.updates)
    columns = tuple(f"stage {stage}" for stage in stages)
    return Lesson("batch", "equal" if single else "differs", text, columns, tuple(rows), explains=explains)


def _running_means(proof: Proof) -> dict[str, dict[int, Matrix]]:
    """The running means by stage: of the one copy that there is, or of both, and of the unsplit step."""
    placement = proof.schedule.placement
    found: dict[str, dict[int, Matrix]] = {}
    for (rank, stage), mean in proof.machine.means.items():
        direction = "going down" if rank == placement.ranks[stage] else "going up"
        label = f"copy {direction}" if placement.bidirectional else "this schedule"
        found.setdefault(label, {})[stage] = mean
    unsplit = {stage: mean for stage, mean in enumerate(proof.reference.means) if mean is not None}
    return {**found, "unsplit": unsplit}
