"""Reports as Markdown: the grid that text has, tables, nothing that a name could break."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from pptrace import simulate
from pptrace.analysis.report import Report
from pptrace.errors import ParameterError
from pptrace.render.figure_parts import FigureOptions
from pptrace.render.markdown import escaped, fenced, markdown_figure, markdown_page


def test_the_figure_is_the_grid_in_a_fence():
    text = markdown_figure(simulate("1f1b", num_ranks=2, num_microbatches=2))
    assert text.startswith("```text\n")
    assert text.endswith("\n```\n")
    assert "stage 0 |F0 F1 .  B0 .  B1\nstage 1 |.  F0 B0 F1 B1 ." in text
    assert "held" not in text


def test_the_curve_is_the_strip_and_the_caption_a_list():
    text = markdown_figure(simulate("1f1b", num_ranks=2, num_microbatches=2), FigureOptions(curve=True, caption=True))
    assert "stage 0 |1  2  2  2  1  1      2 from t=1" in text
    assert (
        "- bubble / elapsed (elapsed idle fraction): 2/6 = 0.333 (idle / (ranks x elapsed); denominator: elapsed)."
        in text
    )


def test_the_page_has_all_tables():
    text = markdown_page(simulate("1f1b", num_ranks=4, num_microbatches=4))
    assert text.startswith("# 1f1b (flush)\n")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == [
        "Metrics",
        "Phases, in ops",
        "Idle time by cause",
        "Lifetimes, activation: F start - B end",
    ]
    assert "| bubble / elapsed (elapsed idle fraction) | 6/14 = 0.429 |" in text
    assert "| stage 0 | 0-8 | 1-10 | 2-12 | 3-14 |" in text


def test_rows_of_a_table_have_as_many_cells_as_its_header():
    lines = markdown_page(simulate("interleaved", num_ranks=4, num_microbatches=8, num_chunks=2)).splitlines()
    tables = [line for line in lines if line.startswith("|")]
    assert len(tables) > 20
    for before, line in pairwise(tables):
        if re.match(r"\|-", line):
            assert line.count("|") == len(re.findall(r"(?<!\\)\|", before))


def test_names_are_escaped():
    assert escaped("a|b <i> `x` *y* [z](u) \x1b\n") == r"a\|b \<i\> \`x\` \*y\* \[z\](u) \\x1b\\n"
    timed = simulate("1f1b", num_ranks=2, num_microbatches=2)
    timed.schedule.name = "<script>|\n# x"
    assert markdown_page(Report(timed.timeline)).startswith(r"# \<script\>\|\\n\# x (flush)")


def test_a_fence_is_longer_than_what_it_holds():
    assert fenced("a ```` b") == "`````text\na ```` b\n`````"


def test_holes_are_refused_since_markdown_would_name_them():
    with pytest.raises(ParameterError, match="Markdown shows every op"):
        markdown_figure(simulate("1f1b", num_ranks=2, num_microbatches=2), FigureOptions(holes=frozenset({0})))
