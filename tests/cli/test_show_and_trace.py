"""`show` and `trace`: the figures, the pipe between them, the options."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import golden_data
import pytest
from running import answer, run, trace_of

from pptrace.schedules.registry import names

if TYPE_CHECKING:
    from pathlib import Path

GRID_1F1B = """\
time    |0  1  2  3  4  5  6  7  8  9  10 11 12 13
stage 0 |F0 F1 F2 F3 .  .  .  B0 .  B1 .  B2 .  B3
stage 1 |.  F0 F1 F2 .  .  B0 F3 B1 .  B2 .  B3 .
stage 2 |.  .  F0 F1 .  B0 F2 B1 F3 B2 .  B3 .  .
stage 3 |.  .  .  F0 B0 F1 B1 F2 B2 F3 B3 .  .  .
"""
GRID_GPIPE = """\
time    |0  1  2  3  4  5  6  7  8  9  10 11 12 13
stage 0 |F0 F1 F2 F3 .  .  .  .  .  .  B0 B1 B2 B3
stage 1 |.  F0 F1 F2 F3 .  .  .  .  B0 B1 B2 B3 .
stage 2 |.  .  F0 F1 F2 F3 .  .  B0 B1 B2 B3 .  .
stage 3 |.  .  .  F0 F1 F2 F3 B0 B1 B2 B3 .  .  .
"""
PIPES = [
    *[f"{name} -P 4 -M 8" for name in names()],
    "1f1b -P 3 -M 5 -f 1,3/2,0.1 -c 1/3 --link serial",
    "1f1b -P 3 -M 2 --recompute full --steps 2 --reduce 1/7 --step-time 2",
    "gpipe -P 3 -M 4 --order lifo --split-backward --optimizer per-stage",
    "gpipe -P 2 -M 6 --recompute early --activation-bytes 1GiB --boundary-bytes 3MB,2MB --weight-bytes 7",
    "interleaved -P 2 -M 4 -v 3 --cost-per op -f 2 -b 5 -w 1 --group 4 -c 1,2",
    "dualpipev -P 4 -M 8 --overlap max -c 2",
    "dualpipe -P 4 -M 8 --overlap split",
    "dualpipev -P 2 -M 6 --overlap 7/3",
    "zb-h1 -P 2 -M 4 --steps 3",
    "1f1b -P 4 --global-batch 64 --microbatch-size 2 --data-parallel 4",
]


def test_1f1b_and_gpipe_of_four_are_drawn_as_the_design_draws_them() -> None:
    assert answer("show", "1f1b", "-P", "4", "-M", "4", "--section", "grid") == GRID_1F1B
    assert answer("show", "gpipe", "-P", "4", "-M", "4", "--section", "grid") == GRID_GPIPE


@pytest.mark.parametrize("line", PIPES)
def test_a_trace_piped_into_show_prints_what_show_prints(line: str) -> None:
    args = line.split()
    shown = answer("show", *args)
    assert answer("show", "-", stdin=answer("trace", *args)) == shown
    assert answer("show", "-", stdin=answer("trace", *args, "-t", "jsonl")) == shown


@pytest.mark.parametrize("line", PIPES)
def test_a_trace_read_and_written_again_is_the_same_bytes(line: str) -> None:
    for to in ("json", "jsonl"):
        written = answer("trace", *line.split(), "-t", to)
        assert answer("trace", "-", "-t", to, stdin=written) == written


def test_a_schedule_file_of_a_framework_pipes_like_a_name(tmp_path: Path) -> None:
    path = tmp_path / "dualpipev.csv"
    path.write_text(golden_data.text("inputs/schedules/pytorch_dualpipev_4rank_10mb.csv"))
    args = (str(path), "--cost-per", "op", "-f", "1", "-b", "2", "-w", "1")
    assert answer("show", "-", stdin=answer("trace", *args)) == answer("show", *args)
    metrics = {metric["key"]: metric["values"] for metric in trace_of(*args)["metrics"]}
    assert metrics["elapsed"] == [{"numerator": 66, "denominator": 1}]
    assert [value["numerator"] for value in metrics["bubble_time"]] == [6, 6, 6, 6]
    assert [value["numerator"] for value in metrics["peak_activations"]] == [9, 9, 9, 9]


def test_the_trace_of_1f1b_of_four_has_the_figures_everyone_knows() -> None:
    found = trace_of("1f1b", "-P", "4", "-M", "4")
    assert found["schema"] == "pptrace.trace/1"
    assert found["events"][0] == {
        "id": "0F0",
        "rank": 0,
        "stage": 0,
        "op": "F",
        "microbatch": 0,
        "step": 0,
        "start": 0,
        "end": 1,
        "after": [],
    }
    assert found["events"][-1]["id"] == "3STEP"
    assert found["events"][-1]["after_all"] == "REDUCE"
    metrics = {metric["key"]: metric for metric in found["metrics"]}
    ratio = metrics["bubble_over_elapsed"]
    assert ratio["values"] == [{"numerator": 6, "denominator": 14}]
    assert ratio["denominator"] == "elapsed"
    assert [peak["held"] for peak in found["memory"]["peaks"]] == [4, 3, 2, 1]
    first = found["lifetimes"][0]
    assert (first["created_by"], first["released_by"], first["start"], first["end"]) == ("0F0", "0B0", 0, 8)


def test_messages_that_take_time_are_in_the_trace() -> None:
    found = trace_of("1f1b", "-P", "2", "-M", "1", "-c", "3/2")
    assert found["ticks_per_unit"] == 2
    assert [event for event in found["events"] if event["op"] == "SEND_F"] == [
        {
            "id": "0SEND_F0",
            "rank": 0,
            "stage": 0,
            "op": "SEND_F",
            "microbatch": 0,
            "step": 0,
            "start": 2,
            "end": 5,
            "after": ["0F0"],
            "to": 1,
        }
    ]
    assert [(event["id"], event["start"], event["after"]) for event in found["events"]][:6] == [
        ("0F0", 0, []),
        ("0SEND_F0", 2, ["0F0"]),
        ("1F0", 5, ["0F0"]),
        ("1B0", 7, ["1F0"]),
        ("1SEND_B0", 9, ["1B0"]),
        ("1REDUCE", 9, ["1B0"]),
    ]


def test_a_message_stands_behind_the_op_that_it_comes_of() -> None:
    """Events come by (start, rank, place in the rank's list), and a message's place is right behind its op's."""
    events = trace_of("gpipe", "-P", "2", "-M", "2", "-c", "1")["events"]
    assert [event["id"] for event in events if event["rank"] == 0][:5] == ["0F0", "0SEND_F0", "0F1", "0SEND_F1", "0B0"]


def test_a_message_on_a_busy_link_departs_when_the_link_is_free() -> None:
    events = trace_of("1f1b", "-P", "2", "-M", "2", "-c", "3/2", "--link", "serial")["events"]
    sent = {event["id"]: (event["start"], event["end"]) for event in events if event["op"].startswith("SEND")}
    assert sent == {"0SEND_F0": (2, 5), "0SEND_F1": (5, 8), "1SEND_B0": (9, 12), "1SEND_B1": (13, 16)}


def test_without_latency_no_message_is_in_the_trace() -> None:
    assert "SEND" not in answer("trace", "1f1b", "-P", "3", "-M", "4")


def test_events_come_by_start_then_rank_then_place_in_the_list() -> None:
    events = trace_of("zb-h1", "-P", "3", "-M", "5", "--steps", "2")["events"]
    keys = [(event["start"], event["rank"]) for event in events]
    assert keys == sorted(keys)
    assert [event["id"] for event in events if event["rank"] == 0 and event["step"] == 1][:2] == ["0F0@1", "0F1@1"]


def test_cost_options_time_a_recorded_order_again() -> None:
    written = answer("trace", "1f1b", "-P", "4", "-M", "8", "-b", "2")
    again = json.loads(answer("trace", "-", "-c", "1", stdin=written))
    assert again["metrics"][0]["values"] == [{"numerator": 49, "denominator": 1}]
    assert again["costs"]["backward"]["values"] == ["2"]


def test_the_derived_number_of_microbatches_is_said() -> None:
    shown = answer("show", "1f1b", "-P", "4", "--global-batch", "64", "--microbatch-size", "2", "--data-parallel", "4")
    assert "M=8 microbatches" in shown
    assert "64 / (2 x 4) = 8" in " ".join(shown.split())


def test_the_number_of_ranks_follows_from_a_costs_file(tmp_path: Path) -> None:
    path = tmp_path / "three.toml"
    path.write_text("forward = [1, 2, 1]\nbackward = 2\ncomm = 1\n")
    assert trace_of("1f1b", "-M", "1", "--costs", str(path))["schedule"]["ranks"] == 3
    # F 1+2+1, B 2+2+2 and four hops of 1; without them 10
    assert trace_of("1f1b", "-M", "1", "--costs", str(path))["metrics"][0]["values"][0]["numerator"] == 14
    assert trace_of("1f1b", "-M", "1", "--costs", str(path), "-c", "0")["metrics"][0]["values"][0]["numerator"] == 10


def test_what_follows_a_name_goes_before_the_options() -> None:
    one = answer("show", "interleaved,v=2,f=2", "-P", "2", "-M", "4", "-f", "1")
    assert one == answer("show", "interleaved", "-v", "2", "-f", "2", "-P", "2", "-M", "4")
    lists = answer("show", "1f1b,P=2,M=3,f=1,2,c=1/2")
    assert lists == answer("show", "1f1b", "-P", "2", "-M", "3", "-f", "1,2", "-c", "1/2")
    assert answer("show", "gpipe,split-backward", "-P", "2", "-M", "2") == answer(
        "show", "gpipe", "--split-backward", "-P", "2", "-M", "2"
    )


def test_defaults_of_costs() -> None:
    plain = trace_of("1f1b", "-P", "2", "-M", "2")["costs"]
    assert (plain["forward"]["values"], plain["backward"]["values"]) == (["1"], ["1"])
    split = trace_of("zb-h1", "-P", "2", "-M", "2")["costs"]
    assert (split["backward"]["values"], split["weight_grad"]["values"]) == (["2"], ["1"])
    halved = trace_of("1f1b", "-P", "2", "-M", "2", "-b", "3,5")["costs"]
    assert halved["weight_grad"]["values"] == ["3/2", "5/2"]


def test_show_takes_a_window_ranks_and_one_based_names() -> None:
    part = answer("show", "1f1b", "-P", "4", "-M", "4", "--section", "grid", "--window", "4:8", "--only-ranks", "2-3")
    assert part == "time    |4  5  6  7\nstage 2 |.  B0 F2 B1\nstage 3 |B0 F1 B1 F2\n"
    named = answer("show", "1f1b", "-P", "2", "-M", "1", "--section", "grid", "--one-based")
    assert named == "time |0  1  2  3\nS1   |F1 .  .  B1\nS2   |.  F1 B1 .\n"


def test_show_as_json_is_the_trace_and_a_suffix_chooses_the_format(tmp_path: Path) -> None:
    written = answer("trace", "1f1b", "-P", "2", "-M", "2")
    assert answer("show", "1f1b", "-P", "2", "-M", "2", "-t", "json") == written
    for name, flags in (("x.json", []), ("x.jsonl", []), ("x.txt", ["-t", "jsonl"])):
        assert answer("trace", "1f1b", "-P", "2", "-M", "2", "-o", str(tmp_path / name), *flags) == ""
    assert (tmp_path / "x.json").read_text() == written
    assert (tmp_path / "x.jsonl").read_text() == (tmp_path / "x.txt").read_text()
    assert answer("show", str(tmp_path / "x.jsonl")) == answer("show", "1f1b", "-P", "2", "-M", "2")


def test_an_edited_trace_is_shown_with_a_warning() -> None:
    found = trace_of("1f1b", "-P", "2", "-M", "2")
    late = next(event for event in found["events"] if event["id"] == "0B1")
    late["end"] += 1
    for event in found["events"]:
        if event["op"] in ("REDUCE", "STEP"):
            event["start"] = event["end"] = 7
    result = run("show", "-", stdin=json.dumps(found))
    assert result.exit_code == 0
    assert "warning: $.lifetimes[1]: the file says activation 0,1 on rank 0 in [1, 6), its events give" in result.stderr
    assert "warning: $.metrics[0]: the file says elapsed = 6, its events give 7" in result.stderr


def test_colour_is_for_terminals_or_on_demand() -> None:
    args = ("show", "1f1b", "-P", "2", "-M", "2")
    plain = answer(*args)
    colored = answer(*args, "--color", "always")
    assert "\x1b[" not in plain
    assert "\x1b[" in colored
    assert answer("--color", "always", *args) == colored
    assert run(*args, env={"FORCE_COLOR": "1"}).stdout == colored
    assert run(*args, env={"FORCE_COLOR": "1", "NO_COLOR": "1"}).stdout == plain
    assert run(*args, "--color", "never", env={"FORCE_COLOR": "1"}).stdout == plain


def test_an_update_says_what_it_waits_for() -> None:
    """REDUCE: the last B or W of its stage; STEP: every REDUCE, said in a word, or its own with a step per stage."""
    events = {event["id"]: event for event in trace_of("interleaved", "-P", "2", "-M", "2", "--steps", "2")["events"]}
    assert [events[name]["after"] for name in ("0REDUCE", "2REDUCE", "3REDUCE@1")] == [["0B1"], ["2B1"], ["3B1@1"]]
    assert (events["2STEP"]["after"], events["2STEP"]["after_all"]) == ([], "REDUCE")
    split = {
        event["id"]: event for event in trace_of("zb-h1", "-P", "2", "-M", "3", "--optimizer", "per-stage")["events"]
    }
    assert (split["1REDUCE"]["after"], split["1STEP"]["after"]) == (["1W2"], ["1REDUCE"])
    assert "after_all" not in split["1STEP"]
    without_flush = trace_of("pipedream", "-P", "2", "-M", "2")["events"]
    assert {tuple(event["after"]) for event in without_flush if event["op"] in ("REDUCE", "STEP")} == {()}
