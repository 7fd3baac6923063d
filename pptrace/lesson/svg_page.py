"""A page as SVG: its figure alone, with every assumption and denominator in the caption."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pptrace.lesson.document import Drawing
from pptrace.lesson.pictures import laid_out
from pptrace.render.svg import svg_of

if TYPE_CHECKING:
    from pptrace.lesson.document import Document


def svg_page(page: Document) -> str:
    """The first figure of the page as a file of its own; without a caption where ops are hidden, since it has the answers."""
    drawing = next(block for block in page.blocks if isinstance(block, Drawing))
    options = drawing.options._replace(title=True, caption=not drawing.options.holes)
    drawn = laid_out(drawing._replace(options=options))
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{svg_of(drawn)}'
