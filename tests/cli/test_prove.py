"""`pptrace prove`: verdicts, exit codes, text and JSON, files as well as names."""

from __future__ import annotations

import json

import golden_data
import pytest
from click.testing import CliRunner

from pptrace.cli import main


def run(*arguments: str, given: bytes | None = None):
    return CliRunner().invoke(main, ["prove", *arguments], input=given)


def document(*arguments: str, given: bytes | None = None):
    return json.loads(run(*arguments, "-t", "json", given=given).stdout)


def test_1f1b_with_fewer_microbatches_than_ranks_is_proved():
    result = run("1f1b", "-P", "4", "-M", "3")
    assert result.exit_code == 0
    assert "ops run  12 F  12 B  4 REDUCE  4 STEP\n" in result.stdout
    assert "gradient, stage 3  equal\n" in result.stdout
    assert result.stdout.endswith(
        "verdict: proved: outputs, losses, gradients of all 4 stages and updated weights equal the unsplit step\n"
    )


def test_json_says_the_same():
    found = document("zb-h1", "-P", "2", "-M", "3")
    assert found["schema"] == "pptrace.proof/1"
    assert found["proved"] is True
    assert {op["op"]: op["ran"] for op in found["ops"]} == {"F": 6, "I": 6, "W": 6, "REDUCE": 2, "STEP": 2}
    assert found["gradients"] == [{"stage": s, "update": 0, "equal": True} for s in (0, 1)]
    assert found["faults"] == found["lessons"] == []


def test_several_steps_compare_every_update():
    found = document("gpipe", "-P", "2", "-M", "2", "--steps", "3")
    assert found["proved"] is True
    assert sorted({part["update"] for part in found["weights"]}) == [0, 1, 2]


def test_too_many_exact_steps_are_refused_with_the_way_out():
    result = run("1f1b", "-P", "4", "-M", "4", "--steps", "8")
    assert result.exit_code == 2
    assert "use --arithmetic float64" in result.stderr
    assert run("1f1b", "-P", "4", "-M", "4", "--steps", "8", "--arithmetic", "float64").exit_code == 0


def test_a_lost_cooldown_in_a_file_is_named_and_exits_1(tmp_path):
    path = tmp_path / "lost.csv"
    path.write_text("0F0,0F1,0B0,0F2\n1F0,1B0,1F1,1B1,1F2,1B2\n")
    result = run(str(path))
    assert result.exit_code == 1
    assert "outputs and losses equal, gradients of stage 0 incomplete: microbatches 1 2 missing" in result.stdout


def test_an_order_that_the_engine_refuses_is_run_and_diagnosed(tmp_path):
    path = tmp_path / "stuck.csv"
    path.write_text("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n")
    found = document(str(path))
    assert found["refused"].startswith("deadlock: ")
    assert found["proved"] is False


def test_the_faulty_1f1b_of_pytorch_has_no_activation_of_microbatch_0(tmp_path):
    path = tmp_path / "faulty.csv"
    path.write_bytes(golden_data.data("goldens/torch_csv/1f1b_P4_M8_v1.compute.csv"))
    result = run(str(path))
    assert result.exit_code == 1
    assert "missing-activation: 3B0 (op 1 of rank 3) needs the activation saved by its forward" in result.stdout
    assert "stage 3 holds that of microbatch 1" in result.stdout


