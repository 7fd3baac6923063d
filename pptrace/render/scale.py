"""From time to columns. It owns the choice of how wide a moment is drawn in text.

Where all starts and ends are multiples of a step that leaves every op room for its text, a column is that step and the
picture is exact. Otherwise (measured durations, say) a column is one character for a round number of time, and time is
stretched, for all rows alike, just where an op would be too short for its text: no op is lost, and what ends before
something begins is drawn before it.
"""

from __future__ import annotations

from bisect import bisect_right
from fractions import Fraction
from math import gcd
from typing import TYPE_CHECKING, NamedTuple

from pptrace.rationals import text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MAX_STRETCH = 4
"""A picture is at most this many times as wide as the texts along its longest chain of ops."""

_ROUND = tuple(Fraction(number, 2) for number in (2, 3, 4, 5, 6, 8, 10, 12, 16))


class Extent(NamedTuple):
    """[start, end) in ticks, and how many characters the op needs there."""

    start: int
    end: int
    need: int


class Mark(NamedTuple):
    """A time written over a column."""

    column: int
    tick: int
    text: str


class Scale:
    """Ticks to columns, each `column_width` characters wide.

    `ticks_per_column` is exact where `exact`, else the round number of time of a character where nothing is stretched
    (`stretched`: somewhere it is).
    """

    def __init__(self, extents: Sequence[Extent], origin: int, end: int, extra: Iterable[int], unit: int) -> None:
        """`extra` are other ticks that an exact column must meet; `unit` is the ticks per unit of time."""
        self.origin, self.end, self.unit = origin, max(end, origin), unit
        self._places: dict[int, int] = {}
        self._times: list[int] = []
        self.stretched = False
        ticks = {extent.start for extent in extents} | {extent.end for extent in extents} | {self.end, *extra}
        step = gcd(*(tick - origin for tick in ticks)) or 1
        kinds = {(extent.end - extent.start, extent.need) for extent in extents}
        width = max((-(-need // (duration // step)) for duration, need in kinds), default=1)
        columns = (self.end - origin) // step
        tight = all(duration == step for duration, _ in kinds)
        least = 0 if tight else _places(extents, ticks, origin, None)[self.end] * MAX_STRETCH
        self.exact = tight or columns * width <= least
        self._step = step
        if self.exact:
            self.ticks_per_column, self.column_width, self.num_columns = Fraction(step), width, columns
            return
        wish = min(Fraction(duration, need) for duration, need in kinds)
        budget = Fraction(self.end - origin, least)
        per_column = round_below(wish / unit) if wish >= budget else round_above(budget / unit)
        self.ticks_per_column, self.column_width = per_column * unit, 1
        self._places = _places(extents, ticks | {origin}, origin, self.ticks_per_column)
        self._times = sorted(self._places)
        self.num_columns = self._places[self.end]
        self.stretched = self.num_columns > (self.end - origin) / self.ticks_per_column

    def column(self, tick: int) -> int:
        """The column in which `tick` lies, or begins."""
        if self.exact:
            return (tick - self.origin) // self._step
        place = self._places.get(tick)
        if place is not None:
            return place
        index = bisect_right(self._times, tick)
        if index == 0:
            return 0
        before = self._times[index - 1]
        place = self._places[before] + int((tick - before) / self.ticks_per_column)
        return min(place, self._places[self._times[index]]) if index < len(self._times) else place

    def marks(self) -> list[Mark]:
        """Times to write over the columns, as many as fit, at round numbers."""
        room = len(str(self.end // self.unit)) + 1
        if self.exact:
            return self._exact_marks(room)
        step = round_above(self.ticks_per_column * (room + 1) / self.unit, (Fraction(1), Fraction(2), Fraction(5)))
        ticks = step * self.unit
        marks, free = [], 0
        number = -(-self.origin // ticks)
        while number * ticks < self.end:
            tick = number * ticks
            column = self.column(int(tick))
            if column >= free:
                marks.append(Mark(column, int(tick), text_of(number * step)))
                free = column + len(marks[-1].text) + 1
            number += 1
        return marks

    def _exact_marks(self, room: int) -> list[Mark]:
        step = self._step
        whole = Fraction(step, self.unit).denominator  # columns from one whole unit of time to the next
        if whole > max(-(-room // self.column_width), self.num_columns // 3):
            whole, room = 1, len(self.text(self.end)) + 1
        least = -(-room // self.column_width)
        every = whole
        for power in range(30):
            every = next((whole * k * 10**power for k in (1, 2, 5) if whole * k * 10**power >= least), 0)
            if every:
                break
        first = 0
        if self.origin % step == 0:
            first = -(self.origin // step) % every
        columns = range(first, self.num_columns, every)
        return [Mark(c, self.origin + c * step, self.text(self.origin + c * step)) for c in columns]

    def text(self, tick: int) -> str:
        """A time in units, exactly."""
        return text_of(Fraction(tick, self.unit))

    def note(self) -> str:
        """What a column is."""
        time = text_of(self.ticks_per_column / self.unit)
        if self.exact:
            return f"one column = {time}"
        stretch = ", more where an op is too short for its name" if self.stretched else ""
        return f"one character = {time}{stretch}; ops are placed at their start, rounded down"


def _places(extents: Sequence[Extent], ticks: set[int], origin: int, per: Fraction | None) -> dict[int, int]:
    """The character at which each tick is drawn: `per` ticks each (None: none at all), plus what stretching adds."""
    ending: dict[int, list[Extent]] = {}
    for extent in extents:
        ending.setdefault(extent.end, []).append(extent)
    top, bottom = (per.denominator, per.numerator) if per is not None else (0, 1)
    places = {origin: 0}
    shift = place = 0
    for tick in sorted(ticks):
        natural = (tick - origin) * top // bottom + shift
        place = max(place, natural)
        for extent in ending.get(tick, ()):
            place = max(place, places[extent.start] + extent.need)
        shift += place - natural
        places[tick] = place
    return places


def round_below(value: Fraction, mantissas: Sequence[Fraction] = _ROUND) -> Fraction:
    """The largest round number that is not above `value` (> 0)."""
    power = _power(value)
    return max(m * power for m in mantissas if m * power <= value)


def round_above(value: Fraction, mantissas: Sequence[Fraction] = _ROUND) -> Fraction:
    """The smallest round number that is not below `value` (> 0)."""
    power = _power(value)
    return min(m * power for m in (*mantissas, Fraction(10)) if m * power >= value)


def _power(value: Fraction) -> Fraction:
    """The power of ten with power <= value < 10 * power."""
    power = Fraction(10) ** (len(str(value.numerator)) - len(str(value.denominator)))
    while power > value:
        power /= 10
    while power * 10 <= value:
        power *= 10
    return power
