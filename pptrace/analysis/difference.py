"""Where two orders of ops part, rank by rank, and what the one costs beside the other in time and memory. It compares orders of
any sizes; whether either is right is the checker's to say."""

from __future__ import annotations

from fractions import Fraction
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from pptrace.model import OpKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pptrace.analysis.metrics import Metric
    from pptrace.analysis.report import Report
    from pptrace.model import Op, Schedule

Cell = tuple["Op", ...]
"""One op, or the two of an overlapped pair."""

MEASURES = (
    "elapsed",
    "bubble_time",
    "bubble_over_elapsed",
    "bubble_over_ideal",
    "exposed_comm",
    "peak_activations",
)
"""The metrics that a comparison of two orders tells."""


class RankDifference(NamedTuple):
    """The first place where the lists of one rank differ: the `position`-th cell (from 0, an overlapped pair counts once), and
    what each list has there; () where it has ended."""

    rank: int
    position: int
    first: Cell
    second: Cell

    def sentence(self, first_name: str, second_name: str) -> str:
        return (
            f"rank {self.rank}, position {self.position}: {_cell_words(self.first)} in {first_name}, "
            f"{_cell_words(self.second)} in {second_name}"
        )


class Measure(NamedTuple):
    """One metric of both, each in its own ticks; `change` is second - first in units of time (or as it is), one value or one
    per rank, empty where the numbers of ranks differ."""

    first: Metric
    second: Metric
    change: tuple[Fraction, ...]


class Difference(NamedTuple):
    """`sizes` are sentences on what the two cannot have in common; `ranks` the first difference of every rank that has one;
    `measures` what each order costs with the same costs, empty where one of them was not timed. The orders are equal where
    `sizes` and `ranks` are empty."""

    sizes: tuple[str, ...]
    ranks: tuple[RankDifference, ...]
    measures: tuple[Measure, ...] = ()

    @property
    def equal(self) -> bool:
        return not self.sizes and not self.ranks


def difference(first: Schedule, second: Schedule, reports: tuple[Report, Report] | None = None) -> Difference:
    """Compare two orders, in time linear in their ops; `reports` are theirs, with the same costs, where both can be timed.
    REDUCE and STEP are left out: files of orders have none."""
    measures = tuple(_measure(*reports, key) for key in MEASURES) if reports else ()
    return Difference(size_differences(first, second), order_differences(first, second), measures)


def _measure(first: Report, second: Report, key: str) -> Measure:
    one, other = first.metrics[key], second.metrics[key]
    ours, theirs = (_in_units(report, report.metrics[key]) for report in (first, second))
    change = tuple(b - a for a, b in zip(ours, theirs, strict=True)) if len(ours) == len(theirs) else ()
    return Measure(one, other, change)


def _in_units(report: Report, metric: Metric) -> list[Fraction]:
    scale = report.timeline.ticks_per_unit if metric.unit == "time" else 1
    return [
        Fraction(value.numerator, value.denominator * scale) if value.denominator else Fraction(0)
        for value in metric.values
    ]


def size_differences(first: Schedule, second: Schedule) -> tuple[str, ...]:
    """Sentences on unequal numbers of ranks, stages, microbatches, steps, and on stages that live elsewhere."""
    found = [
        f"{noun}: {a} against {b}"
        for noun, a, b in (
            ("ranks", first.num_ranks, second.num_ranks),
            ("stages", first.num_stages, second.num_stages),
            ("microbatches", first.num_microbatches, second.num_microbatches),
            ("optimizer steps", first.num_steps, second.num_steps),
        )
        if a != b
    ]
    ours, theirs = first.placement, second.placement
    if ours.bidirectional != theirs.bidirectional:
        found.append("one holds two copies of every stage, the other one")
    elif not found and ours != theirs:
        stage = next(s for s in range(first.num_stages) if ours.ranks[s] != theirs.ranks[s])
        found.append(f"stage {stage} lives on rank {ours.ranks[stage]} against rank {theirs.ranks[stage]}")
    return tuple(found)


def order_differences(first: Schedule, second: Schedule) -> tuple[RankDifference, ...]:
    """The first difference of every rank whose lists of compute ops differ; a rank that only one has differs from its
    first op on."""
    found = []
    alike = first.coder == second.coder
    for rank in range(max(first.num_ranks, second.num_ranks)):
        if alike and rank < min(first.num_ranks, second.num_ranks) and _same_codes(first, second, rank):
            continue
        cells = zip_longest(_cells(first, rank), _cells(second, rank), fillvalue=())
        parted = next(((i, a, b) for i, (a, b) in enumerate(cells) if a != b), None)
        if parted is not None:
            found.append(RankDifference(rank, *parted))
    return tuple(found)


def _same_codes(first: Schedule, second: Schedule, rank: int) -> bool:
    """A quick answer for lists of the same coder; False is to be looked into."""
    if compute_codes(first, rank) != compute_codes(second, rank):
        return False
    if not first.pairs and not second.pairs:
        return True
    ours, theirs = first.positions(rank), second.positions(rank)
    return len(ours) == len(theirs) and _pairs(first, ours) == _pairs(second, theirs)


def compute_codes(schedule: Schedule, rank: int) -> list[int]:
    """The codes of one rank's compute ops, REDUCE and STEP left out."""
    positions = schedule.positions(rank)
    codes = schedule.codes[positions.start : positions.stop]
    first_boundary = schedule.coder.base(OpKind.REDUCE, 0)
    if max(codes, default=0) < first_boundary:
        return codes
    return [code for code in codes if code < first_boundary]


def _pairs(schedule: Schedule, positions: range) -> set[int]:
    return {position - positions.start for position in schedule.pairs if position in positions}


def _cells(schedule: Schedule, rank: int) -> Iterator[Cell]:
    """The compute ops of one rank, overlapped pairs as one."""
    if rank >= schedule.num_ranks:
        return
    op_of, codes, pairs = schedule.coder.op, schedule.codes, schedule.pairs
    positions = iter(schedule.positions(rank))
    for position in positions:
        op = op_of(codes[position])
        if position in pairs:
            yield op, op_of(codes[next(positions)])
        elif op.kind <= OpKind.R:
            yield (op,)


def _cell_words(cell: Cell) -> str:
    return "+".join(map(str, cell)) if cell else "the end"
