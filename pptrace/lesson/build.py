"""From a report to a whole page: the lesson, or the exercise with its answer key. It owns the order of the parts; their
sentences are in the files beside this one, and every figure in them is the analysis'."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pptrace.errors import ParameterError
from pptrace.lesson.beside import beside
from pptrace.lesson.document import Block, Break, Bullets, Document, Drawing, Folded, Heading, Paragraph, Tabular
from pptrace.lesson.exercise import (
    Choice,
    choose_holes,
    drawn_positions,
    hidden_ops,
    order_lists,
    questions,
)
from pptrace.lesson.forms import closed_forms
from pptrace.lesson.states import states
from pptrace.lesson.story import rules, story
from pptrace.lesson.sums import more_microbatches, sums
from pptrace.lesson.words import Words
from pptrace.queue_lab import INITIAL, LIMITS, STEP, run_steps
from pptrace.rationals import text_of
from pptrace.render.figure_parts import FigureOptions
from pptrace.render.tables import Table
from pptrace.schedules.registry import REGISTRY, entry

if TYPE_CHECKING:
    from pptrace.analysis.report import Report

MOST_OPS = 20_000
"""A page with more ops is no page that anybody reads."""
MOST_LIVES = 40
"""Up to this many lifetimes are drawn under the grid."""
LAB = ((2, 3), (4, 4), (0, 4))
"""Arrival and service rates of the queue lab on a page."""


class PageOptions(NamedTuple):
    """What a reader may ask of a page.

    `names`, `one_based`, `theme` are those of `FigureOptions`. `exercise`: questions in place of the lesson; `holes` is the
    number of ops to hide (None: a quarter of them), `blank` an empty grid; `seed` decides what is hidden and asked. `apart`:
    the answers are another page's. `lab` adds the queue lab. `title` replaces the page's.
    """

    names: str = ""
    one_based: bool = False
    theme: str = "auto"
    exercise: bool = False
    holes: int | None = None
    blank: bool = False
    seed: int = 0
    apart: bool = False
    lab: bool = False
    title: str = ""

    def figure(self, prefix: str) -> FigureOptions:
        """The options of a figure of the page."""
        return FigureOptions(names=self.names, one_based=self.one_based, theme=self.theme, title=False, prefix=prefix)


class Handout(NamedTuple):
    """The page, and the answers where they are a page of their own."""

    page: Document
    answers: Document | None = None


def handout(report: Report, options: PageOptions | None = None, other: Report | None = None) -> Handout:
    """The page about `report`, with `other` beside it.

    Raises `ParameterError` for a schedule of more than 20,000 ops, for more holes than ops, and for a comparison in an
    exercise.
    """
    options = options or PageOptions()
    for each in (report, other):
        if each is not None and each.schedule.num_ops > MOST_OPS:
            message = (
                f"{each.schedule.num_ops:,} ops are too many for a page (at most {MOST_OPS:,}); take a smaller P or M, or "
                "`pptrace convert` for a figure alone"
            )
            raise ParameterError(message)
    words = Words(report, options.figure("pp").drawing)
    if options.exercise:
        if other is not None:
            message = "an exercise has one schedule; leave --compare or --exercise out"
            raise ParameterError(message)
        return _exercise(report, words, options)
    return Handout(_lesson(report, words, options, other))


def _lesson(report: Report, words: Words, options: PageOptions, other: Report | None) -> Document:
    name, subtitle = _titles(report, words)
    few = len(report.lifetimes) <= MOST_LIVES
    figure = options.figure("pp")._replace(curve=True, lifetimes=few)
    blocks: list[Block] = [
        *_about(report, words),
        *_assumptions(report, words),
        Heading("The picture"),
        Drawing(report, figure, _caption(report, words), alive=True),
        *story(report, words),
        *sums(report, words),
        *states(report, words),
        *more_microbatches(report, words),
        *closed_forms(report, words),
        *(beside(report, other, words, options.figure("other")._replace(curve=True)) if other is not None else []),
        *_left_out(report, words),
        *(_lab() if options.lab else []),
    ]
    return Document(options.title or name, subtitle, tuple(blocks), options.theme)


def _titles(report: Report, words: Words) -> tuple[str, str]:
    name, sizes, costs = report.headline
    sizes = ", ".join(sizes.split("  "))
    return name, f"{words.formula(sizes)}; {', '.join(costs.split('   '))}"


def _about(report: Report, words: Words) -> list[Block]:
    name = report.schedule.name
    if name not in REGISTRY:
        return []
    known = entry(name)
    texts = [words.formula(f"{known.summary[:1].upper()}{known.summary[1:]}. Source: {known.source}.")]
    return [Paragraph(text, less=True) for text in texts]


def _assumptions(report: Report, words: Words) -> list[Block]:
    return [Heading("What is assumed"), Bullets(tuple(words.sentence(text) for text in report.assumptions))]


def _caption(report: Report, words: Words) -> str:
    found = report.metrics
    return (
        f"Time runs to the right, one row per {words.row_noun}. Elapsed {words.value(found['elapsed'])}; idle over elapsed "
        f"{words.ratio(found['bubble_over_elapsed'])}; idle over ideal {words.ratio(found['bubble_over_ideal'])}; peaks "
        f"{words.value(found['peak_activations'])} ({report.memory.counted})."
    )


def _left_out(report: Report, words: Words) -> list[Block]:
    omitted = words.sentence(report.omitted)
    fraction = "A better fraction here is a statement about this model. Whether training is faster has to be measured."
    if report.timeline.measured:
        omitted = (
            "Times were measured: memory pressure, overlap and kernel effects are in them and cannot be told apart."
        )
        fraction = "A fraction here is that of one run, with whatever disturbed it."
    items = [
        omitted,
        f"Memory counts {report.memory.counted}.",
        "The same gradients as one step without microbatches need the right normalization of every microbatch's loss and the "
        "same randomness. Batch statistics per microbatch are not those of the whole batch, and sums of floating-point numbers "
        "may differ in their last bits.",
        fraction,
    ]
    return [Heading("What the model leaves out"), Bullets(tuple(items))]


def _exercise(report: Report, words: Words, options: PageOptions) -> Handout:
    choice = Choice(options.seed)
    holes = frozenset(drawn_positions(report)) if options.blank else choose_holes(report, choice, options.holes)
    asked = questions(report, words, choice, frozenset() if options.blank else holes)
    name, subtitle = _titles(report, words)
    title = options.title or f"{name}: exercise"
    task = (
        "Draw the ops into the empty grid: for each, when it starts and when it ends."
        if options.blank
        else f"{len(holes)} ops are hidden. Which are they?"
    )
    lists: list[Block] = [Tabular(order_lists(report, words))] if options.blank else []
    blocks: list[Block] = [
        *_about(report, words),
        *_assumptions(report, words),
        Paragraph("What may run when:"),
        rules(words),
        *lists,
        Heading("The grid"),
        Paragraph(task),
        Drawing(report, options.figure("pp")._replace(holes=holes), blank=options.blank),
        Heading("Questions"),
        Bullets(tuple(question.text for question in asked), numbered=True),
        *(_lab(answers=False) if options.lab else []),
    ]
    figure = options.figure("key")._replace(curve=True)
    answers: list[Block] = [
        Drawing(report, figure, _caption(report, words), alive=True),
        *([] if options.blank else [Tabular(hidden_ops(report, words, holes))]),
        Bullets(tuple(question.answer for question in asked), numbered=True),
        *(_lab() if options.lab else []),
    ]
    if options.apart:
        key = Document(f"{title}, answers", subtitle, tuple(answers), options.theme)
        return Handout(Document(title, subtitle, tuple(blocks), options.theme), key)
    blocks += [Break(), Folded("Answers", tuple(answers))]
    return Handout(Document(title, subtitle, tuple(blocks), options.theme))


def _lab(*, answers: bool = True) -> list[Block]:
    """The queue lab: three fresh Resets, each for one second."""
    runs = [run_steps(arrival, service, 2) for arrival, service in LAB]
    header = ("arrival and service", *(f"t={text_of(reading.time)} s" for reading in runs[0]))
    rows = tuple(
        (
            f"{arrival} and {service}",
            *(text_of(reading.backlog) if answers or not index else "" for index, reading in enumerate(run)),
        )
        for (arrival, service), run in zip(LAB, runs, strict=True)
    )
    return [
        Heading("Queue lab: outstanding work"),
        Paragraph(
            f"A fluid queue: Reset puts {text_of(INITIAL)} units of work into it, a Step lets {text_of(STEP)} s pass. For each "
            "pair of rates start from a fresh Reset, say what the backlog will be after one second, then Step twice: "
            "pptrace queue."
        ),
        Tabular(Table("backlog", header, rows)),
        Paragraph(f"{LIMITS[:1].upper()}{LIMITS[1:]}.", less=True),
    ]
