"""From a report to the structs of a trace: what is written, whatever the file looks like. Nothing is computed here; every
number comes from analysis/."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType

from pptrace.analysis.idle import CAUSES
from pptrace.costs import Sizes
from pptrace.dependencies import GATHER
from pptrace.formats import trace_structs as structs
from pptrace.model import BOUNDARY_KINDS, OpKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pptrace.analysis.lifetimes import Lifetime
    from pptrace.analysis.memory import Peak
    from pptrace.analysis.metrics import Metric
    from pptrace.analysis.report import Report
    from pptrace.costs import Costs, Values
    from pptrace.model import Schedule
    from pptrace.proof.prove import Proof
    from pptrace.timeline import Timeline


def ids(schedule: Schedule) -> list[str]:
    """The id of every op, by position: `str(op)`, made a (kind, stage) at a time."""
    num, steps = schedule.num_microbatches, schedule.num_steps
    numbers = [f"{m}@{step}" if step else str(m) for step in range(steps) for m in range(num)]
    unnumbered = list(numbers)  # REDUCE and STEP carry no microbatch 0
    for step in range(steps):
        unnumbered[step * num] = f"@{step}" if step else ""
    table: dict[int, list[str]] = {}
    width = num * steps
    for row in set().union(*schedule.rows()):
        kind = OpKind(row // schedule.num_stages)
        prefix = f"{row % schedule.num_stages}{kind.name}"
        table[row] = [prefix + number for number in (unnumbered if kind in BOUNDARY_KINDS else numbers)]
    return [table[code // width][code % width] for code in schedule.codes]


def events_of(report: Report, names: Sequence[str]) -> list[structs.Event]:
    """The events of a report. Without a flush they say which weight version they use; under one, step k uses version k."""
    versions = report.versions.by_position if report.schedule.asynchronous else None
    return events(report.timeline, names, versions)


def events(timeline: Timeline, names: Sequence[str], versions: Sequence[int] | None = None) -> list[structs.Event]:
    """Every op, and every message that takes time after the op that it comes of, by (start, rank, place in the rank's list);
    with the weight version that an op uses, by position, where `versions` is given."""
    schedule = timeline.schedule
    deps = timeline.dependencies
    inputs, states, codes = deps.inputs, deps.states, schedule.codes
    starts, ends = timeline.starts, timeline.ends
    num_stages, num = schedule.num_stages, schedule.num_microbatches
    width = num * schedule.num_steps
    kind_names = [kind.name for kind in OpKind]
    rank_of = [rank for rank in range(schedule.num_ranks) for _ in schedule.positions(rank)]
    blocks: dict[int, str] = {}
    for first in schedule.pairs:
        blocks[first] = blocks[first + 1] = f"({names[first]};{names[first + 1]})OVERLAP_F_B"
    first_boundary = OpKind.REDUCE * num_stages * width
    made = []
    event = structs.Event
    order = timeline.in_time_order()
    for i in order:
        code = codes[i]
        row, number = divmod(code, width)
        step, microbatch = divmod(number, num)
        if code >= first_boundary:
            made.append(_boundary_event(timeline, names, i, rank_of[i]))
            continue
        awaited, state = inputs[i], states[i]
        after = [names[awaited]] if awaited >= 0 else []
        if state >= 0:
            after.append(names[state])
        made.append(
            event(
                names[i],
                rank_of[i],
                row % num_stages,
                kind_names[row // num_stages],  # type: ignore[arg-type]
                microbatch,
                step,
                starts[i],
                ends[i],
                after,
                UNSET,
                blocks.get(i, UNSET) if blocks else UNSET,
                versions[i] if versions else UNSET,
            )
        )
    return _with_messages(timeline, names, order, made)


def _with_messages(
    timeline: Timeline, names: Sequence[str], order: Sequence[int], ops: list[structs.Event]
) -> list[structs.Event]:
    """`ops` (the events of the positions `order`) and the messages, a message behind the op of which it comes where both
    begin at once."""
    messages = timeline.transfers()
    if not messages:
        return ops
    placed = [(event.start, 2 * position, event) for position, event in zip(order, ops, strict=True)]
    coder = timeline.schedule.coder
    for message in messages:
        op = coder.op(timeline.schedule.codes[message.position])
        sent = op._replace(kind=OpKind.SEND_F if op.kind is OpKind.F else OpKind.SEND_B)
        event = structs.Event(
            str(sent),
            message.sender,
            op.stage,
            sent.kind.name,  # type: ignore[arg-type]
            op.microbatch,
            op.step,
            message.departure,
            message.arrival,
            [names[message.position]],
            to=message.receiver,
        )
        placed.append((message.departure, 2 * message.position + 1, event))
    placed.sort()  # no two places are alike, so that events are never compared
    return [event for _, _, event in placed]


def _boundary_event(timeline: Timeline, names: Sequence[str], position: int, rank: int) -> structs.Event:
    """A REDUCE or STEP. Where it waits for every REDUCE it says so in a word: a list in each would be quadratic."""
    op = timeline.schedule.op(position)
    deps = timeline.dependencies
    joint = op.kind is OpKind.STEP and deps.inputs[position] == GATHER
    return structs.Event(
        names[position],
        rank,
        op.stage,
        op.kind.name,  # type: ignore[arg-type]
        op.microbatch,
        op.step,
        timeline.starts[position],
        timeline.ends[position],
        [] if joint else [names[p] for p in deps.after(position)],
        "REDUCE" if joint else UNSET,
    )


def header(report: Report, names: Sequence[str], proof: Proof | None = None) -> structs.Header:
    """Everything but the events; with the verdict of `proof` where one was asked for."""
    timeline = report.timeline
    return structs.Header(
        schema="pptrace.trace/1",
        schedule=schedule_info(report.schedule),
        costs=costs_info(report.costs),
        ticks_per_unit=timeline.ticks_per_unit,
        unit=report.costs.unit or UNSET,
        measured=timeline.measured,
        offset=timeline.offset or UNSET,
        headline=list(report.headline),
        assumptions=list(report.assumptions),
        omitted=report.omitted,
        advice=report.advice or UNSET,
        notes=list(report.notes),
        lifetimes=lifetimes(report.lifetimes, names),
        memory=_memory(report),
        versions=_versions(report) if report.schedule.asynchronous else UNSET,
        phases=_phases(report),
        metrics=metrics(report.metrics.values()),
        closed_forms=_closed_forms(report),
        idle=_idle(report, names),
        proof=_proof(proof) if proof is not None else UNSET,
    )


def _proof(proof: Proof) -> structs.ProofInfo:
    from pptrace.proof.verdict import verdict  # noqa: PLC0415  (few traces carry one)

    return structs.ProofInfo(
        proof.problem.arithmetic.name,  # type: ignore[arg-type]
        proof.proved,
        verdict(proof),
        [f"{fault.code}: {fault}" for fault in proof.faults],
    )


def exact(value: Fraction | int) -> str:
    """`3`, or `3/2`."""
    return str(Fraction(value))


def _per_values(given: Values) -> structs.PerValues:
    return structs.PerValues(given.per, [exact(number) for number in given.numbers])  # type: ignore[arg-type]


def schedule_info(schedule: Schedule) -> structs.ScheduleInfo:
    """Which schedule it is, the order of its ops left out."""
    placement = schedule.placement
    return structs.ScheduleInfo(
        name=schedule.name,
        ranks=placement.num_ranks,
        stages=placement.num_stages,
        chunks=schedule.num_chunks,
        microbatches=schedule.num_microbatches,
        steps=schedule.num_steps,
        placement=placement.kind,
        stage_ranks=list(placement.ranks),
        options=schedule.options,
        asynchronous=schedule.asynchronous,
        joint_update=schedule.joint_update,
        early_recompute=schedule.early_recompute,
    )


def costs_info(costs: Costs) -> structs.CostsInfo:
    """What the times were computed from, as exact texts."""
    sizes: structs.SizesInfo | UnsetType = UNSET
    if costs.sizes is not None:
        given = {part: getattr(costs.sizes, part) for part in Sizes._fields}
        sizes = structs.SizesInfo(**{part: _per_values(value) for part, value in given.items() if value is not None})
    return structs.CostsInfo(
        forward=_per_values(costs.forward),
        backward=_per_values(costs.backward),
        weight_grad=_per_values(costs.weight_grad),
        comm=[exact(value) for value in costs.comm],
        reduce=exact(costs.reduce),
        step_time=exact(costs.step_time),
        overlap=costs.overlap if isinstance(costs.overlap, str) else exact(costs.overlap),
        link=costs.link,  # type: ignore[arg-type]
        microbatch_scale=[exact(value) for value in costs.microbatch_scale],
        unit=costs.unit,
        layers=list(costs.layers),
        source=costs.source,
        sizes=sizes,
    )


def lifetimes(found: Iterable[Lifetime], names: Sequence[str]) -> list[structs.LifetimeInfo]:
    """Lifetimes with the ids of the ops that begin and end them."""
    made = structs.LifetimeInfo
    return [
        made(kind, stage, m, step, rank, start, end, shrinks, names[creator], names[release] if release >= 0 else None)
        for kind, stage, m, step, rank, start, end, shrinks, creator, release in found
    ]


def metrics(found: Iterable[Metric]) -> list[structs.MetricInfo]:
    return [
        structs.MetricInfo(
            metric.key,
            metric.label,
            metric.definition,
            metric.unit,  # type: ignore[arg-type]
            metric.per,  # type: ignore[arg-type]
            metric.denominator,
            [structs.RatioInfo(value.numerator, value.denominator) for value in metric.values],
        )
        for metric in found
    ]


def _peaks(peaks: Iterable[Peak]) -> list[structs.PeakInfo]:
    return [structs.PeakInfo(peak.rank, peak.held, peak.at, list(peak.owners)) for peak in peaks]


def _memory(report: Report) -> structs.MemoryInfo:
    memory, found = report.memory, report.bytes
    sizes: structs.BytesInfo | UnsetType = UNSET
    if found is not None:
        ranks = [
            structs.RankBytesInfo(
                rank.rank, exact(rank.held), rank.at, {part: exact(value) for part, value in rank.parts.items()}
            )
            for rank in found.ranks
        ]
        sizes = structs.BytesInfo(ranks, list(found.left_out))
    return structs.MemoryInfo(
        unit=memory.unit,
        counted=memory.counted,
        bound=memory.bound,
        peaks=_peaks(memory.peaks),
        held=[memory.held(rank) for rank in range(report.schedule.num_ranks)],
        input_peaks=_peaks(memory.input_peaks) if memory.input_peaks else UNSET,
        bytes=sizes,
    )


def _versions(report: Report) -> structs.VersionsInfo:
    found = report.versions
    stashes = [structs.StashInfo(s.rank, s.stage, s.peak, s.at, list(s.held)) for s in found.stashes]
    return structs.VersionsInfo(stashes, list(found.staleness))


def _phases(report: Report) -> structs.PhasesInfo:
    found = report.phases
    return structs.PhasesInfo([structs.PhaseInfo(*rank) for rank in found.ranks], found.warmup_until, found.drain_from)


def _closed_forms(report: Report) -> list[structs.ClosedFormInfo]:
    return [
        structs.ClosedFormInfo(
            form.metric,
            form.formula,
            [exact(value) for value in form.claimed],
            [exact(value) for value in form.traced],
            form.verdict,
            list(form.failing),
        )
        for form in report.closed_forms
    ]


def _idle(report: Report, names: Sequence[str]) -> structs.IdleInfo:
    slots = [
        structs.IdleSlotInfo(
            slot.rank,
            slot.start,
            slot.end,
            slot.cause,
            names[slot.position] if slot.position >= 0 else None,
            names[slot.awaited] if slot.awaited >= 0 else None,
        )
        for slot in report.idle.slots
    ]
    return structs.IdleInfo(CAUSES, list(report.idle.parts), report.idle.budget, slots)
