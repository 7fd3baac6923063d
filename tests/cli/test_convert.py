"""`pptrace convert`: by suffix, by --from and --to; byte for byte where it can be; what is left out is said once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import golden_data
import pytest
from running import answer, refusal, run

if TYPE_CHECKING:
    from pathlib import Path

FILES = [
    "goldens/torch_csv/zbv_P2_M4_v2.compute.csv",
    "goldens/torch_csv/dualpipev_P4_M8_v2.comms.csv",
    "goldens/torch_csv/looped_bfs_P4_M2_v2.compute.csv",
    "goldens/torch_csv/1f1b_runtime_P4_M4_v1.comms.csv",
    "goldens/torch_csv/interleaved_zb_P2_M4_v2.comms_defer.csv",
]


def file_of(path: str, folder: Path) -> str:
    file = folder / "in.csv"
    file.write_bytes(golden_data.data(path))
    return str(file)


def converted(folder: Path, *args: str, suffix: str = "csv") -> bytes:
    out = folder / f"out.{suffix}"
    result = run("convert", *args, "-o", str(out))
    assert result.exit_code == 0, result.output
    return out.read_bytes()


@pytest.mark.parametrize("path", FILES)
def test_a_file_of_pytorch_is_copied_byte_for_byte(path: str, tmp_path: Path) -> None:
    assert converted(tmp_path, file_of(path, tmp_path)) == golden_data.data(path)


@pytest.mark.parametrize(
    ("compute", "receive", "lowered"),
    [
        ("zbv_P4_M8_v2.compute", "early", "zbv_P4_M8_v2.comms"),
        ("zbv_P4_M8_v2.compute", "deferred", "zbv_P4_M8_v2.comms_defer"),
        ("zbv_P4_M8_v2.comms", "deferred", "zbv_P4_M8_v2.comms_defer"),
        ("1f1b_runtime_P4_M8_v1.compute", "inline", "1f1b_runtime_P4_M8_v1.comms"),
        ("gpipe_P4_M8_v1.compute", "early", "gpipe_P4_M8_v1.comms"),
    ],
)
def test_recv_lowers_as_pytorch_does(compute: str, receive: str, lowered: str, tmp_path: Path) -> None:
    source = file_of(f"goldens/torch_csv/{compute}.csv", tmp_path)
    assert converted(tmp_path, source, "--recv", receive) == golden_data.data(f"goldens/torch_csv/{lowered}.csv")


def test_messages_are_taken_off_and_that_is_said(tmp_path: Path) -> None:
    source = file_of("goldens/torch_csv/gpipe_P2_M2_v1.comms.csv", tmp_path)
    result = run("convert", source, "--to", "torch-compute")
    assert result.stdout.split() == ["0F0,0F1,0B0,0B1", "1F0,1F1,1B0,1B1"]
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("note: left out, as PyTorch's compute files cannot hold it: 2 UNSHARD, 2 SEND_F, ")


def test_a_registered_schedule_becomes_a_file_that_reads_back(tmp_path: Path) -> None:
    content = converted(tmp_path, "zb-h1", "-P", "2", "-M", "2")
    assert content == b"0F0,0F1,0I0,0W0,0I1,0W1\r\n1F0,1I0,1F1,1I1,1W0,1W1\r\n"
    assert "the orders are equal" in answer("diff", str(tmp_path / "out.csv"), "zb-h1")


def test_the_letter_b_of_a_zero_bubble_file_is_written_i_and_said(tmp_path: Path) -> None:
    source = file_of("inputs/schedules/pytorch_zb1p_2rank_2stagep_compute.csv", tmp_path)
    result = run("convert", source, "--to", "torch-compute")
    assert "2I0,2W0" in result.stdout
    assert result.stderr == "note: letter B: the input half, because its stages have W\n"


def test_through_json_and_a_text_grid_and_back(tmp_path: Path) -> None:
    order = converted(tmp_path, "interleaved", "-P", "2", "-M", "4", "-v", "2")
    for suffix in ("json", "jsonl", "txt"):
        middle = tmp_path / f"middle.{suffix}"
        assert run("convert", "interleaved", "-P", "2", "-M", "4", "-v", "2", "-o", str(middle)).exit_code == 0
        assert converted(tmp_path, str(middle)) == order


def test_a_loose_table_becomes_a_trace() -> None:
    assert '"0B1"' in answer("convert", "-", "--to", "json", stdin="F0 F1 . B0 . B1\n. F0 B0 F1 B1 .\n")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "say what to write: -o FILE with a suffix, or --to json, "),
        (("-o", "x.bin"), "-o x.bin: no format has this suffix; say --to json, "),
        (("--to", "jsn"), "no format is called 'jsn'; did you mean json?"),
        (("--to", "json", "--recv", "early"), "--recv adds messages, which json cannot hold"),
        (("--to", "torch-comms", "--steps", "2"), "0F0@1: a PyTorch schedule file holds one optimizer step"),
    ],
)
def test_what_cannot_be_converted_is_said(args: tuple[str, ...], message: str) -> None:
    assert message in refusal("convert", "1f1b", "-P", "2", "-M", "2", *args)


def test_two_copies_are_refused() -> None:
    message = refusal("convert", "dualpipe", "-P", "2", "-M", "4", "--to", "torch-compute")
    assert message == "a PyTorch schedule file cannot hold two copies of the stages: in it a stage lives on one rank"


def test_a_failed_conversion_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    out.write_text("keep me")
    assert "0B1" in refusal("convert", "-", "-o", str(out), "--from", "torch-compute", stdin="0F0,0F1,0B0\n")
    assert out.read_text() == "keep me"


def test_letter_b_is_not_for_traces() -> None:
    trace = answer("trace", "1f1b", "-P", "2", "-M", "2")
    assert refusal("show", "-", "--letter-b", "full", stdin=trace).startswith("--letter-b is for schedule files")


def test_a_file_over_the_limit_of_ops_is_refused() -> None:
    message = refusal("show", "-", "--max-ops", "3", stdin="0F0,0F1,0B0,0B1\n")
    assert message == "standard input: 4 ops are over the limit of 3; raise --max-ops to take it"
