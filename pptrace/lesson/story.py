"""The story of a schedule by phase: which rank runs what and when, from the first forward to the optimizer step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pptrace.analysis.arithmetic import all_running
from pptrace.lesson.document import Block, Bullets, Heading, Paragraph, Tabular
from pptrace.lesson.words import counted, listed, shortened
from pptrace.model import BACKWARD_KINDS, COMPUTE_KINDS, OpKind
from pptrace.render.names import KIND_MEANING
from pptrace.render.tables import Table

if TYPE_CHECKING:
    from pptrace.analysis.report import Report
    from pptrace.lesson.words import Words

MOST_LISTED = 12
"""Ops of one rank that a table lists one by one; of more, the first and the last."""
MOST_STAGES = 16
"""Stages that the way of one microbatch is shown through."""


def story(report: Report, words: Words) -> list[Block]:
    """What happens, phase by phase, of the first optimizer step."""
    phases = report.phases
    begin, warm, drain = report.work.begin, phases.warmup_until, phases.drain_from
    steady = drain > warm
    blocks: list[Block] = [Heading("What happens when")]
    if report.schedule.num_steps > 1:
        blocks.append(Paragraph(f"This is optimizer step 0 of {report.schedule.num_steps}."))
    blocks += _warmup(report, words, begin, warm)
    blocks += _steady(report, words, warm, drain) if steady else [Paragraph(_no_steady(words))]
    blocks += _drain(report, words, max(warm, drain))
    blocks += _update(report, words)
    return [*blocks, *_journeys(report, words)]


def _warmup(report: Report, words: Words, begin: int, until: int) -> list[Block]:
    first = _first_backward(report)
    sentences = [
        f"Warm-up, t={words.time(begin)} to t={words.time(until)}: until {words.last_stage()}, the last, starts its first "
        f"backward" + (f" ({words.short(first)})." if first >= 0 else ".")
    ]
    counts = [str(rank.warmup) for rank in report.phases.ranks]
    if report.schedule.num_ranks > 1:
        sentences.append(
            f"Before its own first backward a {words.row_noun} runs this many ops, from {words.row(0)} on: {shortened(counts)}."
        )
        full = all_running(report.timeline, report.work)
        if full:
            start, end = full[0]
            sentences.append(
                f"All {words.rows} run at once for the first time from t={words.time(start)} to t={words.time(end)}."
            )
        else:
            sentences.append(f"At no moment do all {words.rows} run at once.")
    return [Paragraph(" ".join(sentences)), _who_runs(report, words, "warm-up", begin, until)]


def _steady(report: Report, words: Words, begin: int, until: int) -> list[Block]:
    schedule = report.schedule
    stage = schedule.num_stages - 1
    rank = schedule.placement.rank_of(stage)
    last = max((p for p in _ops(report, rank, begin, until) if schedule.op(p).kind is OpKind.F), default=-1)
    sentences = [
        f"Steady phase, t={words.time(begin)} to t={words.time(until)}: until {words.last_stage()} has run its last forward"
        + (f" ({words.short(last)})." if last >= 0 else ".")
    ]
    idle = [slot for slot in report.idle.slots if slot.rank == rank and slot.start < until and slot.end > begin]
    if not idle:
        sentences.append(f"{_capital(words.row(rank))} is never idle here.")
    kinds = [schedule.op(p).kind for p in _ops(report, rank, begin, until)]
    if words.names.by_stage and kinds and all((kind is OpKind.F) == bool(i % 2) for i, kind in enumerate(kinds)):
        sentences.append("It runs a backward and a forward in turn.")
    return [Paragraph(" ".join(sentences)), _who_runs(report, words, "steady phase", begin, until)]


def _no_steady(words: Words) -> str:
    last = words.last_stage()
    return f"There is no steady phase: when {last} starts its first backward, it has run all its forwards already."


def _drain(report: Report, words: Words, begin: int) -> list[Block]:
    schedule, work = report.schedule, report.work
    end = max(
        (report.timeline.ends[order[i]] for order in work.order for i in _last_of_step(report, order)), default=work.end
    )
    sentences = [f"Drain, t={words.time(begin)} to t={words.time(end)}: no forward is left to the last stage."]
    if schedule.num_steps == 1 and 1 < schedule.num_ranks <= MOST_STAGES:
        by_end: dict[int, list[int]] = {}
        for rank, tick in enumerate(work.last):
            by_end.setdefault(tick, []).append(rank)
        stops = [f"{listed(map(words.row, ranks))} at t={words.time(tick)}" for tick, ranks in sorted(by_end.items())]
        sentences.append(
            f"The {words.rows} fall idle one by one: {listed(stops)}."
            if len(by_end) == schedule.num_ranks
            else f"The {words.rows} are done: {listed(stops)}."
        )
    return [Paragraph(" ".join(sentences)), _who_runs(report, words, "drain", begin, end)]


def _last_of_step(report: Report, order: tuple[int, ...]) -> list[int]:
    """The index of the last op of step 0 in a rank's list."""
    return [i for i, position in enumerate(order) if report.schedule.op(position).step == 0][-1:]


