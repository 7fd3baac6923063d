"""The parts of a figure: what may be asked of it, its rows, boxes, marks and arrows, each with its place. Places are CSS pixels
(1/96 inch), x to the right, y down. Where each part stands is decided in figure.py and the files beside it; how it is drawn,
in svg.py, html.py and tikz.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pptrace.render.options import RenderOptions

if TYPE_CHECKING:
    from fractions import Fraction

    from pptrace.model import OpKind
    from pptrace.render.figure_strips import Strips
    from pptrace.render.figure_text import Sign
    from pptrace.render.measure import TextLine
    from pptrace.render.picture import Picture

THEMES = ("auto", "light", "dark")
TITLE_FONT, TEXT_FONT = 15.0, 12.0
"""Pixels."""
SIGN = 14.0
"""Pixels of a side of a legend's sign."""


class FigureOptions(NamedTuple):
    """What a reader may ask of a figure.

    `lifetimes`, `curve`: the states' lifetimes and the in-flight curve under the grid; `arrows`: what waits for what, across
    ranks; `caption`: every assumption and denominator in words. `width` in pixels, None: as wide as the names need. `theme`
    is "auto" (as the reader's system is set), "light" or "dark". `window`, `only_ranks`, `one_based`, `names` are
    those of `RenderOptions`. Ops at the positions of `holes` are drawn without name and kind, for exercises; caption and
    description then say nothing that follows from them. `prefix` begins every id in the picture; empty: made from what is
    drawn, so that several figures can stand in one page.
    """

    lifetimes: bool = False
    curve: bool = False
    arrows: bool = False
    caption: bool = False
    title: bool = True
    legend: bool = True
    width: int | None = None
    theme: str = "auto"
    window: tuple[Fraction | None, Fraction | None] | None = None
    only_ranks: tuple[int, ...] | None = None
    one_based: bool = False
    names: str = ""
    holes: frozenset[int] = frozenset()
    prefix: str = ""

    @property
    def drawing(self) -> RenderOptions:
        """The part that pictures in text have too."""
        return RenderOptions(window=self.window, only_ranks=self.only_ranks, one_based=self.one_based, names=self.names)


class Box(NamedTuple):
    """One op, or one of the two of an overlapped pair. `top` counts from the row's. `kind` None: a hole. `size` is the font
    size of its name, 0 where there is no room for it."""

    x: float
    width: float
    top: float
    height: float
    kind: OpKind | None
    shade: int
    text: str
    size: float
    position: int


class FigureRow(NamedTuple):
    """One rank. `flights` are (x, width) in which it is idle while a message to it is under way, `bars` the x at which an
    optimizer step ends."""

    label: str
    rank: int
    top: float
    height: float
    boxes: tuple[Box, ...]
    flights: tuple[tuple[float, float], ...]
    bars: tuple[float, ...]


class AxisMark(NamedTuple):
    """A time written over a line through the picture."""

    x: float
    text: str


class SignPlace(NamedTuple):
    """A sign of the legend and where it stands: its box is `SIGN` pixels square, its text follows."""

    x: float
    y: float
    sign: Sign


class Arrow(NamedTuple):
    """From (x, y) to (to_x, to_y). `binding`: the receiver is idle until this arrives, and
    starts as soon as it is there."""

    x: float
    y: float
    to_x: float
    to_y: float
    binding: bool


class Figure(NamedTuple):
    """Everything at its place. The time of x is begin + (x - left) / per_tick, in ticks; the plot ends at `right`.
    `panels` are the (top, bottom) through which the lines of the time axis run."""

    name: str
    description: str
    options: FigureOptions
    picture: Picture
    width: float
    height: float
    left: float
    right: float
    per_tick: float
    font: float
    title: tuple[TextLine, ...]
    subtitle: tuple[TextLine, ...]
    legend: tuple[SignPlace, ...]
    axis_y: float
    panels: tuple[tuple[float, float], ...]
    marks: tuple[AxisMark, ...]
    rows: tuple[FigureRow, ...]
    strips: Strips
    arrows: tuple[Arrow, ...]
    caption: tuple[TextLine, ...]

    @property
    def paints(self) -> set[tuple[OpKind, int]]:
        """Every kind and shade that is painted, as far as boxes, legend and lifetimes need them."""
        found = {(box.kind, box.shade) for row in self.rows for box in row.boxes if box.kind is not None}
        found |= {(place.sign.kind, place.sign.shade) for place in self.legend if place.sign.what == "kind"}
        for row in self.strips.lives:
            found |= {(part.kind, part.shade) for bar in row.bars for part in bar.parts}
        return found
