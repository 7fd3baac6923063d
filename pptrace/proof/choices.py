"""What a user chooses to prove: arithmetic, normalisation, dropout, seed; and the problem that follows from it."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from pptrace.errors import ParameterError
from pptrace.proof.problem import DROPOUTS, Problem

NORMALIZATIONS = ("mean", "sum", "batch", "unequal")


class Choice(NamedTuple):
    """What is proved: one of ARITHMETICS, NORMALIZATIONS and DROPOUTS, and the seed of weights and data."""

    arithmetic: str = "exact"
    normalization: str = "mean"
    dropout: str = "none"
    seed: int = 0


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
