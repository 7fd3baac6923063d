"""Measures of paper: how wide a text is without a font at hand (estimates on the wide side, so that what is placed by
them fits in every system font), folding by width, and the place of a tick on the time axis. Pixels are CSS pixels."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

MARGIN = 14.0
"""Pixels around a figure."""
LEAST_FONT = 6.5
"""Pixels; smaller names are left out."""

_EM = {
    **dict.fromkeys("0123456789", 0.64),
    **dict.fromkeys("ABCDEGHKNOPQRUVXY", 0.75),
    **dict.fromkeys("FJLSTZ", 0.64),
    **dict.fromkeys("MW", 0.99),
    **dict.fromkeys("Iijl|", 0.34),
    **dict.fromkeys("ft.,:;'!()[]-/\\ ", 0.4),
    **dict.fromkeys("mw%@", 0.97),
    **dict.fromkeys("+=<>^~", 0.84),
}
"""By character, in em; other ASCII characters take 0.63, letters of other scripts a whole em."""


@lru_cache(maxsize=65536)
def em_width(text: str) -> float:
    """The width of `text` in units of its font size."""
    return sum(_EM.get(character, 0.63 if character < "\x7f" else 1.0) for character in text)


@lru_cache(maxsize=65536)
def number(value: float) -> str:
    """A length with at most two decimals; the exact time is in the trace."""
    shown = f"{value:.2f}"
    return shown.rstrip("0").rstrip(".") if shown != "-0.00" else "0"


def folded_to(text: str, width: float, size: float) -> list[str]:
    """`text` in lines of at most `width` pixels at font size `size`, broken at spaces; longer words are cut."""
    room = width / size
    lines: list[str] = []
    current = ""
    for word in text.split(" "):
        wider = f"{current} {word}" if current else word
        if em_width(wider) <= room:
            current = wider
            continue
        if current:
            lines.append(current)
        while len(word) > 1 and em_width(word) > room:
            fitting = max(sum(em_width(word[: end + 1]) <= room for end in range(len(word))), 1)
            lines.append(word[:fitting])
            word = word[fitting:]
        current = word
    return [*lines, current]


def name_size(text: str, width: float, height: float, font: float) -> float:
    """The font size at which `text` fits: `font`, or less, or 0 where it would not be legible."""
    size = min(font, height - 5, (width - 3) / em_width(text))
    return size if size == font else int(size * 2) / 2 if size >= LEAST_FONT else 0.0


class Place(NamedTuple):
    """The time axis: the tick `begin` is at x = `left`; what lies outside [begin, end] is at its ends."""

    left: float
    begin: int
    end: int
    per_tick: float

    def x(self, tick: int) -> float:
        return self.left + (min(max(tick, self.begin), self.end) - self.begin) * self.per_tick

    @property
    def right(self) -> float:
        return self.left + (self.end - self.begin) * self.per_tick


class TextLine(NamedTuple):
    """A line of text; `y` is its baseline."""

    x: float
    y: float
    text: str
