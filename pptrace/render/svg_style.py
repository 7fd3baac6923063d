"""How figures look in SVG and HTML: fonts, the two themes, a hatch for every kind of op. Colours of ops are palette.py's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pptrace.model import OpKind
from pptrace.render.palette import DARK, LIGHT, Theme, hatch, paint

if TYPE_CHECKING:
    from collections.abc import Iterable

FONTS = "system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,'Liberation Sans',sans-serif"


_HATCHES = {
    OpKind.B: (8, "M-1 1L1 -1M0 8L8 0M7 9L9 7"),
    OpKind.I: (6, "M2 3h2"),
    OpKind.W: (8, "M-1 7L1 9M0 0L8 8M7 -1L9 1"),
    OpKind.R: (6, "M0 3H6"),
    OpKind.REDUCE: (6, "M0 3H6M3 0V6"),
    OpKind.STEP: (6, "M3 0V6"),
}
"""By kind: the size of the tile, and its lines. F has none."""


def style(paints: Iterable[tuple[OpKind, int]], theme: str) -> str:
    """The style sheet of one figure. Every rule is scoped to class `pptrace`, so that the page around it is not touched."""
    rules = [
        f".pptrace{{font-family:{FONTS};font-size:12px}}",
        ".pptrace .title{font-size:15px;font-weight:600}",
        ".pptrace .head{font-weight:600}",
        ".pptrace .small{font-size:10px}",
        ".pptrace .name{text-anchor:end}",
        ".pptrace .mid{text-anchor:middle}",
        ".pptrace .white{fill:#fff}",
        ".pptrace .black{fill:#000}",
        ".pptrace .op{stroke-width:1}",
        ".pptrace .thin{stroke-width:.25}",
        ".pptrace .line,.pptrace .flight,.pptrace .bar,.pptrace .arrow{fill:none}",
        ".pptrace .flight{stroke-width:2;stroke-dasharray:1 3}",
        ".pptrace .bar{stroke-width:2}",
        ".pptrace .arrow{stroke-width:.8;stroke-opacity:.55}",
        ".pptrace .bold{stroke-width:1.8;stroke-opacity:1}",
        ".pptrace .hole{stroke-width:1.2;stroke-dasharray:3 2}",
    ]
    for kind, shade in sorted(paints):
        rules.append(f".pptrace .{kind.name}{shade}{{fill:{paint(kind, shade).background}}}")
    rules.append(_colors(DARK if theme == "dark" else LIGHT))
    if theme == "auto":
        rules.append(f"@media (prefers-color-scheme:dark){{{_colors(DARK)}}}")
    return "".join(rules)


def _colors(theme: Theme) -> str:
    return (
        f".pptrace .paper,.pptrace .hole{{fill:{theme.paper}}}"
        f".pptrace text,.pptrace .ink{{fill:{theme.ink}}}"
        f".pptrace .white text,.pptrace text.white{{fill:#fff}}.pptrace .black text,.pptrace text.black{{fill:#000}}"
        f".pptrace .words{{fill:{theme.faint}}}"
        f".pptrace .line{{stroke:{theme.line}}}"
        f".pptrace .op,.pptrace .thin{{stroke:{theme.paper}}}"
        f".pptrace .flight{{stroke:{theme.faint}}}"
        f".pptrace .bar,.pptrace .arrow,.pptrace .hole{{stroke:{theme.ink}}}"
        f".pptrace .area{{fill:{theme.area}}}"
    )


def hatch_id(prefix: str, kind: OpKind, shade: int) -> str:
    """The id of a kind's pattern."""
    return f"{prefix}-h{kind.name}{shade}"


def patterns(paints: Iterable[tuple[OpKind, int]], prefix: str) -> str:
    """The hatches, as transparent lines to lay over a kind's colour."""
    out = []
    for kind, shade in sorted(paints):
        if kind in _HATCHES:
            size, lines = _HATCHES[kind]
            out.append(
                f'<pattern id="{hatch_id(prefix, kind, shade)}" width="{size}" height="{size}" '
                f'patternUnits="userSpaceOnUse"><path d="{lines}" fill="none" stroke="{hatch(kind, shade)}" '
                f'stroke-width="1"/></pattern>'
            )
    return "".join(out)
