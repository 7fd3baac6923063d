"""Every registered schedule's grid, as `show` prints it, folded or not, is read back to the same orders, pairs and times."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest

from pptrace.analysis.report import Report
from pptrace.costs import Costs, values
from pptrace.errors import PptraceError
from pptrace.formats import text_grid
from pptrace.formats.listings import schedule_of
from pptrace.render.options import RenderOptions
from pptrace.render.text import report_text
from pptrace.schedules.registry import Params, build, names
from pptrace.schedules.updates import with_updates
from pptrace.timeline import simulate_schedule

SIZES = [(2, 4, 2), (4, 12, 1), (3, 7, 1)]
"""Ranks, microbatches, steps. Twelve microbatches: names of two lengths."""
COSTS = {
    "whole": ((1, 2, 1, 0), ()),
    "fractional": ((Fraction(3, 2), Fraction(7, 3), Fraction(1, 2), Fraction(1, 5)), ()),
    "thirds": ((1, 2, 1, Fraction(1, 3)), ()),
    "measured": ((29850, 48635, 18868, 466), ()),
    "unequal microbatches": ((10, 21, 9, 2), (1, Fraction(13, 10), Fraction(7, 10))),
}
WIDTHS = (None, 80, 33)


def timelines(name, costs):
    (f, b, w, c), scale = COSTS[costs]
    for num_ranks, num_microbatches, num_steps in SIZES:
        try:
            schedule = with_updates(build(name, Params(num_ranks, num_microbatches)), num_steps)
        except PptraceError:  # a size that this schedule refuses
            continue
        scales = tuple(scale[m % len(scale)] for m in range(num_microbatches)) if scale else ()
        yield simulate_schedule(
            schedule, Costs(values(f), values(b), values(w), (Fraction(c),), microbatch_scale=scales)
        )


@pytest.mark.parametrize(("name", "costs"), list(product(names(), COSTS)))
def test_a_printed_grid_is_read_back(name, costs):
    seen = 0
    for timeline in timelines(name, costs):
        schedule = timeline.schedule
        report = Report(timeline)
        work = [[p for p in schedule.positions(rank) if schedule.op(p).kind <= 4] for rank in range(schedule.num_ranks)]
        for width, one_based in product(WIDTHS, (False, True)):
            text = report_text(
                report, RenderOptions(width=width, one_based=one_based, sections=("header", "legend", "grid"))
            )
            assert max(len(line.rstrip()) for line in text.splitlines()) <= (width or 10**6)
            listing = text_grid.read(text.encode(), letter="full")
            back = schedule_of(listing).schedule
            assert [back.order(rank) for rank in range(schedule.num_ranks)] == [
                [schedule.op(p) for p in positions] for positions in work
            ]
            assert len(back.pairs) == len(schedule.pairs)
            assert back.placement == schedule.placement
            if listing.slots:
                starts = [timeline.starts[p] for row in work for p in row if p - 1 not in schedule.pairs]
                slots = [slot for row in listing.slots for slot in row]
                assert len({Fraction(start, slot) for start, slot in zip(starts, slots, strict=True) if slot}) == 1
            seen += 1
    assert seen >= len(WIDTHS) * 2
