"""Slips of the pen: a cell that cannot stand where it stands, and the op that its rank then lacks, are one finding."""

from __future__ import annotations

import pytest
from faults import only, told

TWO_RANKS = """
    0F0,0F1,0B0,0F2,0B1,0F3,0B2,0B3
    1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3
"""
WITH_MESSAGES = """
    0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1
    1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1
"""


@pytest.mark.parametrize(
    ("old", "new", "code", "sentence"),
    [
        ("1B1", "1X3", "unknown-op", "'1X3' is not an op; rank 1 has no 1B1"),
        ("1B1", "1b1", "unknown-op", "'1b1' is not an op; rank 1 has no 1B1"),
        ("1B1", "B1", "unknown-op", "'B1' is not an op; rank 1 has no 1B1"),
        ("1B1", "0B1", "stage-on-two-ranks", "rank 1 runs 0B1, but stage 0 lives on rank 0; rank 1 has no 1B1"),
        ("0F3", "9F3", "unknown-stage", "9F3: stage 9 is not one of 0..1; rank 0 has no 0F3"),
    ],
)
def test_a_cell_that_stands_for_a_missing_op_is_one_finding(old, new, code, sentence):
    finding = only(TWO_RANKS.replace(old, new))
    assert (finding.code, finding.sentence, finding.remedy) == (code, sentence, f"this one is probably {old}")
    assert (finding.place.rank, finding.place.line) == (int(old[0]), int(old[0]) + 1)


def test_the_stage_of_a_message_that_is_another_ranks():
    finding = only(WITH_MESSAGES.replace("0SEND_F1", "1SEND_F1"))
    assert (finding.code, finding.remedy) == ("stage-on-two-ranks", "this one is probably 0SEND_F1")
    finding = only(WITH_MESSAGES.replace("1SEND_B1", "0RECV_B1"))
    assert finding.sentence == "rank 1 runs 0RECV_B1, but stage 0 lives on rank 0; rank 1 has no 1SEND_B1"


def test_two_slips_of_one_rank_stand_for_the_ops_that_they_are_most_like():
    assert told(TWO_RANKS.replace("1B1", "1b1").replace("1F3", "1G3")) == [
        ("unknown-op", "'1b1' is not an op; rank 1 has no 1B1"),
        ("unknown-op", "'1G3' is not an op; rank 1 has no 1F3"),
    ]


def test_a_slip_where_nothing_is_missing_is_just_no_op():
    assert told(TWO_RANKS.replace("1B1", "1B1,?")) == [("unknown-op", "'?' is not an op")]


def test_an_op_put_into_another_ranks_row_is_not_missed_as_well():
    text = "0F0,0F1,0B0,0B1,1B1\n1F0,1B0,1F1"
    assert told(text) == [("stage-on-two-ranks", "rank 0 runs 1B1, but stage 1 lives on rank 1")]


def test_stages_and_microbatches_counted_from_one_are_one_finding():
    text = "1F1,1F2,1B1,1B2\n2F1,2B1,2F2,2B2"
    assert told(text) == [
        (
            "misnumbered",
            "the stages are numbered 1..2 and the microbatches 1..2; here they are numbered 0..1 and 0..1",
        )
    ]


def test_a_rank_that_counts_forwards_and_backwards_from_one_is_told_once():
    text = TWO_RANKS.replace("1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3", "1F1,1B1,1F2,1B2,1F3,1B3,1F4,1B4")
    assert told(text) == [
        ("misnumbered", "rank 1 numbers its forwards and backwards 1..4; microbatches are numbered 0..3")
    ]
