"""The published JSON Schema: our own output is valid by it, other things are not, and every field is described."""

from __future__ import annotations

import json
from typing import Any

import pytest
from json_schema import faults
from test_trace_json import HAND_WRITTEN

from pptrace.analysis.report import Report
from pptrace.costs import Costs, Sizes, values
from pptrace.formats import trace_json, trace_jsonl
from pptrace.formats.schema import text, trace_schema
from pptrace.proof.prove import prove
from pptrace.recipes import Recipe, make_schedule
from pptrace.schedules.registry import Params, names
from pptrace.timeline import simulate_schedule

DOCUMENT = trace_schema()
LINE = trace_schema(lines=True)


def report(name: str, **choices: Any) -> Report:
    sizes = Sizes(activation=values(3), boundary=values(1), weights=values(5))
    costs = Costs(values(1), values(2), values(1), comm=(values("1/3").numbers), sizes=sizes)
    return Report(simulate_schedule(make_schedule(Recipe(name, Params(4, 8), **choices)), costs), notes=("said",))


@pytest.mark.parametrize("name", names())
def test_what_is_written_is_valid(name: str) -> None:
    found = report(name)
    assert faults(DOCUMENT, json.loads(trace_json.write(found)), DOCUMENT) == []
    lines = [json.loads(line) for line in trace_jsonl.write(found).splitlines()]
    assert [fault for line in lines[:5] + lines[-3:] for fault in faults(LINE, line, LINE)] == []


def test_a_trace_with_the_verdict_of_a_proof_is_valid() -> None:
    found = report("zb-h1")
    proof = prove(found.timeline)
    written = json.loads(trace_json.write(found, proof))
    assert written["proof"]["proved"] is True
    assert faults(DOCUMENT, written, DOCUMENT) == []
    header = json.loads(trace_jsonl.write(found, proof).splitlines()[0])
    assert faults(LINE, header, LINE) == []


def test_recomputation_and_hand_written_traces_are_valid() -> None:
    written = json.loads(trace_json.write(report("1f1b", recompute="full")))
    assert faults(DOCUMENT, written, DOCUMENT) == []
    assert faults(DOCUMENT, json.loads(HAND_WRITTEN), DOCUMENT) == []


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"end": "4"}, "$.events[0].end: not integer"),
        ({"start": -1}, "$.events[0].start: -1 against minimum 0"),
        ({"op": "X"}, "$.events[0].op: 'X' is not one of"),
    ],
)
def test_what_the_reader_refuses_the_schema_refuses(change: dict[str, Any], fault: str) -> None:
    trace = json.loads(HAND_WRITTEN)
    trace["events"][0].update(change)
    assert faults(DOCUMENT, trace, DOCUMENT)[0].startswith(fault)
    del trace["events"][0]["rank"]
    assert "$.events[0]: no rank" in faults(DOCUMENT, trace, DOCUMENT)


def test_the_schema_is_json_and_describes_every_object() -> None:
    assert json.loads(text()) == DOCUMENT
    assert json.loads(text(lines=True)) == LINE
    assert DOCUMENT["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert [name for name, part in DOCUMENT["$defs"].items() if not part.get("description")] == []
