"""`pptrace show -o FILE.svg` and its like."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest
from running import answer, refusal

if TYPE_CHECKING:
    from pathlib import Path

SMALL = ("1f1b", "-P", "4", "-M", "4")


@pytest.mark.parametrize(
    ("suffix", "begins"),
    [
        (".svg", "<?xml"),
        (".html", "<!DOCTYPE html>"),
        (".htm", "<!DOCTYPE html>"),
        (".tex", "% 1f1b"),
        (".md", "# 1f1b"),
        (".SVG", "<?xml"),
    ],
)
def test_the_suffix_says_what_is_written(tmp_path: Path, suffix: str, begins: str):
    file = tmp_path / f"figure{suffix}"
    assert answer("show", *SMALL, "-o", str(file)) == ""
    assert file.read_text(encoding="utf-8").startswith(begins)


@pytest.mark.parametrize("name", ["svg", "html", "tikz", "md"])
def test_convert_and_show_write_the_same(tmp_path: Path, name: str):
    assert answer("convert", *SMALL, "-t", name) == answer("show", *SMALL, "-t", name)


def test_options_of_figures():
    shown = answer("show", *SMALL, "-t", "svg", "--lifetimes", "--curve", "--arrows", "--caption", "--theme", "dark")
    words = [element.text for element in ElementTree.fromstring(shown).iter("{http://www.w3.org/2000/svg}text")]
    assert "lifetimes of saved activations, by microbatch" in words
    assert "activations held" in words
    assert "output to the op that needs it (bold: its rank is idle until then)" in words
    assert any((word or "").startswith("bubble / elapsed") for word in words)
    assert "prefers-color-scheme" not in shown


def test_options_that_text_has_too():
    shown = answer(
        "show", *SMALL, "-t", "svg", "--one-based", "--window", "0:5", "--only-ranks", "0,1", "--width", "500"
    )
    root = ElementTree.fromstring(shown)
    words = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert root.get("width") == "500"
    assert "S2" in words
    assert "S3" not in words
    assert "B1" not in words


def test_a_file_is_drawn_as_its_schedule_is(tmp_path: Path):
    trace = tmp_path / "t.json"
    answer("trace", *SMALL, "-o", str(trace))
    assert answer("show", str(trace), "-t", "svg") == answer("show", *SMALL, "-t", "svg")


def test_what_does_not_go_together():
    assert refusal("show", *SMALL, "--arrows") == (
        "--arrows is of figures, not of text; add -o FILE.svg (or .html, .tex, .md), or -t svg"
    )
    assert refusal("show", *SMALL, "-t", "json", "--theme", "dark").startswith("--theme is of figures, not of json")
    assert refusal("show", *SMALL, "-t", "svg", "--compact").startswith("--compact is of text; for svg: --lifetimes")
    assert refusal("show", *SMALL, "-t", "svg", "--width", "100") == (
        "--width 100: this figure needs at least 240 pixels"
    )


def test_a_figure_that_cannot_be_drawn_leaves_the_file_as_it_was(tmp_path: Path):
    file = tmp_path / "x.tex"
    file.write_text("mine")
    assert "more than TeX's memory holds" in refusal("show", "1f1b", "-P", "64", "-M", "256", "-o", str(file))
    assert file.read_text() == "mine"


def test_a_figure_is_not_read_back(tmp_path: Path):
    file = tmp_path / "x.svg"
    answer("show", *SMALL, "-o", str(file))
    assert "svg" in refusal("show", str(file), "--from", "svg")
    for command in ("show", "check"):
        assert "is a figure or a page (svg, html), which pptrace writes and does not read" in refusal(
            command, str(file)
        )
