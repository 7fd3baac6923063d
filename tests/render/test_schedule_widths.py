"""Reports of every schedule in narrow and wide terminals: no line is wider than asked, whatever is done to the order."""

from __future__ import annotations

import pytest

from pptrace.analysis.report import Report
from pptrace.errors import ParameterError
from pptrace.recipes import Recipe, time_schedule, with_defaults
from pptrace.render.options import RenderOptions
from pptrace.render.text import report_text
from pptrace.schedules.registry import Params, names

VARIANTS = ((False, "", 1), (True, "full", 2), (False, "early", 1))


def report(name: str, sizes: tuple[int, int], split: bool, again: str, steps: int) -> Report:
    recipe = Recipe(name, Params(*sizes, num_steps=steps), split, again)
    return Report(time_schedule(recipe, with_defaults(splits=recipe.splits)))


@pytest.mark.parametrize(("split", "again", "steps"), VARIANTS)
@pytest.mark.parametrize("name", names())
def test_lines_are_no_wider_than_asked(name: str, split: bool, again: str, steps: int) -> None:
    for sizes in ((4, 8), (16, 32)):
        found = report(name, sizes, split, again, steps)
        for width in (50, 80, 200):
            lines = report_text(found, RenderOptions(width=width)).splitlines()
            assert [line for line in lines if len(line) > width or line != line.rstrip()] == []


@pytest.mark.parametrize("name", names())
def test_one_rank_and_one_microbatch_are_drawn_where_they_are_legal(name: str) -> None:
    try:
        found = report(name, (1, 1), False, "", 1)
    except ParameterError:
        assert name in ("dualpipe", "dualpipev", "chimera")
        return
    drawn = report_text(found, RenderOptions(sections=("grid",)))
    assert "F0" in drawn
    assert "bubble" in report_text(found)


def test_values_that_do_not_fit_beside_their_label_stand_below_it() -> None:
    lines = report_text(report("1f1b", (16, 16), False, "", 1), RenderOptions(width=50)).splitlines()
    at = lines.index("internal idle")
    assert lines[at + 1] == "    30 28 26 24 22 20 18 16 14 12 10 8 6 4 2 0"
