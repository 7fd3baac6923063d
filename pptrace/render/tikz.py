"""A figure as TikZ: a file that pdflatex compiles as it is, and that a document of one's own takes with `\\input`. It owns
TeX only; every place is figure.py's. Needs the packages tikz and (alone) geometry, nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pptrace.errors import LimitError
from pptrace.model import OpKind
from pptrace.render.figure import figure
from pptrace.render.figure_parts import SIGN, TEXT_FONT, TITLE_FONT, Figure, FigureOptions
from pptrace.render.figure_strips import CURVE, HEADROOM, LANE
from pptrace.render.measure import MARGIN, number
from pptrace.render.palette import DARK, LIGHT, Theme, hatch, paint
from pptrace.render.tex import ascii_text, escaped

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pptrace.analysis.report import Report
    from pptrace.render.figure_parts import Box, FigureRow

POINTS = 0.75
"""Big points in a pixel."""
MOST_PIXELS = 18_000
"""TeX knows no length above 16384 pt."""
MOST_THINGS = 12_000
"""Ops, arrows, bars and numbers; more do not fit into pdflatex's memory as Debian sets it (measured: 4,096 ops with
arrows and curve fit, 6,144 do not)."""

_PATTERN = {
    OpKind.B: "north east lines",
    OpKind.I: "dots",
    OpKind.W: "north west lines",
    OpKind.R: "horizontal lines",
    OpKind.REDUCE: "grid",
    OpKind.STEP: "vertical lines",
}
_SIZES = (5, 6, 7, 8, 9, 10, 12)
"""Font sizes, in points, that every TeX has."""
_PREAMBLE = r"""\makeatletter
\ifx\documentclass\@twoclasseserror
\def\pptraceend{}
\else
\documentclass{article}
\usepackage[paperwidth=WIDTHbp,paperheight=HEIGHTbp,margin=0bp,noheadfoot]{geometry}
\usepackage{tikz}
\usetikzlibrary{patterns}
\pagestyle{empty}
\setlength{\parindent}{0pt}
\setlength{\topskip}{0pt}
\def\pptraceend{\end{document}}
\begin{document}
\fi
\makeatother
"""


def tikz_figure(report: Report, options: FigureOptions | None = None) -> str:
    """The figure as a `tikzpicture`, for a document that has loaded tikz and its library patterns.

    Raises `ParameterError` as `figure` does, `LimitError` for more than TeX can hold.
    """
    return tikz_of(_drawn(report, options))


def tikz_document(report: Report, options: FigureOptions | None = None) -> str:
    """The figure as a file of its own, that can also be taken with `\\input`."""
    drawn = _drawn(report, options)
    preamble = _PREAMBLE.replace("WIDTH", number(drawn.width * POINTS + 1))
    preamble = preamble.replace("HEIGHT", number(drawn.height * POINTS + 1))
    return (
        f"% {ascii_text(drawn.name)}\n"
        "% Alone: pdflatex FILE. In a document: \\usepackage{tikz}\\usetikzlibrary{patterns}, then \\input{FILE}.\n"
        f"{preamble}{tikz_of(drawn)}\\pptraceend\n"
    )


def write(report: Report, options: FigureOptions | None = None) -> bytes:
    """For the table of formats: the bytes of a TeX file."""
    return tikz_document(report, options).encode()


def _drawn(report: Report, options: FigureOptions | None) -> Figure:
    options = options or FigureOptions()
    drawn = figure(report, options)
    things = len(drawn.arrows) + sum(
        [len(row.boxes) for row in drawn.rows]
        + [len(row.bars) for row in drawn.strips.lives]
        + [len(row.numbers) for row in drawn.strips.curves]
    )
    if things > MOST_THINGS:
        message = (
            f"{things:,} ops, arrows, lifetimes and numbers are more than TeX's memory holds ({MOST_THINGS:,}); "
            "use svg, or show less with --window and --only-ranks"
        )
        raise LimitError(message)
    return drawn if drawn.width <= MOST_PIXELS else figure(report, options._replace(width=MOST_PIXELS))


def tikz_of(drawn: Figure) -> str:
    """A figure that is laid out already, as a `tikzpicture`."""
    theme = DARK if drawn.options.theme == "dark" else LIGHT
    lines = [
        "\\begingroup\\sffamily",
        *_colors(drawn.paints, theme),
        f"\\begin{{tikzpicture}}[x={POINTS}bp,y=-{POINTS}bp,inner sep=0pt,outer sep=0pt,"
        "left/.style={anchor=base west},mid/.style={anchor=base},right/.style={anchor=base east}]",
        f"\\path[fill=pppaper] (0,0) rectangle ({number(drawn.width)},{number(drawn.height)});",
        f"\\useasboundingbox (0,0) rectangle ({number(drawn.width)},{number(drawn.height)});",
    ]
    lines += [_node(x, y, text, TITLE_FONT, "left", "ppink", bold=True) for x, y, text in drawn.title]
    lines += [_node(x, y, text, TEXT_FONT, "left", "ppfaint") for x, y, text in drawn.subtitle]
    lines += [_node(x, y, text, TEXT_FONT, "left", "ppink", bold=True) for x, y, text in drawn.strips.headings]
    lines += [_node(x, y, text, TEXT_FONT, "left", "ppfaint") for x, y, text in drawn.caption]
    lines += _legend(drawn)
    lines += _axis(drawn)
    for row in drawn.rows:
        lines += _row(row, drawn)
    lines += _lives(drawn)
    lines += _curves(drawn)
    lines += [
        f"\\draw[-stealth,ppink,line width={'1.2' if a.binding else '.4'}bp] ({number(a.x)},{number(a.y)}) "
        f"-- ({number(a.to_x)},{number(a.to_y)});"
        for a in drawn.arrows
    ]
    return "\n".join([*lines, "\\end{tikzpicture}\\endgroup\n"])


def _colors(paints: Iterable[tuple[OpKind, int]], theme: Theme) -> list[str]:
    named = [(f"pp{name}", color) for name, color in zip(Theme._fields, theme, strict=True)]
    for kind, shade in sorted(paints):
        colors = paint(kind, shade)
        named += [(f"pp{kind.name}{shade}", colors.background), (f"pp{kind.name}{shade}t", colors.text)]
        named.append((f"pp{kind.name}{shade}h", hatch(kind, shade)))
    return [f"\\definecolor{{{name}}}{{HTML}}{{{color[1:]}}}" for name, color in named]


def _font(pixels: float) -> int:
    points = pixels * POINTS + 0.2
    return max((size for size in _SIZES if size <= points), default=_SIZES[0])


def _node(x: float, y: float, text: str, pixels: float, anchor: str, color: str, *, bold: bool = False) -> str:
    size = _font(pixels)
    weight = "\\bfseries" if bold else ""
    font = f"\\fontsize{{{size}}}{{{size}}}{weight}\\selectfont"
    return f"\\node[{anchor},text={color},font={font}] at ({number(x)},{number(y)}) {{{escaped(text)}}};"


def _legend(drawn: Figure) -> list[str]:
    out = []
    for x, y, sign in drawn.legend:
        words_x = x + SIGN + 6
        if sign.what == "kind":
            out += _filled([f"({number(x)},{number(y)}) rectangle ++({SIGN:g},{SIGN:g})"], sign.kind, sign.shade)
        elif sign.what == "flight":
            out.append(_flight([(x, y + SIGN / 2, SIGN)]))
        elif sign.what == "bar":
            out.append(_bars([(x + SIGN / 2, y, y + SIGN)]))
        elif sign.what == "arrow":
            ends = f"({number(x)},{number(y + 2)}) -- ++({SIGN:g},{SIGN - 4:g})"
            out.append(f"\\draw[-stealth,ppink,line width=1.2bp] {ends};")
        else:
            words_x = x
        out.append(_node(words_x, y + SIGN - 3, sign.text, TEXT_FONT, "left", "ppfaint"))
    return out


def _axis(drawn: Figure) -> list[str]:
    y = drawn.axis_y - 2
    out = [_node(MARGIN, y, "time", TEXT_FONT, "left", "ppink")]
    places = [
        f"({number(mark.x)},{number(top)}) -- ({number(mark.x)},{number(bottom)})"
        for top, bottom in drawn.panels
        for mark in drawn.marks
    ]
    out += [f"\\draw[ppline,line width=.5bp] {' '.join(places)};"] if places else []
    return out + [_node(mark.x, y, mark.text, TEXT_FONT, "mid", "ppink") for mark in drawn.marks]


def _row(row: FigureRow, drawn: Figure) -> list[str]:
    middle = row.top + row.height / 2
    out = [
        _node(drawn.left - 8, middle + 4, row.label, TEXT_FONT, "right", "ppink"),
        _rule(drawn, row.top + row.height),
    ]
    if row.flights:
        out.append(_flight([(x, middle, width) for x, width in row.flights]))
    groups: dict[tuple[OpKind | None, int], list[str]] = {}
    for box in row.boxes:
        groups.setdefault((box.kind, box.shade), []).append(_rectangle(box, row.top))
    for (kind, shade), places in groups.items():
        out += _filled(places, kind, shade)
    if row.bars:
        out.append(_bars([(x, row.top - 2, row.top + row.height + 2) for x in row.bars]))
    for box in row.boxes:
        if box.size:
            y = row.top + box.top + box.height / 2 + box.size * 0.36
            color = "ppink" if box.kind is None else f"pp{box.kind.name}{box.shade}t"
            out.append(_node(box.x + box.width / 2, y, box.text, box.size, "mid", color))
    return out


def _rectangle(box: Box, top: float) -> str:
    return f"({number(box.x)},{number(top + box.top)}) rectangle ++({number(box.width)},{number(box.height)})"


def _filled(places: list[str], kind: OpKind | None, shade: int) -> list[str]:
    path = " ".join(places)
    if kind is None:
        return [f"\\path[draw=ppink,dashed,line width=.6bp,fill=pppaper] {path};"]
    name = f"pp{kind.name}{shade}"
    out = [f"\\path[fill={name},draw=pppaper,line width=.6bp] {path};"]
    if kind in _PATTERN:
        out.append(f"\\path[pattern={_PATTERN[kind]},pattern color={name}h] {path};")
    return out


def _rule(drawn: Figure, y: float) -> str:
    return f"\\draw[ppline,line width=.5bp] ({number(drawn.left)},{number(y)}) -- ({number(drawn.right)},{number(y)});"


def _flight(places: list[tuple[float, float, float]]) -> str:
    path = " ".join(f"({number(x)},{number(y)}) -- ++({number(width)},0)" for x, y, width in places)
    return f"\\draw[ppfaint,densely dotted,line width=1bp] {path};"


def _bars(places: list[tuple[float, float, float]]) -> str:
    path = " ".join(f"({number(x)},{number(y)}) -- ({number(x)},{number(to)})" for x, y, to in places)
    return f"\\draw[ppink,line width=1.4bp] {path};"


def _lives(drawn: Figure) -> list[str]:
    out = []
    for row in drawn.strips.lives:
        out.append(_node(drawn.left - 8, row.top + row.height / 2 + 4, row.label, TEXT_FONT, "right", "ppink"))
        for bar in row.bars:
            y = row.top + bar.top
            out += [
                f"\\path[fill=pp{part.kind.name}{part.shade},draw=pppaper,line width=.6bp] "
                f"({number(part.x)},{number(y)}) rectangle ++({number(part.width)},{LANE - 2:g});"
                for part in bar.parts
            ]
            if bar.has_text:
                color = f"pp{bar.kind.name}{bar.shade}t"
                out.append(
                    _node(
                        bar.x + bar.parts[0].width / 2,
                        y + LANE / 2 + bar.size * 0.36 - 1,
                        bar.text,
                        bar.size,
                        "mid",
                        color,
                    )
                )
    return out


def _curves(drawn: Figure) -> list[str]:
    out = []
    for row in drawn.strips.curves:
        base = row.top + HEADROOM + CURVE
        out.append(_node(drawn.left - 8, base - 8, row.label, TEXT_FONT, "right", "ppink"))
        if row.steps:
            edge = " |- ".join(
                f"({number(x)},{number(base - high)}) -- ({number(end)},{number(base - high)})"
                for x, end, high in row.steps
            )
            out.append(
                f"\\path[fill=pparea] ({number(row.steps[0][0])},{number(base)}) |- {edge} |- "
                f"({number(row.steps[0][0])},{number(base)});"
            )
        out.append(_rule(drawn, base))
        out += [_node(x, row.top + y, text, 10.0, "mid", "ppink") for x, y, text in row.numbers]
        out.append(_node(drawn.right + 8, base - 8, row.peak, TEXT_FONT, "left", "ppfaint"))
    return out
