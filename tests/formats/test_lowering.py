"""Messages and sharding ops as PyTorch 2.13 adds them: equal to its own files, for every order that it lowered."""

from __future__ import annotations

import golden_data
import pytest

from pptrace.errors import ParameterError, ScheduleError
from pptrace.formats import torch_csv
from pptrace.formats.lowering import lower, raise_to_compute
from pptrace.listing import Listing

PREFIX = "goldens/torch_csv/"
EARLY = [n for n in golden_data.names(PREFIX) if n.endswith(".comms.csv") and "_runtime_" not in n]
DEFERRED = [n for n in golden_data.names(PREFIX) if n.endswith(".comms_defer.csv")]
INLINE = [n for n in golden_data.names(PREFIX) if n.endswith(".comms.csv") and "_runtime_" in n]


def compute_of(path: str) -> Listing:
    return torch_csv.read(golden_data.data(path.rsplit(".", 2)[0] + ".compute.csv"))


def lowered(text: str, receive: str) -> list[str]:
    return torch_csv.write(lower(torch_csv.read(text.encode()), receive)).decode().split()


def test_there_are_as_many_files_as_the_goldens_say() -> None:
    assert (len(EARLY), len(DEFERRED), len(INLINE)) == (126, 24, 19)


@pytest.mark.parametrize("path", EARLY)
def test_early_is_what_pytorch_lowers_to(path: str) -> None:
    assert torch_csv.write(lower(compute_of(path), "early")) == golden_data.data(path)


@pytest.mark.parametrize("path", DEFERRED)
def test_deferred_is_what_pytorch_lowers_to(path: str) -> None:
    assert torch_csv.write(lower(compute_of(path), "deferred")) == golden_data.data(path)


@pytest.mark.parametrize("path", INLINE)
def test_inline_receives_before_use_and_sends_after(path: str) -> None:
    assert torch_csv.write(lower(compute_of(path), "inline")) == golden_data.data(path)


@pytest.mark.parametrize("path", EARLY + DEFERRED + INLINE)
def test_lowering_again_changes_nothing_and_the_compute_order_comes_back(path: str) -> None:
    listing = torch_csv.read(golden_data.data(path))
    compute = raise_to_compute(listing)
    wanted = raise_to_compute(compute_of(path))
    assert [[cell.ops for cell in row] for row in compute.rows] == [[cell.ops for cell in row] for row in wanted.rows]
    receive = "inline" if path in INLINE else "deferred" if path in DEFERRED else "early"
    assert torch_csv.write(lower(listing, receive)) == golden_data.data(path)


def test_two_ranks_one_microbatch_inline() -> None:
    assert lowered("0F0,0B0\n1F0,1B0\n", "inline") == [
        "0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD",
        "1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD",
    ]


def test_no_message_inside_a_rank() -> None:
    first = lowered("0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0\n", "inline")[1]
    assert first == "1RECV_F0,1F0,2F0,2SEND_F0,2RECV_B0,2B0,2REDUCE_GRAD,1B0,1SEND_B0,1REDUCE_GRAD"


def test_an_overlapped_pair_receives_both_inputs_first_and_sends_both_results_last() -> None:
    row = lowered("0F0,0F1,0B0,0B1\n1F0,(1F1;1B0)OVERLAP_F_B,1B1\n2F0,2B0,2F1,2B1\n", "inline")[1]
    assert row == (
        "1RECV_F0,1F0,1SEND_F0,1RECV_F1,1RECV_B0,(1F1;1B0)OVERLAP_F_B,1SEND_F1,1SEND_B0,1RECV_B1,1B1,1SEND_B1,1REDUCE_GRAD"
    )


@pytest.mark.parametrize(
    ("compute", "written"),  # as torch 2.13.0 writes them
    [
        (
            "0F0,1F0,2F0,3F0,3B0,2B0,1B0,0B0",
            "0UNSHARD,1UNSHARD,2UNSHARD,0F0,0RESHARD,3UNSHARD,1F0,2F0,3F0,3B0,3REDUCE_GRAD,3RESHARD,0UNSHARD,"
            "2B0,2REDUCE_GRAD,2RESHARD,1B0,1REDUCE_GRAD,1RESHARD,0B0,0REDUCE_GRAD,0RESHARD",
        ),
        (  # a pair that begins with the third stage brings a fourth
            "0F1,1F1,2F1,3F1,4F1,4B1,0F0,1F0,(2F0;3B1)OVERLAP_F_B,3F0,4F0,4B0,3B0,2B1,2B0,1B1,1B0,0B1,0B0",
            "0UNSHARD,1UNSHARD,2UNSHARD,0F1,0RESHARD,3UNSHARD,1F1,1RESHARD,"
            "4UNSHARD,2F1,2RESHARD,0UNSHARD,3F1,3RESHARD,1UNSHARD,4F1,"
            "4B1,4RESHARD,2UNSHARD,3UNSHARD,0F0,0RESHARD,1F0,1RESHARD,"
            "4UNSHARD,(2F0;3B1)OVERLAP_F_B,3F0,4F0,4B0,4REDUCE_GRAD,4RESHARD,1UNSHARD,"
            "3B0,3REDUCE_GRAD,3RESHARD,0UNSHARD,2B1,2B0,2REDUCE_GRAD,2RESHARD,"
            "1B1,1B0,1REDUCE_GRAD,1RESHARD,0B1,0B0,0REDUCE_GRAD,0RESHARD",
        ),
    ],
)
def test_three_stages_are_unsharded_ahead(compute: str, written: str) -> None:
    row = lowered(compute, "early")[0]
    assert row == written


def test_cells_that_are_made_stand_where_their_op_stands() -> None:
    listing = lower(torch_csv.read(b"0F0,0B0\n1F0, 1B0\n"), "inline")
    assert [(cell.text, cell.line, cell.column) for cell in listing.rows[1]] == [
        ("1RECV_F0", 2, 1),
        ("1F0", 2, 1),
        ("1B0", 2, 6),
        ("1SEND_B0", 2, 6),
        ("1REDUCE_GRAD", 2, 6),
    ]


def test_a_stuck_order_cannot_be_lowered_early_and_is_told_where() -> None:
    text = "0F0,0B0,0F1,0B1\n1F1,1F0,1B0,1B1\n"
    with pytest.raises(ScheduleError, match=r"line 1, column 5: the order is stuck.*0B0 on rank 0"):
        lowered(text, "early")
    assert lowered(text, "inline")[0].startswith("0F0,0SEND_F0,0RECV_B0,0B0,")


def test_two_copies_cannot_be_lowered() -> None:
    with pytest.raises(ScheduleError, match="two copies"):
        lowered("0F0,1F1,1B1,0B0\n1F0,0F1,1B0,0B1\n", "inline")


def test_a_stage_on_two_ranks_is_refused() -> None:
    with pytest.raises(ScheduleError, match="line 2, column 5: 0B0: stage 0 is on rank 1 here and on rank 0 before"):
        lowered("0F0\n1F0,0B0,1B0\n2F0\n", "early")


def test_another_word_for_receive_is_refused() -> None:
    with pytest.raises(ParameterError, match="--recv is early, deferred or inline, got 'late'"):
        lowered("0F0,0B0\n", "late")
