"""Bytes: what every rank holds over time where sizes are given, and what each part of the peak is.

Counts of activations are memory.py's. Here activations, recomputation inputs, send and receive buffers, gradients, weights
(every version that is stashed) and optimizer states are all counted as far as their sizes are known; `Bytes.left_out`
names the others.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from pptrace.analysis.lifetimes import ACTIVATION, INPUT, Lifetime
from pptrace.analysis.weight_versions import weight_versions
from pptrace.model import OpKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from fractions import Fraction

    from pptrace.costs import Sizes, Values
    from pptrace.timeline import Timeline

PARTS = ("weights", "optimizer", "gradient", "activation", "input", "send", "recv")


class RankBytes(NamedTuple):
    """The most that `rank` holds at once, the first tick `at` which it does, and what it is made of by part; in bytes,
    exact (a fraction only where a size does not divide by the chunks of its rank)."""

    rank: int
    held: Fraction
    at: int
    parts: dict[str, Fraction]


class Bytes(NamedTuple):
    """Per rank its peak in bytes; `left_out` names the parts whose sizes were not given."""

    ranks: tuple[RankBytes, ...]
    left_out: tuple[str, ...]


class _Change(NamedTuple):
    tick: int
    part: str
    amount: Fraction


def bytes_held(timeline: Timeline, found: Sequence[Lifetime], sizes: Sizes) -> Bytes:
    """The peak bytes of every rank and their parts, linear in the ops but for sorting by time."""
    changes: dict[int, list[_Change]] = defaultdict(list)
    begin, finish = min(timeline.starts, default=0), max(timeline.ends, default=0)
    for rank, part, start, end, amount in _intervals(timeline, found, sizes, begin, finish):
        changes[rank].append(_Change(start, part, amount))
        changes[rank].append(_Change(end, part, -amount))
    ranks = tuple(_peak(rank, changes[rank], begin) for rank in range(timeline.schedule.num_ranks))
    return Bytes(ranks, sizes.missing())


def _peak(rank: int, changes: list[_Change], begin: int) -> RankBytes:
    held: dict[str, Fraction | int] = dict.fromkeys(PARTS, 0)
    by_tick: dict[int, list[_Change]] = defaultdict(list)
    for change in changes:
        by_tick[change.tick].append(change)
    total: Fraction | int = 0
    best = RankBytes(rank, 0, begin, dict.fromkeys(PARTS, 0))  # type: ignore[arg-type]
    for tick in sorted(by_tick):
        for change in by_tick[tick]:
            held[change.part] += change.amount
            total += change.amount
        if total > best.held:
            best = RankBytes(rank, total, tick, dict(held))  # type: ignore[arg-type]
    return best


def _intervals(
    timeline: Timeline, found: Sequence[Lifetime], sizes: Sizes, begin: int, finish: int
) -> Iterator[tuple[int, str, int, int, Fraction]]:
    """(rank, part, start, end, bytes) of everything whose size is known."""
    placement = timeline.schedule.placement
    for rank in range(placement.num_ranks):
        for stage in placement.stages(rank):
            if sizes.weights and not timeline.schedule.asynchronous:
                yield rank, "weights", begin, finish + 1, sizes.weights.of_op(placement, stage, rank)
            if sizes.optimizer:
                yield rank, "optimizer", begin, finish + 1, sizes.optimizer.of_op(placement, stage, rank)
    if sizes.weights and timeline.schedule.asynchronous:
        yield from _stashed_weights(timeline, sizes.weights, finish)
    for life in found:
        if life.kind == ACTIVATION and sizes.activation:
            full = sizes.activation.of_op(placement, life.stage, life.rank)
            kept = sizes.after_input.of_op(placement, life.stage, life.rank) if sizes.after_input else full
            middle = life.end if life.shrinks is None else life.shrinks
            yield life.rank, "activation", life.start, middle, full
            if middle < life.end:
                yield life.rank, "activation", middle, life.end, kept
        elif life.kind == INPUT and sizes.boundary:
            yield life.rank, "input", life.start, life.end, sizes.boundary.of_op(placement, life.stage, life.rank)
    if sizes.gradients:
        yield from _gradients(timeline, sizes, finish)
    if sizes.boundary:
        yield from _buffers(timeline, sizes)


def _stashed_weights(timeline: Timeline, weights: Values, finish: int) -> Iterator[tuple[int, str, int, int, Fraction]]:
    """Without a flush: as many times the weights of a stage as its rank keeps versions of them."""
    for stash in weight_versions(timeline).stashes:
        size = weights.of_op(timeline.schedule.placement, stash.stage, stash.rank)
        for (tick, count), (until, _) in pairwise((*stash.held, (finish + 1, 0))):
            yield stash.rank, "weights", tick, until, size * count


def _gradients(timeline: Timeline, sizes: Sizes, finish: int) -> Iterator[tuple[int, str, int, int, Fraction]]:
    """From the first B or W of a stage in a step to its STEP."""
    schedule = timeline.schedule
    for rank in range(schedule.num_ranks):
        since: dict[int, int] = {}
        for span in timeline.spans(rank):
            stage = span.op.stage
            if span.op.kind in (OpKind.B, OpKind.W):
                since.setdefault(stage, span.start)
            elif span.op.kind is OpKind.STEP and stage in since and sizes.gradients:
                amount = sizes.gradients.of_op(schedule.placement, stage, rank)
                yield rank, "gradient", since.pop(stage), span.end, amount
        for stage, start in since.items():
            if sizes.gradients:
                yield rank, "gradient", start, finish, sizes.gradients.of_op(schedule.placement, stage, rank)


def _buffers(timeline: Timeline, sizes: Sizes) -> Iterator[tuple[int, str, int, int, Fraction]]:
    """What is sent lives from its op's end to its arrival, what is received from arrival to the start of its consumer."""
    schedule, inputs = timeline.schedule, timeline.dependencies.inputs
    rank_of = [rank for rank in range(schedule.num_ranks) for _ in schedule.positions(rank)]
    for position, producer in enumerate(inputs):
        if producer < 0 or rank_of[producer] == rank_of[position] or not sizes.boundary:
            continue
        if schedule.op(position).kind is not OpKind.R and timeline.dependencies.states[position] >= 0:
            state = timeline.dependencies.states[position]
            if schedule.op(state).kind is OpKind.R and inputs[state] == producer:
                continue  # the recomputation before it took the same message
        op = schedule.op(producer)
        amount = sizes.boundary.of_op(schedule.placement, op.stage, rank_of[producer])
        arrival = timeline.arrivals[producer]
        if arrival > timeline.ends[producer]:
            yield rank_of[producer], "send", timeline.ends[producer], arrival, amount
        if timeline.starts[position] > arrival:
            yield rank_of[position], "recv", arrival, timeline.starts[position], amount
