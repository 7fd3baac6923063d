"""What is kept in memory and for how long, in words: lifetimes, the peak of every rank beside the bound, what is not
counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pptrace.analysis.lifetimes import ACTIVATION
from pptrace.lesson.document import Block, Heading, Paragraph, Tabular
from pptrace.lesson.sums import OF_RANK
from pptrace.lesson.words import listed, shortened
from pptrace.model import OpKind
from pptrace.rationals import text_of
from pptrace.render import tables
from pptrace.render.options import MANY_LIFETIMES
from pptrace.render.tables import Table

if TYPE_CHECKING:
    from pptrace.analysis.report import Report
    from pptrace.lesson.words import Words

MOST_OWNERS = 12
MOST_ROWS = 32


def states(report: Report, words: Words) -> list[Block]:
    """Lifetimes and peaks."""
    blocks: list[Block] = [Heading("What is held, and until when"), Paragraph(_rule(report, words))]
    example = _example(report, words)
    blocks += [Paragraph(example)] if example else []
    blocks.append(_peaks(report, words))
    bound = _bound(report, words)
    blocks += [Paragraph(bound)] if bound else []
    if len(report.lifetimes) <= MANY_LIFETIMES:
        found = tables.lifetimes(report, words.names, range(report.schedule.num_ranks))
        blocks += [Tabular(table) for table in found]
    sizes = tables.sizes(report, words.names, range(report.schedule.num_ranks))
    blocks += [Tabular(sizes)] if sizes else []
    blocks.append(Paragraph(f"Counted: {report.memory.counted}.", less=True))
    return blocks


def _rule(report: Report, words: Words) -> str:
    kinds = report.schedule.kinds()
    if OpKind.R in kinds:
        begin = "With recomputation a forward leaves only its input behind; the activation exists from R on"
    else:
        begin = "What a forward saves for its own backward is held from the start of the forward"
    end = (
        "until W of the same microbatch ends" if OpKind.W in kinds else "until the backward of the same microbatch ends"
    )
    if OpKind.W in kinds and OpKind.B in kinds:
        end = "until B or W of the same microbatch ends"
    return (
        f"{begin} {end}. The backward of another microbatch does not free it, and it does not matter whether the "
        f"{words.row_noun} is busy meanwhile."
    )


def _example(report: Report, words: Words) -> str:
    """On the fullest rank: one microbatch that is not freed when others are."""
    memory = report.memory
    peak = max(memory.peaks, key=lambda peak: peak.held)
    lives = [life for life in report.lifetimes if life.rank == peak.rank and life.kind == ACTIVATION]
    alive = [life for life in lives if life.start <= peak.at < life.end and life.released_by >= 0]
    if len(alive) < 2:
        return ""
    last = max(alive, key=lambda life: (life.end, life.start))
    first = min(alive, key=lambda life: (life.end, life.start))
    one, other = (words.owners([(life.stage, life.microbatch, life.step)]) for life in (first, last))
    return (
        f"At t={words.time(peak.at)} {words.row(peak.rank)} holds {peak.held}: {words.owners(peak.owners)}. The end of "
        f"{words.short(first.released_by)} at t={words.time(first.end)} frees only "
        f"{one}; {other} lives until {words.short(last.released_by)} ends at t={words.time(last.end)}."
    )


def _peaks(report: Report, words: Words) -> Tabular:
    forms = [form for form in report.closed_forms if form.metric == "peak_activations" and not form.failing]
    claimed = forms[0].claimed if forms and len(forms[0].traced) == report.schedule.num_ranks else ()
    header = ["", "peak", "from t", "held then"]
    header += [words.formula(forms[0].formula)] if claimed else []
    header += [f"bound {words.depth}"] if words.names.by_stage else []
    rows = []
    for peak in report.memory.peaks[:MOST_ROWS]:
        cells = [words.row(peak.rank), str(peak.held), words.time(peak.at), words.owners(peak.owners, MOST_OWNERS)]
        cells += [text_of(claimed[peak.rank])] if claimed else []
        cells += [str(report.memory.bound)] if words.names.by_stage else []
        rows.append(tuple(cells))
    left_out = len(report.memory.peaks) - len(rows)
    notes = [f"{left_out} more {words.rows} are left out"] if left_out else []
    if claimed and OF_RANK.search(forms[0].formula):
        notes.append(f"r counts {words.rows} from 0")
    return Tabular(Table(f"the most {report.memory.unit} held at once", tuple(header), tuple(rows), tuple(notes)))


def _bound(report: Report, words: Words) -> str:
    """What the bound P says, and what it does not."""
    if not words.names.by_stage or report.schedule.num_ranks == 1:
        return ""
    bound, peaks = report.memory.bound, [peak.held for peak in report.memory.peaks]
    shown, letter = shortened([str(peak) for peak in peaks]), words.depth
    if max(peaks) > bound:
        return f"{letter} = {bound} is no bound of this order: {max(peaks)} are held (peaks {shown})."
    passing = next(
        (
            (grown.microbatches, most)
            for grown in words.grown
            if (most := max(peak.held for peak in grown.same_size.memory.peaks)) > bound
        ),
        None,
    )
    if passing is not None:
        return (
            f"No {words.row_noun} holds more than {letter} = {bound} here, but only because M is small: with M={passing[0]} it "
            f"is {passing[1]}, so that {letter} is no bound of this order."
        )
    always = f"{letter} = {bound} is a bound on every {words.row_noun}, however many microbatches there are"
    if not words.grown:  # no other M was looked at
        always = f"No {words.row_noun} holds more than {letter} = {bound} here"
    reached = [words.row(rank) for rank, peak in enumerate(peaks) if peak == bound]
    if len(reached) == len(peaks):
        said = f"{always}; here every {words.row_noun} reaches it."
    else:
        who = (
            f"only {listed(reached[:4])} {'reaches' if len(reached) == 1 else 'reach'} it"
            if reached
            else "none reaches it"
        )
        said = f"{always}. A bound is not the peak: the peaks are {shown}; {who}."
    if report.schedule.asynchronous:
        return said
    return (
        f"{said} What makes the difference to running all forwards first is that old state is used up earlier; weights and "
        "optimizer states are as large as ever."
    )
