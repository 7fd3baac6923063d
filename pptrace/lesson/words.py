"""How a page writes things: ops, rows, times, formulas, in the reader's names. Textbook names are D for P, S1, F1; every
sentence of a page goes through here, so that a page speaks one language."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

from pptrace.analysis.closed_forms import equal_costs
from pptrace.analysis.growth import growth
from pptrace.model import OpKind
from pptrace.rationals import text_of
from pptrace.render.figure_text import sentence
from pptrace.render.names import Names
from pptrace.render.numbers import ratio_text, time_text, value_texts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pptrace.analysis.growth import Grown
    from pptrace.analysis.metrics import Metric
    from pptrace.analysis.report import Report
    from pptrace.render.options import RenderOptions

_LETTERS = re.compile(r"(\d*)([A-Za-z_]+)")


class Words:
    """The words for one report under the reader's options."""

    def __init__(self, report: Report, options: RenderOptions) -> None:
        self.report = report
        self.schedule = report.schedule
        self.names = Names(report.schedule, options)
        self.depth = self.names.letters("P")
        """The letter for the number of ranks."""
        self.unit = report.timeline.ticks_per_unit
        self.rows = "stages" if self.names.by_stage else "ranks"
        self.row_noun = self.rows[:-1]
        self.costs, self.unequal = equal_costs(report.timeline)

    @cached_property
    def grown(self) -> tuple[Grown, ...]:
        """The schedule with other numbers of microbatches, simulated once for the whole page."""
        return growth(self.report)

    def time(self, ticks: int) -> str:
        return time_text(ticks, self.unit)

    def during(self, start: int, end: int) -> str:
        """`3-4`."""
        return f"{self.time(start)}-{self.time(end)}"

    def row(self, rank: int) -> str:
        return self.names.row(rank)

    def last_stage(self) -> str:
        return self.names.stage(self.schedule.num_stages - 1)

    def short(self, position: int) -> str:
        """An op as its cell names it: `F0`, `2F0`."""
        op = self.schedule.op(position)
        if op.kind in (OpKind.REDUCE, OpKind.STEP):
            return f"{op.kind.name} of {self.names.stage(op.stage)}"
        return self.names.text(self.schedule.codes[position]) + self._step(op.step)

    def block(self, position: int) -> str:
        """An op, or both of an overlapped pair that runs as one: `0F7+7B3`."""
        paired = position in self.schedule.pairs and self.report.costs.overlap != "split"
        return f"{self.short(position)}+{self.short(position + 1)}" if paired else self.short(position)

    def _step(self, step: int) -> str:
        """Pictures tell steps apart by a bar; sentences have to say it."""
        return f"@{step}" if step and not self.names.numbers_steps else ""

    def op(self, position: int) -> str:
        """An op and where it runs: `F0 on stage 2`."""
        kind = self.schedule.op(position).kind
        if self.names.by_stage and kind in (OpKind.REDUCE, OpKind.STEP):
            return self.short(position)
        return f"{self.short(position)} on {self.row(self.schedule.rank_at(position))}"

    def ops(self, positions: Sequence[int], most: int = 6) -> str:
        """Several ops and where they run: `W7 on stage 0, W7 on stage 1 and W7 on stage 2`."""
        texts = [self.op(position) for position in positions]
        return (
            listed(texts) if len(texts) <= most else f"{', '.join(texts[: most - 1])} and {len(texts) - most + 1} more"
        )

    def microbatch(self, microbatch: int, step: int = 0) -> str:
        return self.names.microbatch(microbatch, step) + self._step(step)

    def owner(self, stage: int, microbatch: int, step: int) -> str:
        """A held activation: its microbatch, and its stage where a rank has several (`1:0`)."""
        number = self.microbatch(microbatch, step)
        return number if self.names.by_stage else f"{stage + self.names.first}:{number}"

    def owners(self, found: Sequence[tuple[int, int, int]], most: int = 16) -> str:
        """Who is held, each a (stage, microbatch, step): `microbatches 0, 1 and 2`."""
        noun = ("microbatch" if len(found) == 1 else "microbatches") if self.names.by_stage else "stage:microbatch"
        texts = [self.owner(*owner) for owner in found]
        if len(texts) > most:
            return f"{noun} {', '.join(texts[: most - 2])} and {len(texts) - most + 2} more"
        return f"{noun} {listed(texts)}"

    def value(self, metric: Metric) -> str:
        """The value of a pipeline metric, or the values of all ranks: `4 3 2 1`, `8 on every stage`."""
        texts = value_texts(metric, self.unit)
        if metric.per != "rank" or len(texts) == 1:
            return texts[0]
        return f"{texts[0]} on every {self.row_noun}" if len(set(texts)) == 1 else shortened(texts)

    def ratio(self, metric: Metric) -> str:
        """`6/14 = 0.429`."""
        return ratio_text(metric.value, self.unit)

    def formula(self, text: str) -> str:
        """A formula in the reader's letters."""
        return self.names.letters(text)

    def filled(self, formula: str) -> str:
        """A formula with the numbers of this report for its letters, or empty where it speaks of single ranks or of more than
        sizes and costs."""
        costs = self.costs
        numbers: dict[str, int | Fraction] = {
            "P": self.schedule.num_ranks,
            "M": self.schedule.num_microbatches,
            "v": self.schedule.num_chunks,
            "f": costs.f,
            "b": costs.b,
            "i": costs.i,
            "w": costs.w,
            "c": costs.c,
        }
        if self.schedule.pairs and isinstance(costs.pair, Fraction):
            numbers["FB"] = costs.pair
        unknown = False

        def replaced(match: re.Match[str]) -> str:
            nonlocal unknown
            factor, word = match.groups()
            if word in ("max", "min", "ceil", "floor"):
                return match[0]
            if word not in numbers:
                unknown = True
                return match[0]
            shown = text_of(numbers[word])
            shown = f"({shown})" if "/" in shown or shown.startswith("-") else shown
            return f"{factor}*{shown}" if factor else shown

        result = _LETTERS.sub(replaced, formula)
        return "" if unknown or result == formula else result

    def sentence(self, text: str) -> str:
        """A sentence of the analysis: first letter large, a full stop, the reader's letters."""
        return sentence(text, self.names)


def shortened(texts: Sequence[str], most: int = 16) -> str:
    """Values in a row, the middle left out where they are many."""
    if len(texts) <= most:
        return " ".join(texts)
    return f"{' '.join(texts[: most - 4])} ... {' '.join(texts[-3:])}"


def listed(items: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    found = list(items)
    if len(found) < 2:
        return "".join(found)
    return f"{', '.join(found[:-1])} and {found[-1]}"


def capital(text: str) -> str:
    """The first letter large."""
    return text[:1].upper() + text[1:]


def counted(number: int, noun: str, many: str = "") -> str:
    """`1 forward`, `4 forwards`."""
    return f"{number} {noun if number == 1 else many or noun + 's'}"
