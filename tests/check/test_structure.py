"""Work lost, doubled, mislabelled, misplaced: one fault, one finding of the right kind, with its place."""

from __future__ import annotations

import pytest
from faults import codes, listing, only, report, told

from pptrace.formats.listings import listing_of
from pptrace.schedules.registry import Params, build
from pptrace.schedules.updates import with_updates

TWO_RANKS = """
    0F0,0F1,0B0,0F2,0B1,0F3,0B2,0B3
    1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3
"""


def without(text, *cells):
    """The schedule without the first of each of these cells."""
    lines = [line.strip().split(",") for line in text.strip().splitlines()]
    for cell in cells:
        next(line for line in lines if cell in line).remove(cell)
    return "\n".join(",".join(line) for line in lines)


def test_a_right_schedule_has_no_findings():
    assert codes(TWO_RANKS) == []
    assert report(TWO_RANKS).sizes == "2 ranks, 2 stages, 4 microbatches, 16 ops"


@pytest.mark.parametrize(
    ("cell", "code", "sentence"),
    [
        ("0F2", "missing-forward", "rank 0 never runs 0F2; 1F2 of rank 1 waits for 0F2 for ever"),
        ("0B3", "missing-backward", "rank 0 never runs 0B3; 1 activation is never released"),
        (
            "1B1",
            "missing-backward",
            "rank 1 never runs 1B1; 1 activation is never released; 0B1 of rank 0 waits for 1B1 for ever",
        ),
    ],
)
def test_a_missing_op(cell, code, sentence):
    finding = only(without(TWO_RANKS, cell))
    assert (finding.code, finding.sentence, finding.ops) == (code, sentence, (cell,))
    assert (finding.place.rank, finding.place.line) == (int(cell[0]), int(cell[0]) + 1)


def test_three_cooldown_backwards_cut_off():
    """cases.md: 1f1b P4 M8, the 3 cooldown B of rank 0 cut off: named, and three activations alive at the end."""
    found = listing_of(build("1f1b", Params(4, 8)))
    cut = found._replace(rows=(found.rows[0][:-3], *found.rows[1:]))
    finding = only(cut)
    assert (finding.code, finding.place.rank, finding.ops) == ("lost-cooldown", 0, ("0B5", "0B6", "0B7"))
    assert "3 activations are alive at the end" in finding.sentence


def test_a_lost_weight_gradient_does_not_make_its_backward_full():
    """cases.md: a zero-bubble file with the letter B and one W dropped."""
    text = """
        0F0,0F1,0B0,0W0,0B1,0W1
        1F0,1B0,1F1,1B1,1W0
    """
    finding = only(text)
    assert (finding.code, finding.ops, finding.place.rank) == ("lost-weight-gradient", ("1W1",), 1)


def test_a_weight_gradient_without_its_input_gradient():
    finding = only("0F0,0F1,0I0,0W0,0W1\n1F0,1I0,1W0,1F1,1I1,1W1")
    assert (finding.code, finding.ops) == ("weight-gradient-alone", ("0I1",))


def test_full_and_split_backward_of_one_microbatch():
    finding = only("0F0,0F1,0B0,0I1,0W1,0I0,0W0\n1F0,1I0,1W0,1F1,1I1,1W1")
    assert (finding.code, finding.ops) == ("full-and-split-backward", ("0B0",))


def test_a_doubled_op_and_where_both_stand():
    finding = only(TWO_RANKS.replace("0B0,0F2", "0B0,0B0,0F2"))
    assert (finding.code, finding.place.rank, finding.place.position, finding.place.line) == ("doubled-op", 0, 3, 1)
    assert finding.sentence == "0B0 occurs twice: here and at position 2 of rank 0"


def test_a_number_that_stands_for_another():
    finding = only(TWO_RANKS.replace("0F2", "0F1"))
    assert finding.code == "misnumbered"
    assert finding.sentence == "0F1 occurs twice and 0F2 never"
    assert finding.place.position == 3


def test_a_number_out_of_range_that_stands_for_another():
    finding = only(TWO_RANKS.replace("0F2", "0F9"))
    assert (finding.code, finding.sentence) == ("misnumbered", "0F9 is out of range (0..3) and 0F2 never occurs")


def test_every_microbatch_counted_from_one():
    finding = only("0F1,0F2,0B1,0B2\n1F1,1B1,1F2,1B2")
    assert finding.sentence == "every rank numbers its microbatches 1..2; they are numbered 0..1"


def test_a_warmup_of_three_although_there_are_two_microbatches():
    """cases.md: a warm-up of P-1-r F although M=2 < P: the ids >= M are named, with place and legal range."""
    text = """
        0F0,0F1,0F2,0B0,0B1
        1F0,1F1,1B0,1B1
        2F0,2B0,2F1,2B1
        3F0,3B0,3F1,3B1
    """
    finding = only(text)
    assert (finding.code, finding.ops, finding.place.rank, finding.place.position) == (
        "microbatch-range",
        ("0F2",),
        0,
        2,
    )
    assert finding.sentence == "0F2: microbatch 2 is not one of 0..1"


