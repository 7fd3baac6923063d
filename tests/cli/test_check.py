"""`pptrace check`: what it prints, in three formats, and how it leaves."""

from __future__ import annotations

import json

import golden_data
import pytest
from running import answer, refusal, run

from pptrace.check.kinds import KINDS

RIGHT = "0F0,0F1,0B0,0B1\r\n1F0,1B0,1F1,1B1\r\n"
LOST = "0F0,0F1,0B0\r\n1F0,1B0,1F1,1B1\r\n"
FAULTY = "goldens/torch_csv/1f1b_P2_M4_v1.compute.csv"
UNTAGGED = ("interleaved", "-P", "2", "-M", "4", "-v", "2", "--tags", "no")


@pytest.fixture
def faulty(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "order.csv").write_bytes(golden_data.data(FAULTY))
    return "order.csv"


def test_a_right_file_says_what_was_assumed():
    assert answer("check", "-", "--from", "torch-compute", stdin=RIGHT).splitlines() == [
        "standard input: 2 ranks, 2 stages, 2 microbatches, 8 ops",
        "         this is the order of 1f1b, eager-1f1b, interleaved,v=1, pipedream, pipedream-2bw",
        "         letter B: the full backward, because no stage has a W",
        "",
        "verdict: deadlock-free under these assumptions",
        "         sends are buffered: a send never waits",
        "         every send and receive on its own, in the order of the list (per-op)",
        "         messages carry tags",
        "         receives right before the op that needs them, sends right after (inline)",
        "no errors, no warnings, no pieces of advice",
    ]


def test_a_faulty_file_is_told_its_fault_and_place(faulty):
    result = run("check", faulty)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert "error    misnumbered   line 2, column 25; rank 1, position 6" in lines
    assert "         rank 1 numbers its forwards 1..4; microbatches are numbered 0..3" in lines
    assert lines[-1] == "1 error, no warnings, no pieces of advice"


def test_json(faulty):
    result = run("check", faulty, "-t", "json")
    document = json.loads(result.stdout)
    assert (result.exit_code, document["schema"], document["source"]) == (1, "pptrace.check/1", faulty)
    assert document["counts"] == {"error": 1, "warning": 0, "advice": 0}
    (finding,) = document["findings"]
    assert (finding["code"], finding["rank"], finding["position"], finding["line"]) == ("misnumbered", 1, 6, 2)


def test_github_annotations(faulty):
    lines = run("check", faulty, "-t", "github").stdout.splitlines()
    assert lines[0].startswith(
        "::error file=order.csv,line=2,title=misnumbered,col=25::rank 1 numbers its forwards 1..4;"
    )
    verdict = "with the faults above put right: deadlock-free under these assumptions"
    assert lines[1].startswith(f"::notice file=order.csv,title=verdict::{verdict}")
    assert len(lines) == 2


