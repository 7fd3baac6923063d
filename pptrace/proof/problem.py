"""The task that is proved: the weights, data, dropout masks and normalisation, all from one seed, and how large the exact
numbers may become. It runs nothing.
"""

from __future__ import annotations

from copy import copy
from fractions import Fraction
from random import Random
from typing import TYPE_CHECKING

from pptrace.errors import LimitError
from pptrace.proof.arithmetic import arithmetic, stack
from pptrace.proof.layers import Parameters

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pptrace.proof.arithmetic import Matrix
    from pptrace.proof.layers import Mask

WIDTH = 2
SAMPLES = 2
LEARNING_RATE = Fraction(1, 32)
MAX_BITS = 100_000
"""Exact numbers longer than this are refused."""
_DATA_TWOS = 5
DROPOUTS = ("none", "tied", "ordered", "redrawn")


class Problem:
    """A model of `num_stages` slices and its data: `samples[m]` samples in microbatch m, the same sizes in every step.

    `share(m)` is the factor that the gradient of microbatch m (a mean over its samples) gets when it is accumulated:
    1/M, unless a lesson sets `shares`. `dropout`: "none", "tied" (masks belong to samples), "ordered" (one generator,
    drawn from in order of execution) or "redrawn" (tied, but a recomputation draws anew). `batch_statistics` takes the
    batch's mean off every slice's input.
    """

    def __init__(
        self,
        num_stages: int,
        num_microbatches: int,
        *,
        arithmetic_name: str = "exact",
        seed: int = 0,
        samples: tuple[int, ...] | None = None,
        shares: tuple[Fraction, ...] | None = None,
        dropout: str = "none",
        batch_statistics: bool = False,
    ) -> None:
        self.num_stages = num_stages
        self.num_microbatches = num_microbatches
        self.arithmetic = arithmetic(arithmetic_name)
        self.seed = seed
        self.samples = samples or (SAMPLES,) * num_microbatches
        self.own_shares = shares is not None
        self.shares = shares or (Fraction(1, num_microbatches),) * num_microbatches
        self.dropout = dropout
        self.batch_statistics = batch_statistics
        self.rate = LEARNING_RATE
        self.weights = tuple(self._initial(stage) for stage in range(num_stages))

    def _initial(self, stage: int) -> Parameters:
        bits = Random(f"{self.seed} weights {stage}").getrandbits
        twos = weight_twos(self.num_stages)
        rows = [[2 * bits(3) - 7 for _ in range(WIDTH)] for _ in range(WIDTH + 1)]
        num = self.arithmetic
        return Parameters(num.dyadic(rows[:WIDTH], twos), num.dyadic(rows[WIDTH:], twos))

    def data(self, step: int, microbatch: int) -> tuple[Matrix, Matrix]:
        """(inputs, targets) of one microbatch."""
        bits = Random(f"{self.seed} data {step} {microbatch}").getrandbits
        count = self.samples[microbatch]
        rows = [[2 * bits(6) - 63 for _ in range(WIDTH)] for _ in range(2 * count)]
        num = self.arithmetic
        return num.dyadic(rows[:count], _DATA_TWOS), num.dyadic(rows[count:], _DATA_TWOS)

    def batch(self, owners: Iterable[tuple[int, int]]) -> tuple[Matrix, Matrix]:
        """(inputs, targets) of several microbatches, by (step, microbatch), as one batch."""
        parts = [self.data(step, microbatch) for step, microbatch in owners]
        return stack([part[0] for part in parts]), stack([part[1] for part in parts])

    def averaged_over(self, count: int) -> Problem:
        """The same with 1/count as every share, where updates have `count` microbatches; shares of a lesson stay."""
        if self.own_shares:
            return self
        averaged = copy(self)
        averaged.shares = (Fraction(1, count),) * self.num_microbatches
        return averaged

    def changed(self, *, shares: tuple[Fraction, ...] | None = None, dropout: str | None = None) -> Problem:
        """The same model and data with other shares or other dropout."""
        other = copy(self)
        if shares is not None:
            other.shares, other.own_shares = shares, True
        if dropout is not None:
            other.dropout = dropout
        return other

    def masks(self) -> Masks | None:
        """A new source of dropout masks, or None without dropout."""
        return None if self.dropout == "none" else Masks(self)


class Masks:
    """Dropout masks, half of the entries kept: tied to samples, or drawn in the order in which they are asked for."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.stream = Random(f"{problem.seed} masks")

    def mask(self, stage: int, owners: Iterable[tuple[int, int]], *, again: bool = False) -> Mask:
        """The mask of `stage` for the samples of the microbatches `owners`, given by (step, microbatch); `again` where a
        forward is recomputed."""
        tied = self.problem.dropout == "tied" or (self.problem.dropout == "redrawn" and not again)
        rows: Mask = []
        for step, microbatch in owners:
            source = self.stream
            if tied:
                source = Random(f"{self.problem.seed} mask {step} {stage} {microbatch}")
            rows += [[2 * source.getrandbits(1) for _ in range(WIDTH)] for _ in range(self.problem.samples[microbatch])]
        return rows


def weight_twos(num_stages: int) -> int:
    """Weights are odd / 2^this: smaller in deeper models, so that activations do not grow with depth."""
    return 4 + max(0, (num_stages - 1).bit_length() - 3)


def estimated_bits(num_stages: int, num_microbatches: int, num_updates: int) -> int:
    """About how long the longest number of an exact run is after `num_updates` updates.

    A gradient is a product of one weight per slice on the way out and one on the way back, so that the length grows by a
    factor of 2S with every update.
    """
    weight = weight_twos(num_stages)
    longest = 0
    for _ in range(num_updates):
        longest = 2 * num_stages * (weight + 2) + 2 * _DATA_TWOS + num_microbatches.bit_length() + 8
        if longest > MAX_BITS:
            break
        weight = longest
    return longest


def require_short_numbers(num_stages: int, num_microbatches: int, num_updates: int) -> None:
    """Raise `LimitError` where exact numbers would pass MAX_BITS; `num_microbatches` is how many an update has."""
    bits = estimated_bits(num_stages, num_microbatches, num_updates)
    if bits > MAX_BITS:
        hint = " (every microbatch is one here)" if num_microbatches == 1 else ""
        message = (
            f"exact numbers grow with every update: {num_updates} updates of {num_stages} stages need more than "
            f"{MAX_BITS:,} bits each (estimated); use --arithmetic float64, or fewer updates{hint}"
        )
        raise LimitError(message)
