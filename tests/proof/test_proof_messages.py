"""Lowered files are run with their own messages: what is not sent or not received is not computed."""

from random import Random

import golden_data
import pytest

from pptrace import formats
from pptrace.formats.listings import schedule_of
from pptrace.listing import Cell, Listing
from pptrace.model import MESSAGE_KINDS, Op, OpKind
from pptrace.proof.prove import prove
from pptrace.proof.written import as_written

FAULTY = set(golden_data.names("goldens/torch_csv/1f1b_P"))


def listing_at(path):
    return formats.read(golden_data.data(path), path, None).listing


def proof_of(listing, **options):
    written = as_written(listing)
    return prove(written if written.needs_its_order else schedule_of(listing).schedule, **options)


def ops_of(listing):
    return [[op for cell in row for op in cell.ops] for row in listing.rows]


def listing_of(rows):
    return Listing(tuple(tuple(Cell((op,), str(op)) for op in row) for row in rows))


def runtime_1f1b():
    """PyTorch's executed 1f1b of 4 ranks and 8 microbatches, with its messages, as single ops."""
    return ops_of(listing_at("goldens/torch_csv/1f1b_runtime_P4_M8_v1.comms.csv"))


@pytest.mark.parametrize("kind", ["compute", "comms", "comms_defer"])
def test_all_files_of_pytorch_compute_the_unsplit_step_but_the_8_faulty_ones(kind):
    paths = [path for path in golden_data.names("goldens/torch_csv/") if path.endswith(f".{kind}.csv")]
    wrong = {path for path in paths if not proof_of(listing_at(path)).proved}
    assert wrong == {path for path in FAULTY if path in paths}
    assert len(paths) > 20


def test_a_stage_that_never_receives_is_named():
    rows = runtime_1f1b()
    rows[2].remove(Op.parse("2RECV_F1"))
    proof = proof_of(listing_of(rows))
    assert str(proof.faults[0]).startswith("2F1 (op ")
    assert "needs the activation of microbatch 1 from stage 1, which is not there" in str(proof.faults[0])
    assert "microbatch 1 missing" in proof.sentence()


def test_a_message_that_is_never_sent_is_named_at_its_receive():
    rows = runtime_1f1b()
    rows[3].remove(Op.parse("3SEND_B2"))
    proof = proof_of(listing_of(rows))
    assert str(proof.faults[0]).startswith("2RECV_B2 (op ")
    assert str(proof.faults[0]).endswith("has no gradient of microbatch 2, which nobody has sent")
    assert proof.comparison.outputs.equal
    assert [part.missing for part in proof.comparison.gradients] == [((0, 2),), ((0, 2),), ((0, 2),), ()]


def test_an_output_that_is_sent_before_it_is_computed():
    rows = runtime_1f1b()
    sent = Op.parse("0SEND_F0")
    rows[0].remove(sent)
    rows[0].insert(0, sent)
    proof = proof_of(listing_of(rows))
    assert str(proof.faults[0]) == "0SEND_F0 (op 0 of rank 0) has no activation of microbatch 0, which is not computed"


def test_every_lost_or_renumbered_message_is_caught():
    source = Random("messages")
    for _ in range(200):
        rows = runtime_1f1b()
        rank = source.randrange(4)
        places = [i for i, op in enumerate(rows[rank]) if op.kind in MESSAGE_KINDS]
        place = source.choice(places)
        op = rows[rank][place]
        if source.random() < 0.5:
            del rows[rank][place]
        else:
            rows[rank][place] = op._replace(microbatch=(op.microbatch + source.randint(1, 7)) % 8)
        assert not proof_of(listing_of(rows)).proved, (rank, str(op))


def test_the_counts_name_the_messages():
    counts = {count.kind: count.ran for count in proof_of(listing_of(runtime_1f1b())).comparison.counts}
    assert (counts[OpKind.SEND_F], counts[OpKind.RECV_F], counts[OpKind.SEND_B], counts[OpKind.RECV_B]) == (
        24,
        24,
        24,
        24,
    )


def test_without_tags_five_deferred_files_compute_on_wrong_data():
    """The five that goldens/README names: messages of one pair of ranks are received in another order than they are sent."""
    paths = [path for path in golden_data.names("goldens/torch_csv/") if path.endswith(".comms_defer.csv")]
    wrong = {path.split("/")[-1].split(".")[0] for path in paths if not proof_of(listing_at(path), tagged=False).proved}
    assert wrong == {
        "dualpipev_P4_M8_v2",
        "interleaved_zb_P2_M4_v2",
        "interleaved_zb_P2_M4_v3",
        "zbv_P2_M4_v2",
        "zbv_P4_M8_v2",
    }


def test_untagged_messages_name_what_a_receive_takes_instead():
    proof = proof_of(listing_at("goldens/torch_csv/zbv_P2_M4_v2.comms_defer.csv"), tagged=False)
    assert [str(fault) for fault in proof.faults] == [
        "2RECV_B0 (op 8 of rank 1) takes the activation of microbatch 2 that was sent to stage 1",
        "1RECV_F2 (op 11 of rank 1) takes the gradient of microbatch 0 that was sent to stage 2",
    ]
