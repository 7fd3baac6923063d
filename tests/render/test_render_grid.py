"""The grid as text. Every picture is worked out by hand from the order and the durations."""

from __future__ import annotations

from fractions import Fraction

import pytest
from pictures import SPLIT, costs, picture, report, report_of, section

from pptrace.errors import ParameterError
from pptrace.model import Op, OpKind, Placement, Schedule


def test_one_f_one_b_of_four_stages_is_drawn_as_designed():
    assert section(report("1f1b", 4, 4), "grid") == picture("""
        time    |0  1  2  3  4  5  6  7  8  9  10 11 12 13
        stage 0 |F0 F1 F2 F3 .  .  .  B0 .  B1 .  B2 .  B3
        stage 1 |.  F0 F1 F2 .  .  B0 F3 B1 .  B2 .  B3 .
        stage 2 |.  .  F0 F1 .  B0 F2 B1 F3 B2 .  B3 .  .
        stage 3 |.  .  .  F0 B0 F1 B1 F2 B2 F3 B3 .  .  .
    """)


def test_gpipe_of_four_stages_takes_the_same_time_in_another_order():
    assert section(report("gpipe", 4, 4), "grid") == picture("""
        time    |0  1  2  3  4  5  6  7  8  9  10 11 12 13
        stage 0 |F0 F1 F2 F3 .  .  .  .  .  .  B0 B1 B2 B3
        stage 1 |.  F0 F1 F2 F3 .  .  .  .  B0 B1 B2 B3 .
        stage 2 |.  .  F0 F1 F2 F3 .  .  B0 B1 B2 B3 .  .
        stage 3 |.  .  .  F0 F1 F2 F3 B0 B1 B2 B3 .  .  .
    """)


def test_the_two_stage_walk_through():
    assert section(report("1f1b", 2, 4), "grid") == picture("""
        time    |0  1  2  3  4  5  6  7  8  9
        stage 0 |F0 F1 .  B0 F2 B1 F3 B2 .  B3
        stage 1 |.  F0 B0 F1 B1 F2 B2 F3 B3 .
    """)


def test_a_backward_of_two_columns_is_drawn_to_its_end():
    assert section(report("1f1b", 2, 2, SPLIT), "grid") == picture("""
        time    |0  1  2  3  4  5  6  7  8
        stage 0 |F0 F1 .  .  B0--- .  B1---
        stage 1 |.  F0 B0--- F1 B1--- .  .
    """)


def test_durations_of_a_half_are_to_scale_and_whole_times_are_written():
    found = report("1f1b", 2, 2, costs(1, Fraction(3, 2)))
    assert section(found, "grid") == picture("""
        time    |0   1   2   3   4   5   6   7
        stage 0 |F0- F1- . . . B0--- . . B1---
        stage 1 |. . F0- B0--- F1- B1--- . . .
    """)
    assert "one column = 0.5" in section(found, "legend")


def test_a_rank_that_waits_for_a_message_under_way_shows_it():
    found = report("1f1b", 2, 1, costs(1, 1, c=1))
    assert section(found, "grid") == picture("""
        time    |0  1  2  3  4  5
        stage 0 |F0 .  .  .  ~  B0
        stage 1 |.  ~  F0 B0 .  .
    """)
    assert "~ idle, its message is under way" in section(found, "legend")


def test_a_bar_stands_where_an_optimizer_step_ends():
    found = report("1f1b", 2, 1, steps=2)
    assert section(found, "grid") == picture("""
        time    |0  1  2  3  4  5  6  7
        stage 0 |F0 .  .  B0|F0 .  .  B0
        stage 1 |.  F0 B0 . |.  F0 B0 .
    """)
    assert "| end of an optimizer step" in section(found, "legend")


def test_updates_are_drawn_where_they_take_time():
    cost = costs(1, 1, reduce=Fraction(1), step_time=Fraction(2))
    assert section(report("1f1b", 1, 1, cost), "grid") == picture("""
        time    |0  1  2  3  4
        stage 0 |F0 B0 G  S----
    """)
    assert "S optimizer step (STEP)" in section(report("1f1b", 1, 1, cost), "legend")


def test_a_split_backward_is_two_cells():
    assert section(report("zb-h1", 2, 2, SPLIT), "grid") == picture("""
        time    |0  1  2  3  4  5  6
        stage 0 |F0 F1 .  I0 W0 I1 W1
        stage 1 |.  F0 I0 F1 I1 W0 W1
    """)


def test_an_overlapped_pair_is_one_joined_cell():
    order = [Op(0, OpKind.F, 0), Op(0, OpKind.F, 1), Op(0, OpKind.B, 0), Op(0, OpKind.B, 1)]
    schedule = Schedule.from_ops("pair", Placement.loop(1), 2, [order], pairs=[(0, 1)])
    assert section(report_of(schedule, SPLIT), "grid") == picture("""
        time    |0  1  2  3  4  5
        stage 0 |F0 F1+B0--- B1---
    """)
    assert section(report_of(schedule, SPLIT._replace(overlap="split")), "grid") == picture("""
        time    |0  1  2  3  4  5
        stage 0 |F0 F1 B0--- B1---
    """)


