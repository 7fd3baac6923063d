"""A page as LaTeX that pdflatex compiles as it is, with TikZ figures. It owns TeX only. Needs the packages geometry, tikz and
array, nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pptrace.lesson.document import Break, Bullets, Drawing, Folded, Formula, Heading, Paragraph
from pptrace.lesson.pictures import laid_out
from pptrace.lesson.tabular import numeric_columns
from pptrace.render.measure import em_width
from pptrace.render.tikz import POINTS, escaped, tikz_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pptrace.lesson.document import Block, Document
    from pptrace.render.tables import Table

_PREAMBLE = r"""\documentclass[10pt]{article}
\usepackage[a4paper,margin=20mm]{geometry}
\usepackage{tikz}
\usetikzlibrary{patterns}
\usepackage{array}
\renewcommand{\familydefault}{\sfdefault}
\setlength{\parindent}{0pt}
\setlength{\parskip}{5pt}
\raggedbottom
\raggedright
\begin{document}
"""
TEXT_WIDTH = 481.0
"""Big points between the margins."""
_TABLE_FONT = 9.0
_GAP = 9.0
"""Big points between columns."""


def tex_page(page: Document) -> str:
    """The page. Raises `ParameterError` as `figure` does."""
    head = f"{{\\LARGE\\bfseries {escaped(page.title)}\\par}}\n{escaped(page.subtitle)}\n"
    return "\n".join([_PREAMBLE + head, *_blocks(page.blocks), "\\end{document}\n"])


def _blocks(blocks: Iterable[Block]) -> list[str]:
    return [_block(block) for block in blocks]


def _block(block: Block) -> str:
    if isinstance(block, Heading):
        return f"\\section*{{{escaped(block.text)}}}"
    if isinstance(block, Paragraph):
        return f"{{\\small {escaped(block.text)}\\par}}" if block.less else f"{escaped(block.text)}\n"
    if isinstance(block, Bullets):
        kind = "enumerate" if block.numbered else "itemize"
        items = "\n".join(f"\\item {escaped(item)}" for item in block.items)
        return f"\\begin{{{kind}}}\\setlength{{\\itemsep}}{{1pt}}\n{items}\n\\end{{{kind}}}"
    if isinstance(block, Formula):
        lines = "\\\\\n".join(_math(line) for line in block.lines)
        return f"\\begin{{quote}}\n{lines}\n\\end{{quote}}"
    if isinstance(block, Drawing):
        return _figure(block)
    if isinstance(block, Break):
        return "\\clearpage"
    if isinstance(block, Folded):
        return "\n".join([f"\\section*{{{escaped(block.title)}}}", *_blocks(block.blocks)])
    return _table(block.table)


def _math(line: str) -> str:
    return escaped(line).replace("*", "$\\times$")


def _figure(block: Drawing) -> str:
    drawn = laid_out(block)
    tikz = tikz_of(drawn).rstrip()
    if drawn.width * POINTS > TEXT_WIDTH:
        tikz = f"\\resizebox{{\\textwidth}}{{!}}{{{tikz}}}"
    caption = f"\n\n{{\\small {escaped(block.caption)}\\par}}" if block.caption else ""
    return f"\\begin{{minipage}}{{\\textwidth}}\n{tikz}{caption}\n\\end{{minipage}}\n"


def _table(table: Table) -> str:
    widths = _widths(table)
    kinds = "".join(
        f">{{\\{'raggedleft' if right else 'raggedright'}\\arraybackslash}}p{{{width:.0f}bp}}"
        for width, right in zip(widths, numeric_columns(table), strict=True)
    )
    size = f"\\fontsize{{{_TABLE_FONT:g}}}{{{_TABLE_FONT * 1.2:g}}}\\selectfont"
    rows = [" & ".join(map(_cell, row)) + " \\\\" for row in table.rows]
    header = " & ".join(f"\\textbf{{{_cell(cell)}}}" if cell else "" for cell in table.header) + " \\\\ \\hline"
    title = escaped(table.title[:1].upper() + table.title[1:])
    notes = "".join(f"\n\n{{\\small {escaped(note)}\\par}}" for note in table.notes)
    return (
        f"\\begin{{minipage}}{{\\textwidth}}\n\\textbf{{{title}}}\\\\[2pt]\n"
        f"{{{size}\\setlength{{\\tabcolsep}}{{{_GAP / 2:g}bp}}"
        f"\\begin{{tabular}}{{@{{}}{kinds}@{{}}}}\n{header}\n"
        + "\n".join(rows)
        + f"\n\\end{{tabular}}}}{notes}\n\\end{{minipage}}\n"
    )


def _cell(text: str) -> str:
    return escaped(text)


def _widths(table: Table) -> list[float]:
    """Columns as wide as they need, the widest ones narrower where all together are wider than the page."""
    columns = list(zip(table.header, *table.rows, strict=True))
    needs = [max(em_width(cell) for cell in column) * _TABLE_FONT * 0.95 + 4 for column in columns]
    room = TEXT_WIDTH - _GAP * len(columns)
    widths = list(needs)
    while sum(widths) > room + 1:
        widest = max(widths)
        many = [index for index, width in enumerate(widths) if width == widest]
        below = max((width for width in widths if width < widest), default=0.0)
        fair = max(widest - (sum(widths) - room) / len(many), below, 12.0)
        if fair >= widest:
            break
        for index in many:
            widths[index] = fair
    return widths
