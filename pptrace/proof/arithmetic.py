"""Small matrices in three arithmetics: exact rationals, float64, float32. It owns number formats and nothing of the model.

Exact matrices hold plain integers over one shared denominator, 2^twos x odd, that is never reduced: sums and products need
no greatest common divisor, which makes exact runs about as fast as floating-point ones while the numbers are short.
"""

from __future__ import annotations

from fractions import Fraction
from math import frexp, inf, isfinite, ldexp
from operator import mul
from struct import pack, unpack
from typing import TYPE_CHECKING, NamedTuple

from pptrace.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

Number = int | float
Rows = list[list[Number]]


class Matrix(NamedTuple):
    """rows / (2^twos x odd). Floating-point matrices have twos = 0 and odd = 1."""

    rows: Rows
    twos: int = 0
    odd: int = 1

    def slice(self, first: int, last: int) -> Matrix:
        """Rows first..last-1."""
        return Matrix(self.rows[first:last], self.twos, self.odd)


def split_twos(number: int) -> tuple[int, int]:
    """number = 2^twos x odd, as (twos, odd)."""
    twos = (number & -number).bit_length() - 1
    return twos, number >> twos


def stack(matrices: Sequence[Matrix]) -> Matrix:
    """The rows of all, one below the other; their denominators are the same."""
    return Matrix([row for matrix in matrices for row in matrix.rows], matrices[0].twos, matrices[0].odd)


class Exact:
    """Rational arithmetic without rounding."""

    name = "exact"

    def dyadic(self, rows: Sequence[Sequence[int]], twos: int) -> Matrix:
        return Matrix([list(row) for row in rows], twos)

    def times_transposed(self, x: Matrix, a: Matrix) -> Matrix:
        """x (n x k) times the transpose of a (m x k): n x m."""
        rows: Rows = [[sum(map(mul, row, line)) for line in a.rows] for row in x.rows]
        return Matrix(rows, x.twos + a.twos, x.odd * a.odd)

    def times(self, x: Matrix, a: Matrix) -> Matrix:
        """x (n x k) times a (k x m): n x m."""
        columns = list(zip(*a.rows, strict=True))
        rows: Rows = [[sum(map(mul, row, column)) for column in columns] for row in x.rows]
        return Matrix(rows, x.twos + a.twos, x.odd * a.odd)

    def outer(self, g: Matrix, x: Matrix) -> Matrix:
        """The transpose of g (n x m) times x (n x k): m x k, summed over the rows in order."""
        lines, columns = list(zip(*g.rows, strict=True)), list(zip(*x.rows, strict=True))
        rows: Rows = [[sum(map(mul, line, column)) for column in columns] for line in lines]
        return Matrix(rows, g.twos + x.twos, g.odd * x.odd)

    def column_sums(self, g: Matrix) -> Matrix:
        return Matrix([[sum(column) for column in zip(*g.rows, strict=True)]], g.twos, g.odd)

    def add(self, a: Matrix, b: Matrix, sign: int = 1) -> Matrix:
        """a + sign x b; a matrix of one row is added to every row."""
        a, b = _aligned(a, b)
        lines = b.rows if len(b.rows) == len(a.rows) else b.rows * len(a.rows)
        rows: Rows = [
            [x + sign * y for x, y in zip(row, line, strict=True)] for row, line in zip(a.rows, lines, strict=True)
        ]
        return Matrix(rows, a.twos, a.odd)

    def scaled(self, a: Matrix, factor: Fraction) -> Matrix:
        twos, odd = split_twos(factor.denominator)
        by = factor.numerator
        rows = a.rows if by == 1 else [[by * x for x in row] for row in a.rows]
        return Matrix(rows, a.twos + twos, a.odd * odd)

    def halved_where(self, a: Matrix, below: list[list[bool]]) -> Matrix:
        """a, with the entries marked in `below` halved."""
        rows: Rows = [
            [x if half else 2 * x for x, half in zip(*pair, strict=True)] for pair in zip(a.rows, below, strict=True)
        ]
        return Matrix(rows, a.twos + 1, a.odd)

    def masked(self, a: Matrix, mask: Sequence[Sequence[int]]) -> Matrix:
        rows: Rows = [[x * k for x, k in zip(*pair, strict=True)] for pair in zip(a.rows, mask, strict=True)]
        return Matrix(rows, a.twos, a.odd)

    def half_squares(self, a: Matrix) -> Matrix:
        """1 x 1: half the sum of the squares of all entries."""
        return Matrix([[sum(x * x for row in a.rows for x in row)]], 2 * a.twos + 1, a.odd * a.odd)

    def equal(self, a: Matrix, b: Matrix) -> bool:
        a, b = _aligned(a, b)
        return a.rows == b.rows

    def value(self, a: Matrix, row: int, column: int) -> Fraction:
        return Fraction(a.rows[row][column]) / (a.odd << a.twos)


