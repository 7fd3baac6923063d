"""The small picture in every builder's docstring is what the schedule looks like, in op units."""

from __future__ import annotations

import inspect
import re

import pytest

from pptrace import simulate
from pptrace.render.options import RenderOptions
from pptrace.render.text import report_text
from pptrace.schedules.registry import entry, names

ROW = re.compile(r"(?:time|stage \d+|rank \d+) *\|")


@pytest.mark.parametrize("name", names())
def test_picture(name: str) -> None:
    lines = (inspect.getdoc(entry(name).build) or "").splitlines()
    picture = [line.strip() for line in lines if ROW.match(line.strip())]
    assert picture[0].startswith("time")
    num_microbatches = 1 + max(int(number) for number in re.findall(r"[FBI](\d+)", "".join(picture)))
    report = simulate(name, ranks=len(picture) - 1, microbatches=num_microbatches, cost_per="op")
    drawn = report_text(report, RenderOptions(sections=("grid",))).splitlines()
    assert picture == [line.rstrip() for line in drawn if ROW.match(line)]