def test_chunks_are_told_apart_by_their_stage():
    # v=1/2 op: f=b=1 per rank are ops of 1/2; one microbatch goes 0 1 2 3 and back over two ranks.
    assert section(report("interleaved", 2, 1, num_chunks=2), "grid") == picture("""
        time   |0       1       2       3
        rank 0 |0F0 .   2F0 .   .   2B0 .   0B0
        rank 1 |.   1F0 .   3F0 3B0 .   1B0 .
    """)


def two_way() -> Schedule:
    """Two ranks, two microbatches: 0 goes down, 1 goes up; each rank runs its own direction's forward first."""
    return Schedule.from_ops(
        "two-way",
        Placement.two_way(2),
        2,
        [
            [Op.parse(text) for text in ("0F0", "1F1", "1B1", "0B0")],
            [Op.parse(text) for text in ("0F1", "1F0", "1B0", "0B1")],
        ],
    )


def test_the_two_directions_are_told_apart():
    found = report_of(two_way())
    assert section(found, "grid") == picture("""
        time   |0    1    2    3
        rank 0 |0F0  1F1^ 1B1^ 0B0
        rank 1 |0F1^ 1F0  1B0  0B1^
    """)
    assert "^ on the copy that goes up" in section(found, "legend")


def test_a_compact_picture_has_one_letter_a_column():
    assert section(report("1f1b", 2, 2, SPLIT), "grid", compact=True) == picture("""
        time    |0 2 4 6 8
        stage 0 |FF..B-.B-
        stage 1 |.FB-FB-..
    """)


def test_small_letters_are_every_other_chunk_or_the_copy_that_goes_up():
    assert section(report("interleaved", 2, 1, num_chunks=2), "grid", compact=True) == picture("""
        time   |0 1 2 3
        rank 0 |F.f..b.B
        rank 1 |.F.fb.B.
    """)
    assert section(report_of(two_way()), "grid", compact=True).splitlines()[1:] == ["rank 0 |FfbB", "rank 1 |fFBb"]


def test_a_compact_picture_of_two_steps_has_a_column_for_the_bar():
    assert section(report("1f1b", 2, 1, steps=2), "grid", compact=True).splitlines()[1:] == [
        "stage 0 |F..B|F..B",
        "stage 1 |.FB.|.FB.",
    ]


def test_counted_from_one():
    found = report("1f1b", 2, 2)
    assert section(found, "grid", one_based=True) == picture("""
        time |0  1  2  3  4  5
        S1   |F1 F2 .  B1 .  B2
        S2   |.  F1 B1 F2 B2 .
    """)
    assert "counted from 1" in section(found, "legend", one_based=True)


def test_a_window_cuts_ops_at_its_edges():
    assert section(report("1f1b", 2, 2, SPLIT), "grid", window=(Fraction(3), Fraction(6))) == picture("""
        time    |3  4  5
        stage 0 |.  B0---
        stage 1 |B0 F1 B1
    """)


def test_an_open_window_and_chosen_ranks():
    assert section(report("1f1b", 4, 4), "grid", window=(Fraction(10), None), only_ranks=(0, 3)) == picture("""
        time    |10 11 12 13
        stage 0 |.  B2 .  B3
        stage 3 |B3 .  .  .
    """)


def test_a_window_beside_the_timeline_is_refused_with_its_extent():
    with pytest.raises(ParameterError, match="the timeline runs from 0 to 14"):
        section(report("1f1b", 4, 4), "grid", window=(Fraction(14), Fraction(20)))


def test_a_rank_that_is_not_there_is_refused():
    with pytest.raises(ParameterError, match=r"names rank 4; ranks are 0\.\.3"):
        section(report("1f1b", 4, 4), "grid", only_ranks=(4,))


def test_a_wide_grid_is_cut_into_panels_that_repeat_labels_and_times():
    # 9 characters of label and 12 of columns: four columns of three, the last blank left out.
    assert section(report("1f1b", 2, 4), "grid", width=20) == picture("""
        time    |0  1  2  3
        stage 0 |F0 F1 .  B0
        stage 1 |.  F0 B0 F1

        time    |4  5  6  7
        stage 0 |F2 B1 F3 B2
        stage 1 |B1 F2 B2 F3

        time    |8  9
        stage 0 |.  B3
        stage 1 |B3 .
    """)


def test_an_op_that_runs_over_a_panel_s_edge_goes_on_in_the_next():
    assert section(report("1f1b", 1, 3, SPLIT), "grid", width=22) == picture("""
        time    |0  1  2  3
        stage 0 |F0 B0--- F1

        time    |4  5  6  7
        stage 0 |B1--- F2 B2-

        time    |8
        stage 0 |--
    """)


def test_without_a_width_nothing_is_folded():
    lines = section(report("1f1b", 2, 200), "grid").splitlines()
    assert len(lines) == 3
    assert len(lines[1]) == 9 + 402 * 5 - 1


def test_the_grid_is_plain_ascii():
    assert section(report_of(two_way()), "grid").isascii()
    assert section(report("1f1b", 4, 8, costs(1, 2, c=Fraction(1, 3))), "grid").isascii()
