"""`pptrace show`: a schedule or a trace as a grid, with lifetimes, phases, metrics and idle time."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from pptrace.cli.figures import FIGURE_OPTIONS, FIGURES, FigureChoices, figure_options
from pptrace.cli.options import (
    ScheduleOptions,
    common_options,
    output_options,
    parse_count,
    schedule_options,
    source_argument,
)
from pptrace.cli.output import deliver, is_terminal, use_color, warn
from pptrace.cli.source import load
from pptrace.errors import ParameterError
from pptrace.render.options import SECTIONS, RenderOptions, parse_ranks, parse_sections, parse_window

if TYPE_CHECKING:
    from pptrace.analysis.report import Report
    from pptrace.proof.prove import Proof

LEAST_WIDTH = 20
WRITES = ("text", "json", "jsonl", *FIGURES)
NOT_TEXT = (".csv", ".pdf", ".png", ".jpg", ".ps", ".eps")
"""Suffixes that promise something else than the text that is written."""


@click.command()
@source_argument
@schedule_options
@click.option(
    "--width",
    metavar="N",
    help="Cut wide grids into panels of N characters; default: the terminal's, none in a pipe. Of a figure: pixels.",
)
@click.option("--window", metavar="T0:T1", help="Only this part of the time axis; either end may be left out.")
@click.option("--only-ranks", metavar="LIST", help="Only these ranks, for example 0,3-5.")
@click.option("--compact", is_flag=True, help="One character per column, without microbatch numbers.")
@click.option("--one-based", is_flag=True, help="Count stages and microbatches from 1.")
@click.option(
    "--section",
    multiple=True,
    metavar="NAME",
    help=f"Only this part (repeatable): {', '.join(SECTIONS)}.",
    shell_complete=lambda ctx, param, incomplete: [name for name in SECTIONS if name.startswith(incomplete)],
)
@click.option("--prove", "proving", is_flag=True, help="Add the verdict of `pptrace prove`; exit 1 where it is bad.")
@figure_options
@output_options(*WRITES)
@common_options
def command(
    source: str,
    options: ScheduleOptions,
    width: str | None,
    window: str | None,
    only_ranks: str | None,
    compact: bool,
    one_based: bool,
    section: tuple[str, ...],
    proving: bool,
    figure: FigureChoices,
    to: str | None,
    output: str | None,
) -> int:
    """Draw a schedule or a trace on a time axis, with activation lifetimes, phases, exact metrics and idle time by cause.

    \b
    Examples:
      pptrace show 1f1b -P 4 -M 4
      pptrace show interleaved -P 4 -M 8 -v 2 -b 2 -c 0.5 --section grid --section metrics
      pptrace show trace.json --window 4:10
      pptrace show 1f1b -P 4 -M 4 -o lesson.html --lifetimes --curve --caption
      pptrace trace gpipe -P 4 -M 4 | pptrace show -
    """
    to_file = output not in (None, "-")
    drawing = RenderOptions(
        width=_width(width, to_terminal=not to_file and is_terminal()),
        window=parse_window(window) if window is not None else None,
        compact=compact,
        one_based=one_based,
        sections=parse_sections(section),
    )
    chosen = _format(to, output)
    if chosen not in FIGURES:
        figure.refuse(chosen)
    elif compact or section:
        option = "--compact" if compact else "--section"
        message = f"{option} is of text; for {chosen}: {', '.join(FIGURE_OPTIONS)}, --window, --only-ranks, --width"
        raise ParameterError(message)
    loaded = load(source, options)
    loaded.name_order()
    report = loaded.report()
    for finding in loaded.findings:
        warn(finding)
    if only_ranks is not None:
        drawing = drawing._replace(only_ranks=parse_ranks(only_ranks, report.schedule.num_ranks))
    proof = _proof(report) if proving else None
    if chosen != "text":
        from pptrace.formats import load as load_format  # noqa: PLC0415  (drawing needs no JSON)

        # A figure's width is its own; the terminal's means nothing to it.
        chosen_width = drawing.width if width is not None else None
        chosen_options = figure.options(drawing._replace(width=chosen_width)) if chosen in FIGURES else proof
        if chosen in FIGURES and proof is not None:
            report = _with_verdict(report, proof)
        deliver(load_format(chosen).write(report, chosen_options), output)
    else:
        drawn = _drawn(report, drawing, colored=use_color(to_file=to_file))
        deliver(drawn if proof is None else f"{drawn}\n{_note(proof, drawing.width)}", output)
    return 0 if proof is None or proof.proved else 1


def _proof(report: Report) -> Proof:
    from pptrace.proof.prove import prove  # noqa: PLC0415  (only where a proof is asked for)

    return prove(report.timeline)


def _with_verdict(report: Report, proof: Proof) -> Report:
    """The report with the verdict among its notes, which every figure shows beside its numbers."""
    from pptrace.render.proof_text import proof_sentence  # noqa: PLC0415

    return report.with_notes((*report.notes, proof_sentence(proof)))


def _note(proof: Proof, width: int | None) -> str:
    from pptrace.render.proof_text import proof_note  # noqa: PLC0415

    return proof_note(proof, width)


def _drawn(report: Report, drawing: RenderOptions, *, colored: bool) -> str:
    if colored:
        from pptrace.render.terminal import color_system, report_ansi  # noqa: PLC0415  (the only path to rich)

        return report_ansi(report, drawing, color_system(os.environ))
    from pptrace.render.text import report_text  # noqa: PLC0415

    return report_text(report, drawing)


def _format(to: str | None, output: str | None) -> str:
    if to is not None:
        return to
    if output is None or output == "-":
        return "text"
    suffix = os.path.splitext(output)[1].lower()
    if suffix in NOT_TEXT:
        message = f"show writes {', '.join(WRITES)}, not {suffix}; `pptrace --help` lists what makes other files"
        raise ParameterError(message)
    from pptrace.formats import by_suffix  # noqa: PLC0415  (only where a file is written)

    found = by_suffix(output, writing=True)
    return found if found in WRITES else "text"


def _width(given: str | None, *, to_terminal: bool) -> int | None:
    """The number of characters of a line: as given, the terminal's, or None: never folded."""
    if given is not None:
        width = parse_count(given, "--width")
        if width < LEAST_WIDTH:
            message = f"--width must be at least {LEAST_WIDTH} characters, got {width}"
            raise ParameterError(message)
        return width
    if not to_terminal:
        return None
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and 0 < len(columns) < 6 and int(columns) >= LEAST_WIDTH:
        return int(columns)
    try:
        return max(os.get_terminal_size(sys.stdout.fileno()).columns, LEAST_WIDTH)
    except (OSError, ValueError):
        return 80
