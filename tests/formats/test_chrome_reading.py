"""Chrome traces in: files of pptrace with events that were moved, events of other programs, and all that can be wrong."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pptrace import formats, simulate
from pptrace.errors import FormatError, ParameterError, PptraceError, ScheduleError
from pptrace.formats import chrome_trace
from pptrace.formats.listings import schedule_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pptrace.formats import Document
    from pptrace.timeline import Timeline


def own(**options: Any) -> dict[str, Any]:
    report = simulate("1f1b", num_ranks=2, num_microbatches=2, **options)
    return json.loads(b"".join(chrome_trace.write(report)))


def slice_of(trace: dict[str, Any], name: str) -> dict[str, Any]:
    return next(event for event in trace["traceEvents"] if event["ph"] == "X" and event["name"] == name)


def read(trace: object) -> Document:
    return formats.read(trace if isinstance(trace, bytes) else json.dumps(trace).encode(), "t")


def timeline(trace: object) -> Timeline:
    found = read(trace).timeline
    assert found is not None
    return found


def event(name: str, ts: object = 0, dur: object = 1, pid: object = 0, **more: object) -> dict[str, object]:
    return {"ph": "X", "name": name, "ts": ts, "dur": dur, "pid": pid, "tid": 0, **more}


SMALL = [event("0F0", 0, 2), event("1F0", 2, 2, 1), event("1B0", 4, 3, 1), event("0B0", 7, 3)]


def spans(found: Timeline) -> dict[str, tuple[int, int, int]]:
    return {str(span.op): (span.rank, span.start, span.end) for span in found}


# -- files of pptrace -----------------------------------------------------------------------------------------------


def test_a_file_of_pptrace_needs_no_note() -> None:
    document = read(own(comm="1/3"))
    assert (document.notes, document.findings) == ((), ())
    assert document.timeline is not None
    assert not document.timeline.measured


def test_a_moved_event_counts_as_it_stands() -> None:
    """0B1 from [5, 6) to [5.5, 6.5): half a unit is no whole tick, so the ticks become finer."""
    trace = own()
    slice_of(trace, "0B1")["ts"] = 5500
    for name in ("0REDUCE", "0STEP"):
        slice_of(trace, name)["ts"] = 6500
    document = read(trace)
    assert document.timeline is not None
    assert document.timeline.ticks_per_unit == 2
    assert spans(document.timeline)["0B1"] == (0, 11, 13)
    assert document.timeline.measured
    assert document.notes == (
        "the events were moved: their times are no whole ticks of 1/1 unit; the times of the events count",
    )


def test_an_event_that_lasts_longer_than_its_costs_is_said() -> None:
    trace = own()
    slice_of(trace, "0B1")["dur"] = 2000
    for name in ("0REDUCE", "0STEP"):
        slice_of(trace, name)["ts"] = 7000
    document = read(trace)
    assert document.timeline is not None
    assert spans(document.timeline)["0B1"] == (0, 5, 7)
    assert document.notes == (
        "the events last longer or shorter than the recorded costs say; the times of the events count",
    )


def test_a_file_whose_times_begin_before_zero_is_rebased() -> None:
    trace = own()
    for event_ in trace["traceEvents"]:
        if "ts" in event_:
            event_["ts"] -= 250
    document = read(trace)
    assert document.timeline is not None
    assert spans(document.timeline)["0F1"] == (0, 1, 2)
    assert document.notes == (
        "the events were moved: the first op begins at -250 us of the file, which is time 0 here",
    )


def test_events_may_stand_in_any_order_and_others_between_them() -> None:
    trace = own(comm=1)
    times = spans(timeline(trace))
    trace["traceEvents"].reverse()
    trace["traceEvents"].insert(3, {"ph": "X", "name": "my own slice", "pid": "x", "args": [1]})
    trace["traceEvents"].insert(5, {"ph": "i", "name": "0F0", "s": "g"})
    assert spans(timeline(trace)) == times


def recorded(trace: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = trace["otherData"]["pptrace"]
    return found


def drop(field: str, name: str = "0F1") -> Callable[[dict[str, Any]], None]:
    return lambda trace: slice_of(trace, name).pop(field)


def put(field: str, value: object, name: str = "0F1") -> Callable[[dict[str, Any]], None]:
    return lambda trace: slice_of(trace, name).update({field: value})


def record(field: str, value: object) -> Callable[[dict[str, Any]], None]:
    return lambda trace: recorded(trace).update({field: value})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            drop("dur"),
            r"t: \$\.traceEvents\[5\]\.dur: missing; a complete event \(X\) needs ts and dur, in microseconds",
        ),
        (drop("ts"), r"t: \$\.traceEvents\[5\]\.ts: missing"),
        (put("ts", "5"), r"t: \$\.traceEvents\[5\]\.ts: expected a number, got a text"),
        (put("ts", None), r"t: \$\.traceEvents\[5\]\.ts: expected a number, got null"),
        (put("ts", [1]), r"t: \$\.traceEvents\[5\]\.ts: expected a number, got a list"),
        (put("dur", -1), r"t: \$\.traceEvents\[5\]\.dur: -1 is less than zero"),
        (put("dur", 2500), r"t: \$\.traceEvents\[6\]\.ts: 0B0 starts at 6, while rank 0 runs 0F1 until 7; a rank runs"),
        (put("pid", 2), r"t: \$\.traceEvents\[5\]\.pid: 2 is not one of the ranks 0\.\.1"),
        (put("pid", "0"), r"t: \$\.traceEvents\[5\]\.pid: expected the number of a rank, got '0'"),
        (put("pid", True), r"t: \$\.traceEvents\[5\]\.pid: expected the number of a rank, got True"),
        (put("name", "0F0"), r"t: \$\.traceEvents\[5\]\.name: 0F0 is there twice"),
        (put("name", "0F7"), r"t: \$\.traceEvents\[5\]\.name: 7 is not one of the microbatches 0\.\.1"),
        (put("name", "7F0"), r"t: \$\.traceEvents\[5\]\.name: 7 is not one of the stages 0\.\.1"),
        (put("args", {"block": 3}), r"t: \$\.traceEvents\[5\]\.args\.block: expected str, got int"),
        (put("args", {"block": "x"}), r"t: \$\.traceEvents\[5\]\.args\.block: 'x' must be on two events"),
        (
            record("schema", "pptrace.chrome/9"),
            r"t: \$\.otherData\.pptrace\.schema: the schema must be 'pptrace.chrome/1'",
        ),
        (record("ticks_per_unit", 0), r"t: \$\.otherData\.pptrace\.ticks_per_unit: expected int >= 1"),
        (
            record("microseconds_per_unit", "0"),
            r"t: \$\.otherData\.pptrace\.microseconds_per_unit: 0 is not above zero",
        ),
        (record("microseconds_per_unit", "1/0"), r"t: \$\.otherData\.pptrace\.microseconds_per_unit: 1/0 is not above"),
        (record("costs", 3), r"t: \$\.otherData\.pptrace\.costs: expected object, got int"),
        (
            lambda trace: recorded(trace)["schedule"].update(stages=3),
            r"t: \$\.otherData\.pptrace\.schedule\.stage_ranks: 2 v",
        ),
        (lambda trace: trace["traceEvents"].clear(), r"t: \$\.traceEvents: no slice is named as an op"),
        (lambda trace: trace["traceEvents"].insert(0, 3), r"t: \$\.traceEvents\[0\]: expected object, got int"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(change: Callable[[dict[str, Any]], None], message: str) -> None:
    trace = own()
    change(trace)
    with pytest.raises(PptraceError, match="^" + message):
        read(trace)


def test_a_message_of_no_op_is_named() -> None:
    trace = own(comm=1)
    slice_of(trace, "0SEND_F1")["name"] = "0SEND_B1"
    with pytest.raises(FormatError, match=r"^t: \$\.traceEvents\[\d+\]"):
        read(trace)


def test_the_letter_b_of_pptrace_is_not_asked_for() -> None:
    with pytest.raises(
        ParameterError, match=r"^--letter-b is for files of others; pptrace wrote t, in it B is the full"
    ):
        formats.read(json.dumps(own()).encode(), "t", letter="input")


# -- lists of events of other programs ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrap", [lambda events: events, lambda events: {"traceEvents": events}], ids=["bare", "object"]
)
def test_a_list_of_events_named_as_ops(wrap: Callable[[object], object]) -> None:
    found = timeline(wrap(SMALL))
    assert spans(found) == {"0F0": (0, 0, 2), "0B0": (0, 7, 10), "1F0": (1, 2, 4), "1B0": (1, 4, 7)}
    assert (found.measured, found.costs.unit, found.ticks_per_unit) == (True, "us", 1)


def test_what_pytorch_dumps_of_a_schedule() -> None:
    """`_dump_chrometrace`: pid and tid are the rank, ts the place in the list, dur 1; I is labelled communication."""
    rows = ["0F0 0F1 0SEND_F0 0RECV_B0 0I0 0W0 0B1", "1RECV_F0 1F0 1I0 1W0 1F1 1B1 1SEND_B0"]
    events = [
        event(name, i, 1, rank, tid=rank, cat="communication" if "I" in name else "computation")
        for rank, row in enumerate(rows)
        for i, name in enumerate(row.split())
    ]
    document = read(events)
    assert document.schedule is not None
    assert [[str(op) for op in order] for order in document.schedule] == [
        ["0F0", "0F1", "0I0", "0W0", "0B1"],
        ["1F0", "1I0", "1W0", "1F1", "1B1"],
    ]
    assert any("4 cells without compute are left out (SEND_F RECV_F SEND_B RECV_B)" in note for note in document.notes)


def test_fractions_of_microseconds_are_exact() -> None:
    """Times of some 1.8e15 us with three places are beyond a double; as text they are not."""
    base = "1790857026123456"
    events = ",".join(
        f'{{"ph":"X","name":"{name}","ts":{base}.{ts},"dur":{dur},"pid":0,"tid":0}}'
        for name, ts, dur in (("0F0", "001", "0.25"), ("0B0", "251", "1e-3"))
    )
    found = timeline(f"[{events}]".encode())
    assert found.ticks_per_unit == 1000
    assert spans(found) == {"0F0": (0, 0, 250), "0B0": (0, 250, 251)}
    assert found.offset == f"{base}.001"


def test_processes_that_are_no_numbers_of_ranks_are_taken_in_order() -> None:
    events = [event_ | {"pid": {0: 4711, 1: 4712}[event_["pid"]]} for event_ in SMALL]
    document = read(events)
    assert document.timeline is not None
    assert spans(document.timeline) == spans(timeline(SMALL))
    assert "ranks 0..1 are the processes 4711, 4712" in document.notes


def test_processes_with_names_are_told_by_the_number_in_it() -> None:
    named = [
        {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": f"rank {rank}"}}
        for pid, rank in (("a", 1), ("b", 0))
    ]
    events = [event_ | {"pid": {0: "b", 1: "a"}[event_["pid"]]} for event_ in SMALL]
    assert spans(timeline([*named, *events])) == spans(timeline(SMALL))


def test_threads_are_the_ranks_where_one_process_has_all() -> None:
    events = [event_ | {"pid": 7, "tid": event_["pid"]} for event_ in SMALL]
    assert spans(timeline(events)) == spans(timeline(SMALL))


def test_begin_and_end_events_are_slices_too() -> None:
    events = []
    for item in SMALL:
        place = {"pid": item["pid"], "tid": 0}
        events += [
            {"ph": "B", "name": item["name"], "ts": item["ts"], **place},
            {"ph": "B", "name": "kernel", "ts": item["ts"] + 0.5, **place},
            {"ph": "E", "ts": item["ts"] + 1, **place},
            {"ph": "E", "ts": item["ts"] + item["dur"], **place},
        ]
    assert spans(timeline([{"ph": "E", "ts": 0, "pid": 0, "tid": 0}, *events])) == spans(timeline(SMALL))
    with pytest.raises(FormatError, match=r"^t: \$\.traceEvents\[1\]\.ts: ends 0F0 before it begins"):
        read([{"ph": "B", "name": "0F0", "ts": 1}, {"ph": "E", "ts": 0}])


def test_ranges_that_pytorch_marks_without_an_op_are_left_out_and_said() -> None:
    document = read([*SMALL, event("PP:0WAIT_REDUCE"), event("PP:\x1b[31m")])
    assert document.schedule is not None
    said = "2 ranges that PyTorch marks, but that name no op, are left out (0WAIT_REDUCE, \\x1b[31m)"
    assert said in document.notes


def test_an_op_that_comes_again_is_of_the_next_step() -> None:
    again = [event_ | {"ts": event_["ts"] + 10} for event_ in SMALL]
    document = read(SMALL + again)
    assert document.timeline is not None
    assert spans(document.timeline)["1B0@1"] == (1, 14, 17)
    assert "steps are told apart by ops that come again" in document.notes


def test_an_overlapped_pair_is_one_block() -> None:
    events = [
        event("0F0", 0),
        event("0F1", 1),
        event("1F0", 2, 1, 1),
        event("1B0", 3, 1, 1),
        event("(1F1;0B0)OVERLAP_F_B".replace("1F1", "0F2"), 4, 3),
        event("1F1", 5, 1, 1),
        event("1B1", 6, 1, 1),
        event("1F2", 7, 1, 1),
        event("1B2", 8, 1, 1),
        event("0B1", 9),
        event("0B2", 10),
    ]
    found = timeline(events)
    assert spans(found)["0F2"] == spans(found)["0B0"] == (0, 4, 7)
    assert [str(found.schedule.op(first)) for first in found.schedule.pairs] == ["0F2"]


def test_b_beside_w_is_the_input_half_and_the_letter_may_be_given() -> None:
    events = [event("0F0", 0), event("0B0", 1), event("0W0", 2)]
    assert list(spans(timeline(events))) == ["0F0", "0I0", "0W0"]
    listing = formats.read(json.dumps(events).encode(), "t", letter="full").listing
    assert listing is not None
    with pytest.raises(ScheduleError, match="0B0 and 0W0"):
        schedule_of(listing)


def test_an_order_that_lacks_an_op_is_kept_as_it_is_written() -> None:
    document = read(SMALL[:-1])
    assert (document.schedule, document.timeline) == (None, None)
    assert document.listing is not None
    assert [[cell.text for cell in row] for row in document.listing.rows] == [["0F0"], ["1F0", "1B0"]]


@pytest.mark.parametrize(
    ("rows", "first", "said"),
    [(4, (0, 0, 2), "times are those of the GPU's rows"), (3, (0, 0, 1), "the GPU's rows lack some of the ops")],
)
def test_gpu_rows_are_taken_where_they_hold_every_op(rows: int, first: tuple[int, int, int], said: str) -> None:
    """The host launched each op in 1 us; on stream 7 of the device they took as long as in SMALL, on 8 their messages ran."""
    host = [event(f"PP:{e['name']}", e["ts"], 1, cat="user_annotation", tid=99) for e in SMALL if e["pid"] == 0]
    device = [
        event(f"PP:{e['name']}", e["ts"], e["dur"], 3, tid=stream, cat="gpu_user_annotation")
        for stream, count in ((7, 2), (8, 1))
        for e in [e for e in SMALL if e["pid"] == 0][: min(count, rows - 2)]
    ]
    other = [event(f"PP:{e['name']}", e["ts"], e["dur"], cat="user_annotation") for e in SMALL if e["pid"] == 1]
    files = [
        (f"rank{rank}.json", json.dumps({"traceEvents": events, "distributedInfo": {"rank": rank}}).encode())
        for rank, events in enumerate((host + device, other))
    ]
    document = formats.read_files(files)
    assert document.timeline is not None
    assert spans(document.timeline)["0F0"] == first
    assert any(note.startswith(said) for note in document.notes)


@pytest.mark.parametrize(
    ("trace", "message"),
    [
        (b"[", r"t: not JSON: the input ends before the value does"),
        (b'[{"ph":"X","name":"0F0","ts":NaN}]', r"t: line 1, column 30: not JSON: NaN is not a number that JSON has"),
        (b'{"traceEvents": 3}', r"t: \$\.traceEvents: expected array, got int; a Chrome trace is"),
        (b'{"traceEvents": ' + b"[" * 100_000, r"t: "),
        (b'[{"ph":"X","name":"0F0","args":' + b'{"a":' * 100_000, r"t: "),
        ([event("0F0", "soon")], r"t: \$\.traceEvents\[0\]\.ts: expected a number, got a text"),
        ([event("0F0", 0, -0.5)], r"t: \$\.traceEvents\[0\]\.dur: -0\.5 is less than zero"),
        (b'[{"ph":"X","name":"0F0","ts":1e999,"dur":1}]', r"t: \$\.traceEvents\[0\]\.ts: 1e999 is too long a number"),
        (
            b'[{"ph":"X","name":"0F0","ts":%s,"dur":1}]' % (b"9" * 99),
            r"t: \$\.traceEvents\[0\]\.ts: expected a number, got a n",
        ),
        (
            b'[{"ph":"X","name":"0F0","ts":1,"ts":2,"dur":1}]',
            r"t: \$\.traceEvents\[0\]: the key 'ts' stands there twice",
        ),
        ([event("0F0", pid=[1])], r"t: \$\.traceEvents\[0\]\.pid: expected a number or a word"),
        ([event("PP:0X0")], r"t: \$\.traceEvents\[0\]\.name: '0X0' is not an op; an op is written 2F0"),
        ([event("0F")], r"t: \$\.traceEvents\[0\]\.name: '0F': F needs a microbatch number"),
        ([event("(0F0;1F0)OVERLAP_F_B")], r"t: \$\.traceEvents\[0\]\.name: .* an overlapped pair is one F and one B"),
        ([event("gemm")], r"t: \$\.traceEvents: no event is named as an op \(PP:0F0, 0F0 or Forward 0\)"),
        (
            [event("0F0", 0, 3), event("0B0", 2, 3)],
            r"t: \$\.traceEvents\[1\]: 0B0 starts at 2, while rank 0 runs 0F0 until 3",
        ),
        (
            [event("0F0", 0, 1e-9), event("0B0", 1e9, 1)],
            r"t: \$\.traceEvents: from the first op to the last there are more th",
        ),
        (
            {"traceEvents": SMALL, "distributedInfo": {"rank": -1}},
            r"t: \$\.distributedInfo\.rank: expected a whole number from 0",
        ),
        (
            {"traceEvents": SMALL, "distributedInfo": {"rank": 1.5}},
            r"t: \$\.distributedInfo\.rank: expected a whole number",
        ),
        (
            {"traceEvents": SMALL, "baseTimeNanoseconds": "x"},
            r"t: \$\.baseTimeNanoseconds: expected a whole number of nano",
        ),
    ],
)
def test_a_file_of_another_program_that_is_wrong(trace: object, message: str) -> None:
    with pytest.raises(PptraceError, match="^" + message) as raised:
        read(trace)
    assert "\n" not in str(raised.value)
    assert str(raised.value).isprintable()
