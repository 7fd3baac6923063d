"""`pptrace handout`: a lesson page about a schedule, or an exercise with its answers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from pptrace.cli.options import (
    SIZE_FIELDS,
    ScheduleOptions,
    common_options,
    output_options,
    parse_count,
    schedule_options,
    source_argument,
)
from pptrace.cli.output import deliver, note, warn
from pptrace.cli.source import load, split_name
from pptrace.errors import ParameterError
from pptrace.printable import printable
from pptrace.schedules.registry import REGISTRY, entry

if TYPE_CHECKING:
    from pptrace.analysis.report import Report
    from pptrace.cli.source import Loaded
    from pptrace.lesson.document import Document

SUFFIXES = {
    ".html": "html",
    ".htm": "html",
    ".md": "md",
    ".markdown": "md",
    ".tex": "tex",
    ".svg": "svg",
    ".txt": "txt",
}
MAX_SEED_DIGITS = 18
MAX_TITLE = 200


@click.command()
@source_argument
@schedule_options
@click.option("--compare", metavar="OTHER", help="A second schedule beside it: NAME[,key=value...] or FILE.")
@click.option(
    "--names",
    type=click.Choice(["own", "textbook"]),
    default="own",
    help="textbook: D for P, S1 and F1 counted from 1.",
)
@click.option("--one-based", is_flag=True, help="Count stages and microbatches from 1.")
@click.option("--exercise", is_flag=True, help="Questions and an answer key in place of the lesson.")
@click.option("--holes", metavar="N|all", help="Ops to hide in an exercise; default: a quarter; all: an empty grid.")
@click.option("--seed", metavar="N", help="What an exercise hides and asks; the same for the same N (default 0).")
@click.option("--answers", metavar="FILE", help="Write the answers of an exercise to a file of their own.")
@click.option("--lab", is_flag=True, help="Add the queue lab, with what it is not.")
@click.option("--title", metavar="TEXT", help="The title of the page.")
@click.option("--theme", type=click.Choice(["auto", "light", "dark"]), default="auto", help="Of html and svg.")
@output_options("html", "md", "tex", "svg", "txt")
@common_options
def command(
    source: str,
    options: ScheduleOptions,
    compare: str | None,
    names: str,
    one_based: bool,
    exercise: bool,
    holes: str | None,
    seed: str | None,
    answers: str | None,
    lab: bool,
    title: str | None,
    theme: str,
    to: str | None,
    output: str | None,
) -> None:
    """Write a page for a class: the figure, the story by phase, the arithmetic, what is held, where closed forms stop.

    All figures on it are those of the trace. The suffix of -o says what it is: html (offline, printable), md, tex
    (for pdflatex), svg (the figure with its caption), txt.

    \b
    Examples:
      pptrace handout 1f1b -P 4 -M 4 -o lesson.html
      pptrace handout 1f1b -P 4 -M 4 --names textbook --compare gpipe -o lesson.tex
      pptrace handout 1f1b -P 4 -M 4 --exercise --seed 7 --answers key.md -o sheet.md
    """
    from pptrace.lesson.build import PageOptions, handout  # noqa: PLC0415  (loaded when the command line is known)

    for flag, value in (("--holes", holes), ("--seed", seed), ("--answers", answers)):
        if value is not None and not exercise:
            message = f"{flag} belongs to --exercise; give both"
            raise ParameterError(message)
    medium = _medium(to, output)
    key_medium = _medium_of_answers(answers, to)
    page = PageOptions(
        names="textbook" if names == "textbook" else "",
        one_based=one_based,
        theme=theme,
        exercise=exercise,
        holes=None if holes in (None, "all") else parse_count(str(holes), "--holes"),
        blank=holes == "all",
        seed=_seed(seed),
        apart=answers is not None or medium == "svg",
        lab=lab,
        title=printable(title or "", MAX_TITLE),
    )
    if answers is not None and (answers == "-" or _same_file(answers, output)):
        message = "--answers needs a file other than that of the page"
        raise ParameterError(message)
    if medium == "svg" and (compare is not None or lab):
        message = f"svg is one figure; {'--compare' if compare is not None else '--lab'} needs html, md, tex or txt"
        raise ParameterError(message)
    report, other = _reports(source, options, compare)
    made = handout(report, page, other)
    rendered = [(_rendered(made.page, medium), output)]
    if answers is not None and made.answers is not None:
        rendered.insert(0, (_rendered(made.answers, key_medium), answers))  # the page comes only if its key does
    if medium == "svg" and exercise:
        note("svg has the figure only; the questions need html, md, tex or txt")
    for content, path in rendered:
        deliver(content.encode() if path not in (None, "-") else content, path)


def _rendered(document: Document, medium: str) -> str:
    """A page in its medium, wholly made before anything is written."""
    if medium == "html":
        from pptrace.lesson.html_page import html_page  # noqa: PLC0415  (one medium of five)

        return html_page(document)
    if medium == "tex":
        from pptrace.lesson.tex_page import tex_page  # noqa: PLC0415

        return tex_page(document)
    if medium == "svg":
        from pptrace.lesson.svg_page import svg_page  # noqa: PLC0415

        return svg_page(document)
    from pptrace.lesson import text_page  # noqa: PLC0415

    return text_page.markdown_page(document) if medium == "md" else text_page.text_page(document)


def _medium(to: str | None, output: str | None) -> str:
    """What -t or else the suffix of a file says. Raises `ParameterError` for a suffix that is no page's."""
    if to is not None:
        return to
    if output in (None, "-"):
        return "txt"
    suffix = os.path.splitext(str(output))[1].lower()
    if suffix not in SUFFIXES:
        known = ", ".join(sorted(set(SUFFIXES.values())))
        message = f"{printable(str(output), 60)}: a page is {known}; use such a suffix, or -t"
        raise ParameterError(message)
    return SUFFIXES[suffix]


