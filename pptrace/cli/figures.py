"""The options of figures, and what they mean together. Shared by every command that draws one; what a figure is, is
pptrace/render/figure.py's."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from pptrace.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pptrace.render.figure_parts import FigureOptions
    from pptrace.render.options import RenderOptions

FIGURES = ("svg", "html", "tikz", "md")
"""Formats (pptrace/formats) that take `FigureOptions`."""

FIGURE_OPTIONS = ("--lifetimes", "--curve", "--arrows", "--caption", "--theme")
"""In the order of the fields of `FigureChoices`."""

_THEMES = ("auto", "light", "dark")


class FigureChoices(NamedTuple):
    """What was asked of a figure; False or None: not given."""

    lifetimes: bool = False
    curve: bool = False
    arrows: bool = False
    caption: bool = False
    theme: str | None = None

    def refuse(self, chosen: str) -> None:
        """Raise `ParameterError` where something was asked that the format `chosen`, which is no figure, cannot show."""
        given = next((option for option, value in zip(FIGURE_OPTIONS, self, strict=True) if value), None)
        if given is not None:
            message = f"{given} is of figures, not of {chosen}; add -o FILE.svg (or .html, .tex, .md), or -t svg"
            raise ParameterError(message)

    def options(self, drawing: RenderOptions) -> FigureOptions:
        """These choices with those that text has too."""
        from pptrace.render.figure_parts import FigureOptions  # noqa: PLC0415  (only where a figure is drawn)

        return FigureOptions(
            lifetimes=self.lifetimes,
            curve=self.curve,
            arrows=self.arrows,
            caption=self.caption,
            theme=self.theme or "auto",
            width=drawing.width,
            window=drawing.window,
            only_ranks=drawing.only_ranks,
            one_based=drawing.one_based,
            names=drawing.names,
        )


_OPTIONS = (
    click.option("--lifetimes", is_flag=True, help="Figure: lifetimes of activations under the grid."),
    click.option("--curve", is_flag=True, help="Figure: activations held over time under the grid."),
    click.option("--arrows", is_flag=True, help="Figure: arrows from outputs to the ops that need them."),
    click.option("--caption", is_flag=True, help="Figure: every assumption and denominator in words."),
    click.option("--theme", type=click.Choice(_THEMES), help="Figure: colours; auto (default) as the reader's system."),
)


def figure_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of figures; the command gets them as `figure: FigureChoices`."""

    @wraps(function)
    def gathered(**given: Any) -> Any:
        figure = FigureChoices(**{field: given.pop(field) for field in FigureChoices._fields})
        return function(figure=figure, **given)

    decorated: Callable[..., Any] = gathered
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated
