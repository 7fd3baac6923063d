"""The layout of figures: everything at its place, to scale. Times and counts are worked out by hand, as in the grids."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from pptrace import simulate
from pptrace.errors import ParameterError
from pptrace.render.figure import FONT, MOST_WIDTH, figure
from pptrace.render.figure_parts import Figure, FigureOptions
from pptrace.render.figure_strips import CURVE, LANE
from pptrace.render.html import html_page
from pptrace.render.measure import LEAST_FONT, MARGIN, em_width, folded_to, name_size, number
from pptrace.render.numbers import value_texts
from pptrace.render.svg import svg_document
from pptrace.render.tikz import tikz_document
from pptrace.schedules.registry import names

if TYPE_CHECKING:
    from collections.abc import Callable

EVERYTHING = FigureOptions(lifetimes=True, curve=True, arrows=True, caption=True)


def drawn(name: str, ranks: int, microbatches: int, options: FigureOptions | None = None, **costs: object) -> Figure:
    return figure(simulate(name, num_ranks=ranks, num_microbatches=microbatches, **costs), options)


def times(found: Figure, *places: float) -> list[float]:
    """The times of some x, in ticks."""
    return [round((x - found.left) / found.per_tick, 6) for x in places]


def test_ops_are_drawn_to_scale():
    found = drawn("1f1b", 4, 4)
    row = found.rows[0]
    assert row.label == "stage 0"
    assert [box.text for box in row.boxes] == ["F0", "F1", "F2", "F3", "B0", "B1", "B2", "B3"]
    assert times(found, *(box.x for box in row.boxes)) == [0, 1, 2, 3, 7, 9, 11, 13]
    assert {round(box.width, 6) for row in found.rows for box in row.boxes} == {round(found.per_tick, 6)}
    assert times(found, found.right) == [14]


def test_the_time_axis_has_a_mark_at_every_unit_where_there_is_room():
    found = drawn("1f1b", 4, 4)
    assert [mark.text for mark in found.marks] == [str(time) for time in range(15)]
    assert times(found, *(mark.x for mark in found.marks)) == list(range(15))
    assert [mark.text for mark in drawn("gpipe", 8, 16).marks] == [str(time) for time in range(0, 47, 2)]


def test_times_that_are_no_whole_units():
    found = drawn("interleaved", 4, 8, num_chunks=2)
    assert found.picture.end == 38  # ticks of half a unit
    assert [mark.text for mark in found.marks] == [str(time) for time in range(20)]
    assert times(found, *(mark.x for mark in found.marks)) == list(range(0, 39, 2))


def test_an_overlapped_pair_is_two_boxes_above_one_another():
    found = drawn("dualpipev", 4, 10)
    pair = [box for box in found.rows[0].boxes if box.text in ("0F7", "7B3")]
    assert [(box.top, box.height) for box in pair] == [(0, 20), (20, 20)]
    assert pair[0].x == pair[1].x
    assert pair[0].width == pair[1].width


def test_messages_under_way():
    found = drawn("1f1b", 2, 1, comm=1)
    # F0 0-1, message 1-2, F0 2-3, B0 3-4, message 4-5, B0 5-6
    assert [times(found, x, x + width) for x, width in found.rows[0].flights] == [[4, 5]]
    assert drawn("1f1b", 2, 1).rows[0].flights == ()


def test_the_end_of_an_optimizer_step():
    found = drawn("1f1b", 4, 4, num_steps=2)
    assert [times(found, *row.bars) for row in found.rows] == [[14]] * 4
    assert [row.bars for row in drawn("1f1b", 4, 4).rows] == [()] * 4


def test_lifetimes_take_as_many_lanes_as_states_are_alive():
    found = drawn("1f1b", 4, 4, FigureOptions(lifetimes=True))
    assert [row.height / LANE for row in found.strips.lives] == [4, 3, 2, 1]
    assert [(bar.text, *times(found, bar.x, bar.x + bar.width)) for bar in found.strips.lives[0].bars] == [
        ("0", 0, 8),
        ("1", 1, 10),
        ("2", 2, 12),
        ("3", 3, 14),
    ]


def test_lifetimes_of_a_split_backward_shrink_at_the_end_of_i():
    found = drawn("zb-h1", 1, 1, FigureOptions(lifetimes=True))  # F 0-1, I 1-2, W 2-3
    (bar,) = found.strips.lives[0].bars
    assert times(found, bar.x, bar.shrinks, bar.x + bar.width) == [0, 2, 3]


def test_the_curve_is_what_is_held():
    found = drawn("1f1b", 4, 4, FigureOptions(curve=True))
    row = found.strips.curves[0]
    assert [text for _, _, text in row.numbers] == ["1", "2", "3", "4", "3", "2", "1"]
    assert [round(height / CURVE * 4) for _, _, height in row.steps] == [1, 2, 3, 4, 3, 2, 1]
    assert times(found, *(x for x, _, _ in row.steps)) == [0, 1, 2, 3, 8, 10, 12]
    assert [row.peak for row in found.strips.curves] == ["4 from t=3", "3 from t=3", "2 from t=3", "1 from t=3"]


def test_with_recomputation_the_inputs_have_a_curve_of_their_own():
    found = drawn("1f1b", 1, 1, FigureOptions(curve=True, lifetimes=True), recompute="full")  # F 0-1, R 1-2, B 2-3
    assert [line.text for line in found.strips.headings] == [
        "lifetimes of saved activations, by microbatch; in the colour of R: of inputs kept for recomputation",
        *("activations held", "peak", "inputs held for recomputation", "peak"),
    ]
    assert [row.peak for row in found.strips.curves] == ["1 from t=1", "1 from t=0"]
    assert [times(found, bar.x, bar.x + bar.width) for bar in found.strips.lives[0].bars] == [[0, 3], [1, 3]]


def test_an_arrow_for_every_output_that_crosses_ranks():
    found = drawn("1f1b", 4, 4, FigureOptions(arrows=True))
    assert len(found.arrows) == 2 * 3 * 4  # both ways over three links, four microbatches


def test_an_arrow_is_bold_where_its_rank_idles_until_it_arrives():
    found = drawn("1f1b", 2, 2, FigureOptions(arrows=True))
    # stage 0: F0 F1 .  B0 .  B1      B0 and B1 wait idle for stage 1
    # stage 1: .  F0 B0 F1 B1 .       F0 waits idle, F1 is there before B0 ends
    binding = sorted((*times(found, arrow.to_x - 3), arrow.to_y < arrow.y) for arrow in found.arrows if arrow.binding)
    assert binding == [(1, False), (3, True), (5, True)]
    assert len(found.arrows) == 4


def test_a_hole_has_neither_kind_nor_name():
    found = drawn("1f1b", 2, 2, FigureOptions(holes=frozenset({0, 3})))
    assert [(box.text, box.kind) for box in found.rows[0].boxes if box.position in (0, 3)] == [("?", None), ("?", None)]


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("write", [svg_document, tikz_document, html_page], ids=lambda write: write.__name__)
def test_a_figure_with_holes_tells_no_answer(name: str, write: Callable[..., str]):
    """Neither the figures that are asked for, in whatever words, nor what is held, for the browser's cursor."""
    report = simulate(name, num_ranks=4, num_microbatches=8)
    told = write(report, FigureOptions(caption=True))
    asked = write(report, FigureOptions(caption=True, holes=frozenset({0, 5})))
    for metric in (report.metrics[key] for key in ("bubble_over_elapsed", "bubble_over_ideal", "utilization")):
        (value,) = value_texts(metric, report.timeline.ticks_per_unit)
        assert value in told
        assert value not in asked
        assert metric.label in told
        assert metric.label not in asked
    assert "peak" in told
    assert "peak" not in asked.replace("peak_", "")
    assert not re.search(r'"counts":\[\d', asked)