def _aligned(a: Matrix, b: Matrix) -> tuple[Matrix, Matrix]:
    """Both over one denominator."""
    if a.twos == b.twos and a.odd == b.odd:
        return a, b
    twos = max(a.twos, b.twos)
    if a.odd % b.odd == 0:
        odd = a.odd
    elif b.odd % a.odd == 0:
        odd = b.odd
    else:
        odd = a.odd * b.odd
    return _over(a, twos, odd), _over(b, twos, odd)


def _over(a: Matrix, twos: int, odd: int) -> Matrix:
    factor = (odd // a.odd) << (twos - a.twos)
    return a if factor == 1 else Matrix([[factor * x for x in row] for row in a.rows], twos, odd)


class Floating:
    """IEEE arithmetic with every product and every sum rounded, `bits` = 53 (float64) or 24 (float32)."""

    def __init__(self, bits: int) -> None:
        self.bits = bits
        self.name = "float64" if bits == 53 else "float32"

    def rounded(self, value: float) -> float:
        """To the nearest number of the format. float64 holds products and sums of two float32 well enough that
        rounding twice is rounding once."""
        if self.bits == 53:
            return value
        try:
            result: float = unpack("f", pack("f", value))[0]
        except OverflowError:
            return inf if value > 0 else -inf
        return result

    def _dot(self, row: Sequence[Number], line: Sequence[Number]) -> float:
        if self.bits == 53:
            total = 0.0
            for x, y in zip(row, line, strict=True):
                total += x * y
            return total
        total = 0.0
        for x, y in zip(row, line, strict=True):
            total = self.rounded(total + self.rounded(x * y))
        return total

    def dyadic(self, rows: Sequence[Sequence[int]], twos: int) -> Matrix:
        return Matrix([[ldexp(x, -twos) for x in row] for row in rows])

    def times_transposed(self, x: Matrix, a: Matrix) -> Matrix:
        return Matrix([[self._dot(row, line) for line in a.rows] for row in x.rows])

    def times(self, x: Matrix, a: Matrix) -> Matrix:
        columns = list(zip(*a.rows, strict=True))
        return Matrix([[self._dot(row, column) for column in columns] for row in x.rows])

    def outer(self, g: Matrix, x: Matrix) -> Matrix:
        lines, columns = list(zip(*g.rows, strict=True)), list(zip(*x.rows, strict=True))
        return Matrix([[self._dot(line, column) for column in columns] for line in lines])

    def column_sums(self, g: Matrix) -> Matrix:
        sums: list[Number] = []
        for column in zip(*g.rows, strict=True):
            total = 0.0
            for x in column:
                total = self.rounded(total + x)
            sums.append(total)
        return Matrix([sums])

    def add(self, a: Matrix, b: Matrix, sign: int = 1) -> Matrix:
        lines = b.rows if len(b.rows) == len(a.rows) else b.rows * len(a.rows)
        rounded = self.rounded
        rows: Rows = [
            [rounded(x + sign * y) for x, y in zip(row, line, strict=True)]
            for row, line in zip(a.rows, lines, strict=True)
        ]
        return Matrix(rows)

    def scaled(self, a: Matrix, factor: Fraction) -> Matrix:
        by = self.rounded(float(factor))
        return a if by == 1.0 else Matrix([[self.rounded(by * x) for x in row] for row in a.rows])

    def halved_where(self, a: Matrix, below: list[list[bool]]) -> Matrix:
        return Matrix(
            [
                [x * 0.5 if half else x for x, half in zip(*pair, strict=True)]
                for pair in zip(a.rows, below, strict=True)
            ]
        )

    def masked(self, a: Matrix, mask: Sequence[Sequence[int]]) -> Matrix:
        return Matrix([[x * k for x, k in zip(*pair, strict=True)] for pair in zip(a.rows, mask, strict=True)])

    def half_squares(self, a: Matrix) -> Matrix:
        entries = [x for row in a.rows for x in row]
        return Matrix([[0.5 * self._dot(entries, entries)]])

    def equal(self, a: Matrix, b: Matrix) -> bool:
        return a.rows == b.rows

    def value(self, a: Matrix, row: int, column: int) -> Fraction:
        entry = a.rows[row][column]
        return Fraction(entry) if isfinite(entry) else Fraction(0)

    def finite(self, a: Matrix) -> bool:
        return all(isfinite(x) for row in a.rows for x in row)

    def ulp(self, value: Fraction) -> Fraction:
        """The distance between neighbouring numbers of the format at the size of `value`."""
        _, exponent = frexp(float(value))
        return Fraction(2) ** (exponent - self.bits)


Arithmetic = Exact | Floating

ARITHMETICS = ("exact", "float64", "float32")


def arithmetic(name: str) -> Arithmetic:
    """One of ARITHMETICS by name; any other is a `ParameterError`."""
    if name not in ARITHMETICS:
        message = f"--arithmetic is {', '.join(ARITHMETICS)}, got {name[:40]!r}"
        raise ParameterError(message)
    return Exact() if name == "exact" else Floating(53 if name == "float64" else 24)
