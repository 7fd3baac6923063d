"""A report as Markdown: the grid in a fenced block, metrics and tables as Markdown tables. It owns the markup only; the grid
is draw.py's, every sentence and figure a table's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pptrace.errors import ParameterError
from pptrace.printable import printable
from pptrace.render import tables
from pptrace.render.figure_parts import FigureOptions
from pptrace.render.figure_text import caption, headline
from pptrace.render.names import Names
from pptrace.render.options import MANY_LIFETIMES
from pptrace.render.text import report_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pptrace.analysis.report import Report
    from pptrace.render.tables import MetricLine, Table

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$&!])")


def markdown_figure(report: Report, options: FigureOptions | None = None) -> str:
    """Legend and grid (with `curve` the strip of what is held) in a fenced block, and with `caption` the assumptions and
    denominators as a list. Raises `ParameterError` for holes, which text of every op would tell."""
    options = options or FigureOptions()
    if options.holes:
        message = "Markdown shows every op; for ops that are left out (holes) take svg, html or tikz"
        raise ParameterError(message)
    sections = ("legend", "grid", "held") if options.curve else ("legend", "grid")
    drawn = report_text(report, options.drawing._replace(sections=sections, width=options.width))
    lines = [fenced(drawn)]
    if options.caption:
        lines += [
            "",
            *(f"- {escaped(sentence)}" for sentence in caption(report, Names(report.schedule, options.drawing))),
        ]
    return "\n".join(lines) + "\n"


def markdown_page(report: Report, options: FigureOptions | None = None) -> str:
    """The whole report."""
    options = options or FigureOptions()
    names = Names(report.schedule, options.drawing)
    ranks = range(report.schedule.num_ranks) if options.only_ranks is None else options.only_ranks
    name, sizes = headline(report, names)
    parts = [f"# {escaped(name)}", escaped(sizes), escaped("; ".join(report.assumptions))]
    parts += [markdown_figure(report, options).rstrip(), "## Metrics", metrics_markdown(tables.metrics(report, names))]
    found = [tables.phases(report, names, ranks)]
    size_table = tables.sizes(report, names, ranks)
    found += [size_table] if size_table else []
    found.append(tables.idle(report, names, ranks))
    if options.lifetimes or len(report.lifetimes) <= MANY_LIFETIMES:
        found += tables.lifetimes(report, names, ranks)
    parts += [table_markdown(table) for table in found]
    return "\n\n".join([*parts, escaped(report.omitted)]) + "\n"


def write(report: Report, options: FigureOptions | None = None) -> bytes:
    """For the table of formats: the bytes of a Markdown file."""
    return markdown_page(report, options).encode()


def escaped(text: str) -> str:
    """Untrusted text as Markdown that shows it, on one line."""
    return _SPECIAL.sub(r"\\\1", printable(text))


def fenced(content: str, language: str = "text") -> str:
    """A fenced block that `content` cannot end."""
    longest = max((len(run) for run in re.findall(r"`+", content)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{content.rstrip()}\n{fence}"


def table_markdown(table: Table) -> str:
    """A table under its title, its notes after it."""
    title = escaped(table.title[:1].upper() + table.title[1:])
    notes = "".join(f"\n\n{escaped(note)}" for note in table.notes)
    return f"## {title}\n\n{_rows([table.header, *table.rows], tables.numeric_columns(table))}{notes}"


def metrics_markdown(lines: Iterable[MetricLine]) -> str:
    """Metrics as a table: label, value, closed forms and definition."""
    header = ("metric", "value", "closed form, definition")
    rows = [(line.label, "; ".join(line.values), "; ".join(line.remarks)) for line in lines]
    return _rows([header, *rows], [False] * len(header))


def _rows(rows: list[tuple[str, ...]], numeric: list[bool]) -> str:
    """Numbers to the right."""
    header, *body = rows
    rule = "|".join("---:" if right else "---" for right in numeric)
    lines = [_row(header), f"|{rule}|", *map(_row, body)]
    return "\n".join(lines)


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(map(escaped, cells)) + " |"
