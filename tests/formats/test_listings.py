"""Listings become schedules: placement, sizes, what is left out, and the first fault with its place."""

from __future__ import annotations

from fractions import Fraction

import golden_data
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pptrace.costs import Costs, Values
from pptrace.errors import PptraceError, ScheduleError
from pptrace.formats import torch_csv
from pptrace.formats.listings import listing_of, schedule_of
from pptrace.model import OpKind, Placement, Schedule
from pptrace.schedules.registry import Params, build, entry, names
from pptrace.timeline import simulate_schedule

ONE_EACH = Costs(*(Values((Fraction(number),), "op") for number in (1, 2, 1)))


def read(text: str | bytes) -> Schedule:
    return schedule_of(torch_csv.read(text.encode() if isinstance(text, str) else text)).schedule


@pytest.mark.parametrize(
    ("path", "overlap", "elapsed", "idle", "peaks"),
    [
        ("pytorch_dualpipev_4rank_10mb", "sum", 66, {6}, [9, 9, 9, 9]),
        ("pytorch_dualpipev_4rank_10mb", "split", 63, {3}, None),
        ("pytorch_zb1p_2rank_2stagep_compute", "sum", 49, {1}, [4, 4]),
        ("pytorch_zb1p_2rank_2stagep_comms", "sum", 49, {1}, None),
        ("torchtitan_custom_schedule_2rank_4stage_8mb", "sum", 50, {2}, [16, 16]),
    ],
)
def test_figures_of_the_input_files(
    path: str, overlap: str, elapsed: int, idle: set[int], peaks: list[int] | None
) -> None:
    from pptrace.analysis.report import Report

    schedule = read(golden_data.data(f"inputs/schedules/{path}.csv"))
    report = Report(simulate_schedule(schedule, ONE_EACH._replace(overlap=overlap)))
    assert [v.numerator for v in report.metrics["elapsed"].values] == [elapsed]
    assert {v.numerator for v in report.metrics["bubble_time"].values} == idle
    if peaks:
        assert [peak.held for peak in report.memory.peaks] == peaks


@pytest.mark.parametrize(
    ("text", "placement"),
    [
        ("0F0,0B0\n1F0,1B0\n", Placement.loop(2)),
        ("0F0,2F0,2B0,0B0\n1F0,3F0,3B0,1B0\n", Placement.loop(2, 2)),
        ("0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0\n", Placement.zigzag(2, 2)),
        ("1F0,1B0\n0F0,0B0\n", Placement("explicit", (1, 0), 2)),
        ("0F0,1F0,1B0,0B0\n2F0,2B0\n", Placement("explicit", (0, 0, 1), 2)),
        ("0F0,1F1,1B1,0B0\n1F0,0F1,1B0,0B1\n", Placement.two_way(2)),
    ],
)
def test_the_placement_is_what_the_ops_say(text: str, placement: Placement) -> None:
    found = read(text).placement
    assert found == placement
    assert found.kind == placement.kind


def test_messages_and_sharding_are_left_out_and_said() -> None:
    made = schedule_of(torch_csv.read(b"0UNSHARD,0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD\n1RECV_F0,1F0,1B0,1SEND_B0\n"))
    assert [[str(op) for op in row] for row in made.schedule] == [["0F0", "0B0"], ["1F0", "1B0"]]
    assert made.notes[1] == (
        "6 cells without compute are left out (SEND_F RECV_F SEND_B RECV_B UNSHARD REDUCE_GRAD); "
        "messages follow from the dependencies and -c"
    )


def test_pairs_keep_their_place() -> None:
    schedule = read("0F0,(0F1;0B0)OVERLAP_F_B,0B1\n")
    assert schedule.pairs == {1}
    assert [len(cell.ops) for cell in listing_of(schedule).rows[0]] == [1, 2, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0F0,0B0\n\n1F0,1B0\n", "rank 1 has no compute op"),
        ("0F0,0B0\n2F0,2B0\n", "no rank has an op of stage 1, though stages go up to 2"),
        (
            "0F0,0F1,0B0,0B1\n1F0,1F1,1B0,0B1\n",
            "line 2, column 13: 0B1: stage 0 is on rank 1 here and on rank 0 before",
        ),
        ("0F0,0F0,0B0\n", "line 1, column 5: 0F0 occurs twice (first at line 1, column 1)"),
        ("0F-1,0F0,0B0\n", "line 1, column 1: 0F-1: microbatch -1 cannot be; microbatches count from 0"),
        ("0F0,0F9999999,0B0\n", "line 1, column 5: 0F9999999: microbatch 9999999 cannot be; there are 3 ops in all"),
        ("0F0,0F1,0B0\n", "rank 0 has no 0B1: with 2 microbatches"),
        ("0F0,0F1,0B0,0B1\n1F0,1F1\n", "rank 1 has no 1B0 (and 1 more)"),
        ("0F0,0I0,0F1,0I1,0W1\n", "rank 0 has no 0W0"),
        ("0F0,0W0\n", "rank 0 has no 0I0"),
        ("0F1,0B1\n", "rank 0 has no 0F0 (and 1 more)"),
        ("0F0,0B0,0I0,0W0\n", "rank 0 has 0B0 and 0I0: B is the full backward"),
    ],
)
def test_the_first_fault_is_named_with_its_place(text: str, message: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        read(text)
    assert message in str(caught.value)


def test_an_incomplete_order_can_be_asked_for() -> None:
    listing = torch_csv.read(b"0F0,0F1,0B0\n")
    assert schedule_of(listing, incomplete=True).schedule.num_ops == 3


def test_the_eight_faulty_files_of_pytorch_are_refused_and_all_others_made() -> None:
    refused = []
    for path in golden_data.names("goldens/torch_csv/"):
        try:
            schedule = read(golden_data.data(path))
        except ScheduleError:
            refused.append(path.rpartition("/")[2])
            continue
        simulate_schedule(schedule)
        size = schedule.num_stages * schedule.num_microbatches
        halves = sum(schedule.op(i).kind is OpKind.I for i in range(schedule.num_ops))
        assert schedule.num_ops == 2 * size + halves
    assert len(refused) == 8
    assert all(name.startswith("1f1b_P") for name in refused)


@given(
    st.sampled_from([n for n in names() if not entry(n).asynchronous]),
    st.integers(1, 5),
    st.integers(1, 8),
    st.integers(1, 3),
)
def test_a_schedule_goes_through_csv_and_comes_back(name: str, ranks: int, microbatches: int, chunks: int) -> None:
    try:
        schedule = build(name, Params(ranks, microbatches, chunks if chunks > 1 else None))
    except PptraceError:  # a size that this schedule refuses
        return
    back = read(torch_csv.write(listing_of(schedule)))
    assert (back.codes, back.rank_starts, back.pairs) == (schedule.codes, schedule.rank_starts, schedule.pairs)
    assert back.placement == schedule.placement
