"""A second schedule beside the first: both figures, one table, and what the difference is, in words."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from pptrace.analysis.difference import difference
from pptrace.lesson.document import Block, Drawing, Heading, Paragraph, Tabular
from pptrace.lesson.words import Words, shortened
from pptrace.rationals import text_of
from pptrace.render.tables import Table

if TYPE_CHECKING:
    from pptrace.analysis.report import Report
    from pptrace.render.figure_parts import FigureOptions

_ROWS = (
    "elapsed",
    "ideal",
    "bubble_time",
    "bubble_over_elapsed",
    "bubble_over_ideal",
    "exposed_comm",
    "peak_activations",
)


def beside(first: Report, second: Report, words: Words, options: FigureOptions) -> list[Block]:
    """`second` compared with `first`; its figure takes the prefix of `options`."""
    others = Words(second, options.drawing)
    names = (first.headline[0], second.headline[0])
    rows = [
        (first.metrics[key].label, words.value(first.metrics[key]), others.value(second.metrics[key])) for key in _ROWS
    ]
    if first.schedule.asynchronous or second.schedule.asynchronous:
        rows.append(("weight versions kept", _versions(first), _versions(second)))
    notes = ["one value per rank where several stand in a row"]
    if first.memory.unit != second.memory.unit:
        notes.append("a chunk activation is that of one stage only; a rank has as many as it holds stages")
    return [
        Heading(f"Beside it: {names[1]}"),
        Paragraph(others.sentence("; ".join(second.assumptions)), less=True),
        Drawing(
            second, options, f"{names[1]}, {others.formula(', '.join(second.headline[1].split('  ')))}", alive=True
        ),
        Tabular(Table("side by side", ("", *names), tuple(rows), tuple(notes))),
        *[Paragraph(text) for text in _sentences(first, second, words, names)],
    ]


def _versions(report: Report) -> str:
    return shortened([str(peak) for peak in report.versions.peaks])


def _sentences(first: Report, second: Report, words: Words, names: tuple[str, str]) -> list[str]:
    found = difference(first.schedule, second.schedule, (first, second))
    changes = {measure.first.key: measure.change for measure in found.measures}
    said = list(found.sizes)
    texts = [f"They differ in more than their order: {'; '.join(said)}."] if said else []
    (elapsed,) = changes["elapsed"]
    total = Fraction(first.metrics["elapsed"].value.numerator, words.unit)
    if not elapsed:
        texts.append(f"Both take {text_of(total)}.")
    else:
        faster = names[1] if elapsed < 0 else names[0]
        texts.append(f"{faster} takes {text_of(abs(elapsed))} less.")
    peaks = changes["peak_activations"]
    if peaks and first.memory.unit == second.memory.unit:
        if not any(peaks):
            texts.append("Both hold equally many activations at their peaks.")
        else:
            texts.append(
                f"The peaks of what is held differ: {words.value(first.metrics['peak_activations'])} against "
                f"{words.value(second.metrics['peak_activations'])}."
            )
    stashing = {report.schedule.name for report in (first, second) if report.schedule.asynchronous}
    if stashing and {first.schedule.name, second.schedule.name} - stashing:
        texts.append(
            "One of them has a flush and one does not: without it weights change while microbatches are under way, several "
            "versions are kept, and training is no longer the synchronous step. The two are not the same thing, whatever "
            "they are called."
        )
    return [" ".join(texts)]
