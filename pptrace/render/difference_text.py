"""Two orders side by side as plain text: where they part, and what each costs. It lays out; analysis/difference.py compares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pptrace.rationals import text_of
from pptrace.render.lines import columns, per_rank
from pptrace.render.numbers import decimal, value_texts

if TYPE_CHECKING:
    from fractions import Fraction

    from pptrace.analysis.difference import Difference, Measure

MOST_RANKS = 64
"""So many ranks' differences are told one by one."""


def difference_text(found: Difference, names: tuple[str, str], ticks_per_unit: tuple[int, int]) -> str:
    """The text of `pptrace diff`; `names` are what the two are called, safe to print."""
    lines = [f"A: {names[0]}", f"B: {names[1]}", ""]
    if found.equal:
        lines.append("the orders are equal")
    else:
        lines.append("the orders differ")
        lines += [f"  {sentence}" for sentence in found.sizes]
        lines += [f"  {parted.sentence('A', 'B')}" for parted in found.ranks[:MOST_RANKS]]
        if len(found.ranks) > MOST_RANKS:
            lines.append(f"  and {len(found.ranks) - MOST_RANKS} more ranks")
    if found.measures:
        lines.append("")
        header = ("with the same costs", "A", "B", "B - A")
        lines += columns([header, *(_row(measure, ticks_per_unit) for measure in found.measures)], left=4)
    return "\n".join(lines) + "\n"


def _row(measure: Measure, ticks_per_unit: tuple[int, int]) -> tuple[str, ...]:
    ours, theirs = (
        _joined(value_texts(metric, unit))
        for metric, unit in zip((measure.first, measure.second), ticks_per_unit, strict=True)
    )
    return (measure.first.label, ours, theirs, _joined([_signed(value) for value in measure.change]))


def _joined(values: list[str]) -> str:
    return "; ".join(per_rank(values)) if values else ""


def _signed(value: Fraction) -> str:
    text = text_of(value)
    text = f"{text} = {decimal(value)}" if "/" in text else text
    return f"+{text}" if value > 0 else text
