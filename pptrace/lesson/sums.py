"""The arithmetic of a schedule, spelled out: what the elapsed time is made of, the fractions and what each is divided by, and
how they change with the number of microbatches."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

from pptrace.analysis.arithmetic import WorkSum, work_sums
from pptrace.lesson.document import Block, Bullets, Formula, Heading, Paragraph, Tabular
from pptrace.lesson.words import counted, listed, shortened
from pptrace.model import OpKind
from pptrace.rationals import text_of
from pptrace.render.numbers import decimal, ratio_text, time_text
from pptrace.render.tables import Table
from pptrace.render.tables import idle as idle_table

if TYPE_CHECKING:
    from pptrace.analysis.growth import Grown
    from pptrace.analysis.metrics import Metric
    from pptrace.analysis.report import Report
    from pptrace.lesson.words import Words

FRACTIONS = ("bubble_over_elapsed", "bubble_over_ideal", "utilization")
MOST_ROWS = 32
"""Ranks whose idle time is listed one by one."""


def sums(report: Report, words: Words) -> list[Block]:
    """Busy and idle time of a rank, the sum of both, the fractions."""
    blocks: list[Block] = [Heading("The arithmetic"), *_elapsed(report, words), *_fractions(report, words)]
    if report.schedule.num_ranks <= MOST_ROWS and report.idle.budget["total"]:
        table = idle_table(report, words.names, range(report.schedule.num_ranks))
        blocks.append(Tabular(table._replace(title=f"where the idle time of each {words.row_noun} is")))
    return blocks


def _elapsed(report: Report, words: Words) -> list[Block]:
    found = report.metrics
    ideal, bubble = found["ideal"], found["bubble_time"]
    by_terms: dict[tuple[object, ...], list[WorkSum]] = {}
    for each in work_sums(report.timeline, report.work):
        by_terms.setdefault(each.terms, []).append(each)
    lines = []
    for group in list(by_terms.values())[:MOST_ROWS]:
        who = f"every {words.row_noun}" if len(by_terms) == 1 else listed(words.row(one.rank) for one in group[:4])
        if len(by_terms) > 1 and len(group) > 4:
            who += f" and {len(group) - 4} more"
        lines.append(f"{who}: {_work_terms(group[0], words)}")
    elapsed = words.time(found["elapsed"].value.numerator)
    even = len(set(bubble.values)) == 1
    if even:
        work, idle = (words.time(metric.value.numerator) for metric in (ideal, bubble))
        total = [f"elapsed = work + idle = {work} + {idle} = {elapsed}"]
        lead = f"Every {words.row_noun} works for {work} and is idle for {idle}; together that is the elapsed time."
    else:
        total = [f"elapsed = {elapsed}", f"work + idle, from {words.row(0)} on: {_pairs(ideal, bubble, words)}"]
        lead = (
            f"Work and idle time of a {words.row_noun} add up to the elapsed time, {elapsed}, on each in its own way."
        )
    return [Paragraph(lead), Formula((*lines, *total, *_textbook(report, words)))]


def _work_terms(found: WorkSum, words: Words) -> str:
    parts = []
    for kind, number, each, total in found.terms:
        name = "pair" if kind is None else kind.name
        parts.append(
            f"{number} {name} * {words.time(each)}" if each is not None else f"{number} {name}, {words.time(total)}"
        )
    return f"{' + '.join(parts) or '0'} = {words.time(found.busy)}"


def _pairs(ideal: Metric, bubble: Metric, words: Words) -> str:
    return shortened(
        [
            f"{words.time(work.numerator)}+{words.time(idle.numerator)}"
            for work, idle in zip(ideal.values, bubble.values, strict=True)
        ]
    )


def _textbook(report: Report, words: Words) -> list[str]:
    """M(f+b) + (P-1)(f+b) where the trace is that sum: each rank's work is the first part, its idle time the second."""
    costs, schedule, found = words.costs, report.schedule, report.metrics
    num, depth, letter = schedule.num_microbatches, schedule.num_ranks, words.depth
    work, idle = num * (costs.f + costs.b), (depth - 1) * (costs.f + costs.b)
    traced = {
        (Fraction(own.numerator, words.unit), Fraction(rest.numerator, words.unit))
        for own, rest in zip(found["ideal"].values, found["bubble_time"].values, strict=True)
    }
    if words.unequal or schedule.num_steps > 1 or traced != {(work, idle)}:
        return []
    ends = f"= {text_of(work)} + {text_of(idle)} = {words.time(found['elapsed'].value.numerator)}"
    if costs.f == costs.b == 1:
        return [f"2M + 2({letter}-1) = 2*{num} + 2*({depth}-1) {ends}"]
    f, b = (f"({text})" if "/" in text else text for text in (text_of(costs.f), text_of(costs.b)))
    return [f"M*(f+b) + ({letter}-1)*(f+b) = {num}*({f}+{b}) + ({depth}-1)*({f}+{b}) {ends}"]


def _fractions(report: Report, words: Words) -> list[Block]:
    found = report.metrics
    over_elapsed, over_ideal, used = (found[key] for key in FRACTIONS)
    rows = tuple(
        (metric.label, words.ratio(metric), metric.denominator)
        for metric in (over_elapsed, over_ideal, used)
        if metric.value.denominator
    )
    blocks: list[Block] = []
    if over_elapsed.value.numerator and over_ideal.value.denominator:
        blocks.append(
            Paragraph(
                f'The same idle time has two fractions, and both are called "the bubble": {words.ratio(over_elapsed)} is the '
                f"idle fraction of the elapsed time, {words.ratio(over_ideal)} the overhead over the ideal time. Always name "
                "the denominator."
            )
        )
    note = (
        "utilization is what the model gives: busy time over elapsed time; it is no reading of a profiler, and does not "
        "include communication that runs at the same time"
    )
    table = Table("fractions, and what each is divided by", ("", "value", "divided by"), rows, (note,))
    return [*blocks, Tabular(table)]


