"""Text grids: what `show` prints is read back exactly; loose tables of people are read as a person would."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pptrace.costs import Costs, values
from pptrace.errors import FormatError, LimitError, PptraceError
from pptrace.formats import text_grid
from pptrace.formats.listings import schedule_of
from pptrace.formats.op_text import cell_text
from pptrace.listing import Listing
from pptrace.render.draw import Canvas, grid_lines
from pptrace.render.grid import grid
from pptrace.render.lines import text_of_line
from pptrace.render.options import RenderOptions
from pptrace.schedules.registry import Params, build, names
from pptrace.schedules.transforms import recompute, split_backward
from pptrace.schedules.updates import with_updates
from pptrace.timeline import Timeline, simulate_schedule

WALK_THROUGH = """\
1f1b (flush)   P=4 ranks  M=4 microbatches   f=1 b=1 per microbatch and rank   c=0

time    |0  1  2  3  4  5  6  7  8  9  10 11 12 13
stage 0 |F0 F1 F2 F3 .  .  .  B0 .  B1 .  B2 .  B3
stage 1 |.  F0 F1 F2 .  .  B0 F3 B1 .  B2 .  B3 .
stage 2 |.  .  F0 F1 .  B0 F2 B1 F3 B2 .  B3 .  .
stage 3 |.  .  .  F0 B0 F1 B1 F2 B2 F3 B3 .  .  .

