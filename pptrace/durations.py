"""Durations: the one scaling from exact costs to whole ticks by position. No fraction goes further than this file, and no
float comes as far."""

from __future__ import annotations

from fractions import Fraction
from math import lcm
from operator import add
from typing import TYPE_CHECKING, NamedTuple

from pptrace.costs import check_costs, hop_latency
from pptrace.errors import ParameterError
from pptrace.model import BOUNDARY_KINDS, OpKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pptrace.costs import Costs
    from pptrace.model import Placement, Schedule

MAX_TICKS = 2**53
"""Times stay below this, so that every JSON reader keeps them exact."""
_UNSCALED = (Fraction(1),)
"""The scale of what does not depend on the microbatch."""


class Durations(NamedTuple):
    """Whole ticks, by position. `latencies[i]` is how long the output of op i travels; None where nothing travels.

    Both ops of an overlapped pair carry the duration of the block.
    """

    ticks: list[int]
    latencies: list[int] | None
    ticks_per_unit: int


def durations(schedule: Schedule, costs: Costs) -> Durations:
    """Scale `costs` once to whole ticks for every op of `schedule`, in time linear in its ops.

    Raises `ParameterError` where a cost cannot be used, or where the times would pass 2^53 ticks.
    """
    placement = schedule.placement
    check_costs(costs, placement, schedule.num_microbatches)
    halves = (False, True) if placement.bidirectional else (False,)
    num_stages = schedule.num_stages
    rank_of = {up: placement.ranks[::-1] if up else placement.ranks for up in halves}
    kinds = sorted(schedule.kinds())
    op_times = _OpTimes(costs, placement)
    times = {
        (kind, stage, up): op_times.at(kind, stage, rank_of[up][stage])
        for kind in kinds
        for stage in range(num_stages)
        for up in halves
    }
    hops = (
        {(stage, up): hop_latency(costs, placement, stage, up=up) for stage in range(num_stages - 1) for up in halves}
        if costs.has_communication
        else {}
    )
    blocks = _fixed_pair_times(schedule, costs)
    scale = costs.microbatch_scale or _UNSCALED
    denominators = {
        (time * factor).denominator
        for kind, time in op_times.distinct()
        for factor in (_UNSCALED if kind in BOUNDARY_KINDS else set(scale))
    }
    denominators |= {hop.denominator for hop in hops.values()} | {time.denominator for time in blocks}
    unit = lcm(*denominators)

    by_code = _Filler(schedule, kinds)
    for (kind, stage, up), time in times.items():
        by_code.fill(kind, stage, up, time, _UNSCALED if kind in BOUNDARY_KINDS else scale, unit)
    ticks = by_code.at_positions()
    _join_pairs(schedule, costs, ticks, [int(time * unit) for time in blocks])

    latencies = None
    if any(hops.values()):
        travel = _Filler(schedule, kinds)
        for (stage, up), hop in hops.items():
            travel.fill(OpKind.F, stage, up, hop, _UNSCALED, unit)
            travel.fill(OpKind.B, stage + 1, up, hop, _UNSCALED, unit)
            travel.fill(OpKind.I, stage + 1, up, hop, _UNSCALED, unit)
        latencies = travel.at_positions()

    if sum(ticks) + sum(latencies or ()) >= MAX_TICKS:
        named = f"f={costs.forward.text()} b={costs.backward.text()} w={costs.weight_grad.text()}"
        tick = (
            f"ticks of 1/{unit}" if unit < MAX_TICKS else "ticks that divide them all"
        )  # it may have thousands of digits
        message = (
            f"with {tick} the times would pass 2^53; use durations ({named[:120]}) "
            "with a smaller common denominator, or a larger unit"
        )
        raise ParameterError(message)
    return Durations(ticks, latencies, unit)


class _OpTimes:
    """The times of ops, each worked out once: where ranks are alike, one per kind and number of stages on a rank."""

    def __init__(self, costs: Costs, placement: Placement) -> None:
        self.costs = costs
        self.placement = placement
        self.alike = all(len(given.numbers) == 1 for given in (costs.forward, costs.backward, costs.weight_grad))
        self.known: dict[tuple[int, ...], Fraction] = {}

    def at(self, kind: OpKind, stage: int, rank: int) -> Fraction:
        key = (kind, self.placement.stages_per_rank(rank)) if self.alike else (kind, stage, rank)
        if key not in self.known:
            self.known[key] = self.costs.op_time(kind, self.placement, stage, rank)
        return self.known[key]

    def distinct(self) -> Iterator[tuple[int, Fraction]]:
        """(kind, time) of every time that was asked for; those that are alike once."""
        return ((key[0], time) for key, time in self.known.items())


class _Filler:
    """A table by code, filled a (kind, stage) at a time and read by position."""

    def __init__(self, schedule: Schedule, kinds: Iterable[OpKind]) -> None:
        self.schedule = schedule
        self.kinds = frozenset(kinds)
        self.width = schedule.num_microbatches * schedule.num_steps
        self.table = [0] * ((max(self.kinds, default=0) + 1) * schedule.num_stages * self.width)
        self.rows: dict[tuple[int, int, bool], list[int]] = {}

    def fill(self, kind: OpKind, stage: int, up: bool, time: Fraction, scale: Sequence[Fraction], unit: int) -> None:
        """Set all microbatches of (kind, stage) that run on this copy: `time` x `scale` (one factor, or one each)."""
        if kind not in self.kinds:
            return
        num, steps = self.schedule.num_microbatches, self.schedule.num_steps
        key = (*time.as_integer_ratio(), scale is _UNSCALED)  # a fraction's own hash takes ten times as long
        if key not in self.rows:
            ticks = [int(time * factor * unit) for factor in scale]
            self.rows[key] = (ticks if len(ticks) == num else ticks * num) * steps
        row = self.rows[key]
        base = self.schedule.coder.base(kind, stage)
        if self.schedule.placement.bidirectional:
            first_up = (num + 1) // 2
            for start in range(0, self.width, num):
                low, high = (start + first_up, start + num) if up else (start, start + first_up)
                self.table[base + low : base + high] = row[low:high]
        else:
            self.table[base : base + self.width] = row

    def at_positions(self) -> list[int]:
        return list(map(self.table.__getitem__, self.schedule.codes))


def _fixed_pair_times(schedule: Schedule, costs: Costs) -> list[Fraction]:
    """What an overlapped pair lasts on every rank where the costs say so; empty where its ops decide."""
    if not schedule.pairs or costs.overlap in ("sum", "max", "split"):
        return []
    times = [costs.fixed_pair_time(schedule.placement, rank) for rank in range(schedule.num_ranks)]
    return [time for time in times if time is not None]


def _join_pairs(schedule: Schedule, costs: Costs, ticks: list[int], blocks: Sequence[int]) -> None:
    """Give both ops of every overlapped pair the duration of the block: of its rank, or of the two together."""
    if costs.overlap == "split":
        return
    together = max if costs.overlap == "max" else add
    for first in schedule.pairs:
        block = blocks[schedule.rank_at(first)] if blocks else together(ticks[first], ticks[first + 1])
        ticks[first] = ticks[first + 1] = block
