"""Traces of PyTorch's profiler, one file for each rank: five schedules whose ranges are named as ops, GPipe's phases, 1F1B's
nothing; clocks on one axis; files that are not of one run."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import golden_data
import pytest
from running import refusal, run

from pptrace import formats
from pptrace.errors import FormatError
from pptrace.formats.listings import listing_of

if TYPE_CHECKING:
    from pathlib import Path

    from pptrace.formats import Document

NAMED = [
    "DualPipeV_P2_M4_v2",
    "Interleaved1F1B_P2_M4_v2",
    "InterleavedZeroBubble_P2_M4_v2",
    "LoopedBFS_P2_M4_v2",
    "ZBVZeroBubble_P2_M4_v2",
]
MESSAGES = ("SEND_", "RECV_", "SHARD", "REDUCE_GRAD")
ORDERS = {
    "DualPipeV_P2_M4_v2": "dualpipev_P2_M4_v2",
    "Interleaved1F1B_P2_M4_v2": "interleaved_1f1b_P2_M4_v2",
    "InterleavedZeroBubble_P2_M4_v2": "interleaved_zb_P2_M4_v2",
    "LoopedBFS_P2_M4_v2": "looped_bfs_P2_M4_v2",
    "ZBVZeroBubble_P2_M4_v2": "zbv_P2_M4_v2",
}
"""The order that PyTorch generates for the same schedule, in goldens/torch_csv."""


def files(run_name: str, ranks: int = 2) -> list[tuple[str, bytes]]:
    return [
        (f"{run_name}.rank{rank}.json", golden_data.data(f"inputs/traces/{run_name}.rank{rank}.json"))
        for rank in range(ranks)
    ]


def changed(file: tuple[str, bytes], **fields: object) -> tuple[str, bytes]:
    found = json.loads(file[1]) | fields
    return file[0], json.dumps({key: value for key, value in found.items() if value is not None}).encode()


def annotations(data: bytes) -> list[tuple[str, Fraction, Fraction]]:
    """(op, start, end) in the order of time, in microseconds of the common clock; `PP:` taken off."""
    trace: dict[str, Any] = json.loads(data, parse_float=Fraction)
    base = Fraction(trace["baseTimeNanoseconds"], 1000)
    found = [
        (event["name"].removeprefix("PP:"), base + event["ts"], base + event["ts"] + event["dur"])
        for event in trace["traceEvents"]
        if event["ph"] == "X" and event["name"].startswith(("PP:", "Forward ", "Backward "))
    ]
    return sorted(found, key=lambda item: item[1])


def document(run_name: str) -> Document:
    return formats.read_files(files(run_name))


def placed_in(folder: Path, run_name: str, ranks: int = 2) -> list[str]:
    paths = []
    for name, data in files(run_name, ranks):
        (folder / name).write_bytes(data)
        paths.append(str(folder / name))
    return paths


@pytest.mark.parametrize("run_name", NAMED)
def test_every_range_is_an_op_at_its_time(run_name: str) -> None:
    timeline = document(run_name).timeline
    assert timeline is not None
    wanted = {}
    for rank, (_, data) in enumerate(files(run_name)):
        for name, start, end in annotations(data):
            if not name.endswith(MESSAGES) and not any(word in name for word in MESSAGES):
                for text in name.removesuffix("OVERLAP_F_B").strip("()").split(";"):
                    wanted[text] = (rank, start, end)
    first = min(start for _, start, _ in wanted.values())
    per_us = timeline.ticks_per_unit
    assert {str(s.op): (s.rank, Fraction(s.start, per_us), Fraction(s.end, per_us)) for s in timeline} == {
        name: (rank, start - first, end - first) for name, (rank, start, end) in wanted.items()
    }
    assert Fraction(timeline.offset) == first


@pytest.mark.parametrize("run_name", NAMED)
def test_the_order_that_was_run_is_the_one_that_pytorch_generates(run_name: str) -> None:
    schedule = document(run_name).schedule
    assert schedule is not None
    golden = golden_data.text(f"goldens/torch_csv/{ORDERS[run_name]}.compute.csv")
    rows = [[cell for cell in line.split(",") if cell] for line in golden.split()]
    assert [[cell.text for cell in row] for row in listing_of(schedule).rows] == rows


@pytest.mark.parametrize("run_name", NAMED)
def test_what_was_run_is_written_as_a_schedule_file_with_its_messages(run_name: str, tmp_path: Path) -> None:
    result = run("convert", *placed_in(tmp_path, run_name), "--to", "torch-comms")
    rows = [",".join(name for name, _, _ in annotations(data)) for _, data in files(run_name)]
    assert result.stdout_bytes.decode() == "".join(f"{row}\r\n" for row in rows)
    assert run("check", f"{tmp_path}/").exit_code == 0


def test_gpipe_has_phases_and_the_rank_is_the_stage() -> None:
    found = document("GPipe_P2_M4_v1")
    assert found.schedule is not None
    assert [" ".join(map(str, order)) for order in found.schedule] == [
        "0F0 0F1 0F2 0F3 0B0 0B1 0B2 0B3",
        "1F0 1F1 1F2 1F3 1B0 1B1 1B2 1B3",
    ]
    assert any(note.startswith("an F, B or I of a profiler contains the wait for its input") for note in found.notes)


@pytest.mark.parametrize(("run_name", "ranks"), [("1F1B_P2_M4_v1", 2), ("1F1B_P4_M8_v1", 4)])
def test_1f1b_names_no_op_and_is_refused_with_what_is_missing(run_name: str, ranks: int, tmp_path: Path) -> None:
    paths = placed_in(tmp_path, run_name, ranks)
    for said in (refusal("convert", *paths, "--to", "json"), refusal("show", f"{tmp_path}/")):
        assert "rank0.json: $.traceEvents: no event is named as an op (PP:0F0, 0F0 or Forward 0)" in said
        assert "record_function('PP:0F0')" in said


def test_through_json_and_chrome_and_back(tmp_path: Path) -> None:
    paths = placed_in(tmp_path, "DualPipeV_P2_M4_v2")
    first, chrome, second = (str(tmp_path / name) for name in ("a.json", "b.chrome.json", "c.json"))
    result = run("convert", *paths, "-o", first)
    assert result.stderr.startswith("note: 44 cells without compute are left out (SEND_F RECV_F SEND_B RECV_B ")
    assert result.stderr.count("\n") == 1
    assert run("convert", first, "-o", chrome).stderr == ""
    assert run("convert", chrome, "-o", second).stderr == ""
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "c.json").read_bytes()


def test_clocks_that_began_apart_are_put_on_one_axis() -> None:
    """A second later on the clock's base and a second less in its times is the same moment."""
    one, other = files("LoopedBFS_P2_M4_v2")
    wanted = formats.read_files([one, other]).timeline
    trace = json.loads(other[1])
    earlier = [event | {"ts": event["ts"] - 10**6} if "ts" in event else event for event in trace["traceEvents"]]
    moved = changed(other, traceEvents=earlier, baseTimeNanoseconds=trace["baseTimeNanoseconds"] + 10**9)
    found = formats.read_files([one, moved]).timeline
    assert wanted is not None
    assert found is not None
    assert (found.starts, found.ends) == (wanted.starts, wanted.ends)


