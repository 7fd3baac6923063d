"""Lines of styled text, the common product of all parts of a report: plain text joins them, the terminal colours them.

A line is a list of pieces (text, style); a style is a name such as "heading", or a kind and a shade ("F0", "B1"). It owns
folding to a width; it knows no colours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pptrace.model import OpKind

PLAIN = ""
HEADING = "heading"
GOOD = "good"
BAD = "bad"

Piece = tuple[str, str]
Line = list[Piece]


def style_of(kind: OpKind, shade: int) -> str:
    """The style of a cell."""
    return f"{kind.name}{shade}"


def plain(text: str) -> Line:
    return [(text, PLAIN)]


def heading(text: str) -> Line:
    return [(text, HEADING)]


def text_of_line(line: Line) -> str:
    return "".join([text for text, _ in line]).rstrip()


def folded(text: str, width: int | None, indent: str = "  ") -> list[str]:
    """`text` in lines of at most `width` characters (None: one line), broken at spaces, all but the first indented."""
    if width is None or len(text) <= width:
        return [text]
    lines, current = [], ""
    for word in text.split(" "):
        if current.strip() and len(current) + 1 + len(word) > width:
            lines.append(current.rstrip())
            current = indent + word
        else:
            current = f"{current} {word}" if current or not word else word
    lines.append(current.rstrip())
    return lines


def columns(rows: Sequence[Sequence[str]], *, left: int = 1, gap: str = "  ") -> list[str]:
    """Cells of a table as aligned lines; the first `left` columns to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        gap.join(
            cell.ljust(width) if index < left else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def per_rank(values: Iterable[str], width: int | None = None) -> list[str]:
    """One value per rank: `8 on every rank`, `4 3 2 1`, or several lines `ranks 0-15: ...` where they are many."""
    found = list(values)
    if len(found) > 1 and len(set(found)) == 1:
        return [f"{found[0]} on every rank"]
    between = ", " if any(" " in value for value in found) else " "  # `8 MiB, 7 MiB`
    line = between.join(found)
    if len(line) <= (width or 100):
        return [line]
    widest = max(map(len, found)) + 1
    room = max((width or 100) - len(f"ranks {len(found)}-{len(found)}: "), widest)
    each = max(room // widest, 1)
    each = max((step for step in (1, 2, 4, 8, 16, 32, 64) if step <= each), default=1)
    last = len(str(len(found) - 1))
    return [
        f"ranks {first:>{last}}-{min(first + each, len(found)) - 1:<{last}}: "
        + between.join(value.rjust(widest - 1) for value in found[first : first + each])
        for first in range(0, len(found), each)
    ]
