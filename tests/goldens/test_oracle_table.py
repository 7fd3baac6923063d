"""Every row of the oracle table, an independent simulator's figures: makespan, spans, idle and peaks per rank."""

from __future__ import annotations

from collections import Counter, defaultdict
from fractions import Fraction
from functools import cache

import framework_orders
import golden_data
import pytest
import timed_facts

from pptrace.analysis.report import Report
from pptrace.costs import Costs, values
from pptrace.model import Placement, Schedule
from pptrace.schedules.registry import Params, build
from pptrace.timeline import Timeline, simulate_schedule

Row = dict[str, str]

OURS = {
    "gpipe": "gpipe",
    "gpipe_lifo": "gpipe",
    "1f1b": "1f1b",
    "eager_1f1b": "eager-1f1b",
    "interleaved_torch": "interleaved",
    "interleaved_megatron_groupP": "interleaved",
    "looped_bfs": "looped-bfs",
    "zbh1": "zb-h1",
    "zbh2": "zb-h2",
    "zbv_torch": "zb-v",
    "dualpipev": "dualpipev",
    "vhalf_sail": "v-half",
    "vmin_sail": "v-min",
    "zbv_sail": None,  # not ours: its orders are read from framework_orders/
}
"""The table's names, and what this library calls the same order."""

NUM_ROWS = 5538 - 63
"""zbv_sail has no order for M=3."""


def test_the_table_is_tested_whole() -> None:
    assert sum(len(batch) for batch in BATCHES.values()) == NUM_ROWS
    assert {row["schedule"] for batch in BATCHES.values() for row in batch} == set(OURS)


def _batches() -> dict[tuple[str, int], list[Row]]:
    batches = defaultdict(list)
    for row in golden_data.rows("goldens/oracle_table.csv"):
        if (row["schedule"], row["M"]) != ("zbv_sail", "3"):
            batches[row["schedule"], int(row["P"])].append(row)
    return dict(batches)


BATCHES = _batches()


@pytest.mark.parametrize(("name", "num_ranks"), list(BATCHES), ids=lambda value: str(value))
def test_rows(name: str, num_ranks: int) -> None:
    batch = BATCHES[name, num_ranks]
    wrong = [text for row in batch for text in _differences(row)]
    summary = Counter(text.split(": ")[1].split()[0] for text in wrong)
    assert not wrong, f"{len(wrong)} figures of {len(batch)} rows differ ({dict(summary)}):\n" + "\n".join(wrong[:8])


def _differences(row: Row) -> list[str]:
    timeline = simulate_schedule(
        _order(row["schedule"], int(row["P"]), int(row["M"]), int(row["v"])),
        Costs(
            forward=values(row["f"]),
            backward=values(row["b"]),
            weight_grad=values(row["bw"]),
            comm=(Fraction(row["lat"]),),
            overlap=row["fused"],
        ),
    )
    place = " ".join(f"{key}={row[key]}" for key in ("schedule", "P", "M", "v", "f", "b", "bw", "lat", "fused"))
    return [
        f"{place}: {column} {_text(got)} ({whose}), the table says {row[column]}"
        for whose, columns in (("traced", _columns), ("reported", _reported))
        for column, got in columns(row["schedule"], timeline).items()
        if got != [Fraction(number) for number in row[column].split()]
    ]


def _kept(name: str) -> Fraction:
    """The M_W of the table's column peak_start: what of an activation is kept between I and W."""
    return Fraction(1, 2) if name in ("zbh1", "zbh2") else Fraction(0)


def _columns(name: str, timeline: Timeline) -> dict[str, list[Fraction]]:
    """The table's columns by the tests' own reading of the starts and ends."""
    facts = timed_facts.facts(timeline)
    return {
        "makespan": [facts.makespan],
        "max_span": [facts.max_span],
        "bubble_frac_elapsed": [facts.idle_over_elapsed],
        "bubble_over_ideal": [facts.idle_over_busy],
        "bubble_rate_span": [facts.span_rate],
        "idle": facts.idle,
        "inner_idle": facts.inner_idle,
        "peak_start": timed_facts.peaks(timeline, _kept(name)),
        "peak_until_W": timed_facts.peaks(timeline),
    }


def _reported(name: str, timeline: Timeline) -> dict[str, list[Fraction]]:
    """The same columns as the library reports them."""
    report, unit = Report(timeline), timeline.ticks_per_unit

    def values_of(key: str) -> list[Fraction]:
        metric = report.metrics[key]
        scale = unit if metric.unit == "time" else 1
        return [Fraction(ratio.numerator, ratio.denominator * scale) for ratio in metric.values]

    return {
        "makespan": values_of("elapsed"),
        "max_span": values_of("longest_span"),
        "bubble_frac_elapsed": values_of("bubble_over_elapsed"),
        "bubble_over_ideal": values_of("bubble_over_ideal"),
        "bubble_rate_span": values_of("span_bubble_rate"),
        "idle": values_of("bubble_time"),
        "inner_idle": values_of("internal_idle"),
        "peak_start": [
            Fraction(report.memory.weighted_peak(rank, 1, _kept(name))) for rank in range(timeline.schedule.num_ranks)
        ],
        "peak_until_W": values_of("peak_activations"),
    }


@cache
def _order(name: str, num_ranks: int, num_microbatches: int, num_chunks: int) -> Schedule:
    ours = OURS[name]
    if ours is None:
        path = f"goldens/framework_orders/sail_zbv_P{num_ranks}_M{num_microbatches}_v2.json"
        return framework_orders.framework(path).schedule(Placement.zigzag(num_ranks))
    return build(
        ours,
        Params(
            num_ranks,
            num_microbatches,
            num_chunks if ours in ("interleaved", "looped-bfs") else None,
            group=num_ranks if name == "interleaved_megatron_groupP" else None,
            order="lifo" if name == "gpipe_lifo" else None,
        ),
    )


def _text(numbers: list[Fraction]) -> str:
    return " ".join(map(str, numbers))
