"""Between ticks and the microseconds of Chrome's trace events, exactly: what a unit of time is, ticks as decimal text, and the
decimal numbers of a file back as whole numbers. It knows no event."""

from __future__ import annotations

import re
from fractions import Fraction
from math import gcd
from typing import TYPE_CHECKING, NamedTuple

from pptrace.durations import MAX_TICKS
from pptrace.errors import FormatError, ParameterError
from pptrace.printable import printable
from pptrace.rationals import parse_rational

if TYPE_CHECKING:
    from collections.abc import Sequence

UNITS = {
    **dict.fromkeys(("ns", "nsec", "nanosecond", "nanoseconds"), Fraction(1, 1000)),
    **dict.fromkeys(("us", "usec", "µs", "μs", "microsecond", "microseconds"), Fraction(1)),
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), Fraction(1000)),
    **dict.fromkeys(("s", "sec", "second", "seconds"), Fraction(10**6)),
}
"""Microseconds in the units of time that costs may name."""

DEFAULT_UNIT = Fraction(1000)
"""A unit of time is a millisecond where nothing says what it is."""

_LEAST_DIGITS = 3  # Perfetto keeps nanoseconds
_PLAIN = re.compile(r"-?(?:0|[1-9][0-9]{0,17})(?:\.([0-9]{1,12}))?", re.ASCII)


def microseconds_per_unit(time_unit: str | None, unit: str) -> Fraction:
    """What --time-unit says (`ms`, `500us`), else the unit of the costs where it is one of time, else a millisecond.

    Raises `ParameterError` for a text that is no time, or none above zero.
    """
    if time_unit is None:
        return UNITS.get(unit.strip().lower(), DEFAULT_UNIT)
    cleaned = time_unit.strip().lower()
    number = cleaned.rstrip("abcdefghijklmnopqrstuvwxyzµμ")
    factor = UNITS.get(cleaned[len(number) :].strip())
    if factor is None:
        message = f"--time-unit {printable(time_unit, 40)!r}: say how long a unit of time is: us, ms, s, or 2.5ms"
        raise ParameterError(message)
    value = parse_rational(number, "--time-unit") * factor if number.strip() else factor
    if value <= 0:
        message = f"--time-unit must be more than zero, got {printable(time_unit, 40)!r}"
        raise ParameterError(message)
    return value


class Clock:
    """Ticks of 1/`ticks_per_unit` units as microseconds in decimal text.

    `exact`: every tick ends as a decimal, of at most `digits` places. Otherwise times are rounded, to so many places that
    every tick still can be told, and in one grid, so that what meets in ticks meets in text.
    """

    def __init__(self, ticks_per_unit: int, per_unit: Fraction) -> None:
        tick = per_unit / ticks_per_unit
        self.numerator, self.denominator = tick.numerator, tick.denominator
        self.digits = 0
        rest = self.denominator
        for prime in (2, 5):
            power = 0
            while rest % prime == 0:
                rest, power = rest // prime, power + 1
            self.digits = max(self.digits, power)
        self.exact = rest == 1
        if not self.exact:
            self.digits = _LEAST_DIGITS
            while self.numerator * 10**self.digits < 4 * self.denominator:
                self.digits += 1
        self._grid = self.numerator * int(10**self.digits)

    def on_grid(self, tick: int) -> int:
        """The time in steps of the last decimal place."""
        return (2 * tick * self._grid + self.denominator) // (2 * self.denominator)

    def text(self, step: int) -> str:
        """A number of steps as microseconds: `1500`, `0.25`."""
        return str(step) if not self.digits else Decimal(step, self.digits).text()

    def ticks(self, times: Times) -> list[int] | None:
        """Times of a file as ticks, or None where some are no ticks: somebody moved them."""
        finer = 10 ** max(self.digits - times.places, 0)  # the file may have lost zeros at the end
        per_tick = self.numerator * 10**times.places * finer  # a tick is per_tick / denominator steps of the file
        allowed = 0 if self.exact else self.denominator * 10 ** max(times.places - self.digits, 0)
        found = []
        for given in times.steps:
            step = given * finer
            tick = (2 * step * self.denominator + per_tick) // (2 * per_tick)
            if abs(step * self.denominator - tick * per_tick) > allowed:
                return None
            found.append(tick)
        return found


