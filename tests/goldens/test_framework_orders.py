"""The orders that frameworks generate, equal to ours op by op."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest
import timed_facts
from framework_orders import cells, framework, framework_names

from pptrace.analysis.difference import order_differences
from pptrace.costs import Costs, values
from pptrace.model import Placement
from pptrace.schedules.registry import Params, build
from pptrace.timeline import simulate_schedule

TARGETS = {
    "deepspeed_train": ("1f1b", 18),
    "jaxpp_gpipe": ("gpipe", 18),
    "jaxpp_std1f1b": ("1f1b", 18),
    "jaxpp_eager1f1b": ("eager-1f1b", 18),
    "jaxpp_zerobubble": ("zb-h1", 14),
    "megatron_interleaved": ("interleaved", 36),
    "sail_vhalf": ("v-half", 18),
    "sail_vmin": ("v-min", 18),
    "deepseek_dualpipe": ("dualpipe", 9),
    "chimera": ("chimera", 5),
}
"""Family of files, our name, and how many files there are."""


@pytest.mark.parametrize("family", TARGETS)
def test_every_file_of_the_family_is_there(family: str) -> None:
    assert len(framework_names(family)) == TARGETS[family][1]


@pytest.mark.parametrize(("family", "path"), [(family, path) for family in TARGETS for path in framework_names(family)])
def test_same_order(family: str, path: str) -> None:
    name = TARGETS[family][0]
    written = framework(path)
    chunks = re.search(r"_v(\d+)", path)
    params = Params(
        written.num_ranks,
        written.num_microbatches,
        int(chunks[1]) if chunks and name == "interleaved" else None,
    )
    assert cells(build(name, params)) == written.cells


def test_jaxpp_dualpipev_is_another_order_and_slower() -> None:
    """P4 M8, F=I=W=1 an op: JaxPP's 57 and 9 idle against 54 and 6."""
    theirs = framework("goldens/framework_orders/jaxpp_dualpipev_P4_M8_v2.json")
    assert _elapsed_and_idle(theirs.schedule(Placement.zigzag(4))) == (57, {9})
    assert _elapsed_and_idle(build("dualpipev", Params(4, 8))) == (54, {6})


def test_jaxpp_dualpipev_parts_from_deepseeks_order_where_the_last_backwards_are_split() -> None:
    """By cell, an overlapped pair counts once: JaxPP keeps whole the backwards of which DeepSeek and PyTorch put off the W."""
    theirs = framework("goldens/framework_orders/jaxpp_dualpipev_P4_M8_v2.json").schedule(Placement.zigzag(4))
    parted = order_differences(theirs, build("dualpipev", Params(4, 8)))
    assert [(at.rank, at.position, " ".join(map(str, (*at.first, *at.second)))) for at in parted] == [
        (0, 26, "0B4 0I4"),
        (1, 25, "1B5 1I5"),
        (2, 23, "5B7 5I7"),
        (3, 22, "3B6 3I6"),
    ]


def _elapsed_and_idle(schedule) -> tuple[Fraction, set[Fraction]]:
    costs = Costs(values(1, per="op"), values(2, per="op"), values(1, per="op"))
    facts = timed_facts.facts(simulate_schedule(schedule, costs))
    return facts.makespan, set(facts.idle)
