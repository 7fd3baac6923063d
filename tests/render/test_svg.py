"""Figures as SVG: well-formed, self-contained, told apart without colour, and safe against what files call things."""

from __future__ import annotations

import re
from collections import Counter
from xml.etree import ElementTree

import pytest

from pptrace import simulate
from pptrace.analysis.report import Report
from pptrace.errors import ParameterError
from pptrace.model import OpKind
from pptrace.render.figure_parts import FigureOptions
from pptrace.render.palette import DARK, HATCH_CONTRAST, LEAST_CONTRAST, LIGHT, Theme, contrast, hatch, paint
from pptrace.render.svg import svg_document, svg_figure, write
from pptrace.schedules.registry import names

SVG = "{http://www.w3.org/2000/svg}"
EVERYTHING = FigureOptions(lifetimes=True, curve=True, arrows=True, caption=True)
HOSTILE = "</svg><script>alert(1)</script> ]]> -- <!-- & \"quoted\" 'single' % \\ {x} \x1b[31m\x00\ud800 \u202e"


def parsed(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text)


def texts(root: ElementTree.Element) -> Counter[str]:
    return Counter(element.text or "" for element in root.iter(f"{SVG}text"))


@pytest.mark.parametrize("name", names())
def test_every_schedule_is_well_formed_and_names_every_op_once(name: str):
    timed = simulate(name, num_ranks=4, num_microbatches=8, comm=1)
    root = parsed(svg_document(timed, EVERYTHING))
    assert root.tag == f"{SVG}svg"
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    shown = parsed(svg_figure(timed, FigureOptions(title=False, legend=False)))
    ops = Counter(text for text in texts(shown).elements() if re.fullmatch(r"\d*[FBIW]\d+\^?", text))
    compute = sum(op.kind < OpKind.REDUCE for op in map(timed.schedule.op, range(timed.schedule.num_ops)))
    assert ops.total() == compute
    once = 1 if not re.match(r"F", next(iter(ops))) else 4  # `F0` stands in every stage's row, `0F0` in one
    assert set(ops.values()) == {once}


def test_a_title_and_a_description_for_those_who_cannot_see_it():
    root = parsed(svg_figure(simulate("1f1b", num_ranks=4, num_microbatches=4)))
    title, desc = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert title is not None
    assert desc is not None
    assert title.text == "1f1b (flush), P=4 ranks, M=4 microbatches; f=1 b=1 per microbatch and rank, c=0"
    assert "elapsed 14" in (desc.text or "")
    assert root.get("role") == "img"
    assert root.get("aria-labelledby") == f"{title.get('id')} {desc.get('id')}"


def test_it_fetches_nothing():
    text = svg_document(simulate("dualpipev", num_ranks=4, num_microbatches=10), EVERYTHING)
    without_names = text.replace("http://www.w3.org/2000/svg", "").replace("http://www.w3.org/1999/xlink", "")
    assert "http" not in without_names
    assert "@import" not in text
    assert set(re.findall(r"url\((.)", text)) <= {"#"}
    assert set(re.findall(r'href="(.)', text)) <= {"#"}


def test_every_kind_but_f_is_hatched():
    timed = simulate("zb-h1", num_ranks=2, num_microbatches=2, reduce="1/2", step_time="1/2")
    text = svg_figure(timed, FigureOptions(prefix="pp"))
    assert re.findall(r'<pattern id="pp-h(\w+)"', text) == ["I0", "W0", "REDUCE0", "STEP0"]
    root = parsed(text)
    used = {element.get("fill") for element in root.iter(f"{SVG}use")}
    assert used == {f"url(#pp-h{kind}0)" for kind in ("I", "W", "REDUCE", "STEP")}


