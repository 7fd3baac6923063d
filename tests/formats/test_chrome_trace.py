"""Chrome traces out: the format's rules for every schedule, what lanes, flows and counters say, exact text, and memory."""

from __future__ import annotations

import re
import tracemalloc
from collections import deque
from fractions import Fraction
from typing import Any

import pytest
from chrome_rules import Checked, Flow, checked, parsed

from pptrace import simulate
from pptrace.analysis.report import Report
from pptrace.api import Simulation
from pptrace.errors import ParameterError
from pptrace.formats import chrome_trace
from pptrace.schedules.registry import names


def written(report: Report, time_unit: str | None = None) -> bytes:
    return b"".join(chrome_trace.write(report, time_unit=time_unit))


def examined(report: Report, time_unit: str | None = None) -> Checked:
    found = checked(written(report, time_unit))
    assert found.broken == []
    return found


def slices(report: Report, time_unit: str | None = None) -> dict[str, dict[str, Any]]:
    return {event["name"]: event for event in examined(report, time_unit).slices}


def timed(name: str, **options: Any) -> Simulation:
    return simulate(name, num_ranks=4, num_microbatches=8, **options)


COSTS = {
    "no latency": {},
    "latency": {"comm": "1/3", "forward": 1, "backward": 2, "weight_grad": 1},
    "messages overlap": {"comm": 5, "backward": 3, "weight_grad": "1/2"},
    "serial links": {"comm": 3, "link": "serial", "backward": 2, "weight_grad": 1},
    "blocking": {"comm": "1/2", "link": "blocking", "backward": 2, "weight_grad": 1},
    "two steps": {"comm": "1/2", "num_steps": 2, "reduce": 1, "step_time": "1/4", "backward": 2, "weight_grad": 1},
    "pairs apart": {"overlap": "split", "backward": 2, "weight_grad": 1},
}
NEVER_STUCK = ("naive", "gpipe", "1f1b", "zb-h1", "pipedream")
"""Where messages hold both their ranks, many of the other orders cannot go on."""


@pytest.mark.parametrize(
    ("name", "costs"),
    [(name, costs) for name in names() for costs in COSTS if costs != "blocking" or name in NEVER_STUCK],
)
def test_the_rules_of_the_format_hold(name: str, costs: str) -> None:
    report = timed(name, **COSTS[costs])
    found = examined(report)
    ops = [event for event in found.slices if event["cat"] != "transfer"]
    assert len(ops) == report.schedule.num_ops
    assert len(found.slices) - len(ops) == len(report.timeline.transfers())


@pytest.mark.parametrize("name", names())
def test_a_flow_ends_where_its_input_arrived(name: str) -> None:
    """From the stage before (F) or after (backwards) and the same microbatch; from the last gradient of a stage's other copy to
    its REDUCE, and from a REDUCE to a STEP."""
    report = timed(name, comm="1/2", backward=2, weight_grad=1, num_steps=2, reduce=1, step_time=1)
    found = examined(report)
    by_name = {event["name"]: event for event in found.slices}
    operation = re.compile(r"(\d+)([A-Z]+)(\d*@?\d*)")
    assert found.flows
    for flow in found.flows:
        (stage, kind, number), (other, target_kind, target_number) = (
            operation.fullmatch(text).groups() for text in flow
        )
        source, target = by_name[flow.source], by_name[flow.target]
        travels = 500 if source["pid"] != target["pid"] and target["cat"] == "compute" else 0
        assert source["ts"] + source["dur"] + travels == target["ts"]
        if target_kind == "STEP":
            assert kind == "REDUCE"
        elif target_kind == "REDUCE":
            assert (stage, kind in ("B", "W")) == (other, True)
        else:
            assert number == target_number
            assert int(other) - int(stage) == (1 if target_kind == "F" else -1)
            assert (kind == "F") == (target_kind == "F")


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize(
    "options", [{}, {"recompute": "full"}, {"split_backward": True}], ids=["", "recompute", "split"]
)
def test_the_counter_is_the_curve_of_activations_held(name: str, options: dict[str, Any]) -> None:
    try:
        report = timed(name, comm="1/2", **options)
    except ParameterError:
        report = timed(name, comm="1/2")
    found = examined(report)
    per_tick = Fraction(1000, report.timeline.ticks_per_unit)
    for rank in range(4):
        assert found.counters[rank] == [(tick * per_tick, count) for tick, count in report.memory.held(rank)]


def test_1f1b_on_two_ranks_as_written_by_hand() -> None:
    """0F0 0F1 . 0B0 . 0B1 over . 1F0 1B0 1F1 1B1 . ; a unit is a millisecond."""
    report = simulate("1f1b", num_ranks=2, num_microbatches=2)
    found = examined(report)
    ops = {e["name"]: (e["pid"], e["tid"], e["ts"], e["dur"]) for e in found.slices if e["dur"]}
    assert ops == {
        "0F0": (0, 1, 0, 1000),
        "0F1": (0, 1, 1000, 1000),
        "0B0": (0, 1, 3000, 1000),
        "0B1": (0, 1, 5000, 1000),
        "1F0": (1, 1, 1000, 1000),
        "1B0": (1, 1, 2000, 1000),
        "1F1": (1, 1, 3000, 1000),
        "1B1": (1, 1, 4000, 1000),
    }
    assert found.flows == [Flow("0F0", "1F0"), Flow("1B0", "0B0"), Flow("1B1", "0B1")]  # 1F1 waited for its rank alone
    assert found.counters[0] == [(0, 1), (1000, 2), (4000, 1), (6000, 0)]
    assert found.counters[1] == [(0, 0), (1000, 1), (5000, 0)]


