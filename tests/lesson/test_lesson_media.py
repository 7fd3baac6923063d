"""Pages in their media: well-formed, offline, printable, and unharmed by hostile names, titles and units."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from fractions import Fraction
from html.parser import HTMLParser

import pytest

from pptrace.analysis.report import Report
from pptrace.api import simulate
from pptrace.costs import Costs, values
from pptrace.lesson.build import PageOptions, handout
from pptrace.lesson.html_page import html_page
from pptrace.lesson.svg_page import svg_page
from pptrace.lesson.tex_page import tex_page
from pptrace.lesson.text_page import markdown_page, text_page
from pptrace.model import Op, Placement, Schedule
from pptrace.schedules.registry import names
from pptrace.timeline import simulate_schedule

HOSTILE = "</style></title></svg><script>x()</script><img src=x onerror=y()> \x1b[31m\u202e \\input{x} $%&~^#_{} `| --> ]]>\x00"
WRITERS = [html_page, svg_page, markdown_page, text_page, tex_page]
VOID = {"meta", "input", "br", "img", "link", "hr"}


def every_writer(argument: str = "write"):
    return pytest.mark.parametrize(argument, WRITERS, ids=lambda write: write.__name__)


class Structure(HTMLParser):
    """Tags, attributes and whether they nest."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def hostile() -> Report:
    """A report whose name, unit, source and notes were written by somebody else."""
    orders = [[Op.parse(text) for text in row.split()] for row in ("0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1")]
    schedule = Schedule.from_ops(HOSTILE, Placement.loop(2), 2, orders)
    costs = Costs(values(1), values(1), unit=HOSTILE, source=HOSTILE, comm=(Fraction(1, 2),))
    return Report(simulate_schedule(schedule, costs), notes=(HOSTILE,))


PAGES = {
    "lesson": PageOptions(lab=True),
    "titled": PageOptions(title=HOSTILE),
    "exercise": PageOptions(exercise=True, lab=True, title=HOSTILE),
    "blank": PageOptions(exercise=True, blank=True, names="textbook"),
}


@pytest.mark.parametrize("options", PAGES.values(), ids=PAGES)
def test_html_is_well_formed_and_takes_nothing_in(hostile, options: PageOptions) -> None:
    other = None if options.exercise else hostile
    plain = simulate("1f1b", num_ranks=2, num_microbatches=2)
    found = Structure(html_page(handout(hostile, options, other).page))
    expected = Structure(html_page(handout(plain, options, plain if other else None).page))
    assert found.open == expected.open == []
    assert set(found.tags) <= set(expected.tags) | {"path", "line", "ul", "li", "p"}
    assert found.tags.count("script") == expected.tags.count("script")
    assert [name for name, _ in found.attributes if name.startswith("on")] == []


@pytest.mark.parametrize("options", PAGES.values(), ids=PAGES)
def test_html_loads_nothing(hostile, options: PageOptions) -> None:
    page = Structure(html_page(handout(hostile, options).page))
    addresses = [value for name, value in page.attributes if name in ("src", "href", "xlink:href", "data", "action")]
    assert [address for address in addresses if not address.startswith("#")] == []
    assert "link" not in page.tags
    assert ("http-equiv", "Content-Security-Policy") in page.attributes


@pytest.mark.parametrize("options", PAGES.values(), ids=PAGES)
def test_ids_are_unique_in_a_page(hostile, options: PageOptions) -> None:
    page = Structure(html_page(handout(hostile, options, None if options.exercise else hostile).page))
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("options", PAGES.values(), ids=PAGES)
def test_svg_is_well_formed(hostile, options: PageOptions) -> None:
    root = ElementTree.fromstring(svg_page(handout(hostile, options).page))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert {element.tag.split("}")[1] for element in root.iter()} & {"script", "img", "foreignObject"} == set()


@every_writer()
@pytest.mark.parametrize("options", PAGES.values(), ids=PAGES)
def test_control_characters_are_made_visible(hostile, write, options: PageOptions) -> None:
    page = write(handout(hostile, options).page)
    assert [character for character in page if not (character.isprintable() or character == "\n")] == []


@pytest.mark.parametrize("options", PAGES.values(), ids=PAGES)
def test_markdown_has_no_markup_of_others(hostile, options: PageOptions) -> None:
    outside = re.sub(r"^```.*?^```$", "", markdown_page(handout(hostile, options).page), flags=re.MULTILINE | re.DOTALL)
    assert re.findall(r"(?<!\\)<", outside) == []
    assert outside.count("```") == 0