activations held                                     peak
stage 0 |1  2  3  4  4  4  4  4  3  3  2  2  1  1      4 from t=3
bubble / elapsed (elapsed idle fraction)   6/14 = 0.429
"""


def read(text: str, **options: object) -> Listing:
    return text_grid.read(text.encode(), **options)  # type: ignore[arg-type]


def ops(listing: Listing) -> list[str]:
    return [" ".join(cell_text(cell.ops) for cell in row) for row in listing.rows]


def test_the_walk_through_is_read_back_with_its_times() -> None:
    listing = read(WALK_THROUGH)
    assert ops(listing)[3] == "3F0 3B0 3F1 3B1 3F2 3B2 3F3 3B3"
    assert listing.slots[1] == (1, 2, 3, 6, 7, 8, 10, 12)
    assert (listing.rows[1][0].line, listing.rows[1][0].column) == (5, 13)
    schedule = schedule_of(listing).schedule
    assert schedule.codes == build("1f1b", Params(4, 4)).codes


def drawn(timeline: Timeline, width: int | None, *, one_based: bool) -> str:
    layout = grid(timeline, RenderOptions(one_based=one_based))
    lines = [text_of_line(line) for line in grid_lines(Canvas(layout, width))]
    return "\n".join([layout.scale.note(), "", *lines, ""])


COSTS = [(1, 1, "1/2", 0), (1, 2, 1, 0), (1, 2, 1, 1), ("3/2", "7/3", "1/2", "1/5"), (29850, 48635, 18868, 466)]


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(names()),
    st.tuples(st.integers(1, 5), st.integers(1, 7), st.integers(1, 3), st.integers(1, 3)),
    st.sampled_from(COSTS),
    st.sampled_from(["", "split", "recompute"]),
    st.booleans(),
)
def test_any_grid_is_read_back(
    name: str, sizes: tuple[int, int, int, int], costs: tuple[str, ...], change: str, one_based: bool
) -> None:
    num_ranks, num_microbatches, num_chunks, num_steps = sizes
    try:
        schedule = build(name, Params(num_ranks, num_microbatches, num_chunks if num_chunks > 1 else None))
        schedule = split_backward(schedule) if change == "split" else schedule
        schedule = recompute(schedule) if change == "recompute" else schedule
        schedule = with_updates(schedule, num_steps)
    except PptraceError:  # a size or a change that this schedule refuses
        return
    f, b, w, c = costs
    timeline = simulate_schedule(schedule, Costs(values(f), values(b), values(w), (Fraction(c),)))
    listing = read(drawn(timeline, None, one_based=one_based), letter="full")
    lasting = [
        [position for position in schedule.positions(rank) if timeline.starts[position] < timeline.ends[position]]
        for rank in range(num_ranks)
    ]
    back = schedule_of(listing).schedule
    assert [back.order(rank) for rank in range(num_ranks)] == [
        [schedule.op(position) for position in positions] for positions in lasting
    ]
    assert back.placement == schedule.placement
    if listing.slots:
        starts = [timeline.starts[p] for row in lasting for p in row if p - 1 not in schedule.pairs]
        slots = [slot for row in listing.slots for slot in row]
        assert len({Fraction(start, slot) for start, slot in zip(starts, slots, strict=True) if slot}) <= 1
        assert [start == 0 for start in starts] == [slot == 0 for slot in slots]


@pytest.mark.parametrize("width", [30, 60])
@pytest.mark.parametrize(("name", "steps"), [("1f1b", 1), ("zb-h1", 3), ("interleaved", 2), ("zb-v", 1)])
def test_panels_and_steps_are_joined(name: str, steps: int, width: int) -> None:
    schedule = with_updates(build(name, Params(3, 5)), steps)
    timeline = simulate_schedule(schedule, Costs(backward=values(2), weight_grad=values(1)))
    listing = read(drawn(timeline, width, one_based=False), letter="full")
    back = schedule_of(listing).schedule
    assert [back.order(rank) for rank in range(3)] == [
        [op for op in schedule.order(rank) if op.kind < 5] for rank in range(3)
    ]
    assert back.num_steps == steps


# -------------------------------------------------------------------------------------------------------- loose tables

TWO = ["0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1"]
SLOTS = ((0, 1, 3, 5), (1, 2, 3, 4))


@pytest.mark.parametrize(
    "text",
    [
        "F0 F1 . B0 . B1\n. F0 B0 F1 B1 .\n",
        "F0 F1 .  B0 .  B1\n.  F0 B0 F1 B1\n",
        "F0 F1    B0    B1\n   F0 B0 F1 B1\n",
        "r0  F0 F1 .  B0 .  B1\nr1  .  F0 B0 F1 B1 .\n",
        "rank 0: F0 F1 - B0 - B1\nrank 1: - F0 B0 F1 B1 -\n",
        "GPU1 | . F0 B0 F1 B1 .\nGPU0 | F0 F1 . B0 . B1\n",
        "Stage 0 |F0|F1|  |B0|  |B1|\nStage 1 |  |F0|B0|F1|B1|  |\n",
        "| | t0 | t1 | t2 |\n|---|---|---|---|\n| rank 0 | F0 | F1 | | B0 | | B1 |\n| rank 1 | | F0 | B0 | F1 | B1 | |\n",
        "F0,F1,,B0,,B1\n,F0,B0,F1,B1\n",
        "F0\tF1\t\tB0\t\tB1\n\tF0\tB0\tF1\tB1\n",
        "S1: F1 F2 . B1 . B2\nS2: . F1 B1 F2 B2 .\n",
        "F1 F2 . B1 . B2\n. F1 B1 F2 B2 .\n",
        "Here is what we run:\n\n    0F0 0F1 . 0B0 . 0B1\n    . 1F0 1B0 1F1 1B1 .\n\nIs it right?\n",
        "device 0: F0 F1 idle B0 idle B1\ndevice 1: idle F0 B0 F1 B1 idle\n",
    ],
)
def test_loose_tables_mean_what_a_person_reads(text: str) -> None:
    listing = read(text)
    assert ops(listing) == TWO
    assert listing.slots == SLOTS


def test_a_cell_repeated_in_every_op_of_its_kind_is_one_long_op() -> None:
    listing = read("F0 F1 .  .  B0 B0 B1 B1\n.  F0 B0 B0 F1 B1 B1\n")
    assert ops(listing) == TWO
    assert listing.slots == ((0, 1, 4, 6), (1, 2, 4, 5))
    assert listing.notes[1] == "cells repeated in a row are one longer op (B 2 columns)"


def test_a_cell_repeated_once_is_an_op_too_many() -> None:
    assert ops(read("F0 F1 B0 B0 B1\n. F0 B0 F1 B1\n"))[0] == "0F0 0F1 0B0 0B0 0B1"


@pytest.mark.parametrize("pair", ["0F1+1B0", "0F1&1B0", "(0F1;1B0)", "(0F1;1B0)OVERLAP_F_B"])
def test_overlapped_pairs(pair: str) -> None:
    assert ops(read(f"0F0 1F0 {pair} 1F1 1B1 0B0 0B1\n")) == ["0F0 1F0 (0F1;1B0)OVERLAP_F_B 1F1 1B1 0B0 0B1"]


def test_counting_from_one_is_said() -> None:
    assert read("F1 B1\n. .\n").notes[-1] == "stages and microbatches count from 1 in the text, from 0 here"


def test_a_rank_that_begins_with_microbatch_1_while_others_have_0_is_not_counted_from_one() -> None:
    assert ops(read("F0 F1 . B0 . B1\n. F1 B0 F2 B1 .\n"))[1] == "1F1 1B0 1F2 1B1"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("GPU 0 | F1 | F2 | | B1 | | B2 |\nGPU 1 | | F1 | B1 | F2 | B2 | |\n", "microbatches"),
        ("GPU 1 | F0 | F1 | | B0 | | B1 |\nGPU 2 | | F0 | B0 | F1 | B1 | |\n", "stages"),
    ],
)
def test_people_count_ranks_and_microbatches_each_in_their_own_way(text: str, what: str) -> None:
    listing = read(text)
    assert ops(listing) == TWO
    assert listing.notes[-1] == f"{what} count from 1 in the text, from 0 here"


def test_how_to_count_can_be_said() -> None:
    assert ops(read("F1 B1\n", one_based=False)) == ["0F1 0B1"]


def test_the_letter_b_is_found_out_as_in_files() -> None:
    assert ops(read("F0 B0 W0\n")) == ["0F0 0I0 0W0"]
    assert ops(read("F0 B0 W0\n", letter="full")) == ["0F0 0B0 0W0"]


# ---------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1, column 1: no row of ops found"),
        ("hello\nworld\n", "line 1, column 1: no row of ops found"),
        ("time |0 1 2\n", "line 1, column 1: no row of ops found"),
        ("F0 F1 X0 B0\n", "line 1, column 7: 'X0' is not an op"),
        ("r0: F0 F1\nr1: F0 f1\n", "line 2, column 8: 'f1' is not an op"),
        ("F0 F B0\n", "line 1, column 4: 'F': F needs a microbatch number"),
        ("F0 F999999999\n", "line 1, column 4: 'F999999999': stages go up to 99,999, microbatches to 9,999,999"),
        ("F0 9999999F1\n", "line 1, column 4: '9999999F1': stages go up to"),
        ("time |0  1\nrank 0 |F0 nonsense\n", "line 2, column 12: 'nonsense' is not an op"),
        (
            "time   |0 5\nrank 0 |FFFF....BBBB\n",
            "'FFFF....BBBB' has no microbatch numbers; print the grid without --compact",
        ),
        ("F0 0F1+1F0\n", "line 1, column 4: '0F1+1F0': an overlapped pair is one F and one B"),
        ("F0 0F1+1B0+1W1\n", "an overlapped pair has two ops, this has 3"),
        ("F0 \x1b[31mF1\n", r"line 1, column 4: control character '\x1b'"),
    ],
)
def test_bad_input_is_told_with_its_place(text: str, message: str) -> None:
    with pytest.raises(FormatError) as caught:
        read(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_grid_with_too_many_cells_is_refused() -> None:
    with pytest.raises(LimitError, match="more than 1,000,000 cells"):
        read("F0 " * 1_000_001)


@pytest.mark.parametrize("label", ["1.3/2", "5/0", "5/00", "1.", "/2"])
def test_a_time_that_is_no_number_is_no_label(label: str) -> None:
    listing = read(f"time   |0  {label:<5}\nrank 0 |F0 .  .  B0\n")
    assert ops(listing) == ["0F0 0B0"]
    assert listing.slots == ()
