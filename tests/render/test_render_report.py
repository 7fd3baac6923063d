"""Whole reports as text: two goldens, read line by line against the arithmetic, and what untrusted names may do (nothing)."""

from __future__ import annotations

from pathlib import Path

import pytest
from pictures import costs, report, report_of

from pptrace.analysis.report import Report
from pptrace.model import Op, Placement, Schedule
from pptrace.render.options import SECTIONS, RenderOptions
from pptrace.render.terminal import report_ansi
from pptrace.render.text import report_text
from pptrace.timeline import simulate_schedule

GOLDEN = Path(__file__).parent.parent / "golden"


@pytest.mark.parametrize(
    ("file", "found", "options"),
    [
        ("show_1f1b_P4_M4.txt", report("1f1b", 4, 4), RenderOptions()),
        # Fewer microbatches than ranks, messages that take a unit, in 80 columns: two closed forms do not apply.
        ("show_zb-h1_P4_M2_c1_width80.txt", report("zb-h1", 4, 2, costs(1, 2, 1, c=1)), RenderOptions(width=80)),
    ],
)
def test_goldens(file, found, options):
    assert report_text(found, options) == (GOLDEN / file).read_text(encoding="ascii")


def test_a_report_is_its_sections_with_blank_lines_between():
    found = report("1f1b", 2, 2)
    # Weight versions are one under a flush, and shown where they are asked for.
    parts = [report_text(found, RenderOptions(sections=(name,))) for name in SECTIONS if name != "versions"]
    assert report_text(found) == "\n".join(part for part in parts if part)


def test_no_line_ends_in_a_blank_or_is_wider_than_asked():
    for options in (RenderOptions(), RenderOptions(width=80), RenderOptions(width=60, compact=True)):
        for line in report_text(report("interleaved", 4, 8, num_chunks=2), options).splitlines():
            assert line == line.rstrip()
            assert len(line) <= (options.width or 10_000)


def hostile(text: str) -> Report:
    schedule = Schedule.from_ops(text, Placement.loop(1), 1, [[Op.parse("0F0"), Op.parse("0B0")]])
    cost = costs(1, 1)._replace(unit=text, source=text)
    return Report(simulate_schedule(schedule, cost), notes=(text,))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b]0;title\x07", "\\x1b[31mred\\x1b]0;title\\x07"),
        ("a\nstage 9 |F9", "a\\nstage 9 |F9"),
        ("a\r\b", "a\\r\\x08"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\u2066\u200b\ufeff", "\\u2066\\u200b\\ufeff"),
        ("\x9b2J", "\\x9b2J"),
        ("\udce9", "\\udce9"),
        ("[bold red]x[/bold red]", "[bold red]x[/bold red]"),
    ],
)
def test_names_from_outside_are_shown_and_never_obeyed(text, shown):
    plain = report_text(hostile(text))
    assert shown in plain
    assert all(character.isprintable() or character == "\n" for character in plain)
    coloured = report_ansi(hostile(text), RenderOptions(sections=("header", "legend")))
    assert shown in coloured
    assert text not in coloured or text.isprintable()


def test_a_report_of_one_op_is_a_report():
    schedule = Schedule.from_ops("one", Placement.loop(1), 1, [[Op.parse("0F0")]])
    text = report_text(Report(simulate_schedule(schedule)))
    assert "stage 0 |F0" in text


def test_a_rank_without_ops_is_a_row_of_idle_time():
    schedule = Schedule.from_ops("half", Placement.loop(2), 1, [[Op.parse("0F0"), Op.parse("0F0")][:1], []])
    text = report_text(report_of(schedule), RenderOptions(sections=("grid",)))
    assert text.splitlines()[2] == "stage 1 |."