def test_the_description_of_a_figure_with_holes_says_how_many():
    said = drawn("1f1b", 4, 4, FigureOptions(holes=frozenset({0, 3}))).description
    assert said.startswith(
        "A pipeline schedule on a time axis, one row for each of 4 stages, 2 ops hidden. Stage s on rank s;"
    )


def test_textbook_letters_in_every_word():
    found = drawn("interleaved", 4, 8, FigureOptions(names="textbook", caption=True), num_chunks=2)
    texts = [found.name, found.description, *(line.text for line in (*found.title, *found.subtitle, *found.caption))]
    texts += [place.sign.text for place in found.legend]
    assert re.findall(r"\bP\b|\bstage \d", " ".join(texts)) == []
    assert "stage s on rank s mod D" in " ".join(texts).replace("Stage", "stage")
    assert "1F1 is the forward of S1 of microbatch 1" in " ".join(texts)


def test_steps_that_run_into_one_another_are_explained():
    found = drawn("pipedream", 2, 2, num_steps=2)
    assert any("@1 is in optimizer step 1" in place.sign.text for place in found.legend)


def test_counting_from_one():
    found = drawn("1f1b", 2, 2, FigureOptions(one_based=True))
    assert [row.label for row in found.rows] == ["S1", "S2"]
    assert [box.text for box in found.rows[0].boxes] == ["F1", "F2", "B1", "B2"]


def test_a_window_and_some_ranks():
    found = drawn("1f1b", 4, 4, FigureOptions(window=(Fraction(3), Fraction(8)), only_ranks=(1, 2)))
    assert [row.label for row in found.rows] == ["stage 1", "stage 2"]
    assert [box.text for box in found.rows[0].boxes] == ["F2", "B0", "F3"]
    assert [mark.text for mark in found.marks] == ["3", "4", "5", "6", "7", "8"]


