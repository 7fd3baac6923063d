"""The lessons: what a schedule does not decide, each as a problem to prove, what is to be expected of it, and a paragraph about
what came out. All numbers in the text are taken from the proof.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from pptrace.errors import ParameterError
from pptrace.proof import layers
from pptrace.proof.arithmetic import Floating
from pptrace.proof.problem import DROPOUTS, Problem
from pptrace.proof.prove import Proof, prove
from pptrace.rationals import text_of
from pptrace.schedules.registry import Params, build

if TYPE_CHECKING:
    from pptrace.costs import Costs
    from pptrace.model import Schedule
    from pptrace.proof.compare import Compared
    from pptrace.timeline import Timeline

MOST_ROWS, MOST_COLUMNS = 24, 8
"""Versions and stages of a table; of more, the first and the last are shown."""
MOST_EXACT_CHARACTERS = 20
MOST_EXACT_BITS = 80
"""Numbers that are longer than these are written as decimals."""
NORMALIZATIONS = ("mean", "sum", "batch", "unequal")


class Choice(NamedTuple):
    """What is proved: one of ARITHMETICS, NORMALIZATIONS and DROPOUTS, and the seed of weights and data."""

    arithmetic: str = "exact"
    normalization: str = "mean"
    dropout: str = "none"
    seed: int = 0


class Row(NamedTuple):
    """One line of a lesson's table: a label and its cells, as text, under the lesson's `columns`."""

    label: str
    cells: tuple[str, ...]


class Lesson(NamedTuple):
    """A paragraph about a proof. `expects` is "equal" or "differs": what has to come out for reasons that the text gives."""

    name: str
    expects: str
    text: tuple[str, ...]
    columns: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()


def problem_for(num_stages: int, num_microbatches: int, choice: Choice) -> Problem:
    """The problem of a choice. Raises `ParameterError` for words that are none of the listed ones."""
    for word, known, option in (
        (choice.normalization, NORMALIZATIONS, "--normalization"),
        (choice.dropout, DROPOUTS, "--dropout"),
    ):
        if word not in known:
            message = f"{option} is {', '.join(known)}, got {word[:40]!r}"
            raise ParameterError(message)
    samples = None
    shares = None
    if choice.normalization == "sum":
        shares = (Fraction(1),) * num_microbatches
    if choice.normalization == "unequal":
        samples = unequal_samples(num_microbatches)
    return Problem(
        num_stages,
        num_microbatches,
        arithmetic_name=choice.arithmetic,
        seed=choice.seed,
        samples=samples,
        shares=shares,
        dropout=choice.dropout,
        batch_statistics=choice.normalization == "batch",
    )


def unequal_samples(num_microbatches: int) -> tuple[int, ...]:
    """2 samples, 1 sample, 2 samples, ..."""
    return tuple(2 - microbatch % 2 for microbatch in range(num_microbatches))


def lessons(proof: Proof, choice: Choice, subject: Schedule | Timeline, costs: Costs | None = None) -> list[Lesson]:
    """What there is to say about `proof`, which was made with `choice` from `subject` and `costs`."""
    found = []
    if isinstance(proof.problem.arithmetic, Floating) and not proof.schedule.asynchronous:
        found.append(rounding(proof, choice))
    if choice.normalization == "sum":
        found.append(sum_instead_of_mean(proof))
    if choice.normalization == "batch":
        found.append(batch_statistics(proof))
    if choice.normalization == "unequal":
        found.append(unequal_microbatches(proof, subject, costs))
    if choice.dropout != "none":
        found.append(dropout(proof))
    if proof.schedule.asynchronous:
        found.append(stale_weights(proof))
    return found


def rounding(proof: Proof, choice: Choice) -> Lesson:
    """The same gradients up to the order of summation: how many ulps, beside the orders that everybody knows."""
    num_stages, num = proof.problem.num_stages, proof.problem.num_microbatches
    problem = problem_for(num_stages, num, choice._replace(normalization="mean", dropout="none"))
    rows = [_ulp_row("this schedule", proof)]
    for label, name, order in (
        ("gpipe fifo", "gpipe", "fifo"),
        ("gpipe lifo", "gpipe", "lifo"),
        ("1f1b", "1f1b", None),
    ):
        schedule = build(name, Params(num_stages, num, order=order))
        rows.append(_ulp_row(label, prove(schedule, problem=problem)))
    name = proof.problem.arithmetic.name
    text = (
        f"{name} rounds every product and every sum, so that a gradient depends on the order in which its microbatches "
        "are added. That is not a fault of a schedule: no order is the right one, and the unsplit step rounds too.",
        "Below: the largest difference from the unsplit step of the same arithmetic in update 0, in units in the last place "
        "(ulp) of the largest entry of its matrix, and how many entries of all gradients differ at all.",
    )
    return Lesson(name, "equal", text, ("ulps", "entries that differ"), tuple(rows))


def _ulp_row(label: str, proof: Proof) -> Row:
    first = [part for part in proof.comparison.gradients if part.update == 0]
    worst = max(part.ulps or Fraction(0) for part in first)
    differing = entries = 0
    for (copy, update), gradient in proof.machine.reduced.items():
        if update == 0:
            for found, expected in zip(gradient.total, proof.reference.gradients[0][copy[1]], strict=True):
                for row, line in zip(found.rows, expected.rows, strict=True):
                    differing += sum(x != y for x, y in zip(row, line, strict=True))
                    entries += len(row)
    return Row(label, (f"{float(worst):g}", f"{differing} of {entries}"))


def sum_instead_of_mean(proof: Proof) -> Lesson:
    """Microbatch gradients added without 1/M."""
    num, factor = proof.problem.arithmetic, Fraction(proof.problem.num_microbatches)
    expected = proof.reference.gradients[0]
    exact = all(
        layers.same(num, gradient.total, layers.times(num, expected[copy[1]], factor))
        for (copy, update), gradient in proof.machine.reduced.items()
        if update == 0
    )
    claim = (
        f"every gradient of update 0 is exactly M = {factor} times that of the unsplit step"
        if exact
        else f"the gradients are not even M = {factor} times those of the unsplit step"
    )
    text = (
        f"Each microbatch's loss is a mean over its samples, and the gradients were added without the factor 1/M: {claim}. "
        "Plain gradient descent then takes steps that are M times too long, and M changes the training; an optimizer that "
        "divides by the gradient's size hides it, and a gradient clip or weight decay brings it back.",
    )
    return Lesson("sum", "equal" if factor == 1 else "differs", text)


def batch_statistics(proof: Proof) -> Lesson:
    """Statistics of a microbatch are not those of the whole batch."""
    single = proof.problem.num_microbatches == 1
    num = proof.problem.arithmetic
    means = proof.reference.means
    same = all(
        (mean := means[copy[1]]) is not None and num.equal(mean, found) for copy, found in proof.machine.means.items()
    )
    text = (
        "Every slice takes the mean of its batch off its input (the mean only, so that numbers stay exact; a variance would "
        "differ in the same way). In the pipeline a batch is a microbatch, in the unsplit step it is all of them: "
        f"outputs differ by up to {_decimal(proof.comparison.outputs.largest_error)}, gradients by up to "
        f"{_decimal(_worst(proof.comparison.gradients))}. No order of the ops can mend that, and it is no fault of this one.",
        f"The running means (momentum 1/2) {'are the same' if same else 'differ too'}: the unsplit step moves them once per "
        "step, each copy of a stage once per forward that it runs"
        + (", and recomputed forwards must not move them again." if proof.machine.recomputed else "."),
    )
    return Lesson("batch", "equal" if single else "differs", text)


def unequal_microbatches(proof: Proof, subject: Schedule | Timeline, costs: Costs | None) -> Lesson:
    """1/M where microbatches have unequal numbers of samples."""
    problem = proof.problem
    total = sum(problem.samples)
    right = Problem(
        problem.num_stages,
        problem.num_microbatches,
        arithmetic_name=problem.arithmetic.name,
        seed=problem.seed,
        samples=problem.samples,
        shares=tuple(Fraction(count, total) for count in problem.samples),
        dropout=problem.dropout,
    )
    mended = prove(subject, costs, steps=len(proof.updates), problem=right)
    sizes = " ".join(map(str, problem.samples[:8])) + (" ..." if len(problem.samples) > 8 else "")
    text = (
        f"The microbatches hold {sizes} samples. With every microbatch weighted 1/M the samples of small ones count for more "
        f"than the others: gradients differ from the mean over all {total} samples by up to "
        f"{_decimal(_worst(proof.comparison.gradients))}.",
        f"With each microbatch weighted by its samples (n/{total}) instead: {mended.sentence()}.",
    )
    return Lesson("unequal", "equal" if len(set(problem.samples)) == 1 else "differs", text)


def dropout(proof: Proof) -> Lesson:
    """Masks that belong to samples, or masks that belong to a place in the order of execution."""
    tied = proof.problem.dropout == "tied"
    recomputes = bool(proof.machine.recomputed)
    if tied:
        replayed = "Recomputation replays the masks of its forward. " if recomputes else ""
        sentence = (
            "Each mask is made from (seed, step, stage, microbatch): whichever op asks for it, whenever, gets the same one. "
            f"{replayed}The schedule then has no part in the result."
        )
        return Lesson("dropout tied", "equal", (sentence,))
    text: tuple[str, ...] = (
        "Masks come from one generator, drawn in the order in which forwards run. The unsplit step draws stage by stage, the "
        "schedule in its own order, so that samples meet other masks and the gradients are those of another random draw: "
        f"they differ by up to {_decimal(_worst(proof.comparison.gradients))}.",
    )
    if recomputes:
        text += (
            "Recomputation draws again: a backward then goes through masks that its forward never used, which is not the "
            "gradient of anything.",
        )
    single = proof.problem.num_stages == 1
    return Lesson("dropout ordered", "equal" if single and not recomputes else "differs", text)


def stale_weights(proof: Proof) -> Lesson:
    """Weight stashing is not the synchronous update: by how much, version by version."""
    updates = len(proof.updates)
    per_stage: dict[tuple[int, int], Fraction] = {}
    for part in proof.comparison.weights:
        key = (part.update or 0, part.stage or 0)
        per_stage[key] = max(per_stage.get(key, Fraction(0)), part.largest_error)
    stages = _some(list(range(proof.problem.num_stages)), MOST_COLUMNS)
    rows = [
        Row(f"version {update + 1}", tuple(_decimal(per_stage.get((update, stage), Fraction(0))) for stage in stages))
        for update in _some(list(range(updates)), MOST_ROWS)
    ]
    text = (
        "Without a flush a forward uses the weights that its rank has by then, and its backward the same stashed version, "
        "but the update is applied to the newest: the gradient is taken at weights that are several updates old. Compared "
        "with the same microbatches and the same updates one after another, unsplit, the weights differ as below (largest "
        "entry, by version and stage; 0 is exactly equal).",
    )
    expects = "equal" if proof.problem.num_stages == 1 or updates == 1 else "differs"
    return Lesson("weight stashing", expects, text, tuple(f"stage {stage}" for stage in stages), tuple(rows))


def _some(numbers: list[int], most: int) -> list[int]:
    """All, or the first and the last of them."""
    return numbers if len(numbers) <= most else numbers[: most - most // 4] + numbers[-(most // 4) :]


def _worst(parts: tuple[Compared, ...]) -> Fraction:
    return max((part.largest_error for part in parts), default=Fraction(0))


def number_text(value: Fraction) -> str:
    """Exact where that is short, else `~` and six digits."""
    exact = (
        text_of(value) if max(value.numerator.bit_length(), value.denominator.bit_length()) < MOST_EXACT_BITS else ""
    )
    return exact if exact and len(exact) <= MOST_EXACT_CHARACTERS else f"~{float(value):.6g}"


def _decimal(value: Fraction) -> str:
    """Four significant digits, for text; 0 only for zero."""
    return "0" if value == 0 else f"{float(value):.4g}"