def _medium_of_answers(answers: str | None, to: str | None) -> str:
    """Their own suffix comes first: a sheet in one medium may have its key in another."""
    return SUFFIXES.get(os.path.splitext(answers or "")[1].lower()) or _medium(to, answers)


def _same_file(one: str, other: str | None) -> bool:
    return other not in (None, "-") and os.path.realpath(one) == os.path.realpath(str(other))


def _seed(text: str | None) -> int:
    if text is None:
        return 0
    if not text.isascii() or not text.isdigit() or len(text) > MAX_SEED_DIGITS:
        message = f"--seed is a whole number of at most {MAX_SEED_DIGITS} digits, got {printable(text, 40)!r}"
        raise ParameterError(message)
    return int(text)


def _reports(source: str, options: ScheduleOptions, compare: str | None) -> tuple[Report, Report | None]:
    """Both reports, with the same default costs."""
    loaded = load(source, options)
    if compare is None:
        for finding in loaded.findings:
            warn(finding)
        return loaded.report(), None
    if source == compare == "-":
        message = "standard input can be only one of the two; name a file for the other"
        raise ParameterError(message)
    other = load(compare, _for_other(loaded, options, compare))
    for finding in (*loaded.findings, *other.findings):
        warn(finding)
    splits = loaded.splits or other.splits
    for each in (loaded, other):
        each.timeline(splits=splits)
    return loaded.report(), other.report()


def _for_other(loaded: Loaded, options: ScheduleOptions, compare: str) -> ScheduleOptions:
    """The options of the second schedule: a name takes the sizes of the first and leaves out what it does not take; a file
    brings its own order."""
    name = split_name(compare)[0]
    if name not in REGISTRY:
        return options._replace(**dict.fromkeys(SIZE_FIELDS))  # type: ignore[arg-type]
    schedule, taken = loaded.schedule, entry(name).options
    changes: dict[str, object] = {"from_format": None, "letter_b": None}
    changes["num_ranks"] = options.num_ranks or schedule.num_ranks
    if options.global_batch is None:
        changes["num_microbatches"] = options.num_microbatches or schedule.num_microbatches
    for option, field in (("chunks", "num_chunks"), ("group", "group"), ("order", "order")):
        if option not in taken:
            changes[field] = None
    if "chunks" in taken and options.num_chunks is None and loaded.recipe is None:
        changes["num_chunks"] = schedule.num_chunks
    if options.steps is None and schedule.num_steps > 1:
        changes["steps"] = schedule.num_steps
    return options._replace(**changes)  # type: ignore[arg-type]
