"""A page as LaTeX that pdflatex compiles as it is, with TikZ figures. It owns TeX only. Needs the packages geometry, tikz and
array, nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pptrace.lesson.document import Break, Bullets, Drawing, Folded, Formula, Heading, Paragraph
from pptrace.lesson.pictures import laid_out
from pptrace.render.measure import em_width
from pptrace.render.tables import numeric_columns
from pptrace.render.tex import escaped
from pptrace.render.tikz import POINTS, tikz_of

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
TEXT_WIDTH, TEXT_HEIGHT = 481.0, 700.0
"""Big points between the margins."""
TURNED = 1.4
"""From this many text widths on a figure is turned by a quarter."""
_TABLE_FONT = 9.0
_EM, _BOLD = 0.95, 1.08
"""How much narrower this font is than the widths of measure.py, and how much wider its bold letters are."""
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
        lines = "\n".join(f"{{\\hangindent=2em {_math(line)}\\par}}" for line in block.lines)
        return f"\\begin{{quote}}\\setlength{{\\parskip}}{{1pt}}\n{lines}\n\\end{{quote}}"
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
    """As wide as the text; a figure that would be too small so is turned, on a page of its own behind the text."""
    drawn = laid_out(block)
    tikz = tikz_of(drawn).rstrip()
    width = drawn.width * POINTS
    caption = f"{{\\small {escaped(block.caption)}\\par}}" if block.caption else ""
    if width > TURNED * TEXT_WIDTH and drawn.height < drawn.width / 2:
        turned = f"\\resizebox{{{TEXT_HEIGHT:g}bp}}{{!}}{{{tikz}}}"
        inside = f"\\begin{{minipage}}{{{TEXT_HEIGHT:g}bp}}\n{turned}\n\n{caption}\n\\end{{minipage}}"
        return (
            f"\\begin{{figure}}[p]\n\\rotatebox{{90}}{{{inside}}}\n\\end{{figure}}\nThe figure has a page of its own.\n"
        )
    if width > TEXT_WIDTH:
        tikz = f"\\resizebox{{\\textwidth}}{{!}}{{{tikz}}}"
    return f"\\begin{{minipage}}{{\\textwidth}}\n{tikz}\n\n{caption}\n\\end{{minipage}}\n"


def _table(table: Table) -> str:
    widths = _widths(table)
    kinds = "".join(
        f">{{\\{'raggedleft' if right else 'raggedright'}\\arraybackslash}}p{{{width:.0f}bp}}"
        for width, right in zip(widths, numeric_columns(table), strict=True)
    )
    size = f"\\fontsize{{{_TABLE_FONT:g}}}{{{_TABLE_FONT * 1.2:g}}}\\selectfont"
    rows = [" & ".join(map(_cell, row)) + " \\\\" for row in table.rows]
    header = (
        " & ".join(f"\\textbf{{{_cell(cell)}}}" if cell else "" for cell in table.header)
        + " \\\\ \\hline\\rule{0pt}{10bp}%"
    )
    title = escaped(table.title[:1].upper() + table.title[1:])
    notes = "".join(f"\n\n{{\\small {escaped(note)}\\par}}" for note in table.notes)
    made = f"\\begin{{tabular}}{{@{{}}{kinds}@{{}}}}\n{header}\n" + "\n".join(rows) + "\n\\end{tabular}"
    if sum(widths) + _GAP * len(widths) > TEXT_WIDTH + 1:
        made = f"\\resizebox{{\\textwidth}}{{!}}{{{made}}}"
    return (
        f"\\begin{{minipage}}{{\\textwidth}}\n\\medskip\\textbf{{{title}}}\\\\[2pt]\n"
        f"{{{size}\\setlength{{\\tabcolsep}}{{{_GAP / 2:g}bp}}{made}}}{notes}\n\\end{{minipage}}\n"
    )


def _cell(text: str) -> str:
    return escaped(text)


def _widths(table: Table) -> list[float]:
    """Columns wide enough for their cells, headers folded where that saves room; the widest ones narrower where all together
    are wider than the page."""
    bodies = list(zip(*table.rows, strict=True)) or [()] * len(table.header)
    lowest, least, wished = [], [], []
    for name, body, numeric in zip(table.header, bodies, numeric_columns(table), strict=True):
        cells = max((em_width(cell) for cell in body), default=0.0)
        word = max(em_width(word) for word in name.split(" "))
        longest = cells if numeric else max((em_width(w) for cell in body for w in cell.split(" ")), default=0.0)
        lowest.append(max(longest, word * _BOLD) * _TABLE_FONT * _EM + 3)
        least.append(max(cells, word * _BOLD) * _TABLE_FONT * _EM + 3)
        wished.append(max(cells, em_width(name) * _BOLD) * _TABLE_FONT * _EM + 3)
    room = TEXT_WIDTH - _GAP * len(least)
    if sum(wished) <= room:
        return wished
    excess = sum(least) - room
    if excess > 0:
        slack = [width - low for width, low in zip(least, lowest, strict=True)]
        share = min(excess / max(sum(slack), 1.0), 1.0)
        return [width - part * share for width, part in zip(least, slack, strict=True)]
    spare = -excess / sum(width < wish for width, wish in zip(least, wished, strict=True))
    return [min(width + spare, wish) for width, wish in zip(least, wished, strict=True)]