@pytest.mark.parametrize("shade", range(5))
@pytest.mark.parametrize("kind", [kind for kind in OpKind if kind <= OpKind.STEP])
def test_hatches_are_seen_and_text_on_them_is_read(kind: OpKind, shade: int):
    colours = paint(kind, shade)
    assert contrast(hatch(kind, shade), colours.text) >= LEAST_CONTRAST
    assert contrast(hatch(kind, shade), colours.background) >= HATCH_CONTRAST - 0.2


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_words_are_read_in_both_themes(theme: Theme):
    assert contrast(theme.ink, theme.paper) >= LEAST_CONTRAST
    assert contrast(theme.faint, theme.paper) >= LEAST_CONTRAST
    assert contrast(theme.ink, theme.paper) > 12


def test_themes():
    timed = simulate("1f1b", num_ranks=2, num_microbatches=2)
    auto, light, dark = (svg_figure(timed, FigureOptions(theme=theme)) for theme in ("auto", "light", "dark"))
    assert "@media (prefers-color-scheme:dark)" in auto
    assert f".paper,.pptrace .hole{{fill:{LIGHT.paper}}}" in auto
    assert f".paper,.pptrace .hole{{fill:{DARK.paper}}}" in auto
    assert "@media" not in light + dark
    assert DARK.paper not in light
    assert LIGHT.ink not in dark


def test_the_style_does_not_touch_the_page_around_it():
    style = re.search(r"<style>(.*?)</style>", svg_figure(simulate("1f1b", num_ranks=2, num_microbatches=2)), re.DOTALL)
    assert style is not None
    rules = style[1].replace("@media (prefers-color-scheme:dark){", "")
    selectors = [selector for rule in re.findall(r"([^{}]+)\{", rules) for selector in rule.split(",")]
    assert selectors
    assert all(selector.strip().startswith(".pptrace") for selector in selectors)


def test_what_a_file_calls_things_stays_text():
    timed = simulate("1f1b", num_ranks=2, num_microbatches=2)
    timed.schedule.name = HOSTILE
    text = svg_document(Report(timed.timeline, notes=(HOSTILE,)), EVERYTHING)
    root = parsed(text)
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= {
        *("svg", "title", "desc", "style", "defs", "pattern", "path", "rect", "g", "use", "text"),
    }
    title = root.findtext(f"{SVG}title") or ""
    assert title.startswith(
        "</svg><script>alert(1)</script> ]]> -- <!-- & \"quoted\" 'single' % \\ {x} \\x1b[31m\\x00\\ud800"
    )
    assert text.isprintable() or set(text) - set("\n") == {c for c in text if c.isprintable()}


def ids(text: str) -> set[str]:
    return {element.get("id") or "" for element in parsed(text).iter()} - {""}


def test_several_figures_in_one_page_have_their_own_ids():
    one, other = simulate("1f1b", num_ranks=2, num_microbatches=2), simulate("gpipe", num_ranks=2, num_microbatches=2)
    assert ids(svg_figure(one)) & ids(svg_figure(other)) == set()
    assert svg_figure(one) == svg_figure(one)
    assert ids(svg_figure(one, FigureOptions(prefix="a"))) & ids(svg_figure(one, FigureOptions(prefix="b"))) == set()


def test_a_prefix_is_letters_and_digits():
    with pytest.raises(ParameterError, match="the prefix of a figure's ids is a letter and then letters and digits"):
        svg_figure(simulate("1f1b", num_ranks=1, num_microbatches=1), FigureOptions(prefix='x" onload="alert(1)'))


def test_many_ops_share_few_elements():
    text = svg_figure(simulate("1f1b", num_ranks=64, num_microbatches=512))
    assert text.count("<path") < 64 * 5
    assert len(re.findall(r">[FB]\d+<", text)) == 65_536
    assert len(text) < 64 * 65_536


def test_a_hole_says_nothing():
    timed = simulate("1f1b", num_ranks=2, num_microbatches=2)
    root = parsed(svg_figure(timed, FigureOptions(holes=frozenset({0}), legend=False)))
    assert texts(root)["F0"] == 1  # stage 1's
    assert texts(root)["?"] == 1


def test_a_file_is_utf_8_and_says_so():
    data = write(simulate("1f1b", num_ranks=2, num_microbatches=2))
    assert data.startswith(b'<?xml version="1.0" encoding="UTF-8"?>\n<svg ')
    assert data.endswith(b"</svg>\n")
