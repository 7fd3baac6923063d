"""The layer functions of the small model, and nothing else: one slice of it, forwards, backwards, and the loss.

A slice maps n samples of width d to n samples of width d:

    z = x A' + bias        h = z where z > 0, z/2 elsewhere        y = x + h

so that every number stays a rational. With dropout h is multiplied by a mask of 0 and 2; with batch statistics A sees x less
the mean of its batch. The loss is half the squared error, averaged over the samples. These functions know neither schedule
nor stage numbers; the executor and the unsplit reference share them and no other code.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pptrace.proof.arithmetic import Arithmetic, Matrix

Mask = list[list[int]]


class Parameters(NamedTuple):
    """The parameters of one slice, or their gradients: `matrix` d x d, `bias` 1 x d."""

    matrix: Matrix
    bias: Matrix


class Saved(NamedTuple):
    """What a forward saves for its backward: its input (as A saw it), where z was not above zero, the dropout mask."""

    x: Matrix
    below: list[list[bool]]
    mask: Mask | None
    centred: bool


class Pending(NamedTuple):
    """What an input backward leaves for the weight backward: the slice's input and the gradient at z."""

    x: Matrix
    gradient: Matrix


def forward(
    num: Arithmetic, weights: Parameters, x: Matrix, *, mask: Mask | None = None, centred: bool = False
) -> tuple[Matrix, Saved]:
    """(y, what the backward needs). `centred` takes the mean of this batch off the input of A."""
    seen = _less_mean(num, x) if centred else x
    z = num.add(num.times_transposed(seen, weights.matrix), weights.bias)
    below = [[entry <= 0 for entry in row] for row in z.rows]
    h = num.halved_where(z, below)
    if mask is not None:
        h = num.masked(h, mask)
    return num.add(x, h), Saved(seen, below, mask, centred)


def backward_input(num: Arithmetic, weights: Parameters, saved: Saved, gradient: Matrix) -> tuple[Matrix, Pending]:
    """From the gradient at y: (the gradient at x, what the weight backward needs)."""
    at_z = num.halved_where(gradient if saved.mask is None else num.masked(gradient, saved.mask), saved.below)
    through = num.times(at_z, weights.matrix)
    if saved.centred:
        through = _less_mean(num, through)
    return num.add(gradient, through), Pending(saved.x, at_z)


def backward_weights(num: Arithmetic, pending: Pending) -> Parameters:
    """The gradients of the slice's parameters, summed over the samples."""
    return Parameters(num.outer(pending.gradient, pending.x), num.column_sums(pending.gradient))


def backward(num: Arithmetic, weights: Parameters, saved: Saved, gradient: Matrix) -> tuple[Matrix, Parameters]:
    """The full backward: (the gradient at x, the gradients of the parameters)."""
    at_x, pending = backward_input(num, weights, saved, gradient)
    return at_x, backward_weights(num, pending)


def loss(num: Arithmetic, y: Matrix, target: Matrix) -> Matrix:
    """1 x 1: half the squared error, averaged over the samples."""
    return num.scaled(num.half_squares(num.add(y, target, -1)), Fraction(1, len(y.rows)))


def loss_gradient(num: Arithmetic, y: Matrix, target: Matrix) -> Matrix:
    """The gradient of `loss` at y."""
    return num.scaled(num.add(y, target, -1), Fraction(1, len(y.rows)))


def batch_mean(num: Arithmetic, x: Matrix) -> Matrix:
    """1 x d: the mean over the samples."""
    return num.scaled(num.column_sums(x), Fraction(1, len(x.rows)))


def _less_mean(num: Arithmetic, x: Matrix) -> Matrix:
    return num.add(x, batch_mean(num, x), -1)


def plus(num: Arithmetic, a: Parameters, b: Parameters) -> Parameters:
    return Parameters(num.add(a.matrix, b.matrix), num.add(a.bias, b.bias))


def times(num: Arithmetic, a: Parameters, factor: Fraction) -> Parameters:
    return Parameters(num.scaled(a.matrix, factor), num.scaled(a.bias, factor))


def stepped(num: Arithmetic, weights: Parameters, gradient: Parameters, rate: Fraction) -> Parameters:
    """The weights after one step of gradient descent."""
    return plus(num, weights, times(num, gradient, -rate))


def same(num: Arithmetic, a: Sequence[Matrix], b: Sequence[Matrix]) -> bool:
    """Whether two groups of matrices hold the same numbers."""
    return all(num.equal(x, y) for x, y in zip(a, b, strict=True))
