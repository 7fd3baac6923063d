"""Metrics: every number of DESIGN section 6, computed once, with its definition and its denominator.

Ratios are exact and not reduced: per rank where every rank has the same idle time (6/14), as totals otherwise.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from pptrace.analysis.bounds import lower_bound
from pptrace.model import OpKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pptrace.analysis.bytes_held import RankBytes
    from pptrace.analysis.idle import Idle
    from pptrace.analysis.memory import Memory
    from pptrace.analysis.work import Work
    from pptrace.timeline import Timeline


class Ratio(NamedTuple):
    """An exact value, not reduced. Times are numerators in ticks over 1."""

    numerator: int
    denominator: int = 1


class Metric(NamedTuple):
    """One metric: `values` holds one Ratio for the pipeline, or one per rank.

    `unit` is "time" (ticks), "ratio" (two times in ticks), "rate" (a count x ticks per unit over ticks), "count" or "bytes".
    `denominator` names what a ratio is divided by.
    """

    key: str
    label: str
    definition: str
    unit: str
    per: str
    values: tuple[Ratio, ...]
    denominator: str = ""

    @property
    def value(self) -> Ratio:
        """The only value of a pipeline metric; the first rank's of another."""
        return self.values[0]


def metrics(
    timeline: Timeline, busy: Work, memory: Memory, waits: Idle, saved: Sequence[RankBytes] = ()
) -> dict[str, Metric]:
    """All metrics, by key, in the order in which they are printed. `saved` are the peaks of activations in bytes, where their
    sizes are known."""
    elapsed, num_ranks = busy.elapsed, timeline.schedule.num_ranks
    idle_times = tuple(elapsed - own for own in busy.busy)
    even = len(set(idle_times)) == 1
    idle_sum, busy_sum, total = (
        (idle_times[0], busy.busy[0], elapsed) if even else (sum(idle_times), sum(busy.busy), num_ranks * elapsed)
    )
    busiest = max(busy.busy)
    longest = max(busy.spans)
    of_elapsed = "elapsed" if even else "ranks x elapsed"
    of_busy = "ideal" if even else "busy time of all ranks"
    inner = tuple(span - own for span, own in zip(busy.spans, busy.busy, strict=True))
    exposed = waits.budget["exposed communication"] // num_ranks
    update = _step_times(timeline)
    count = timeline.schedule.num_microbatches * timeline.schedule.num_steps
    found = [
        _time("elapsed", "elapsed", "end of the last compute op - start of the first", elapsed),
        _time("ideal", "ideal", "per rank, its own compute time", *busy.busy, per="rank"),
        _time("busiest", "busiest rank", "the largest compute time of a rank", busiest),
        Metric(
            "balanced",
            "balanced mean",
            "the mean of the ranks' compute times",
            "time",
            "pipeline",
            (Ratio(sum(busy.busy), num_ranks),),
        ),
        _time("bubble_time", "bubble time", "per rank, elapsed - ideal", *idle_times, per="rank"),
        _ratio(
            "bubble_over_elapsed",
            "bubble / elapsed (elapsed idle fraction)",
            "idle / (ranks x elapsed)",
            idle_sum,
            total,
            of_elapsed,
        ),
        _ratio("bubble_over_ideal", "bubble / ideal (overhead ratio)", "idle / busy", idle_sum, busy_sum, of_busy),
        _ratio(
            "utilization",
            "modelled compute utilization",
            "busy / (ranks x elapsed); not a profiler reading, does not include simultaneous communication",
            busy_sum,
            total,
            of_elapsed,
        ),
        _ratio(
            "span_bubble_rate",
            "span bubble rate",
            "(longest rank span - busy time of the busiest rank) / longest rank span",
            longest - busiest,
            longest,
            "longest rank span",
        ),
        _time("longest_span", "longest rank span", "largest last end - first start of one rank", longest),
        _time("internal_idle", "internal idle", "per rank, idle between its own first and last op", *inner, per="rank"),
        _time("exposed_comm", "exposed communication", _without_communication(timeline), exposed),
        _time(
            "lower_bound",
            "lower bound",
            "no order of these ops on these ranks takes less: longest chain, or shortest head + work + shortest tail",
            lower_bound(timeline),
        ),
        Metric(
            "peak_activations",
            f"peak {memory.unit}",
            f"per rank, the most held at once ({memory.counted})",
            "count",
            "rank",
            tuple(Ratio(peak.held) for peak in memory.peaks),
        ),
        *_of_whole_ranks(timeline, memory),
        *([_peak_bytes(saved)] if saved else []),
        Metric(
            "throughput",
            "throughput",
            "microbatches per unit of time",
            "rate",
            "pipeline",
            (Ratio(count * timeline.ticks_per_unit, elapsed),),
            "elapsed",
        ),
        _time(
            "step_time",
            "step time",
            "REDUCE and STEP after the last compute op; outside elapsed, spans, idle and busy",
            update,
        ),
    ]
    return {metric.key: metric for metric in found}


def _of_whole_ranks(timeline: Timeline, memory: Memory) -> list[Metric]:
    """The same where every rank holds several chunks, so that it can be compared with schedules of one."""
    schedule = timeline.schedule
    chunks = {len(schedule.placement.stages(rank)) for rank in range(schedule.num_ranks)}
    if schedule.num_chunks == 1 or len(chunks) > 1:
        return []
    return [
        Metric(
            "peak_rank_activations",
            "peak rank activations",
            f"per rank, peak chunk activations / {schedule.num_chunks} chunks: in activations of all of a rank's layers",
            "count",
            "rank",
            tuple(Ratio(peak.held, schedule.num_chunks) for peak in memory.peaks),
        )
    ]


def _peak_bytes(saved: Sequence[RankBytes]) -> Metric:
    return Metric(
        "peak_activation_bytes",
        "peak activation bytes",
        "per rank, the most bytes of saved activations at once: M_B from F to the end of B or I, then M_W until W ends",
        "bytes",
        "rank",
        tuple(Ratio(*Fraction(peak.held).as_integer_ratio()) for peak in saved),
    )


def _time(key: str, label: str, definition: str, *ticks: int, per: str = "pipeline") -> Metric:
    return Metric(key, label, definition, "time", per, tuple(Ratio(value) for value in ticks))


def _ratio(key: str, label: str, definition: str, numerator: int, denominator: int, name: str) -> Metric:
    return Metric(key, label, definition, "ratio", "pipeline", (Ratio(numerator, denominator),), name)


def _without_communication(timeline: Timeline) -> str:
    """What exposed communication is; a rank can also wait for a message that takes no time, where messages hold ranks."""
    holding = " and messages that hold no rank" if timeline.costs.link == "blocking" else ""
    return f"elapsed - elapsed of the same order with c = 0{holding}"


def _step_times(timeline: Timeline) -> int:
    """Ticks from the last compute op to the end of the last REDUCE or STEP."""
    schedule = timeline.schedule
    first_boundary = OpKind.REDUCE * schedule.num_stages * schedule.num_microbatches * schedule.num_steps
    compute = max(
        (end for end, code in zip(timeline.ends, schedule.codes, strict=True) if code < first_boundary), default=0
    )
    return max(max(timeline.ends, default=0) - compute, 0)