def test_a_width_is_kept_and_names_that_have_no_room_are_left_out():
    narrow = drawn("gpipe", 8, 16, FigureOptions(width=400))
    assert narrow.width == 400
    assert {box.size for row in narrow.rows for box in row.boxes} == {0}
    assert "names without room are left out" in [place.sign.text for place in narrow.legend]
    wide = drawn("gpipe", 8, 16, FigureOptions(width=3000))
    assert wide.width == 3000
    assert {box.size for row in wide.rows for box in row.boxes} == {FONT}


def test_pictures_without_a_width_have_room_for_every_name():
    for name in ("1f1b", "gpipe", "zb-h1"):
        sizes = {box.size for row in drawn(name, 8, 32).rows for box in row.boxes}
        assert min(sizes) >= LEAST_FONT


def test_the_widest_picture():
    found = drawn("1f1b", 64, 512)
    assert found.right - found.left <= MOST_WIDTH


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (FigureOptions(width=100), "--width 100: this figure needs at least 240 pixels"),
        (FigureOptions(theme="pink"), "--theme is one of auto, light, dark; got 'pink'"),
        (FigureOptions(only_ranks=(9,)), "--only-ranks names rank 9; ranks are 0..3"),
    ],
    ids=["width", "theme", "ranks"],
)
def test_what_cannot_be_drawn(options: FigureOptions, message: str):
    with pytest.raises(ParameterError) as refused:
        drawn("1f1b", 4, 4, options)
    assert str(refused.value) == message


@pytest.mark.parametrize("name", names())
def test_nothing_overlaps_and_nothing_leaves_the_page(name: str):
    """Boxes of a row, legend, title, caption, curves: by the estimates of measure.py, which are on the wide side."""
    found = drawn(name, 4, 8, EVERYTHING, comm="1/2")
    for row in found.rows:
        for lane in (0.0, row.height / 2):
            boxes = sorted((box.x, box.x + box.width) for box in row.boxes if box.top <= lane < box.top + box.height)
            assert all(end <= start + 0.001 for (_, end), (start, _) in pairwise(boxes))
        assert all(em_width(box.text) * box.size <= box.width for box in row.boxes)
        assert em_width(row.label) * FONT <= found.left - MARGIN
    assert all(upper.top + upper.height < lower.top for upper, lower in pairwise(found.rows))
    for place in found.legend:
        assert place.x + em_width(place.sign.text) * FONT <= found.width
    for line in (*found.subtitle, *found.caption):
        assert line.x + em_width(line.text) * FONT <= found.width
    for curve in found.strips.curves:
        assert found.right + 8 + em_width(curve.peak) * FONT <= found.width
        numbers = [(x - em_width(text) * 5, x + em_width(text) * 5) for x, _, text in curve.numbers]  # 10 pixels high
        assert all(end < start for (_, end), (start, _) in pairwise(numbers))
    assert all(mark.x <= found.right + 0.001 for mark in found.marks)
    assert found.caption[-1].y < found.height


def test_the_caption_states_assumptions_and_denominators():
    words = " ".join(line.text for line in drawn("1f1b", 4, 4, FigureOptions(caption=True)).caption)
    assert "messages take no time" in words
    assert (
        "bubble / elapsed (elapsed idle fraction): 6/14 = 0.429 (idle / (ranks x elapsed); denominator: elapsed)."
        in words
    )
    assert "bubble / ideal (overhead ratio): 6/8 = 0.750 (idle / busy; denominator: ideal)." in words
    assert "peak activations: 4 3 2 1" in words
    assert "Not modelled: memory pressure" in words


def test_the_description_says_what_is_seen():
    said = drawn("1f1b", 4, 4).description
    assert said.startswith("A pipeline schedule on a time axis, one row for each of 4 stages.")
    assert "elapsed 14" in said
    assert "peak activations 4 3 2 1" in said


def test_lengths_are_written_short():
    assert [number(value) for value in (3.0, 3.14159, 0.004, -0.001, 100.0, 2.5)] == [
        "3",
        "3.14",
        "0",
        "0",
        "100",
        "2.5",
    ]


def test_text_is_folded_by_its_width():
    assert folded_to("one two three", 1000, 10) == ["one two three"]
    assert folded_to("one two three", 45, 10) == ["one two", "three"]
    assert "".join(folded_to("x" * 100, 45, 10)) == "x" * 100


def test_a_name_shrinks_before_it_is_left_out():
    assert name_size("F0", 40, 28, 12.0) == 12
    assert name_size("F10", 18, 28, 12.0) == 7.5  # 1.92 em in 15 pixels
    assert name_size("F10", 8, 28, 12.0) == 0