def _update(report: Report, words: Words) -> list[Block]:
    schedule, timeline = report.schedule, report.timeline
    if schedule.asynchronous:
        kept = shortened([str(peak) for peak in report.versions.peaks])
        return [
            Paragraph(
                "There is no flush: a stage updates its weights while microbatches are under way, and the backward of a "
                "microbatch uses the version that its forward used. Versions of the weights kept, by rank: "
                f"{kept}. This is weight stashing, another algorithm than 1f1b with a flush, although both "
                "alternate forwards and backwards."
            )
        ]
    steps = [p for p in range(schedule.num_ops) if schedule.op(p).kind is OpKind.STEP and schedule.op(p).step == 0]
    last = max(
        (p for order in report.work.order for p in order if schedule.op(p).step == 0),
        key=lambda p: timeline.ends[p],
        default=-1,
    )
    if not steps or last < 0:
        return []
    soonest, latest = min(timeline.starts[p] for p in steps), max(timeline.starts[p] for p in steps)
    when = f"at t={words.time(soonest)}" if soonest == latest else f"at t={words.time(soonest)} to {words.time(latest)}"
    waits = "every stage waits for the gradients of all" if schedule.joint_update else "every stage waits for its own"
    return [
        Paragraph(
            f"The last backward to end is {words.op(last)}, at t={words.time(timeline.ends[last])}. Until then no weight "
            f"has changed: all {words.schedule.num_microbatches} microbatches used one version. Then gradients are reduced and "
            f"STEP runs, {when}; {waits}. Neither counts as elapsed time."
        )
    ]


def _first_backward(report: Report) -> int:
    """The last stage's first backward."""
    schedule = report.schedule
    found = [
        position
        for order in report.work.order
        for position in order
        if schedule.op(position).stage == schedule.num_stages - 1 and schedule.op(position).kind in BACKWARD_KINDS
    ]
    return min(found, key=lambda position: report.timeline.starts[position], default=-1)


def _ops(report: Report, rank: int, begin: int, until: int) -> list[int]:
    """The compute ops of step 0 on a rank that start in [begin, until), both ops of a pair."""
    schedule, starts = report.schedule, report.timeline.starts
    return [
        position
        for position in schedule.positions(rank)
        if begin <= starts[position] < until
        and (op := schedule.op(position)).kind in COMPUTE_KINDS
        and op.step == 0
        and report.timeline.ends[position] > starts[position]
    ]


def _who_runs(report: Report, words: Words, title: str, begin: int, until: int) -> Tabular:
    rows = []
    for rank in range(report.schedule.num_ranks):
        found = [
            f"{words.short(p)} {words.during(report.timeline.starts[p], report.timeline.ends[p])}"
            for p in _ops(report, rank, begin, until)
        ]
        if len(found) > MOST_LISTED:
            left_out = len(found) - MOST_LISTED + 2
            found = [*found[: MOST_LISTED - 5], f"... {left_out} more ...", *found[-3:]]
        rows.append((words.row(rank), ", ".join(found) or "idle"))
    return Tabular(Table(f"{title}: ops and when they run", ("", "starts in this phase"), tuple(rows)))


def _journeys(report: Report, words: Words) -> list[Block]:
    """The way of the first and of the last microbatch through the stages."""
    schedule, timeline = report.schedule, report.timeline
    if not 1 < schedule.num_stages <= MOST_STAGES:
        return []
    coder, where = schedule.coder, timeline.dependencies.where
    rows = []
    for microbatch in sorted({0, schedule.num_microbatches - 1}):
        for kind in (OpKind.F, OpKind.B, OpKind.I, OpKind.W):
            if kind not in schedule.kinds():
                continue
            positions = [where[coder.base(kind, stage) + microbatch] for stage in range(schedule.num_stages)]
            if any(position >= 0 for position in positions):
                times = [words.time(timeline.starts[p]) if p >= 0 else "-" for p in positions]
                rows.append((f"microbatch {words.microbatch(microbatch)}, {KIND_MEANING[kind]}", *times))
    header = ("starts at", *(words.names.stage(stage) for stage in range(schedule.num_stages)))
    return [
        Paragraph(
            "Follow a microbatch: forwards go down the stages, backwards come up again. The last one matters as much as the "
            "first: a backward that is left out at the end is a gradient that is incomplete."
        ),
        Tabular(Table("the first and the last microbatch on their way", header, tuple(rows))),
    ]


def rules(words: Words) -> Bullets:
    """What may run when, for whoever has to work it out."""
    schedule = words.schedule
    kinds = schedule.kinds()
    split = bool(kinds & {OpKind.I, OpKind.W})
    items = [
        f"A {words.row_noun} runs one op at a time"
        + (" (an overlapped pair counts as one)" if schedule.pairs else "")
        + ".",
        "The forward of a microbatch starts when its forward on the stage before is done"
        + (" and its output has arrived, c later." if words.report.costs.has_communication else "."),
        "Its backward starts when its own forward and its backward on the stage after are done; on the last stage, when its "
        "own forward is done.",
    ]
    if split:
        items.append("I is the backward for the input; W, the backward for the weights, may come any time after I.")
    if not schedule.asynchronous:
        items.append("The weights change after the last backward of the step, not before.")
    return Bullets(tuple(items))


def size_words(report: Report) -> str:
    """`4 ranks, 4 microbatches`."""
    schedule = report.schedule
    return f"{counted(schedule.num_ranks, 'rank')}, {counted(schedule.num_microbatches, 'microbatch', 'microbatches')}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
