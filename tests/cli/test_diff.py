"""`pptrace diff`: the first difference per rank, what it costs, exit codes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import golden_data
from running import answer, refusal, run

if TYPE_CHECKING:
    from pathlib import Path

TORCHTITAN = "inputs/schedules/torchtitan_custom_schedule_2rank_4stage_8mb.csv"

GPIPE_AND_1F1B = """\
A: gpipe
B: 1f1b

the orders differ
  rank 0, position 4: 0F4 in A, 0B0 in B
  rank 1, position 3: 1F3 in A, 1B0 in B
  rank 2, position 2: 2F2 in A, 2B0 in B
  rank 3, position 1: 3F1 in A, 3B0 in B

with the same costs                       A                B                B - A
elapsed                                   22               22               0
bubble time                               6 on every rank  6 on every rank  0 on every rank
bubble / elapsed (elapsed idle fraction)  6/22 = 0.273     6/22 = 0.273     0
bubble / ideal (overhead ratio)           6/16 = 0.375     6/16 = 0.375     0
exposed communication                     0                0                0
peak activations                          8 on every rank  4 3 2 1          -4 -5 -6 -7
"""


def test_gpipe_and_1f1b_take_the_same_time_and_hold_8_against_4_3_2_1() -> None:
    result = run("diff", "gpipe", "1f1b", "-P", "4", "-M", "8")
    assert (result.exit_code, result.stdout, result.stderr) == (1, GPIPE_AND_1F1B, "")


def test_equal_orders_leave_with_0() -> None:
    text = answer("diff", "interleaved,v=1", "eager-1f1b", "-P", "4", "-M", "8")
    assert "the orders are equal" in text
    assert text.startswith("A: interleaved,v=1\nB: eager-1f1b\n")


def test_groups_of_4_cost_6_more_than_groups_of_5_at_10_microbatches() -> None:
    costs = ("--cost-per", "op", "-f", "1", "-b", "1", "-t", "json")
    result = run("diff", "interleaved,group=5", "interleaved,group=4", "-P", "4", "-M", "10", "-v", "2", *costs)
    found = json.loads(result.stdout)
    assert (found["schema"], found["equal"]) == ("pptrace.difference/1", False)
    assert found["ranks"][0] == {"rank": 0, "position": 4, "a": ["0F4"], "b": ["4F0"]}
    elapsed = found["measures"][0]
    assert (elapsed["a"], elapsed["b"], elapsed["change"]) == (["46"], ["52"], ["6"])


def test_a_name_takes_the_sizes_of_the_file_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "titan.csv"
    file.write_bytes(golden_data.data(TORCHTITAN))
    result = run("diff", str(file), "looped-bfs", "--split-backward")
    assert "rank 0, position 16: 2I0 in A, 2I7 in B" in result.stdout
    turned = run("diff", "looped-bfs", str(file), "--split-backward")
    assert "rank 0, position 16: 2I7 in A, 2I0 in B" in turned.stdout


def test_a_deadlock_is_told_beside_the_difference(tmp_path: Path) -> None:
    file = tmp_path / "stuck.csv"
    file.write_text("0F0,0B0,0F1,0B1\n1F1,1F0,1B0,1B1\n")
    result = run("diff", str(file), "1f1b")
    assert result.exit_code == 1
    assert "rank 1, position 0: 1F1 in A, 1F0 in B" in result.stdout
    assert "with the same costs" not in result.stdout
    assert result.stderr.startswith("note: times are left out, because one of the two never ends: deadlock: ")


def test_two_files_and_other_sizes(tmp_path: Path) -> None:
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    one.write_text("0F0,0B0\n")
    two.write_text("0F0,0B0\n1F0,1B0\n")
    result = run("diff", str(one), str(two))
    assert result.exit_code == 1
    assert (
        "  ranks: 1 against 2\n  stages: 1 against 2\n  rank 1, position 0: the end in A, 1F0 in B\n" in result.stdout
    )


def test_standard_input_can_be_one_of_the_two() -> None:
    trace = answer("trace", "1f1b", "-P", "2", "-M", "3")
    assert "the orders are equal" in answer("diff", "-", "1f1b", stdin=trace)
    assert refusal("diff", "-", "-") == "standard input can be only one of the two; name a file for the other"


def test_file_names_cannot_inject(tmp_path: Path) -> None:
    file = tmp_path / "a\x1b[31m.csv"
    file.write_text("0F0,0B0\n")
    assert "\x1b" not in run("diff", str(file), "1f1b").stdout
