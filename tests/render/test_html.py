"""The HTML page: to be read without a script and without a network, and safe against what files call things. How it behaves
in a browser is tests/browser_lane's."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from pptrace import simulate
from pptrace.analysis.report import Report
from pptrace.render.figure_parts import FigureOptions
from pptrace.render.html import POLICY, html_page, script_json
from pptrace.schedules.registry import names

EVERYTHING = FigureOptions(lifetimes=True, curve=True, arrows=True, caption=True)
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)> ]]> --> \"'& \x1b[0m"
VOID = {"meta", "br", "input"}


class Reader(HTMLParser):
    """Elements, attributes and texts of a page, and whether what is opened is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.texts.append(data)

    def count(self, tag: str) -> int:
        return sum(found == tag for found, _ in self.elements)


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="pp-data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


@pytest.mark.parametrize("name", names())
def test_every_schedule_makes_a_page_whose_elements_are_closed(name: str):
    page = html_page(simulate(name, num_ranks=4, num_microbatches=8, comm=1), EVERYTHING)
    reader = Reader(page)
    assert reader.open == []
    assert (reader.count("svg"), reader.count("h1"), reader.count("figure")) == (1, 1, 1)


def test_it_can_be_read_without_a_script():
    reader = Reader(html_page(simulate("1f1b", num_ranks=4, num_microbatches=4), EVERYTHING))
    words = " ".join(reader.texts)
    for said in ("1f1b (flush)", "6/14 = 0.429", "denominator: elapsed", "F3", "4 from t=3", "not modelled"):
        assert said.lower() in words.lower()
    hidden = [attributes.get("class") for _, attributes in reader.elements if "hidden" in attributes]
    assert hidden == ["tools", "now", "told"]


def test_it_needs_no_network():
    page = html_page(simulate("dualpipev", num_ranks=4, num_microbatches=10), EVERYTHING)
    reader = Reader(page)
    policy = [a.get("content") for tag, a in reader.elements if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy == [POLICY]
    assert POLICY.startswith("default-src 'none'")
    assert all("src" not in attributes for _, attributes in reader.elements)
    links = {
        attributes[key] for _, attributes in reader.elements for key in ("href", "xlink:href") if key in attributes
    }
    assert {(link or "")[:1] for link in links} == {"#"}
    assert re.findall(r"fetch\(|XMLHttpRequest|import\(|WebSocket|@import|innerHTML|eval\(", page) == []


def test_the_data_says_what_every_op_waits_for():
    data = data_of(html_page(simulate("1f1b", num_ranks=2, num_microbatches=1)))
    # boxes: stage 0's F0, B0; stage 1's F0, B0
    assert data["name"] == ["F0", "B0", "F0", "B0"]
    assert data["first"] == [0, 2, 4]
    assert (data["start"], data["end"]) == ([0, 3, 1, 2], [1, 4, 2, 3])
    assert data["after"] == [[], [3, 0], [0], [2]]
    assert [(row["ticks"], row["counts"]) for row in data["rows"]] == [([0, 4], [1, 0]), ([0, 1, 3], [0, 1, 0])]
    assert data["arrival"] == {}
    assert [[begin, end] for begin, end, _ in data["idle"]["1"]] == [[1, 3]]


def test_messages_arrive_later_than_their_ops_end():
    data = data_of(html_page(simulate("1f1b", num_ranks=2, num_microbatches=1, comm="1/2")))
    assert data["unit"] == 2
    assert data["arrival"] == {"0": 3, "3": 8}  # in half units: F0 ends at 2, B0 on stage 1 at 7


def test_an_exercise_does_not_give_its_answers_away():
    timed = simulate("1f1b", num_ranks=2, num_microbatches=2)
    page = html_page(timed, FigureOptions(holes=frozenset(range(timed.schedule.num_ops))))
    data = data_of(page)
    assert set(data["name"]) == {"?"}
    assert data["after"] == [[]] * 8
    assert data["idle"] == {}
    assert "<h2>" not in page


def test_what_a_file_calls_things_stays_text():
    timed = simulate("1f1b", num_ranks=2, num_microbatches=2)
    timed.schedule.name = HOSTILE
    page = html_page(Report(timed.timeline, notes=(HOSTILE,)), EVERYTHING)
    reader = Reader(page)
    assert reader.open == []
    assert reader.count("img") == 0
    assert reader.count("script") == 2  # the data and the program
    assert not any(key.startswith("on") for _, attributes in reader.elements for key in attributes)
    assert "\x1b" not in page
    assert any(text.startswith("</script><script>alert(1)") for text in reader.texts)


def test_json_cannot_end_its_element():
    written = script_json({"</script>": "<!-- & ]]> \u2028"})
    assert "<" not in written
    assert ">" not in written
    assert written.isascii()
    assert json.loads(written) == {"</script>": "<!-- & ]]> \u2028"}


def test_themes():
    timed = simulate("1f1b", num_ranks=2, num_microbatches=2)
    auto, light, dark = (html_page(timed, FigureOptions(theme=theme)) for theme in ("auto", "light", "dark"))
    assert "color-scheme:light dark" in auto
    assert "color-scheme:light}" in light
    assert "color-scheme:dark}" in dark
    assert auto.count("@media (prefers-color-scheme:dark)") == 2  # the page's and the figure's
    assert "prefers-color-scheme" not in light + dark
