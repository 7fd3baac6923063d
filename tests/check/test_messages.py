"""Deadlock and messages: who waits for whom, receives that are missing, late or of another microbatch, and tags."""

from __future__ import annotations

import pytest
from faults import codes, only, report, told

from pptrace.formats.listings import listing_of
from pptrace.formats.lowering import lower
from pptrace.schedules.registry import Params, build

CROSSED = """
    0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1
    1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1
"""
"""After F1 and B0 each rank sends, and then receives what the other sends."""


def edited(old, new, text=CROSSED):
    assert text.count(old) == 1
    return text.replace(old, new)


def test_two_ranks_that_send_and_then_receive():
    """cases.md: rendezvous: stuck, the cycle printed; batched or buffered: fine."""
    finding = only(CROSSED, sends="rendezvous")
    assert finding.code == "message-deadlock"
    assert finding.next_ops == ((0, "0SEND_F1"), (1, "1SEND_B0"))
    assert finding.waits == (
        "rank 0: 0SEND_F1 waits for 1RECV_F1 of rank 1, which comes after 1SEND_B0",
        "rank 1: 1SEND_B0 waits for 0RECV_B0 of rank 0, which comes after 0SEND_F1",
    )
    assert "batch" in finding.remedy
    assert codes(CROSSED, sends="rendezvous", grouping="batched") == []
    assert codes(CROSSED) == []


@pytest.mark.parametrize("source", [build("1f1b", Params(2, 4)), listing_of(build("1f1b", Params(2, 4)))])
def test_a_name_and_a_compute_file_get_inline_messages(source):
    """cases.md: 1f1b P2 M4, every message on its own, rendezvous: stuck at the send of F1 and the send of B0."""
    assert only(source, sends="rendezvous").next_ops == ((0, "0SEND_F1"), (1, "1SEND_B0"))
    assert codes(source, sends="rendezvous", grouping="batched") == []
    assert any("inline" in sentence for sentence in report(source).verdict.assumptions)


def test_the_verdict_names_its_assumptions_and_no_more():
    verdict = report(CROSSED, grouping="batched", tags=False).verdict
    assert verdict.sentence == "deadlock-free under these assumptions"
    assert verdict.assumptions == (
        "sends are buffered: a send never waits",
        "adjacent sends and receives of a rank are posted together and end together (batched)",
        "messages carry no tags: the k-th receive takes the k-th message sent",
    )


def test_groups_of_four_on_five_microbatches_wait_in_a_circle():
    """cases.md: interleaved P4 M5 v3 --group 4: deadlock, the cycle named, the remedy given."""
    found = report(build("interleaved", Params(4, 5, 3, 4)))
    (finding,) = found.findings
    assert finding.code == "order-deadlock"
    ranks = [wait.split(":")[0] for wait in finding.waits]
    assert len(ranks) == len(set(ranks)) >= 2
    assert finding.remedy == "groups of 4 do not fit 5 microbatches; leave --group out"
    assert found.verdict.runs is False


def test_an_order_that_waits_for_itself():
    """Stage 1 and 2 share a rank, and stage 2 comes first."""
    finding = only("0F0,0B0\n2F0,1F0,2B0,1B0")
    assert (finding.code, finding.waits) == ("order-deadlock", ("rank 1: 2F0 waits for 1F0, later in the same list",))


def test_stage_two_of_1f1b_never_receives_f1():
    """cases.md: "2F1 runs without a RECV_F1"."""
    found = lower(listing_of(build("1f1b", Params(4, 8))), "inline")
    row = tuple(cell for cell in found.rows[2] if cell.text != "2RECV_F1")
    finding = only(found._replace(rows=(*found.rows[:2], row, found.rows[3])))
    assert finding.code == "missing-receive"
    assert finding.sentence.startswith("2F1 runs without a RECV_F1")
    assert finding.place.rank == 2


def test_a_lifo_gradient_taken_in_fifo_order():
    """cases.md: looped-bfs whose stage 0 runs B 0,1,2,3 while the gradients come 3,2,1,0."""
    text = """
        0F0,0F1,0F2,0F3,0B0,0B1,0B2,0B3
        1F0,1F1,1F2,1F3,1B3,1B2,1B1,1B0
    """
    assert codes(text) == []
    finding = only(text, tags=False)
    assert finding.code == "message-order"
    assert finding.sentence.startswith("0B0 would take the gradient of microbatch 3")


