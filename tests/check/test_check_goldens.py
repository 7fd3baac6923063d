"""The checker on PyTorch's own files, with the counts that the goldens' README states."""

from __future__ import annotations

from functools import cache

import golden_data
import pytest

from pptrace.check.checker import CheckOptions, check
from pptrace.formats import torch_csv

FILES = golden_data.names("goldens/torch_csv/") + golden_data.names("inputs/schedules/")
FAULTY = [name for name in FILES if "/1f1b_P" in name]
EARLY = [name for name in FILES if name.endswith(".comms.csv")]
DEFERRED = [name for name in FILES if name.endswith(".comms_defer.csv")]
DEADLOCK = next(name for name in FILES if name.endswith("DEADLOCKS.csv"))


@cache
def listing(name):
    return torch_csv.read(golden_data.data(name))


def checked(name, **options):
    return check(listing(name), CheckOptions(**options))


def short(names):
    return {name.rsplit("/", 1)[1].partition(".")[0] for name in names}


def failing(names, **options):
    return [name for name in names if checked(name, **options).failed()]


def test_the_right_files_are_clean_with_buffered_tagged_messages():
    assert (len(FILES), len(EARLY), len(DEFERRED), len(FAULTY)) == (327, 145, 24, 8)
    assert [name for name in FILES if checked(name).failed(strict=True)] == FAULTY


@pytest.mark.parametrize("name", FAULTY, ids=lambda name: name.rsplit("/", 1)[1])
def test_forwards_numbered_from_one_are_told_as_that(name):
    _, ranks, microbatches, _ = name.rsplit("/", 1)[1].split("_")
    last, num = int(ranks[1:]) - 1, int(microbatches[1:])
    (finding,) = checked(name).findings
    assert finding.code == "misnumbered"
    assert finding.sentence == f"rank {last} numbers its forwards 1..{num}; microbatches are numbered 0..{num - 1}"
    assert finding.place.rank == last


def test_rendezvous_one_op_at_a_time():
    stuck = failing(EARLY, sends="rendezvous")
    assert len(stuck) == 8
    assert all("1f1b_runtime" in name for name in stuck)
    assert len(failing(DEFERRED, sends="rendezvous")) == 20


def test_rendezvous_batched():
    assert failing(EARLY, sends="rendezvous", grouping="batched") == []
    assert len(failing(DEFERRED, sends="rendezvous", grouping="batched")) == 15


def test_without_tags_five_deferred_files_take_messages_for_each_other():
    assert failing(EARLY, tags=False) == []
    swapped = failing(DEFERRED, tags=False)
    assert short(swapped) == {
        "dualpipev_P4_M8_v2",
        "interleaved_zb_P2_M4_v2",
        "interleaved_zb_P2_M4_v3",
        "zbv_P2_M4_v2",
        "zbv_P4_M8_v2",
    }
    for name in swapped:
        assert {f.code for f in checked(name, tags=False).findings} <= {"message-order", "ambiguous-messages"}


def test_the_listing_that_hung_on_two_nodes():
    report = checked(DEADLOCK, sends="rendezvous")
    (finding,) = report.findings
    assert finding.code == "message-deadlock"
    assert finding.next_ops == ((0, "0SEND_F1"), (1, "1SEND_F0"))
    assert finding.waits == (
        "rank 0: 0SEND_F1 waits for 1RECV_F1 of rank 1, which comes after 1SEND_F0",
        "rank 1: 1SEND_F0 waits for 2RECV_F0 of rank 0, which comes after 0SEND_F1",
    )
    assert (report.verdict.runs, report.verdict.sentence) == (False, "stuck under these assumptions")
    assert (checked(DEADLOCK).findings, checked(DEADLOCK).verdict.runs) == ((), True)


def test_dualpipev_read_as_if_columns_were_time():
    name = next(name for name in FILES if "dualpipev_4rank" in name)
    found = listing(name)
    assert sum(map(len, found.rows)) == 141
    found = found._replace(slots=tuple(tuple(range(len(row))) for row in found.rows))
    (finding,) = check(found).findings
    assert finding.code == "starts-too-early"
    assert finding.sentence.startswith("50 of 182 ops start before something they wait for (all across ranks)")
    assert len(finding.ops) == 50
