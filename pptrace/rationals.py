"""Exact numbers from text: rationals for durations, whole numbers for sizes in bytes. It owns the limits on their length."""

from __future__ import annotations

from fractions import Fraction

from pptrace.errors import ParameterError

MAX_DIGITS = 30
MAX_EXPONENT = 30
_DIGITS = frozenset("0123456789")
_BYTE_UNITS = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
}


def parse_rational(text: str, what: str) -> Fraction:
    """`1`, `1.5`, `3/2` or `2e-3` as an exact fraction.

    At most 30 digits a number and exponents within +-30, checked before anything is converted. Raises `ParameterError`
    that names `what`.
    """
    cleaned = text.strip()
    numerator, slash, denominator = cleaned.partition("/")
    try:
        value = _decimal(numerator)
        if slash:
            if not denominator or not set(denominator) <= _DIGITS:
                raise ValueError
            divisor = _decimal(denominator)
            if divisor == 0:
                message = f"{what}: {_shown(text)} divides by zero"
                raise ParameterError(message)
            value /= divisor
    except ValueError:
        message = f"{what}: {_shown(text)} is not a number; write 1, 1.5 or 3/2"
        raise ParameterError(message) from None
    except OverflowError:
        message = (
            f"{what}: {_shown(text)} is too long; a number has at most {MAX_DIGITS} digits "
            f"and an exponent within +-{MAX_EXPONENT}"
        )
        raise ParameterError(message) from None
    return value


def _decimal(text: str) -> Fraction:
    """A decimal number; ValueError where it is none, OverflowError where it is too long."""
    mantissa, mark, exponent = text.replace("E", "e", 1).partition("e")
    sign = -1 if mantissa[:1] == "-" else 1
    whole, _, fraction = (mantissa[1:] if mantissa[:1] in ("+", "-") else mantissa).partition(".")
    digits = whole + fraction
    if not digits or not set(digits) <= _DIGITS:
        raise ValueError
    power = 0
    if mark:
        unsigned = exponent[1:] if exponent[:1] in ("+", "-") else exponent
        if not unsigned or not set(unsigned) <= _DIGITS:
            raise ValueError
        if len(unsigned) > 3 or int(unsigned) > MAX_EXPONENT:
            raise OverflowError
        power = int(exponent)
    if len(digits) > MAX_DIGITS:
        raise OverflowError
    power -= len(fraction)
    value = sign * int(digits)
    return Fraction(value * 10**power) if power >= 0 else Fraction(value, 10**-power)


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")


def parse_bytes(text: str, what: str) -> int:
    """`512MiB`, `1.5GB` or `4096` as a whole number of bytes. Raises `ParameterError`."""
    cleaned = text.strip().replace(" ", "")
    number = cleaned.rstrip("KMGTiBkmgtb")
    factor = _BYTE_UNITS.get(cleaned[len(number) :].upper())
    if factor is None or _DIGITS.isdisjoint(number):
        message = f"{what}: {_shown(text)} is not a size; write 4096, 512KiB, 1.5GiB or 2GB"
        raise ParameterError(message)
    value = parse_rational(number, what) * factor
    if value < 0 or value.denominator != 1:
        message = f"{what}: {_shown(text)} is not a whole number of bytes"
        raise ParameterError(message)
    return value.numerator


def text_of(value: Fraction | int) -> str:
    """The shortest exact text: `3`, `1.5`, `3/7` (a decimal only where it ends within four places)."""
    exact = Fraction(value)
    if exact.denominator == 1:
        return str(exact.numerator)
    if 10_000 % exact.denominator == 0:
        scaled = exact * 10_000
        whole, part = divmod(abs(scaled.numerator), 10_000)
        return f"{'-' if exact < 0 else ''}{whole}.{part:04d}".rstrip("0")
    return f"{exact.numerator}/{exact.denominator}"
