"""The layer functions: their gradients are the slopes of the loss, exactly, by central differences."""

from fractions import Fraction

import pytest

from pptrace.proof import layers
from pptrace.proof.arithmetic import Exact, Floating, Matrix
from pptrace.proof.problem import Problem
from pptrace.proof.reference import unsplit

EXACT = Exact()
TWOS = 60
H = Fraction(1, 2**TWOS)
"""So small that no entry changes its side of the bend; within one piece the loss is quadratic, a central difference exact."""


def nudged(parameters: layers.Parameters, name: str, row: int, column: int, by: int) -> layers.Parameters:
    matrix = getattr(parameters, name)
    rows = [[0] * len(line) for line in matrix.rows]
    rows[row][column] = by
    return parameters._replace(**{name: EXACT.add(matrix, Matrix(rows, TWOS))})


def total_loss(problem: Problem, weights: list[layers.Parameters], owners: list[tuple[int, int]]) -> Fraction:
    x, target = problem.batch(owners)
    masks = problem.masks()
    for stage, parameters in enumerate(weights):
        mask = masks.mask(stage, owners) if masks else None
        x, _ = layers.forward(EXACT, parameters, x, mask=mask, centred=problem.batch_statistics)
    return EXACT.value(layers.loss(EXACT, x, target), 0, 0)


@pytest.mark.parametrize(
    "options", [{}, {"dropout": "tied"}, {"batch_statistics": True}, {"samples": (1, 2, 1)}], ids=str
)
def test_the_unsplit_gradient_is_the_central_difference_of_the_loss_at_every_parameter(options):
    problem = Problem(3, 3, **options)
    owners = [(0, 0), (0, 1), (0, 2)]
    gradients = unsplit(problem, [owners]).gradients[0]
    for stage in range(3):
        for name in ("matrix", "bias"):
            shape = getattr(problem.weights[stage], name).rows
            for row in range(len(shape)):
                for column in range(len(shape[row])):
                    losses = []
                    for by in (1, -1):
                        weights = list(problem.weights)
                        weights[stage] = nudged(weights[stage], name, row, column, by)
                        losses.append(total_loss(problem, weights, owners))
                    slope = (losses[0] - losses[1]) / (2 * H)
                    assert EXACT.value(getattr(gradients[stage], name), row, column) == slope


def test_the_gradient_at_the_input_is_the_central_difference_of_the_loss():
    problem = Problem(1, 1)
    x, target = problem.data(0, 0)
    y, saved = layers.forward(EXACT, problem.weights[0], x)
    at_x, _ = layers.backward_input(EXACT, problem.weights[0], saved, layers.loss_gradient(EXACT, y, target))
    for row in range(2):
        for column in range(2):
            losses = []
            for by in (1, -1):
                rows = [[0, 0], [0, 0]]
                rows[row][column] = by
                moved, _ = layers.forward(EXACT, problem.weights[0], EXACT.add(x, Matrix(rows, TWOS)))
                losses.append(EXACT.value(layers.loss(EXACT, moved, target), 0, 0))
            assert EXACT.value(at_x, row, column) == (losses[0] - losses[1]) / (2 * H)


def test_both_halves_together_are_the_full_backward():
    problem = Problem(1, 1)
    x, target = problem.data(0, 0)
    y, saved = layers.forward(EXACT, problem.weights[0], x)
    gradient = layers.loss_gradient(EXACT, y, target)
    at_x, of_slice = layers.backward(EXACT, problem.weights[0], saved, gradient)
    half_x, pending = layers.backward_input(EXACT, problem.weights[0], saved, gradient)
    assert EXACT.equal(at_x, half_x)
    assert layers.same(EXACT, of_slice, layers.backward_weights(EXACT, pending))


def test_one_number_by_hand():
    """x = 3/2, A = 1/2, bias = -1: z = -1/4 lies below, h = -1/8, y = 11/8; target 1: loss 9/128, slopes as written."""
    weights = layers.Parameters(EXACT.dyadic([[2]], 2), EXACT.dyadic([[-1]], 0))
    x, target = EXACT.dyadic([[3]], 1), EXACT.dyadic([[1]], 0)
    y, saved = layers.forward(EXACT, weights, x)
    assert EXACT.value(y, 0, 0) == Fraction(11, 8)
    assert EXACT.value(layers.loss(EXACT, y, target), 0, 0) == Fraction(9, 128)
    at_x, of_slice = layers.backward(EXACT, weights, saved, layers.loss_gradient(EXACT, y, target))
    assert EXACT.value(of_slice.bias, 0, 0) == Fraction(3, 16)
    assert EXACT.value(of_slice.matrix, 0, 0) == Fraction(9, 32)
    assert EXACT.value(at_x, 0, 0) == Fraction(3, 8) + Fraction(3, 32)


def test_sums_over_unlike_denominators_are_exact():
    third = EXACT.scaled(EXACT.dyadic([[1]], 0), Fraction(1, 3))
    tenth = EXACT.scaled(EXACT.dyadic([[1]], 0), Fraction(1, 10))
    assert EXACT.value(EXACT.add(third, tenth), 0, 0) == Fraction(13, 30)
    assert EXACT.equal(EXACT.add(third, third, -1), EXACT.dyadic([[0]], 5))


def test_float32_rounds_every_sum_to_24_bits():
    num = Floating(24)
    one, small = num.dyadic([[1]], 0), num.dyadic([[1]], 24)
    assert num.add(one, small).rows == [[1.0]]
    assert num.add(one, num.add(small, small)).rows == [[1.0 + 2.0**-23]]
    assert num.rounded(1e300) == float("inf")


def test_float32_rounds_products_before_sums():
    """(1 + 2^-23)^2 = 1 + 2^-22 + 2^-46 loses its last bit, so that nothing is left beside -(1 + 2^-22)."""
    num = Floating(24)
    x = Matrix([[1.0 + 2.0**-22, 1.0 + 2.0**-23]])
    a = Matrix([[-1.0, 1.0 + 2.0**-23]])
    assert num.times_transposed(x, a).rows == [[0.0]]
    assert Floating(53).times_transposed(x, a).rows == [[2.0**-46]]


def test_an_ulp_of_float32_at_1_is_2_to_the_minus_23():
    assert Floating(24).ulp(Fraction(1)) == Fraction(1, 2**23)
    assert Floating(53).ulp(Fraction(3, 2)) == Fraction(1, 2**52)


@pytest.mark.parametrize("options", [{}, {"dropout": "tied"}, {"batch_statistics": True}], ids=str)
def test_float64_computes_the_same_numbers_where_nothing_is_rounded(options):
    """One slice of short dyadic numbers: every product and sum fits 53 bits."""
    exact, rounded = Problem(1, 2, **options), Problem(1, 2, arithmetic_name="float64", **options)
    owners = [[(0, 0), (0, 1)]]
    for found, expected in zip(
        unsplit(rounded, owners).gradients[0][0], unsplit(exact, owners).gradients[0][0], strict=True
    ):
        for row in range(len(expected.rows)):
            for column in range(2):
                assert rounded.arithmetic.value(found, row, column) == EXACT.value(expected, row, column)
