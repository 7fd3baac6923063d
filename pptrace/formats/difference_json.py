"""A difference of two orders as JSON, `pptrace.difference/1`. Times are exact texts in units (`33`, `3/2`)."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import msgspec

from pptrace.rationals import text_of

if TYPE_CHECKING:
    from pptrace.analysis.difference import Difference, Measure
    from pptrace.analysis.metrics import Metric

SCHEMA = "pptrace.difference/1"


def write(found: Difference, names: tuple[str, str], ticks_per_unit: tuple[int, int]) -> bytes:
    """One object: `equal`, `sizes` (sentences), `ranks` (first difference of each rank) and `measures`."""
    document = {
        "schema": SCHEMA,
        "a": names[0],
        "b": names[1],
        "equal": found.equal,
        "sizes": found.sizes,
        "ranks": [
            {
                "rank": parted.rank,
                "position": parted.position,
                "a": [str(op) for op in parted.first],
                "b": [str(op) for op in parted.second],
            }
            for parted in found.ranks
        ],
        "measures": [_measure(measure, ticks_per_unit) for measure in found.measures],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"


def _measure(measure: Measure, ticks_per_unit: tuple[int, int]) -> dict[str, Any]:
    return {
        "key": measure.first.key,
        "unit": measure.first.unit,
        "per": measure.first.per,
        "a": _values(measure.first, ticks_per_unit[0]),
        "b": _values(measure.second, ticks_per_unit[1]),
        "change": [text_of(value) for value in measure.change],
    }


def _values(metric: Metric, ticks_per_unit: int) -> list[str]:
    scale = ticks_per_unit if metric.unit == "time" else 1
    return [text_of(Fraction(value.numerator, (value.denominator or 1) * scale)) for value in metric.values]