class Times(NamedTuple):
    """Numbers of a file as whole `steps` of 10**-`places` microseconds."""

    steps: list[int]
    places: int


class Decimal(NamedTuple):
    """A number of a file, exactly: 12.5 is 125 with 1 place."""

    digits: int
    places: int

    def plus(self, other: Decimal) -> Decimal:
        """The sum."""
        places = max(self.places, other.places)
        return Decimal(self.on_grid(places) + other.on_grid(places), places)

    def minus(self, other: Decimal) -> Decimal:
        """The difference."""
        return self.plus(Decimal(-other.digits, other.places))

    def on_grid(self, places: int) -> int:
        """In steps of 10**-`places`, of which there are at least its own."""
        return self.digits * int(10 ** (places - self.places))

    def text(self) -> str:
        """`12.5`, without zeros at the end."""
        if not self.places:
            return str(self.digits)
        digits = str(abs(self.digits)).zfill(self.places + 1)
        whole = f"{digits[: -self.places]}.{digits[-self.places :]}".rstrip("0").rstrip(".")
        return f"-{whole}" if self.digits < 0 else whole


def times_of(numbers: Sequence[Decimal]) -> Times:
    """Numbers on one grid."""
    places = max((number.places for number in numbers), default=0)
    return Times([number.on_grid(places) for number in numbers], places)


def decimal(text: str) -> Decimal:
    """The value of a JSON number. Raises `FormatError`, without a place, for what is no number or an
    absurdly long one."""
    match = _PLAIN.fullmatch(text)
    if match:
        fraction = match[1]
        return Decimal(int(text), 0) if fraction is None else Decimal(int(text.replace(".", "")), len(fraction))
    if not re.fullmatch(r"-?[0-9]{1,40}(?:\.[0-9]{1,400})?(?:[eE][-+]?[0-9]{1,4})?", text, re.ASCII):
        kinds = {'"': "a text", "{": "an object", "[": "a list", "t": "true", "f": "false", "n": "null"}
        message = f"expected a number, got {kinds.get(text[:1], 'a number that is too long')}"
        raise FormatError(message)
    whole, _, rest = text.partition("e" if "e" in text else "E")
    point = whole.partition(".")[2]
    power = int(rest or "0") - len(point)
    if len(whole) > 70 or abs(power) > 70:
        message = f"{text[:40]} is too long a number for a time"
        raise FormatError(message)
    digits = int(whole.replace(".", ""))
    return Decimal(digits * 10**power, 0) if power >= 0 else Decimal(digits, -power)


class Rebased(NamedTuple):
    """Times as ticks since the first: `ticks_per_unit` is the least with which all are whole; `offset` in microseconds."""

    ticks: list[int]
    ticks_per_unit: int
    offset: Decimal


def rebased(times: Times, per_unit: Fraction) -> Rebased:
    """Times of any kind as ticks. Raises `FormatError`, without a place, for times that pass 2^53 ticks."""
    first = min(times.steps, default=0)
    scale = 10**times.places * per_unit.numerator
    factor = per_unit.denominator
    common = scale
    for step in times.steps:
        common = gcd(common, (step - first) * factor)
    ticks = [(step - first) * factor // common for step in times.steps]
    if max(ticks, default=0) >= MAX_TICKS or scale // common >= MAX_TICKS:
        message = "from the first op to the last there are more than 2^53 ticks; are ts and dur in microseconds?"
        raise FormatError(message)
    return Rebased(ticks, scale // common, Decimal(first, times.places))
