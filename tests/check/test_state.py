"""Kept state: slots, limits, lifetimes, and whose activation a backward takes."""

from __future__ import annotations

import pytest
from faults import codes, only

from pptrace.check.checker import CheckOptions, check
from pptrace.check.state import StoredLifetime
from pptrace.errors import ParameterError
from pptrace.model import Op, OpKind
from pptrace.schedules.registry import Params, build
from pptrace.timeline import simulate_schedule


def test_a_ring_as_long_as_the_peak_is_enough():
    """1f1b P4 M8 holds 4 3 2 1: four slots do, with three rank 0 overwrites microbatch 0 at F3."""
    schedule = build("1f1b", Params(4, 8))
    assert codes(schedule, buffers=4) == []
    finding = only(schedule, buffers=3)
    assert (finding.code, finding.place.rank, finding.place.position) == ("activation-overwritten", 0, 3)
    assert finding.sentence.startswith(
        "0F3 overwrites slot 0 of 3, where the activation of microbatch 0 of stage 0 still waits for its backward"
    )


def test_more_live_activations_than_allowed():
    """gpipe P2 M4 holds 4 on both ranks."""
    schedule = build("gpipe", Params(2, 4))
    assert codes(schedule, max_activations=4) == []
    found = check(schedule, CheckOptions(max_activations=3)).findings
    assert [(f.code, f.place.rank, f.ops) for f in found] == [
        ("too-many-activations", 0, ("0F3",)),
        ("too-many-activations", 1, ("1F3",)),
    ]


def test_split_backwards_hold_until_w():
    """zb-h1 P4 M8 holds 4 on every rank until W."""
    schedule = build("zb-h1", Params(4, 8))
    assert codes(schedule, max_activations=4) == []
    assert codes(schedule, max_activations=3) == ["too-many-activations"] * 4


def test_the_oldest_of_a_queue_belongs_to_another_microbatch_where_backwards_are_lifo():
    fifo, lifo = (build("gpipe", Params(2, 3, order=order)) for order in ("fifo", "lifo"))
    assert codes(fifo, release="oldest") == []
    found = check(lifo, CheckOptions(release="oldest")).findings
    assert [(f.code, f.place.rank) for f in found] == [("released-for-another", 0), ("released-for-another", 1)]
    assert found[0].sentence.startswith("0B2 would take and release the activation of microbatch 0, the oldest one")


@pytest.mark.parametrize(
    ("end", "released_by", "code"),
    [
        (8, None, []),
        (7, None, ["used-after-release"]),
        (10, None, ["never-released"]),
        (None, None, ["never-released"]),
        (8, Op(0, OpKind.B, 1), []),
        (4, Op(0, OpKind.B, 0), ["released-for-another"]),
    ],
)
def test_the_lifetimes_that_a_trace_states(end, released_by, code):
    """naive P2 M2, f=b=1: 0F1 runs in [4, 5), 0B1 in [7, 8): the activation of (0, 1) lives in [4, 8)."""
    timeline = simulate_schedule(build("naive", Params(2, 2)))
    found = check(timeline, lifetimes=[StoredLifetime(0, 1, 0, 4, end, released_by)]).findings
    assert [finding.code for finding in found] == code


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sends": "fast"}, "--sends is buffered or rendezvous"),
        ({"grouping": "all"}, "--grouping is per-op or batched"),
        ({"release": "newest"}, "--release is own or oldest"),
        ({"buffers": 0}, "--buffers must be at least 1, got 0"),
        ({"max_activations": -1}, "--max-activations must be at least 1, got -1"),
        ({"num_microbatches": 0}, "-M \\(microbatches\\) must be at least 1"),
        ({"tolerance": -1}, "--tolerance must be zero or more"),
    ],
)
def test_options_that_are_none(options, message):
    with pytest.raises(ParameterError, match=message):
        check(build("1f1b", Params(2, 2)), CheckOptions(**options))
