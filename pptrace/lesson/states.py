"""What is kept in memory and for how long, in words: lifetimes, the peak of every rank beside the bound, what is not
counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pptrace.analysis.lifetimes import ACTIVATION
from pptrace.lesson.document import Block, Heading, Paragraph, Tabular
from pptrace.lesson.forms import OF_RANK
from pptrace.lesson.words import listed, shortened
from pptrace.model import OpKind
from pptrace.rationals import text_of
from pptrace.render import tables
from pptrace.render.figure_strips import several_stages
from pptrace.render.options import MANY_LIFETIMES
from pptrace.render.tables import Table

if TYPE_CHECKING:
    from pptrace.analysis.memory import Peak
    from pptrace.analysis.report import Report
    from pptrace.lesson.words import Words

MOST_OWNERS = 12
MOST_ROWS = 32


def states(report: Report, words: Words) -> list[Block]:
    """Lifetimes and peaks."""
    blocks: list[Block] = [Heading("What is held, and until when"), Paragraph(_rule(report, words))]
    example = _example(report, words)
    blocks += [Paragraph(example)] if example else []
    blocks.append(_peaks(report, words, report.memory.peaks, report.memory.unit))
    if report.memory.input_peaks:
        blocks.append(_peaks(report, words, report.memory.input_peaks, "inputs kept for recomputation"))
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
    same = "the same microbatch" + (" on the same stage" if several_stages(report) else "")
    if OpKind.R in kinds:
        begin = "With recomputation a forward leaves only its input behind; the activation exists from R on"
    else:
        begin = "What a forward saves for its own backward is held from the start of the forward"
    end = f"until the backward of {same} ends"
    if OpKind.W in kinds:
        end = f"until W of {same} ends"
        end += ", or B where the backward is not split" if OpKind.B in kinds else ""
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


def _peaks(report: Report, words: Words, peaks: tuple[Peak, ...], what: str) -> Tabular:
    """The peak of each rank, beside its closed form and the number of ranks, which where it is one is the bound."""
    forms = [form for form in report.closed_forms if form.metric == "peak_activations" and not form.failing]
    claimed = forms[0].claimed if forms and len(forms[0].traced) == report.schedule.num_ranks else ()
    header = ["", "peak", "from t", "held then"]
    header += [words.formula(forms[0].formula)] if claimed else []
    header += (
        [f"bound {words.depth}" if _passing(report, words) is None else words.depth] if words.names.by_stage else []
    )
    rows = []
    for peak in peaks[:MOST_ROWS]:
        cells = [words.row(peak.rank), str(peak.held), words.time(peak.at), words.owners(peak.owners, MOST_OWNERS)]
        cells += [text_of(claimed[peak.rank])] if claimed else []
        cells += [str(report.memory.bound)] if words.names.by_stage else []
        rows.append(tuple(cells))
    left_out = len(peaks) - len(rows)
    notes = [f"{left_out} more {words.rows} are left out"] if left_out else []
    if claimed and OF_RANK.search(forms[0].formula):
        notes.append(f"r counts {words.rows} from 0")
    return Tabular(Table(f"the most {what} held at once", tuple(header), tuple(rows), tuple(notes)))


def _kept(report: Report) -> tuple[tuple[Peak, ...], str]:
    """The peaks of what stays from a forward to its backward, and what it is called if not activations."""
    memory = report.memory
    return (memory.input_peaks, "inputs") if memory.input_peaks else (memory.peaks, "")


def _passing(report: Report, words: Words) -> tuple[int, int] | None:
    """The number of microbatches, the own one or the first larger one, with which a rank holds more than P, and the number
    that it then holds."""
    own, bound = report.schedule.num_microbatches, report.memory.bound
    reports = [(own, report), *((one.microbatches, one.same_size) for one in words.grown if one.microbatches > own)]
    most = [(number, max(peak.held for peak in _kept(each)[0])) for number, each in reports]
    return next(((number, held) for number, held in most if held > bound), None)


def _bound(report: Report, words: Words) -> str:
    """What the bound P says, and what it does not."""
    if not words.names.by_stage or report.schedule.num_ranks == 1:
        return ""
    found, what = _kept(report)
    bound, peaks = report.memory.bound, [peak.held for peak in found]
    letter, more = words.depth, f" {what}" if what else ""
    shown = (
        f"{peaks[0]} on every {words.row_noun}" if len(set(peaks)) == 1 else shortened([str(peak) for peak in peaks])
    )
    passing = _passing(report, words)
    if max(peaks) > bound:
        return f"{letter} = {bound} is no bound of this order: {max(peaks)}{more} are held (peaks {shown})."
    if passing is not None:
        return (
            f"No {words.row_noun} holds more than {letter} = {bound}{more} here, but only because M is small: with "
            f"M={passing[0]} it is {passing[1]}, so that {letter} is no bound of this order."
        )
    where = f"the {what} of every {words.row_noun}" if what else f"every {words.row_noun}"
    always = f"{letter} = {bound} is a bound on {where}, however many microbatches there are"
    if not words.grown:  # no other M was looked at
        always = f"No {words.row_noun} holds more than {letter} = {bound}{more} here"
    reached = [words.row(rank) for rank, peak in enumerate(peaks) if peak == bound]
    if len(reached) == len(peaks):
        said = f"{always}; here every {words.row_noun} reaches it."
    else:
        who = (
            f"only {listed(reached[:4])} {'reaches' if len(reached) == 1 else 'reach'} it"
            if 0 < len(reached) <= 4
            else f"{len(reached)} {words.rows} reach it"
            if reached
            else "none reaches it"
        )
        said = f"{always}. A bound is not the peak: the peaks are {shown}; {who}."
    num = report.schedule.num_microbatches
    if report.schedule.asynchronous or max(peaks) >= num:
        return said
    return (
        f"{said} To run all forwards first is to hold all {num}. The difference is that old state is used up earlier; weights "
        "and optimizer states are as large as ever."
    )
