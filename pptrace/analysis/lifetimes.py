"""Lifetimes: from when a state is created to when it may be reused, by owner (stage, microbatch). Counts and bytes are
memory.py's.

    activation            F start to B end; split: to W end, and from the end of I (`shrinks`) only what W still needs
    input                 with recomputation: F start to B end (I end where split); the activation then lives R start to
                          B end (W end where split)

Intervals are [start, end) in ticks, and a state may be reused only when its own consumer has finished, never because
another microbatch's has. A state that no op releases lives to the end of the timeline (`released_by` is -1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pptrace.model import OpKind

if TYPE_CHECKING:
    from pptrace.timeline import Timeline

ACTIVATION = "activation"
INPUT = "input"


class Lifetime(NamedTuple):
    """One state of one owner on one rank, alive in [start, end); `shrinks` is the tick from which only what W needs is
    kept, or None. `created_by` and `released_by` are positions; released_by -1: no op releases it."""

    kind: str
    stage: int
    microbatch: int
    step: int
    rank: int
    start: int
    end: int
    shrinks: int | None
    created_by: int
    released_by: int


def lifetimes(timeline: Timeline) -> list[Lifetime]:
    """All lifetimes of saved activations and, with recomputation, of the inputs kept for it; by stage, then microbatch."""
    schedule = timeline.schedule
    coder = schedule.coder
    kinds = schedule.kinds()
    where = timeline.dependencies.where
    starts, ends = timeline.starts, timeline.ends
    last = max(ends, default=0)
    absent = range(-1, -1)
    num = schedule.num_microbatches
    found: list[Lifetime] = []

    def places(kind: OpKind, stage: int) -> list[int] | range:
        """Positions by microbatch and step; empty where the schedule has no such kind."""
        if kind not in kinds:
            return absent
        run = coder.run(kind, stage)
        return where[run.start : run.stop]

    for stage in range(schedule.num_stages):
        forwards = places(OpKind.F, stage)
        full, half = places(OpKind.B, stage), places(OpKind.I, stage)
        weight, again = places(OpKind.W, stage), places(OpKind.R, stage)
        for number, forward in enumerate(forwards):
            if forward < 0:
                continue
            step, microbatch = divmod(number, num)
            rank = schedule.placement.rank_of(stage, microbatch, num)
            whole = full[number] if full else -1
            part = half[number] if half else -1
            after = weight[number] if weight else -1
            redo = again[number] if again else -1
            release = whole if whole >= 0 else after
            creator = forward
            if redo >= 0:
                consumer = whole if whole >= 0 else part
                gone = ends[consumer] if consumer >= 0 else last
                found.append(
                    Lifetime(INPUT, stage, microbatch, step, rank, starts[forward], gone, None, forward, consumer)
                )
                creator = redo
            shrinks = ends[part] if whole < 0 <= part else None
            end = ends[release] if release >= 0 else last
            found.append(
                Lifetime(ACTIVATION, stage, microbatch, step, rank, starts[creator], end, shrinks, creator, release)
            )
    return found
