"""Exact numbers as text: times in units, ratios unreduced with a decimal beside them, shares in per cent. No arithmetic
but scaling and rounding; what is shown was computed in analysis/."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from pptrace.rationals import text_of

if TYPE_CHECKING:
    from pptrace.analysis.metrics import Metric, Ratio


def time_text(ticks: int, ticks_per_unit: int) -> str:
    """A time in units, exactly: `14`, `17.5`, `22/3`."""
    return text_of(Fraction(ticks, ticks_per_unit)) if ticks_per_unit != 1 else str(ticks)


def decimal(value: Fraction, places: int = 3) -> str:
    """`value` rounded half up to `places` decimals, or to three digits that say something where it is smaller."""
    while value and abs(value) * 10 ** (places - 2) < 1:
        places += 1
    return fixed(value, places)


def fixed(value: Fraction, places: int) -> str:
    """`value` rounded half up to exactly `places` decimals."""
    scaled = (abs(value) * 10**places * 2 + 1) // 2
    whole, part = divmod(scaled, 10**places)
    return f"{'-' if value < 0 else ''}{whole}.{part:0{places}d}"


def percent(part: int, total: int) -> str:
    """`36.62 %`."""
    return f"{fixed(Fraction(part * 100, total), 2)} %" if total else "0 %"


def ratio_text(ratio: Ratio, ticks_per_unit: int) -> str:
    """`6/14 = 0.429`, or `(22/3)/(44/3) = 0.500`: both in units of time, never reduced against each other."""
    if not ratio.denominator:
        return f"{ratio.numerator}/0"
    parts = [time_text(number, ticks_per_unit) for number in (ratio.numerator, ratio.denominator)]
    parts = [f"({part})" if "/" in part else part for part in parts]
    return f"{'/'.join(parts)} = {decimal(Fraction(ratio.numerator, ratio.denominator))}"


def value_texts(metric: Metric, ticks_per_unit: int) -> list[str]:
    """The values of a metric, one text per value."""
    if metric.unit in ("ratio", "rate"):
        return [ratio_text(value, ticks_per_unit) for value in metric.values]
    if metric.unit == "bytes":
        return [size_text(Fraction(value.numerator, value.denominator)) for value in metric.values]
    scale = ticks_per_unit if metric.unit == "time" else 1
    return [_exact(Fraction(value.numerator, value.denominator * scale)) for value in metric.values]


def _exact(value: Fraction) -> str:
    """The exact value; a long fraction with a decimal beside it."""
    text = text_of(value)
    return f"{text} = {decimal(value)}" if "/" in text else text


def size_text(value: Fraction) -> str:
    """Bytes: exact, and in the largest binary unit where that is shorter to read."""
    text = text_of(value)
    for power, name in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if value >= 1024**power:
            scaled = value / 1024**power
            return f"{text_of(scaled)} {name}" if scaled.denominator == 1 else f"{text} ({fixed(scaled, 2)} {name})"
    return text
