"""What a trace says of itself, against what its events give: stored dependencies, lifetimes and metrics are made again, and
each kind that differs is one sentence. Somebody edited the file, or it comes from elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pptrace.analysis.lifetimes import ACTIVATION
from pptrace.check.state import StoredLifetime
from pptrace.errors import ScheduleError
from pptrace.formats import trace_sections
from pptrace.model import Op

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pptrace.analysis.report import Report
    from pptrace.formats.trace_structs import LifetimeInfo, MetricInfo, Trace
    from pptrace.timeline import Timeline


def findings(trace: Trace, report: Report) -> Iterator[str]:
    """One sentence for each kind of stored thing that differs from the report, with the first place where it does."""
    timeline = report.timeline
    names = trace_sections.ids(timeline.schedule)
    yield from _dependencies(trace, timeline, names)
    if not isinstance(trace.lifetimes, msgspec.UnsetType):
        made = trace_sections.lifetimes(report.lifetimes, names)
        if made != trace.lifetimes:
            yield _lifetimes(trace.lifetimes, made)
    if not isinstance(trace.metrics, msgspec.UnsetType):
        fresh = {metric.key: metric for metric in trace_sections.metrics(report.metrics.values())}
        yield from _metrics(trace.metrics, fresh)


def edited_lifetimes(trace: Trace, report: Report) -> Iterator[StoredLifetime]:
    """The saved activations whose stored end, or whose op that ends them, is not what the events give."""
    if isinstance(trace.lifetimes, msgspec.UnsetType):
        return
    made = trace_sections.lifetimes(report.lifetimes, trace_sections.ids(report.schedule))
    if made == trace.lifetimes:
        return
    owners = {(new.stage, new.microbatch, new.step): new for new in made if new.kind == ACTIVATION}
    for old in trace.lifetimes:
        new = owners.get((old.stage, old.microbatch, old.step)) if old.kind == ACTIVATION else None
        if new is None or (old.end, old.released_by) == (new.end, new.released_by):
            continue
        by = None
        if old.released_by is not None:
            try:
                by = Op.parse(old.released_by)
            except ScheduleError:  # no op at all: that it differs is said of the lifetimes as a whole
                continue
        end = None if old.released_by is None else old.end
        yield StoredLifetime(old.stage, old.microbatch, old.step, old.start, end, by)


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
    differing = [
        (i, old, fresh[old.key])
        for i, old in enumerate(stored)
        if old.key in fresh and fresh[old.key].values != old.values
    ]
    if differing:
        i, old, new = differing[0]
        more = f" (and {len(differing) - 1} more metrics differ)" if len(differing) > 1 else ""
        yield (
            f"$.metrics[{i}]: the file says {old.key} = {_ratios(old)}, its events give {_ratios(new)}{more}; "
            "the events were changed, or the metric was"
        )


def _ratios(metric: MetricInfo) -> str:
    texts = [
        str(value.numerator) if value.denominator == 1 else f"{value.numerator}/{value.denominator}"
        for value in metric.values
    ]
    return " ".join(texts[:8]) + (" ..." if len(texts) > 8 else "")
