"""Figures as TikZ. That pdflatex compiles them is tried by hand; here: what the text holds, and that no name becomes TeX."""

from __future__ import annotations

import re

import pytest

from pptrace import simulate
from pptrace.analysis.report import Report
from pptrace.errors import LimitError
from pptrace.render.figure_parts import FigureOptions
from pptrace.render.tex import escaped
from pptrace.render.tikz import MOST_PIXELS, tikz_document, tikz_figure
from pptrace.schedules.registry import names

EVERYTHING = FigureOptions(lifetimes=True, curve=True, arrows=True, caption=True)


@pytest.mark.parametrize("name", names())
def test_braces_and_environments_are_closed(name: str):
    text = tikz_document(simulate(name, num_ranks=4, num_microbatches=8, comm=1), EVERYTHING)
    bare = re.sub(r"\\[{}%]", "", text)
    assert bare.count("{") == bare.count("}")
    assert text.count(r"\begin{tikzpicture}") == text.count(r"\end{tikzpicture}") == 1
    assert text.isascii()
    assert [line for line in text.splitlines() if line.startswith("\\node") and not line.endswith("};")] == []


def test_a_file_compiles_alone_and_can_be_taken_into_a_document():
    text = tikz_document(simulate("1f1b", num_ranks=2, num_microbatches=2))
    assert r"\ifx\documentclass\@twoclasseserror" in text
    assert text.index(r"\begin{document}") < text.index(r"\fi") < text.index(r"\begin{tikzpicture}")
    assert text.endswith("\\pptraceend\n")


def test_the_picture_alone_has_no_preamble():
    text = tikz_figure(simulate("1f1b", num_ranks=2, num_microbatches=2))
    assert "documentclass" not in text
    assert text.startswith("\\begingroup")
    assert text.endswith("\\endgroup\n")


def test_every_op_is_named():
    text = tikz_figure(simulate("1f1b", num_ranks=2, num_microbatches=2), FigureOptions(legend=False))
    assert re.findall(r"\{([FB]\d)\};", text) == ["F0", "F1", "B0", "B1", "F0", "B0", "F1", "B1"]


def test_colours_are_the_palettes():
    text = tikz_figure(simulate("zb-h1", num_ranks=2, num_microbatches=2))
    for name, color in (("ppF0", "0072B2"), ("ppI0", "F0E442"), ("ppW0", "56B4E9")):
        assert f"\\definecolor{{{name}}}{{HTML}}{{{color}}}" in text
    assert "pattern=north west lines,pattern color=ppW0h" in text


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("a_b", r"a\_b"),
        ("50 % of $x & #1", r"50 \% of \$x \& \#1"),
        ("{x}", r"\{x\}"),
        ("~^", r"\textasciitilde{}\textasciicircum{}"),
        (r"\input{/etc}", r"\textbackslash{}input\{/etc\}"),
        ("<a|b>", r"\textless{}a\textbar{}b\textgreater{}"),
        ("--", "-{}-{}"),
        ("a\nb\x1b", r"a\textbackslash{}nb\textbackslash{}x1b"),
        ("é", r"\textbackslash{}xe9"),
    ],
)
def test_text_is_escaped(given: str, written: str):
    assert escaped(given) == written


def test_what_a_file_calls_things_stays_text():
    timed = simulate("1f1b", num_ranks=2, num_microbatches=2)
    timed.schedule.name = "\\end{document}%\n\\input{secret} ^^41 $"
    text = tikz_document(Report(timed.timeline, notes=("\\write18{rm}",)), EVERYTHING)
    comment, *rest = text.splitlines()
    assert comment.startswith("% \\end{document}%\\n\\input{secret} ^^41 $ (flush)")
    assert [line for line in rest if "secret" in line and r"\textbackslash{}input\{secret\}" not in line] == []
    assert "\\write18" not in text
    assert "^^" not in "".join(rest)


def test_more_than_tex_holds_is_refused():
    with pytest.raises(LimitError) as refused:
        tikz_figure(simulate("1f1b", num_ranks=64, num_microbatches=512))
    assert str(refused.value).startswith(
        "65,536 ops, arrows, lifetimes and numbers are more than TeX's memory holds (12,000)"
    )


def test_no_length_is_longer_than_tex_knows():
    text = tikz_document(simulate("naive", num_ranks=8, num_microbatches=128))
    width = re.search(r"paperwidth=([\d.]+)bp", text)
    assert width is not None
    assert float(width[1]) <= MOST_PIXELS * 0.75 + 1
