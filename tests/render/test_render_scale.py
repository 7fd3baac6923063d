"""How wide a moment is drawn: exact columns, or characters for a round time, stretched where a name needs room."""

from __future__ import annotations

import json
import random
import re
from fractions import Fraction

import golden_data
import pytest
from pictures import SPLIT, costs, picture, report, section

from pptrace.analysis.report import Report
from pptrace.costs import Costs, values
from pptrace.render.grid import grid
from pptrace.render.options import RenderOptions
from pptrace.render.scale import round_above, round_below


def eight_stages(comm: int = 0) -> Report:
    measured = json.loads(golden_data.text("inputs/profiled_8_stages.json"))
    backward = [a + b for a, b in zip(measured["T_B"], measured["T_W"], strict=True)]
    cost = Costs(
        values(*measured["T_F"], per="stage"),
        values(*backward, per="stage"),
        values(*measured["T_W"], per="stage"),
        comm=(Fraction(comm),),
        unit="us",
    )
    return report("1f1b", 8, measured["m"], cost)


def test_a_short_op_beside_a_long_one_keeps_its_name():
    # 101 units in at most 4 x 6 characters: 5 units each. F0 needs three characters, B0 has 20 of its own.
    found = report("1f1b", 1, 1, costs(1, 100))
    assert section(found, "grid").splitlines()[1] == "stage 0 |F0 B0" + "-" * 17
    assert "one character = 5, more where an op is too short for its name" in " ".join(section(found, "legend").split())


def test_measured_times_are_drawn_in_round_numbers_of_microseconds():
    # The shortest op, 28850, has to have room for four characters: at most 7212 a character.
    legend = " ".join(section(eight_stages(), "legend").split())
    assert "times in us; one character = 6000; ops are placed at their start, rounded down" in legend


@pytest.mark.parametrize("comm", [0, 473])
@pytest.mark.parametrize("options", [{}, {"width": 80}, {"width": 200}])
def test_no_op_of_the_measured_pipeline_is_lost(comm, options):
    found = eight_stages(comm)
    rows: dict[str, list[str]] = {}
    for line in section(found, "grid", **options).splitlines():
        label, _, cells = line.partition("|")
        for op in re.findall(r"[FB]\d+", cells):
            row = rows.setdefault(label.strip(), [])
            if row[-1:] != [op]:  # an op that goes on in the next panel may be named again there
                row.append(op)
    assert rows == {f"stage {s}": [str(op)[1:] for op in found.schedule.order(s)][:64] for s in range(8)}


def test_no_line_of_a_panel_is_wider_than_asked():
    for width in (60, 80, 200):
        lines = section(eight_stages(473), "grid", width=width).splitlines()
        assert max(map(len, lines)) <= width


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("compact", [False, True])
def test_whatever_the_durations_every_op_has_its_room_and_time_never_runs_back(seed, compact):
    dice = random.Random(seed)
    times = [Fraction(dice.choice([1, 3, 7, 50, 1000, 12345]), dice.choice([1, 2, 3, 1000])) for _ in range(8)]
    cost = Costs(
        values(*times[:4]), values(*[2 * t for t in times[4:]]), values(*times[4:]), comm=(Fraction(dice.randrange(3)),)
    )
    found = report(dice.choice(["1f1b", "gpipe", "zb-h1"]), 4, dice.randrange(1, 9), cost)
    layout = grid(found.timeline, RenderOptions(compact=compact), found.idle.slots)
    apart = 0 if compact else 1
    moments = []
    for row in layout.rows:
        free = 0
        for cell in row.cells:
            assert cell.column >= free
            assert cell.width * layout.column_width >= len(cell.text) + apart
            free = cell.column + cell.width
            moments += [(cell.start, cell.column), (cell.end, free)]
        assert free <= layout.num_columns
    moments.sort()
    columns = [column for _, column in moments]
    assert columns == sorted(columns)
    assert len(dict(moments)) == len(set(moments)), "one moment is drawn in one place"
    drawn = sum(len(row.cells) for row in layout.rows)
    assert drawn == sum(end > start for start, end in zip(found.timeline.starts, found.timeline.ends, strict=True))


def test_thirds_are_exact_and_written_at_whole_times():
    found = report("1f1b", 2, 1, costs(1, 2, c=Fraction(1, 3)))
    # Three columns to a unit; F0 needs three characters on three columns: one character a column.
    assert section(found, "grid") == picture("""
        time    |0  1  2  3  4  5  6
        stage 0 |F0 .  .  .   ~B0---
        stage 1 |.  ~F0 B0--- .  .
    """)


def test_long_times_are_written_where_they_fit():
    lines = section(report("1f1b", 2, 60, SPLIT), "grid").splitlines()
    times = lines[0].partition("|")[2].split()
    assert times[:3] == ["0", "1", "2"]
    assert times == [str(n) for n in range(183)]


@pytest.mark.parametrize(
    ("value", "below", "above"),
    [
        (Fraction(7212), 6000, 8000),
        (Fraction(1), 1, 1),
        (Fraction(99), 80, 100),
        (Fraction(1, 3), Fraction(3, 10), Fraction(4, 10)),
        (Fraction(3, 1000), Fraction(3, 1000), Fraction(3, 1000)),
    ],
)
def test_round_numbers(value, below, above):
    assert round_below(value) == below
    assert round_above(value) == above
