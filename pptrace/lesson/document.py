"""The parts of a page, without a medium: headings, paragraphs, formulas, tables, figures, lists, and what is folded away.

All text in them is plain: writers escape it. They own no figure and no sentence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pptrace.analysis.report import Report
    from pptrace.render.figure_parts import FigureOptions
    from pptrace.render.tables import Table


class Heading(NamedTuple):
    """The title of a section."""

    text: str


class Paragraph(NamedTuple):
    """Running text; `less`: of lesser weight."""

    text: str
    less: bool = False


class Bullets(NamedTuple):
    """A list of sentences, with numbers where `numbered`."""

    items: tuple[str, ...]
    numbered: bool = False


class Formula(NamedTuple):
    """Lines of arithmetic, `*` for times, that stand by themselves."""

    lines: tuple[str, ...]


class Tabular(NamedTuple):
    """A table with its title and its notes."""

    table: Table


class Drawing(NamedTuple):
    """The figure of a report. `blank`: an empty grid of the same size, to draw in. `alive`: it may answer to a pointer."""

    report: Report
    options: FigureOptions
    caption: str = ""
    blank: bool = False
    alive: bool = False


class Break(NamedTuple):
    """The next block begins a page, where there are pages."""


class Folded(NamedTuple):
    """Blocks that a reader opens when they want to, on a page of their own on paper."""

    title: str
    blocks: tuple[Block, ...]


Block = Heading | Paragraph | Bullets | Formula | Tabular | Drawing | Break | Folded


class Document(NamedTuple):
    """A whole page."""

    title: str
    subtitle: str
    blocks: tuple[Block, ...]
    theme: str = "auto"
