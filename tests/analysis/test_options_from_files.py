"""Options that a file gives under a registered name, but no builder writes."""

from __future__ import annotations

import pytest

from pptrace.analysis.closed_forms import params_of
from pptrace.analysis.report import Report
from pptrace.model import Op, Placement, Schedule
from pptrace.schedules.registry import Params, build
from pptrace.timeline import simulate_schedule


def with_options(options: dict[str, str | int]) -> Schedule:
    built = build("interleaved", Params(2, 4, 2))
    return built.replace([built.codes[:16], built.codes[16:]], options=options)


@pytest.mark.parametrize("options", [{"group": "many"}, {"num_ranks": 9}, {"order": 3}, {"num_microbatches": "x"}])
def test_strange_options_are_left_out(options: dict[str, str | int]) -> None:
    schedule = with_options(options)
    assert params_of(schedule) == Params(2, 4, 2)
    assert {form.verdict for form in Report(simulate_schedule(schedule)).closed_forms} == {"agrees"}


@pytest.mark.parametrize("group", [0, -1, 99])
def test_a_group_that_cannot_be_means_that_the_forms_do_not_apply(group: int) -> None:
    schedule = with_options({"group": group})
    assert "does not apply" in {form.verdict for form in Report(simulate_schedule(schedule)).closed_forms}


def test_a_name_and_sizes_that_would_make_millions_of_ops_are_not_built_to_be_compared() -> None:
    """One op of 1f1b, in a file that says P = 4 and M = 300,000: 2.4 million ops."""
    rows = [[Op.parse("0F0")], [], [], []]
    found = Report(simulate_schedule(Schedule.from_ops("1f1b", Placement.loop(4), 300_000, rows)))
    assert {form.failing for form in found.closed_forms} == {
        ("the order is that of 1f1b (here it is too long to compare)",)
    }
