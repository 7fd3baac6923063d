"""A figure as SVG: one self-contained element for a file or for the inside of an HTML page, with system fonts, hatches
beside colours, and both themes. It owns markup only; every place is figure.py's."""

from __future__ import annotations

import re
from functools import lru_cache
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING

from pptrace.errors import ParameterError
from pptrace.model import OpKind
from pptrace.printable import printable
from pptrace.render.figure import figure
from pptrace.render.figure_parts import SIGN, Figure, FigureOptions
from pptrace.render.figure_strips import CURVE, HEADROOM, LANE
from pptrace.render.measure import MARGIN, number
from pptrace.render.palette import paint
from pptrace.render.svg_style import hatch_id, patterns, style

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pptrace.analysis.report import Report
    from pptrace.render.figure_parts import Box, FigureRow

_PREFIX = re.compile(r"[A-Za-z][A-Za-z0-9]{0,30}")
_HATCHED = frozenset(OpKind) - {OpKind.F}


def svg_figure(report: Report, options: FigureOptions | None = None) -> str:
    """The figure as one `<svg>` element, well-formed XML. Raises `ParameterError` as `figure` does."""
    return svg_of(figure(report, options))


def svg_document(report: Report, options: FigureOptions | None = None) -> str:
    """The figure as a file of its own."""
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{svg_figure(report, options)}'


def write(report: Report, options: FigureOptions | None = None) -> bytes:
    """For the table of formats: the bytes of an SVG file."""
    return svg_document(report, options).encode()


def svg_of(drawn: Figure) -> str:
    """A figure that is laid out already, as an `<svg>` element."""
    prefix = drawn.options.prefix
    if not _PREFIX.fullmatch(prefix):
        message = f"the prefix of a figure's ids is a letter and then letters and digits, got {printable(prefix, 40)!r}"
        raise ParameterError(message)
    paints = drawn.paints
    width, height = number(drawn.width), number(drawn.height)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" class="pptrace" '
            f'width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" '
            f'aria-labelledby="{prefix}-title {prefix}-desc">',
            f'<title id="{prefix}-title">{text(drawn.name)}</title>',
            f'<desc id="{prefix}-desc">{text(drawn.description)}</desc>',
            f"<style>{style(paints, drawn.options.theme)}</style>",
            f"<defs>{patterns(paints, prefix)}</defs>",
            f'<rect class="paper" width="{width}" height="{height}"/>',
            *_texts(drawn),
            *_legend(drawn),
            *_axis(drawn),
            *(part for row in drawn.rows for part in _row(row, drawn)),
            *_lives(drawn),
            *_curves(drawn),
            *_arrows(drawn),
            "</svg>\n",
        ]
    )


@lru_cache(maxsize=65536)
def text(content: str) -> str:
    """Untrusted text as character data or an attribute's value."""
    return escape(printable(content), quote=True)


def _texts(drawn: Figure) -> list[str]:
    lines = [f'<text class="title" x="{number(x)}" y="{number(y)}">{text(line)}</text>' for x, y, line in drawn.title]
    lines += [
        f'<text class="words" x="{number(x)}" y="{number(y)}">{text(line)}</text>' for x, y, line in drawn.subtitle
    ]
    lines += [
        f'<text class="head" x="{number(x)}" y="{number(y)}">{text(line)}</text>'
        for x, y, line in drawn.strips.headings
    ]
    lines += [
        f'<text class="words" x="{number(x)}" y="{number(y)}">{text(line)}</text>' for x, y, line in drawn.caption
    ]
    return lines


