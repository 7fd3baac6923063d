"""Where two orders of ops part, rank by rank, and what the one costs beside the other in time and memory. It compares orders of
any sizes; whether either is right is the checker's to say."""

from __future__ import annotations

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
    """One metric of both, in their own ticks."""

    first: Metric
    second: Metric


class Difference(NamedTuple):
    """`sizes` are sentences on what the two cannot have in common; `ranks` the first difference of every rank that has one;
    `measures` what each order costs with the same costs. The orders are equal where `sizes` and `ranks` are empty."""

    sizes: tuple[str, ...]
    ranks: tuple[RankDifference, ...]
    measures: tuple[Measure, ...]

    @property
    def equal(self) -> bool:
        return not self.sizes and not self.ranks


def difference(first: Report, second: Report) -> Difference:
    """Compare two orders, timed with the same costs, in time linear in their ops. REDUCE and STEP are left out: files of
    orders have none."""
    measures = tuple(Measure(first.metrics[key], second.metrics[key]) for key in MEASURES)
    return Difference(
        size_differences(first.schedule, second.schedule),
        order_differences(first.schedule, second.schedule),
        measures,
    )


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
    """A quick answer for lists without REDUCE and STEP; False is to be looked into."""
    ours, theirs = first.positions(rank), second.positions(rank)
    if first.codes[ours.start : ours.stop] != second.codes[theirs.start : theirs.stop]:
        return False
    return not (first.pairs or second.pairs) or _pairs(first, ours) == _pairs(second, theirs)


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