def test_annotations_cannot_be_forged(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a,b:c%.csv").write_text("0F0,0B0,::error::x%\n")
    first = run("check", "a,b:c%.csv", "-t", "github").stdout.splitlines()[0]
    assert first.startswith("::error file=a%2Cb%3Ac%25.csv,line=1,title=unknown-op,col=9::'::error::x%25' is not an op")


def test_a_deadlock_prints_the_cycle_and_every_next_op():
    result = run("check", "1f1b", "-P", "2", "-M", "4", "--sends", "rendezvous")
    assert result.exit_code == 1
    assert "           rank 0: 0SEND_F1 waits for 1RECV_F1 of rank 1" in result.stdout
    assert "next op of every rank that is not finished: rank 0 at 0SEND_F1, rank 1 at 1SEND_B0" in result.stdout
    assert "verdict: stuck under these assumptions" in result.stdout


def test_the_order_of_a_name_that_deadlocks_is_a_finding_and_no_refusal():
    result = run("check", "interleaved", "-P", "4", "-M", "5", "-v", "3", "--group", "4")
    assert (result.exit_code, result.stderr) == (1, "")
    assert "error    order-deadlock" in result.stdout


def test_warnings_fail_only_with_strict():
    assert run("check", *UNTAGGED).exit_code == 0
    assert run("check", *UNTAGGED, "--strict").exit_code == 1


def test_advice_never_fails_and_can_be_left_out():
    groups = ("check", "interleaved", "-P", "4", "-M", "10", "-v", "2", "--group", "4", "--cost-per", "op", "--strict")
    assert "groups of 4 leave bubbles: groups of 5 save 6" in answer(*groups)
    assert "advice   " not in answer(*groups, "--no-advice")


def test_a_trace_is_checked_by_its_times():
    trace = answer("trace", "gpipe", "-P", "2", "-M", "2")
    assert "no errors, no warnings" in answer("check", "-", stdin=trace)
    edited = json.loads(trace)
    event = next(event for event in edited["events"] if event["id"] == "1F0")
    event["start"], event["end"] = 0, 1
    result = run("check", "-", stdin=json.dumps(edited))
    assert result.exit_code == 1
    assert "1F0 starts at 0, before 0F0, which it waits for, ends at 1" in result.stdout
    assert "warning  edited-trace" in result.stdout


def test_columns_read_as_time():
    name = next(name for name in golden_data.names("inputs/schedules/") if "dualpipev_4rank" in name)
    result = run("check", "-", "--from", "torch-compute", "--columns-are-time", stdin=golden_data.data(name))
    assert result.exit_code == 1
    assert "50 of 182 ops start before something they wait for (all across ranks)" in result.stdout


def test_another_number_of_microbatches_than_wanted():
    result = run("check", "-", "--from", "torch-compute", "-M", "4", stdin=RIGHT)
    assert "the schedule runs 2 microbatches, 4 were asked for" in result.stdout


def test_limits():
    assert run("check", "gpipe", "-P", "2", "-M", "4", "--max-activations", "3").exit_code == 1
    assert run("check", "1f1b", "-P", "4", "-M", "8", "--buffers", "3").exit_code == 1
    assert run("check", "gpipe", "-P", "2", "-M", "4", "--order", "lifo", "--release", "oldest").exit_code == 1
    held = run("check", "1f1b", "-P", "2", "-M", "4", "--activation-bytes", "4KiB", "--memory-limit", "6KiB")
    assert held.exit_code == 1
    assert "rank 0 holds 8192 bytes at t=1, the limit is 6144: activation 8192" in held.stdout


def test_list_has_every_kind_and_explain_explains_each():
    table = answer("check", "--list")
    for code, kind in KINDS.items():
        assert f"  {code:<26} {kind.severity:<8} {kind.title}\n" in table
        assert kind.explanation in answer("check", "--explain", code)


def test_an_output_file(tmp_path):
    path = tmp_path / "report.json"
    assert answer("check", "1f1b", "-P", "2", "-M", "2", "-o", str(path)) == ""
    assert json.loads(path.read_text())["verdict"]["runs"] is True


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--explain", "orderdeadlock"), "no finding has the code 'orderdeadlock'; did you mean order-deadlock?"),
        (("1f1b", "-P", "2", "-M", "2", "--columns-are-time"), "--columns-are-time is for CSV files and text grids"),
        (("1f1b", "-P", "2", "-M", "2", "--memory-limit", "9"), "--memory-limit needs sizes"),
        (("1f1b", "-P", "2", "-M", "2", "--buffers", "0"), "--buffers must be at least 1, got 0"),
        (("1f1b", "-P", "2", "-M", "2", "--tolerance", "x"), "--tolerance: 'x' is not a number"),
        (("1f1b", "-P", "2", "-M", "2", "--tolerance", "-1"), "--tolerance must be zero or more"),
        (("nothing.csv",), "nothing.csv: No such file or directory"),
    ],
)
def test_no_answer(args, message):
    assert refusal("check", *args).startswith(message)


def test_lost_work_is_an_error_and_not_a_shorter_schedule():
    result = run("check", "-", "--from", "torch-compute", stdin=LOST)
    assert result.exit_code == 1
    assert "rank 0 never runs 0B1; 1 activation is never released" in result.stdout


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("zbv_P2_M4_v2.compute", "this is the order of zb-v"),
        ("interleaved_1f1b_P4_M8_v3.comms", "this is the order of interleaved,v=3"),
        ("dualpipev_P2_M4_v2.compute", "this is the order of dualpipev"),
        ("1f1b_P2_M4_v1.compute", "its faults aside, this is the order of 1f1b, pipedream, pipedream-2bw"),
    ],
)
def test_a_file_is_named_by_its_order(name, sentence):
    data = golden_data.data(f"goldens/torch_csv/{name}.csv")
    document = json.loads(run("check", "-", "--from", "torch-comms", "-t", "json", stdin=data).stdout)
    assert document["order"] == sentence


def test_an_order_that_is_not_registered_is_told_the_nearest_and_where_they_part():
    """1f1b P2 M4 with the first two forwards of rank 0 exchanged."""
    text = "0F1,0F0,0B0,0F2,0B1,0F3,0B2,0B3\n1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3\n"
    sentence = "the nearest registered order is 1f1b (14 of 16 ops agree); first: rank 0, position 0: 0F1 in this order"
    assert sentence in answer("check", "-", "--from", "torch-compute", stdin=text)
    shown = " ".join(answer("show", "-", "--from", "torch-compute", "--section", "header", stdin=text).split())
    assert sentence in shown
    notes = json.loads(answer("show", "-", "--from", "torch-compute", "-t", "json", stdin=text))["notes"]
    assert notes[-1].startswith(sentence)


def test_what_says_its_name_is_not_named_again():
    assert "this is the order" not in answer("check", "1f1b", "-P", "2", "-M", "4")
    trace = answer("trace", "1f1b", "-P", "2", "-M", "4")
    assert "this is the order" not in answer("check", "-", stdin=trace) + answer("show", "-", stdin=trace)
