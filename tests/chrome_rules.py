"""The rules of Chrome's trace events as Perfetto's importer has them, checked on a parsed file: written from the description of
the format, sharing nothing with the code that is tested."""

from __future__ import annotations

import json
from collections import defaultdict
from fractions import Fraction
from typing import Any, NamedTuple

Event = dict[str, Any]


class Flow(NamedTuple):
    """An arrow and the names of the slices that it binds to."""

    source: str
    target: str


class Checked(NamedTuple):
    broken: list[str]
    flows: list[Flow]
    slices: list[Event]
    counters: dict[int, list[tuple[Fraction, int]]]
    """By process: (time, value)."""


def parsed(data: bytes) -> dict[str, Any]:
    """A file with exact numbers."""
    return json.loads(data, parse_float=Fraction)


def checked(data: bytes) -> Checked:
    events: list[Event] = parsed(data)["traceEvents"]
    broken = [f"event {i}: {what}" for i, event in enumerate(events) for what in _of_event(event)]
    slices = [event for event in events if event["ph"] == "X"]
    if broken:
        return Checked(broken, [], slices, {})
    broken += _nesting(slices) + _names(events, slices)
    flows, wrong = _flows(events)
    counters: dict[int, list[tuple[Fraction, int]]] = defaultdict(list)
    for event in events:
        if event["ph"] == "C":
            counters[event["pid"]] += [(Fraction(event["ts"]), value) for value in event["args"].values()]
    return Checked(broken + wrong, flows, slices, dict(counters))


def _of_event(event: Event) -> list[str]:
    wrong = []
    phase = event.get("ph")
    if phase not in ("X", "M", "C", "s", "f"):
        wrong.append(f"phase {phase!r}")
    wrong += [f"{field} is no number" for field in ("pid", "tid") if type(event.get(field)) is not int]
    if not event.get("name"):
        wrong.append("no name")
    if phase != "M" and (type(event.get("ts")) not in (int, Fraction) or event["ts"] < 0):
        wrong.append("ts")
    if phase == "X" and (type(event.get("dur")) not in (int, Fraction) or event["dur"] < 0):
        wrong.append("a complete event without dur is dropped")
    if phase == "C" and (not event.get("args") or {type(value) for value in event["args"].values()} != {int}):
        wrong.append("the args of a counter are an object of numbers")
    if phase in ("s", "f") and not (type(event.get("id")) is int and event.get("cat")):
        wrong.append("a flow needs id and cat")
    if phase == "f" and event.get("bp") != "e":
        wrong.append("without bp:e a flow ends at the next slice")
    return wrong


def _nesting(slices: list[Event]) -> list[str]:
    """Slices of one thread lie beside or inside one another."""
    broken = []
    by_thread: dict[tuple[int, int], list[Event]] = defaultdict(list)
    for event in slices:
        by_thread[event["pid"], event["tid"]].append(event)
    for thread, events in by_thread.items():
        opened: list[Fraction] = []
        for event in sorted(events, key=lambda event: (event["ts"], -event["dur"])):
            end = event["ts"] + event["dur"]
            while opened and opened[-1] <= event["ts"]:
                opened.pop()
            if opened and opened[-1] < end:
                broken.append(f"{event['name']} on {thread} ends outside of the slice that it begins in")
            opened.append(end)
    return broken


def _names(events: list[Event], slices: list[Event]) -> list[str]:
    processes = {event["pid"] for event in events if event["name"] == "process_name"}
    threads = {(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"}
    used = {(event["pid"], event["tid"]) for event in slices}
    return [f"process {pid} has no name" for pid, _ in used if pid not in processes] + [
        f"thread {thread} has no name" for thread in used - threads
    ]


def _flows(events: list[Event]) -> tuple[list[Flow], list[str]]:
    """As the importer goes: by time, then by place in the file; a flow binds to the latest slice begun on its thread."""
    order = sorted(
        (i for i, event in enumerate(events) if event["ph"] in ("X", "s", "f")), key=lambda i: (events[i]["ts"], i)
    )
    latest: dict[tuple[int, int], Event] = {}
    begun: dict[tuple[int, str, str], str] = {}
    flows: list[Flow] = []
    broken: list[str] = []
    for i in order:
        event = events[i]
        thread = event["pid"], event["tid"]
        if event["ph"] == "X":
            latest[thread] = event
            continue
        key = event["id"], event["cat"], event["name"]
        slice_ = latest.get(thread)
        if slice_ is None or not slice_["ts"] <= event["ts"] <= slice_["ts"] + slice_["dur"]:
            broken.append(f"event {i}: the flow {key} is in no slice")
        elif event["ph"] == "s":
            if key in begun:
                broken.append(f"event {i}: the flow {key} begins twice")
            begun[key] = slice_["name"]
        elif key not in begun:
            broken.append(f"event {i}: the flow {key} ends before it begins")
        else:
            flows.append(Flow(begun.pop(key), slice_["name"]))
    return flows, broken + [f"the flow {key} does not end" for key in begun]
