"""`pptrace check` on timed traces that somebody edited: times, lifetimes and ops against each other."""

from __future__ import annotations

import json

import pytest
from running import answer, refusal, run

NAIVE = ("naive", "-P", "2", "-M", "2")
"""f=b=1: rank 0 runs 0F0 in [0, 1), 0B0 in [3, 4), 0F1 in [4, 5), 0B1 in [7, 8)."""


def trace():
    return json.loads(answer("trace", *NAIVE))


def event(document, name):
    return next(event for event in document["events"] if event["id"] == name)


def life(document, stage, microbatch):
    return next(life for life in document["lifetimes"] if (life["stage"], life["microbatch"]) == (stage, microbatch))


def codes(document, *options, exit_code=1):
    result = run("check", "-", "-t", "json", *options, stdin=json.dumps(document))
    assert (result.exit_code, result.stderr) == (exit_code, "")
    return [(found["code"], found["sentence"]) for found in json.loads(result.stdout)["findings"]]


def test_a_trace_as_written_is_clean():
    assert codes(trace(), exit_code=0) == []


@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_an_activation_released_for_another_microbatch(form):
    lines = answer("trace", *NAIVE, "-t", form)
    old = '"stage":0,"microbatch":1,"step":0,"rank":0,"start":4,"end":8,"shrinks":null,"created_by":"0F1","released_by":"0B1"'
    assert lines.count(old) == 1
    edited = lines.replace(old, old.replace('"released_by":"0B1"', '"released_by":"0B0"'))
    result = run("check", "-", "-t", "json", stdin=edited)
    (finding,) = json.loads(result.stdout)["findings"]
    assert (finding["code"], finding["rank"], finding["position"]) == ("released-for-another", 0, 3)
    assert finding["sentence"] == "the activation of stage 0, microbatch 1 is released by 0B0, not by its own 0B1"


def test_an_activation_that_ends_before_its_backward_does():
    document = trace()
    life(document, 0, 1)["end"] = 7
    assert codes(document) == [
        ("used-after-release", "the activation of stage 0, microbatch 1 ends at 7, before 0B1 ends at 8")
    ]


def test_an_activation_that_no_op_releases():
    document = trace()
    life(document, 1, 0).update(end=8, released_by=None)
    assert codes(document) == [
        ("never-released", "the activation of stage 1, microbatch 0 is never released, though 1B0 ends at 3")
    ]


def test_times_are_told_in_units_and_not_in_ticks():
    document = json.loads(answer("trace", *NAIVE, "-f", "1/2", "-b", "1/2"))
    assert document["ticks_per_unit"] == 2
    life(document, 0, 1)["end"] = 7
    assert codes(document) == [
        ("used-after-release", "the activation of stage 0, microbatch 1 ends at 3.5, before 0B1 ends at 4")
    ]


def test_two_ops_of_a_rank_at_once_are_a_finding_of_check_and_refused_by_show():
    document = trace()
    event(document, "0F1").update(start=3, end=5)
    (finding,) = codes(document)
    assert finding == ("overlap-on-rank", "0F1 starts at 3, while 0B0 runs until 4")
    assert codes(document, "--tolerance", "1", exit_code=0) == []
    message = refusal("show", "-", stdin=json.dumps(document))
    assert "0F1 starts at 3, while rank 0 runs 0B0 until 4; a rank runs one op at a time" in message


def test_an_op_before_the_message_that_it_waits_for_arrives():
    document = json.loads(answer("trace", *NAIVE, "-c", "1"))
    event(document, "1F0")["start"] = 1
    found = codes(document)
    assert found[0] == ("starts-too-early", "1F0 starts at 1, before 0F0, which it waits for, arrives at 2")
    assert [code for code, _ in found[1:]] == ["edited-trace"] * len(found[1:])


def test_a_chosen_delay_is_advice():
    document = trace()
    event(document, "0B1").update(start=8, end=9)
    for event_of_the_end in document["events"]:
        if event_of_the_end["op"] in ("REDUCE", "STEP"):
            event_of_the_end.update(start=9, end=9)
    del document["lifetimes"], document["metrics"]
    assert codes(document, "--strict", exit_code=0) == [
        (
            "chosen-delay",
            "1 op starts later than possible: 0B1 +1; elapsed 9, the same order could take 8",
        )
    ]


def test_an_event_that_is_deleted_is_lost_work():
    document = trace()
    document["events"] = [event for event in document["events"] if event["id"] != "0B1"]
    found = codes(document)
    assert found[0] == ("missing-backward", "rank 0 never runs 0B1; 1 activation is never released")
    assert [code for code, _ in found[1:]] == ["edited-trace"] * 3  # its REDUCE, its lifetime, the metrics


def test_all_metrics_that_differ_are_one_warning():
    document = trace()
    for metric in document["metrics"]:
        metric["values"][0]["numerator"] += 1
    ((code, sentence),) = codes(document, exit_code=0)
    assert code == "edited-trace"
    assert sentence.startswith("$.metrics[0]: the file says elapsed = 9, its events give 8 (and ")


def test_an_op_on_another_rank_is_named_also_where_its_times_are_wrong():
    document = trace()
    event(document, "1F0").update(rank=0, start=0, end=1)
    found = codes(document)
    assert found[0] == ("stage-on-two-ranks", "rank 0 runs 1F0, but stage 1 lives on rank 1")
    assert ("overlap-on-rank", "1F0 starts at 0, while 0F0 runs until 1") in found
