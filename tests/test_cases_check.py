"""Cases from people who do this job, under "Deadlock and messages", "Work lost, doubled, mislabelled" and "Few, odd and many
microbatches": one test a row, at the command line. The other headings are in test_cases.py and test_cases_schedules.py."""

from __future__ import annotations

import json

import golden_data
import pytest
from click.testing import CliRunner

from pptrace.cli import main


def run(line, stdin=None):
    result = CliRunner().invoke(main, line.split(), input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    return result


def answer(line, stdin=None):
    result = run(line, stdin)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def converted(line):
    """A schedule file; what it cannot hold is said on stderr."""
    result = run(f"convert {line}")
    assert result.exit_code == 0
    return result.stdout


def checked(line, stdin=None):
    """The document of `pptrace check`."""
    result = run(f"check {line} -t json", stdin)
    document = json.loads(result.stdout)
    assert result.exit_code == int(document["counts"]["error"] > 0)
    return document


def only(document):
    (finding,) = document["findings"]
    return finding


def shown(line):
    """Everything that `pptrace show` knows of a schedule."""
    document = json.loads(answer(f"trace {line}"))
    metrics = {metric["key"]: metric["values"] for metric in document["metrics"]}
    unit = document["ticks_per_unit"]
    return {
        "elapsed": metrics["elapsed"][0]["numerator"] / unit,
        "idle": [value["numerator"] / unit for value in metrics["bubble_time"]],
        "fraction": (
            metrics["bubble_over_elapsed"][0]["numerator"],
            metrics["bubble_over_elapsed"][0]["denominator"],
        ),
        "peaks": [value["numerator"] for value in metrics["peak_activations"]],
        "advice": document.get("advice", ""),
        "microbatches": document["schedule"]["microbatches"],
    }


def refused(line):
    result = run(line)
    assert (result.exit_code, result.stdout) == (2, "")
    return result.stderr


CROSSED = """\
0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1
1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1
"""


# ------------------------------------------------------------------------------------------------ few, odd, many microbatches


def test_1f1b_on_eight_ranks_with_one_and_with_two_microbatches():
    one, two = shown("1f1b -P 8 -M 1 -f 1 -b 2"), shown("1f1b -P 8 -M 2 -f 1 -b 2")
    assert (one["elapsed"], one["fraction"], one["peaks"]) == (24, (21, 24), [1] * 8)
    assert (two["elapsed"], two["fraction"], two["peaks"]) == (27, (21, 27), [2, 2, 2, 2, 2, 2, 2, 1])


def test_a_warmup_as_if_there_were_more_microbatches_than_there_are():
    """P=4 M=2, rank 0 warms up with P-1-r = 3 forwards, rank 1 counts back to -1."""
    document = checked(
        "- --from torch-compute",
        "0F0,0F1,0F2,0B0,0B1\n1F0,1F1,1B0,1B1,1F-1\n2F0,2B0,2F1,2B1\n3F0,3B0,3F1,3B1\n",
    )
    places = [
        (f["code"], f["sentence"], f["rank"], f["position"], f["line"], f["column"]) for f in document["findings"]
    ]
    assert places == [
        ("microbatch-range", "0F2: microbatch 2 is not one of 0..1", 0, 2, 1, 9),
        ("microbatch-range", "1F-1: microbatch -1 is not one of 0..1", 1, 4, 2, 17),
    ]
    assert "a warm-up is at most M = 2 forwards long" in document["findings"][0]["remedy"]


def test_groups_of_four_and_of_five_on_ten_microbatches():
    default = shown("interleaved -P 4 -M 10 -v 2 --cost-per op")
    four = shown("interleaved -P 4 -M 10 -v 2 --cost-per op --group 4")
    assert (default["elapsed"], default["idle"]) == (46, [6] * 4)
    assert (four["elapsed"], four["idle"]) == (52, [12] * 4)
    finding = only(checked("interleaved -P 4 -M 10 -v 2 --cost-per op --group 4"))
    assert (finding["severity"], finding["sentence"]) == (
        "advice",
        "groups of 4 leave bubbles: groups of 5 save 6",
    )


def test_groups_of_six_on_three_microbatches():
    assert shown("interleaved -P 6 -M 3 -v 2 --cost-per op")["elapsed"] == 28
    assert refused("check interleaved -P 6 -M 3 -v 2 --group 6") == (
        "error: interleaved with --group 6 needs M >= 6, got M = 3; leave --group out, or raise M "
        "(Megatron-LM refuses M < P)\n"
    )


def test_groups_of_four_on_five_microbatches_and_three_chunks_wait_in_a_circle():
    document = checked("interleaved -P 4 -M 5 -v 3 --group 4")
    finding = only(document)
    assert (finding["code"], document["verdict"]["runs"]) == ("order-deadlock", False)
    assert finding["waits"] == [
        "rank 0: 8F4 waits for 7F4 of rank 3, which comes after 7B0",
        "rank 3: 7B0 waits for 8B0 of rank 0, which comes after 8F4",
    ]
    assert finding["remedy"] == "groups of 4 do not fit 5 microbatches; leave --group out"


@pytest.mark.parametrize(("batch", "microbatches"), [(16, 1), (32, 2), (192, 12)])
def test_microbatches_of_a_global_batch_on_twelve_ranks(batch, microbatches):
    line = f"1f1b -P 12 --data-parallel 8 --microbatch-size 2 --global-batch {batch}"
    assert shown(line)["microbatches"] == microbatches
    assert f"{batch} / (2 x 8) = {microbatches}" in " ".join(answer(f"show {line} --section header").split())


def test_one_microbatch_on_two_ranks():
    found = shown("1f1b -P 2 -M 1 -f 3 -b 5")
    assert (found["elapsed"], found["fraction"]) == (16, (8, 16))


# -------------------------------------------------------------------------------------------------------- deadlock, messages


def test_two_ranks_that_each_send_and_then_receive():
    finding = only(checked("- --from torch-comms --sends rendezvous", CROSSED))
    assert (finding["code"], finding["line"], finding["column"]) == ("message-deadlock", 1, 18)
    assert finding["waits"] == [
        "rank 0: 0SEND_F1 waits for 1RECV_F1 of rank 1, which comes after 1SEND_B0",
        "rank 1: 1SEND_B0 waits for 0RECV_B0 of rank 0, which comes after 0SEND_F1",
    ]
    assert checked("- --from torch-comms --sends rendezvous --grouping batched", CROSSED)["findings"] == []
    assert checked("- --from torch-comms", CROSSED)["findings"] == []


def test_1f1b_with_every_message_on_its_own():
    finding = only(checked("1f1b -P 2 -M 4 --sends rendezvous"))
    assert finding["next_ops"] == [{"rank": 0, "op": "0SEND_F1"}, {"rank": 1, "op": "1SEND_B0"}]


def test_untagged_messages_of_both_directions_between_one_pair():
    finding = only(checked("interleaved -P 2 -M 4 -v 2 --tags no"))
    assert (finding["severity"], finding["code"]) == ("warning", "ambiguous-messages")
    assert "they can be taken for each other" in finding["sentence"]


def test_a_forward_that_never_receives_its_input():
    lowered = converted("1f1b -P 4 -M 8 --to torch-comms --recv inline").replace("2RECV_F1,", "")
    finding = only(checked("- --from torch-comms", lowered))
    assert finding["sentence"] == "2F1 runs without a RECV_F1; 1SEND_F1 is sent and never taken"
    assert (finding["rank"], finding["line"]) == (2, 3)


def test_gradients_that_come_in_the_other_order_than_they_are_used():
    rows = converted("looped-bfs -P 2 -M 4 -v 1 --to torch-compute").split()
    assert rows[0].endswith("0B3,0B2,0B1,0B0")
    rows[0] = rows[0].replace("0B3,0B2,0B1,0B0", "0B0,0B1,0B2,0B3")
    document = checked("- --from torch-compute --tags no", "\n".join(rows))
    assert only(document)["sentence"].startswith("0B0 would take the gradient of microbatch 3")


@pytest.mark.parametrize(
    ("options", "assumed"),
    [
        ("", ("buffered", "(per-op)", "carry tags")),
        ("--sends rendezvous --grouping batched", ("rendezvous", "(batched)", "carry tags")),
        ("--tags no", ("buffered", "(per-op)", "carry no tags")),
    ],
)
def test_the_verdict_says_what_it_rests_on_and_never_more(options, assumed):
    verdict = checked(f"1f1b -P 4 -M 8 {options}")["verdict"]
    assert verdict["sentence"] == "deadlock-free under these assumptions"
    sends, grouping, tags, inline = verdict["assumptions"]
    for said, word in zip((sends, grouping, tags), assumed, strict=True):
        assert word in said
    assert "(inline)" in inline


# ------------------------------------------------------------------------------------------------- lost, doubled, mislabelled


def test_a_cooldown_cut_off_is_lost_work_and_no_shorter_schedule():
    rows = converted("1f1b -P 4 -M 8 --to torch-compute").split()
    assert rows[0].endswith(",0B5,0B6,0B7")
    rows[0] = rows[0].removesuffix(",0B5,0B6,0B7")
    document = checked("- --from torch-compute", "\n".join(rows))
    finding = only(document)
    assert (finding["code"], finding["ops"], finding["line"]) == ("lost-cooldown", ["0B5", "0B6", "0B7"], 1)
    assert "3 activations are alive at the end" in finding["sentence"]
    result = run("show - --from torch-compute", "\n".join(rows))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "rank 0 has no 0B5 (and 2 more)" in result.stderr


def test_the_columns_of_a_schedule_file_are_no_time_axis():
    name = next(name for name in golden_data.names("inputs/schedules/") if "dualpipev_4rank" in name)
    text = golden_data.text(name)
    assert sum(len([cell for cell in line.split(",") if cell.strip()]) for line in text.splitlines()) == 141
    finding = only(checked("- --from torch-compute --columns-are-time", text))
    assert finding["sentence"].startswith("50 of 182 ops start before something they wait for (all across ranks)")
    assert checked("- --from torch-compute", text)["findings"] == []


def test_a_weight_gradient_dropped_from_a_file_whose_b_is_the_input_half():
    rows = converted("zb-h1 -P 2 -M 4 --to torch-compute").replace("I", "B").split()
    assert rows[1].count("1W2") == 1
    rows[1] = rows[1].replace(",1W2", "")
    document = checked("- --from torch-compute", "\n".join(rows))
    assert "letter B: the input half, because its stages have W" in document["notes"]
    finding = only(document)
    assert (finding["code"], finding["ops"]) == ("lost-weight-gradient", ["1W2"])
    assert finding["sentence"] == (
        "rank 1 never runs 1W2, though the input half is there (written 1B2): the weight gradient is lost"
    )


@pytest.mark.parametrize(("layers", "ranks", "spread"), [(30, 4, "8 8 7 7"), (40, 16, " ".join(["3"] * 8 + ["2"] * 8))])
def test_layers_that_no_equal_share_fits_are_all_placed(layers, ranks, spread):
    assert sum(map(int, spread.split())) == layers
    header = " ".join(answer(f"show 1f1b -P {ranks} -M 4 --layers {layers} --section header").split())
    assert f"{layers} layers, per stage {spread}" in header


def test_a_text_grid_that_waits_longer_than_it_has_to():
    """gpipe P4 M4, backwards LIFO, 18 columns: dots of its own choice between the last F and the first B of a rank."""
    rows = []
    for rank, dots in enumerate((10, 6, 3, 0)):
        cells = ["."] * rank + [f"F{m}" for m in range(4)] + ["."] * dots + [f"B{m}" for m in (3, 2, 1, 0)]
        rows.append(f"r{rank}: " + " ".join(f"{cell:<2}" for cell in cells))
    finding = only(checked("- --from grid", "\n".join(rows)))
    assert (finding["severity"], finding["code"]) == ("advice", "chosen-delay")
    assert finding["sentence"] == (
        "3 ops start later than possible: 2B3 +1, 1B3 +1, 0B3 +2; elapsed 18, the same order could take 14"
    )
