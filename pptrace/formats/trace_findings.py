"""What a trace says of itself, against what its events give: stored dependencies, lifetimes and metrics are made again, and
each kind that differs is one sentence. Somebody edited the file, or it comes from elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pptrace.analysis.report import Report
from pptrace.formats import trace_sections

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pptrace.formats.trace_structs import LifetimeInfo, MetricInfo, Trace
    from pptrace.timeline import Timeline


def findings(trace: Trace, timeline: Timeline) -> Iterator[str]:
    """One sentence for each kind of stored thing that differs, with the first place where it does."""
    names = trace_sections.ids(timeline.schedule)
    yield from _dependencies(trace, timeline, names)
    report = Report(timeline)
    if not isinstance(trace.lifetimes, msgspec.UnsetType):
        made = trace_sections.lifetimes(report.lifetimes, names)
        if made != trace.lifetimes:
            yield _lifetimes(trace.lifetimes, made)
    if not isinstance(trace.metrics, msgspec.UnsetType):
        fresh = {metric.key: metric for metric in trace_sections.metrics(report.metrics.values())}
        yield from _metrics(trace.metrics, fresh)


def _dependencies(trace: Trace, timeline: Timeline, names: Sequence[str]) -> Iterator[str]:
    if all(isinstance(event.after, msgspec.UnsetType) for event in trace.events):
        return
    made = {event.id: event for event in trace_sections.events(timeline, names)}
    for i, event in enumerate(trace.events):
        if event.id not in made:
            yield f"$.events[{i}]: {event.id} changes nothing: it takes no time, or no op waits for it"
            return
        receiver = made[event.id].to
        if receiver not in (event.to, msgspec.UNSET):
            yield f"$.events[{i}].to: the file says rank {event.to}, the op that waits for {event.id} is on rank {receiver}"
            return
        rule = made[event.id].after
        if isinstance(event.after, msgspec.UnsetType) or event.after == rule:
            continue
        if isinstance(rule, msgspec.UnsetType) or sorted(event.after) != sorted(rule):
            wanted = ", ".join(() if isinstance(rule, msgspec.UnsetType) else rule) or "nothing"
            yield f"$.events[{i}].after: the file says {', '.join(event.after[:4]) or 'nothing'}, {event.id} waits for {wanted}"
            return


def _lifetimes(stored: list[LifetimeInfo], made: list[LifetimeInfo]) -> str:
    edited = "the events were changed, or the lifetimes were"
    for i, (old, new) in enumerate(zip(stored, made, strict=False)):
        if old != new:
            return (
                f"$.lifetimes[{i}]: the file says {_life(old)}, its events give {_life(new)}; {edited}"
                if _life(old) != _life(new)
                else f"$.lifetimes[{i}]: not what the events give for {_life(new)}; {edited}"
            )
    return f"$.lifetimes: the file has {len(stored)}, its events give {len(made)}; {edited}"


def _life(life: LifetimeInfo) -> str:
    return f"{life.kind} {life.stage},{life.microbatch} on rank {life.rank} in [{life.start}, {life.end})"


def _metrics(stored: list[MetricInfo], fresh: dict[str, MetricInfo]) -> Iterator[str]:
    for i, old in enumerate(stored):
        new = fresh.get(old.key)
        if new is not None and new.values != old.values:
            yield (
                f"$.metrics[{i}]: the file says {old.key} = {_ratios(old)}, its events give {_ratios(new)}; "
                "the events were changed, or the metric was"
            )


def _ratios(metric: MetricInfo) -> str:
    texts = [
        str(value.numerator) if value.denominator == 1 else f"{value.numerator}/{value.denominator}"
        for value in metric.values
    ]
    return " ".join(texts[:8]) + (" ..." if len(texts) > 8 else "")
