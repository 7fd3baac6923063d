"""A page as plain text, and as Markdown. It owns layout and markup; the words are the page's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pptrace.lesson.document import Break, Bullets, Drawing, Folded, Formula, Heading, Paragraph
from pptrace.lesson.pictures import text_picture
from pptrace.printable import printable
from pptrace.render.lines import folded
from pptrace.render.markdown import escaped, fenced, table_markdown
from pptrace.render.tables import numeric_columns

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pptrace.lesson.document import Block, Document
    from pptrace.render.tables import Table

WIDTH = 100
"""Characters at which sentences are folded; figures and tables are as wide as they are."""


def text_page(page: Document) -> str:
    """The page as plain text, in lines that end in a newline."""
    title = printable(page.title)
    lines = [title, "=" * len(title), *_folded(page.subtitle), "", *_text_blocks(page.blocks)]
    return "\n".join(lines).rstrip() + "\n"


def _text_blocks(blocks: Iterable[Block]) -> list[str]:
    lines: list[str] = []
    for block in blocks:
        lines += [*_text_block(block), ""]
    return lines


def _text_block(block: Block) -> list[str]:
    if isinstance(block, Heading):
        title = printable(block.text)
        return ["", title, "-" * len(title)]
    if isinstance(block, Paragraph):
        return _folded(block.text)
    if isinstance(block, Bullets):
        marks = [f"{number}. " if block.numbered else "- " for number in range(1, len(block.items) + 1)]
        return [
            line
            for mark, item in zip(marks, block.items, strict=True)
            for line in folded(mark + printable(item), WIDTH, " " * len(mark))
        ]
    if isinstance(block, Formula):
        return [f"    {printable(line)}" for line in block.lines]
    if isinstance(block, Drawing):
        caption = _folded(block.caption) if block.caption else []
        return [*text_picture(block).split("\n"), *(["", *caption] if caption else [])]
    if isinstance(block, Break):
        return ["", "=" * WIDTH]
    if isinstance(block, Folded):
        title = printable(block.title)
        return ["", title, "=" * len(title), "", *_text_blocks(block.blocks)]
    return _text_table(block.table)


def _text_table(table: Table) -> list[str]:
    numeric = numeric_columns(table)
    rows = [tuple(map(printable, row)) for row in (table.header, *table.rows)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in rows
    ]
    notes = [f"  {line}" for note in table.notes for line in folded(printable(note), WIDTH - 2, "")]
    return [printable(table.title), *(f"  {line}" for line in lines), *notes]


def _folded(text: str) -> list[str]:
    return folded(printable(text), WIDTH, "")


def markdown_page(page: Document) -> str:
    """The page as Markdown, with figures in fenced blocks."""
    parts = [f"# {escaped(page.title)}", escaped(page.subtitle), *_markdown_blocks(page.blocks)]
    return "\n\n".join(parts) + "\n"


def _markdown_blocks(blocks: Iterable[Block]) -> list[str]:
    return [part for block in blocks for part in _markdown_block(block)]


def _markdown_block(block: Block) -> list[str]:
    if isinstance(block, Heading):
        return [f"## {escaped(block.text)}"]
    if isinstance(block, Paragraph):
        return [escaped(block.text)]
    if isinstance(block, Bullets):
        marks = [f"{number}. " if block.numbered else "- " for number in range(1, len(block.items) + 1)]
        return ["\n".join(mark + escaped(item) for mark, item in zip(marks, block.items, strict=True))]
    if isinstance(block, Formula):
        return [fenced("\n".join(map(printable, block.lines)))]
    if isinstance(block, Drawing):
        return [fenced(text_picture(block)), *([escaped(block.caption)] if block.caption else [])]
    if isinstance(block, Break):
        return ["---"]
    if isinstance(block, Folded):
        return [f"## {escaped(block.title)}", *_markdown_blocks(block.blocks)]
    return [table_markdown(block.table).replace("## ", "### ", 1)]
