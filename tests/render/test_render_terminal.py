"""Colour on a terminal: the same characters, readable text on every colour, nothing said by colour alone."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from pictures import SPLIT, report, report_of
from rich.color import Color, ColorSystem
from test_render_grid import two_way
from test_render_scale import eight_stages

from pptrace.model import OpKind
from pptrace.render.lines import style_of
from pptrace.render.options import RenderOptions
from pptrace.render.palette import KIND_COLOR, LEAST_CONTRAST, contrast, paint, paint_of_256
from pptrace.render.terminal import SYSTEMS, color_system, colored, report_ansi
from pptrace.render.text import report_lines, report_text

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
KINDS = [OpKind.F, OpKind.B, OpKind.I, OpKind.W, OpKind.R, OpKind.REDUCE, OpKind.STEP]


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize(
    "found",
    [
        report("1f1b", 4, 4),
        report("zb-h1", 4, 6, SPLIT),
        report("interleaved", 2, 4, num_chunks=3),
        report("1f1b", 2, 2, steps=2),
        report_of(two_way()),
        eight_stages(473),
    ],
    ids=lambda found: found.schedule.name,
)
@pytest.mark.parametrize("options", [{}, {"width": 80}, {"compact": True}, {"one_based": True, "width": 60}])
def test_without_its_escapes_the_coloured_report_is_the_plain_one(system, found, options):
    coloured = report_ansi(found, RenderOptions(**options), system)
    assert "\x1b[" in coloured
    assert ESCAPE.sub("", coloured) == report_text(found, RenderOptions(**options))


def test_every_colour_is_switched_off_again_on_its_line():
    for line in report_ansi(report("1f1b", 4, 4)).splitlines():
        codes = ESCAPE.findall(line)
        assert codes[1::2] == ["\x1b[0m"] * (len(codes) // 2)
        assert len(codes) % 2 == 0


def test_plain_text_has_no_escapes():
    assert "\x1b" not in report_text(report("1f1b", 4, 4))


def test_the_colours_are_those_of_the_design():
    assert KIND_COLOR[OpKind.F] == "#0072B2"
    assert KIND_COLOR[OpKind.B] == "#D55E00"
    assert KIND_COLOR[OpKind.I] == "#F0E442"
    assert KIND_COLOR[OpKind.W] == "#56B4E9"
    assert [paint(kind).background for kind in KINDS] == [KIND_COLOR[kind] for kind in KINDS]


def test_contrast_is_that_of_wcag():
    assert contrast("#000000", "#FFFFFF") == 21
    assert contrast("#777777", "#777777") == 1
    # Blue on white: L = 0.2126*0 + 0.7152*0.1683 + 0.0722*0.4452 = 0.1525, (1.05)/(0.2025) = 5.19
    assert contrast("#0072B2", "#FFFFFF") == pytest.approx(5.19, abs=0.01)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shade", range(8))
def test_text_on_every_colour_and_shade_can_be_read(kind, shade):
    colours = paint(kind, shade)
    assert contrast(colours.background, colours.text) >= LEAST_CONTRAST == 4.5
    indexed = paint_of_256(kind, shade)
    assert contrast(indexed.background, indexed.text) >= 4.5
    exact = Color.parse(indexed.background).downgrade(ColorSystem.EIGHT_BIT).get_truecolor().hex.upper()
    assert exact == indexed.background, "one of the 256 colours, not one like it"


def test_kinds_and_neighbouring_chunks_have_their_own_colours():
    assert len({paint(kind).background for kind in KINDS}) == len(KINDS)
    assert len({paint(kind, shade).background for kind in KINDS for shade in range(5)}) == 5 * len(KINDS)
    assert len({paint_of_256(kind, shade).background for kind in KINDS for shade in range(3)}) == 3 * len(KINDS)


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_kind_has_its_own_look_on_every_terminal(system):
    looks = {colored([[("x", style_of(kind, 0))]], system) for kind in KINDS}
    assert len(looks) == len(KINDS)
    assert colored([[("x", "F0")]], system) != colored([[("x", "F1")]], system)


def test_sixteen_colour_terminals_get_named_colours():
    assert colored([[("F0", "F0")]], "standard") == "\x1b[97;44mF0\x1b[0m\n"
    assert colored([[("F0", "F1")]], "standard") == "\x1b[1;97;44mF0\x1b[0m\n"


def test_colour_carries_no_meaning_alone():
    for kinds in (report("zb-h1", 4, 4, SPLIT), report("interleaved", 2, 4, num_chunks=2)):
        for line in report_lines(kinds, RenderOptions(sections=("grid",))):
            for text, style in line:
                letter = style.rstrip("0123456789")
                if letter in OpKind.__members__:
                    assert letter in text


@pytest.mark.parametrize(
    ("environment", "system"),
    [
        ({"COLORTERM": "truecolor", "TERM": "xterm-256color"}, "truecolor"),
        ({"COLORTERM": "24bit"}, "truecolor"),
        ({"TERM": "xterm-direct"}, "truecolor"),
        ({"TERM": "screen-256color"}, "256"),
        ({"TERM": "xterm"}, "standard"),
        ({"TERM": "linux", "COLORTERM": ""}, "standard"),
        ({}, "standard"),
    ],
)
def test_what_a_terminal_says_of_its_colours(environment, system):
    assert color_system(environment) == system


def test_blank_lines_and_ends_of_lines_hold_nothing():
    assert colored([[], [("  ", "heading")], [("a ", "heading"), ("  ", "")]]) == "\n\n\x1b[1ma\x1b[0m\n"


def test_plain_text_imports_no_rich():
    code = "import sys, pptrace.render.text; sys.exit(any(name.partition('.')[0] == 'rich' for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_colour_imports_only_what_turns_colours_into_escapes():
    code = (
        "import sys, pptrace.render.terminal;"
        "sys.exit(any(f'rich.{name}' in sys.modules for name in ('console', 'table', 'markdown', 'syntax', 'text')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
