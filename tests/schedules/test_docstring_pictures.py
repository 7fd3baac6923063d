"""The picture in every builder's docstring is what the grid draws: a column an op, two for a full B where others are split."""

from __future__ import annotations

import re
from textwrap import dedent

import pytest

from pptrace.costs import Costs, values
from pptrace.render.draw import Canvas, grid_lines
from pptrace.render.grid import grid
from pptrace.render.lines import text_of_line
from pptrace.schedules.registry import Params, build, entry, names
from pptrace.timeline import simulate_schedule

_ROW = re.compile(r"(time|rank \d+|stage \d+) +\|.*")
_CELL = re.compile(r"(?P<stage>\d*)[FBIW](?P<microbatch>\d+)")


def picture(name: str) -> list[str]:
    """The lines of the grid in the builder's docstring."""
    text = entry(name).build.__doc__ or ""
    return [line.rstrip() for line in dedent(text.partition("\n")[2]).splitlines() if _ROW.fullmatch(line.strip())]


@pytest.mark.parametrize("name", names())
def test_the_picture_is_what_is_drawn(name: str) -> None:
    shown = picture(name)
    assert shown, f"{name} has no picture"
    found = entry(name)
    cells = [match for line in shown[1:] for match in _CELL.finditer(line.partition("|")[2])]
    num_ranks = len(shown) - 1
    num = 1 + max(int(cell["microbatch"]) for cell in cells)
    num_stages = 1 + max(int(cell["stage"] or 0) for cell in cells)
    chunks = num_stages // num_ranks if "chunks" in found.options else None
    full, half = (2, 1) if found.splits else (1, 0)
    costs = Costs(values(1, per="op"), values(full, per="op"), values(half, per="op"))
    layout = grid(simulate_schedule(build(name, Params(num_ranks, num, chunks)), costs))
    drawn = [text_of_line(line).rstrip() for line in grid_lines(Canvas(layout))]
    assert drawn == [line.strip() for line in shown]
