"""Trace JSON and JSON Lines as a library reads and writes them: round trips, small hand-written traces, what differs."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pptrace.analysis.report import Report
from pptrace.costs import Costs, values
from pptrace.deadlock import DeadlockError
from pptrace.errors import FormatError, ParameterError
from pptrace.formats import guess, read, trace_json, trace_jsonl
from pptrace.formats.trace_sections import ids
from pptrace.recipes import Recipe, make_schedule
from pptrace.schedules.registry import Params, entry, names
from pptrace.timeline import Timeline, simulate_schedule

HAND_WRITTEN = """{
  "schema": "pptrace.trace/1",
  "schedule": {"name": "mine", "ranks": 2, "stages": 2, "chunks": 1, "microbatches": 1},
  "ticks_per_unit": 10,
  "events": [
    {"id": "0F0", "rank": 0, "stage": 0, "op": "F", "microbatch": 0, "step": 0, "start": 0, "end": 10},
    {"id": "1F0", "rank": 1, "stage": 1, "op": "F", "microbatch": 0, "step": 0, "start": 12, "end": 25},
    {"id": "1B0", "rank": 1, "stage": 1, "op": "B", "microbatch": 0, "step": 0, "start": 25, "end": 45},
    {"id": "0B0", "rank": 0, "stage": 0, "op": "B", "microbatch": 0, "step": 0, "start": 47, "end": 67}
  ]
}"""
MESSAGE = {
    "id": "0SEND_F0",
    "rank": 0,
    "stage": 0,
    "op": "SEND_F",
    "microbatch": 0,
    "step": 0,
    "start": 11,
    "end": 12,
    "after": ["0F0"],
    "to": 1,
}


def timeline(name: str, params: Params, costs: Costs, **choices: Any) -> Timeline:
    return simulate_schedule(make_schedule(Recipe(name, params, **choices)), costs)


def same(one: Timeline, other: Timeline) -> bool:
    mine, theirs = one.schedule, other.schedule
    return (
        list(one.starts) == list(other.starts)
        and list(one.ends) == list(other.ends)
        and list(one.arrivals) == list(other.arrivals)
        and one.departures == other.departures
        and one.ticks_per_unit == other.ticks_per_unit
        and one.costs == other.costs
        and (one.measured, one.offset) == (other.measured, other.offset)
        and (mine.name, mine.codes, mine.rank_starts, mine.pairs)
        == (theirs.name, theirs.codes, theirs.rank_starts, theirs.pairs)
        and (mine.placement, mine.placement.kind) == (theirs.placement, theirs.placement.kind)
        and (mine.options, mine.asynchronous, mine.joint_update, mine.early_recompute)
        == (theirs.options, theirs.asynchronous, theirs.joint_update, theirs.early_recompute)
        and (mine.num_microbatches, mine.num_steps) == (theirs.num_microbatches, theirs.num_steps)
    )


times = st.fractions(min_value=Fraction(1, 4), max_value=4, max_denominator=4)


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(names()),
    num_ranks=st.integers(1, 4),
    num_microbatches=st.integers(1, 8),
    forward=times,
    backward=times,
    latency=st.sampled_from([Fraction(0), Fraction(1, 3), Fraction(2)]),
    link=st.sampled_from(["latency", "serial"]),
    recompute=st.sampled_from(["", "full", "early"]),
    split=st.booleans(),
)
def test_a_trace_read_back_is_the_timeline_that_was_written(
    name: str,
    num_ranks: int,
    num_microbatches: int,
    forward: Fraction,
    backward: Fraction,
    latency: Fraction,
    link: str,
    recompute: str,
    split: bool,
) -> None:
    costs = Costs(values(forward), values(backward), values(backward / 3), comm=(latency,), link=link)
    steps = 1 if entry(name).asynchronous else 2
    try:
        written = timeline(
            name, Params(num_ranks, num_microbatches, num_steps=steps), costs, recompute=recompute, split_backward=split
        )
    except (ParameterError, DeadlockError):  # sizes that the schedule forbids
        return
    report = Report(written, notes=("a note",))
    for form in (trace_json, trace_jsonl):
        found = form.read(form.write(report))
        assert found.timeline is not None
        assert same(found.timeline, written)
        assert found.findings == ()
        assert found.notes == ("a note",)
        assert form.write(Report(found.timeline, notes=found.notes)) == form.write(report)


def test_a_hand_written_trace_needs_few_fields() -> None:
    found = read(HAND_WRITTEN.encode(), "mine.json").timeline
    assert found is not None
    assert found.measured
    assert (found.schedule.num_ranks, found.schedule.num_microbatches) == (2, 1)
    metrics = Report(found).metrics
    assert metrics["elapsed"].value.numerator == 67
    assert [value.numerator for value in metrics["bubble_time"].values] == [37, 34]


def test_the_clock_at_tick_zero_is_kept_as_it_was_written() -> None:
    trace = json.loads(HAND_WRITTEN) | {"offset": "1722430000123456.125"}
    found = trace_json.read(json.dumps(trace).encode()).timeline
    assert found is not None
    assert found.offset == "1722430000123456.125"
    for form in (trace_json, trace_jsonl):
        again = form.read(form.write(Report(found))).timeline
        assert again is not None
        assert same(again, found)
    simulated = trace_json.write(Report(timeline("1f1b", Params(2, 2), Costs())))
    assert "offset" not in json.loads(simulated)
    trace["offset"] = "noon"
    with pytest.raises(FormatError, match=r"^trace: \$\.offset: expected str matching regex"):
        trace_json.read(json.dumps(trace).encode())


def test_events_in_another_order_give_the_same_timeline() -> None:
    trace = json.loads(HAND_WRITTEN)
    trace["events"].reverse()
    one = read(json.dumps(trace).encode(), "mine.json").timeline
    other = read(HAND_WRITTEN.encode(), "mine.json").timeline
    assert one is not None
    assert other is not None
    assert same(one, other)


def test_ids_are_the_texts_of_the_ops() -> None:
    schedule = make_schedule(Recipe("dualpipe", Params(4, 8, num_steps=2)))
    assert ids(schedule) == [str(schedule.op(position)) for position in range(schedule.num_ops)]


def test_pairs_are_blocks_in_the_trace() -> None:
    written = timeline("dualpipev", Params(2, 4), Costs(values(1), values(2), values(1)))
    events = json.loads(trace_json.write(Report(written)))["events"]
    blocks = [event["block"] for event in events if "block" in event]
    assert len(blocks) == 2 * len(written.schedule.pairs) > 0
    assert all(blocks.count(name) == 2 and name.endswith(")OVERLAP_F_B") for name in blocks)


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"forward": {"per": "stage", "values": ["1", "2", "3"]}}, r"\(forward\) has 3 values for 2 stages"),
        ({"forward": {"per": "rank", "values": ["-1"]}}, r"-f \(forward\) must be more than zero, got -1"),
        ({"weight_grad": {"per": "rank", "values": ["2"]}}, r"w = 2 is not less than b = 1"),
        ({"comm": ["1", "2", "3"]}, r"-c \(comm\) has 3 values"),
        ({"microbatch_scale": ["1", "2"]}, r"microbatch_scale has 2 values for 1 microbatch"),
        ({"layers": [8, 8, 7, 7]}, r"layers: 4 numbers for 2 stages; give one per stage"),
        (
            {"sizes": {"weights": {"per": "stage", "values": ["1", "2", "3"]}}},
            r"bytes of weights: 3 values for 2 stages",
        ),
        ({"overlap": "0"}, r"--overlap must be sum, max, split or a number above zero, got 0"),
    ],
)
def test_costs_that_do_not_fit_the_schedule_are_refused(change: dict[str, Any], wanted: str) -> None:
    written = json.loads(trace_json.write(Report(timeline("1f1b", Params(2, 1), Costs()))))
    written["costs"].update(change)
    with pytest.raises(FormatError, match=r"^trace: \$\.costs: .*" + wanted):
        trace_json.read(json.dumps(written).encode())


def test_a_block_on_one_event_alone_is_refused() -> None:
    trace = json.loads(HAND_WRITTEN)
    trace["events"][0]["block"] = "(0F0;0B0)OVERLAP_F_B"
    with pytest.raises(FormatError, match=r"^mine: \$\.events\[0\]\.block: .* must be on two events"):
        trace_json.read(json.dumps(trace).encode(), source="mine")


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"stage": 1, "id": "1SEND_F0"}, r"\.rank: 0, but 1F0, whose output it carries, is on rank 1"),
        ({"op": "SEND_B", "id": "0SEND_B0", "rank": 1}, r"\.rank: 1, but 0B0, whose output it carries, is on rank 0"),
        ({"rank": 1, "to": 0}, r"\.rank: 1, but 0F0, whose output it carries, is on rank 0"),
        ({"to": 0}, r"\.to: 0 is not another one of the ranks 0\.\.1"),
        ({"to": 2}, r"\.to: 2 is not another one of the ranks 0\.\.1"),
        ({"to": None}, r"\.to: missing; a message names the rank that it goes to"),
        ({"start": 9}, r"\.start: 9 is before 0F0 ends, at 10"),
        ({"end": 10}, r"\.end: 10 is before the start, 11"),
        ({"microbatch": None, "id": "0SEND_F"}, r"\.microbatch: null; SEND_F is the work of one microbatch"),
        ({"id": "0SEND_F1"}, r"\.id: '0SEND_F1' does not fit the event's fields, which make '0SEND_F0'"),
    ],
)
def test_messages_must_fit_their_ops(change: dict[str, Any], wanted: str) -> None:
    trace = json.loads(HAND_WRITTEN)
    trace["events"].insert(
        1, {key: value for key, value in {**MESSAGE, **change}.items() if key != "to" or value is not None}
    )
    with pytest.raises(FormatError, match=r"^trace: \$\.events\[1\]" + wanted):
        trace_json.read(json.dumps(trace).encode())
    header, events = {**trace, "events": None}, trace["events"]
    del header["events"]
    lines = "\n".join(json.dumps(line) for line in (header, *events))
    with pytest.raises(FormatError, match=r"^trace: line 3: \$" + wanted):
        trace_jsonl.read(lines.encode())


def test_a_message_whose_op_is_missing_is_refused() -> None:
    trace = json.loads(HAND_WRITTEN)
    trace["events"] = [MESSAGE, *(event for event in trace["events"] if event["id"] != "0F0")]
    with pytest.raises(
        FormatError, match=r"\$\.events\[0\]\.id: 0SEND_F0 carries the output of an op that is none of the"
    ):
        trace_json.read(json.dumps(trace).encode())


def test_a_message_twice_is_refused() -> None:
    trace = json.loads(HAND_WRITTEN)
    trace["events"] += [MESSAGE, MESSAGE]
    with pytest.raises(FormatError, match=r"0SEND_F0 is there twice, before as \$\.events\[4\]"):
        trace_json.read(json.dumps(trace).encode())


def test_messages_are_read_wherever_they_stand_and_keep_no_rank_busy() -> None:
    trace = json.loads(HAND_WRITTEN)
    trace["events"] += [MESSAGE]
    found = trace_json.read(json.dumps(trace).encode()).timeline
    assert found is not None
    assert [(m.sender, m.receiver, m.produced, m.departure, m.arrival) for m in found.transfers()] == [
        (0, 1, 10, 11, 12)
    ]
    assert [len(found.schedule.positions(rank)) for rank in range(2)] == [2, 2]


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        ({"to": 2}, "$.events[1].to: the file says rank 2, the op that waits for 0SEND_F0 is on rank 1"),
        ({"after": ["1F0"]}, "$.events[1].after: the file says 1F0, 0SEND_F0 waits for 0F0"),
        (
            {"start": 10, "end": 10},
            "$.events[1]: 0SEND_F0 changes nothing: it takes no time, or no op waits for it",
        ),
    ],
)
def test_what_a_message_says_of_others_is_a_finding_where_it_is_wrong(change: dict[str, Any], finding: str) -> None:
    trace = json.loads(HAND_WRITTEN)
    trace["schedule"] |= {"ranks": 3, "stage_ranks": [0, 1]}
    trace["events"].insert(1, {**MESSAGE, **change})
    assert list(trace_json.read(json.dumps(trace).encode()).findings) == [finding]


def test_stored_figures_that_the_events_do_not_give_are_findings() -> None:
    trace = json.loads(trace_json.write(Report(timeline("1f1b", Params(2, 2), Costs()))))
    trace["metrics"][0]["values"][0]["numerator"] = 5
    trace["lifetimes"][2]["end"] += 1
    trace["events"][2]["after"] = ["0F1"]
    assert list(trace_json.read(json.dumps(trace).encode()).findings) == [
        "$.events[2].after: the file says 0F1, 1F0 waits for 0F0",
        "$.lifetimes[2]: the file says activation 1,0 on rank 1 in [1, 4), its events give activation 1,0 on rank 1 in "
        "[1, 3); the events were changed, or the lifetimes were",
        "$.metrics[0]: the file says elapsed = 5, its events give 6; the events were changed, or the metric was",
    ]


def test_the_format_is_told_by_content_before_suffix() -> None:
    report = Report(timeline("1f1b", Params(2, 2), Costs()))
    document, lines = trace_json.write(report), trace_jsonl.write(report)
    compact = json.dumps(json.loads(document)).encode()
    assert [guess(data, "x.txt") for data in (document, compact, lines)] == ["json", "json", "jsonl"]
    assert guess(b"\xef\xbb\xbf" + lines, "-") == "jsonl"
    wide = Report(timeline("1f1b", Params(8, 128), Costs()))
    assert [guess(form.write(wide), "-") for form in (trace_json, trace_jsonl)] == ["json", "jsonl"]


def test_a_file_without_its_order_mark_or_with_blank_lines_reads_the_same() -> None:
    report = Report(timeline("gpipe", Params(2, 3), Costs()))
    lines = trace_jsonl.write(report)
    plain = trace_jsonl.read(lines).timeline
    marked = trace_jsonl.read(b"\xef\xbb\xbf" + lines.replace(b"\n", b"\r\n\n")).timeline
    assert plain is not None
    assert marked is not None
    assert same(plain, marked)


def test_a_number_of_5000_digits_in_an_unknown_field_is_passed_over() -> None:
    trace = HAND_WRITTEN.replace("{", '{"x": ' + "9" * 5000 + ",", 1)
    assert trace_json.read(trace.encode()).timeline is not None
    with pytest.raises(FormatError, match=r"^trace: \$\.ticks_per_unit: integer value out of range"):
        trace_json.read(HAND_WRITTEN.replace(": 10,", ": " + "9" * 5000 + ",", 1).encode())


def test_messages_that_take_longer_together_than_64_bits_hold_are_refused() -> None:
    """Each within 2^53 ticks, one after another they would not be."""
    written = json.loads(trace_json.write(Report(timeline("1f1b", Params(32, 32), Costs(comm=(Fraction(1),))))))
    for event in written["events"]:
        if event["op"].startswith("SEND"):
            event["end"] = 2**53
    with pytest.raises(FormatError, match=r"^trace: \$\.events: ops and messages take more than 2\^62 ticks together"):
        trace_json.read(json.dumps(written).encode())
