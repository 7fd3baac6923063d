"""The report with a terminal's colours: the lines of text.py, character for character, with escape sequences around them.

The only file that imports rich, and of rich only what turns a colour into the sequence that a terminal understands.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from rich.color import ColorSystem
from rich.style import Style

from pptrace.model import OpKind
from pptrace.render.lines import BAD, HEADING
from pptrace.render.palette import paint, paint_of_256
from pptrace.render.text import report_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pptrace.analysis.report import Report
    from pptrace.render.lines import Line
    from pptrace.render.options import RenderOptions

SYSTEMS = {"standard": ColorSystem.STANDARD, "256": ColorSystem.EIGHT_BIT, "truecolor": ColorSystem.TRUECOLOR}

_NAMED = {
    OpKind.F: "bright_white on blue",
    OpKind.B: "bright_white on red",
    OpKind.I: "black on yellow",
    OpKind.W: "black on cyan",
    OpKind.R: "bright_white on magenta",
    OpKind.REDUCE: "black on green",
    OpKind.STEP: "black on white",
}
"""On terminals of 16 colours, whose hues are the user's: named colours, and bold for every other chunk."""

_STYLES = {HEADING: Style(bold=True), BAD: Style(bold=True)}


def report_ansi(report: Report, options: RenderOptions | None = None, system: str = "truecolor") -> str:
    """`report_text` with colours; `system` is one of `SYSTEMS`. Without its escape sequences it is the same text."""
    return colored(report_lines(report, options), system)


def colored(lines: Iterable[Line], system: str = "truecolor") -> str:
    """Styled lines as text with escape sequences. Blanks at the ends of lines are left out, as in plain text."""
    out: list[str] = []
    for line in lines:
        written = [index for index, (text, _) in enumerate(line) if text.strip()]
        last = written[-1] if written else -1
        for index, (text, style) in enumerate(line[: last + 1]):
            shown = text.rstrip() if index == last else text
            before, after = _sequences(style, system)
            out.append(f"{before}{shown}{after}" if before and shown else shown)
        out.append("\n")
    return "".join(out)


def color_system(environment: Mapping[str, str]) -> str:
    """What a terminal says of its colours in COLORTERM and TERM: a name in `SYSTEMS`."""
    if environment.get("COLORTERM", "").strip().lower() in ("truecolor", "24bit"):
        return "truecolor"
    terminal = environment.get("TERM", "").lower()
    if terminal.endswith(("-direct", "-truecolor")):
        return "truecolor"
    return "256" if "256" in terminal else "standard"


@cache
def _sequences(style: str, system: str) -> tuple[str, str]:
    """What goes before and after a text of this style; empty where it has no colour."""
    rendered = _style(style, system).render("x", color_system=SYSTEMS[system])
    before, _, after = rendered.partition("x")
    return before, after


def _style(style: str, system: str) -> Style:
    if style in _STYLES:
        return _STYLES[style]
    name, shade = style.rstrip("0123456789"), style[len(style.rstrip("0123456789")) :]
    if name not in OpKind.__members__ or not shade:
        return Style()
    kind = OpKind[name]
    if system == "standard":
        return Style.parse(_NAMED[kind] + (" bold" if int(shade) % 2 else ""))
    colors = (paint_of_256 if system == "256" else paint)(kind, int(shade))
    return Style(color=colors.text, bgcolor=colors.background)
