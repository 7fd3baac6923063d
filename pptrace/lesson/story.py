"""The story of a schedule by phase: which rank runs what and when, from the first forward to the optimizer step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pptrace.analysis.arithmetic import all_running
from pptrace.lesson.document import Block, Bullets, Heading, Paragraph, Tabular
from pptrace.lesson.words import capital, listed, shortened
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
    """What happens, phase by phase: in the first optimizer step, or, without a flush, in all of them."""
    phases = report.phases
    begin, warm, drain = report.work.begin, phases.warmup_until, phases.drain_from
    steady = drain > warm
    blocks: list[Block] = [Heading("What happens when")]
    steps = report.schedule.num_steps
    if steps > 1:
        every = steps * report.schedule.num_microbatches
        told = f"What follows is the first of {steps} optimizer steps."
        if report.schedule.asynchronous:
            told = f"What follows is the way of all {every} microbatches: without a flush the pipeline fills and drains once."
        blocks.append(Paragraph(told))
    blocks += _warmup(report, words, begin, warm)
    blocks += _steady(report, words, warm, drain) if steady else [Paragraph(_no_steady(words))]
    blocks += _drain(report, words, max(warm, drain))
    blocks += _update(report, words)
    return [*blocks, *_journeys(report, words)]


def _warmup(report: Report, words: Words, begin: int, until: int) -> list[Block]:
    first = _first_backward(report)
    sentences = [
        f"Warm-up, t={words.time(begin)} to t={words.time(until)}: until {_last_stage(report, words)} starts its first "
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
        sentences.append(f"{capital(words.row(rank))} is never idle here.")
    kinds = [schedule.op(p).kind for p in _ops(report, rank, begin, until)]
    if words.names.by_stage and kinds and all((kind is OpKind.F) == bool(i % 2) for i, kind in enumerate(kinds)):
        sentences.append("It runs a backward and a forward in turn.")
    return [Paragraph(" ".join(sentences)), _who_runs(report, words, "steady phase", begin, until)]


def _no_steady(words: Words) -> str:
    last = words.last_stage()
    return f"There is no steady phase: when {last} starts its first backward, it has already run all its forwards."


def _drain(report: Report, words: Words, begin: int) -> list[Block]:
    num_ranks = report.schedule.num_ranks
    by_end: dict[int, list[int]] = {}
    for rank, order in enumerate(report.work.order):
        found = [report.timeline.ends[position] for position in order if _is_told(report, position)]
        if found:
            by_end.setdefault(max(found), []).append(rank)
    end = max(by_end, default=report.work.end)
    last = words.last_stage()
    sentences = [f"Drain, t={words.time(begin)} to t={words.time(end)}: {last} has no forward left."]
    stops = [f"{listed(map(words.row, ranks))} at t={words.time(tick)}" for tick, ranks in sorted(by_end.items())]
    if num_ranks > 1 and len(stops) == 1:
        sentences.append(f"All {words.rows} are done at t={words.time(end)}.")
    elif 1 < len(stops) == num_ranks <= MOST_STAGES:
        sentences.append(f"The {words.rows} fall idle one by one: {listed(stops)}.")
    elif len(stops) > 1 and num_ranks <= MOST_STAGES:
        sentences.append(f"The {words.rows} are done: {listed(stops)}.")
    return [Paragraph(" ".join(sentences)), _who_runs(report, words, "drain", begin, end)]


def _is_told(report: Report, position: int) -> bool:
    """Whether an op is of what the story tells: of the first step, or of all where they run into one another."""
    return report.schedule.asynchronous or report.schedule.op(position).step == 0


def _last_stage(report: Report, words: Words) -> str:
    """`stage 3, the last,`; `stage 0` where there is no other."""
    return f"{words.last_stage()}, the last," if report.schedule.num_stages > 1 else words.last_stage()


def _update(report: Report, words: Words) -> list[Block]:
    schedule, timeline = report.schedule, report.timeline
    if schedule.asynchronous:
        kept = shortened([str(peak) for peak in report.versions.peaks])
        return [
            Paragraph(
                "There is no flush: a stage updates its weights while microbatches are under way, and the backward of a "
                "microbatch uses the version that its forward used. Versions of the weights kept at most, from "
                f"{words.row(0)} on: {kept}. This is weight stashing, another algorithm than 1f1b with a flush, although both "
                "alternate forwards and backwards."
            )
        ]
    steps = [p for p in range(schedule.num_ops) if schedule.op(p).kind is OpKind.STEP and schedule.op(p).step == 0]
    last = last_to_end(report)
    if not steps or not last:
        return []
    soonest, latest = min(timeline.starts[p] for p in steps), max(timeline.starts[p] for p in steps)
    when = f"at t={words.time(soonest)}" if soonest == latest else f"at t={words.time(soonest)} to {words.time(latest)}"
    waits = "every stage waits for the gradients of all" if schedule.joint_update else "every stage waits for its own"
    who = f"The last backward to end is {words.op(last[0])}" if len(last) == 1 else f"{words.ops(last)} end last"
    num = schedule.num_microbatches
    used = f"all {num} microbatches used one version" if num > 1 else "forward and backward used one version"
    counts = (
        "Neither counts as elapsed time."
        if schedule.num_steps == 1
        else "Between two steps both make the run longer and count as idle time; after the last one they do not count."
    )
    changed = f"Until then no weight has changed: {used}."
    if not schedule.joint_update:
        changed = f"The backwards of a stage come before its own STEP, so that {used} of its weights."
    return [
        Paragraph(
            f"{who}, at t={words.time(timeline.ends[last[0]])}. {changed} Gradients are reduced and STEP runs, {when}; "
            f"{waits}. {counts}"
        )
    ]


def last_to_end(report: Report) -> list[int]:
    """The compute ops of the first step that end last, one or several at once."""
    schedule, ends = report.schedule, report.timeline.ends
    found = [p for order in report.work.order for p in order if schedule.op(p).step == 0]
    end = max((ends[position] for position in found), default=0)
    return [position for position in found if ends[position] == end]


def _first_backward(report: Report) -> int:
    """The last stage's first backward."""
    schedule = report.schedule
    found = [
        position
        for order in report.work.order
        for position in order
        if schedule.op(position).stage == schedule.num_stages - 1
        and schedule.op(position).kind in (*BACKWARD_KINDS, OpKind.R)  # a recomputation is part of a backward
    ]
    return min(found, key=lambda position: report.timeline.starts[position], default=-1)