def test_messages_in_flight_have_lanes_of_their_own_where_they_overlap() -> None:
    """Forwards of a unit each, in flight for two: two at a time, on two lanes in turn."""
    found = slices(simulate("gpipe", num_ranks=2, num_microbatches=4, comm=2))
    sent = [found[f"0SEND_F{m}"] for m in range(4)]
    assert [(event["tid"], event["ts"], event["dur"]) for event in sent] == [
        (3, 1000, 2000),
        (4, 2000, 2000),
        (3, 3000, 2000),
        (4, 4000, 2000),
    ]
    assert sent[0]["args"] == {"of": "0F0", "receiver": 1}


def test_a_message_on_a_serial_link_is_drawn_from_its_departure() -> None:
    found = slices(simulate("gpipe", num_ranks=2, num_microbatches=3, comm=2, link="serial"))
    assert [(e["tid"], e["ts"], e["dur"]) for e in (found[f"0SEND_F{m}"] for m in range(3))] == [
        (3, 1000, 2000),
        (3, 3000, 2000),
        (3, 5000, 2000),
    ]


def test_an_overlapped_pair_has_two_lanes() -> None:
    report = timed("dualpipev", backward=2, weight_grad=1)
    found = slices(report)
    op = report.schedule.op
    for first in report.schedule.pairs:
        one, other = found[str(op(first))], found[str(op(first + 1))]
        assert (one["tid"], other["tid"]) == (1, 2)
        assert (one["ts"], one["dur"], one["pid"]) == (other["ts"], other["dur"], other["pid"])
        assert one["args"]["block"] == other["args"]["block"] == f"({op(first)};{op(first + 1)})OVERLAP_F_B"


def test_names_of_processes_and_threads() -> None:
    events = parsed(written(simulate("1f1b", num_ranks=2, num_microbatches=2, comm=1)))["traceEvents"]
    given = {(e["pid"], e["tid"], e["name"]): e["args"]["name"] for e in events if e["name"].endswith("_name")}
    assert given == {
        (0, 1, "process_name"): "rank 0",
        (0, 1, "thread_name"): "compute",
        (0, 3, "thread_name"): "to rank 1",
        (1, 1, "process_name"): "rank 1",
        (1, 1, "thread_name"): "compute",
        (1, 3, "thread_name"): "to rank 0",
    }


@pytest.mark.parametrize(
    ("time_unit", "begin"),
    [(None, 1000), ("us", 1), ("250us", 250), ("2.5ms", 2500), ("s", 1_000_000), ("ns", Fraction(1, 1000)), ("µs", 1)],
)
def test_time_unit_says_how_long_a_unit_of_time_is(time_unit: str | None, begin: Fraction) -> None:
    assert slices(simulate("1f1b", num_ranks=2, num_microbatches=2), time_unit)["0F1"]["ts"] == begin


@pytest.mark.parametrize(("unit", "begin"), [("us", 1), ("microseconds", 1), ("ms", 1000), ("layers", 1000)])
def test_the_unit_of_the_costs_is_known(unit: str, begin: int) -> None:
    report = simulate("1f1b", num_ranks=2, num_microbatches=2)
    report.timeline.costs = report.costs._replace(unit=unit)
    assert slices(report)["0F1"]["ts"] == begin


@pytest.mark.parametrize("text", ["", "0ms", "-1us", "5", "lightyears", "1e99ms", "nan ms"])
def test_a_time_unit_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ParameterError, match=r"^--time-unit"):
        written(simulate("1f1b", num_ranks=2, num_microbatches=2), text)


def test_fractions_that_end_are_written_out() -> None:
    """1/64 of a microsecond has six decimals; nothing is rounded."""
    found = slices(simulate("1f1b", num_ranks=2, num_microbatches=2, forward="1/64"), "us")
    assert found["0F1"]["ts"] == Fraction(1, 64)
    assert "ticks" not in found["0F1"]["args"]
    assert b'"ts":0.015625,"dur":0.015625' in written(
        simulate("1f1b", num_ranks=2, num_microbatches=2, forward="1/64"), "us"
    )


def test_fractions_that_do_not_end_are_rounded_on_one_grid_and_exact_beside() -> None:
    found = slices(simulate("gpipe", num_ranks=1, num_microbatches=3, forward="1/3", backward=1), "us")
    forwards = [found[f"0F{m}"] for m in range(3)]
    assert [event["ts"] for event in forwards] == [0, Fraction("0.333"), Fraction("0.667")]
    assert [event["ts"] + event["dur"] for event in forwards] == [Fraction("0.333"), Fraction("0.667"), 1]
    assert [event["args"]["ticks"] for event in forwards] == [[0, 1], [1, 2], [2, 3]]


def test_ticks_finer_than_a_nanosecond_can_still_be_told() -> None:
    """Ticks of 1/7000 us: four places round them to different numbers, three would not."""
    found = slices(simulate("gpipe", num_ranks=1, num_microbatches=3, forward="1/7000", backward=1), "us")
    assert len({found[f"0F{m}"]["ts"] for m in range(3)}) == 3


def test_writing_needs_little_memory() -> None:
    """At most 50 bytes an event beside the model, at 46,000 events; a million may have 50 MB."""
    report = simulate("1f1b", num_ranks=8, num_microbatches=640, comm="1/3")
    events = sum(piece.count(b'{"ph":') for piece in chrome_trace.write(report))
    assert events > 40_000
    tracemalloc.start()
    try:
        deque(chrome_trace.write(report), maxlen=0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 50 * events


def test_hostile_names_stay_inside_their_strings() -> None:
    report = simulate("1f1b", num_ranks=2, num_microbatches=2)
    report.schedule.name = 'a"}]}\n\x1b[31m</script>'
    found = parsed(written(report))
    assert found["otherData"]["pptrace"]["schedule"]["name"] == report.schedule.name
    assert b"\x1b" not in written(report)