def _legend(drawn: Figure) -> list[str]:
    out = []
    for x, y, sign in drawn.legend:
        middle = y + SIGN / 2
        words_x = x + SIGN + 6
        if sign.what == "kind":
            box = f'x="{number(x)}" y="{number(y)}" width="{number(SIGN)}" height="{number(SIGN)}"'
            out.append(f'<rect class="{_paint(sign.kind, sign.shade)}" {box}/>')
            if sign.kind in _HATCHED:
                out.append(f'<rect fill="url(#{hatch_id(drawn.options.prefix, sign.kind, sign.shade)})" {box}/>')
        elif sign.what == "flight":
            out.append(f'<path class="flight" d="M{number(x)} {number(middle)}h{number(SIGN)}"/>')
        elif sign.what == "bar":
            out.append(f'<path class="bar" d="M{number(x + SIGN / 2)} {number(y)}v{number(SIGN)}"/>')
        elif sign.what == "arrow":
            out.append(_arrow_path("arrow bold", x, y + 2, x + SIGN, y + SIGN - 2))
        else:
            words_x = x
        out.append(f'<text class="words" x="{number(words_x)}" y="{number(y + SIGN - 3)}">{text(sign.text)}</text>')
    return out


def _axis(drawn: Figure) -> list[str]:
    y = drawn.axis_y
    lines = "".join(
        f"M{number(mark.x)} {number(top)}V{number(bottom)}" for top, bottom in drawn.panels for mark in drawn.marks
    )
    out = [f'<path class="line" d="{lines}"/>'] if lines else []
    out.append(f'<text x="{number(MARGIN)}" y="{number(y - 2)}">time</text>')
    out.append('<g class="mid">')
    out += [f'<text x="{number(mark.x)}" y="{number(y - 2)}">{text(mark.text)}</text>' for mark in drawn.marks]
    out.append("</g>")
    return out


def _row(row: FigureRow, drawn: Figure) -> list[str]:
    """One path for all ops of a kind and shade, so that a picture of many ops stays small and quick to draw."""
    middle = row.height / 2
    out = [f'<g class="row" transform="translate(0 {number(row.top)})">']
    out.append(f'<text class="name" x="{number(drawn.left - 8)}" y="{number(middle + 4)}">{text(row.label)}</text>')
    out.append(f'<path class="line" d="M{number(drawn.left)} {number(row.height)}H{number(drawn.right)}"/>')
    flights = "".join(f"M{number(x)} {number(middle)}h{number(width)}" for x, width in row.flights)
    out += [f'<path class="flight" d="{flights}"/>'] if flights else []
    out += _boxes(row.boxes, drawn.options.prefix, row.rank)
    bars = "".join(f"M{number(x)} -2V{number(row.height + 2)}" for x in row.bars)
    out += [f'<path class="bar" d="{bars}"/>'] if bars else []
    out += _names(row.boxes, drawn.font)
    out.append("</g>")
    return out


def _boxes(boxes: Iterable[Box], prefix: str, rank: int) -> list[str]:
    paths: dict[tuple[OpKind | None, int], list[str]] = {}
    narrow: set[tuple[OpKind | None, int]] = set()
    for x, width, top, height, kind, shade, _, _, _ in boxes:
        wide = number(width)
        place = f"M{number(x)} {number(top)}h{wide}v{number(height)}h-{wide}z"
        paths.setdefault((kind, shade), []).append(place)
        if width < 4:
            narrow.add((kind, shade))
    out = []
    for (kind, shade), places in paths.items():
        d = "".join(places)
        edge = "thin" if (kind, shade) in narrow else "op"
        if kind is None:
            out.append(f'<path class="hole" d="{d}"/>')
        elif kind in _HATCHED:
            key = f"{prefix}-{rank}{_paint(kind, shade)}"
            out.append(f'<g class="{edge} {_paint(kind, shade)}"><path id="{key}" d="{d}"/></g>')
            out.append(f'<use xlink:href="#{key}" fill="url(#{hatch_id(prefix, kind, shade)})"/>')
        else:
            out.append(f'<path class="{edge} {_paint(kind, shade)}" d="{d}"/>')
    return out


def _names(boxes: Iterable[Box], font: float) -> list[str]:
    """The names of ops, grouped by where and how they are written."""
    groups: dict[tuple[str, float, float], list[str]] = {}
    for x, width, top, height, kind, shade, name, size, _ in boxes:
        if size:
            places = groups.setdefault((_ink(kind, shade), size, top + height / 2), [])
            places.append(f'<text x="{number(x + width / 2)}">{text(name)}</text>')
    out = []
    for (ink, size, middle), places in groups.items():
        at = f'transform="translate(0 {number(middle + size * 0.36)})"'
        out.append(f'<g class="mid {ink}" font-size="{number(size)}" {at}>{"".join(places)}</g>')
    return out