@pytest.mark.parametrize(
    "name",
    [
        "pytorch_dualpipev_4rank_10mb.csv",
        "pytorch_zb1p_2rank_2stagep_compute.csv",
        "pytorch_zb1p_2rank_2stagep_comms.csv",
    ],
)
def test_the_schedule_files_of_pytorch_are_proved(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(golden_data.data(f"inputs/schedules/{name}"))
    assert run(str(path), "--cost-per", "op").exit_code == 0
    assert run(str(path), "--steps", "2").exit_code == 0


def test_a_trace_is_followed_as_it_is():
    trace = CliRunner().invoke(main, ["trace", "1f1b", "-P", "3", "-M", "4", "--steps", "2"])
    found = document("-", given=trace.stdout_bytes)
    assert (found["proved"], found["updates"]) == (True, 2)


def test_a_ring_that_is_too_small_names_the_first_slot():
    result = run("1f1b", "-P", "4", "-M", "8", "--buffers", "3")
    assert result.exit_code == 1
    assert "slot-reused: 0F3 (t=3) takes slot 0 of stage 0" in result.stdout


def test_expected_differences_exit_1_and_say_so():
    result = run("1f1b", "-P", "2", "-M", "4", "--normalization", "sum")
    assert result.exit_code == 1
    assert "sum   (to be expected: different)" in result.stdout
    assert "all of that is to be expected" in " ".join(result.stdout.split())
    found = document("1f1b", "-P", "2", "-M", "4", "--dropout", "ordered")
    assert found["lessons"][0]["expects"] == "differs"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["1f1b", "-P", "2", "-M", "2", "--seed", "-1"], "--seed is a whole number"),
        (["1f1b", "-P", "2", "-M", "2", "--buffers", "0"], "--buffers must be at least 1"),
        (["1f1b", "-P", "2"], "needs -M"),
        (["1f1c", "-P", "2"], "did you mean 1f1b?"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(arguments, message):
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_output_goes_to_a_file(tmp_path):
    path = tmp_path / "proof.json"
    assert run("1f1b", "-P", "2", "-M", "2", "-o", str(path)).stdout == ""
    assert json.loads(path.read_text())["proved"] is True


def show(*arguments: str, given: bytes | None = None):
    return CliRunner().invoke(main, ["show", *arguments], input=given)


def test_show_adds_the_verdict_beside_the_metrics():
    shown = show("1f1b", "-P", "2", "-M", "3", "--section", "metrics", "--prove")
    assert shown.exit_code == 0
    assert "numerical equivalence (exact arithmetic): proved: outputs, losses, gradients" in shown.stdout


def test_what_show_says_of_the_proof_is_in_its_json():
    shown = show("1f1b", "-P", "2", "-M", "3", "--prove", "-t", "json")
    found = json.loads(shown.stdout)
    assert shown.exit_code == 0
    assert found["proof"] == {
        "arithmetic": "exact",
        "proved": True,
        "verdict": "proved: outputs, losses, gradients of all 2 stages and updated weights equal the unsplit step",
        "faults": [],
    }
    assert "proof" not in json.loads(show("1f1b", "-P", "2", "-M", "3", "-t", "json").stdout)
    header = json.loads(show("1f1b", "-P", "2", "-M", "3", "--prove", "-t", "jsonl").stdout.splitlines()[0])
    assert header["proof"] == found["proof"]


def test_a_trace_with_a_verdict_is_shown_as_one_without():
    with_verdict = show("1f1b", "-P", "2", "-M", "3", "--prove", "-t", "json")
    assert show("-", given=with_verdict.stdout_bytes).stdout == show("1f1b", "-P", "2", "-M", "3").stdout


@pytest.mark.parametrize("format_name", ["md", "html", "svg"])
def test_figures_have_the_verdict_among_their_notes(format_name):
    plain = show("1f1b", "-P", "2", "-M", "3", "-t", format_name).stdout
    proved = show("1f1b", "-P", "2", "-M", "3", "-t", format_name, "--prove").stdout
    assert "numerical equivalence" not in plain
    assert "numerical equivalence (exact arithmetic): proved" in proved


def test_show_exits_1_where_the_proof_fails_in_every_medium():
    """pipedream is shown all the same; its weights are not those of the synchronous update."""
    for format_name in ("text", "json", "md"):
        shown = show("pipedream", "-P", "2", "-M", "3", "--prove", "-t", format_name)
        assert shown.exit_code == 1
        assert "not proved: outputs and losses differ" in " ".join(shown.stdout.split())


ROWS = ["0F0,0F1,0F2,0B0,0B1,0B2", "1F0,1B0,1F1,1B1,1F2,1B2"]


@pytest.mark.parametrize(
    ("rows", "fault", "clause"),
    [
        (
            ["0F0,0F1,0F1,0F2,0B0,0B1,0B2", ROWS[1]],
            "repeated-op: 0F1 (op 2 of rank 0) runs a second time",
            "equal the unsplit step, but 1 fault in the use of state: repeated-op at 0F1 (op 2 of rank 0)",
        ),
        (
            [ROWS[0], "1F0,1B0,1F1,1B1,1F2,1B1"],
            "repeated-op: 1B1 (op 5 of rank 1) runs a second time",
            "gradients of stages 0 1 incomplete: microbatch 2 missing",
        ),
        (
            ["0F0,0F1,0F2,0B0,0B1,0B2,1F1", ROWS[1]],
            "stray-op: 1F1 (op 6 of rank 0) runs on rank 0, but stage 1 is on rank 1",
            "1 fault in the use of state: stray-op at 1F1",
        ),
        (
            [ROWS[0], "1F0,1B0,1F1,1B1,1F3,1B2"],
            "stray-op: 1F3 (op 4 of rank 1) is of a microbatch that is not there; there are 3",
            "outputs and losses incomplete: microbatch 2 missing",
        ),
        (
            [ROWS[0] + ",0REDUCE_GRAD", "1F0,1B0,1F1,1B1,1F2,1REDUCE_GRAD,1B2"],
            "late-gradient: 1B2 (op 6 of rank 1) adds the gradient of microbatch 2 after stage 1 was reduced",
            "gradients of stage 1 incomplete: microbatch 2 came after the update",
        ),
    ],
    ids=["doubled", "doubled for another", "on two ranks", "out of range", "reduced too early"],
)
def test_a_file_of_which_no_schedule_can_be_made_is_diagnosed_and_exits_1(tmp_path, rows, fault, clause):
    path = tmp_path / "faulty.csv"
    path.write_text("\n".join(rows) + "\n")
    result = run(str(path))
    text = " ".join(result.stdout.split())
    assert result.exit_code == 1
    assert fault in text
    assert clause in text


def test_several_steps_of_a_file_that_holds_no_whole_step_are_refused(tmp_path):
    path = tmp_path / "doubled.csv"
    path.write_text("0F0,0F0,0B0\n")
    result = run(str(path), "--steps", "2")
    assert result.exit_code == 2
    assert "--steps repeats a whole step" in result.stderr


def test_M_is_not_for_a_trace_that_says_its_own():
    trace = CliRunner().invoke(main, ["trace", "1f1b", "-P", "2", "-M", "3"])
    result = run("-", "-M", "4", given=trace.stdout_bytes)
    assert result.exit_code == 2
    assert "says itself how many microbatches it has" in result.stderr


def test_M_says_how_many_microbatches_a_file_should_have_run(tmp_path):
    path = tmp_path / "short.csv"
    path.write_text("\n".join(ROWS) + "\n")
    assert run(str(path), "-M", "3").exit_code == 0
    result = run(str(path), "-M", "4")
    assert result.exit_code == 1
    assert "outputs and losses incomplete: microbatch 3 missing" in " ".join(result.stdout.split())
    assert "stage 0 DIFFERENT: missing 3" in " ".join(result.stdout.split())


def test_the_verdict_of_a_lesson_says_that_it_was_to_be_expected_only_of_a_right_schedule(tmp_path):
    path = tmp_path / "lost.csv"
    path.write_text("0F0,0F1,0B0,0F2\n1F0,1B0,1F1,1B1,1F2,1B2\n")
    right = document("1f1b", "-P", "2", "-M", "3", "--normalization", "batch")
    wrong = document(str(path), "--normalization", "batch")
    assert (right["proved"], right["expected"]) == (False, True)
    assert (wrong["proved"], wrong["expected"]) == (False, False)
    assert [lesson["explains"] for lesson in wrong["lessons"]] == [False]


@pytest.mark.parametrize(
    "run_name",
    [
        "DualPipeV_P2_M4_v2",
        "GPipe_P2_M4_v1",
        "Interleaved1F1B_P2_M4_v2",
        "InterleavedZeroBubble_P2_M4_v2",
        "LoopedBFS_P2_M4_v2",
        "ZBVZeroBubble_P2_M4_v2",
    ],
)
def test_what_pytorch_ran_is_proved_from_its_profiler_traces(tmp_path, run_name):
    """GPipe's range of 0F0 holds the launch of its message and ends after 1F0 does: its times are no order across ranks."""
    paths = golden_data.names(f"inputs/traces/{run_name}")
    assert len(paths) == 2
    for path in paths:
        (tmp_path / path.rpartition("/")[2]).write_bytes(golden_data.data(path))
    result = run(str(tmp_path))
    assert result.exit_code == 0
    assert "measured ranges hold waits and sends: each rank runs in its own order" in " ".join(result.stdout.split())
