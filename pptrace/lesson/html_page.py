"""A page as one HTML file: offline, without a script it can be read and printed, with one its figures answer. It owns the
markup and the page's own style; figures, the script and the colours are the renderers'."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pptrace.lesson.document import Break, Bullets, Drawing, Folded, Formula, Heading, Paragraph
from pptrace.lesson.pictures import laid_out
from pptrace.render.html import fitted_svg, interactive_figure, page, paragraph, script_of
from pptrace.render.svg import text
from pptrace.render.tables import numeric_columns

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pptrace.lesson.document import Block, Document
    from pptrace.render.tables import Table

SHORT = 12
"""Characters of a row's name that is not folded."""
STYLE = """
main{max-width:1290px}
main>p,main>ul,main>ol,details>p,details>ol,.sheet>p,.formula{max-width:46em}
li{margin:0 0 4px}ol{padding-left:1.6em}ul{padding-left:1.3em}
.formula{margin:10px 0 12px;padding:8px 14px;border-left:3px solid currentColor}
.formula div{padding-left:2em;text-indent:-2em}
.sheet{margin:16px 0 18px}
.sheet>.title{font-weight:600;margin:0 0 5px}
.sheet table{margin:0 0 4px;font-size:13px}
.sheet th,.sheet td{padding-right:9px}
.sheet td.n,.k{white-space:nowrap}
details{margin:22px 0}
summary{font-size:19px;font-weight:600;cursor:pointer}
summary small{font-size:13px;font-weight:400}
@page{margin:14mm}
@media print{
body{font-size:9.5pt;line-height:1.4}
main{max-width:none}
h1{font-size:17pt}
h2{break-after:avoid;margin-top:14px;font-size:12pt}
figure{margin-top:6px}
figcaption,.scroll table{font-size:8.5pt}
th,td{padding:1px 9px 1px 0}
.sheet{margin:10px 0}
.scroll{overflow:visible}
figure,.sheet,.formula,li{break-inside:avoid}
.break{break-before:page}
summary{list-style:none}
details:not([open]),summary small{display:none}
}
"""


def html_page(content: Document) -> str:
    """The page. Raises `ParameterError` as `figure` does."""
    alive = [block for block in _drawings(content.blocks) if block.alive]
    body = [f"<h1>{text(content.title)}</h1>", paragraph(content.subtitle), *map(_html, content.blocks)]
    script = script_of(*(block.options.prefix for block in alive))
    made = page(content.title, "\n".join(body), content.theme, script)
    return made.replace("</style>\n</head>", f"{STYLE}</style>\n</head>", 1)


def _drawings(blocks: Iterable[Block]) -> list[Drawing]:
    found: list[Drawing] = []
    for block in blocks:
        if isinstance(block, Drawing):
            found.append(block)
        elif isinstance(block, Folded):
            found += _drawings(block.blocks)
    return found


def _html(block: Block) -> str:
    if isinstance(block, Heading):
        return f"<h2>{text(block.text)}</h2>"
    if isinstance(block, Paragraph):
        return paragraph(block.text, "less" if block.less else "")
    if isinstance(block, Bullets):
        tag = "ol" if block.numbered else "ul"
        return f"<{tag}>{''.join(f'<li>{text(item)}</li>' for item in block.items)}</{tag}>"
    if isinstance(block, Formula):
        lines = "".join(f"<div>{_math(line)}</div>" for line in block.lines)
        return f'<div class="formula">{lines}</div>'
    if isinstance(block, Drawing):
        return _figure(block)
    if isinstance(block, Break):
        return '<div class="break"></div>'
    if isinstance(block, Folded):
        inside = "\n".join(map(_html, block.blocks))
        return f"<details><summary>{text(block.title)} <small>open to read or print</small></summary>\n{inside}\n</details>"
    return _table(block.table)


def _unbroken(cell: str) -> str:
    """A cell in which a formula is folded at its blanks only, not behind a minus."""
    words = text(cell).split(" ")
    return " ".join(f'<span class="k">{word}</span>' if "(" in word and "-" in word else word for word in words)


def _math(line: str) -> str:
    return _unbroken(line).replace(" * ", " \u00d7 ").replace("*", "\u202f\u00d7\u202f")


def _figure(block: Drawing) -> str:
    drawn = laid_out(block)
    captions = [block.caption] if block.caption else []
    if block.alive:
        return interactive_figure(block.report, drawn, captions)
    words = "".join(map(paragraph, captions))
    return f'<figure><div class="scroll">{fitted_svg(drawn)}</div><figcaption>{words}</figcaption></figure>'


def _table(table: Table) -> str:
    kinds = [' class="n"' if numeric else "" for numeric in numeric_columns(table)]

    def cells(tag: str, row: tuple[str, ...]) -> str:
        shown = zip(kinds[1:], row[1:], strict=True)
        first = ' class="k"' if len(row[0]) <= SHORT else ""
        return f"<th{first}>{text(row[0])}</th>" + "".join(
            f"<{tag}{kind}>{_unbroken(cell)}</{tag}>" for kind, cell in shown
        )

    header = cells("th", table.header)
    rows = "".join(f"<tr>{cells('td', row)}</tr>\n" for row in table.rows)
    title = paragraph(table.title[:1].upper() + table.title[1:], "title")
    notes = "".join(paragraph(note, "less") for note in table.notes)
    return (
        f'<div class="sheet">{title}<div class="scroll"><table><thead><tr>{header}</tr></thead><tbody>\n'
        f"{rows}</tbody></table></div>{notes}</div>"
    )
