"""Files of which no schedule can be made are run as they stand: doubled ops, ops on the wrong rank, numbers that are not there,
reductions that come too early."""

import pytest

from pptrace.errors import LimitError, ParameterError, ScheduleError
from pptrace.formats import torch_csv
from pptrace.listing import Cell, Listing
from pptrace.model import Op, OpKind
from pptrace.proof.faults import LateGradient, MissingReduction, RepeatedOp, StrayOp
from pptrace.proof.prove import prove
from pptrace.proof.written import as_written
from pptrace.schedules.registry import Params, build

ROWS = [[str(op) for op in build("1f1b", Params(4, 8)).order(rank)] for rank in range(4)]


def listing(rows):
    return torch_csv.read("\r\n".join(",".join(row) for row in rows).encode())


def changed(change):
    rows = [list(row) for row in ROWS]
    change(rows)
    return listing(rows)


def proof_of(rows, **options):
    return prove(as_written(listing(rows), **options))


def kinds(proof):
    return [type(fault) for fault in proof.faults]


def test_a_right_file_is_proved_as_it_stands_too():
    written = as_written(listing(ROWS))
    assert not written.needs_its_order
    proof = prove(written)
    assert proof.proved
    assert proof.refused == ""


def test_a_doubled_forward_is_named_and_the_numbers_are_those_of_the_unsplit_step():
    proof = prove(as_written(changed(lambda rows: rows[0].insert(1, "0F0")), refused="0F0 occurs twice"))
    assert [str(fault) for fault in proof.faults] == ["0F0 (op 1 of rank 0) runs a second time"]
    assert proof.comparison.equal
    assert not proof.proved


def test_a_backward_that_stands_in_the_place_of_another():
    """2B2 twice, 2B3 never: what follows from it comes after it in the list of faults."""
    proof = prove(as_written(changed(lambda rows: rows[2].__setitem__(rows[2].index("2B3"), "2B2"))))
    assert kinds(proof)[0] is RepeatedOp
    assert str(proof.faults[0]) == "2B2 (op 8 of rank 2) runs a second time"
    assert proof.sentence() == ("outputs and losses equal, gradients of stages 0 1 2 incomplete: microbatch 3 missing")


def test_a_gradient_that_is_added_twice_is_counted_twice():
    """On one stage the activation is there again after a second forward, so that the second backward computes."""
    proof = proof_of([["0F0", "0B0", "0F0", "0B0", "0F1", "0B1"]])
    assert kinds(proof) == [RepeatedOp, RepeatedOp]
    assert proof.sentence() == "outputs and losses equal, gradients of stage 0 wrong: microbatch 0 counted twice"


def test_an_op_on_a_rank_that_does_not_hold_its_stage():
    def to_rank_2(rows):
        rows[1].remove("1F3")
        rows[2].insert(5, "1F3")

    proof = prove(as_written(changed(to_rank_2)))
    assert str(proof.faults[0]) == "1F3 (op 5 of rank 2) runs on rank 2, but stage 1 is on rank 1"
    assert proof.sentence() == (
        "outputs and losses incomplete: microbatch 3 missing, gradients of stages 0 1 2 3 incomplete: microbatch 3 missing"
    )


def test_of_two_copies_the_message_names_the_microbatch():
    schedule = build("dualpipe", Params(2, 4))
    rows = [[str(op) for op in schedule.order(rank)] for rank in range(2)]
    rows[0].remove("0F0")
    rows[1].insert(0, "0F0")
    proof = proof_of(rows)
    assert str(proof.faults[0]).endswith("runs on rank 1, but stage 0 is on rank 0 for microbatch 0")


def test_the_count_of_microbatches_is_what_most_stages_say():
    """One forward numbered 8: not nine microbatches of which every stage has lost one."""
    proof = prove(as_written(changed(lambda rows: rows[3].__setitem__(rows[3].index("3F7"), "3F8"))))
    assert str(proof.faults[0]) == (
        "3F8 (op 14 of rank 3) is of a microbatch that is not there; there are 8, counted from 0"
    )
    assert proof.comparison.outputs.missing == ((0, 7),)


def test_the_count_of_microbatches_can_be_said():
    proof = proof_of(ROWS, num_microbatches=9)
    assert proof.faults == ()
    assert proof.comparison.outputs.missing == ((0, 8),)
    assert proof.sentence().endswith("gradients of stages 0 1 2 3 incomplete: microbatch 8 missing")


def test_a_reduction_before_the_last_backward_loses_it():
    proof = proof_of([["0F0", "0F1", "0B0", "0REDUCE_GRAD", "0B1"]])
    assert kinds(proof) == [LateGradient]
    assert proof.sentence() == (
        "outputs and losses equal, gradients of stage 0 incomplete: microbatch 1 came after the update"
    )
    assert proof_of([["0F0", "0F1", "0B0", "0B1", "0REDUCE_GRAD"]]).proved


def test_where_one_stage_reduces_all_have_to():
    proof = proof_of([["0F0", "0B0", "0REDUCE_GRAD"], ["1F0", "1B0"]])
    assert kinds(proof) == [MissingReduction]
    assert str(proof.faults[0]).startswith("1STEP (at the end) steps before the gradient of stage 1 was reduced")


def test_a_message_that_has_nowhere_to_go():
    proof = proof_of([["0F0", "0SEND_F0", "0B0"]])
    assert kinds(proof) == [StrayOp]
    assert str(proof.faults[0]) == "0SEND_F0 (op 1 of rank 0) has no stage to send to"


def test_a_message_between_stages_of_one_rank():
    rows = [["0F0", "0SEND_F0", "1F0", "1B0", "0B0"]]
    proof = proof_of(rows)
    assert str(proof.faults[0]).endswith("is a message between stages of one rank, which hand over without any")
    assert proof.comparison.equal


def test_what_cannot_be_run_at_all_is_an_error():
    with pytest.raises(ScheduleError, match="there is no forward"):
        as_written(Listing(()))
    with pytest.raises(ParameterError, match="-M 1000 is far more than the 2 ops of the file run"):
        proof_of([["0F0", "0B0"]], num_microbatches=1000)
    far = Op(0, OpKind.F, 0, 10**9)
    with pytest.raises(LimitError, match="1000000001 steps"):
        as_written(Listing(((Cell((far,), str(far)),),)))


def test_the_counts_are_of_what_ran():
    counts = {count.kind: (count.ran, count.wanted) for count in proof_of([["0F0", "0F1", "0B0"]]).comparison.counts}
    assert counts[OpKind.F] == (2, 2)
    assert counts[OpKind.B] == (1, 2)
