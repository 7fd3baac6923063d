"""The registered schedules as a Markdown table: all of them, legible, and the one in README."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pptrace.render.schedule_table import HEADER, schedule_table
from pptrace.schedules.registry import entry, names

README = Path(__file__).resolve().parents[2] / "README.md"
TABLE = schedule_table(map(entry, names()))


def cells(row: str) -> list[str]:
    """The cells of a row as a reader of the rendered table sees them."""
    found = re.split(r"(?<!\\)\|", row)
    assert (found[0], found[-1]) == ("", "")
    return [re.sub(r"\\([\\`*_<|])", r"\1", cell).strip().strip("`") for cell in found[1:-1]]


@pytest.mark.parametrize(
    ("name", "row"), list(zip(names(), TABLE.splitlines()[2:], strict=True)), ids=lambda value: value[:20]
)
def test_every_schedule_has_a_row_with_what_the_registry_says(name: str, row: str) -> None:
    found = entry(name)
    assert cells(row) == [name, found.summary, found.constraints, found.bubble, found.peak, found.source]
    assert all(cells(row))


def test_the_header_has_as_many_cells_as_the_rule() -> None:
    header, rule = TABLE.splitlines()[:2]
    assert cells(header) == list(HEADER)
    assert cells(rule) == ["---"] * len(HEADER)


def test_a_bar_in_a_formula_does_not_begin_a_cell() -> None:
    assert "`(P-2)*(max(f,b)+(M/P-1)*\\|b-f\\|) if M is a multiple of P`" in schedule_table([entry("chimera")])


def test_readme_holds_the_table_that_the_command_prints() -> None:
    begin, end = "<!-- schedules: the output of `pptrace schedules -t md` -->\n", "<!-- end of schedules -->\n"
    text = README.read_text(encoding="utf-8")
    assert (text.count(begin), text.count(end)) == (1, 1)
    assert text.split(begin)[1].split(end)[0].strip() == TABLE.strip()
