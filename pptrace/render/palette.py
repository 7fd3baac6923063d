"""The colours of kinds of op, for every medium that has colours: Okabe and Ito's palette, which people with any colour
vision tell apart, in shades for the chunks of a rank. Colour never carries meaning alone; every cell has its text."""

from __future__ import annotations

from typing import NamedTuple

from pptrace.model import OpKind

KIND_COLOR = {
    OpKind.F: "#0072B2",  # blue
    OpKind.B: "#D55E00",  # vermillion
    OpKind.I: "#F0E442",  # yellow
    OpKind.W: "#56B4E9",  # sky
    OpKind.R: "#CC79A7",  # reddish purple
    OpKind.REDUCE: "#009E73",  # bluish green
    OpKind.STEP: "#E69F00",  # orange
}

BLACK, WHITE = "#000000", "#FFFFFF"
LEAST_CONTRAST = 4.5
"""WCAG 2 level AA, for the text of a cell against its colour."""

HATCH_CONTRAST = 1.45
"""Of a hatch's lines and their ground: seen in a grey print, and not in the way of the text."""

_SHADES = ((BLACK, 0), (BLACK, 40), (WHITE, 45), (BLACK, 60), (WHITE, 70))
"""By shade: what the kind's colour is mixed with, and how many per cent of that."""


_OF_256 = {
    OpKind.F: ("#005FAF", "#000087", "#87AFFF"),
    OpKind.B: ("#D75F00", "#870000", "#FFAF87"),
    OpKind.I: ("#FFFF5F", "#878700", "#FFFFAF"),
    OpKind.W: ("#5FAFD7", "#0087AF", "#AFD7FF"),
    OpKind.R: ("#D787AF", "#87005F", "#FFAFD7"),
    OpKind.REDUCE: ("#00AF87", "#005F00", "#5FD7AF"),
    OpKind.STEP: ("#FFAF00", "#875F00", "#FFD787"),
}
"""By kind: three shades among the 256 colours of most terminals, of which the nearest would often have another hue."""


class Paint(NamedTuple):
    """Colours of a cell, as #RRGGBB."""

    background: str
    text: str


class Theme(NamedTuple):
    """Colours of everything but ops: the ground, text, text that is less, lines, the curve."""

    paper: str
    ink: str
    faint: str
    line: str
    area: str


LIGHT = Theme("#FFFFFF", "#1A1A1A", "#595959", "#D9D9D9", "#A6A6A6")
DARK = Theme("#16191D", "#ECECEC", "#B0B0B0", "#3A4047", "#6E7680")


def paint(kind: OpKind, shade: int = 0) -> Paint:
    """The colours of a cell of `kind` in the `shade`-th chunk of its rank; shades repeat after five."""
    other, share = _SHADES[shade % len(_SHADES)]
    background = _mixed(KIND_COLOR[kind], other, share)
    return _painted(background)


def paint_of_256(kind: OpKind, shade: int = 0) -> Paint:
    """The same among 256 colours; shades repeat after three."""
    shades = _OF_256[kind]
    return _painted(shades[shade % len(shades)])


def _painted(background: str) -> Paint:
    return Paint(background, max((WHITE, BLACK), key=lambda text: contrast(background, text)))


def hatch(kind: OpKind, shade: int = 0) -> str:
    """The colour of the lines of a hatch on `paint(kind, shade)`: told from it in grey too (`HATCH_CONTRAST`), and still a
    ground on which the cell's text has `LEAST_CONTRAST`."""
    colors = paint(kind, shade)
    mixes = [_mixed(colors.background, other, share) for other in (WHITE, BLACK) for share in range(5, 60, 5)]
    legible = [mix for mix in mixes if contrast(mix, colors.text) >= LEAST_CONTRAST]
    return min(legible, key=lambda mix: abs(contrast(mix, colors.background) - HATCH_CONTRAST))


def channels(color: str) -> tuple[int, int, int]:
    """Red, green and blue, 0..255, of #RRGGBB."""
    red, green, blue = (int(color[at : at + 2], 16) for at in (1, 3, 5))
    return red, green, blue


def contrast(one: str, other: str) -> float:
    """The contrast ratio of two colours as WCAG 2 defines it, 1 to 21."""
    brighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


def _mixed(one: str, other: str, share: int) -> str:
    """`one` with `share` per cent of `other`."""
    parts = [
        (own * (100 - share) + added * share + 50) // 100
        for own, added in zip(channels(one), channels(other), strict=True)
    ]
    return "#" + "".join(f"{part:02X}" for part in parts)


def _luminance(color: str) -> float:
    parts = [value / 255 for value in channels(color)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
