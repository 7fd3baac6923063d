"""Every figure of a trace follows from its events: worked out here from the JSON alone, without a line of the package."""

from __future__ import annotations

import json
from fractions import Fraction
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner

from pptrace.cli import main
from pptrace.schedules.registry import entry, names

NUMBERS = ("1", "2", "3/2", "0.25", "1/3")


def line(name: str, random: Random) -> list[str]:
    """A command line with sizes, costs and options as they come."""
    num_ranks = random.choice([2, 4])
    num = random.choice([1, 2, 3, 5, 8])
    if name in ("dualpipe", "dualpipev", "chimera"):
        num = 2 * num_ranks
    if name == "pipedream-2bw":
        num = max(num, num_ranks)

    def numbers() -> str:
        return ",".join(random.choice(NUMBERS) for _ in range(random.choice([1, num_ranks])))

    args = [name, "-P", str(num_ranks), "-M", str(num), "-f", numbers(), "-b", "4", "-w", "0.2"]
    args += ["-c", random.choice(("0", *NUMBERS)), "--link", random.choice(["latency", "serial"])]
    args += ["--reduce", random.choice(NUMBERS), "--steps", random.choice(["1", "2"])]
    if name in ("gpipe", "1f1b", "eager-1f1b", "naive"):
        args += random.choice([[], ["--recompute", "full"], ["--recompute", "early"], ["--split-backward"]])
    if not entry(name).asynchronous:
        args += ["--optimizer", random.choice(["barrier", "per-stage"])]
    return args


def trace(args: list[str]) -> dict[str, Any]:
    result = CliRunner().invoke(main, ["trace", *args])
    assert (result.exit_code, result.stderr) == (0, ""), args
    return json.loads(result.stdout)


class Facts:
    """The events of a trace by rank, and what follows from them. A block of two ops counts once."""

    def __init__(self, found: dict[str, Any]) -> None:
        self.trace = found
        self.num_ranks = found["schedule"]["ranks"]
        self.work = [
            [e for e in found["events"] if e["rank"] == r and e["op"] in "FBIWR"] for r in range(self.num_ranks)
        ]
        self.begin = min(e["start"] for ops in self.work for e in ops)
        self.end = max(e["end"] for ops in self.work for e in ops)
        self.elapsed = self.end - self.begin
        self.busy = [sum(end - start for start, end in {(e["start"], e["end"]) for e in ops}) for ops in self.work]
        self.idle = [self.elapsed - own for own in self.busy]
        self.spans = [max(e["end"] for e in ops) - min(e["start"] for e in ops) for ops in self.work]

    def metric(self, key: str) -> list[Fraction]:
        values = next(m["values"] for m in self.trace["metrics"] if m["key"] == key)
        return [Fraction(value["numerator"], value["denominator"]) for value in values]


def check_metrics(facts: Facts) -> None:
    total = facts.num_ranks * facts.elapsed
    steps, num = facts.trace["schedule"]["steps"], facts.trace["schedule"]["microbatches"]
    longest, busiest = max(facts.spans), max(facts.busy)
    wanted = {
        "elapsed": [facts.elapsed],
        "ideal": facts.busy,
        "busiest": [busiest],
        "balanced": [Fraction(sum(facts.busy), facts.num_ranks)],
        "bubble_time": facts.idle,
        "bubble_over_elapsed": [Fraction(sum(facts.idle), total)],
        "bubble_over_ideal": [Fraction(sum(facts.idle), sum(facts.busy))],
        "utilization": [Fraction(sum(facts.busy), total)],
        "span_bubble_rate": [Fraction(longest - busiest, longest)],
        "longest_span": [longest],
        "internal_idle": [span - own for span, own in zip(facts.spans, facts.busy, strict=True)],
        "throughput": [Fraction(num * steps * facts.trace["ticks_per_unit"], facts.elapsed)],
        "step_time": [max(e["end"] for e in facts.trace["events"] if not e["op"].startswith("SEND")) - facts.end],
    }
    assert {key: facts.metric(key) for key in wanted} == wanted
    assert busiest <= facts.metric("lower_bound")[0] <= facts.elapsed


def check_idle(facts: Facts) -> None:
    found = facts.trace["idle"]
    for rank, parts in enumerate(found["parts"]):
        slots = [slot for slot in found["slots"] if slot["rank"] == rank]
        assert sum(parts.values()) == sum(slot["end"] - slot["start"] for slot in slots) == facts.idle[rank]
        assert parts["fill"] == min(e["start"] for e in facts.work[rank]) - facts.begin
        assert parts["drain"] == facts.end - max(e["end"] for e in facts.work[rank])
    budget = dict(found["budget"])
    assert budget["imbalance"] == sum(max(facts.busy) - own for own in facts.busy)
    assert budget.pop("total") == sum(budget.values()) == sum(facts.idle)


def check_peaks(facts: Facts) -> None:
    for rank, peak in enumerate(facts.trace["memory"]["peaks"]):
        lives = [life for life in facts.trace["lifetimes"] if (life["kind"], life["rank"]) == ("activation", rank)]

        def alive(tick: int, lives: list[dict[str, Any]] = lives) -> list[list[int]]:
            here = [life for life in lives if life["start"] <= tick < life["end"]]
            return sorted([life["stage"], life["microbatch"], life["step"]] for life in here)

        ticks = sorted({life["start"] for life in lives})
        most = max(len(alive(tick)) for tick in ticks)
        first = next(tick for tick in ticks if len(alive(tick)) == most)
        assert (peak["held"], peak["at"], sorted(peak["owners"])) == (most, first, alive(first))
        assert facts.metric("peak_activations")[rank] == most
        curve = facts.trace["memory"]["held"][rank]
        assert [[tick, len(alive(tick))] for tick, _ in curve] == curve


def check_starts(facts: Facts) -> None:
    """Every op starts as soon as its rank is free and what it waits for has arrived; a block when both its inputs have."""
    events = {event["id"]: event for event in facts.trace["events"]}
    arrival = {event["after"][0]: event["end"] for event in events.values() if event["op"].startswith("SEND")}
    reduced: dict[int, int] = {}
    for event in events.values():
        if event["op"] == "REDUCE":
            reduced[event["step"]] = max(event["end"], reduced.get(event["step"], 0))
    for rank in range(facts.num_ranks):
        free = 0
        ops = [e for e in facts.trace["events"] if e["rank"] == rank and not e["op"].startswith("SEND")]
        for place, event in enumerate(ops):
            together = [e for e in ops[place : place + 2] if "block" in event and e.get("block") == event["block"]] or [
                event
            ]
            if event is not together[0] or (
                "block" in event and place and ops[place - 1].get("block") == event["block"]
            ):
                continue
            ready = [free, *(reduced[e["step"]] for e in together if "after_all" in e)]
            for awaited in (events[name] for e in together for name in e["after"]):
                travels = awaited["rank"] != rank and event["op"] not in ("REDUCE", "STEP")
                ready.append(arrival.get(awaited["id"], awaited["end"]) if travels else awaited["end"])
            assert event["start"] == max(ready), event
            free = event["end"]


@pytest.mark.parametrize("name", names())
def test_every_figure_of_a_trace_follows_from_its_events(name: str) -> None:
    random = Random(name)
    for _ in range(6):
        args = line(name, random)
        facts = Facts(trace(args))
        check_metrics(facts)
        check_idle(facts)
        check_peaks(facts)
        check_starts(facts)
        assert [form for form in facts.trace["closed_forms"] if form["verdict"] == "differs"] == [], args
