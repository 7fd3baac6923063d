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

_SHADES = ((BLACK, 0), (BLACK, 40), (WHITE, 45), (BLACK, 60), (WHITE, 70))
"""By shade: what the kind's colour is mixed with, and how many per cent of that."""


class Paint(NamedTuple):
    """Colours of a cell, as #RRGGBB."""

    background: str
    text: str


def paint(kind: OpKind, shade: int = 0) -> Paint:
    """The colours of a cell of `kind` in the `shade`-th chunk of its rank; shades repeat after five."""
    other, share = _SHADES[shade % len(_SHADES)]
    mixed = [
        (own * (100 - share) + added * share + 50) // 100
        for own, added in zip(channels(KIND_COLOR[kind]), channels(other), strict=True)
    ]
    background = "#" + "".join(f"{channel:02X}" for channel in mixed)
    return Paint(background, max((WHITE, BLACK), key=lambda text: contrast(background, text)))


def channels(color: str) -> tuple[int, int, int]:
    """Red, green and blue, 0..255, of #RRGGBB."""
    red, green, blue = (int(color[at : at + 2], 16) for at in (1, 3, 5))
    return red, green, blue


def contrast(one: str, other: str) -> float:
    """The contrast ratio of two colours as WCAG 2 defines it, 1 to 21."""
    brighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


def _luminance(color: str) -> float:
    parts = [value / 255 for value in channels(color)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
