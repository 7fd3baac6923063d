"""The lower bound: no order of the same ops on the same ranks can take less (DESIGN section 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pptrace.analysis.work import blocks, work
from pptrace.timeline import retime

if TYPE_CHECKING:
    from pptrace.timeline import Timeline


def lower_bound(timeline: Timeline) -> int:
    """Ticks: the largest of the longest chain and, for every rank and every stage of a rank, shortest head + its work +
    shortest tail. A head (tail) is the longest chain before (after) an op, latency included. One pass each way over the
    ops in an order in which they can run."""
    schedule, deps = timeline.schedule, timeline.dependencies
    duration = [end - start for start, end in zip(timeline.starts, timeline.ends, strict=True)]
    latency = timeline.latencies
    first_of = {position + 1: position for position in blocks(timeline)}
    compute = work(timeline).order
    ends = retime(timeline)
    order = sorted((p for positions in compute for p in positions), key=lambda p: ends[p] - duration[p])
    members = {p: (p, p + 1) for p in blocks(timeline)}

    head = [0] * schedule.num_ops
    tail = [0] * schedule.num_ops
    for node in order:
        longest = 0
        for op in members.get(node, (node,)):
            awaited = deps.inputs[op]
            if awaited >= 0:
                producer = first_of.get(awaited, awaited)
                longest = max(longest, head[producer] + duration[producer] + (latency[awaited] if latency else 0))
            state = deps.states[op]
            if state >= 0:
                producer = first_of.get(state, state)
                longest = max(longest, head[producer] + duration[producer])
        head[node] = longest
    for node in reversed(order):
        after = duration[node] + tail[node]
        for op in members.get(node, (node,)):
            awaited = deps.inputs[op]
            if awaited >= 0:
                producer = first_of.get(awaited, awaited)
                tail[producer] = max(tail[producer], after + (latency[awaited] if latency else 0))
            state = deps.states[op]
            if state >= 0:
                producer = first_of.get(state, state)
                tail[producer] = max(tail[producer], after)

    bound = max((head[p] + duration[p] + tail[p] for p in order), default=0)
    width = schedule.num_microbatches * schedule.num_steps
    for positions in compute:
        groups: dict[int, list[int]] = {}
        for p in positions:
            for stage in {schedule.codes[op] // width % schedule.num_stages for op in members.get(p, (p,))}:
                groups.setdefault(stage, []).append(p)
        for group in (positions, *groups.values()):
            if group:
                own = sum(duration[p] for p in group)
                bound = max(bound, min(head[p] for p in group) + own + min(tail[p] for p in group))
    return bound
