"""The words of a figure: its legend, its caption with every assumption and denominator, its description for readers who
cannot see it. Every figure is a Report's; nothing is computed or drawn here."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pptrace.model import OpKind
from pptrace.printable import printable
from pptrace.render import tables
from pptrace.render.names import KIND_MEANING, KIND_TEXT, UP_MARK, Names

if TYPE_CHECKING:
    from pptrace.analysis.report import Report
    from pptrace.render.picture import Picture

CAPTIONED = ("elapsed", "bubble_time", "bubble_over_elapsed", "bubble_over_ideal", "utilization", "peak_activations")
"""The metrics that a caption states, each with its definition and its denominator."""

MAX_SHADES = 5
"""Shades of a colour that are told apart; they repeat after that."""


class Sign(NamedTuple):
    """One entry of the legend. `what` is "kind" (drawn as an op of `kind` in `shade`), "flight", "bar", "arrow" or
    "words" (no sign, only the text)."""

    what: str
    text: str
    kind: OpKind = OpKind.F
    shade: int = 0


def headline(report: Report, names: Names) -> tuple[str, str]:
    """The schedule's name, and its sizes and costs."""
    name, sizes, costs = (printable(", ".join(part.split("  "))).replace(",  ", ", ") for part in report.headline)
    return name, f"{names.letters(sizes)}; {costs}"


def signs(report: Report, shown: Picture, *, arrows: bool, lifetimes: bool) -> list[Sign]:
    """What the signs of the picture mean, those that occur."""
    found = [Sign("kind", f"{KIND_TEXT[kind]} {KIND_MEANING[kind]}", kind) for kind in shown.kinds]
    shades = sorted({shade for row in shown.rows for cell in row.cells for _, _, shade in cell.parts})
    if report.schedule.placement.bidirectional:
        found += [Sign("kind", "on the copy that goes down", shown.kinds[0], 0)] if 0 in shades else []
        found += [Sign("kind", f"{UP_MARK} on the copy that goes up", shown.kinds[0], 1)] if 1 in shades else []
    elif len(shades) > 1:
        found += [
            Sign("kind", f"chunk {shade} of a rank", shown.kinds[0], shade) for shade in shades if shade < MAX_SHADES
        ]
    if any(row.waits for row in shown.rows):
        found.append(Sign("flight", "idle, its message is under way"))
    if any(row.bars for row in shown.rows):
        found.append(Sign("bar", "end of an optimizer step"))
    if arrows:
        found.append(Sign("arrow", "output to the op that needs it (bold: its rank is idle until then)"))
    if lifetimes and any(life.shrinks is not None for life in report.lifetimes):
        found.append(Sign("words", "lifetimes: from the end of I on, what W needs"))
    found.append(Sign("words", rows_and_cells(shown)))
    return found


def rows_and_cells(shown: Picture) -> str:
    """How to read a row and a cell."""
    cells = (cell for row in shown.rows for cell in row.cells)
    example = next((cell.position for cell in cells if cell.parts[0][1] < OpKind.REDUCE), -1)
    return "; ".join(shown.names.explained(example) + ([f"time in {shown.unit}"] if shown.unit else []))


def caption(report: Report, names: Names, *, told: bool = True) -> list[str]:
    """Every assumption, then, if `told`, the figures with their definitions and denominators, then what is left out."""
    sentences = [sentence("; ".join(report.assumptions), names)]
    if told:
        stated = {line.key: line for line in tables.metrics(report, names)}
        for key in CAPTIONED:
            line = stated[key]
            sentences.append(names.letters(f"{line.label}: {', '.join(line.values)} ({line.remarks[-1]})."))
    return [*sentences, sentence(report.omitted, names)]


def sentence(text: str, names: Names) -> str:
    """A sentence of the analysis: first letter large, a full stop, the reader's letters."""
    return names.letters(f"{text[:1].upper()}{text[1:]}".rstrip(".") + ".")


def description(report: Report, names: Names, *, hidden: int = 0) -> str:
    """The picture in words: what it is, and what it shows; with `hidden` ops nothing that their finder would look up."""
    rows = "stages" if names.by_stage else "ranks"
    what = f"A pipeline schedule on a time axis, one row for each of {report.schedule.num_ranks} {rows}"
    if hidden:
        return f"{what}, {hidden} ops hidden. {sentence('; '.join(report.assumptions), names)}"
    stated = {line.key: line for line in tables.metrics(report, names)}
    said = [f"{stated[key].label} {', '.join(stated[key].values)}" for key in CAPTIONED if key != "utilization"]
    return f"{what}. {sentence('; '.join(report.assumptions), names)} {names.letters('; '.join(said))}."
