"""The picture in every builder's docstring is what `show` draws: the sizes are read from the picture itself."""

from __future__ import annotations

import inspect
import re

import pytest
from pictures import section

from pptrace.analysis.report import Report
from pptrace.costs import Costs, values
from pptrace.schedules.registry import Entry, Params, build, entry, names
from pptrace.timeline import simulate_schedule

# One unit per F and per full backward; per F, I and W (so that b = 2) where the backward is split or overlaps.
FUSED = Costs(values(1, per="op"), values(1, per="op"))
SPLIT = Costs(values(1, per="op"), values(2, per="op"), values(1, per="op"))


def pictures(found: Entry) -> list[str]:
    """The grids of a builder's docstring: a line of times and the rows under it."""
    blocks, block = [], []
    for line in (inspect.getdoc(found.build) or "").splitlines():
        if re.match(r" +(time|stage|rank) .*\|", line):
            block.append(line.strip())
        elif block:
            blocks.append("\n".join(block) + "\n")
            block = []
    return blocks + (["\n".join(block) + "\n"] if block else [])


@pytest.mark.parametrize("name", names())
def test_every_builder_has_a_picture_and_it_is_right(name):
    found = entry(name)
    assert pictures(found), f"the docstring of {found.build.__name__} has no picture"
    for drawn in pictures(found):
        assert drawn.startswith("time"), drawn
        rows = drawn.count("\n") - 1
        microbatches = 1 + max(int(number) for number in re.findall(r"[FBI](\d+)", drawn))
        chunks = 1
        if drawn.splitlines()[1].startswith("rank"):
            stages = 1 + max(int(number) for number in re.findall(r"(\d+)F", drawn))
            chunks = max(stages // rows, 1)
        schedule = build(name, Params(rows, microbatches, chunks if "chunks" in found.options else None))
        report = Report(simulate_schedule(schedule, SPLIT if found.splits else FUSED))
        assert section(report, "grid") == drawn
