"""Phases: warm-up, steady, cooldown of every rank, and of the pipeline as a whole (DESIGN section 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pptrace.model import COMPUTE_KINDS, OpKind

if TYPE_CHECKING:
    from pptrace.timeline import Timeline


class RankPhases(NamedTuple):
    """Numbers of compute ops before the rank's first backward, after its last forward, and between (may be 0).

    Ticks: the first backward starts at `steady_from`, the last forward ends at `cooldown_from`.
    """

    rank: int
    warmup: int
    steady: int
    cooldown: int
    steady_from: int
    cooldown_from: int


class Phases(NamedTuple):
    """Per rank, and for the pipeline: warm-up lasts until the last stage's first backward (`warmup_until`), the drain
    begins at the end of its last forward (`drain_from`). Where there are several optimizer steps: of the first, as a
    flush empties the pipeline after each; without a flush of all steps together, as the pipeline fills and drains once."""

    ranks: tuple[RankPhases, ...]
    warmup_until: int
    drain_from: int


def phases(timeline: Timeline) -> Phases:
    """The phases of one timeline, in time linear in its ops. A recomputation counts as backward: it is part of
    one in the frameworks."""
    schedule = timeline.schedule
    block = schedule.num_stages * schedule.num_microbatches * schedule.num_steps
    width = schedule.num_microbatches * schedule.num_steps
    num = width if schedule.asynchronous else schedule.num_microbatches
    backward = (OpKind.B, OpKind.I, OpKind.R)
    last_stage = schedule.num_stages - 1
    ranks = []
    first_ends: list[int] = []
    last_forwards: list[int] = []
    for rank in range(schedule.num_ranks):
        ops = [
            (position, code // block, code % block // width)
            for position, code in enumerate(
                schedule.codes[schedule.rank_starts[rank] : schedule.rank_starts[rank + 1]], schedule.rank_starts[rank]
            )
            if code // block in COMPUTE_KINDS and code % width < num
        ]
        backwards = [index for index, (_, kind, _) in enumerate(ops) if kind in backward]
        forwards = [index for index, (_, kind, _) in enumerate(ops) if kind == OpKind.F]
        warmup = backwards[0] if backwards else len(ops)
        cooldown = len(ops) - 1 - forwards[-1] if forwards else len(ops)
        begin = timeline.starts[ops[backwards[0]][0]] if backwards else max(timeline.ends, default=0)
        end = timeline.ends[ops[forwards[-1]][0]] if forwards else 0
        ranks.append(RankPhases(rank, warmup, max(len(ops) - warmup - cooldown, 0), cooldown, begin, end))
        of_last = [(position, kind) for position, kind, stage in ops if stage == last_stage]
        first_ends += [timeline.starts[position] for position, kind in of_last if kind in backward][:1]
        last_forwards += [timeline.ends[position] for position, kind in of_last if kind == OpKind.F][-1:]
    return Phases(tuple(ranks), min(first_ends, default=0), max(last_forwards, default=0))