def _ops(report: Report, rank: int, begin: int, until: int) -> list[int]:
    """The compute ops of the story on a rank that start in [begin, until), both ops of a pair."""
    schedule, starts = report.schedule, report.timeline.starts
    return [
        position
        for position in schedule.positions(rank)
        if begin <= starts[position] < until
        and schedule.op(position).kind in COMPUTE_KINDS
        and _is_told(report, position)
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
    final = schedule.num_steps - 1 if schedule.asynchronous else 0
    ends = sorted({(0, 0), (final, schedule.num_microbatches - 1)})
    for step, microbatch in ends:
        number = step * schedule.num_microbatches + microbatch
        for kind in (OpKind.F, OpKind.R, OpKind.B, OpKind.I, OpKind.W):
            if kind not in schedule.kinds():
                continue
            positions = [where[coder.base(kind, stage) + number] for stage in range(schedule.num_stages)]
            if any(position >= 0 for position in positions):
                times = [words.time(timeline.starts[p]) if p >= 0 else "-" for p in positions]
                rows.append((f"microbatch {words.microbatch(microbatch, step)}, {KIND_MEANING[kind]}", *times))
    header = ("starts at", *(words.names.stage(stage) for stage in range(schedule.num_stages)))
    return [
        Paragraph(
            "Follow a microbatch: forwards go from the first stage to the last, backwards come back."
            + (
                " The last microbatch matters as much as the first: a backward that is left out at the end is a gradient that "
                "is incomplete."
                if len(ends) > 1
                else ""
            )
        ),
        Tabular(
            Table("the first and the last microbatch on their way" if len(ends) > 1 else "its way", header, tuple(rows))
        ),
    ]


def rules(words: Words) -> Bullets:
    """What may run when, for whoever has to work it out."""
    schedule, costs = words.schedule, words.report.costs
    kinds = schedule.kinds()
    joined = bool(schedule.pairs) and costs.overlap != "split"
    arrived = " and has arrived" if costs.has_communication else ""
    items = [
        f"A {words.row_noun} runs one op at a time{' (an overlapped pair counts as one)' if joined else ''}.",
        f"The forward of a microbatch starts when the output of its forward on the stage before is done{arrived}.",
        "Its backward starts when its own forward is done and the gradient of its backward on the stage after is "
        f"done{arrived}; on the last stage, when its own forward is done.",
    ]
    if joined:
        items.append("An overlapped pair starts when both its ops may start; both results are there when it ends.")
    if OpKind.R in kinds:
        when = (
            "may run any time after its forward"
            if schedule.early_recompute
            else "waits for what its backward waits for"
        )
        items.append(f"R, the recomputation of a forward, runs before the backward and {when}.")
    if kinds & {OpKind.I, OpKind.W}:
        items.append("I is the backward for the input; W, the backward for the weights, may come any time after I.")
    if _in_order(words):
        items.append(f"Each {words.row_noun} takes the ops of one kind and stage in the order of their microbatches.")
    if not schedule.asynchronous:
        which = "" if schedule.joint_update else " of a stage"
        items.append(
            f"The weights{which} change after {'its' if which else 'the'} last backward of the step, not before."
        )
    return Bullets(tuple(items))


def _in_order(words: Words) -> bool:
    """Whether all ranks run the ops of each (kind, stage) by ascending microbatch (and step), which is what fills a hole."""
    schedule = words.schedule
    for rank in range(schedule.num_ranks):
        latest: dict[tuple[OpKind, int], int] = {}
        for position in schedule.positions(rank):
            op = schedule.op(position)
            number = op.step * schedule.num_microbatches + (op.microbatch or 0)
            if op.kind in COMPUTE_KINDS and latest.setdefault((op.kind, op.stage), number) > number:
                return False
            latest[op.kind, op.stage] = number
    return True