def test_the_order_of_the_files_does_not_matter() -> None:
    one, other = files("ZBVZeroBubble_P2_M4_v2")
    first, second = formats.read_files([one, other]).timeline, formats.read_files([other, one]).timeline
    assert first is not None
    assert second is not None
    assert (first.schedule.codes, first.starts) == (second.schedule.codes, second.starts)


def test_the_rank_may_stand_in_the_name_of_the_file() -> None:
    nameless = [changed(file, distributedInfo=None) for file in files("GPipe_P2_M4_v1")]
    assert formats.read_files(nameless).schedule is not None
    with pytest.raises(FormatError, match=r"^b\.json: \$\.distributedInfo\.rank: missing; say the rank in the name"):
        formats.read_files([nameless[0], ("b.json", nameless[1][1])])


def test_ranks_that_do_not_begin_at_zero_are_said() -> None:
    renamed = [
        changed(file, distributedInfo={"rank": rank, "world_size": 8})
        for file, rank in zip(files("GPipe_P2_M4_v1"), (2, 6), strict=True)
    ]
    found = formats.read_files(renamed)
    assert found.schedule is not None
    assert "ranks 2, 6 of the run are ranks 0..1 here" in found.notes


def test_two_files_of_one_rank_are_refused() -> None:
    one, other = files("GPipe_P2_M4_v1")
    with pytest.raises(FormatError, match=r"^again\.json: is of rank 0, as GPipe_P2_M4_v1\.rank0\.json is"):
        formats.read_files([one, other, ("again.json", one[1])])


def test_one_file_of_several_ranks_is_refused(tmp_path: Path) -> None:
    path = placed_in(tmp_path, "LoopedBFS_P2_M4_v2")[0]
    assert "holds rank 0 of 2; give the files of all ranks" in refusal("show", path)


def test_several_files_are_one_run_of_profiler_traces(tmp_path: Path) -> None:
    trace, profile = tmp_path / "a.json", placed_in(tmp_path, "GPipe_P2_M4_v1")[0]
    assert run("trace", "1f1b", "-P", "2", "-M", "2", "-o", str(trace)).exit_code == 0
    said = refusal("convert", profile, str(trace), "--to", "json")
    assert said == f"{trace}: is json; several files are one run where they are profiler traces of its ranks"
    assert refusal("convert", profile, "1f1b", "-P", "2", "--to", "json").startswith(
        "1f1b is no file; several inputs are "
    )
    own = tmp_path / "b.chrome.json"
    assert run("convert", str(trace), "-o", str(own)).exit_code == 0
    assert "holds all ranks; give it alone" in refusal("convert", profile, str(own), "--to", "json")


def test_two_steps_in_one_profile() -> None:
    """The run again, a second later: every op is of two steps, sharding of the step that is on."""
    twice = []
    for name, data in files("ZBVZeroBubble_P2_M4_v2"):
        trace = json.loads(data)
        later = [event | {"ts": event["ts"] + 10**6} for event in trace["traceEvents"] if "dur" in event]
        twice.append((name, json.dumps(trace | {"traceEvents": trace["traceEvents"] + later}).encode()))
    found = formats.read_files(twice)
    one = document("ZBVZeroBubble_P2_M4_v2").schedule
    assert found.schedule is not None
    assert one is not None
    assert found.schedule.num_steps == 2
    for rank in range(2):
        order = one.order(rank)
        assert found.schedule.order(rank) == order + [op._replace(step=1) for op in order]