def test_a_microbatch_below_zero_is_named_with_its_place_and_the_legal_range():
    finding = only("0F0,0F1,0B0,0B1,0F-1\n1F0,1B0,1F1,1B1")
    assert (finding.code, finding.place.line, finding.place.position) == ("microbatch-range", 1, 4)
    assert finding.sentence == "0F-1: microbatch -1 is not one of 0..1"


def test_a_cell_that_is_no_op_is_named_and_cannot_inject_escapes():
    assert told("0F0,0G0,0B0") == [("unknown-op", "'0G0' is not an op")]
    found = listing("0F0,0G0,0B0")
    strange = found.rows[0][1]._replace(text="\x1b[31m" + "x" * 100)
    (finding,) = report(found._replace(rows=((found.rows[0][0], strange, found.rows[0][2]),))).findings
    assert "\x1b" not in finding.sentence
    assert len(finding.sentence) < 80


def test_backward_before_forward():
    finding = only("0F0,0B1,0F1,0B0\n1F0,1B0,1F1,1B1")
    assert (finding.code, finding.sentence) == ("backward-before-forward", "0B1 comes before 0F1, which it needs")


def test_weight_gradient_before_its_input_gradient():
    assert codes("0F0,0W0,0I0\n1F0,1I0,1W0") == ["weight-gradient-first"]


def test_a_stage_on_two_ranks():
    finding = only("0F0,0F1,0B0,0B1,1F1\n1F0,1B0,1B1")
    assert finding.code == "stage-on-two-ranks"
    assert finding.sentence == "rank 0 runs 1F1, but stage 1 lives on rank 1"


def test_a_stage_that_nobody_runs():
    assert ("missing-stage", "no rank runs stage 1; stage 2 waits for stage 1 for ever") in told(
        "0F0,0B0,0F1,0B1\n2F0,2B0,2F1,2B1"
    )


def test_a_stage_number_far_beyond_the_others():
    assert codes("0F0,0B0,0F1,0B1,999F0\n1F0,1B0,1F1,1B1") == ["unknown-stage"]


def test_a_stage_that_runs_fewer_microbatches():
    finding = only(without(TWO_RANKS, "1F3", "1B3"))
    assert finding.code == "microbatch-count"
    assert finding.sentence == "stage 1 runs 3 microbatches, the schedule has 4: 1F3 and what follows never come"


def test_another_number_of_microbatches_than_was_asked_for():
    assert told(TWO_RANKS, num_microbatches=6) == [
        ("microbatch-count", "the schedule runs 4 microbatches, 6 were asked for")
    ]


def test_reduce_before_the_last_backward():
    finding = only("0F0,0F1,0B0,0REDUCE_GRAD,0B1\n1F0,1B0,1F1,1B1,1REDUCE_GRAD")
    assert (finding.code, finding.ops) == ("early-update", ("0REDUCE_GRAD", "0B1"))


def test_a_stage_without_its_reduction():
    assert told("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1,1REDUCE_GRAD") == [
        ("missing-update", "there is no 0REDUCE_GRAD, though other stages have theirs")
    ]


def test_step_before_the_last_backward_and_forward_before_step():
    """1f1b (flush): no F of the next step before STEP."""
    found = listing_of(with_updates(build("1f1b", Params(2, 2)), 2))
    assert codes(found) == []
    row = list(found.rows[0])
    texts = [cell.text for cell in row]
    early, late = texts.index("0F0@1"), texts.index("0STEP")
    row[early], row[late] = row[late], row[early]
    (finding,) = report(found._replace(rows=(tuple(row), found.rows[1]))).findings
    assert (finding.code, finding.ops) == ("weight-versions", ("0F0@1", "0STEP"))


def test_a_pair_that_waits_for_itself():
    finding = only("(0F0;0B0)OVERLAP_F_B,0F1,0B1\n1F0,1B0,1F1,1B1")
    assert finding.code == "odd-pair"


def test_an_idle_rank_is_a_warning():
    found = report("0F0,0B0\n\n1F0,1B0")
    assert [(f.code, f.severity) for f in found.findings] == [("idle-rank", "warning")]
    assert (found.failed(), found.failed(strict=True)) == (False, True)


def test_nothing_to_run():
    nothing = listing("0F0")._replace(rows=((), ()))
    assert (codes(nothing), report(nothing).verdict.runs) == (["empty-schedule"], None)


def test_many_findings_of_a_kind_are_counted():
    text = "0F0,0B0," + ",".join(f"0F0x{n}" for n in range(50))
    found = report(text).findings
    assert len(found) == 21
    assert found[-1].sentence.endswith("(and 29 more of this kind)")
