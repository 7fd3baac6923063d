"""What a timeline amounts to, worked out from its starts and ends alone: the tests' second opinion beside `analysis`.

All in exact units of the costs. A fused block counts once; releases come before allocations at equal times.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from pptrace.model import OpKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pptrace.timeline import Timeline

_TIMED = frozenset({OpKind.F, OpKind.B, OpKind.I, OpKind.W, OpKind.R})


class Facts(NamedTuple):
    makespan: Fraction
    max_span: Fraction
    busy: list[Fraction]
    idle: list[Fraction]
    inner_idle: list[Fraction]

    @property
    def idle_over_elapsed(self) -> Fraction:
        return sum(self.idle) / (len(self.idle) * self.makespan)

    @property
    def idle_over_busy(self) -> Fraction:
        return sum(self.idle) / sum(self.busy)

    @property
    def span_rate(self) -> Fraction:
        return (self.max_span - max(self.busy)) / self.max_span


def facts(timeline: Timeline) -> Facts:
    """Times of the compute ops of a timeline."""
    schedule, unit = timeline.schedule, timeline.ticks_per_unit
    block = schedule.num_stages * schedule.num_microbatches * schedule.num_steps
    firsts, lasts, busy = [], [], []
    for rank in range(schedule.num_ranks):
        timed = [p for p in schedule.positions(rank) if schedule.codes[p] // block in _TIMED]
        firsts.append(timeline.starts[timed[0]])
        lasts.append(timeline.ends[timed[-1]])
        joined = {first + 1 for first in schedule.pairs} if timeline.costs.overlap != "split" else set()
        busy.append(sum(timeline.ends[p] - timeline.starts[p] for p in timed if p not in joined))
    elapsed = max(lasts) - min(firsts)
    spans = [last - first for first, last in zip(firsts, lasts, strict=True)]
    return Facts(
        Fraction(elapsed, unit),
        Fraction(max(spans), unit),
        [Fraction(b, unit) for b in busy],
        [Fraction(elapsed - b, unit) for b in busy],
        [Fraction(s - b, unit) for s, b in zip(spans, busy, strict=True)],
    )


def peaks(timeline: Timeline, kept_after_input_grad: Fraction = Fraction(1)) -> list[Fraction]:
    """Per rank, the most activations held: 1 from F start to B or I end, then `kept_after_input_grad` until W end."""
    schedule = timeline.schedule
    block = schedule.num_stages * schedule.num_microbatches * schedule.num_steps
    scale = kept_after_input_grad.denominator
    kept = int(kept_after_input_grad * scale)
    result = []
    for rank in range(schedule.num_ranks):
        changes = []
        for position in schedule.positions(rank):
            kind = schedule.codes[position] // block
            if kind == OpKind.F:
                changes.append((timeline.starts[position], scale))
            elif kind == OpKind.B:
                changes.append((timeline.ends[position], -scale))
            elif kind == OpKind.I:
                changes.append((timeline.ends[position], kept - scale))
            elif kind == OpKind.W:
                changes.append((timeline.ends[position], -kept))
        result.append(Fraction(_highest(changes), scale))
    return result


def _highest(changes: Iterable[tuple[int, int]]) -> int:
    held = most = 0
    for _, change in sorted(changes):
        held += change
        most = max(most, held)
    return most