@pytest.mark.parametrize("options", PAGES.values(), ids=PAGES)
def test_tex_runs_no_command_of_others(hostile, options: PageOptions) -> None:
    page = tex_page(handout(hostile, options).page)
    assert "\\input" not in page
    assert page.isascii()
    assert page.count("\\begin{") == page.count("\\end{")


def test_a_printed_page_breaks_before_the_answers_and_hides_them_while_closed() -> None:
    page = html_page(handout(simulate("1f1b", num_ranks=2, num_microbatches=2), PageOptions(exercise=True)).page)
    assert page.index('<div class="break"></div>') < page.index("<details>")
    assert ".break{break-before:page}" in page
    assert "details:not([open])" in page


def test_themes() -> None:
    made = handout(simulate("1f1b", num_ranks=2, num_microbatches=2), PageOptions(theme="dark"))
    assert "color-scheme:dark" in html_page(made.page)
    assert "prefers-color-scheme" not in html_page(made.page)


def test_svg_has_the_caption_with_assumptions_and_denominators() -> None:
    page = svg_page(handout(simulate("1f1b", num_ranks=4, num_microbatches=4)).page)
    assert "6/14 = 0.429" in page
    assert "denominator" in page
    assert "not modelled" in page.lower()


def test_svg_speaks_textbook_names_throughout() -> None:
    page = svg_page(handout(simulate("1f1b", num_ranks=4, num_microbatches=4), PageOptions(names="textbook")).page)
    assert "D=4 ranks" in page
    assert re.findall(r">[^<]*\bP\b[^<]*<", page) == []


def test_a_wide_figure_is_turned_in_tex() -> None:
    small = tex_page(handout(simulate("1f1b", num_ranks=4, num_microbatches=4)).page)
    wide = tex_page(handout(simulate("1f1b", num_ranks=4, num_microbatches=32)).page)
    assert "rotatebox" not in small
    assert "\\rotatebox{90}" in wide


def _allowed(name: str, ranks: int, microbatches: int) -> bool:
    return {
        "dualpipe": microbatches >= 2 * ranks and ranks % 2 == microbatches % 2 == 0,
        "dualpipev": microbatches >= 2 * ranks,
        "chimera": ranks % 2 == 0 and microbatches % ranks == 0,
        "pipedream-2bw": microbatches >= ranks,
    }.get(name, True)


@pytest.mark.parametrize("name", names())
def test_every_schedule_in_every_medium(name: str) -> None:
    report = simulate(name, num_ranks=4, num_microbatches=8, comm="1/2")
    lesson = handout(report, PageOptions(lab=True), simulate("1f1b", num_ranks=4, num_microbatches=8, comm="1/2")).page
    exercise = handout(report, PageOptions(exercise=True, names="textbook")).page
    for page in (lesson, exercise):
        for write in WRITERS:
            assert len(write(page)) > 1000
    assert Structure(html_page(lesson)).open == []


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize(("ranks", "microbatches"), [(1, 1), (1, 3), (2, 4), (4, 1), (3, 2), (4, 4)])
def test_every_schedule_at_other_sizes(name: str, ranks: int, microbatches: int) -> None:
    if not _allowed(name, ranks, microbatches):
        microbatches = 2 * ranks
        ranks += ranks % 2 if name in ("dualpipe", "chimera") else 0
        microbatches = 2 * ranks
    report = simulate(name, num_ranks=ranks, num_microbatches=microbatches)
    for options in (PageOptions(), PageOptions(exercise=True), PageOptions(exercise=True, blank=True)):
        assert f"M={microbatches} microbatch" in text_page(handout(report, options).page)


@pytest.mark.parametrize(
    "choices",
    [
        {"forward": (1, 2, 3, "7/3"), "backward": (2, 2, 2, 5)},
        {"num_steps": 2},
        {"split_backward": True, "backward": 2},
        {"recompute": "full"},
        {"recompute": "early", "split_backward": True},
        {"comm": 1, "link": "serial"},
        {"reduce": 1, "step_time": 2, "joint_update": False},
    ],
    ids=str,
)
def test_every_choice_makes_a_page(choices: dict) -> None:
    report = simulate("1f1b", num_ranks=4, num_microbatches=4, **choices)
    for options in (PageOptions(), PageOptions(exercise=True)):
        for write in WRITERS:
            assert len(write(handout(report, options).page)) > 1000