def _lives(drawn: Figure) -> list[str]:
    out = []
    for row in drawn.strips.lives:
        out.append(f'<g class="row" transform="translate(0 {number(row.top)})">')
        name_y = row.height / 2 + 4
        out.append(f'<text class="name" x="{number(drawn.left - 8)}" y="{number(name_y)}">{text(row.label)}</text>')
        for bar in row.bars:
            out += [_bar(part.x, bar.top, part.width, _paint(part.kind, part.shade)) for part in bar.parts]
            if bar.has_text:
                ink = _ink(bar.kind, bar.shade)
                size, y = number(bar.size), number(bar.top + LANE / 2 + bar.size * 0.36 - 1)
                where = f'x="{number(bar.x + bar.parts[0].width / 2)}" y="{y}" font-size="{size}"'
                out.append(f'<text class="mid {ink}" {where}>{text(bar.text)}</text>')
        out.append("</g>")
    return out


def _bar(x: float, y: float, width: float, paint_class: str) -> str:
    place = f'x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(LANE - 2)}"'
    return f'<rect class="op {paint_class}" {place}/>'


def _curves(drawn: Figure) -> list[str]:
    out = []
    for row in drawn.strips.curves:
        base = HEADROOM + CURVE
        out.append(f'<g class="row" transform="translate(0 {number(row.top)})">')
        out.append(f'<text class="name" x="{number(drawn.left - 8)}" y="{number(base - 8)}">{text(row.label)}</text>')
        if row.steps:
            edge = "".join(f"V{number(base - high)}H{number(end)}" for _, end, high in row.steps)
            out.append(f'<path class="area" d="M{number(row.steps[0][0])} {number(base)}{edge}V{number(base)}z"/>')
        out.append(f'<path class="line" d="M{number(drawn.left)} {number(base)}H{number(drawn.right)}"/>')
        out.append('<g class="mid small">')
        out += [f'<text x="{number(x)}" y="{number(y)}">{label}</text>' for x, y, label in row.numbers]
        out.append("</g>")
        out.append(
            f'<text class="words" x="{number(drawn.right + 8)}" y="{number(base - 8)}">{text(row.peak)}</text></g>'
        )
    return out


def _arrows(drawn: Figure) -> list[str]:
    return [
        _arrow_path("arrow bold" if binding else "arrow", x, y, to_x, to_y)
        for binding, group in groupby(
            sorted(drawn.arrows, key=lambda arrow: arrow.binding), lambda arrow: arrow.binding
        )
        for x, y, to_x, to_y, _ in group
    ]


def _arrow_path(kind: str, x: float, y: float, to_x: float, to_y: float) -> str:
    """A line with its head as part of the path: markers do not survive every program."""
    length = max(((to_x - x) ** 2 + (to_y - y) ** 2) ** 0.5, 0.01)
    along_x, along_y = (to_x - x) / length * 5, (to_y - y) / length * 5
    left = f"{number(to_x - along_x - along_y / 2)} {number(to_y - along_y + along_x / 2)}"
    right = f"{number(to_x - along_x + along_y / 2)} {number(to_y - along_y - along_x / 2)}"
    tip = f"{number(to_x)} {number(to_y)}"
    return f'<path class="{kind}" d="M{number(x)} {number(y)}L{tip}M{left}L{tip}L{right}"/>'


@lru_cache(maxsize=256)
def _paint(kind: OpKind, shade: int) -> str:
    return f"{kind.name}{shade}"


@lru_cache(maxsize=256)
def _ink(kind: OpKind | None, shade: int) -> str:
    if kind is None:
        return "ink"
    return "white" if paint(kind, shade).text == "#FFFFFF" else "black"