def test_a_receive_of_another_microbatch():
    finding = only(edited("0RECV_B0,0B0,0RECV_B1", "0RECV_B1,0B0,0RECV_B0"), sends="buffered")
    assert (finding.code, finding.place.rank) == ("receive-of-another", 0)
    assert finding.sentence == "0B0 would take the gradient of microbatch 1"


def test_untagged_messages_of_both_directions_between_one_pair():
    """cases.md: P2 v2: a warning, they can be taken for each other."""
    found = report(build("interleaved", Params(2, 4, 2)), tags=False)
    assert [(f.code, f.severity) for f in found.findings] == [("ambiguous-messages", "warning")]
    assert found.findings[0].sentence.startswith(
        "from rank 0 to rank 1 go SEND_F of stage 0, SEND_F of stage 2, SEND_B of stage 2 without tags"
    )
    assert codes(build("1f1b", Params(2, 4)), tags=False) == []


@pytest.mark.parametrize(
    ("old", "new", "code", "sentence"),
    [
        ("0F1,0SEND_F1", "0F1", "missing-send", "1RECV_F1 waits for 0SEND_F1, which nobody sends"),
        ("0F1,0SEND_F1", "0SEND_F1,0F1", "send-before-op", "0SEND_F1 comes before 0F1, whose result it sends"),
        ("1RECV_F1,1F1", "1F1,1RECV_F1", "receive-after-op", "1F1 runs before 1RECV_F1, which brings its input"),
        ("0F1,0SEND_F1", "0F1,0SEND_F1,0SEND_F1", "doubled-message", "0SEND_F1 occurs twice"),
        ("0SEND_F1", "0SEND_F0", "misnumbered-message", "0SEND_F0 occurs twice and 0SEND_F1 never"),
        ("0SEND_F1", "0SEND_F7", "misnumbered-message", "0SEND_F7 is out of range and 0SEND_F1 never"),
        (
            "0B1",
            "0B1,0SEND_B1",
            "message-without-peer",
            "0SEND_B1: stage 0 is the first, there is no stage on that side",
        ),
    ],
)
def test_one_fault_of_a_message_is_one_finding(old, new, code, sentence):
    assert told(edited(old, new)) == [(code, sentence)]


def test_neither_sent_nor_received():
    text = edited("0F1,0SEND_F1", "0F1", edited("1RECV_F1,", ""))
    assert told(text) == [("missing-receive", "1F1 runs without a RECV_F1, and there is no 0SEND_F1")]


def test_a_message_inside_a_rank():
    text = "0F0,0SEND_F0,1RECV_F0,1F0,1B0,0B0"
    assert set(codes(text)) == {"message-without-peer"}


def test_receives_that_cross_deadlock_even_with_buffered_sends():
    text = """
        0F0,0SEND_F0,0RECV_B1,0F1,0SEND_F1,0RECV_B0,0B0,0B1
        1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1
    """
    finding = only(text)
    assert (finding.code, finding.next_ops) == ("message-deadlock", ((0, "0RECV_B1"), (1, "1RECV_F1")))


def test_the_remedy_of_a_deadlock_names_a_move_after_which_all_come_to_their_end():
    """Rank 0 keeps F1 back until it has B0, for which rank 1, that runs F1 before B0, waits."""
    finding = only("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1")
    assert (finding.code, finding.waits) == (
        "order-deadlock",
        (
            "rank 0: 0B0 waits for 1B0 of rank 1, which comes after 1F1",
            "rank 1: 1F1 waits for 0F1 of rank 0, which comes after 0B0",
        ),
    )
    assert finding.remedy == "on rank 0, put 0F1 before 0B0: then every rank comes to its end"
    assert codes("0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1") == []


def test_a_send_kept_back_is_told_where_to_go():
    text = edited("0SEND_F1,0RECV_B0,0B0,0RECV_B1", "0RECV_B0,0B0,0SEND_F1,0RECV_B1")
    assert codes(text) == []
    finding = only(text.replace("1B0,1SEND_B0,1RECV_F1,1F1", "1RECV_F1,1F1,1B0,1SEND_B0"))
    assert finding.next_ops == ((0, "0RECV_B0"), (1, "1RECV_F1"))
    assert finding.remedy.startswith("on rank 0, put 0SEND_F1 before 0RECV_B0: then every rank comes to its end")