def more_microbatches(report: Report, words: Words) -> list[Block]:
    """How the fraction shrinks as M grows, at a fixed microbatch size and at a fixed global batch."""
    found = words.grown
    heading = Heading("More microbatches")
    if not found:
        return []
    own = report.schedule.num_microbatches
    noun = (
        f"activations held at most by one {words.row_noun}"
        if report.schedule.num_chunks == 1
        else "chunks held at most"
    )
    header: tuple[str, ...] = (
        "M",
        "global batch",
        "elapsed",
        "idle / elapsed",
        "idle / ideal",
        noun,
        "elapsed, same batch",
        "idle / elapsed, same batch",
    )
    rows: tuple[tuple[str, ...], ...] = tuple(
        (
            str(grown.microbatches) + (" (here)" if grown.microbatches == own else ""),
            _times(Fraction(grown.microbatches, own)),
            _elapsed_text(grown.same_size),
            _fraction(grown.same_size, "bubble_over_elapsed"),
            _fraction(grown.same_size, "bubble_over_ideal"),
            str(max(peak.held for peak in grown.same_size.memory.peaks)),
            _elapsed_text(grown.same_batch),
            _fraction(grown.same_batch, "bubble_over_elapsed"),
        )
        for grown in found
    )
    if _updates_in_a_step(report) > 1:  # there is no batch that could grow
        kept = [index for index, name in enumerate(header) if "batch" not in name]
        header, rows = tuple(header[i] for i in kept), tuple(tuple(row[i] for i in kept) for row in rows)
        run = "M only says how long the run is, for an update follows every microbatch: no batch grows with it."
        return [
            heading,
            Paragraph(f"{_why_it_shrinks(found, words)} {run}"),
            Tabular(Table("the same schedule with other M, each simulated", header, rows)),
        ]
    return [
        heading,
        Paragraph(_why_it_shrinks(found, words)),
        Paragraph(f"{'It is not free. ' if _share(found[0].same_size) else ''}Say first what is held fixed:"),
        Bullets(
            (
                "the microbatch size: an op takes as long as before, and the global batch grows with M, which can change how "
                "the model learns (columns 2 to 6);",
                "the global batch: a microbatch shrinks as M grows. Here its ops shrink in proportion and latency does not "
                "(the last two columns); real kernels lose efficiency on small microbatches, and every message pays its "
                "start-up again.",
            )
        ),
        Tabular(Table("the same schedule with other M, each simulated", header, rows, (_same_fraction(found),))),
    ]


def _updates_in_a_step(report: Report) -> int:
    """How often a stage updates its weights in what is called a step."""
    schedule = report.schedule
    width = schedule.num_microbatches * schedule.num_steps
    first = OpKind.STEP * schedule.num_stages * width  # those of stage 0
    return sum(first <= code < first + schedule.num_microbatches for code in schedule.codes)


def _times(factor: Fraction) -> str:
    return f"{text_of(factor)} x"


def _elapsed_text(report: Report) -> str:
    return time_text(report.metrics["elapsed"].value.numerator, report.timeline.ticks_per_unit)


def _fraction(report: Report, key: str) -> str:
    return ratio_text(report.metrics[key].value, report.timeline.ticks_per_unit)


def _why_it_shrinks(found: tuple[Grown, ...], words: Words) -> str:
    """From the traces: whether idle time stays while work grows, whether the fraction falls."""
    larger = [grown for grown in found if grown.microbatches >= words.schedule.num_microbatches]
    idle = {_bubbles(grown.same_size) for grown in larger}
    fractions = [_share(grown.same_size) for grown in larger]
    if len(larger) < 2:
        return "With other numbers of microbatches:"
    first, last = (grown.microbatches for grown in (larger[0], larger[-1]))
    if len(idle) == 1 and len(set(bubbles := next(iter(idle)))) == 1:
        time = text_of(bubbles[0])
        if not bubbles[0]:
            return f"No {words.row_noun} is idle, with any of these numbers of microbatches."
        return (
            f"The idle time of a {words.row_noun} stays {time} while its work grows with M, so that its share falls: from "
            f"{decimal(fractions[0])} of the elapsed time at M={first} to {decimal(fractions[-1])} at M={last}."
        )
    if all(one >= other for one, other in pairwise(fractions)):
        return (
            f"The idle share of the elapsed time falls from {decimal(fractions[0])} at M={first} to {decimal(fractions[-1])} "
            f"at M={last}; idle time itself does not stay the same."
        )
    return "The idle share of the elapsed time does not simply fall with M here."


def _bubbles(report: Report) -> tuple[Fraction, ...]:
    return tuple(
        Fraction(value.numerator, report.timeline.ticks_per_unit) for value in report.metrics["bubble_time"].values
    )


def _share(report: Report) -> Fraction:
    value = report.metrics["bubble_over_elapsed"].value
    return Fraction(value.numerator, value.denominator)


def _same_fraction(found: tuple[Grown, ...]) -> str:
    differing = [grown.microbatches for grown in found if _share(grown.same_size) != _share(grown.same_batch)]
    if not differing:
        return (
            "the fraction is the same whichever is held fixed, since every op shrinks alike and messages take no time; the "
            "elapsed time, memory and the batch are not"
        )
    return f"with latency the two differ ({counted(len(differing), 'row')}): messages do not shrink with the microbatch"
