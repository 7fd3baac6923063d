"""The closed forms of a schedule beside its trace, with this page's numbers in them, and where they stop holding."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pptrace.analysis.closed_forms import AGREES, Comparison
from pptrace.analysis.growth import what_ifs
from pptrace.lesson.document import Block, Formula, Heading, Paragraph, Tabular
from pptrace.lesson.words import shortened
from pptrace.rationals import text_of
from pptrace.render.numbers import decimal, ratio_text
from pptrace.render.tables import Table

if TYPE_CHECKING:
    from fractions import Fraction

    from pptrace.analysis.report import Report
    from pptrace.lesson.words import Words

OF_RANK = re.compile(r"\br\b|\dr\b")
"""The letter of the rank in a formula."""
_SHOWN_FIRST = ("bubble_over_elapsed", "elapsed", "longest_span", "bubble_time")
"""Of the closed forms that a schedule has, the one that the table of what-ifs follows."""


def closed_forms(report: Report, words: Words) -> list[Block]:
    """Each closed form beside the trace, then what happens to it when an assumption fails."""
    heading = Heading("Where the closed form stops holding")
    forms = report.closed_forms
    if not forms:
        return [heading, Paragraph("No closed form is known for this order: the trace is all there is.")]
    rows = tuple(
        (
            report.metrics[form.metric].label,
            words.formula(form.formula),
            _claimed(report, form),
            _traced(report, form),
            _verdict(form, words),
        )
        for form in forms
    )
    spelled = [
        f"{words.formula(form.formula)} = {filled} = {_values(form.claimed)}"
        + (" (does not apply here)" if form.failing else "")
        for form in forms
        if (filled := _filled(form, words))
    ]
    notes = []
    if any(OF_RANK.search(form.formula) for form in forms):
        notes.append(f"r counts {words.rows} from 0")
    if any("FB" in form.formula for form in forms):
        notes.append(_of_a_pair(words))
    table = Table("closed forms and the trace", ("", "formula", "gives", "trace", "verdict"), rows, tuple(notes))
    with_numbers: list[Block] = []
    if spelled:
        with_numbers = [Paragraph("With the numbers of this page in them:"), Formula(tuple(dict.fromkeys(spelled)))]
    return [
        heading,
        Paragraph(
            "A closed form holds under its own assumptions only. The trace does not need them: where the two differ, the "
            "trace is right."
        ),
        Tabular(table),
        *with_numbers,
        *_what_ifs(report, words),
    ]


def _of_a_pair(words: Words) -> str:
    """What FB stands for, and how long one pair of the picture is where a rank has several stages."""
    pair, several = words.costs.pair, words.schedule.num_chunks
    if pair is None:
        return "FB is the time of an overlapped pair, per microbatch and rank"
    on_one = f"; with {several} stages on a rank one pair takes {text_of(pair / several)}" if several > 1 else ""
    return f"FB = {text_of(pair)} is the time of an overlapped pair, per microbatch and rank as f and b are{on_one}"


def _filled(form: Comparison, words: Words) -> str:
    """The formula with numbers, where that says more than the formula does."""
    if form.formula.isalpha() or not form.claimed or len(set(form.claimed)) > 1:
        return ""
    return words.filled(form.formula)


def _values(values: tuple[Fraction, ...]) -> str:
    texts = [text_of(value) for value in values]
    if len(texts) > 1 and len(set(texts)) == 1:
        return texts[0]
    return shortened(texts)


def _verdict(form: Comparison, words: Words) -> str:
    if form.failing:
        return words.formula(f"does not apply: needs {', '.join(form.failing)}")
    return form.verdict


def _what_ifs(report: Report, words: Words) -> list[Block]:
    rows = []
    for change, other in what_ifs(report):
        form = _followed(other.closed_forms)
        if form is None:
            continue
        rows.append(
            (
                words.formula(change),
                words.formula(form.formula),
                _claimed(other, form),
                _traced(other, form),
                _verdict(form, words),
            )
        )
    if not rows:
        return []
    header = ("change", "formula", "gives", "trace", "verdict")
    return [Tabular(Table("one assumption changed at a time, each simulated", header, tuple(rows)))]


def _followed(forms: list[Comparison]) -> Comparison | None:
    """The closed form to look at: of the first metric of `_SHOWN_FIRST` that has some; one that agrees, if there is one."""
    for key in _SHOWN_FIRST:
        found = [form for form in forms if form.metric == key]
        if found:
            return next((form for form in found if form.verdict == AGREES), found[-1])
    return forms[0] if forms else None


def _claimed(report: Report, form: Comparison) -> str:
    if report.metrics[form.metric].unit == "ratio" and form.claimed:
        return (
            f"{text_of(form.claimed[0])} = {decimal(form.claimed[0])}"
            if "/" in text_of(form.claimed[0])
            else _values(form.claimed)
        )
    return _values(form.claimed) or "-"


def _traced(report: Report, form: Comparison) -> str:
    metric = report.metrics[form.metric]
    if metric.unit == "ratio":
        return ratio_text(metric.value, report.timeline.ticks_per_unit)
    return _values(form.traced)
